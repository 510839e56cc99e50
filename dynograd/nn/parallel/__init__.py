"""Models on several devices: `DataParallel` in one process with several GPUs, `DistributedDataParallel` in several processes."""

from dynograd.nn.parallel.data_parallel import DataParallel, data_parallel
from dynograd.nn.parallel.distributed import DistributedDataParallel
from dynograd.nn.parallel.parallel_apply import parallel_apply
from dynograd.nn.parallel.replicate import replicate
from dynograd.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
