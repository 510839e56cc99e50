# fmt: off
# ruff: noqa
"""`dynograd.run`, which is `dynograd.tools.run`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tools.run import main as main
