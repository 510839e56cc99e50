# fmt: off
# ruff: noqa
"""`dynograd.multiprocessing`, which is `dynograd.compat.multiprocessing`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.multiprocessing import get_all_sharing_strategies as get_all_sharing_strategies
from dynograd.compat.multiprocessing import get_sharing_strategy as get_sharing_strategy
from dynograd.compat.multiprocessing import set_sharing_strategy as set_sharing_strategy
