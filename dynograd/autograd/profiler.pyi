# fmt: off
# ruff: noqa
"""`dynograd.autograd.profiler`, which is `dynograd.profiler.legacy`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.profiler.legacy import EventList as EventList
from dynograd.profiler.legacy import FunctionEvent as FunctionEvent
from dynograd.profiler.legacy import FunctionEventAvg as FunctionEventAvg
from dynograd.profiler.legacy import emit_itt as emit_itt
from dynograd.profiler.legacy import emit_nvtx as emit_nvtx
from dynograd.profiler.legacy import profile as profile
from dynograd.profiler.legacy import record_function as record_function
