"""Factors of symmetric matrices: what they solve, and that L, D and the exchanges give the matrix back."""

import numpy
import pytest

import dynograd
from dynograd import linalg, tensor
from tests.ops.harness import Row, error, generate
from tests.ops.matrices import DOUBLES

zeros, eye = dynograd.zeros, dynograd.eye


def symmetric(a):
    return a + (a.mT if isinstance(a, dynograd.Tensor) else numpy.swapaxes(a, -1, -2))


def row(name, reference, **options):
    options = {"shapes": [(2, 5, 5)], "dtypes": DOUBLES, "tolerance": 1e4, "method": False, "grad": False} | options
    return Row(name, reference, second=False, jvp=False, **options)


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


FACTORS = linalg.ldl_factor(eye(2))
ROWS = [
    row(
        "linalg_ldl_factor",
        lambda a: symmetric(a),
        function=lambda a: linalg.ldl_solve(*linalg.ldl_factor(symmetric(a)), symmetric(a) @ symmetric(a)),
        errors=[
            bad(lambda: linalg.ldl_factor(zeros(2, 3)), RuntimeError, "ldl_factor", "square", "(2, 3)"),
            bad(lambda: linalg.ldl_factor(zeros(2, 2)), linalg.LinAlgError, "D[1,1] is zero", "ldl_factor_ex"),
            bad(lambda: linalg.ldl_factor(zeros(3, 2, 2)), linalg.LinAlgError, "Batch element 0"),
            bad(lambda: linalg.ldl_factor_ex(zeros(2, 2), check_errors=True), linalg.LinAlgError, "D[1,1] is zero"),
        ],
    ),
    row(
        "linalg_ldl_factor_ex",
        lambda a: numpy.zeros(a.shape[:-2]),
        function=lambda a: linalg.ldl_factor_ex(symmetric(a)).info,
        result="int32",
    ),
    row(
        "linalg_ldl_solve",
        lambda a, b: numpy.linalg.solve(symmetric(a), b),
        function=lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(symmetric(a)), b),
        shapes=[(2, 5, 5), (2, 5, 3)],
        empty=False,
        errors=[
            bad(lambda: linalg.ldl_solve(*FACTORS, zeros(3, 1)), RuntimeError, "(2, 2)", "(3, 1)", "2 rows"),
            bad(lambda: linalg.ldl_solve(FACTORS.LD, FACTORS.pivots[:1], zeros(2, 1)), RuntimeError, "pivots", "(1,)"),
            bad(lambda: linalg.ldl_solve(FACTORS.LD, zeros(2), zeros(2, 1)), RuntimeError, "integers", "float32"),
            bad(lambda: linalg.ldl_solve(*FACTORS, zeros(2, 1).double()), RuntimeError, "float32", "float64"),
        ],
    ),
]
test_rows = generate(ROWS)


def put_together(packed, pivots, hermitian):
    """P1 L1 P2 L2 ... D ... L2' P2' L1' P1' as LAPACK means it: each exchange is of what was left at that time."""
    size = len(packed)
    turned = numpy.conj if hermitian else numpy.array
    left, middle, k = numpy.eye(size, dtype=packed.dtype), numpy.zeros_like(packed), 0
    while k < size:
        step = 1 if pivots[k] > 0 else 2
        exchange = numpy.eye(size)
        last, chosen = k + step - 1, abs(pivots[k]) - 1
        exchange[[last, chosen]] = exchange[[chosen, last]]
        lower = numpy.eye(size, dtype=packed.dtype)
        lower[k + step :, k : k + step] = packed[k + step :, k : k + step]
        left = left @ exchange @ lower
        block = packed[k : k + step, k : k + step].copy()
        if step == 2:
            block[0, 1] = turned(block[1, 0])
        middle[k : k + step, k : k + step] = block
        k += step
    return left @ middle @ turned(left).T


@pytest.mark.parametrize("form", ["real", "symmetric", "hermitian"])
def test_factors_give_the_matrix_back(form):
    rng = numpy.random.default_rng(0)
    blocks = 0
    for size in (1, 2, 3, 5, 9, 40):
        a = rng.normal(size=(size, size)) + (0 if form == "real" else 1j * rng.normal(size=(size, size)))
        a = a + (a.conj().T if form == "hermitian" else a.T)
        numpy.fill_diagonal(a, a.diagonal() * (rng.uniform(size=size) < 0.5))
        result = linalg.ldl_factor_ex(tensor(a), hermitian=form == "hermitian")
        packed, pivots = result.LD.numpy(), result.pivots.numpy()
        assert (numpy.triu(packed, 1) == 0).all()
        blocks += (pivots < 0).sum()
        numpy.testing.assert_allclose(put_together(packed, pivots, form == "hermitian"), a, atol=1e-12 * size)
        if not result.info.item():
            b = rng.normal(size=(size, 2)).astype(a.dtype)
            x = linalg.ldl_solve(*result[:2], tensor(b), hermitian=form == "hermitian")
            numpy.testing.assert_allclose(a @ x.numpy(), b, atol=1e-9)
    assert blocks


def test_batches_broadcast_and_names():
    a = symmetric(dynograd.randn(4, 1, 3, 3, dtype=dynograd.float64))
    b = dynograd.randn(5, 3, 2, dtype=dynograd.float64)
    result = linalg.ldl_factor(a)
    assert result._fields == ("LD", "pivots") and linalg.ldl_factor_ex(a)._fields == ("LD", "pivots", "info")
    numpy.testing.assert_allclose(
        (a @ linalg.ldl_solve(*result, b)).numpy(), numpy.broadcast_to(b.numpy(), (4, 5, 3, 2)), atol=1e-9
    )


def test_growth_stays_small():
    """Without exchanges, this matrix would lose all digits."""
    a = tensor([[1e-20, 1.0], [1.0, 1.0]], dtype=dynograd.float64)
    x = linalg.ldl_solve(*linalg.ldl_factor(a), tensor([[1.0], [2.0]], dtype=dynograd.float64))
    numpy.testing.assert_allclose(x.numpy(), [[1.0], [1.0]], rtol=1e-14)
