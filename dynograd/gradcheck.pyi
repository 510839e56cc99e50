# fmt: off
# ruff: noqa
"""`dynograd.gradcheck`, which is `dynograd.transforms.gradcheck`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.transforms.gradcheck import GradcheckError as GradcheckError
from dynograd.transforms.gradcheck import gradcheck as gradcheck
from dynograd.transforms.gradcheck import gradgradcheck as gradgradcheck
