# fmt: off
# ruff: noqa
"""`dynograd.serving`, which is `dynograd.tools.serving`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tools.serving import Batcher as Batcher
from dynograd.tools.serving import Caller as Caller
from dynograd.tools.serving import Model as Model
from dynograd.tools.serving import Service as Service
