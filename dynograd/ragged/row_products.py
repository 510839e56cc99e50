"""Products of each row's matrix with another one of that row: (B, j, K) @ (B, K, N), x @ x.mT, (B, j, j) @ (B, j, N), under any dims in front.

The matrices of all rows lie in vectors, as they are; one plan says where, and one kernel multiplies them all.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from dynograd import dtypes
from dynograd.errors import ShapeError
from dynograd.kernels.product_plans import ProductPlan
from dynograd.ops.op import registry
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor import Tensor

__all__ = ["multiplied"]


def run(name: str, *args: Any) -> Any:
    return registry[name].function(*args)


class _Matrices(NamedTuple):
    """What lies in `flat`: for each row and each of its `lead` dims a matrix of `rows` x `columns` from `at` on, or its transpose."""

    flat: Any
    lead: tuple[int, ...]
    at: np.ndarray  # (B, L)
    rows: np.ndarray  # (B,)
    columns: np.ndarray
    turned: bool
    sizes: tuple[Any, Any]  # of the last two dims: a number, or the partition of the ragged ones


def multiplied(one: Any, two: Any) -> Any:
    """`one @ two`, both (B, *lead, ., .), at least one of them ragged in a dim of its matrices; None where there is no plan for it."""
    kind = one.dtype
    if kind != two.dtype or not kind.is_floating_point or one.ndim != two.ndim or one.ndim < 3:
        return None
    if kind not in (dtypes.float32, dtypes.float64):
        found = multiplied(run("to_copy", one, dtypes.float32), run("to_copy", two, dtypes.float32))
        return None if found is None else run("to_copy", found, kind)
    count = (one if isinstance(one, RaggedTensor) else two).partition.count
    left, right = _matrices(one, count), _matrices(two, count)
    if left is None or right is None or left.lead != right.lead:
        return None
    _check(left, right)
    down, across = left.sizes[0], right.sizes[1]
    if isinstance(across, Partition) and not isinstance(down, Partition):
        found = _product(
            _transposed(right), _transposed(left), count
        )  # whose ragged dim is the one that rows lie behind one another in
        return run("transpose", found, -2, -1)
    return _product(left, right, count)


def _transposed(given: _Matrices) -> _Matrices:
    return given._replace(rows=given.columns, columns=given.rows, turned=not given.turned, sizes=given.sizes[::-1])


def _matrices(x: Any, count: int) -> _Matrices | None:
    rank = x.ndim
    if not isinstance(x, RaggedTensor):
        shape = tuple(x.shape)
        if shape[0] != count or not isinstance(x, Tensor):
            return None
        lead, (m, n) = shape[1:-2], shape[-2:]
        at = np.arange(count * prod(lead), dtype=np.int64).reshape(count, -1) * (m * n)
        every = np.ones(count, np.int64)
        return _Matrices(_flat(x), lead, at, every * m, every * n, False, (m, n))
    part, packed = x.partition, x.packed
    if isinstance(packed, RaggedTensor):
        return None
    if isinstance(part, Shapes):
        if None in part.fixed[:-2] or len(part.fixed) < 2:
            return None
        lead = part.fixed[:-2]
        rows, columns = (np.ascontiguousarray(part.sizes[:, dim]) for dim in (-2, -1))
        at = part.offsets[:-1, None] + np.arange(prod(lead), dtype=np.int64) * (rows * columns)[:, None]
        sizes = tuple(
            part.sizes_of(rank - 2 + dim) if part.fixed[rank - 3 + dim] is None else part.fixed[rank - 3 + dim]
            for dim in (0, 1)
        )
        return _Matrices(packed, lead, at, rows, columns, False, sizes)  # type: ignore[arg-type]
    if x.place < rank - 2:
        return None
    turned = x.place == rank - 1
    if turned:  # the ragged dim in front of the other one
        packed = run("transpose", packed, rank - 3, rank - 2)
    shape = tuple(packed.shape)
    lead, width = shape[:-2], shape[-1]
    at = (part.offsets[:-1, None] + np.arange(prod(lead), dtype=np.int64) * part.total) * width
    made = _Matrices(_flat(packed), lead, at, part.lengths, np.full(count, width, np.int64), False, (part, width))
    return _transposed(made)._replace(turned=True) if turned else made


def _flat(x: Any) -> Any:
    return registry["reshape"].function(x, (prod(x.shape),))


def _check(left: _Matrices, right: _Matrices) -> None:
    wrong = left.columns != right.rows
    if wrong.any():
        row = int(wrong.argmax())
        raise ShapeError(
            f"matmul: row {row} has a matrix of {left.rows[row]} x {left.columns[row]} and one of {right.rows[row]} x {right.columns[row]}, "
            f"which cannot be multiplied."
        )


def _product(left: _Matrices, right: _Matrices, count: int) -> Any:
    lead, (down, across) = left.lead, (left.sizes[0], right.sizes[1])
    many = prod(lead)
    ms, ns, ks = left.rows, right.columns, left.columns
    shape: tuple[Any, ...] = ()
    result: Any = None
    if isinstance(across, Partition):  # both are ragged
        result = Shapes(np.stack([*[np.full(count, size, np.int64) for size in lead], ms, ns], 1), (*lead, None, None))
        at, size = result.offsets[:-1, None] + np.arange(many, dtype=np.int64) * (ms * ns)[:, None], result.total
    elif isinstance(down, Partition):
        shape, size = (*lead, down.total, across), down.total * across * many
        at = (down.offsets[:-1, None] + np.arange(many, dtype=np.int64) * down.total) * across
    else:
        shape, size = (count, *lead, down, across), count * many * down * across
        at = np.arange(count * many, dtype=np.int64).reshape(count, many) * (down * across)
    columns = [left.at, right.at, at, *[np.broadcast_to(one[:, None], (count, many)) for one in (ms, ns, ks)]]
    table = np.stack(columns, -1).reshape(-1, 6)
    plan = ProductPlan(table, (left.flat.shape[0], right.flat.shape[0], size))
    found = run("grouped_products", left.flat, right.flat, plan, left.turned, right.turned)
    if result is not None:
        return make(found, result, 0)
    found = run("view", found, shape)
    return make(found, down, len(lead) + 1) if isinstance(down, Partition) else found
