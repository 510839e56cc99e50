"""QR, singular values and eigenvalues: products give the matrix back, factors are orthonormal, and values are NumPy's."""

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, error, generate
from tests.ops.matrices import COARSE, DOUBLES, NUMBERS, adjoint, in_parts, of_parts, regular

linalg, tensor, zeros, eye = dynograd.linalg, dynograd.tensor, dynograd.zeros, dynograd.eye
SHAPES = [(2, 3, 3), (2, 4, 3), (2, 2, 4)]
NAN = float("nan")


def row(name, reference, **options):
    options = {
        "shapes": [(2, 3, 3)],
        "domain": regular,
        "dtypes": DOUBLES,
        "tolerance": COARSE,
        "method": False,
    } | options
    return Row(name, reference, **options)


def complex_row(name, function, reference, shape=(2, 3, 3), **options):
    return row(
        name, of_parts(reference), function=in_parts(function), shapes=[shape, shape], id=f"complex{shape}", empty=False,
        gradient_tolerance=(1e-3, 1e-5), **options,
    )  # fmt: skip


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


def hermitian(a):
    return a + (a.mH if isinstance(a, dynograd.Tensor) else adjoint(a))


def first_part(a):
    """What does not depend on the phases of singular vectors."""
    u, s, vh = linalg.svd(a, False) if isinstance(a, dynograd.Tensor) else numpy.linalg.svd(a, False)
    return u[..., :1] @ vh[..., :1, :] * s[..., :1, None], s


def first_projection(a):
    values, vectors = linalg.eigh(hermitian(a)) if isinstance(a, dynograd.Tensor) else numpy.linalg.eigh(hermitian(a))
    first = vectors[..., :1]
    return values, first @ (first.mH if isinstance(a, dynograd.Tensor) else adjoint(first))


def by_parts(a):
    """A matrix from its eigenvalues and eigenvectors, to the second power."""
    values, vectors = linalg.eig(a)
    return dynograd.real(vectors @ (values * values).diag_embed() @ linalg.inv(vectors))


ROWS = [
    row("geqrf", lambda a: numpy.triu(numpy.linalg.qr(a, "r")), function=lambda a: dynograd.geqrf(a)[0].triu(), grad=False),
    *[row("linalg_qr", lambda a: tuple(numpy.linalg.qr(a)), shapes=[shape], id=f"{shape}", dtypes=NUMBERS) for shape in SHAPES],
    *[complex_row("linalg_qr", linalg.qr, lambda a: tuple(numpy.linalg.qr(a)), shape) for shape in SHAPES],
    row("linalg_qr", lambda a, mode: tuple(numpy.linalg.qr(a, mode)), kwargs={"mode": "complete"}, shapes=[(2, 3)], id="complete", errors=[
        bad(lambda: linalg.qr(eye(2), mode="x"), RuntimeError, "qr received unrecognized mode 'x'", "'reduced' (default), 'r', or 'complete'"),
        bad(lambda: linalg.qr(zeros(2)), RuntimeError, "linalg.qr", "at least 2 dimensions"),
        bad(lambda: linalg.qr(zeros(3, 2, requires_grad=True) + 1, mode="complete")[1].sum().backward(), RuntimeError, "not differentiable when mode='complete' and nrows > ncols"),
    ]),
    row("qr", lambda a: tuple(numpy.linalg.qr(a)), method="qr"),
    *[
        row("linalg_svd", lambda a: a, shapes=[shape], function=lambda a: (lambda u, s, vh: u @ (s.unsqueeze(-1) * vh))(*linalg.svd(a, False)), id=f"product{shape}", dtypes=DOUBLES)
        for shape in SHAPES
    ],
    *[row("linalg_svd", lambda a, full_matrices: tuple(numpy.linalg.svd(a, full_matrices)), shapes=[shape], kwargs={"full_matrices": False}, id=f"{shape}") for shape in SHAPES],
    *[complex_row("linalg_svd", first_part, first_part, shape) for shape in SHAPES],
    row("linalg_svd", lambda a: numpy.linalg.svd(a, compute_uv=False), shapes=[(2, 4, 3)], function=lambda a: linalg.svd(a)[1], id="full", errors=[
        bad(lambda: linalg.svd(tensor([[[1.0]], [[NAN]]])), linalg.LinAlgError, "linalg.svd: (Batch element 1): The algorithm failed to converge", "non-finite"),
        bad(lambda: linalg.svdvals(tensor([[NAN]])), linalg.LinAlgError, "linalg.svd: The algorithm failed to converge"),
        bad(lambda: linalg.svd(zeros(2, 2).long()), RuntimeError, "linalg.svd", "int64"),
    ]),
    *[row("linalg_svdvals", lambda a: numpy.linalg.svd(a, compute_uv=False), shapes=[shape], id=f"{shape}") for shape in SHAPES],
    row("svd", lambda a: a, function=lambda a: (lambda u, s, v: u @ s.diag_embed() @ v.mH)(*a.svd())),
    row("linalg_eigh", first_projection, function=first_projection),
    complex_row("linalg_eigh", first_projection, first_projection, errors=[
        bad(lambda: linalg.eigh(zeros(2, 3)), RuntimeError, "linalg.eigh", "2 by 3 matrices"),
        bad(lambda: linalg.eigh(eye(2), UPLO="x"), RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got x"),
    ]),
    row("linalg_eigvalsh", lambda a: numpy.linalg.eigvalsh(hermitian(a)), function=lambda a: linalg.eigvalsh(hermitian(a))),
    row("linalg_eig", lambda a: a @ a, function=by_parts, errors=[
        bad(lambda: linalg.eig(zeros(2, 3)), RuntimeError, "linalg.eig", "2 by 3 matrices"),
        bad(lambda: linalg.eig(tensor([[NAN]])), RuntimeError, "should not contain infs or NaNs"),
    ]),
    complex_row("linalg_eig", lambda a: (linalg.eigvals(a), linalg.eig(a)[1].abs()), lambda a: (numpy.linalg.eigvals(a), abs(numpy.linalg.eig(a)[1]))),
    row("linalg_eigvals", lambda a: numpy.linalg.eigvals(a).real.sum(-1), function=lambda a: linalg.eigvals(a).real.sum(-1)),
]  # fmt: skip
test_rows = generate(ROWS)


def test_named_results():
    assert linalg.qr(eye(2))._fields == dynograd.qr(eye(2))._fields == ("Q", "R")
    assert linalg.svd(eye(2))._fields == ("U", "S", "Vh") and dynograd.svd(eye(2))._fields == ("U", "S", "V")
    assert linalg.eigh(eye(2))._fields == linalg.eig(eye(2))._fields == ("eigenvalues", "eigenvectors")


def test_sizes_of_full_and_reduced_factors():
    x = tensor(numpy.random.default_rng(0).normal(size=(4, 2)))
    assert [tuple(element.shape) for element in linalg.svd(x)] == [(4, 4), (2,), (2, 2)]
    assert [tuple(element.shape) for element in dynograd.svd(x, some=False)] == [(4, 4), (2,), (2, 2)]
    assert [tuple(element.shape) for element in dynograd.svd(x, compute_uv=False)] == [(4, 4), (2,), (2, 2)]
    assert [tuple(element.shape) for element in linalg.qr(x, "complete")] == [(4, 4), (4, 2)]
    assert [tuple(element.shape) for element in dynograd.qr(x, some=False)] == [(4, 4), (4, 2)]
    assert [tuple(element.shape) for element in linalg.qr(x, "r")] == [(0,), (2, 2)]


def test_eigenvalues():
    x = tensor([[2.0, NAN], [1.0, 2.0]])
    assert linalg.eigvalsh(x).tolist() == pytest.approx([1, 3])
    assert linalg.eigvalsh(x.mT.contiguous(), UPLO="U").tolist() == pytest.approx([1, 3])
    assert numpy.isnan(linalg.eigh(tensor([[NAN, NAN], [NAN, NAN]])).eigenvalues.numpy()).all()
    assert linalg.eig(eye(2)).eigenvalues.dtype is dynograd.complex64
    assert linalg.eigvals(tensor([[0.0, 1.0], [-1.0, 0.0]])).tolist() == [1j, -1j]


def test_reflections_give_the_matrix_back():
    x = tensor(numpy.random.default_rng(0).normal(size=(2, 4, 3)))
    a, tau = dynograd.geqrf(x)
    numpy.testing.assert_allclose((dynograd.orgqr(a, tau) @ a[:, :3].triu()).numpy(), x.numpy(), atol=1e-12)


def test_gradients_of_eigenvectors_are_hermitian():
    rng = numpy.random.default_rng(1)
    for a in (rng.normal(size=(4, 4)), rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))):
        x, weights = tensor(hermitian(a)).requires_grad_(), tensor(rng.normal(size=(4, 4)))
        (linalg.eigh(x)[1].abs() * weights).sum().backward()
        numpy.testing.assert_allclose(x.grad.numpy(), x.grad.mH.numpy(), atol=1e-12)
