# fmt: off
# ruff: noqa
"""`dynograd.accelerator`, which is `dynograd.compat.accelerator`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.compat.accelerator import Event as Event
from dynograd.compat.accelerator import Stream as Stream
from dynograd.compat.accelerator import current_accelerator as current_accelerator
from dynograd.compat.accelerator import current_device_idx as current_device_idx
from dynograd.compat.accelerator import current_device_index as current_device_index
from dynograd.compat.accelerator import current_stream as current_stream
from dynograd.compat.accelerator import device_count as device_count
from dynograd.compat.accelerator import device_index as device_index
from dynograd.compat.accelerator import empty_cache as empty_cache
from dynograd.compat.accelerator import get_device_capability as get_device_capability
from dynograd.compat.accelerator import get_memory_info as get_memory_info
from dynograd.compat.accelerator import is_available as is_available
from dynograd.compat.accelerator import max_memory_allocated as max_memory_allocated
from dynograd.compat.accelerator import max_memory_reserved as max_memory_reserved
from dynograd.compat.accelerator import memory_allocated as memory_allocated
from dynograd.compat.accelerator import memory_reserved as memory_reserved
from dynograd.compat.accelerator import memory_stats as memory_stats
from dynograd.compat.accelerator import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from dynograd.compat.accelerator import reset_peak_memory_stats as reset_peak_memory_stats
from dynograd.compat.accelerator import set_device_idx as set_device_idx
from dynograd.compat.accelerator import set_device_index as set_device_index
from dynograd.compat.accelerator import set_stream as set_stream
from dynograd.compat.accelerator import synchronize as synchronize
