"""Steps that have the same bits on any number of processes: a batch is cut into a fixed number of shards, whose gradients are added in one fixed tree.

A process computes the shards that are its own, one after the other, and adds their gradients as the tree says; the rest of the tree is that of
`reductions` over the processes. What decides a shard's bits is the shard's own: its part of the batch, its random numbers, the buffers that the
step began with, and its number of threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dynograd.autograd import no_grad
from dynograd.base.random_streams import default_generator
from dynograd.distributed.batch_parts import cut, length_of
from dynograd.distributed.communicators.protocol import Communicator, parts_of
from dynograd.distributed.groups import group_of
from dynograd.distributed.process_groups import ProcessGroup, world
from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.shard_sums import Term, Tree, dtype_of_sums, term_of
from dynograd.distributed.synchronizing import broadcast_tensors, count_of, synchronize
from dynograd.kernels.build import threads as pool
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["VirtualShards"]


class VirtualShards:
    """Cuts each step of `module` into `count` shards: 1, 2, 4, ... processes train to the same bits, and may be another number after a restart.

    All processes have the same batches, in the same order, and compute their part of them. Losses are means over a shard; what comes of it is the
    gradient of the mean over the whole batch. Each shard has random numbers of its own (dynograd's default generator, Python's `random` and
    NumPy's), and begins with the buffers that the step began with; those of the first shard stay.

    Args:
        module: a module, or `DistributedDataParallel`, whose own averaging rests meanwhile.
        count: how many shards; the number of processes times a power of two.
        average: what a shard's gradients count: "samples" or "tokens" as many as it has, "shards" the same, or a function of the shard's
            arguments that gives a number.
        threads: with how many threads shards are computed; None: with as many as are set, which then must be the same everywhere.
        process_group: whose processes divide the shards; all when left out.
    Raises:
        ValueError: `count` is not the number of processes times a power of two; or there is no process group.

    >>> def program():
    ...     model = dynograd.nn.Linear(1, 1, bias=False)
    ...     shards = dynograd.distributed.VirtualShards(model, 4)
    ...     for x in shards.of(dynograd.arange(8.0).view(8, 1)):
    ...         model(x).mean().backward()
    ...     return model.weight.grad.item()
    >>> dynograd.distributed.simulate(program, ranks=1), dynograd.distributed.simulate(program, ranks=2)
    ([3.5], [3.5, 3.5])
    """

    def __init__(
        self,
        module: Any,
        count: int,
        *,
        average: str | Callable[..., float] = "samples",
        threads: int | None = 1,
        process_group: ProcessGroup | None = None,
    ) -> None:
        self.group = group = group_of(process_group)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1 or not _fits(count, group.size()):
            raise ValueError(
                f"VirtualShards: expected count to be the number of processes ({group.size()}) times a power of two, got {count!r}."
            )
        if not callable(average) and average not in ("samples", "tokens", "shards"):
            raise ValueError(
                f"VirtualShards: expected average to be 'samples', 'tokens', 'shards' or a function, got {average!r}."
            )
        self.module, self.count, self.average, self.threads = module, count, average, threads
        self._is_parallel = hasattr(module, "require_backward_grad_sync")
        if group.size() > 1 and not self._is_parallel:
            synchronize(module, group)

    @property
    def own(self) -> range:
        """The numbers of this process's shards."""
        each = self.count // self.group.size()
        return range(self.group.rank() * each, (self.group.rank() + 1) * each)

    def of(self, *batch: Any) -> Iterator[Any]:
        """This process's shards of a batch, to call the module and `backward` for each; behind the last one the parameters have the batch's gradients.

        Args:
            batch: tensors (cut along their first dim), ragged tensors (by rows), lists of samples, and dicts of these, of one length.
        Returns:
            An iterator of parts; of tuples where there are several arguments. A shard without samples is left out.
        Raises:
            ShapeError: lengths differ.
        """
        length = length_of(batch)
        slices = parts_of(length, self.count)
        parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        before = [parameter.grad for parameter in parameters]
        buffers = list(self.module.buffers())
        weights = [self._weight(batch, part) for part in slices]
        tree = Tree()
        with self._apart() as streams:
            first = [buffer.detach().clone() for buffer in buffers]
            kept = first
            for shard in self.own:
                if slices[shard].start == slices[shard].stop:
                    tree.add([None] * len(parameters))
                    continue
                for parameter in parameters:
                    parameter.grad = None
                if shard != self.own[0]:
                    _copy(first, buffers)
                streams(shard)
                part = tuple([cut(value, slices[shard]) for value in batch])
                yield part[0] if len(part) == 1 else part
                if shard == 0:
                    kept = [buffer.detach().clone() for buffer in buffers]
                tree.add([term_of(parameter, weights[shard]) for parameter in parameters])
            _copy(kept, buffers)
        broadcast_tensors(buffers, self.group)
        self._join(parameters, tree.whole(), before, sum(weights))

    def mean(self, values: Sequence[Any]) -> float:
        """The mean over all shards of a number for each of this process's shards: the same in all processes, and for any number of them.

        Args:
            values: numbers or tensors of one element, in order.
        Returns:
            A number.
        """
        everyone = np.full(self.count, np.nan)
        everyone[self.own.start : self.own.start + len(values)] = [float(value) for value in values]
        parts = [everyone[part] for part in parts_of(self.count, self.group.size())]
        self.group.run("a number of each shard", lambda c: c.all_gather(parts[c.rank].copy(), parts))
        return float(np.nanmean(everyone))

    # --- one step ---------------------------------------------------------------------------------------------------

    def _weight(self, batch: tuple[Any, ...], part: slice) -> float:
        if part.start == part.stop:
            return 0.0
        if self.average == "shards":
            return 1.0
        if self.average == "samples":
            return float(part.stop - part.start)
        arguments = [cut(value, part) for value in batch]
        if callable(self.average):
            return float(self.average(*arguments))
        for value in arguments:
            count = count_of(value, "tokens")
            if count is not None:
                return float(count)
        raise TypeError("VirtualShards: average='tokens' needs a tensor in the batch. Give average=a function of it.")

    @contextlib.contextmanager
    def _apart(self) -> Iterator[Callable[[int], None]]:
        """A context in which shards have random numbers and threads of their own; behind it all streams are where the step's number leads."""
        seed, place = default_generator.key(1)
        ours = not world.is_simulated  # threads of one process share Python's and NumPy's streams, and the pool
        bases: tuple[int, ...] = (random.getrandbits(64), int(np.random.randint(1 << 62))) if ours else ()
        state = default_generator.state()
        states = (random.getstate(), np.random.get_state()) if ours else None
        before, count = getattr(self.module, "require_backward_grad_sync", None), pool.get_num_threads()
        threads = count if self.threads is None or not ours else self.threads
        sets_threads = threads != count

        def streams(shard: int) -> None:
            key = hashlib.blake2b(f"{seed} {place} {shard}".encode(), digest_size=8)
            default_generator.set_plain_state((int.from_bytes(key.digest(), "little"), 0))
            if ours:
                random.seed(f"{bases[0]} {shard}")
                np.random.seed(np.frombuffer(hashlib.blake2b(f"{bases[1]} {shard}".encode()).digest(), np.uint32))

        try:
            if self._is_parallel:
                self.module.require_backward_grad_sync = False
            if sets_threads:
                pool.set_num_threads(threads)
            yield streams
        finally:
            if self._is_parallel:
                self.module.require_backward_grad_sync = before
            if sets_threads:
                pool.set_num_threads(count)
            default_generator.set_plain_state(state)
            if states is not None:
                random.setstate(states[0])
                np.random.set_state(states[1])

    def _join(self, parameters: list[Tensor], total: Term, before: list[Any], weight: float) -> None:
        """The tree over the processes; what comes of it becomes the gradients."""
        used = np.array([term is not None for term in total], np.int64)
        group = self.group
        if group.size() > 1:
            group.run("parameters used", lambda communicator: communicator.all_reduce([used], ReduceOp.SUM))
            by_dtype: dict[Any, list[int]] = {}
            for place in np.flatnonzero(used).tolist():
                dtype = dtype_of_sums(parameters[place])
                if total[place] is None:
                    total[place] = np.zeros(tuple(parameters[place].shape), dtype)
                by_dtype.setdefault(dtype, []).append(place)
            for dtype, places in by_dtype.items():
                flat = [term.reshape(-1) for place in places if (term := total[place]) is not None]
                size = sum([array.size for array in flat])

                def task(communicator: Communicator, flat: list[np.ndarray] = flat) -> None:
                    communicator.all_reduce(flat, ReduceOp.SUM)

                group.run(f"gradients of {self.count} shards: {size} of {dtype.name}", task)
        for parameter, term, earlier, is_used in zip(parameters, total, before, used):
            if not is_used or term is None:
                parameter.grad = earlier
                continue
            term /= term.dtype.type(weight)
            with no_grad():
                gradient = wrap(term.astype(parameter.array.dtype, copy=False)).to(parameter.device)
                parameter.grad = gradient if earlier is None else earlier + gradient


def _fits(count: int, size: int) -> bool:
    each = count // size
    return count % size == 0 and each & (each - 1) == 0


def _copy(sources: list[Tensor], targets: list[Tensor]) -> None:
    with no_grad():
        for source, target in zip(sources, targets):
            target.copy_(source)
