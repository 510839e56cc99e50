"""`torch.utils.data.dataloader`: the loader, its iterators and what collates."""

from collections.abc import Callable
from typing import Any

from dynograd.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    default_collate,
    default_convert,
    get_worker_info,
)
from dynograd.data.iteration import Iteration as _BaseDataLoaderIter
from dynograd.data.iteration import ManyProcesses as _MultiProcessingDataLoaderIter
from dynograd.data.iteration import OneProcess as _SingleProcessDataLoaderIter
from dynograd.data.loader import Endless as _InfiniteConstantSampler

__all__ = [
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "_BaseDataLoaderIter",
    "_DatasetKind",
    "_InfiniteConstantSampler",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "default_collate",
    "default_convert",
    "get_worker_info",
]


class _DatasetKind:
    """The two styles of data set, by PyTorch's numbers.

    >>> from dynograd.utils.data.dataloader import _DatasetKind
    >>> _DatasetKind.Map, _DatasetKind.Iterable
    (0, 1)
    """

    Map = 0
    Iterable = 1


_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
