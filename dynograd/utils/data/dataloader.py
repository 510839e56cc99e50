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
from dynograd.data.foreign_loaders import as_loader as _as_loader
from dynograd.data.iteration import Iteration as _BaseDataLoaderIter
from dynograd.data.iteration import ManyProcesses as _ManyProcesses
from dynograd.data.iteration import OneProcess as _OneProcess
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


class _OfAnyLoader(type):
    """Of classes that are the one above them to `isinstance`, and are made of a package's own loader, too."""

    def __call__(cls, loader: Any, *rest: Any) -> _BaseDataLoaderIter:
        return super().__call__(_as_loader(loader), *rest)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1]) if cls.__module__ == __name__ else type.__instancecheck__(cls, value)


class _SingleProcessDataLoaderIter(_OneProcess, metaclass=_OfAnyLoader):
    """Batches made in this process, of a `DataLoader` or of an object with the attributes that PyTorch reads of one."""


class _MultiProcessingDataLoaderIter(_ManyProcesses, metaclass=_OfAnyLoader):
    """Batches made by workers, of a `DataLoader` or of an object with the attributes that PyTorch reads of one."""


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
