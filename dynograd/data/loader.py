"""DataLoader: batches of a data set, made in the program's process or by workers, with the same content either way."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynograd import cuda
from dynograd.data.collate import default_collate, default_convert
from dynograd.data.dataset import IterableDataset
from dynograd.data.fetch import END, Stop, Task, make_fetch
from dynograd.data.pinning import pinned_batch
from dynograd.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from dynograd.data.seeding import Undisturbed, draw_seed
from dynograd.data.worker import Setup
from dynograd.errors import LoaderError
from dynograd.random_streams import Generator

__all__ = ["DataLoader"]

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Iterating over it gives the batches of one epoch.

    **Random numbers.** Before a sample is read, Python's `random`, NumPy's global generator and dynograd's default generator are
    seeded by (seed of the epoch, index of the sample), and again before a collate_fn of yours. So a random augmentation is the same
    with 0, 1 or many workers, persistent or not, and differs between epochs. The epoch's seed comes out of `generator` (the default
    generator by default): `manual_seed` fixes it. Without workers your generators are left as they were.

    **Errors.** What the dataset or collate_fn raises is raised here, of its own type, with notes that name the index, and for a worker
    its number and the original traceback. A worker that dies, or is silent for `timeout` seconds, is a LoaderError that names what
    it was working on. Workers end with the iterator: after the last batch, a `break`, an error or the end of the program.

    Args:
        dataset: has `__getitem__` and `__len__` (map style), or is an IterableDataset.
        batch_size: samples per batch; None gives single samples, not collated.
        shuffle: a new random order every epoch.
        sampler: gives the indices, instead of `shuffle`. Any iterable will do.
        batch_sampler: gives the lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: processes that make batches ahead of time; 0 makes them when they are asked for.
        collate_fn: makes a batch out of the list of samples; `default_collate` by default, `collate_pad()` pads.
        pin_memory: put batches into pinned memory, from which `to("cuda", non_blocking=True)` does not wait; without a GPU
            nothing is done. `pin_memory_device` is accepted.
        drop_last: leave out a last batch that is shorter than `batch_size`.
        timeout: seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: called in each worker with its number, before it reads anything.
        multiprocessing_context: a start method or context; by default fork on Linux.
        generator: where the order of `shuffle` and the epoch's seed come from.
        prefetch_factor: batches that each worker has under way; 2 by default.
        persistent_workers: keep the workers for the next epoch.
        in_order: give batches in the order of the sampler; False gives whichever is ready.
    Raises:
        ValueError: arguments that exclude each other or are out of range, or a dataset without samples.

    >>> loader = DataLoader([(0.0, 1), (1.0, 2), (2.0, 3)], batch_size=2)
    >>> for x, y in loader:
    ...     print(x.tolist(), y.tolist())
    [0.0, 1.0] [1, 2]
    [2.0] [3]
    """

    _initialized = False
    _iterator: Any = None

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler | Iterable | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_exclusive(batch_size, shuffle, sampler, batch_sampler, drop_last)

        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self._reported_length: int | None = None

        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            if iterable:
                sampler = _Endless()
            else:
                if batch_sampler is None:
                    _check_not_empty(dataset)
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized. Make a new {type(self).__name__}."
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the workers; None stands for the default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, chosen: Any) -> None:
        self._context = None if chosen is None else _as_context(chosen, self.num_workers)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return _OneProcess(self)
        if not self.persistent_workers:
            return _ManyProcesses(self)
        if self._iterator is None or self._iterator.is_closed:
            self._iterator = _ManyProcesses(self)
        else:
            self._iterator.start_epoch(self)
        return self._iterator

    def __len__(self) -> int:
        """How many batches an epoch has."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = self._reported_length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)


class _Iteration:
    """What both kinds of iteration share: tasks and the epoch's seed."""

    def __init__(self, loader: DataLoader) -> None:
        self._batched = loader.batch_sampler is not None
        self._iterable = isinstance(loader.dataset, IterableDataset)
        self._start(loader)

    def _start(self, loader: DataLoader) -> None:
        self._index_sampler = loader._index_sampler
        self._tasks = _tasks(self._index_sampler, self._batched)
        self._seed = draw_seed(loader.generator)
        self._reported = loader._reported_length if self._iterable else None
        self._batch_size = loader.batch_size or 1
        self._pins = loader.pin_memory and cuda.is_available()
        self._given = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __next__(self) -> Any:
        batch = self._next()
        self._given += 1
        if self._reported is not None and self._given > math.ceil(self._reported / self._batch_size):
            warnings.warn(
                f"Length of IterableDataset was reported to be {self._reported} (by len of the DataLoader), but more than "
                f"{(self._given - 1) * self._batch_size} samples have been fetched. With workers, each iterates over its own copy: "
                f"share the work by get_worker_info().",
                stacklevel=2,
            )
            self._reported = None
        return pinned_batch(batch) if self._pins else batch

    def _next(self) -> Any:
        raise NotImplementedError


class _OneProcess(_Iteration):
    """Batches made when they are asked for."""

    def _start(self, loader: DataLoader) -> None:
        super()._start(loader)
        options = (loader.collate_fn, self._batched, loader.drop_last)
        self._fetch = make_fetch(loader.dataset, *options, self._seed, 0, Stop())

    def _next(self) -> Any:
        task = next(self._tasks)
        if not self._fetch.draws:
            return self._fetch(task)
        with Undisturbed():
            batch = self._fetch(task)
        if batch is END:
            self._tasks = iter(())
            raise StopIteration
        return batch


class _ManyProcesses(_Iteration):
    """Batches made by workers, who end when this object does."""

    def __init__(self, loader: DataLoader) -> None:
        from dynograd.data.processes import Crew, default_context

        super().__init__(loader)
        self._persistent = loader.persistent_workers
        setups = [
            Setup(
                worker_id=worker_id,
                num_workers=loader.num_workers,
                dataset=loader.dataset,
                collate_fn=loader.collate_fn,
                batched=self._batched,
                drop_last=loader.drop_last,
                worker_init_fn=loader.worker_init_fn,
                slots=loader.prefetch_factor or 1,
                seed=self._seed,
            )
            for worker_id in range(loader.num_workers)
        ]
        context = loader.multiprocessing_context or default_context()
        self._crew = Crew(setups, context, loader.timeout, loader.in_order)
        self._end = weakref.finalize(self, self._crew.shut_down)
        self._failure: BaseException | None = None
        self._crew.start_epoch(self._tasks, self._seed, _epoch_of(loader.dataset))

    @property
    def is_closed(self) -> bool:
        return not self._end.alive

    def start_epoch(self, loader: DataLoader) -> None:
        """The next epoch, with the same workers."""
        self._start(loader)
        self._crew.start_epoch(self._tasks, self._seed, _epoch_of(loader.dataset))

    def _next(self) -> Any:
        if self.is_closed:
            if self._failure is None:
                raise StopIteration
            raise LoaderError(
                f"DataLoader: this iteration ended with {type(self._failure).__name__}, its workers are gone. "
                f"Start a new one by iter(loader)."
            )
        try:
            return self._crew.next()
        except StopIteration:
            if not self._persistent:
                self._end()
            raise
        except BaseException as error:
            # An error of one sample leaves the workers at work; an interrupted or broken conversation cannot go on.
            if self._crew.owner is None or not isinstance(error, Exception):
                self._failure = error
                self._end.detach()
                self._crew.shut_down(1.0)
            raise


class _Endless(Sampler):
    """Asks an iterable data set for one more, again and again."""

    may_repeat = False

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _tasks(sampler: Any, batched: bool) -> Iterator[Task]:
    """The epoch's tasks; positions are counted only where an index may come twice."""
    position = 0 if getattr(sampler, "may_repeat", True) else None
    for number, indices in enumerate(sampler):
        if batched and not isinstance(indices, list):
            indices = list(indices)
        yield number, indices, position
        if position is not None:
            position += len(indices) if batched else 1


def _epoch_of(dataset: Any) -> Any:
    """The epoch that the data set was told, if it is one that can be told."""
    return getattr(dataset, "epoch", None) if hasattr(dataset, "set_epoch") else None


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError(
            f"DataLoader: num_workers option should be non-negative, got {num_workers}; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, got {timeout}. 0 waits for ever.")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            f"DataLoader: prefetch_factor option could only be specified in multiprocessing, got {prefetch_factor} with num_workers=0. "
            f"Let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"DataLoader: prefetch_factor option should be positive, got {prefetch_factor}.")
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0, got num_workers=0.")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle not in (False, None):
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}. "
            f"Shuffle in its __iter__."
        )
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}. "
                f"A stream has no indices."
            )


def _check_exclusive(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError(
            f"DataLoader: sampler option is mutually exclusive with shuffle, got sampler={sampler} and shuffle={shuffle}."
        )
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            f"DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last, got "
            f"batch_size={batch_size}, shuffle={shuffle}, sampler={sampler}, drop_last={drop_last}."
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last, got drop_last=True."
        )


def _check_not_empty(dataset: Any) -> None:
    if hasattr(dataset, "__len__") and len(dataset) == 0:
        raise ValueError(
            f"DataLoader: the dataset ({type(dataset).__name__}) is empty: num_samples should be a positive integer value, but got "
            f"num_samples=0. Check how it was read or filtered."
        )


def _as_context(chosen: Any, num_workers: int) -> Any:
    if num_workers == 0:
        raise ValueError(
            f"DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}."
        )
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(chosen, str):
        methods = multiprocessing.get_all_start_methods()
        if chosen not in methods:
            raise ValueError(
                f"DataLoader: multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={chosen!r}."
            )
        return multiprocessing.get_context(chosen)
    if not isinstance(chosen, BaseContext):
        raise TypeError(
            f"DataLoader: multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={chosen!r}."
        )
    return chosen
