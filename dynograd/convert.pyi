# fmt: off
# ruff: noqa
"""`dynograd.convert`, which is `dynograd.tools.convert`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tools.convert import main as main
