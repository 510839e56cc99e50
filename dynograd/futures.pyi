# fmt: off
# ruff: noqa
"""`dynograd.futures`, which is `dynograd.compat.futures`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.futures import Future as Future
from dynograd.compat.futures import collect_all as collect_all
from dynograd.compat.futures import wait_all as wait_all
