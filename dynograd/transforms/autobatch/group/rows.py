"""Rows of groups on the tape: a group's result is one slab, and everything that uses it uses rows of that slab.

Each use sends back the gradient of its rows as `RowParts`; the slab's node puts them together once, in one buffer. So a slab whose
rows go to twenty groups costs one buffer and no sums of whole slabs.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.autograd.engine import through_hooks_of_tensor
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Hooks, Node, Partial, next_seq
from dynograd.base import dtypes
from dynograd.kernels import kernel
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor, wrap


class RowParts(Partial):
    """Gradients of rows of a slab: (which rows, their gradient) pairs. Which: None for all, an int, a slice, or an index array."""

    __slots__ = ()
    __array_ufunc__ = None
    parts: Any

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __add__(self, other: Any) -> Any:
        self.parts += other.parts  # the engine alone holds the sum
        return self

    def __radd__(self, other: Any) -> Any:
        return self if isinstance(other, int) else NotImplemented


class Arena:
    """The results of all groups of one form behind one another, so that rows of many groups are taken at once.

    In a backward pass all who took rows add their gradients to one buffer; the groups' nodes find them there.
    """

    __slots__ = ("array", "buffer", "filled", "task")

    def __init__(self, array: Any) -> None:
        self.array, self.filled = array, 0
        self.task: Any = None  # the pass that `buffer` belongs to
        self.buffer: Any = None

    def add(self, which: Any, g: Any) -> Any:
        """Adds gradients of rows; the buffer."""
        buffer = self.buffer_of_pass()
        add_rows(buffer, which, g)
        return buffer

    def buffer_of_pass(self) -> Any:
        """Where the running pass adds gradients."""
        task = MODES.task
        if self.buffer is None or self.task is not task:
            self.task, self.buffer = task, buffers.zeros(self.array.shape, self.array.dtype)
        return self.buffer


class _Buffered:
    """Stands for "which rows" where gradients lie in an arena's buffer."""


BUFFERED = _Buffered()


class SlabNode(Node):
    """Between the node of a group's op and those who use rows of its result. `attrs` is (shape, dtype, device)."""

    __slots__ = ("row_hooks", "start")
    row_hooks: dict[Any, Hooks] | None
    start: int  # where its rows begin in an arena

    def hooks_of(self, row: Any) -> Hooks:
        if self.row_hooks is None:
            self.row_hooks = {}
        return self.row_hooks.setdefault(row, Hooks())

    def collector(self) -> Node:
        """The node that all gradients of its rows come to."""
        return self

    def apply(self, g: Any) -> Any:
        summed = self.summed(g)
        if self.row_hooks is not None:
            summed = arrays.copy(summed)
            run_hooks(summed, self.row_hooks)
        return (summed,)

    def summed(self, g: Any) -> Any:
        """The gradient of the whole slab, as an array."""
        parts = g.parts
        if len(parts) == 1 and parts[0][0] is None:
            return arrays.as_result(parts[0][1])
        shape, kind, place = self.attrs
        if place.type != "cpu":
            return self.summed_tensor(RowParts([(which, wrap(part)) for which, part in parts])).array
        result: Any = None
        seen: list[Any] = []
        for which, part in parts:
            if which is BUFFERED and not any([part is seen_part for seen_part in seen]):
                seen.append(part)
                mine = part[self.start : self.start + shape[0]]
                result = mine if result is None else result + mine
        if result is None:
            result = buffers.zeros(shape, kind)
        for which, part in parts:
            if which is not BUFFERED:
                add_rows(result, which, part)
        g.parts = [
            (None, result)
        ]  # who asks again, as `part_of` does, must not have them added to the arena's buffer twice
        return result

    def apply_graph(self, g: Any) -> Any:
        return (run_hooks(self.summed_tensor(g), self.row_hooks or {}),)

    def summed_tensor(self, g: Any) -> Any:
        """The same as a tensor, with its history."""
        shape, kind, place = self.attrs
        total: Any = None
        for which, part in g.parts:
            spread = part
            if which is not None:
                if isinstance(which, int):
                    which, part = numpy.array([which]), part.reshape((1, *part.shape))
                elif isinstance(which, slice):
                    which = numpy.arange(which.start, which.stop)
                empty = wrap(arrays.zeros(shape, dtypes.BY_NUM[kind.num], place))
                spread = registry["index_add"].function(empty, 0, _places(which, place), _by_row(part, which, shape))
            total = spread if total is None else total + spread
        return total

    def op_name(self) -> str:
        return self.edges[0].op_name() if isinstance(self.edges[0], Node) else "autobatch"


def run_hooks(total: Any, row_hooks: dict[Any, Hooks]) -> Any:
    """Puts rows of a gradient through their hooks: in place for an array, and gives the new one for a tensor."""
    graph = isinstance(total, Tensor)
    for row, hooks in row_hooks.items():
        row_of_total = _row(total, row)
        result: Any = through_hooks_of_tensor(hooks, row_of_total if graph else arrays.copy(row_of_total), graph)
        index = row if type(row) is int else slice(*row[:2])
        if graph:
            total = registry["basic_put"].function(total, result.reshape(tuple(total[index].shape)), (index,))
        else:
            total[index] = result.reshape(total[index].shape)
    return total


def _row(total: Any, row: Any) -> Any:
    """A row of a slab: by its number, or as (start, stop, shape) of those that it consists of."""
    return total[row] if type(row) is int else total[row[0] : row[1]].reshape(row[2])


def _places(which: Any, place: Any) -> Any:
    return wrap(arrays.to_device(numpy.ascontiguousarray(which, numpy.int64), place))


def add_rows(result: Any, which: Any, part: Any) -> None:
    """`result[which] += part`, where an index may stand several times in `which`."""
    part = arrays.as_result(part)
    if which is None:
        result += part
    elif type(which) is numpy.ndarray:
        add_slices(result, 0, which, numpy.ascontiguousarray(part).reshape(len(which), *result.shape[1:]))
    else:
        result[which] += part


def add_slices(out: Any, dim: int, index: Any, src: Any) -> None:
    kernel("scatters", "add_slices", out)(out, dim, index, src)


class RowNode(Node):
    """One row of a slab, as a user's tensor has it; `attrs` is the row, or (start, stop, shape) of those that it consists of."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        if type(self.attrs) is int:
            return (RowParts([(self.attrs, g)]),)
        start, stop, _ = self.attrs
        g = g if isinstance(g, Tensor) else arrays.as_result(g)
        return (RowParts([(slice(start, stop), g.reshape((stop - start, *self.edges[0].attrs[0][1:])))]),)

    apply_graph = apply

    def whole(self) -> Node:
        """The node that all gradients of the row come to."""
        return self.edges[0].collector()

    def part_of(self, g: Any) -> Any:
        """The gradient of this row, of that of the whole slab."""
        slab = self.edges[0]
        if any([isinstance(part, Tensor) for _, part in g.parts]):
            return _row(slab.summed_tensor(g), self.attrs)
        return arrays.copy(_row(slab.summed(g), self.attrs))

    def op_name(self) -> str:
        return self.edges[0].op_name()

    def name(self) -> str:
        inner = self.edges[0].edges[0]
        return inner.name() if isinstance(inner, Node) else "AccumulateGrad"

    @property
    def next_functions(self) -> Any:
        inner = self.edges[0].edges[0]
        return inner.next_functions if isinstance(inner, Node) else ()

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class GatherNode(Node):
    """Rows of slabs put together. `attrs`: for each slab (its rows, where they go), None for all."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        if len(self.attrs) == 1 and self.attrs[0][1] is None:
            return (RowParts([(self.attrs[0][0], g)]),)
        return tuple(
            [
                None if edge is None else RowParts([(rows, _picked(g, to))])
                for edge, (rows, to) in zip(self.edges, self.attrs, strict=True)
            ]
        )

    apply_graph = apply

    def op_name(self) -> str:
        return "autobatch's gather"


class ArenaGatherNode(Node):
    """Rows taken from an arena. `edges` are the nodes of the groups that they come from, `attrs` is (arena, which rows)."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        arena, which = self.attrs
        buffer = arena.add(which, g)
        return tuple([RowParts([(BUFFERED, buffer)]) for _ in self.edges])

    def apply_graph(self, g: Any) -> Any:
        _, which = self.attrs
        rows = numpy.arange(which.start, which.stop) if isinstance(which, slice) else which
        g = _by_row(g, rows, self.attrs[0].array.shape)
        results = []
        for slab in self.edges:
            to = numpy.nonzero((rows >= slab.start) & (rows < slab.start + slab.attrs[0][0]))[0]
            results.append(RowParts([(rows[to] - slab.start, _picked(g, to))]))
        return tuple(results)

    def op_name(self) -> str:
        return "autobatch's gather"


def _by_row(g: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of `rows` of a slab of that shape, whatever shape they have been given since they were gathered."""
    shape_of_slab = len(rows), *shape[1:]
    return g if tuple(g.shape) == shape_of_slab else registry["view"].function(g.contiguous(), shape_of_slab)


def _picked(g: Any, to: Any) -> Any:
    if isinstance(g, Tensor):
        return g if to is None else registry["index_select"].function(g, 0, _places(to, g.device))
    if to is None:
        return g
    return g[to] if type(g) is numpy.ndarray else _picked(wrap(g), to).array


_kept: dict[type, type] = {}


def keep_saved(nodes: list[Any]) -> None:
    """What these nodes have saved is not dropped by the first backward: examples with losses of their own share them."""
    for node in nodes:
        cls = type(node)
        if cls.release is not None or cls.drops:
            kept = _kept.get(cls)
            if kept is None:
                kept = _kept[cls] = type(cls.__name__, (cls,), {"__slots__": (), "release": None, "drops": ()})
            node.__class__ = kept


def new_node(kind: Any, edges: tuple, attrs: Any) -> Any:
    node = kind()
    node.edges, node.seq, node.hooks, node.attrs = edges, next_seq(), None, attrs
    return node


def slab_of(tensor: Any, kind: type[SlabNode] = SlabNode) -> Any:
    """The SlabNode over a group's result; None where it wants no gradient."""
    if not tensor._requires_grad:
        return None
    array = tensor.array
    node = new_node(kind, (tensor.node or tensor,), (array.shape, array.dtype, arrays.device_of(array)))
    node.row_hooks = None
    return node


def from_arena(arena: Arena, rows: Any, slabs: list[Any], run: bool) -> Any:
    """A tensor on rows of an arena, a `run` of them or not; `slabs` are the SlabNodes of their groups, none where no gradient is wanted."""
    array = arena.array
    if run:
        first, count = int(rows[0]), len(rows)
        which: Any = slice(first, first + count)
        tensor = wrap(array[first : first + count])
        if len(slabs) == 1 and slabs[0].start == first and slabs[0].attrs[0][0] == count:
            tensor.node, tensor._requires_grad = new_node(GatherNode, (slabs[0],), ((None, None),)), True
            return tensor
    else:
        which = rows
        tensor = wrap(array.take(rows, 0))
    if slabs:
        tensor.node, tensor._requires_grad = new_node(ArenaGatherNode, tuple(slabs), (arena, which)), True
    return tensor


def reshaped(result: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of rows that were gathered for it in another shape: itself, where its node takes a gradient of any shape."""
    node = result.node
    if node is None or type(node) is ArenaGatherNode or (type(node) is GatherNode and node.attrs[0][1] is None):
        result.array = result.array.reshape(shape)
        return result
    return registry["view"].function(result, shape)


def is_run(rows: Any) -> bool:
    """Whether row numbers are those of rows behind one another."""
    return int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((rows[1:] - rows[:-1] == 1).all())


def row_of(slab: Any, row: Any) -> Any:
    return new_node(RowNode, (slab,), row)


def gathered(array: Any, slabs: tuple, plan: tuple) -> Any:
    """A tensor on gathered rows; `slabs` are the SlabNodes (None: no gradient)."""
    tensor = wrap(array)
    if any([slab is not None for slab in slabs]):
        tensor.node = new_node(GatherNode, slabs, plan)
        tensor._requires_grad = True
    return tensor
