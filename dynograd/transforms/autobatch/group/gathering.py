"""Operands of groups: rows of ports as one tensor, a view where they lie behind one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from dynograd import arrays
from dynograd.ops.op import registry
from dynograd.ragged.partitions import Partition
from dynograd.tensor.tensor import wrap
from dynograd.transforms.autobatch.group.rows import from_arena, gathered, is_run, row_of, slab_of
from dynograd.transforms.autobatch.record.indices import Indices

MASK = (1 << 32) - 1


def arguments(form: Any, shared: tuple, operands: Iterator[Any]) -> dict[str, Any]:
    """The arguments of a form's op by name: `shared` has, in order, a Shared, or None for the next operand or for what is no tensor."""
    arguments = dict(form.statics)
    entries = iter(shared)

    def following() -> Any:
        entry = next(entries)
        return next(operands) if entry is None else entry.tensor

    for name, listed in form.places:
        if type(listed) is int:
            arguments[name] = [following() for _ in range(listed)]
        elif listed is None:
            arguments[name] = following()
        else:
            next(entries)
            arguments[name] = listed[0]
    return arguments


def row_tensor(port: Any, row: int) -> tuple[Any, Any]:
    """(array, node) of a row of a port that is filled."""
    whole = port.whole
    if whole.bucket.tensors is not None:
        tensor = whole.bucket.tensors[row]
        return tensor.array, (tensor.node or (tensor if tensor._requires_grad else None)) if port.kind.grad else None
    if whole.bucket.errors is not None and row in whole.bucket.errors:
        raise whole.bucket.errors[row]
    slab = whole.slab
    if whole.one:
        return slab.array, slab.node if port.kind.grad else None
    if whole.span:
        start = whole.offset + row * whole.span
        place = start, start + whole.span, port.kind.shape
        node = row_of(whole.slab_node, place) if port.kind.grad and whole.slab_node is not None else None
        return slab.array[start : start + whole.span].reshape(port.kind.shape), node
    row += whole.offset
    array = slab.array[row] if type(slab.array) is not numpy.ndarray else slab.array[row, ...]
    return array, row_of(whole.slab_node, row) if port.kind.grad and whole.slab_node is not None else None


def single(recorder: Any, code: int) -> Any:
    """One row as a tensor of its own."""
    port, row = recorder.ports[code >> 32], code & MASK
    if port.bucket.tensors is not None:
        tensor = port.bucket.tensors[row]
        return tensor if port.kind.grad or not tensor._requires_grad else tensor.detach()
    array, node = row_tensor(port, row)
    if port.whole.one and (port.kind.grad or node is None) and port.whole is port:
        return port.slab
    result = wrap(array)
    if node is not None:
        result.node, result._requires_grad = node, True
    return result


def operand(recorder: Any, codes: list[int], size: int, own: bool = False) -> tuple[Any, bool]:
    """A column of a group as a tensor: (all rows along dim 0, True), or (the one row that all calls have, False).

    Rows that lie behind one another are a view; with `own` they are copied, as all others are.
    """
    first = codes[0]
    if codes[-1] == first and codes.count(first) == size:
        return single(recorder, first), False
    port = recorder.ports[first >> 32]
    whole = port.whole
    tensors = port.bucket.tensors
    behind = codes[-1] - first == size - 1 and not own and not whole.one and not whole.span
    if behind and codes == list(range(first, first + size)):
        start = first & MASK  # a run of rows, as the next op on the same calls has
        if whole.slab is not None:
            return _run_of(whole.slab, whole.slab_node if port.kind.grad else None, start + whole.offset, size), True
        if type(tensors) is Indices:
            return wrap(tensors.run(start, size)), True
    if whole.slab is not None and not whole.one:
        together = recorder.arenas.rows_together(recorder, codes)
        if together is not None:
            arena, rows, ports, run = together
            run = run and not own
            if arena is None:
                return _of_slab(whole.slab, whole.slab_node if port.kind.grad else None, rows, run), True
            slabs = dict.fromkeys([port.whole.slab_node for port in ports if port.kind.grad and port.whole.slab_node])
            return from_arena(arena, rows, list(slabs), run), True
    listed = numpy.array(codes, numpy.int64)
    numbers, rows = listed >> 32, listed & MASK
    if tensors is not None and not port.kind.grad and bool((numbers == numbers[0]).all()):
        if type(tensors) is Indices:
            return wrap(tensors.rows(rows)), True
        values = [tensors[row].array for row in rows.tolist()]
        if type(values[0]) is numpy.ndarray:
            return wrap(numpy.array(values)), True
    result = sorted({code >> 32 for code in codes})
    ports = [recorder.ports[number] for number in result]
    wholes = [port.whole for port in ports]
    if len(result) == 1 and wholes[0].one:  # rows of calls that were one
        return single(recorder, first), False
    if any([type(port.bucket.tensors) is Indices for port in ports]):
        return _of_many(ports, numbers, rows), True
    if all([whole.bucket.tensors is not None or whole.one for whole in wholes]) or any(
        [type(_array_of(port)) is not numpy.ndarray for port in ports]
    ):
        return _stacked([single(recorder, code) for code in codes]), True
    if any([whole.span for whole in wholes]):
        slab = _of_spans(recorder, codes, ports)
        return registry["clone"].function(slab, None) if own else slab, True
    return _of_many(ports, numbers, rows), True


def looked_up(keys: list[int], values: list[int], numbers: Any) -> Any:
    """For each of `numbers` its value; `keys` are sorted."""
    if len(keys) == 1:
        return values[0]
    table = numpy.zeros(keys[-1] - keys[0] + 1, numpy.int64)
    table[numpy.array(keys) - keys[0]] = values
    return table[numbers - keys[0]]


def _stacked(tensors: list[Any]) -> Any:
    if any([tensor._requires_grad for tensor in tensors]) or type(tensors[0].array) is not numpy.ndarray:
        return registry["stack"].function(tensors, 0)
    return wrap(numpy.array([tensor.array for tensor in tensors]))


def _of_slab(slab: Any, node: Any, rows: Any, run: bool) -> Any:
    """Rows of one slab: a view where they are a `run`."""
    if run:
        return _run_of(slab, node, int(rows[0]), len(rows))
    return gathered(_taken(slab.array, rows), (node,), ((rows, None),))


def _run_of(slab: Any, node: Any, start: int, size: int) -> Any:
    """Rows of a slab that lie behind one another: a view."""
    array = slab.array
    if size == len(array):
        return gathered(array, (node,), ((None, None),))
    return gathered(array[start : start + size], (node,), ((slice(start, start + size), None),))


def _taken(array: Any, rows: Any) -> Any:
    if type(array) is numpy.ndarray:
        return array.take(rows, 0)
    places = wrap(arrays.to_device(rows, arrays.device_of(array)))
    return registry["index_select"].function(wrap(array), 0, places).array


def _of_many(ports: list[Any], numbers: Any, rows: Any) -> Any:
    """Rows of several slabs in one array."""
    kind = ports[0].kind
    result = numpy.empty((len(rows), *kind.shape), kind.dtype)
    slabs: list[Any] = []
    plan: list[Any] = []
    for port in ports:
        to = numpy.nonzero(numbers == (port.base >> 32))[0]
        of = rows[to]
        whole = port.whole
        if type(whole.bucket.tensors) is Indices:
            result[to] = whole.bucket.tensors.rows(of)
            continue
        if whole.bucket.tensors is not None:
            for place, row in zip(to.tolist(), of.tolist(), strict=True):
                tensor = whole.bucket.tensors[row]
                result[place] = tensor.array
                if tensor._requires_grad and port.kind.grad:
                    slabs.append(slab_of(registry["view"].function(tensor, (1, *tensor.shape))))
                    plan.append((numpy.zeros(1, numpy.int64), numpy.array([place])))
            continue
        if whole.one:
            result[to], of = whole.slab.array, numpy.zeros_like(of)
            if port.kind.grad and whole.slab_node is None and whole.slab._requires_grad:
                whole.slab_node = slab_of(registry["view"].function(whole.slab, (1, *kind.shape)))
        else:
            of = of + whole.offset
            result[to] = whole.slab.array[of]
        slabs.append(whole.slab_node if port.kind.grad else None)
        plan.append((of, to))
    return gathered(result, tuple(slabs), tuple(plan))


# --- rows of an uneven dim -----------------------------------------------------------------------------------------------------------


def spans(recorder: Any, codes: list[int], part: Partition, dim: int) -> Any:
    """Tensors of a column that differ in the size of dim `dim` (`part.lengths`) behind one another: (total, *dims after it)."""
    listed = numpy.array(codes, numpy.int64)
    numbers, rows = listed >> 32, listed & MASK
    result = sorted({code >> 32 for code in codes})
    flats: dict[int, tuple[Any, Any]] = {}  # by id: an array of such rows, and the SlabNode over it
    firsts, which, known = [], [], {}
    for number in result:
        port = recorder.ports[number]
        if port.bucket.tensors is not None:
            rows = rows.copy()
            mine = numbers == number
            array, node, first = _rows_from_outside(port, rows[mine].tolist(), dim)
            rows[mine] = numpy.arange(int(mine.sum()))
        else:
            if port.whole.one:  # all its calls were one
                rows = numpy.where(numbers == number, 0, rows)
            array, node, first = _flat(port, dim, known)
        flats.setdefault(id(array), (array, node))
        firsts.append(first)
        which.append(id(array))
    starts = looked_up(result, firsts, numbers) + rows * part.lengths
    places = Partition.places_from(starts, part)
    if len(flats) == 1:
        ((array, node),) = flats.values()
        if is_run(places):
            start = int(places[0])
            return gathered(array[start : start + len(places)], (node,), ((slice(start, start + len(places)), None),))
        return gathered(array.take(places, 0), (node,), ((places, None),))
    order = {key: place for place, key in enumerate(flats)}
    of = numpy.repeat(looked_up(result, [order[key] for key in which], numbers), part.lengths)
    some = next(iter(flats.values()))[0]
    joined = numpy.empty((part.total, *some.shape[1:]), some.dtype)
    plan = []
    for place, (array, _) in enumerate(flats.values()):
        to = numpy.nonzero(of == place)[0]
        joined[to] = array[places[to]]
        plan.append((places[to], to))
    return gathered(joined, tuple([node for _, node in flats.values()]), tuple(plan))


def _flat(port: Any, dim: int, known: dict[Any, Any]) -> tuple[Any, Any, int]:
    """(array whose rows are those of `dim`, the SlabNode over it, where the port's rows begin in it)."""
    whole, shape = port.whole, port.kind.shape
    slab, node = whole.slab, whole.slab_node if port.kind.grad else None
    if whole.span and slab.array.ndim == len(shape) - dim:
        return slab.array, node, whole.offset
    key = id(slab), port.kind.grad
    result = known.get(key)
    if result is None:
        flat = slab if whole.one and port.kind.grad else slab.detach()
        if node is not None and not whole.one:
            flat = gathered(slab.array, (node,), ((None, None),))
        flat = registry["view"].function(flat, (-1, *shape[dim + 1 :]))
        result = known[key] = flat.array, slab_of(flat)
    array, is_fresh = result
    return array, is_fresh, 0 if whole.one else whole.offset * (1 if whole.span else shape[dim])


def _rows_from_outside(port: Any, rows: list[int], dim: int) -> tuple[Any, Any, int]:
    tensors = [port.bucket.tensors[row] for row in rows]
    stacked = _stacked([tensor if port.kind.grad else tensor.detach() for tensor in tensors])
    flat = registry["view"].function(stacked, (-1, *port.kind.shape[dim + 1 :]))
    return flat.array, slab_of(flat), 0


def _of_spans(recorder: Any, codes: list[int], ports: list[Any]) -> Any:
    """A column of tensors of one shape, some of which are rows of an uneven dim."""
    shape = ports[0].kind.shape
    dims = {len(shape) - port.whole.slab.array.ndim for port in ports if port.whole.span}
    if len(dims) > 1:
        return _stacked([single(recorder, code) for code in codes])
    (dim,) = dims
    part = Partition(numpy.full(len(codes), shape[dim], numpy.int64))
    return registry["view"].function(spans(recorder, codes, part, dim), (len(codes), *shape))


def _array_of(port: Any) -> Any:
    whole = port.whole
    return whole.bucket.tensors[0].array if whole.bucket.tensors is not None else whole.slab.array
