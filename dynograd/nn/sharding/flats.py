"""Parameters of one dtype behind each other, of which each process keeps an equal part of the elements.

The whole is there while a module needs it: `whole` stands in the module for each parameter then, in memory that is read from all processes
and given back. Reading is one-sided: a process does not take part in what another one reads, so they may use different modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd import no_grad
from dynograd.autograd.writes import version
from dynograd.base import dtypes
from dynograd.distributed.buffers import Buffer
from dynograd.distributed.communicators.protocol import Communicator, parts_of
from dynograd.distributed.process_groups import ProcessGroup, Work
from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.splits import Split, add_split
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import empty, zeros
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["DIVIDED", "Flat", "Piece"]

DIVIDED = "_is_divided"  # marks the parameters that were whole: another module may still have one of them


class Piece:
    """One parameter: where it lies in the flat, its part of this process (`shard`), and what stands for it while it is whole."""

    __slots__ = ("first", "is_counted", "is_used", "own", "places", "shape", "shard", "whole")

    def __init__(self, places: list[tuple[Any, str]], shape: tuple[int, ...], own: slice, first: int) -> None:
        self.places, self.shape, self.own, self.first = places, shape, own, first
        self.is_used = self.is_counted = False  # it has a gradient, and that of this pass has been seen
        self.shard: Parameter
        self.whole: Parameter


class Flat:
    """Parameters behind each other.

    Args:
        parameters: of one dtype, all of them requiring gradients or none, with the modules and names that have them.
        group: whose processes have a part each.
    """

    def __init__(self, parameters: Sequence[tuple[Parameter, list[tuple[Any, str]]]], group: ProcessGroup) -> None:
        self.group = group
        first = parameters[0][0]
        self.dtype, self.requires_grad = first.array.dtype, first.requires_grad
        self.device = first.device  # of a GPU, what others read is a copy in the memory of the host
        self.total = sum([parameter.numel() for parameter, _ in parameters])
        self.parts = parts_of(self.total, group.size())
        own = self.parts[group.rank()]
        self.exposed = group.run(
            f"memory for {self.total} parameters of {first.dtype}",
            lambda communicator: communicator.expose(own.stop - own.start, self.dtype),
        )
        self.memory: np.ndarray | CudaArray | None = None
        self.missing = self._version = 0
        self._work: Work | None = None
        self._read_ahead: np.ndarray | None = None
        self.pieces: list[Piece] = []
        start = 0
        for parameter, places in parameters:
            count = parameter.numel()
            self.pieces.append(self._piece(parameter, places, start, own))
            start += count

    def _piece(self, parameter: Parameter, places: list[tuple[Any, str]], start: int, own: slice) -> Piece:
        end = start + parameter.numel()
        parts = [slice(max(part.start, start), max(min(part.stop, end), max(part.start, start))) for part in self.parts]
        here = parts[self.group.rank()]
        piece = Piece(places, tuple(parameter.shape), slice(here.start - own.start, here.stop - own.start), start)
        split = Split(
            self.group, piece.shape, None, tuple(slice(part.start - start, part.stop - start) for part in parts)
        )
        if here.start == here.stop:  # none of it is here
            split = _without_own(split)
            piece.own = slice(0, 0)
        memory = self.exposed.array[piece.own]
        memory[...] = parameter.detach().contiguous().cpu().numpy().reshape(-1)[split.own]
        piece.shard = Parameter(self._on_device(memory), self.requires_grad)
        piece.whole = Parameter(wrap(self._nothing(piece.shape)), self.requires_grad)
        add_split(piece.shard, parameter, split)
        setattr(parameter, DIVIDED, True)
        for module, name in places:
            module._parameters[name] = piece.shard
        return piece

    def _on_device(self, array: np.ndarray) -> Tensor:
        """The array itself on the CPU, a copy of it on a GPU."""
        return wrap(array).to(self.device)

    def _nothing(self, shape: tuple[int, ...]) -> np.ndarray | CudaArray:
        """The memory of a parameter that is not there: its shape, and no number that could be taken for one."""
        number = np.array(np.nan, self.dtype) if self.dtype.kind in "fcV" else np.zeros((), self.dtype)
        if self.device.type == "cpu":
            return np.broadcast_to(number, shape)
        return self._on_device(number).array.broadcast_to(shape)

    # --- the whole -----------------------------------------------------------------------------------------------------

    def _read(self) -> np.ndarray:
        memory = buffers.empty((self.total,), self.dtype)
        for rank, part in enumerate(self.parts):
            self.exposed.read(rank, memory[part])
        return memory

    def read_ahead(self) -> None:
        """Begins to read the whole, by a thread."""
        if self.memory is None and self._work is None:

            def read(communicator: Communicator) -> None:
                self._read_ahead = self._read()

            self._work = self.group.run("reading parameters", read, async_op=True, is_collective=False)

    def gather(self) -> np.ndarray | CudaArray:
        """The memory of the whole, which stands for the parameters from now on."""
        if self.memory is None:
            if self._work is not None:
                self._work.wait()
                self._work = None
            memory = self._read() if self._read_ahead is None else self._read_ahead
            self.memory, self._read_ahead = self._on_device(memory).array, None
            self._version = version(self.memory)
            for piece in self.pieces:
                size = int(np.prod(piece.shape, dtype=np.int64))
                piece.whole.data = wrap(self.memory[piece.first : piece.first + size].reshape(piece.shape))
        return self.memory

    def release(self) -> None:
        """Gives the memory of the whole back; what still uses it keeps it."""
        if self._work is not None:
            self._work.wait()
            self._work = self._read_ahead = None
        if self.memory is None:
            return
        was_written = version(self.memory) != self._version
        self.memory = None
        for piece in self.pieces:
            piece.whole.data = wrap(self._nothing(piece.shape))
        if was_written:
            names = ", ".join(
                [f"{type(module).__name__}.{name}" for piece in self.pieces for module, name in piece.places[:1]]
            )
            raise RuntimeError(
                f"fully_shard: a forward pass has written into a parameter, one of {names}. What is written into the whole is lost: leave "
                f"the module that writes (an Embedding with max_norm) out, by ignored_params, or write into the parts between steps."
            )

    def install(self, is_whole: bool) -> None:
        """Puts the wholes, or the parts, into the modules."""
        for piece in self.pieces:
            parameter = piece.whole if is_whole else piece.shard
            for module, name in piece.places:
                module._parameters[name] = parameter

    def check(self) -> None:
        """What the parts are now is what the others read."""
        for piece in self.pieces:
            exposed, array = self.exposed.array[piece.own], piece.shard.array
            on_gpu = type(array) is CudaArray
            if not exposed.size or (not on_gpu and (array is exposed or _address(array) == _address(exposed))):
                continue
            if array.dtype != exposed.dtype or array.size != exposed.size:
                raise RuntimeError(
                    f"fully_shard: a part of {exposed.size} numbers of {self.dtype} has become {array.size} of {array.dtype}. Convert a "
                    f"module, and move it, before fully_shard."
                )
            exposed[...] = arrays.to_numpy(array).reshape(exposed.shape)
            if not on_gpu or piece.shard.device != self.device:
                piece.shard.data = self._on_device(exposed)

    # --- gradients -----------------------------------------------------------------------------------------------------

    def _gradients(self) -> np.ndarray | CudaArray:
        """The gradients of the wholes behind each other, zeros where there is none; that of a single parameter is not copied."""
        gradients = [piece.whole.grad for piece in self.pieces]
        for piece in self.pieces:
            piece.whole.grad = None
        if len(gradients) == 1 and gradients[0] is not None:
            return _array(gradients[0])
        flat = zeros(self.total, dtype=dtypes.BY_NUM[self.dtype.num], device=self.device).array
        for piece, gradient in zip(self.pieces, gradients):
            if gradient is not None:
                flat[piece.first : piece.first + gradient.numel()] = _array(gradient)
        return flat

    def reduce(self, scale: float | None) -> list[Piece]:
        """Joins the gradients of all processes, each its part; gives the pieces whose gradients were made here, for the others' sake."""
        flat = self._gradients()
        if scale is not None:
            flat = flat * self.dtype.type(scale)
        op = ReduceOp.AVG if scale is None else ReduceOp.SUM
        source = Buffer(wrap(flat), False, may_stay=True)
        result = empty(self.exposed.array.size, dtype=dtypes.BY_NUM[self.dtype.num], device=self.device)
        target = Buffer(result, True, may_stay=True)

        def task(communicator: Communicator) -> None:
            communicator.reduce_scatter([source.array[part] for part in self.parts], target.array, op)
            target.finish()

        self.group.run(f"gradients of {self.total} parameters of {self.dtype}, {op.name}", task)
        new = []
        with no_grad():
            for piece in self.pieces:
                part: Tensor = wrap(result.array[piece.own])
                if piece.shard.grad is None:
                    new.append(piece)
                    piece.shard.grad = part
                else:
                    piece.shard.grad += part
        return new


def _array(gradient: Tensor) -> np.ndarray | CudaArray:
    return (gradient.to_dense() if gradient.is_sparse else gradient).contiguous().array.reshape(-1)


def _without_own(split: Split) -> Split:
    rank = split.group.rank()
    parts = tuple(slice(0, 0) if place == rank else part for place, part in enumerate(split.parts))
    return Split(split.group, split.shape, split.dim, parts)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
