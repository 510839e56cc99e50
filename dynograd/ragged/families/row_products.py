"""Products of each row's matrix with another one of that row: (B, j, K) @ (B, K, N), x @ x.mT, (B, j, j) @ (B, j, N), under any dims in front.

The matrices of all rows lie in vectors, as they are; one plan says where, and one kernel multiplies them all.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from dynograd.base import dtypes
from dynograd.errors import ShapeError
from dynograd.kernels.matmul.product_plans import ProductPlan
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor

__all__ = ["multiplied"]


_KEPT = 16  # plans of rows with others


class _Matrices(NamedTuple):
    """What lies in `flat`: for each row and each of its `lead` dims a matrix, or (`turned`) its transpose, one behind the other."""

    flat: Any
    part: Partition | None  # of which the rows are; None where all have the same matrices
    lead: tuple[int, ...]
    sizes: tuple[Any, Any]  # of the last two dims of what lies there: a number, or the partition of the ragged ones
    turned: bool

    @property
    def key(self) -> tuple[Any, ...]:
        sizes = [size if isinstance(size, int) else None for size in self.sizes]
        return (id(self.part), self.lead, *sizes, self.turned)

    @property
    def shape(self) -> tuple[Any, Any]:
        """The sizes of the matrices."""
        return self.sizes[::-1] if self.turned else self.sizes

    def layout(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(where the matrices begin (B, L), their rows (B,), their columns)."""
        stored = [np.full(count, size) if isinstance(size, int) else size.lengths for size in self.sizes]
        number = np.arange(prod(self.lead), dtype=np.int64)
        if self.part is None:
            at = np.arange(count * len(number), dtype=np.int64).reshape(count, len(number)) * (
                self.sizes[0] * self.sizes[1]
            )
        elif isinstance(self.part, Shapes):
            at = self.part.offsets[:-1, None] + number * (stored[0] * stored[1])[:, None]
        else:
            at = (self.part.offsets[:-1, None] + number * self.part.total) * self.sizes[1]
        return (at, *(stored[::-1] if self.turned else stored))


def multiplied(a: Any, b: Any) -> Any:
    """`a @ b`, both (B, *lead, ., .), at least one of them ragged in a dim of its matrices; None where there is no plan for it."""
    kind = a.dtype
    if kind != b.dtype or not kind.is_floating_point or a.ndim != b.ndim or a.ndim < 3:
        return None
    if kind not in (dtypes.float32, dtypes.float64):
        product = multiplied(run("to_copy", a, dtypes.float32), run("to_copy", b, dtypes.float32))
        return None if product is None else run("to_copy", product, kind)
    count = (a if isinstance(a, RaggedTensor) else b).partition.count
    left, right = _matrices(a, count), _matrices(b, count)
    if left is None or right is None or left.lead != right.lead:
        return None
    down, across = left.shape[0], right.shape[1]
    if isinstance(across, Partition) and not isinstance(down, Partition):
        product = _product(
            _transposed(right), _transposed(left), count
        )  # whose ragged dim is the one that rows lie behind one another in
        return run("transpose", product, -2, -1)
    return _product(left, right, count)


def _transposed(matrices: _Matrices) -> _Matrices:
    return matrices._replace(turned=not matrices.turned)


def _matrices(x: Any, count: int) -> _Matrices | None:
    rank = x.ndim
    if not isinstance(x, RaggedTensor):
        shape = tuple(x.shape)
        if shape[0] != count or not isinstance(x, Tensor):
            return None
        return _Matrices(_flat(x), None, shape[1:-2], shape[-2:], False)
    part, packed = x.partition, x.packed
    if isinstance(packed, RaggedTensor):
        return None
    if isinstance(part, Shapes):
        fixed = part.fixed
        if None in fixed[:-2] or len(fixed) < 2:
            return None
        sizes = [part.sizes_of(dim + 1) if fixed[dim] is None else fixed[dim] for dim in (rank - 3, rank - 2)]
        return _Matrices(packed, part, fixed[:-2], tuple(sizes), False)  # type: ignore[arg-type]
    if x.place < rank - 2:
        return None
    turned = x.place == rank - 1
    if turned:  # the ragged dim in front of the other one
        packed = run("transpose", packed, rank - 3, rank - 2)
    shape = tuple(packed.shape)
    return _Matrices(_flat(packed), part, shape[:-2], (part, shape[-1]), turned)


def _flat(x: Any) -> Any:
    return run("reshape", x, (prod(x.shape),))


def _product(left: _Matrices, right: _Matrices, count: int) -> Any:
    keeper = left.part or right.part
    assert keeper is not None
    plans: dict[Any, Any] = keeper.kept("products", dict)
    key = (left.key, right.key)
    planned = plans.get(key)
    if planned is None:
        if len(plans) >= _KEPT:
            plans.clear()
        planned = plans[key] = _planned(left, right, count)
    plan, shape, part, place, _ = planned
    product = run("grouped_products", left.flat, right.flat, plan, left.turned, right.turned)
    if part is None or place:
        product = run("view", product, shape)
    return product if part is None else make(product, part, place)


def _planned(left: _Matrices, right: _Matrices, count: int) -> tuple[Any, ...]:
    """(plan, shape of the packed result, its rows or None, its place, what the key names by id and must therefore stay)."""
    (left_at, ms, ks), (right_at, inner, ns) = left.layout(count), right.layout(count)
    wrong = ks != inner
    if wrong.any():
        row = int(wrong.argmax())
        raise ShapeError(
            f"matmul: row {row} has a matrix of {ms[row]} x {ks[row]} and one of {inner[row]} x {ns[row]}, which cannot be multiplied."
        )
    lead, (down, across) = left.lead, (left.shape[0], right.shape[1])
    number = np.arange(prod(lead), dtype=np.int64)
    shape: tuple[Any, ...] = ()
    part: Partition | None = None
    if isinstance(across, Partition):  # both are ragged
        sizes = [*[np.full(count, size, np.int64) for size in lead], ms, ns]
        part, place = Shapes(np.stack(sizes, 1), (*lead, None, None)), 0
        at, size = part.offsets[:-1, None] + number * (ms * ns)[:, None], part.total
    elif isinstance(down, Partition):
        part, place, shape = down, len(lead) + 1, (*lead, down.total, across)
        at, size = (down.offsets[:-1, None] + number * down.total) * across, prod(shape)
    else:
        place, shape = 0, (count, *lead, down, across)
        at, size = (
            np.arange(count * len(number), dtype=np.int64).reshape(count, len(number)) * (down * across),
            prod(shape),
        )
    table = np.empty((count, len(number), 6), np.int64)
    for column, numbers in enumerate((left_at, right_at, at, ms[:, None], ns[:, None], ks[:, None])):
        table[:, :, column] = numbers
    plan = ProductPlan(table, (left.flat.shape[0], right.flat.shape[0], size))
    return plan, shape, part, place, (left.part, right.part)
