"""Loaders of other packages: objects with the attributes that PyTorch's own iterators read of a `DataLoader`, as fastai has one."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.context import BaseContext
from typing import Any

from dynograd.data.dataset import IterableDataset
from dynograd.data.loader import DataLoader

__all__ = ["as_loader"]

_ITERABLE = 1  # PyTorch's `_DatasetKind.Iterable`


class _Stream(IterableDataset):
    """A stream by PyTorch's number for it, whatever its class. Its attributes are the original's."""

    def __init__(self, dataset: Any) -> None:
        self.original = dataset

    def __iter__(self) -> Iterator[Any]:
        return iter(self.original)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or "original" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.original, name)


def as_loader(loader: Any) -> DataLoader:
    """The loader itself, or a `DataLoader` of what another one says.

    Args:
        loader: a `DataLoader`, or an object with `dataset`, `_dataset_kind`, `_auto_collation`, `_index_sampler`, `collate_fn` and the
            options of a `DataLoader` as attributes.
    Returns:
        A DataLoader.

    >>> from dynograd.data.foreign_loaders import as_loader
    >>> loader = DataLoader(range(3))
    >>> as_loader(loader) is loader
    True
    """
    if isinstance(loader, DataLoader):
        return loader
    dataset, order = loader.dataset, {}
    if loader._dataset_kind == _ITERABLE:
        dataset = dataset if isinstance(dataset, IterableDataset) else _Stream(dataset)
        order = {"batch_size": loader.batch_size if loader._auto_collation else None, "drop_last": loader.drop_last}
    elif loader._auto_collation:
        order = {"batch_sampler": loader._index_sampler}
    else:
        order = {"batch_size": None, "sampler": loader._index_sampler}
    context = loader.multiprocessing_context
    return DataLoader(
        dataset,
        **order,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=context if isinstance(context, (str, BaseContext)) else None,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        persistent_workers=bool(loader.persistent_workers and loader.num_workers),
    )
