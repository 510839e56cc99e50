"""Operands of fused cells: which rows of which array a column of calls has, and the way of their gradients back."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy

from dynograd.ops.op import registry
from dynograd.transforms.autobatch.group.gathering import looked_up, operand
from dynograd.transforms.autobatch.group.rows import from_arena, is_run

_MASK = (1 << 32) - 1


class Rows:
    """Rows `index` of `array` (two dims). They come from an arena, from a tensor with one row for each call, or from one row for all."""

    __slots__ = ("arena", "array", "back", "edges", "index", "shape", "single", "slabs", "tensor")

    def __init__(self, array: Any, index: Any, shape: tuple[int, ...], tensor: Any, single: bool) -> None:
        self.array, self.index, self.shape, self.tensor, self.single = array, index, shape, tensor, single
        self.back = index  # which rows of the arena the node of the calls gives gradients to; -1: not this one
        self.arena: Any = None
        self.slabs: list[Any] = []
        self.edges: tuple[Any, ...] = ()
        if tensor is not None and tensor._requires_grad:
            self.edges = (tensor.node or tensor,)

    def give(self, parts: list[tuple[Any, int]]) -> Any:
        """Gradients, as (array, begin) pairs that are summed: added to the arena's, or given back for the tensor's edge."""
        size = self.array.shape[1]
        if self.arena is not None:
            if parts:
                from dynograd.kernels.rows.row_expressions_numba import add_rows

                buffer = self.arena.buffer_of_pass().reshape(len(self.array), size)
                for array, begin in parts:
                    add_rows.serial(buffer, self.back, array, begin, size, 0, len(array))
            return None
        total: Any = None
        for array, begin in parts:
            part = array[:, begin : begin + size]
            total = part if total is None else total + part
        if total is None:
            return None
        return (
            total.sum(0).reshape(self.shape)
            if self.single
            else numpy.ascontiguousarray(total).reshape(len(total), *self.shape)
        )

    def beside(self, slabs: dict[Any, Any]) -> Rows:
        """The same rows, where some of them are of other slabs, by arena."""
        rows = Rows(self.array, self.index, self.shape, self.tensor, self.single)
        if self.arena is not None:
            rows.arena, rows.slabs = self.arena, [*self.slabs, *slabs.get(self.arena, ())]
            rows.edges = tuple(rows.slabs)
        return rows

    def tensor_of(self, start: int, stop: int) -> Any:
        """These rows as a tensor with its history."""
        if self.arena is not None:
            return _rows_from(self.arena, self.index[start:stop], self.slabs)
        if self.single:
            wide = registry["view"].function(self.tensor, (1, *self.shape))
            return registry["expand"].function(wide, (stop - start, *self.shape))
        if start == 0 and stop == len(self.index):
            return self.tensor
        return registry["basic_index"].function(self.tensor, (slice(start, stop),))

    def give_graph(self, g: Any, start: int, stop: int) -> list[tuple[Any, Any]]:
        """The gradient `g` (a tensor) of rows `start` to `stop`, as (edge, part) pairs."""
        if g is None or not self.edges:
            return []
        if self.arena is not None:
            node = _rows_from(self.arena, self.index[start:stop], self.slabs).node
            return list(zip(node.edges, node.apply_graph(g), strict=True))
        (edge,) = self.edges
        if self.single:
            return [(edge, g.sum(0).reshape(self.shape))]
        if start == 0 and stop == len(self.index):
            return [(edge, g)]
        return [(edge, registry["basic_fill"].function(g, (len(self.index), *self.shape), (slice(start, stop),)))]


def _rows_from(arena: Any, rows: Any, slabs: list[Any]) -> Any:
    return from_arena(arena, rows, slabs, is_run(rows))


def codes_of(buckets: list[Any]) -> Any:
    """All operands of the calls of `buckets` that are rows of ports, one column of calls after the other: (columns, calls)."""
    columns = range(len(buckets[0].columns))
    parts = [
        numpy.fromiter(chain.from_iterable([bucket.columns[column] for bucket in buckets]), numpy.int64)
        for column in columns
    ]
    return numpy.array(parts) if parts else numpy.empty((0, 0), numpy.int64)


def rows_of(recorder: Any, form: Any, shared: tuple, codes: Any, size: int, kinds: list[int]) -> dict[int, Rows]:
    """Operands of `size` calls, by number; `codes` are their columns of `codes_of`."""
    by_key: dict[int, Rows] = {}
    stacked, column = [], 0
    for number, kind in enumerate(form.inputs):
        entry = shared[number]
        if entry is None:
            if number in kinds:
                stacked.append((number, column))
            column += 1
        elif number in kinds:
            tensor = entry.tensor if kind.grad else entry.tensor.detach()
            by_key[number] = _of_tensor(tensor, kind.shape, size, False)
    if not stacked:
        return by_key
    if len(stacked) < column:
        codes = codes[[port for _, port in stacked]]
    ports = codes >> 32
    flush = recorder.arenas
    left = stacked
    if flush.first_rows is not None:
        met = ports[:, 0].tolist()
        if bool((ports == ports[:, :1]).all()):  # each column has rows of one port only
            firsts = [int(flush.arena_numbers[port]) for port in met]
            alike = [True] * len(met)
            rows = [(codes[place] & _MASK) + flush.first_rows[port] for place, port in enumerate(met)]
        else:
            arenas = flush.arena_numbers[ports]
            firsts, met = arenas[:, 0].tolist(), None
            alike = (arenas == arenas[:, :1]).all(1).tolist()
            rows = (codes & _MASK) + flush.first_rows[ports]
        left, members = [], {}
        for place, (number, number_of_port) in enumerate(stacked):
            if alike[place] and firsts[place] >= 0:
                members.setdefault(firsts[place], []).append((place, number))
            else:
                left.append((number, number_of_port))
        for which, ones in members.items():
            wanting = [place for place, number in ones if form.inputs[number].grad]
            of = [met[place] for place in wanting] if met is not None else _numbers_in(ports[wanting], recorder)
            nodes = dict.fromkeys([recorder.ports[port].slab_node for port in of])
            slabs = [node for node in nodes if node is not None]
            for place, number in ones:
                kind = form.inputs[number]
                by_key[number] = _of_arena(flush.arenas[which], rows[place], kind, slabs if kind.grad else [])
    places_of = {number: place for place, (number, _) in enumerate(stacked)}
    for number, _ in left:
        by_key[number] = _slowly(recorder, form.inputs[number], codes[places_of[number]], size)
    return {number: by_key[number] for number in kinds}


def _numbers_in(ports: Any, recorder: Any) -> list[int]:
    """The numbers of ports that occur, in order."""
    met = numpy.zeros(len(recorder.ports), bool)
    met[ports] = True
    numbers: list[int] = numpy.flatnonzero(met).tolist()
    return numbers


def _slowly(recorder: Any, kind: Any, codes: Any, size: int) -> Rows:
    """An operand whose rows no chain of this flush has made."""
    numbers = codes >> 32
    result = _numbers_in(numbers, recorder)
    ports = [recorder.ports[port] for port in result]
    wholes = [port.whole for port in ports]
    arena = wholes[0].arena
    if arena is None or not all([whole.arena is arena for whole in wholes]):
        tensor, stacked = operand(recorder, codes.tolist(), size)
        return _of_tensor(tensor, kind.shape, size, stacked)
    rows = (codes & _MASK) + looked_up(result, [whole.base_row + whole.offset for whole in wholes], numbers)
    slabs = [whole.slab_node for port, whole in zip(ports, wholes, strict=True) if port.kind.grad] if kind.grad else []
    return _of_arena(arena, rows, kind, list(dict.fromkeys([slab for slab in slabs if slab is not None])))


def _of_arena(arena: Any, rows: Any, kind: Any, slabs: list[Any]) -> Rows:
    result = Rows(arena.array.reshape(len(arena.array), kind.size), rows, kind.shape, None, False)
    result.arena = arena
    result.slabs, result.edges = slabs, tuple(slabs)
    return result


def _of_tensor(tensor: Any, shape: tuple[int, ...], size: int, stacked: bool) -> Rows:
    array = tensor.array
    count = size if stacked else 1
    flat = numpy.ascontiguousarray(array).reshape(count, -1)
    if not flat.flags.writeable or not flat.flags.aligned:
        flat = flat.copy()
    return Rows(flat, places(size) if stacked else numpy.zeros(size, numpy.int64), shape, tensor, not stacked)


_places = [numpy.arange(1024)]


def places(count: int) -> Any:
    """0, 1, ... `count` - 1."""
    if count > len(_places[0]):
        _places[0] = numpy.arange(2 * count)
    return _places[0][:count]
