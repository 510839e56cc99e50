# fmt: off
# ruff: noqa
"""`dynograd.quasirandom`, which is `dynograd.compat.quasirandom`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.quasirandom import SobolEngine as SobolEngine
