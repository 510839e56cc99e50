# fmt: off
# ruff: noqa
"""`dynograd.cpu`, which is `dynograd.compat.cpu`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.cpu import amp as amp
