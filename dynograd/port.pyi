# fmt: off
# ruff: noqa
"""`dynograd.port`, which is `dynograd.tools.port`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tools.port import main as main
from dynograd.tools.port import missing as missing
from dynograd.tools.port import names_used as names_used
