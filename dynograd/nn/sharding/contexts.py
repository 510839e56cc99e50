"""What the sharded modules of a model have in common: when parameters may be read, and in which order gradients travel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.arrays import address_of
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.synchronizing import count_of
from dynograd.nn.sharding.flats import Flat, Piece
from dynograd.nn.sharding.saved_places import Place, tensors_in, unpack
from dynograd.tensor.graphs import active_hooks, saved_tensors_hooks
from dynograd.tensor.tensor import Tensor

__all__ = ["Context", "Unit"]


class Unit:
    """A module with parameters that become whole together.

    Args:
        module: whose calls need them.
        flats: its parameters.
        context: of the model.
        is_released: whether the memory is given back between forward and backward.
    """

    def __init__(self, module: Any, flats: list[Flat], context: Context, is_released: bool) -> None:
        self.module, self.flats, self.context, self.is_released = module, flats, context, is_released
        self.depth = 0
        self.is_in_backward = False

    def __reduce__(self) -> tuple:
        raise TypeError(
            f"fully_shard: {type(self.module).__name__} is divided and cannot be copied or pickled, as the others read its parameters from "
            f"this memory. Take get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)), load it into a new module, "
            f"and divide that one if it is to train."
        )

    def enter(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward pass begins."""
        self.context.enter(self, args, kwargs)

    def leave(self, *call: Any) -> None:
        """A forward pass has ended, well or not."""
        self.context.leave(self, call[-1])


def _note(unit: Unit, flat: Flat, piece: Piece, whole: Tensor) -> None:
    piece.is_used = True
    unit.context.has_gradient(flat, piece)


class Context:
    """The sharded modules of a model.

    Args:
        group: whose processes have the parts.
        average: as of `DistributedDataParallel`.
        reads_ahead: whether a thread reads what comes next; None: where cores are free for it.
    """

    def __init__(self, group: ProcessGroup, average: str | Callable[..., float], reads_ahead: bool | None) -> None:
        self.group, self.average = group, average
        self.reads_ahead = group.has_free_cores() if reads_ahead is None else reads_ahead
        self.units: list[Unit] = []
        self.is_on = True  # gradients are joined
        self.flats: list[Flat] = []  # in the order in which their gradients travel
        self._is_ordered = False
        self._is_stale = True  # processes may still be writing their parts
        self._depth = 0
        self._weight = 1.0
        self._hooks: list[saved_tensors_hooks | None] = []
        self._calls: list[Unit] = []  # in the order of the last forward pass
        self._calls_before: list[Unit] = []
        self._task: Any = None
        self._next = 0
        self._ready: list[int] = []
        self._scale: float | None = None
        self._new: list[Piece] = []

    def add(self, unit: Unit) -> None:
        """Takes a module in."""
        self.units.append(unit)
        unit.context = self
        self.flats = [flat for flat in unit.flats if flat.requires_grad] + self.flats
        for flat in unit.flats:
            if flat.requires_grad:
                for piece in flat.pieces:
                    piece.whole.register_post_accumulate_grad_hook(functools.partial(_note, unit, flat, piece))

    # --- forward -------------------------------------------------------------------------------------------------------

    def enter(self, unit: Unit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward pass of a module begins: its parameters are there."""
        if not self._depth and self._task is None:
            self._begin_forward(args, kwargs)
        self._depth += 1
        unit.depth += 1
        if unit.depth > 1:
            return
        if self._task is None:
            self._calls.append(unit)
        for flat in unit.flats:
            flat.gather()
            flat.install(True)
        self.read_ahead_of(unit, 1)
        outer = active_hooks()
        self._hooks.append(None if outer is not None and outer in self._hooks else self._watch(outer))

    def _watch(self, outer: saved_tensors_hooks | None) -> saved_tensors_hooks:
        """From now on what ops save of a whole is a place in it; the rest goes on to the hooks that were there before."""
        hooks = saved_tensors_hooks(lambda saved: self._pack(saved, outer), unpack)
        hooks.__enter__()
        return hooks

    def _begin_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._calls_before, self._calls = self._calls, []
        if self._is_stale:
            self.meet()
        if self.average != "ranks":
            self._weight = self._count(args, kwargs)

    def meet(self) -> None:
        """Waits until all processes have written their parts."""
        for unit in self.units:
            for flat in unit.flats:
                flat.release()
                flat.check()
                flat.exposed.publish()
        self.group.run("parameters are written", lambda communicator: communicator.barrier())
        for unit in self.units:
            for flat in unit.flats:
                flat.exposed.publish()
        self._is_stale = False

    def changed(self) -> None:
        """Parts have been written: the next forward pass waits for all processes."""
        self._is_stale = True

    def leave(self, unit: Unit, output: Any) -> None:
        """A forward pass of a module has ended: the parts are in their places again."""
        self._depth -= 1
        unit.depth -= 1
        if unit.depth:
            return
        hooks = self._hooks.pop()
        if hooks is not None:
            hooks.__exit__()
        if unit.is_in_backward:  # called again by a checkpoint
            return
        for flat in unit.flats:
            flat.install(False)
            if unit.is_released or not MODES.grad:
                flat.release()
        if MODES.grad:
            for x in tensors_in(output):
                if x.requires_grad and not x.is_leaf:
                    x.register_hook(lambda gradient: self._begin_backward(unit))

    def _count(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        if callable(self.average):
            return float(self.average(*args, **kwargs))
        for value in (*args, *kwargs.values()):
            count = count_of(value, self.average)
            if count is not None:
                return float(count)
        raise TypeError(
            f"fully_shard: average={self.average!r} needs a tensor among the forward's arguments, got "
            f"{', '.join([type(value).__name__ for value in (*args, *kwargs.values())])}. Give average=a function of these arguments."
        )

    def _pack(self, saved: Tensor, outer: saved_tensors_hooks | None) -> object:
        array = saved.array
        if type(array) in (np.ndarray, CudaArray):
            address = address_of(array)
            for unit in self.units:
                if not unit.is_released:
                    continue
                for flat in unit.flats:
                    memory = flat.memory
                    if memory is not None and memory.dtype == array.dtype:
                        offset = address - address_of(memory)
                        if type(memory) is type(array) and 0 <= offset < memory.nbytes:
                            return Place(flat, array, offset, functools.partial(self.read_ahead_of, unit, -1))
        return saved if outer is None else (outer, outer.pack_hook(saved))

    def read_ahead_of(self, unit: Unit, step: int) -> None:
        """Begins to read what came behind `unit` in the pass before (`step` 1), or what went before it (-1)."""
        if not self.reads_ahead:
            return
        calls = self._calls_before if step == 1 else self._calls
        if unit in calls:
            place = calls.index(unit) + step
            if 0 <= place < len(calls):
                for flat in calls[place].flats:
                    flat.read_ahead()

    # --- backward ------------------------------------------------------------------------------------------------------

    def _begin_backward(self, unit: Unit) -> None:
        """A gradient comes to what a module has given: its parameters are there, also for checkpoints that call layers again."""
        if MODES.task is None or MODES.task.gives or unit.is_in_backward:
            return
        unit.is_in_backward = True
        for flat in unit.flats:
            flat.gather()
            flat.install(True)
        self.read_ahead_of(unit, -1)
        self._note(MODES.task)

    def _note(self, task: Any) -> None:
        """A backward pass has come to the model: it will be told of its end."""
        if task is self._task:
            return
        self._task = task
        if self.is_on:
            self._begin(task)
        else:
            task.at_end.append(self._end_alone)

    def has_gradient(self, flat: Flat, piece: Piece) -> None:
        """One of a flat's parameters has its gradient."""
        self._note(MODES.task)
        if not self.is_on or piece.is_counted:
            return
        piece.is_counted = True
        flat.missing -= 1
        if flat.missing == 0:
            self._ready.append(self.flats.index(flat))
            flat.install(False)
            flat.release()
            while self._next < len(self.flats) and self.flats[self._next].missing <= 0:
                self._new += self.flats[self._next].reduce(self._scale)
                self._next += 1

    def _end_alone(self) -> None:
        self._task = None
        self._release()

    def _release(self) -> None:
        for unit in self.units:
            unit.is_in_backward = False
            for flat in unit.flats:
                flat.install(False)
                flat.release()

    def _begin(self, task: Any) -> None:
        self._next, self._ready, self._scale, self._new = 0, [], None, []
        for flat in self.flats:
            flat.missing = len(flat.pieces)
            for piece in flat.pieces:
                piece.is_counted = False
        task.at_end.append(self._end)
        if self.average != "ranks":
            total = np.array([self._weight])
            self.group.run(
                "weights of the ranks' gradients", lambda communicator: communicator.all_reduce([total], ReduceOp.SUM)
            )
            self._scale = self._weight / total[0] if total[0] else 0.0

    def _end(self) -> None:
        """Backward has ended: gradients that have not been joined are."""
        self._task = None
        self._release()
        pieces = [piece for flat in self.flats for piece in flat.pieces]
        used = np.array([piece.is_used for piece in pieces], np.float64)
        for flat in self.flats[self._next :]:
            self._new += flat.reduce(self._scale)
        self.group.run("parameters used", lambda communicator: communicator.all_reduce([used], ReduceOp.SUM))
        new = set(self._new)
        for piece, count in zip(pieces, used):
            piece.is_used = False
            if not count and piece in new:
                piece.shard.grad = None
        self._new = []
        self._is_stale = True
        if not self._is_ordered:
            self._reorder()

    def _reorder(self) -> None:
        """From the second pass on gradients travel in the order in which the first process's were ready."""
        rest = [place for place in range(len(self.flats)) if place not in self._ready]
        order = np.array([*self._ready, *rest], np.int64)
        self.group.run("order of gradients", lambda communicator: communicator.broadcast(order, 0))
        self.flats = [self.flats[place] for place in order]
        self._is_ordered = True
