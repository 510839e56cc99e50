"""Samplers: in which order a DataLoader asks for samples, and which of them share a batch."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy

from dynograd import dtypes
from dynograd.creation import as_tensor
from dynograd.data.seeding import draw_seed, mix
from dynograd.random_streams import Generator
from dynograd.randomness import multinomial, randint, randperm
from dynograd.tensor import Tensor

__all__ = [
    "BatchSampler",
    "BucketBatchSampler",
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
    """

    may_repeat: bool = True

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a Sampler needs __iter__(self). Define it in your class.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ...

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
        replacement: whether an index may be drawn again before the others had their turn.
        num_samples: how many to draw; the length of `data_source` by default. Without replacement more than that goes round again.
        generator: where the order comes from; by default one seeded from the default generator, each epoch anew.
    Raises:
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
        _check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has."""
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
                drawn = randint(size, (min(left, 1024),), generator=generator)
            else:
                drawn = randperm(size, generator=generator)[:left]
            yield from drawn.tolist()
            left -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

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
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
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

    >>> list(BatchSampler(SequentialSampler("abcde"), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable, batch_size: int, drop_last: bool) -> None:
        _check_count("BatchSampler", "batch_size", batch_size)
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
        return _batches(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type]


class BucketBatchSampler(Sampler[list]):
    """Batches of samples of similar length, so that little of a padded batch is padding.

    The (shuffled) indices are cut into pools, each pool is sorted by length and cut into batches, and the batches of all pools
    are shuffled. Give it as `DataLoader(dataset, batch_sampler=...)`.

    Args:
        lengths: the length of each sample: numbers, an array or a tensor.
        batch_size: samples per batch; with `max_tokens` the most there may be.
        shuffle: without it pools are taken and batches are given in order.
        drop_last: leave out the last pool's shorter batch.
        pool: samples per pool, `100 * batch_size` by default. Larger pools pad less, smaller ones mix better.
        generator: where the order comes from; by default one seeded from the default generator, each epoch anew.
        max_tokens: the most that (samples in a batch) x (its longest length) may be; batches then vary in size.
            A single sample that is longer makes a batch of its own.
    Raises:
        ValueError: a number that must be positive and is not, lengths that are not one row of numbers >= 0, or no lengths.

    >>> sampler = BucketBatchSampler([5, 1, 5, 1], batch_size=2, shuffle=False)
    >>> list(sampler)
    [[1, 3], [0, 2]]
    """

    may_repeat = False

    def __init__(
        self,
        lengths: Any,
        batch_size: int,
        shuffle: bool = True,
        drop_last: bool = False,
        pool: int | None = None,
        generator: Generator | None = None,
        *,
        max_tokens: int | None = None,
    ) -> None:
        _check_count("BucketBatchSampler", "batch_size", batch_size)
        if pool is not None:
            _check_count("BucketBatchSampler", "pool", pool)
        if max_tokens is not None:
            _check_count("BucketBatchSampler", "max_tokens", max_tokens)
            if drop_last:
                raise ValueError(
                    f"BucketBatchSampler: with max_tokens={max_tokens} batches vary in size and none is the short last one, "
                    f"but got drop_last=True. Leave out one of the two."
                )
        self.lengths = _as_lengths(lengths)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        # A pool of whole batches leaves no short batch in the middle of an epoch.
        self.pool = math.ceil((pool or 100 * batch_size) / batch_size) * batch_size
        self.generator = generator
        self.max_tokens = max_tokens
        self._epoch: int | None = None
        self._seed: int | None = None
        self._planned: list[list[int]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """From now on the order depends on the first seed drawn and on `epoch` alone: the same epoch gives the same order."""
        self._epoch = epoch
        self._planned = None

    def __iter__(self) -> Iterator[list[int]]:
        batches, self._planned = self._planned or self._plan(), None
        return iter(batches)

    def __len__(self) -> int:
        if self.max_tokens is None:
            return _batches(len(self.lengths), self.batch_size, self.drop_last)
        if self._planned is None:
            self._planned = self._plan()  # how many batches fit depends on the order, so this is the next epoch's
        return len(self._planned)

    def _plan(self) -> list[list[int]]:
        size = len(self.lengths)
        generator = self._epoch_generator()
        order = randperm(size, generator=generator).array if self.shuffle else numpy.arange(size)
        batches: list[list[int]] = []
        for start in range(0, size, self.pool):
            pool = order[start : start + self.pool]
            batches += self._cut(pool[numpy.argsort(self.lengths[pool], kind="stable")])
        if self.drop_last:
            batches = [batch for batch in batches if len(batch) == self.batch_size]
        if self.shuffle:
            batches = [batches[place] for place in randperm(len(batches), generator=generator).tolist()]
        return batches

    def _cut(self, pool: Any) -> list[list[int]]:
        indices = pool.tolist()
        if self.max_tokens is None:
            return [indices[start : start + self.batch_size] for start in range(0, len(indices), self.batch_size)]
        batches: list[list[int]] = [[]]
        for index, length in zip(indices, self.lengths[pool].tolist()):
            count = len(batches[-1])
            if count == self.batch_size or (count and (count + 1) * length > self.max_tokens):
                batches.append([])
            batches[-1].append(index)
        return batches

    def _epoch_generator(self) -> Generator:
        if self._epoch is None:
            return Generator().manual_seed(draw_seed(self.generator))
        if self._seed is None:
            self._seed = draw_seed(self.generator)
        return Generator().manual_seed(mix(self._seed, self._epoch))


class DistributedSampler(Sampler[int]):
    """The part of an epoch that one of several processes sees: every `num_replicas`-th index, from `rank` on.

    Args:
        num_replicas, rank: how many processes there are, and which this is; by default from the environment variables
            `WORLD_SIZE` and `RANK` that launchers set.
        shuffle: whether the order is random; it depends on `seed` and on `set_epoch(epoch)`, equally in every process.
        drop_last: leave out the last samples where the number does not divide; otherwise the first ones come again.

    >>> list(DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    may_repeat = False

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = _from_environment("num_replicas", num_replicas, "WORLD_SIZE")
        rank = _from_environment("rank", rank, "RANK")
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]."
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.num_samples = _batches(len(dataset), num_replicas, drop_last)
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
        """Call it before each epoch in every process, or every epoch has the same order."""
        self.epoch = epoch


def _check_count(who: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{who}: {name} should be a positive integer value, but got {name}={value!r}.")


def _batches(size: int, batch_size: int, drop_last: bool) -> int:
    return size // batch_size if drop_last else math.ceil(size / batch_size)


def _as_lengths(lengths: Any) -> Any:
    made = numpy.asarray(lengths.array if isinstance(lengths, Tensor) else lengths)
    if made.ndim != 1 or made.size == 0 or made.dtype.kind not in "iuf" or not bool((made >= 0).all()):
        raise ValueError(
            f"BucketBatchSampler: lengths should be one number >= 0 per sample, and at least one, got shape {made.shape} of "
            f"{made.dtype}. Pass e.g. [len(sample) for sample in dataset]."
        )
    return made


def _from_environment(name: str, value: int | None, variable: str) -> int:
    if value is not None:
        return value
    if variable in os.environ:
        return int(os.environ[variable])
    raise RuntimeError(
        f"DistributedSampler: {name} is not given and the environment has no {variable}. "
        f"Pass {name}, or start the processes by a launcher that sets it."
    )
