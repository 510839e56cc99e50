"""Batches of similar length: what a padded batch pads is then little."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from dynograd.arrays import Array
from dynograd.base.random_streams import Generator
from dynograd.data.sampler import Sampler, batch_count, check_count
from dynograd.data.seeding import draw_seed, mix
from dynograd.tensor.randomness import randperm
from dynograd.tensor.tensor import Tensor

__all__ = ["BucketBatchSampler", "TokenBatchSampler"]


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
    changing = ("_epoch", "_next", "_seed")

    def __init__(
        self,
        lengths: Iterable[float] | Tensor,
        batch_size: int,
        shuffle: bool = True,
        drop_last: bool = False,
        pool: int | None = None,
        generator: Generator | None = None,
        *,
        max_tokens: int | None = None,
    ) -> None:
        check_count(type(self).__name__, "batch_size", batch_size)
        if pool is not None:
            check_count("BucketBatchSampler", "pool", pool)
        if max_tokens is not None:
            check_count("BucketBatchSampler", "max_tokens", max_tokens)
            if drop_last:
                raise ValueError(
                    f"BucketBatchSampler: with max_tokens={max_tokens} batches vary in size and none is the short last one, "
                    f"but got drop_last=True. Leave out one of the two."
                )
        self.lengths = as_lengths(type(self).__name__, lengths)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        # A pool of whole batches leaves no short batch in the middle of an epoch.
        self.pool = math.ceil((pool or 100 * batch_size) / batch_size) * batch_size
        self.generator = generator
        self.max_tokens = max_tokens
        self._epoch: int | None = None
        self._seed: int | None = None
        self._next: int | None = None
        self._planned: list[list[int]] | None = None

    @property
    def plans_ahead(self) -> bool:
        """Whether `len` has to plan an epoch to know how many batches it has.

        >>> BucketBatchSampler([5, 1, 5, 1], batch_size=2).plans_ahead
        False
        """
        return self.max_tokens is not None

    def set_epoch(self, epoch: int) -> None:
        """From now on the order depends on the first seed drawn and on `epoch` alone: the same epoch gives the same order.

        Args:
            epoch: its number.

        >>> sampler = BucketBatchSampler([5, 1, 4, 2], batch_size=2)
        >>> sampler.set_epoch(3)
        >>> first = list(sampler)
        >>> sampler.set_epoch(3)
        >>> list(sampler) == first
        True
        """
        self._epoch = epoch
        self._planned = self._next = None

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._plan_of_next()
        self._planned = self._next = None
        return iter(batches)

    def __len__(self) -> int:
        if not self.plans_ahead:
            return batch_count(len(self.lengths), self.batch_size, self.drop_last)
        return len(self._plan_of_next())  # how many batches fit depends on the order, so this is the next epoch's

    def _plan_of_next(self) -> list[list[int]]:
        if self._planned is None:
            if self._next is None:
                self._next = self._epoch_seed()
            self._planned = self._plan(Generator().manual_seed(self._next))
        return self._planned

    def _plan(self, generator: Generator) -> list[list[int]]:
        size = len(self.lengths)
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

    def _epoch_seed(self) -> int:
        if self._epoch is None:
            return draw_seed(self.generator)
        if self._seed is None:
            self._seed = draw_seed(self.generator)
        return mix(self._seed, self._epoch)


class TokenBatchSampler(BucketBatchSampler):
    """Batches that hold as many samples of similar length as fit into `max_tokens`, padding included.

    The way of BucketBatchSampler, with a budget instead of a number of samples: (samples in a batch) x (its longest
    length) is at most `max_tokens`, so a step needs about the same time and memory whatever the lengths. A sample
    longer than that makes a batch of its own. `len` is the number of batches of the next epoch; it differs a little
    from epoch to epoch.

    Args:
        lengths: the length of each sample: numbers, an array or a tensor.
        max_tokens: the budget of a batch.
        batch_size: the most samples there may be, for lengths near 0.
        shuffle, pool, generator: as in BucketBatchSampler; `pool` is 10,000 samples by default.
    Raises:
        ValueError: a number that must be positive and is not, lengths that are not one row of numbers >= 0, or no lengths.

    >>> list(TokenBatchSampler([5, 1, 5, 1, 2], max_tokens=10, shuffle=False))
    [[1, 3, 4], [0, 2]]
    """

    def __init__(
        self,
        lengths: Iterable[float] | Tensor,
        max_tokens: int,
        batch_size: int | None = None,
        shuffle: bool = True,
        pool: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_count("TokenBatchSampler", "max_tokens", max_tokens)
        if batch_size is not None:
            check_count("TokenBatchSampler", "batch_size", batch_size)
        if pool is not None:
            check_count("TokenBatchSampler", "pool", pool)
        super().__init__(lengths, batch_size or _ANY, shuffle, False, _ANY, generator, max_tokens=max_tokens)
        self.pool = pool or _POOL


_POOL = 10_000
_ANY = 1 << 40  # samples in a batch: as many as the budget allows


def as_lengths(who: str, lengths: Any) -> Array:
    numbers = numpy.asarray(lengths.array if isinstance(lengths, Tensor) else lengths)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iuf" or not bool((numbers >= 0).all()):
        raise ValueError(
            f"{who}: lengths should be one number >= 0 per sample, and at least one, got shape {numbers.shape} of "
            f"{numbers.dtype}. Pass e.g. [len(sample) for sample in dataset]."
        )
    return numbers
