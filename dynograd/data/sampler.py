"""Samplers: in which order a DataLoader asks for samples, and which of them share a batch."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from dynograd.base import dtypes
from dynograd.base.random_streams import Generator
from dynograd.data.seeding import draw_seed
from dynograd.tensor.creation import as_tensor
from dynograd.tensor.randomness import multinomial, randint, randperm

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """What all samplers are: iterable, and most have a length. Subclasses write `__iter__`.

    `may_repeat` says whether an index can come twice in an epoch. Then a sample's random numbers (see DataLoader) depend on its
    position too, so that the second time is augmented differently; a sampler that never repeats may set it to False.

    Args:
        data_source: ignored; PyTorch's programs pass it.
    Raises:
        NotImplementedError: in use: a subclass without `__iter__`.

    >>> class Backwards(Sampler):
    ...     def __init__(self, size):
    ...         self.size = size
    ...
    ...     def __iter__(self):
    ...         return iter(range(self.size - 1, -1, -1))
    >>> [batch.tolist() for batch in dynograd.data.DataLoader(range(3), batch_size=2, sampler=Backwards(3))]
    [[2, 1], [0]]
    """

    may_repeat: bool = True

    def __init__(self, data_source: object = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a Sampler needs __iter__(self). Define it in your class.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... up to the length of a data set.

    Args:
        data_source: has a length.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    may_repeat = False

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order, or random indices with replacement.

    Args:
        data_source: has a length.
        replacement: whether an index may be drawn again before the others had their turn.
        num_samples: how many to draw; the length of `data_source` by default. Without replacement more than that goes round again.
        generator: where the order comes from; by default one seeded from the default generator, each epoch anew.
    Raises:
        TypeError: `replacement` is no bool.
        ValueError: `num_samples` (or the length of `data_source`) is not positive.

    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: replacement should be a boolean value, but got replacement={replacement!r}. "
                f"The second argument is replacement, the third num_samples."
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if num_samples is None and len(data_source) == 0:
            raise ValueError(
                "RandomSampler: num_samples should be a positive integer value, but got num_samples=0: the dataset is empty. "
                "Check how it was read or filtered."
            )
        check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has.

        >>> RandomSampler("abc").num_samples
        3
        """
        return len(self.data_source) if self._num_samples is None else self._num_samples

    @property
    def may_repeat(self) -> bool:  # type: ignore[override]
        return self.replacement or self.num_samples > len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator or Generator().manual_seed(draw_seed())
        left = self.num_samples
        while left > 0:
            if self.replacement:
                drawn = randint(size, (min(left, 1024),), generator=generator).tolist()
            else:
                drawn = randperm(size, generator=generator).tolist()[:left]
            yield from drawn
            left -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The indices of a list in random order.

    Args:
        indices: ints.
        generator: where the order comes from; the default generator by default.

    >>> sorted(SubsetRandomSampler([7, 3]))
    [3, 7]
    """

    may_repeat = False

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices, each with a chance in proportion to its weight.

    Args:
        weights: one non-negative number per sample; they need not sum to 1.
        num_samples: how many to draw.
        replacement: whether an index may be drawn again.
        generator: where the numbers come from; the default generator by default.
    Raises:
        ValueError: `num_samples` is not positive, `replacement` not a bool, or `weights` not one row of numbers.

    >>> list(WeightedRandomSampler([0.0, 3.0, 0.0], 2))
    [1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_count("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement should be a boolean value, but got replacement={replacement!r}."
            )
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}. Give one weight per sample."
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    @property
    def may_repeat(self) -> bool:  # type: ignore[override]
        return self.replacement

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list]):
    """The indices of another sampler in lists of `batch_size`; `drop_last` leaves a shorter last one out.

    Args:
        sampler: gives indices; any iterable.
        batch_size: indices in a list, at least 1.
        drop_last: leave out a last list that is shorter.
    Raises:
        ValueError: batch_size is no int above 0, or drop_last no bool.

    >>> list(BatchSampler(SequentialSampler("abcde"), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last!r}.")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    @property
    def may_repeat(self) -> bool:  # type: ignore[override]
        return getattr(self.sampler, "may_repeat", True)

    def __iter__(self) -> Iterator[list]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        return batch_count(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type]


class DistributedSampler(Sampler[int]):
    """The part of an epoch that one of several processes sees: every `num_replicas`-th index, from `rank` on.

    Args:
        dataset: has a length.
        num_replicas, rank: how many processes there are, and which this is; by default those of the process group, or of the
            environment variables `WORLD_SIZE` and `RANK` that launchers set.
        shuffle: whether the order is random; it depends on `seed` and on `set_epoch(epoch)`, equally in every process.
        seed: the same in every process.
        drop_last: leave out the last samples where the number does not divide; otherwise the first ones come again.
    Raises:
        ValueError: a rank outside [0, num_replicas - 1].
        RuntimeError: num_replicas or rank is not known.

    >>> list(DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    may_repeat = False
    changing = ("epoch",)

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas, rank = process_of("DistributedSampler", num_replicas, rank)
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.num_samples = batch_count(len(dataset), num_replicas, drop_last)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(len(self.dataset), generator=generator).tolist()
        else:
            indices = list(range(len(self.dataset)))
        everyone = itertools.islice(itertools.cycle(indices), self.total_size)
        return itertools.islice(everyone, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Call it before each epoch in every process, or every epoch has the same order.

        Args:
            epoch: its number.

        >>> sampler = DistributedSampler(range(8), num_replicas=2, rank=0)
        >>> sampler.set_epoch(1)
        >>> len(list(sampler))
        4
        """
        self.epoch = epoch


def check_count(who: str, name: str, value: Any) -> None:
    """Raises ValueError unless `value` is an int > 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{who}: {name} should be a positive integer value, but got {name}={value!r}.")


def batch_count(size: int, batch_size: int, drop_last: bool) -> int:
    """How many batches `size` samples make."""
    return size // batch_size if drop_last else math.ceil(size / batch_size)


def process_of(who: str, num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """How many processes there are, and which this is."""
    num_replicas = _known(who, "num_replicas", num_replicas, "get_world_size", "WORLD_SIZE")
    rank = _known(who, "rank", rank, "get_rank", "RANK")
    if not 0 <= rank < num_replicas:
        raise ValueError(f"{who}: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}].")
    return num_replicas, rank


def _known(who: str, name: str, value: int | None, of_group: str, variable: str) -> int:
    if value is not None:
        return value
    from dynograd.distributed import groups  # loaded where a program has several processes in mind

    if groups.is_initialized():
        return getattr(groups, of_group)()
    if variable in os.environ:
        return int(os.environ[variable])
    raise RuntimeError(
        f"{who}: {name} is not given, there is no process group, and the environment has no {variable}. "
        f"Pass {name}, call distributed.init_process_group, or start the processes by a launcher that sets it."
    )
