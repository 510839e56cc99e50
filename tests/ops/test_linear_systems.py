"""Inverses, solutions, Cholesky, LU and determinants against NumPy, and what is not a regular matrix."""

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, error, generate
from tests.ops.matrices import COARSE, DOUBLES, NUMBERS, adjoint, in_parts, of_parts, regular

linalg, tensor, zeros, eye = dynograd.linalg, dynograd.tensor, dynograd.zeros, dynograd.eye
OK = numpy.zeros(2, numpy.int32)


def row(name, reference, **options):
    options = {
        "shapes": [(2, 3, 3)],
        "domain": regular,
        "dtypes": NUMBERS,
        "tolerance": COARSE,
        "method": False,
    } | options
    return Row(name, reference, **options)


def complex_row(name, function, reference, **options):
    options = {"shapes": [(2, 3, 3), (2, 3, 3)], "dtypes": DOUBLES, "id": "complex", "empty": False} | options
    return row(name, of_parts(reference), function=in_parts(function), gradient_tolerance=(1e-3, 1e-5), **options)


def positive(a):
    """A positive definite matrix of any one, for either library."""
    return a @ (a.mH if hasattr(a, "mH") and not isinstance(a, numpy.ndarray) else adjoint(a)) + 1 * (
        eye(a.shape[-1], dtype=dynograd.float64).to(a.dtype)
        if not isinstance(a, numpy.ndarray)
        else numpy.eye(a.shape[-1])
    )


def np_triangular(a, b, upper, left=True, unitriangular=False):
    a = numpy.triu(a) if upper else numpy.tril(a)
    if unitriangular:
        a = a - a * numpy.eye(a.shape[-1]) + numpy.eye(a.shape[-1])
    return (
        numpy.linalg.solve(a, b)
        if left
        else numpy.swapaxes(numpy.linalg.solve(numpy.swapaxes(a, -1, -2), numpy.swapaxes(b, -1, -2)), -1, -2)
    )


def triangle(x, upper):
    return numpy.triu(x) if upper else numpy.tril(x)


def both(a, b):
    return lambda rng: [regular(rng, a), rng.normal(size=b)]


def solved(left=True):
    return lambda a, b: numpy.linalg.solve(a, b) if left else adjoint(numpy.linalg.solve(adjoint(a), adjoint(b)))


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


SINGULAR = zeros(2, 3, 3) + tensor([1.0, 0.0]).reshape(2, 1, 1) * eye(3)
HALF = eye(2).half()

SHAPE_ERRORS = [
    bad(
        lambda: linalg.inv(zeros(2, 3)),
        RuntimeError,
        "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices",
    ),
    bad(
        lambda: linalg.inv(zeros(3)),
        RuntimeError,
        "linalg.inv: The input tensor A must have at least 2 dimensions",
        "(3,)",
    ),
    bad(
        lambda: linalg.inv(zeros(2, 2).long()),
        RuntimeError,
        "linalg.inv: Expected a floating point or complex tensor as input. Got dynograd.int64",
    ),
    bad(lambda: linalg.inv(HALF), RuntimeError, "linalg.inv: Low precision dtypes not supported", "float16"),
    bad(
        lambda: linalg.inv(SINGULAR),
        linalg.LinAlgError,
        "linalg.inv: (Batch element 1): The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.",
    ),
    bad(
        lambda: linalg.inv(tensor([[1.0, 2.0], [2.0, 4.0]])), RuntimeError, "linalg.inv: The diagonal element 2 is zero"
    ),
]

ROWS = [
    row("linalg_inv", numpy.linalg.inv, result="same", errors=SHAPE_ERRORS),
    complex_row("linalg_inv", linalg.inv, numpy.linalg.inv),
    row("linalg_inv_ex", lambda a: (numpy.linalg.inv(a), numpy.zeros(a.shape[:-2])), result=("same", "int32")),
    row("inverse", numpy.linalg.inv, method="inverse", result="same"),
    row("linalg_solve", solved(), args=both((2, 3, 3), (2, 3, 2)), shapes=(), dtypes=DOUBLES, errors=[
        bad(lambda: linalg.solve(SINGULAR, zeros(3, 1)), linalg.LinAlgError, "linalg.solve: (Batch element 1): The solver failed because the input matrix is singular."),
        bad(lambda: linalg.solve(eye(3), zeros(4)), RuntimeError, "Incompatible shapes of A and B for the equation AX = B (3x3 and 4)"),
        bad(lambda: linalg.solve(eye(3), zeros(2, 3), left=True), RuntimeError, "AX = B (3x3 and 2x3)"),
        bad(lambda: linalg.solve(eye(3), zeros(3, 2), left=False), RuntimeError, "XA = B (3x3 and 3x2)"),
        bad(lambda: linalg.solve(eye(3), zeros(3).double()), RuntimeError, "same dtype", "float32", "float64"),
        bad(lambda: linalg.solve(zeros(2, 3, 3) + eye(3), zeros(4, 3, 1)), RuntimeError, "linalg.solve", "(2,)", "(4,)"),
    ]),
    row("linalg_solve", lambda a, b, left: solved(False)(a, b), args=both((2, 3, 3), (2, 2, 3)), shapes=(), kwargs={"left": False}, dtypes=DOUBLES, id="right"),
    row("linalg_solve", lambda a, b: numpy.linalg.solve(a, b[:, None])[..., 0], args=both((3, 3), (3,)), shapes=(), dtypes=DOUBLES, id="vector"),
    row("linalg_solve", lambda a, b: numpy.linalg.solve(a, b[..., None])[..., 0], args=both((2, 3, 3), (2, 3)), shapes=(), dtypes=DOUBLES, id="vectors"),
    row("linalg_solve", solved(), args=both((4, 1, 3, 3), (2, 3, 2)), shapes=(), dtypes=DOUBLES, id="batches"),
    complex_row("linalg_solve", lambda a: linalg.solve(a, a.mT), lambda a: numpy.linalg.solve(a, numpy.swapaxes(a, -1, -2))),
    row("linalg_solve_ex", lambda a, b: (numpy.linalg.solve(a, b), OK), args=both((2, 3, 3), (2, 3, 2)), shapes=(), dtypes=DOUBLES, result=("same", "int32")),
    *[
        row("linalg_solve_triangular", np_triangular, args=both((2, 3, 3), (2, 3, 3)), shapes=(), dtypes=DOUBLES, id=f"{upper}-{left}-{unit}",
            kwargs={"upper": upper, "left": left, "unitriangular": unit})
        for upper in (True, False) for left in (True, False) for unit in (True, False)
    ],
    complex_row("linalg_solve_triangular", lambda a: linalg.solve_triangular(a, a.mT, upper=True), lambda a: numpy.linalg.solve(numpy.triu(a), numpy.swapaxes(a, -1, -2)), errors=[
        bad(lambda: linalg.solve_triangular(eye(2), zeros(2), upper=True), RuntimeError, "linalg.solve_triangular: The input tensor B must have at least 2 dimensions"),
        bad(lambda: linalg.solve_triangular(eye(2), zeros(3, 1), upper=True), RuntimeError, "AX = B (2x2 and 3x1)"),
        bad(lambda: linalg.solve_triangular(eye(2), zeros(2, 1).double(), upper=True), RuntimeError, "same dtype"),
    ]),
    row("triangular_solve", lambda b, a, **options: (np_triangular(a, b, True), a), args=lambda rng: [rng.normal(size=(2, 3, 2)), regular(rng, (2, 3, 3))], shapes=(), dtypes=DOUBLES, method="triangular_solve"),
    row("triangular_solve", lambda b, a, **options: (numpy.linalg.solve(numpy.swapaxes(numpy.tril(a), -1, -2), b), a), args=lambda rng: [rng.normal(size=(2, 3, 2)), regular(rng, (2, 3, 3))],
        kwargs={"upper": False, "transpose": True}, shapes=(), dtypes=DOUBLES, id="transposed"),
    row("linalg_cholesky", lambda a: numpy.linalg.cholesky(positive(a)), function=lambda a: linalg.cholesky(positive(a)), dtypes=DOUBLES, errors=[
        bad(lambda: linalg.cholesky(-eye(3)), linalg.LinAlgError, "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order 1 is not positive-definite)."),
        bad(lambda: linalg.cholesky(SINGULAR), linalg.LinAlgError, "(Batch element 1)", "order 1"),
        bad(lambda: linalg.cholesky(tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])), linalg.LinAlgError, "order 3"),
        bad(lambda: linalg.cholesky(zeros(2, 3)), RuntimeError, "2 by 3 matrices"),
    ]),
    row("linalg_cholesky", lambda a: adjoint(numpy.linalg.cholesky(positive(a))), function=lambda a: linalg.cholesky(positive(a), upper=True), dtypes=DOUBLES, id="upper"),
    complex_row("linalg_cholesky", lambda a: linalg.cholesky(positive(a)), lambda a: numpy.linalg.cholesky(positive(a))),
    row("linalg_cholesky_ex", lambda a: (numpy.linalg.cholesky(positive(a)), numpy.zeros(a.shape[:-2])), function=lambda a: linalg.cholesky_ex(positive(a)), dtypes=DOUBLES, result=("same", "int32")),
    row("cholesky", lambda a: numpy.linalg.cholesky(positive(a)), function=lambda a: positive(a).cholesky(), dtypes=DOUBLES),
    row("cholesky_solve", lambda b, a: numpy.linalg.solve(numpy.tril(a) @ adjoint(numpy.tril(a)), b), args=lambda rng: [rng.normal(size=(2, 3, 2)), 0.3 * rng.normal(size=(2, 3, 3)) + 2 * numpy.eye(3)], shapes=(), dtypes=DOUBLES, method="cholesky_solve"),
    row("cholesky_solve", lambda b, a, upper: numpy.linalg.solve(adjoint(numpy.triu(a)) @ numpy.triu(a), b), args=lambda rng: [rng.normal(size=(2, 3, 2)), 0.3 * rng.normal(size=(2, 3, 3)) + 2 * numpy.eye(3)], kwargs={"upper": True}, shapes=(), dtypes=DOUBLES, id="upper"),
    row("cholesky_inverse", lambda a: numpy.linalg.inv(numpy.tril(a) @ adjoint(numpy.tril(a))), domain=lambda rng, shape: 0.3 * rng.normal(size=shape) + 2 * numpy.eye(shape[-1]), dtypes=DOUBLES, method="cholesky_inverse"),
    *[
        row("linalg_lu", lambda a: numpy.broadcast_to(a, a.shape), shapes=[shape], function=lambda a: (lambda p, l, u: p @ l @ u)(*linalg.lu(a)), dtypes=NUMBERS, id=f"product{shape}")
        for shape in ((2, 3, 3), (2, 4), (4, 2))
    ],
    row("linalg_lu_factor", lambda a: a, function=lambda a: linalg.lu_solve(*linalg.lu_factor(a), a @ a), dtypes=DOUBLES, errors=[
        bad(lambda: linalg.lu_factor(eye(2), pivot=False), RuntimeError, "LU without pivoting is not implemented on the CPU"),
        bad(lambda: linalg.lu_factor_ex(zeros(2, 2), check_errors=True), linalg.LinAlgError, "U[1,1] is zero"),
        bad(lambda: linalg.lu_factor(zeros(2)), RuntimeError, "at least 2 dimensions"),
    ]),
    row("linalg_lu_factor_ex", lambda a: numpy.zeros(a.shape[:-2]), function=lambda a: linalg.lu_factor_ex(a).info, grad=False, dtypes=DOUBLES, result="int32"),
    row("linalg_lu_factor_ex", lambda a: a, function=lambda a: linalg.lu_solve(*linalg.lu_factor_ex(a)[:2], a @ a), dtypes=DOUBLES, id="gradient"),
    row("lu", lambda a: a, function=lambda a: linalg.lu_solve(*a.lu(), a @ a), dtypes=DOUBLES),
    row("lu_unpack", lambda a: a, function=lambda a: (lambda p, l, u: p @ l @ u)(*dynograd.lu_unpack(*dynograd.lu(a))), dtypes=DOUBLES, covers=["lu_permutation"]),
    row("lu_solve", lambda b, a: numpy.linalg.solve(a, b), function=lambda b, a: b.lu_solve(*linalg.lu_factor(a)), args=lambda rng: [rng.normal(size=(2, 3, 2)), regular(rng, (2, 3, 3))], shapes=(), dtypes=DOUBLES),
    *[
        row("linalg_lu_solve", lambda a, b, left=left, adj=adj: solved(left)(adjoint(a) if adj else a, b), function=lambda a, b, left=left, adj=adj: linalg.lu_solve(*linalg.lu_factor(a), b, left=left, adjoint=adj),
            args=both((2, 3, 3), (2, 3, 3)), shapes=(), dtypes=DOUBLES, id=f"{left}-{adj}")
        for left in (True, False) for adj in (True, False)
    ],
    row("linalg_det", numpy.linalg.det, errors=[bad(lambda: linalg.det(zeros(2, 3)), RuntimeError, "linalg.det", "2 by 3 matrices")]),
    complex_row("linalg_det", linalg.det, numpy.linalg.det),
    row("linalg_det", numpy.linalg.det, shapes=[(3, 3)], domain=lambda rng, shape: numpy.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])[: shape[-1], : shape[-1]], ones=False, empty=False, id="singular", dtypes=["float64"]),
    row("det", numpy.linalg.det, method="det"),
    row("linalg_slogdet", lambda a: tuple(numpy.linalg.slogdet(a)), dtypes=DOUBLES),
    complex_row("linalg_slogdet", linalg.slogdet, lambda a: tuple(numpy.linalg.slogdet(a))),
    row("slogdet", lambda a: tuple(numpy.linalg.slogdet(a)), method="slogdet", dtypes=DOUBLES),
    row("logdet", lambda a: numpy.log(numpy.linalg.det(a @ adjoint(a))), function=lambda a: (a @ a.mT).logdet(), dtypes=DOUBLES),
    complex_row("logdet", lambda a: dynograd.logdet(a).exp(), numpy.linalg.det),
]  # fmt: skip
test_rows = generate(ROWS)


def test_named_results():
    assert linalg.inv_ex(eye(2))._fields == ("inverse", "info")
    assert linalg.solve_ex(eye(2), eye(2))._fields == ("result", "info")
    assert linalg.cholesky_ex(eye(2))._fields == ("L", "info")
    assert linalg.lu(eye(2))._fields == ("P", "L", "U") and linalg.lu_factor(eye(2))._fields == ("LU", "pivots")
    assert linalg.lu_factor_ex(eye(2))._fields == ("LU", "pivots", "info")
    assert linalg.slogdet(eye(2))._fields == ("sign", "logabsdet")
    assert dynograd.triangular_solve(eye(2), eye(2))._fields == ("solution", "cloned_coefficient")


def test_infos_of_matrices_that_fail():
    assert linalg.inv_ex(SINGULAR).info.tolist() == [0, 1]
    assert linalg.inv_ex(SINGULAR).inverse[0].tolist() == eye(3).tolist()
    result = linalg.solve_ex(SINGULAR, zeros(3, 1) + 1)
    assert result.info.tolist() == [0, 1] and result.result[0].tolist() == [[1], [1], [1]]
    result = linalg.cholesky_ex(tensor([[[4.0]], [[-1.0]]]))
    assert result.info.tolist() == [0, 1] and result.L[0].tolist() == [[2]]
    assert linalg.lu_factor_ex(zeros(2, 2)).info.item() == 1
    assert linalg.lu_factor(tensor([[1.0, 2.0], [3.0, 4.0]])).pivots.tolist() == [2, 2]


def test_only_one_triangle_is_read():
    nan = float("nan")
    assert linalg.solve_triangular(tensor([[2.0, nan], [0.0, 2.0]]), eye(2), upper=False).tolist() == [
        [0.5, 0],
        [0, 0.5],
    ]
    assert linalg.cholesky(tensor([[4.0, nan], [0.0, 4.0]])).tolist() == [[2, 0], [0, 2]]
    assert linalg.cholesky(tensor([[4.0, 0.0], [nan, 4.0]]), upper=True).tolist() == [[2, 0], [0, 2]]
    result = linalg.solve_triangular(zeros(1, 1), tensor([[1.0]]), upper=True)
    assert result.item() == numpy.inf


def test_determinants_of_singular_matrices():
    x = zeros(2, 2, requires_grad=True)
    linalg.det(x).backward()
    assert x.grad.tolist() == [[0, 0], [0, 0]]
    assert dynograd.logdet(zeros(2, 2)).item() == -numpy.inf and numpy.isnan(dynograd.logdet(tensor([[-1.0]])).item())
    assert [element.item() for element in linalg.slogdet(zeros(2, 2))] == [0, -numpy.inf]
    assert linalg.det(zeros(0, 0)).item() == 1


def test_lu_without_everything():
    packed, pivots, infos = dynograd.lu(eye(2), get_infos=True)
    assert infos.item() == 0
    result = dynograd.lu_unpack(packed, pivots, unpack_data=False)
    assert result.L.numel() == result.U.numel() == 0 and result.P.tolist() == [[1, 0], [0, 1]]
    assert dynograd.lu_unpack(packed, pivots, unpack_pivots=False).P.numel() == 0
    with pytest.raises(RuntimeError, match=r"linalg.lu_solve: Incompatible shapes .* AX = B \(2x2 and 3x1\)"):
        linalg.lu_solve(packed, pivots, zeros(3, 1))


def test_negative_powers():
    result = dynograd.matrix_power(tensor([[2.0, 0.0], [0.0, 4.0]]), -2)
    assert result.tolist() == [[0.25, 0], [0, 0.0625]]
