# fmt: off
# ruff: noqa
"""`dynograd.warming`, which is `dynograd.tools.warming`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.tools.warming import PROGRAMS as PROGRAMS
from dynograd.tools.warming import main as main
from dynograd.tools.warming import warmup as warmup
