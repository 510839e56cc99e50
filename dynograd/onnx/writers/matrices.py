"""Linear algebra, of which ONNX has the determinant alone: eliminations and factorisations as Scans over the columns, for matrices of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.compat.inner import higher_order
from dynograd.export.encoding import Tree
from dynograd.onnx.writers.calls import Call, writer
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["ALGORITHMS", "algorithm", "householder", "joined"]

_TERMS = 14  # of the series of the exponential, of a matrix of a norm up to 1/2
_SQUARINGS = 16  # from the largest norm that has a finite exponential there


ALGORITHMS: dict[str, Callable[..., Tree]] = {}
"""By op, what it is written as: functions of its arguments, of ops that have forms."""


def algorithm(name: str) -> Callable[[Callable[..., Tree]], Callable[..., Tree]]:
    """Enters what an op is written as."""

    def register(function: Callable[..., Tree]) -> Callable[..., Tree]:
        ALGORITHMS[name] = function
        return function

    return register


@writer("linalg_det")
def det(call: Call) -> str:
    return call.node("Det", [call.input("A")])


@algorithm("linalg_inv_ex")
def _inverse(A: Tensor, check: bool) -> tuple[Tensor, Tensor]:
    eye = creation.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)
    solution, pivots, _ = _eliminated(A, eye)
    return solution, _first_zero(pivots)


@algorithm("linalg_solve_ex")
def _solution(A: Tensor, B: Tensor, check: bool) -> tuple[Tensor, Tensor]:
    solution, pivots, _ = _eliminated(A, B)
    return solution, _first_zero(pivots)


@algorithm("linalg_slogdet")
def _sign_and_logarithm(A: Tensor) -> tuple[Tensor, Tensor]:
    _, pivots, swaps = _eliminated(A, A[..., :1])
    sign = pivots.sign().prod(0) * (1 - 2 * (swaps.to(pivots.dtype).sum(0) % 2))
    return sign, pivots.abs().log().sum(0)


@algorithm("linalg_solve_triangular")
def _triangular_solution(A: Tensor, B: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """By an elimination that exchanges rows, too, of the triangle alone."""
    own = (A.triu() if upper else A.tril()) + 0
    if unitriangular:
        eye = creation.eye(A.shape[-1], dtype=A.dtype)
        own = own * (1 - eye) + eye
    return _eliminated(own, B)[0]


def _eliminated(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss and Jordan with the largest pivots: X of A @ X = B, and by step the pivots, and whether rows changed places."""
    count, own = A.shape[-1], A.shape[-1]

    def step(rows: Tensor, place: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        places = creation.arange(count).unsqueeze(-1)
        column = rows.index_select(-1, place.reshape(1))
        pivot_place = column.abs().masked_fill(places < place, -1).argmax(-2, keepdim=True)
        order = pivot_place.where(places == place, place.where(places == pivot_place, places))
        rows = rows.gather(-2, order.expand(rows.shape))
        row = rows.index_select(-2, place.reshape(1))
        pivot = row.index_select(-1, place.reshape(1))
        row = row / pivot
        rows = row.where(places == place, rows - rows.index_select(-1, place.reshape(1)) * row)
        return rows, (pivot.flatten(-2).squeeze(-1), (pivot_place != place).flatten(-2).squeeze(-1))

    start = joined(A, B)
    rows, (pivots, swaps) = higher_order.scan(step, start, creation.arange(count))
    return rows[..., own:], pivots, swaps


def joined(A: Tensor, B: Tensor) -> Tensor:
    """Matrices beside each other."""
    from dynograd.ops.op import registry

    result: Tensor = registry["cat"].function([A, B], -1)
    return result


def _first_zero(pivots: Tensor) -> Tensor:
    """The place, from 1, of the first pivot that is 0; 0: there is none."""
    zeros = (pivots == 0).int()
    return (zeros.argmax(0) + 1).where(zeros.amax(0) > 0, 0).int()


@algorithm("linalg_cholesky_ex")
def _lower_root(A: Tensor, check: bool) -> tuple[Tensor, Tensor]:
    """Cholesky's, column by column; of the rest of the matrix the products of each are taken away."""
    count = A.shape[-1]

    def step(rest: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        places = creation.arange(count).unsqueeze(-1)
        column = rest.index_select(-1, place.reshape(1))
        pivot = column.index_select(-2, place.reshape(1))
        column = (column / pivot.sqrt()).masked_fill(places < place, 0)
        return rest - column @ column.mT, column.squeeze(-1)

    _, columns = higher_order.scan(step, A + 0, creation.arange(count))
    root = columns.movedim(0, -1)
    failed = (~(root.diagonal(0, -2, -1) > 0)).int()
    return root, (failed.argmax(-1) + 1).where(failed.amax(-1) > 0, 0).int()


@algorithm("linalg_qr")
def householder(input: Tensor, complete: bool) -> tuple[Tensor, Tensor]:
    """Householder's reflections, whose signs are LAPACK's: a column that is zero below the diagonal stays."""
    height, count = input.shape[-2], min(input.shape[-2:])

    def step(state: tuple[Tensor, Tensor], place: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        rows, turned = state
        places = creation.arange(height).unsqueeze(-1)
        column = rows.index_select(-1, place.reshape(1)).masked_fill(places < place, 0)
        top = column.index_select(-2, place.reshape(1))
        size = (column * column).sum(-2, keepdim=True)
        mirror = (column + size.sqrt().copysign(top)).where(places == place, column)
        stays = column.masked_fill(places <= place, 0).abs().amax(-2, keepdim=True) == 0
        factor = (2 / (mirror * mirror).sum(-2, keepdim=True)).masked_fill(stays, 0)
        rows = rows - factor * (mirror @ (mirror.mT @ rows))
        turned = turned - factor * ((turned @ mirror) @ mirror.mT)
        return (rows, turned), place

    eye = creation.eye(height, dtype=input.dtype).expand(*input.shape[:-1], height) + 0
    (rows, turned), _ = higher_order.scan(step, (input + 0, eye), creation.arange(count))
    if complete:
        return turned.clone(), rows.triu()
    return turned[..., :count], rows[..., :count, :].triu()


@algorithm("linalg_lu_factor_ex")
def _triangles(A: Tensor, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss with the largest pivots; the factors of the rows stay below the diagonal."""
    height, width, count = A.shape[-2], A.shape[-1], min(A.shape[-2:])

    def step(rows: Tensor, place: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        places, columns = creation.arange(height).unsqueeze(-1), creation.arange(width)
        sizes = rows.index_select(-1, place.reshape(1)).abs().masked_fill(places < place, -1)
        pivot_place = sizes.argmax(-2, keepdim=True)
        order = pivot_place.where(places == place, place.where(places == pivot_place, places))
        rows = rows.gather(-2, order.expand(rows.shape))
        row = rows.index_select(-2, place.reshape(1))
        pivot = row.index_select(-1, place.reshape(1))
        factors = rows.index_select(-1, place.reshape(1)).masked_fill(places <= place, 0)
        factors = factors / pivot.masked_fill(pivot == 0, 1)  # 0 is the largest of a column of zeros
        rows = rows - factors * row.masked_fill(columns <= place, 0)
        rows = factors.where((columns == place) & (places > place), rows)
        return rows, (pivot.flatten(-2).squeeze(-1), pivot_place.flatten(-2).squeeze(-1))

    rows, (pivots, pivot_places) = higher_order.scan(step, A + 0, creation.arange(count))
    return rows.clone(), (pivot_places.movedim(0, -1) + 1).int(), _first_zero(pivots)


@algorithm("lu_permutation")
def _permutation(pivots: Tensor, rows: int, dtype: Any) -> Tensor:
    """Exchanges places as the rows were exchanged."""
    start = creation.arange(rows).expand(*pivots.shape[:-1], rows) + 0

    def step(order: Tensor, exchange: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        place, pivot_place = exchange[0], exchange[1].unsqueeze(-1)
        places = creation.arange(rows)
        first, second = [(order * (places == own)).sum(-1, keepdim=True) for own in (place, pivot_place)]
        return second.where(places == place, first.where(places == pivot_place, order)), place

    exchanges = creation.arange(pivots.shape[-1]), (pivots.long() - 1).movedim(-1, 0)
    order, _ = higher_order.scan(step, start, exchanges)
    return (order.unsqueeze(-2) == creation.arange(rows).unsqueeze(-1)).to(dtype)


@algorithm("matrix_exp")
def _exponential(input: Tensor) -> Tensor:
    """The series of the matrix over a power of two, squared as often."""
    norm = input.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    times = (norm * 2).clamp(min=1).log2().ceil().clamp(max=_SQUARINGS)
    own = input / times.exp2()
    eye = creation.eye(input.shape[-1], dtype=input.dtype)
    result = eye + own / _TERMS
    for number in range(_TERMS - 1, 0, -1):
        result = eye + own @ result / number
    for number in range(_SQUARINGS):
        result = (result @ result).where(times > number, result)
    return result
