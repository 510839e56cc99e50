"""DataLoader: batches of a data set, made in the program's process or by workers, with the same content either way."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from dynograd.base.random_streams import Generator
from dynograd.data.collate import default_collate, default_convert
from dynograd.data.dataset import Dataset, IterableDataset, TensorDataset
from dynograd.data.iteration import Hired, Iteration, ManyProcesses, OneProcess, sizes_of
from dynograd.data.options import as_context, check_exclusive, check_iterable, check_workers
from dynograd.data.positions import VERSION, beginnings, check_state, owner_of_state, restore
from dynograd.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from dynograd.data.seeding import Seeder
from dynograd.data.statistics import Statistics
from dynograd.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Batch = TypeVarWithDefault("Batch", covariant=True, default=Any)
else:
    Batch = TypeVar("Batch", covariant=True)

__all__ = ["DataLoader", "Endless"]

T_co = TypeVar("T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[T_co, Batch]):
    """Iterating over it gives the batches of one epoch.

    **Random numbers.** Before a sample is read, Python's `random`, NumPy's global generator and dynograd's default generator are
    seeded by (seed of the epoch, index of the sample), and again before a collate_fn of yours. So a random augmentation is the same
    with 0, 1 or many workers, persistent or not, and differs between epochs. The epoch's seed comes out of `generator` (the default
    generator by default): `manual_seed` fixes it. Without workers your generators are left as they were.

    **Errors.** What the dataset or collate_fn raises is raised here, of its own type, with notes that name the index, and for a worker
    its number and the original traceback. A worker that dies is a WorkerDied, one that is silent for `timeout` seconds a LoaderError; they
    name what it was working on. Workers end with the iterator: after the last batch, a `break`, an error or the end of the program.

    **Going on.** `state_dict()` says where the loader stands, also within an epoch; `statistics` how much of the epoch's batches was padding.

    Args:
        dataset: has `__getitem__` and `__len__` (map style), or is an IterableDataset.
        batch_size: samples per batch; None gives single samples, not collated.
        shuffle: a new random order every epoch.
        sampler: gives the indices, instead of `shuffle`. Any iterable will do.
        batch_sampler: gives the lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: processes that make batches ahead of time; 0 makes them when they are asked for.
        collate_fn: makes a batch out of the list of samples; `default_collate` by default, `collate_pad()` pads.
        pin_memory: put batches into pinned memory, from which `to("cuda", non_blocking=True)` does not wait; without a GPU
            nothing is done.
        drop_last: leave out a last batch that is shorter than `batch_size`.
        timeout: seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: called in each worker with its number, before it reads anything.
        multiprocessing_context: a start method or context; by default fork on Linux.
        generator: where the order of `shuffle` and the epoch's seed come from.
        prefetch_factor: batches that each worker has under way; 2 by default.
        persistent_workers: keep the workers for the next epoch.
        pin_memory_device: accepted.
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
    _hired: Hired | None = None
    _latest: Any = None
    _resumed: dict | None = None
    _seeder: Seeder | None = None

    @overload
    def __init__(
        self: DataLoader[tuple[Tensor, ...], list[Tensor]],
        dataset: TensorDataset,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: Dataset[T_co] | Sequence[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Batch] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None: ...
    def __init__(
        self,
        dataset: Dataset[Any] | Sequence[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            check_iterable(shuffle, sampler, batch_sampler)
        check_exclusive(batch_size, shuffle, sampler, batch_sampler, drop_last)

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
        self._statistics = Statistics()
        self._reported_length: int | None = None

        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            if iterable:
                sampler = Endless()
            else:
                sized: Any = dataset
                sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
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

    if not TYPE_CHECKING:
        # `DataLoader[Sample]` as in PyTorch, or `DataLoader[Sample, Batch]`.
        __class_getitem__ = classmethod(GenericAlias)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized. Make a new {type(self).__name__}."
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the workers; None stands for the default.

        >>> print(DataLoader(range(3)).multiprocessing_context)
        None
        """
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, chosen: Any) -> None:
        self._context = None if chosen is None else as_context(chosen, self.num_workers)

    @property
    def statistics(self) -> Statistics:
        """How much of the epoch's batches was padding, and how long was waited for them.

        >>> DataLoader(range(3)).statistics.elements
        0
        """
        return self._statistics

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are asked for one by one and joined; else the data set is asked once for what `_index_sampler` gives."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iteration[Batch]:
        resumed, self._resumed = self._resumed, None
        iteration = (OneProcess if self.num_workers == 0 else ManyProcesses)(self, resumed)
        self._latest = weakref.ref(iteration)
        return iteration

    def _under_way(self) -> Iteration[Any] | None:
        latest = self._latest() if self._latest is not None else None
        return None if latest is None or latest.is_finished else latest

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, as a dict of numbers, strings, lists and arrays: for `load_state_dict` of a loader made in the same way.

        In the middle of an epoch that is after the last batch that was given, whatever the workers have already made. An epoch
        left by `break` is over. The order and the random numbers of samples are continued exactly, with any number of workers;
        not stored are the program's generators (`save_run` does that) and what a data set remembers.

        A sampler of yours is run again up to where it was: its generators, and the numbers, lists and arrays among
        its attributes, are stored as they were when the epoch began. One that has `state_dict` and `load_state_dict`
        is asked instead, after each batch; then its `__iter__` must go on from there. Streams (IterableDataset) are
        read again up to where they were, with equally many workers.

        Returns:
            a dict.

        >>> loader = DataLoader(range(6), batch_size=2, shuffle=True)
        >>> batches = iter(loader)
        >>> first, state = next(batches), loader.state_dict()
        >>> rest = [batch.tolist() for batch in batches]
        >>> loader.load_state_dict(state)
        >>> [batch.tolist() for batch in loader] == rest
        True
        """
        if self._resumed is not None:
            return copy.deepcopy(self._resumed)
        if (latest := self._under_way()) is not None:
            return copy.deepcopy(latest.state())
        owner = owner_of_state(self)
        return {
            "version": VERSION,
            "in_progress": False,
            "beginnings": beginnings(self),
            "sampler": None if owner is None else copy.deepcopy(owner.state_dict()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Lets the next `iter(loader)` go on where `state_dict` was called.

        Args:
            state: what `state_dict()` gave.
        Raises:
            LoaderError: not a state, or one from the middle of an epoch of another batch size, number of samples or
                of workers of a stream.

        >>> loader = DataLoader(range(4), batch_size=2)
        >>> loader.load_state_dict(loader.state_dict())
        >>> [batch.tolist() for batch in loader]
        [[0, 1], [2, 3]]
        """
        check_state(self, state, sizes_of(self))
        state = copy.deepcopy(state)
        if state["in_progress"]:
            self._resumed = state
            return
        self._resumed = self._latest = None
        restore(self, state["beginnings"], with_global=False)
        if (owner := owner_of_state(self)) is not None and state["sampler"] is not None:
            owner.load_state_dict(state["sampler"])

    def __len__(self) -> int:
        """How many batches an epoch has."""
        if not isinstance(self.dataset, IterableDataset):
            latest = self._under_way()
            return len(self._index_sampler) if latest is None else len(latest)
        length = self._reported_length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)


class Endless(Sampler):
    """Asks an iterable data set for one more, again and again."""

    may_repeat = False

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None
