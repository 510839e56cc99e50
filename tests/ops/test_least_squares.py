"""Pseudoinverse, rank and least squares against NumPy."""

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, error, generate
from tests.ops.matrices import COARSE, DOUBLES, NUMBERS, adjoint, in_parts, of_parts, regular

linalg, tensor, zeros, eye = dynograd.linalg, dynograd.tensor, dynograd.zeros, dynograd.eye
SHAPES = [(2, 3, 3), (2, 4, 3), (2, 2, 4)]


def row(name, reference, **options):
    options = {
        "shapes": [(2, 3, 3)],
        "domain": regular,
        "dtypes": DOUBLES,
        "tolerance": COARSE,
        "method": False,
    } | options
    return Row(name, reference, **options)


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


def lstsq(a, b):
    return tuple(
        numpy.stack(parts)
        for parts in zip(*[numpy.linalg.lstsq(x, y, None)[:2] for x, y in zip(a, b, strict=True)], strict=True)
    )


def hermitian(a):
    return a + (a.mH if isinstance(a, dynograd.Tensor) else adjoint(a))


ROWS = [
    *[row("linalg_pinv", numpy.linalg.pinv, shapes=[shape], dtypes=NUMBERS, id=f"{shape}") for shape in SHAPES],
    *[
        row("linalg_pinv", of_parts(numpy.linalg.pinv), function=in_parts(linalg.pinv), shapes=[shape, shape], id=f"complex{shape}", empty=False, gradient_tolerance=(1e-3, 1e-5))
        for shape in SHAPES
    ],
    row("linalg_pinv", lambda a: numpy.linalg.inv(hermitian(a)), function=lambda a: linalg.pinv(hermitian(a), hermitian=True), id="hermitian", errors=[
        bad(lambda: linalg.pinv(zeros(2, 3), hermitian=True), RuntimeError, "linalg.pinv", "2 by 3 matrices"),
        bad(lambda: linalg.pinv(zeros(2)), RuntimeError, "linalg.pinv", "at least 2 dimensions"),
    ]),
    row("pinverse", numpy.linalg.pinv, method="pinverse"),
    row("linalg_matrix_rank", numpy.linalg.matrix_rank, grad=False, result="int64", errors=[
        bad(lambda: linalg.matrix_rank(zeros(2)), RuntimeError, "linalg.matrix_rank", "at least 2 dimensions"),
    ]),
    *[
        row("linalg_lstsq", lambda a, b: lstsq(a, b)[0], args=lambda rng, shape=shape: [regular(rng, shape), rng.normal(size=(*shape[:-1], 2))], shapes=(),
            function=lambda a, b: linalg.lstsq(a, b)[0], id=f"{shape}")
        for shape in SHAPES
    ],
    row("linalg_lstsq", lstsq, args=lambda rng: [regular(rng, (2, 4, 3)), rng.normal(size=(2, 4, 2))], shapes=(), function=lambda a, b: tuple(linalg.lstsq(a, b))[:2], id="residuals", errors=[
        bad(lambda: linalg.lstsq(zeros(2, 3), zeros(3, 1)), RuntimeError, "linalg.lstsq", "(2, 3)", "(3, 1)"),
        bad(lambda: linalg.lstsq(zeros(2, 3), zeros(2).double()), RuntimeError, "linalg.lstsq", "same dtype"),
        bad(lambda: linalg.lstsq(zeros(2, 3), zeros(2), driver="x"), RuntimeError, "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)", "'x'"),
    ]),
]  # fmt: skip
test_rows = generate(ROWS)


def test_what_counts_as_zero():
    x = tensor([[4.0, 0.0], [0.0, 1e-3]])
    assert linalg.matrix_rank(x).item() == 2
    assert (
        linalg.matrix_rank(x, tol=1e-2).item()
        == linalg.matrix_rank(x, atol=1e-2).item()
        == linalg.matrix_rank(x, rtol=1e-2).item()
        == 1
    )
    assert linalg.matrix_rank(x, hermitian=True, atol=tensor(1e-2)).item() == 1
    assert (
        linalg.pinv(x, rtol=1e-2).tolist()
        == linalg.pinv(x, 1e-2).tolist()
        == linalg.pinv(x, atol=1e-2).tolist()
        == [[0.25, 0], [0, 0]]
    )
    assert linalg.pinv(x, atol=1e-2, hermitian=True).tolist() == [[0.25, 0], [0, 0]]
    assert linalg.matrix_rank(zeros(3, 2, 2)).tolist() == [0, 0, 0]
    assert linalg.pinv(zeros(2, 0, 3)).shape == (2, 3, 0)


def test_results_of_least_squares():
    a, b = tensor([[1.0], [1.0]]), tensor([1.0, 3.0])
    result = linalg.lstsq(a, b)
    assert result._fields == ("solution", "residuals", "rank", "singular_values")
    assert result.solution.tolist() == pytest.approx([2]) and result.residuals.item() == pytest.approx(2)
    assert result.rank.item() == 1 and result.singular_values.numel() == 0
    result = linalg.lstsq(a, b, driver="gelsd")
    assert result.singular_values.tolist() == pytest.approx([2**0.5])
    assert linalg.lstsq(a, b, driver="gels").rank.numel() == 0
    assert linalg.lstsq(zeros(2, 1), b).residuals.numel() == 0
    assert linalg.lstsq(eye(2) + zeros(3, 2, 2), zeros(3, 2)).solution.shape == (3, 2)
    assert linalg.lstsq(tensor([[1j]]), tensor([[2j]])).solution.tolist() == [[2]]


def test_residuals_of_complex_systems_are_real():
    a = dynograd.tensor([[1 + 1j], [0j]], requires_grad=True)
    result = dynograd.linalg.lstsq(a, dynograd.tensor([[2j], [3 + 4j]]))
    assert result.residuals.dtype == dynograd.float32
    assert result.residuals.item() == pytest.approx(25.0)
    result.residuals.sum().backward()
    assert a.grad.shape == (2, 1)
    assert (
        dynograd.linalg.lstsq(a, dynograd.tensor([[2j], [3 + 4j]]), driver="gels").singular_values.dtype
        == dynograd.float32
    )
