"""From a task (batch number, indices, position of its first sample) to a batch: the same steps in the program's process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynograd.data.collate import MakingIn, default_collate, default_convert, gathered, has_functions_of_the_users
from dynograd.data.dataset import IterableDataset, TensorDataset, is_plain, reads_batches
from dynograd.data.seeding import Seeder, SeedFor, mix, seed_all
from dynograd.data.variable_length import Padding, Ragging
from dynograd.errors import LoaderError
from dynograd.tensor.tensor import Tensor

__all__ = ["END", "SKIP", "SKIPPED", "IterableFetch", "MapFetch", "Stop", "Stopped", "Task", "make_fetch", "shown"]

Task = tuple[int, Any, Any]

END = object()
"""What a fetch gives when an iterable data set has no more."""
SKIP = "skip"
"""Instead of a position: a stream's samples are to be read and forgotten, on the way to where an interrupted epoch goes on."""
SKIPPED = object()
"""What a fetch gives for such a task."""

_BATCH, _STREAM = (1 << 63) - 1, (1 << 63) - 2  # no sample has such an index


class Stopped(Exception):
    """The loader was closed while a batch was being made."""


class Stop:
    """Says between two samples whether to go on."""

    requested = False


def make_fetch(
    dataset: Any,
    collate_fn: Callable,
    batched: bool,
    drop_last: bool,
    seed: int,
    worker_id: int,
    stop: Stop,
    seeder: Seeder,
    empty: Callable | None = None,
) -> IterableFetch | MapFetch:
    """The fetch of one epoch, for either style of data set. `empty` makes the arrays of batches (see `collate.MakingIn`)."""
    if isinstance(dataset, IterableDataset):
        seed = mix(mix(seed, _STREAM), worker_id)
        return IterableFetch(dataset, collate_fn, batched, drop_last, seed, stop, empty)
    return MapFetch(dataset, collate_fn, batched, seed, stop, seeder, empty)


class _Fetch:
    """What both styles share: how samples become a batch.

    `draws` is False where no code of the user's runs, so that nothing can be random and nothing is seeded. `counts` is (samples, elements
    of sequences, places that they took) of the last batch.
    """

    draws: bool

    def __init__(self, dataset: Any, collate_fn: Callable, batched: bool, seed: int, stop: Stop, empty: Any) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.batched = batched
        self.seed = seed
        self.stop = stop
        self.collate_draws = not _is_plain_collate(collate_fn)
        # Only what is sent off and forgotten may be made in a worker's slot: a collate_fn of the user's might keep it.
        self.making = MakingIn(empty) if empty is not None and not self.collate_draws and batched else None
        self.counts = (0, 0, 0)

    def _collated(self, samples: Any, number: int, what: Callable[[], str]) -> Any:
        if self.collate_draws:
            seed_all(mix(mix(self.seed, _BATCH), number))
        try:
            if self.making is None:
                batch = self.collate_fn(samples)
            else:
                with self.making:
                    batch = self.collate_fn(samples)
        except (Exception, SystemExit) as error:
            _name_place(error, "collate_fn", f" for batch {number} with {what()}")
            raise
        self.counts = (len(samples) if self.batched else 1, *getattr(self.collate_fn, "counts", (0, 0)))
        return batch


class MapFetch(_Fetch):
    """Reads by index. Every sample gets its own seed, and so does a collate_fn of the user's."""

    def __init__(
        self, dataset: Any, collate_fn: Callable, batched: bool, seed: int, stop: Stop, seeder: Seeder, empty: Any
    ) -> None:
        super().__init__(dataset, collate_fn, batched, seed, stop, empty)
        self.seeder = seeder
        self.reads_batches = batched and reads_batches(dataset)
        self.takes_rows = batched and _takes_rows(dataset, collate_fn)  # stacked again: one indexing per tensor does it
        self.sample_draws = not is_plain(dataset)
        self.draws = self.sample_draws or self.collate_draws

    def __call__(self, task: Task) -> Any:
        number, indices, position = task
        if self.takes_rows:
            self.counts = (len(indices), 0, 0)
            return self._reads(self._rows, indices, number)
        if self.reads_batches:
            if self.sample_draws:
                seed_all(mix(mix(self.seed, _BATCH), number))
            samples = self._reads(self.dataset.__getitems__, indices, number)
        elif self.sample_draws:
            samples = self.seeder.run(lambda seed_for: self._samples(task, seed_for), self.seed, position)
        else:
            samples = self._samples(task, None)
        return self._collated(samples if self.batched else samples[0], number, lambda: f"indices {shown(indices)}")

    def _samples(self, task: Task, seed_for: SeedFor | None) -> list:
        number, indices, _ = task
        dataset, stop, index = self.dataset, self.stop, None
        samples: list = []
        try:
            for offset, index in enumerate(indices if self.batched else [indices]):
                if stop.requested:
                    raise Stopped
                if seed_for is not None:
                    seed_for(index, offset)
                samples.append(dataset[index])
        except Stopped:
            raise
        except (Exception, SystemExit) as error:
            among = f" with indices {shown(indices)}" if self.batched else ""
            _name_place(error, f"dataset[{index!r}]", f" for batch {number}{among}")
            raise
        return samples

    def _reads(self, read: Callable, indices: list, number: int) -> Any:
        try:
            return read(indices)
        except (Exception, SystemExit) as error:
            _name_place(error, "reading a batch at once", f" for batch {number} with indices {shown(indices)}")
            raise

    def _rows(self, indices: list) -> list:
        if self.making is None:
            return gathered(self.dataset.tensors, indices)
        with self.making:
            return gathered(self.dataset.tensors, indices)


class IterableFetch(_Fetch):
    """Reads the next samples of a stream. The n-th sample of a worker has its own seed, whatever the batch size."""

    draws = True

    def __init__(
        self, dataset: Any, collate_fn: Callable, batched: bool, drop_last: bool, seed: int, stop: Stop, empty: Any
    ) -> None:
        super().__init__(dataset, collate_fn, batched, seed, stop, empty)
        self.drop_last = drop_last
        self._count = 0
        self._samples: Iterator | None = None
        self._ended = False

    def __call__(self, task: Task) -> Any:
        number, indices, position = task
        samples: list = []
        count = len(indices) if self.batched else 1
        while len(samples) < count and not self._ended:
            sample = self._next()
            if sample is END:
                self._ended = True
            else:
                samples.append(sample)
        if not samples or (len(samples) < count and self.drop_last):
            return END
        if position == SKIP:
            return SKIPPED
        first = self._count - len(samples)
        what = lambda: f"samples {first} to {self._count - 1} of the stream"  # noqa: E731
        return self._collated(samples if self.batched else samples[0], number, what)

    def _next(self) -> Any:
        if self.stop.requested:
            raise Stopped
        seed_all(mix(self.seed, self._count))
        try:
            if self._samples is None:
                self._samples = iter(self.dataset)
            sample = next(self._samples, END)
        except (Exception, SystemExit) as error:
            self._ended = True
            _name_place(error, "iterating over the dataset", f", at sample {self._count}")
            raise
        self._count += 1
        return sample


def shown(indices: Any) -> str:
    """The indices of a task as text, at most 64 of them."""
    if not isinstance(indices, (list, tuple)) or len(indices) <= 64:
        return str(indices)
    return f"[{', '.join(map(repr, indices[:64]))}, ... {len(indices) - 64} more]"


def _takes_rows(dataset: Any, collate_fn: Callable) -> bool:
    return (
        type(dataset) is TensorDataset
        and collate_fn is default_collate
        and all(type(tensor) is Tensor for tensor in dataset.tensors)
    )


def _is_plain_collate(collate_fn: Callable) -> bool:
    if has_functions_of_the_users():
        return False
    return collate_fn is default_collate or collate_fn is default_convert or type(collate_fn) in (Padding, Ragging)


def _name_place(error: BaseException, place: str, batch: str) -> None:
    if isinstance(error, StopIteration):  # it would end the loop over the loader without a word
        raise LoaderError(
            f"DataLoader: {place} raised StopIteration{batch}. For an index that does not exist, raise IndexError."
        ) from error
    error.add_note(f"DataLoader: raised by {place}{batch}")
