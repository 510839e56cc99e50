"""One epoch over a DataLoader: batches made in the program's process, or by a crew of workers."""

from __future__ import annotations

import math
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dynograd import cuda
from dynograd.data.dataset import IterableDataset
from dynograd.data.fetch import END, SKIP, SKIPPED, Stop, Task, make_fetch
from dynograd.data.pinning import pinned_batch
from dynograd.data.positions import VERSION, Tasks, beginnings, owner_of_state, restore
from dynograd.data.seeding import Seeder, Undisturbed, draw_seed
from dynograd.data.worker import Setup
from dynograd.errors import LoaderError, user_level

if TYPE_CHECKING:
    from dynograd.data.loader import DataLoader

__all__ = ["Iteration", "ManyProcesses", "OneProcess", "sizes_of"]

Batch = TypeVar("Batch", covariant=True)


class Iteration(Generic[Batch]):
    """What both kinds of iteration share: the tasks, the epoch's seed, and where it stands.

    With `resumed`, the state of an iteration that was interrupted, it goes on behind the last batch that was given then.
    """

    def __init__(self, loader: DataLoader, resumed: dict | None = None) -> None:
        self._batched = loader._auto_collation
        self._iterable = isinstance(loader.dataset, IterableDataset)
        self._index_sampler = loader._index_sampler
        self._owner = owner_of_state(loader)
        self._sizes = sizes_of(loader)
        self._statistics = loader.statistics
        self._reported = loader._reported_length if self._iterable else None
        self._batch_size = loader.batch_size or 1
        self._pins = loader.pin_memory and cuda.is_available()
        self._device = loader.pin_memory_device
        self._given = 0  # batches given without a gap, and the numbers of those given beyond
        self._beyond: set[int] = set()
        self._returned = 0
        self.is_finished = False
        if resumed is None:
            self._begin(loader)
        else:
            with Undisturbed():
                self._resume(loader, resumed)

    def _begin(self, loader: DataLoader) -> None:
        self._beginnings = beginnings(loader)
        self._statistics.reset()
        self._measure()
        tasks = Tasks(self._index_sampler, self._batched, self._owner)
        self._tasks: Any = tasks
        self._seed = draw_seed(loader.generator)
        tasks.start()

    def _resume(self, loader: DataLoader, state: dict) -> None:
        self._beginnings = state["beginnings"]
        self._statistics.set_state(state["statistics"])
        restore(loader, self._beginnings, with_global=True)
        self._measure()
        self._given, self._beyond = state["batches"], set(state["beyond"])
        tasks = self._tasks = Tasks(self._index_sampler, self._batched, self._owner)
        draw_seed(loader.generator)  # as the epoch did when it began
        self._seed = state["seed"]
        if self._iterable:
            self._tasks = _again(tasks, self._given, set(self._beyond))
            return
        if self._owner is not None:
            self._owner.load_state_dict(state["sampler"])
            tasks.go_on(self._given, state["position"], state["beyond"], state["ended"])
        else:
            tasks.skip(self._given, state["beyond"])
        tasks.start()

    def _measure(self) -> None:
        """A sampler that plans an epoch to know its length must not plan the next one in the middle of this."""
        self._length = len(self._index_sampler) if getattr(self._index_sampler, "plans_ahead", False) else None

    def state(self) -> dict[str, Any]:
        """Plain data, from which `resumed` continues."""
        state: dict[str, Any] = {
            "version": VERSION,
            "in_progress": True,
            "seed": self._seed,
            "batches": self._given,
            "beyond": sorted(self._beyond),
            "beginnings": self._beginnings,
            "sizes": self._sizes,
            "statistics": self._statistics.state(),
        }
        if self._owner is not None:
            state |= self._tasks.state_after(self._given - 1)
        return state

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler) if self._length is None else self._length

    def __next__(self) -> Batch:
        asked = time.perf_counter()
        try:
            number, batch, counts = self._next()
        except StopIteration:
            self.is_finished = True
            raise
        self._note(number)
        self._returned += 1
        if self._reported is not None and self._returned > math.ceil(self._reported / self._batch_size):
            warnings.warn(
                f"Length of IterableDataset was reported to be {self._reported} (by len of the DataLoader), but more than "
                f"{(self._returned - 1) * self._batch_size} samples have been fetched. With workers, each iterates over its own copy: "
                f"share the work by get_worker_info().",
                stacklevel=user_level(),
            )
            self._reported = None
        if self._pins:
            batch = pinned_batch(batch, self._device)
        self._statistics.add(counts, time.perf_counter() - asked)
        return batch

    next = __next__

    def _note(self, number: int) -> None:
        """That the batch of this number was given (or raised its error: it will not come again)."""
        if number != self._given:
            self._beyond.add(number)
            return
        self._given += 1
        while self._given in self._beyond:
            self._beyond.remove(self._given)
            self._given += 1

    def _next(self) -> tuple[int, Any, tuple]:
        raise NotImplementedError


class OneProcess(Iteration[Any]):
    """Batches made when they are asked for."""

    def __init__(self, loader: DataLoader, resumed: dict | None = None) -> None:
        super().__init__(loader, resumed)
        options = (loader.collate_fn, self._batched, loader.drop_last)
        if loader._seeder is None:
            loader._seeder = Seeder()
        self._fetch = make_fetch(loader.dataset, *options, self._seed, 0, Stop(), loader._seeder)

    def _next(self) -> tuple[int, Any, tuple]:
        while True:
            task = next(self._tasks)
            try:
                if self._fetch.draws:
                    with Undisturbed():
                        batch = self._fetch(task)
                else:
                    batch = self._fetch(task)
            except Exception:
                self._note(task[0])
                raise
            if batch is END:
                self._tasks = iter(())
                raise StopIteration
            if batch is not SKIPPED:
                return task[0], batch, self._fetch.counts


class ManyProcesses(Iteration[Any]):
    """Batches made by workers, who end when this object does, unless they persist."""

    def __init__(self, loader: DataLoader, resumed: dict | None = None) -> None:
        super().__init__(loader, resumed)
        self._persistent = loader.persistent_workers
        if loader._hired is None or loader._hired.crew.owner is None:
            hired = Hired(loader, self._batched, self._seed)
            if self._persistent:
                loader._hired = hired
        else:
            hired = loader._hired
        self._hired, self._crew, self._end = hired, hired.crew, hired.end
        self._failure: BaseException | None = None
        self._crew.start_epoch(self._tasks, self._seed, _epoch_of(loader.dataset))
        self._epoch = self._crew.epoch

    def _next(self) -> tuple[int, Any, tuple]:
        if self._crew.owner is None or self._crew.epoch != self._epoch:
            if self._failure is None:
                raise StopIteration
            raise LoaderError(
                f"DataLoader: this iteration ended with {type(self._failure).__name__}, its workers are gone. "
                f"Start a new one by iter(loader)."
            )
        try:
            result = self._crew.next()
            while self._crew.ended:
                self._note(self._crew.ended.pop())
            return result
        except StopIteration:
            if not self._persistent:
                self._end()
            raise
        except BaseException as error:
            # An error of one sample leaves the workers at work; an interrupted or broken conversation cannot go on.
            if self._crew.failed is not None:
                self._note(self._crew.failed)
                self._crew.failed = None
            if self._crew.owner is None or self._crew.is_broken or not isinstance(error, Exception):
                self._failure = error
                self._end.detach()
                self._crew.shut_down(1.0)
            raise


class Hired:
    """A crew that is sent home when nobody, loader or iteration, holds this object any more."""

    def __init__(self, loader: DataLoader, batched: bool, seed: int) -> None:
        from dynograd.data.processes import Crew, default_context

        setups = [
            Setup(
                worker_id=worker_id,
                num_workers=loader.num_workers,
                dataset=loader.dataset,
                collate_fn=loader.collate_fn,
                batched=batched,
                drop_last=loader.drop_last,
                worker_init_fn=loader.worker_init_fn,
                seed=seed,
            )
            for worker_id in range(loader.num_workers)
        ]
        context = loader.multiprocessing_context or default_context()
        self.crew = Crew(setups, context, loader.prefetch_factor or 1, loader.timeout, loader.in_order)
        self.end = weakref.finalize(self, self.crew.shut_down)


def _again(tasks: Tasks, count: int, beyond: set[int]) -> Iterator[Task]:
    """Tasks for a stream of which `count` batches, and those in `beyond`, were given: it must be read up to there."""
    for number, indices, position in tasks:
        yield number, indices, SKIP if number < count or number in beyond else position


def sizes_of(loader: DataLoader) -> dict[str, Any]:
    """What must not change in the middle of an epoch."""
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    sizes = {"batch_size": getattr(sampler, "batch_size", None), "samples": None}
    if isinstance(loader.dataset, IterableDataset):
        sizes["num_workers"] = loader.num_workers  # they share the stream between them
    elif hasattr(loader.dataset, "__len__"):
        sizes["samples"] = len(loader.dataset)
    return sizes


def _epoch_of(dataset: Any) -> Any:
    """The epoch that the data set was told, if it is one that can be told."""
    return getattr(dataset, "epoch", None) if hasattr(dataset, "set_epoch") else None
