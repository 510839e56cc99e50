"""Matrix products and their rules, by the library's own kernels into given memory."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.layout.views_cpu import reshaped_view
from dynograd.kernels.matmul import matmuls_cpu, matmuls_numba
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families import lookups, reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__ = ["finished", "is_product", "product", "summed"]

_FLOATS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))


def product(x: Any, y: Any, out: Any, begin: Any = None) -> list[Launch] | None:
    """Launches of out = begin + x @ y for arrays of 2 and more dims; `begin` is a vector of columns, or broadcasts to `out`."""
    if (
        x.dtype not in _FLOATS
        or y.dtype != x.dtype
        or out.dtype != x.dtype
        or (begin is not None and begin.dtype != x.dtype)
    ):
        return None
    if not out.size:
        return []
    m, k = x.shape[-2:]
    n = y.shape[-1]
    if not k:
        return None
    before: list[Launch] = []
    behind: list[Launch] = []
    target = out
    if not _has_rows(out):
        if begin is None and _has_rows(out.swapaxes(-1, -2)):
            return product(y.swapaxes(-1, -2), x.swapaxes(-1, -2), out.swapaxes(-1, -2))
        target = layouts.scratch(out.shape, out.dtype)
        put = layouts.copy(out, target)
        if put is None:
            return None
        behind = put
    operands: list[Any] = []
    for operand in (x, y):
        if _is_copied(operand):
            copied = layouts.scratch(operand.shape, operand.dtype)
            put = layouts.copy(copied, operand)
            if put is None:
                return None
            before += put
            operand = copied
        operands.append(operand)
    if begin is not None:
        begin = numpy.broadcast_to(begin, target.shape)
        if begin.strides[-1] != begin.itemsize or begin.strides[-2] % begin.itemsize or begin.strides[-2] < 0:
            copied = layouts.scratch(target.shape, target.dtype)
            put = layouts.copy(copied, begin)
            if put is None:
                return None
            before += put
            begin = copied
    (x, transpose_x, row_x), (y, transpose_y, row_y) = map(matmuls_cpu.in_rows, operands)
    lead = target.shape[:-2]
    whole = [x, y, begin, target]
    sizes, strides = matmuls_cpu.merged(lead, whole)
    if len(sizes) > 2:
        return None
    flags = [transpose_x, row_x, transpose_y, row_y]
    kernel, arguments, count, parts = matmuls_cpu.blocks_of(whole, flags, (m, n, k), sizes, strides)
    kept = tuple([array for array in whole if array is not None])
    return [*before, Launch(kernel, arguments, count, max(1, min(parts, count)), kept), *behind]


def is_product(launch: Launch) -> bool:
    """Whether it is one of `matmuls_cpu.blocks_of`."""
    return any([launch.kernel is kernel for kernel in matmuls_numba.products.values()])


def finished(launch: Launch, end: int, out: Any, other: Any = None) -> Launch:
    """A launch of a product that does something with its result while this is in the cache.

    Args:
        launch: of one product of matrices.
        end: what, of `matmuls_numba.NOTHING` and the others.
        out: where the result goes, laid out as that of the launch is.
        other: the matrix beside it, likewise.
    """
    *arguments, _, outer, inner, row, _, _, _ = launch.arguments
    beside = (0, 0) if other is None else (matmuls_numba.handle(other), row)
    kept = (*launch.kept[:-1], out, *([] if other is None else [other]))
    arguments = [*arguments, matmuls_numba.handle(out), outer, inner, row, end, *beside]
    return Launch(matmuls_numba.products_with_ends[out.dtype], tuple(arguments), launch.count, launch.parts, kept)


def _has_rows(array: Any) -> bool:
    """Whether each row lies in one piece, and rows, matrices one after the other, none in another."""
    down, across = array.strides[-2:]
    columns = array.shape[-1]
    if (across != array.itemsize and columns > 1) or down < 0 or down % array.itemsize:
        return False
    return bool(down >= columns * array.itemsize or array.shape[-2] == 1)


def _is_copied(x: Any) -> bool:
    """Whether `matmuls_cpu.in_rows` would copy it, or its leading dims go backwards."""
    size = x.itemsize
    down, across = x.strides[-2:]
    rows, columns = x.shape[-2:]
    if any([stride < 0 or stride % size for stride in x.strides[:-2]]):
        return True
    if (across == size or columns == 1) and down >= 0 and not down % size:
        return False
    return not ((down == size or rows == 1) and across >= 0 and not across % size)


def _adjoint(x: numpy.ndarray) -> numpy.ndarray:
    return x.swapaxes(-1, -2)


def _flattened(x: numpy.ndarray) -> numpy.ndarray | None:
    """Leading dims as one, as a view; None where that is none."""
    return x if x.ndim == 2 else reshaped_view(x, (prod(x.shape[:-1]), x.shape[-1]))


def _rows(x: numpy.ndarray, before: list[Launch]) -> numpy.ndarray | None:
    """Leading dims as one; where that is no view, a copy that `before` makes. None where there is no copy either."""
    view = _flattened(x)
    if view is None:
        copied = layouts.scratch(x.shape, x.dtype)
        put = layouts.copy(copied, x)
        if put is None:
            return None
        before += put
        view = _flattened(copied)
    return view


# --- matmul -----------------------------------------------------------------------------------------------------------------


@form("op", "matmul")
def _matmul(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x, y, out = arguments["input"], arguments["other"], call.outputs[0]
    x, y, out = _with_two_dims(x, y, out)
    launches = _of_matrices(x, y, out)
    return None if launches is None else Lowered(launches, exact=False)


def _with_two_dims(x: Any, y: Any, out: Any) -> tuple[Any, Any, Any]:
    """A vector on the left as a row, one on the right as a column; the result with the dims that it lacks for that."""
    if y.ndim == 1:
        y, out = y.reshape(-1, 1) if y.strides[0] else y[:, None], out[..., None]
    if x.ndim == 1:
        x, out = x[None], out[..., None, :]
    return x, y, out


def _of_matrices(x: Any, y: Any, out: Any) -> list[Launch] | None:
    """A batch on the left of one matrix, also of one that is stretched over the batch, is one matrix of all its rows."""
    if y.ndim == 2 and x.ndim > 2:
        rows, target = _flattened(x), _flattened(out)
        if rows is not None and target is not None:
            return product(rows, y, target)
    if x.ndim == 3 and len(x) == len(y) and matmuls_cpu.is_one_matrix(y) and not matmuls_cpu.is_one_matrix(x):
        return _of_one_matrix(x, y[0], out)
    return product(x, y, out)


def _of_one_matrix(x: Any, y: Any, out: Any) -> list[Launch] | None:
    """A batch times one matrix: one product of all rows."""
    before: list[Launch] = []
    rows, target = _rows(x, before), _flattened(out)
    if rows is None or target is None:
        return None
    put = product(rows, y, target)
    return None if put is None else [*before, *put]


@form("rule", "matmul")
def _matmul_rule(call: Call) -> Lowered | None:
    node, g = call.node, call.inputs[0]
    x, y = node.input, node.other
    g_x, g_y = call.outputs
    if y is not None and y.ndim == 1:
        y, g = y[:, None], g[..., None]
        g_y = None if g_y is None else g_y[:, None]
    if x is not None and x.ndim == 1:
        x, g = x[None], g[..., None, :]
        g_x = None if g_x is None else g_x[None]
    launches: list[Launch] = []
    if g_x is not None and not summed(launches, g, _adjoint(y), g_x):
        return None
    if g_y is not None:
        if y.ndim == 2 and x.ndim > 2:
            rows, flat_g = _rows(x, launches), _rows(g, launches)
            put = None if rows is None or flat_g is None else product(_adjoint(rows), flat_g, g_y)
            if put is None:
                return None
            launches += put
        elif not summed(launches, _adjoint(x), g, g_y):
            return None
    return Lowered(launches, exact=False)


def summed(launches: list[Launch], x: Any, y: Any, target: Any) -> bool:
    """Appends the product, summed over leading dims that `target` has not; False where no kernel does."""
    lead = numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*lead, x.shape[-2], y.shape[-1])
    if shape == target.shape:
        put = _of_matrices(x, y, target)
    else:
        whole = layouts.scratch(shape, target.dtype)
        put, rest = _of_matrices(x, y, whole), reductions.sum_to(whole, target)
        put = None if put is None or rest is None else [*put, *rest]
    if put is None:
        return False
    launches += put
    return True


# --- linear -----------------------------------------------------------------------------------------------------------------


@form("op", "linear")
def _linear(call: Call) -> Lowered | None:
    x, w, b = call.inputs
    out = call.outputs[0]
    if w.ndim == 1 or x.ndim == 0 or not out.size:
        return None
    if x.ndim == 1:
        x, out = x[None], out[None]
    rows, target = _flattened(x), _flattened(out)
    if rows is None or target is None or (b is not None and b.ndim > 1):
        rows, target = x, out
    launches = product(rows, w.T, target, b)
    return None if launches is None else Lowered(launches, exact=False)


@form("rule", "linear")
def _linear_rule(call: Call) -> Lowered | None:
    node, whole = call.node, call.inputs[0]
    g_x, g_w, g_b = call.outputs
    x, w, g = node.input, node.weight, whole
    if w is not None and w.ndim == 1:
        return None
    launches: list[Launch] = []
    if g.ndim == 1:
        g, x = g[None], None if x is None else x[None]
        g_x = None if g_x is None else g_x[None]
    if g_x is not None:
        put = _of_matrices(g, w, g_x)
        if put is None:
            return None
        launches += put
    if g_w is not None:
        rows, flat_x = _rows(g, launches), _rows(x, launches)
        put = None if rows is None or flat_x is None else product(rows.T, flat_x, g_w)
        if put is None:
            return None
        launches += put
    if g_b is not None:
        source = whole if g_b.ndim != 1 else g
        put = reductions.sum_to(source, g_b)
        if put is None:
            return None
        launches += put
    return Lowered(launches, exact=False)


@form("deferred", "deferred")
def _deferred(call: Call) -> Lowered | None:
    """Rows of several calls one after the other, and one product of them, or one addition into a table."""
    key = getattr(call.compute, "key", None)
    if isinstance(key, tuple) and key[0] == "embedding":
        return lookups.collected(call, key[2])
    if key != "linear":
        return None
    (out,) = call.outputs
    rows, others = call.inputs[::2], call.inputs[1::2]
    launches: list[Launch] = []
    joined = []
    for parts in (rows, others):
        if len(parts) == 1:
            joined.append(parts[0])
            continue
        whole = layouts.scratch((sum([len(part) for part in parts]), parts[0].shape[1]), parts[0].dtype)
        start = 0
        for part in parts:
            put = layouts.copy(whole[start : start + len(part)], part)
            if put is None:
                return None
            launches += put
            start += len(part)
        joined.append(whole)
    put = product(joined[0].T, joined[1], out)
    return None if put is None else Lowered([*launches, *put], exact=False)
