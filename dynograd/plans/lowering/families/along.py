"""Picking, writing and adding along one dim at an index with as many dims as what is read or written: `gather`, `scatter` and their like."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.build.sizes import COMPILED_ROWS
from dynograd.ops.index.indices import check_range
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rules_in_parts

__all__: list[str] = []

_REDUCED = {"prod": 2, "amax": 3, "amin": 4}  # see `scatters_numba.reduce_along`
_COLUMNS = 16  # of an item of the kernels that write


class _Along:
    """Launches that read an index along `dim` of arrays of `shape`. What eager would raise for its values, `check` raises.

    Kernels leave out blocks with an index outside.
    """

    def __init__(self, name: str, index: Any, dim: int, shape: tuple[int, ...]) -> None:
        self.name, self.read, self.dim, self.shape = name, index, dim, shape
        self.launches: list[Launch] = []
        self.outside = numpy.zeros(1, numpy.int64)
        self.index = layouts.row_major(index, self.launches) if index.dtype == numpy.int64 else None
        self.fits = self.index is not None and index.ndim == len(shape)
        # The part of an array of `shape` that can be met: an index may be smaller outside `dim`.
        self.part = tuple([slice(None) if axis == dim else slice(size) for axis, size in enumerate(index.shape)])

    def in_three(self, array: Any, dtype: Any = None) -> numpy.ndarray:
        """The array as (dims before `dim`, `dim`, dims after)."""
        shape, dim = array.shape, self.dim
        return layouts.flat(array, dtype).reshape(prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))

    def pick(self, x: Any, out: Any) -> Lowered | None:
        """out = x at the index."""
        from dynograd.kernels.index.scatters_numba import pick_along

        if not self.fits or x.dtype != out.dtype or x.itemsize not in (1, 2, 4, 8):
            return None
        behind: list[Launch] = []
        x, target = layouts.row_major(x[self.part], self.launches), layouts.to_be_written(out, behind)
        if x is None or target is None:
            return None
        if out.size and x.size:
            kind = numpy.dtype(f"u{x.itemsize}")
            arguments = self.in_three(x, kind), self.in_three(self.index), self.in_three(target, kind), self.outside
            count = prod(arguments[1].shape[:2])
            self.launches.append(Launch(pick_along, arguments, count, layouts.parts_of(2 * out.size, count)))
        return self.lowered(behind)

    def put(self, before: list[Launch] | None, source: Any, out: Any, how: str) -> Lowered | None:
        """out = what `before` has written, with the source written, added, ... at the index, first to last.

        Args:
            how: "write", "add", or another key of `_REDUCED`.
        """
        from dynograd.kernels.index import scatters_numba

        sums = out.dtype in (numpy.float32, numpy.float64, numpy.int64)
        if not self.fits or before is None or source.dtype != out.dtype or (how != "write" and not sums):
            return None
        behind: list[Launch] = []
        part = out[self.part]
        source, target = layouts.row_major(source, self.launches), layouts.to_be_written(part, behind)
        if source is None or target is None or out.itemsize not in (1, 2, 4, 8):
            return None
        filled = [] if target is part else layouts.copy(target, part)
        if filled is None:
            return None
        if source.size and out.size:
            kind = numpy.dtype(f"u{out.itemsize}") if how == "write" else None
            kernel = getattr(scatters_numba, "reduce_along" if how in _REDUCED else f"{how}_along")
            arguments: tuple[Any, ...]
            arguments = self.in_three(target, kind), self.in_three(self.index), self.in_three(source, kind)
            count = arguments[1].shape[0] * -(-arguments[1].shape[2] // _COLUMNS)
            parts = layouts.parts_of(2 * source.size, count)
            arguments += (_REDUCED[how],) if how in _REDUCED else ()
            self.launches.append(Launch(kernel, (*arguments, self.outside), count, parts))
        self.launches[:0] = [*before, *filled]
        return self.lowered(behind, how == "write" or (how == "add" and source.size < COMPILED_ROWS))

    def lowered(self, behind: list[Launch], exact: bool = True) -> Lowered:
        return Lowered([*self.launches, *behind], exact, self.check)

    def check(self) -> None:
        index = self.read
        if index.size and not (index.min() >= 0 and index.max() < self.shape[self.dim]):
            check_range(self.name, index, self.dim, self.shape, negative=False)


@form("op", "gather")
def _gather(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x, index = arguments["input"], arguments["index"]
    return _Along("gather", index, arguments["dim"], x.shape).pick(x, call.outputs[0])


@form("op", "gather_backward")
def _spread(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    along = _Along("gather", arguments["index"], arguments["dim"], tuple(arguments["shape"]))
    return along.put(layouts.fill(out, 0), arguments["g"], out, "add")


@form("op", "scatter", "scatter_number", "scatter_add")
def _scatter(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    x, index = arguments["input"], arguments["index"]
    source = arguments.get("src", arguments.get("value"))
    if not isinstance(source, numpy.ndarray):
        source = numpy.broadcast_to(numpy.array(source or 0, out.dtype), index.shape)
    along = _Along(call.name.removesuffix("_number"), index, arguments["dim"], x.shape)
    return along.put(layouts.copy(out, x), source, out, "add" if call.name == "scatter_add" else "write")


@form("op", "scatter_reduce")
def _scatter_reduced(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    index, source, how = arguments["index"], arguments["src"], arguments["reduce"]
    x, dim = arguments["input"], arguments["dim"]
    along = _Along("scatter_reduce", index, dim, x.shape)
    before: Any = layouts.copy(out, x)
    if not arguments["include_self"]:
        first = numpy.broadcast_to(numpy.ones((), out.dtype), index.shape) if how == "prod" else source
        before = _Along("scatter_reduce", index, dim, x.shape).put(before, first, out, "write")
    return along.put(before, source, out, how)


@form("op", "one_hot")
def _one_hot(call: Call) -> Lowered | None:
    x, out = call.inputs[0], call.outputs[0]
    if not out.flags.c_contiguous or not x.flags.c_contiguous or not out.size:
        return None
    target, index = out.reshape(x.size, out.shape[-1]), x.reshape(x.size, 1)
    along = _Along("one_hot", index, 1, target.shape)
    return along.put(layouts.fill(out, 0), numpy.broadcast_to(numpy.ones((), out.dtype), index.shape), target, "write")


rules_in_parts("scatter_reduce", "gather", "gather_backward", "scatter", "scatter_number", "scatter_add")
rules_in_parts("sort", "topk", "kthvalue", "median")  # what they have picked
