"""Batches for several processes with as many tokens in each: who has fewer of them would wait for the others in each step."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy

from dynograd.base.random_streams import Generator
from dynograd.data.buckets import as_lengths
from dynograd.data.sampler import Sampler, check_count, process_of
from dynograd.tensor.randomness import randperm
from dynograd.tensor.tensor import Tensor

__all__ = ["DistributedTokenBatchSampler"]


class DistributedTokenBatchSampler(Sampler[list]):
    """One process's batches; in each step all processes have about the same number of tokens, and in an epoch the same number of batches.

    Samples are taken in (shuffled) order until they have `max_tokens` tokens for each process, and are dealt out, the longest first, each
    to the process that has the fewest tokens so far: the processes of a step differ by less than one sample. For ragged batches, whose work
    goes with their tokens; padding is not counted. With `DistributedDataParallel(model, average="tokens")` each token counts the same.

    Args:
        lengths: the length of each sample: numbers, an array or a tensor.
        max_tokens: how many tokens a process's batch has, about.
        num_replicas, rank: how many processes there are, and which this is; by default those of the process group, or of the
            environment variables `WORLD_SIZE` and `RANK` that launchers set.
        shuffle: whether the order is random; it depends on `seed` and on `set_epoch(epoch)`, equally in every process.
        seed: the same in every process.
        drop_last: leave out the last samples where there are fewer of them than processes; otherwise the first ones come again.
    Raises:
        ValueError: a rank outside [0, num_replicas - 1], max_tokens below 1, or lengths that are not one row of numbers >= 0.
        RuntimeError: num_replicas or rank is not known.

    >>> lengths = [5, 1, 3, 1, 6, 2]
    >>> [list(dynograd.data.DistributedTokenBatchSampler(lengths, 5, 2, rank, shuffle=False)) for rank in range(2)]
    [[[0], [4]], [[2, 1, 3], [5]]]
    """

    may_repeat = False
    changing = ("epoch",)
    plans_ahead = True

    def __init__(
        self,
        lengths: Iterable[float] | Tensor,
        max_tokens: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        who = "DistributedTokenBatchSampler"
        check_count(who, "max_tokens", max_tokens)
        self.lengths = as_lengths(who, lengths)
        self.max_tokens = max_tokens
        self.num_replicas, self.rank = process_of(who, num_replicas, rank)
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        return (self._deal(step)[self.rank] for step in self._steps())

    def __len__(self) -> int:
        return len(self._steps())

    def _steps(self) -> list[list[int]]:
        """The samples of all processes in each step of an epoch."""
        size, processes = len(self.lengths), self.num_replicas
        generator = Generator().manual_seed(self.seed + self.epoch)
        order = (randperm(size, generator=generator).array if self.shuffle else numpy.arange(size)).tolist()
        budget = processes * self.max_tokens
        steps: list[list[int]] = [[]]
        tokens = 0.0
        for index, length in zip(order, self.lengths[order].tolist()):
            if len(steps[-1]) >= processes and tokens + length > budget:
                steps.append([])
                tokens = 0.0
            steps[-1].append(index)
            tokens += length
        missing = processes - len(steps[-1])
        if missing > 0:
            if self.drop_last:
                steps.pop()
            else:
                steps[-1] += [order[place % size] for place in range(missing)]
        return steps

    def _deal(self, step: list[int]) -> list[list[int]]:
        """The samples of a step for each process: each has at least one."""
        by_length = sorted(step, key=lambda index: (-self.lengths[index], index))
        batches: list[list[int]] = [[] for _ in range(self.num_replicas)]
        loads = [(0.0, 0, place) for place in range(self.num_replicas)]
        for index in by_length:
            tokens, count, place = heapq.heappop(loads)
            batches[place].append(index)
            heapq.heappush(loads, (tokens + float(self.lengths[index]), count + 1, place))
        return batches

    def set_epoch(self, epoch: int) -> None:
        """Call it before each epoch in every process, or every epoch has the same order.

        Args:
            epoch: its number.

        >>> sampler = dynograd.data.DistributedTokenBatchSampler([3, 1, 2, 2], 4, num_replicas=2, rank=0)
        >>> sampler.set_epoch(1)
        >>> len(list(sampler))
        1
        """
        self.epoch = epoch
