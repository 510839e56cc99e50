"""`linalg`, `fft` and complex numbers against PyTorch: values, gradients of first and second order, names, and which mistakes are errors.

A case is an expression over arrays that both libraries evaluate; floating arrays want gradients. What LAPACK is free to choose (signs
of vectors) is the same here, because both call it.
"""

import warnings

import numpy
import pytest
import torch

import dynograd

RNG = numpy.random.default_rng(0)
ARRAYS = {
    "A": RNG.normal(size=(2, 3, 3)) + 2 * numpy.eye(3),
    "B": RNG.normal(size=(2, 3, 2)),
    "b": RNG.normal(size=3),
    "tall": RNG.normal(size=(4, 3)),
    "wide": RNG.normal(size=(2, 4)),
    "x": RNG.normal(size=(3, 8)),
    "y": RNG.normal(size=(3, 8)),
    "w": RNG.uniform(0.5, 1, 4),
    "t": RNG.normal(size=(2, 3, 6)),
    "pairs": RNG.normal(size=(3, 2)),
}

LINALG = [
    "L.inv(A)", "L.inv_ex(A).inverse", "L.solve(A, B)", "L.solve(A, B.mT, left=False)", "L.solve(A, b)", "L.solve_ex(A, B)[0]", "L.det(A)",
    "L.slogdet(A)[1]", "T.logdet(A @ A.mT)", "L.cholesky(A @ A.mT)", "L.cholesky(A @ A.mT, upper=True)", "L.cholesky_ex(A @ A.mT)[0]",
    "L.solve_triangular(A, B, upper=True)", "L.solve_triangular(A, B, upper=False, unitriangular=True)",
    "L.solve_triangular(A, B.mT, upper=False, left=False)", "T.cholesky_solve(B, A.tril())", "T.cholesky_inverse(A[0].tril())", "L.lu(A)[1]", "L.lu(A)[2]",
    "L.lu_factor(A)[0]", "L.lu_factor(tall)[0]", "L.lu_factor(wide)[0]", "L.lu_solve(*L.lu_factor(A), B)", "L.lu_solve(*L.lu_factor(A), B.mT, left=False)",
    "L.lu_solve(*L.lu_factor(A), B, adjoint=True)", "L.qr(A)[0]", "L.qr(A)[1]", "L.qr(tall)[0]", "L.qr(wide)[1]", "L.svdvals(A)", "L.svd(A)[1]",
    "L.svd(tall, full_matrices=False)[0].abs()", "L.svd(wide, False)[2].abs()", "L.eigvalsh(A + A.mT)", "L.eigh(A + A.mT)[1].abs()", "L.eigvals(A).abs().sum()",
    "L.pinv(tall)", "L.pinv(wide)", "L.pinv(A + A.mT, hermitian=True)", "T.pinverse(tall)", "L.matrix_rank(A)", "L.lstsq(tall, tall @ B[0]).solution",
    "L.lstsq(tall, y[:, :4].T).solution", "L.lstsq(tall, y[0, :4]).solution", "L.norm(A)", "L.norm(tall, 2)", "L.norm(b, 3)", "L.norm(A, 'nuc', (0, 2), True)", "L.norm(x, 1, 1)",
    "T.norm(tall, 'nuc')", *[f"L.matrix_norm(A, {p!r})" for p in ("fro", "nuc", 1, -1, 2, -2)], "L.matrix_norm(A, float('inf'), (0, 1), True)",
    *[f"L.cond(A, {p!r})" for p in (None, "fro", "nuc", 1, -1, 2, -2)], "L.vector_norm(A, 3, (0, 1))", "L.matrix_exp(A)", "T.matrix_exp(A * 5)", "L.matrix_power(A, -2)",
    "L.matrix_power(A, 0)", "L.multi_dot([b, A[0], A[1], b])", "L.multi_dot([tall, A[0], B[1]])", "L.vander(tall)", "L.vander(tall, N=2)", "T.vander(b, 2)", "T.vander(b, increasing=True)",
    "L.vecdot(x, y)", "L.vecdot(x, y, dim=0)", "L.cross(A, A[:1])", "T.geqrf(tall.detach())[0]", "T.geqrf(A.detach())[1]", "T.orgqr(tall, b)", "L.diagonal(A)", "L.householder_product(tall, b)", "L.tensorinv(t)", "L.tensorsolve(t, t[:, :, 0])",
    "A.det()", "A.inverse()", "A.slogdet()[0]", "A.logdet().nan_to_num()", "A.matrix_power(3)", "B.cholesky_solve(A.triu(), True)", "A.qr()[1]", "A.svd()[1]", "A.matrix_exp()", "T.det(A)",
    "T.svd(tall, compute_uv=False)[0]", "T.triangular_solve(B, A)[0]", "T.triangular_solve(B, A, upper=False, transpose=True)[0]", "T.lu_unpack(*T.lu(A))[1]", "T.lu_solve(B, *T.lu(A))",
]  # fmt: skip
COMPLEX = [
    "T.complex(x, y)", "T.polar(x * x, y)", "T.view_as_complex(pairs)", "T.view_as_real(T.complex(x, y))", "T.complex(x, y).angle()", "T.complex(x, y).abs()", "T.complex(x, y).real * y",
    "T.complex(x, y).imag ** 2", "T.complex(x, y).sgn()", "T.complex(x, y).conj() * x", "T.complex(x, y) @ T.complex(x, y).mH", "x.angle()", "T.complex(x, y).exp()", "T.complex(x, y).prod(0)",
    "T.is_complex(x)", "T.isreal(T.complex(x, x * 0))", "T.real(x)", "T.conj_physical(T.complex(x, y))", "T.resolve_conj(T.complex(x, y).conj())", "T.resolve_neg(x)",
    "L.inv(T.complex(A, A.mT))", "L.svdvals(T.complex(A, A.mT))", "L.det(T.complex(A, A.mT))", "L.solve(T.complex(A, A.mT), T.complex(B, B))", "L.eigvalsh(T.complex(A, A.mT) + T.complex(A, A.mT).mH)",
    "L.cholesky(T.complex(A, A.mT) @ T.complex(A, A.mT).mH)", "L.pinv(T.complex(tall, tall))", "T.logdet(T.complex(A, A.mT)).exp()", "L.slogdet(T.complex(A, A.mT))[0]",
    "L.qr(T.complex(tall, 0.3 * tall.flip(0)))[1].abs()", "L.matrix_exp(T.complex(A, A.mT))",
]  # fmt: skip
FFT = [
    *[f"T.fft.{name}(T.complex(x, y), {rest})" for name in ("fft", "ifft", "irfft", "hfft") for rest in ("", "n=5", "n=11, norm='ortho'", "dim=0, norm='forward'")],
    *[f"T.fft.{name}(x, {rest})" for name in ("fft", "rfft", "ihfft") for rest in ("", "n=5", "n=11, norm='ortho'", "dim=0, norm='forward'")],
    *[f"T.fft.{name}(T.complex(t, t.flip(0)), {rest})" for name in ("fftn", "ifftn", "irfftn", "hfftn") for rest in ("", "s=(4, 3)", "dim=(0, 2), norm='ortho'", "s=(2, -1), dim=(2, 0), norm='forward'")],
    *[f"T.fft.{name}(t, {rest})" for name in ("rfftn", "ihfftn") for rest in ("", "s=(4, 3)", "dim=(0, 2), norm='ortho'", "s=(2, -1), dim=(2, 0), norm='forward'")],
    *[f"T.fft.{name}(T.complex(t, t.flip(0)))" for name in ("fft2", "ifft2", "irfft2", "hfft2")], "T.fft.rfft2(t)", "T.fft.ihfft2(t)",
    "T.fft.fftshift(t)", "T.fft.ifftshift(t, dim=1)", "T.fft.fftshift(t, (0, 1))",
    "T.fft.fftfreq(5, 0.5)", "T.fft.rfftfreq(6, 2.0)", *[f"T.{name}_window({rest})" for name in ("hann", "hamming", "blackman", "bartlett", "kaiser") for rest in ("5", "5, False", "1", "0")],
    "T.hamming_window(6, True, 0.5, 0.4)", "T.kaiser_window(6, False, 3.0)",
    "T.stft(x, 4, return_complex=True, window=w)", "T.stft(x, 4, 2, return_complex=True, window=w, center=False)", "T.stft(x[0], 6, 1, 4, w, pad_mode='constant', normalized=True, return_complex=True)",
    "T.stft(x, 4, 1, window=w, onesided=False, return_complex=False)", "T.istft(T.stft(x, 4, 1, window=w, return_complex=True), 4, 1, window=w)",
    "T.istft(T.stft(x, 4, 1, window=w, return_complex=True) ** 2, 4, 1, window=w, length=6)", "T.istft(T.stft(x, 4, 2, window=w, onesided=False, return_complex=True), 4, 2, window=w, onesided=False)",
]  # fmt: skip
MISTAKES = [
    "L.inv(B)", "L.inv(A * 0)", "L.solve(A, B.mT)", "L.solve(A * 0, B)", "L.cholesky(-A @ A.mT)", "L.det(B)", "L.qr(A, mode='x')", "L.eigh(A, UPLO='x')", "L.eig(B)", "L.norm(A, 2)", "L.norm(tall, 'x')",
    "L.matrix_norm(A, 3)", "L.cond(A, 'x')", "L.multi_dot([A[0]])", "L.vander(b[0])", "L.solve_triangular(A, b, upper=True)", "L.lstsq(tall, b)", "L.matrix_exp(B)", "L.householder_product(wide, b)",
    "L.svd(A * float('nan'))", "T.fft.fft(x, n=0)", "T.fft.fft(x, norm='x')", "T.fft.rfft(x + 0j)", "T.fft.fftn(x, dim=(0, 0))", "T.fft.fft2(b)", "T.stft(x, 4)", "T.stft(t, 4, return_complex=True)",
    "T.istft(x, 4)", "T.complex(x, y.long())", "T.view_as_complex(b)", "T.view_as_real(x)", "T.imag(x)", "T.hann_window(-1)",
]  # fmt: skip
# Expressions of which torch 2.13 itself gives no gradients: "modified by an inplace operation".
ONLY_VALUES = ("L.cond(A, 'fro')", "L.cond(A, 1)", "L.cond(A, -1)", "T.vander(b, 2)", "T.vander(b, increasing=True)")


def plain(one):
    """The numbers of a tensor of either library."""
    return one.detach().numpy(force=True) if isinstance(one, torch.Tensor) else one.detach().numpy()


def parts_of(result, library):
    """Real tensors of a result."""
    if not hasattr(result, "shape"):
        return [result]
    return [library.view_as_real(result.resolve_conj())] if result.is_complex() else [result]


def evaluated(text, library):
    """Values, gradients and gradients of gradients of an expression."""
    arrays = {name: library.tensor(value, requires_grad=True) for name, value in ARRAYS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = eval(text, {"T": library, "L": library.linalg, **arrays})
    outputs = parts_of(result, library)
    results = [plain(output) if hasattr(output, "detach") else output for output in outputs]
    leaves = list(arrays.values())
    nothing = [None] * len(leaves)
    moving = [output for output in outputs if getattr(output, "requires_grad", False)]
    if not moving or text in ONLY_VALUES:
        return results, nothing, nothing
    total = sum((element * element.detach().cos()).sum() for element in moving)
    first = library.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    total = sum((element * element).sum() for element in first if element is not None and element.requires_grad)
    second = (
        library.autograd.grad(total, leaves, allow_unused=True) if getattr(total, "requires_grad", False) else nothing
    )
    return results, first, second


@pytest.mark.parametrize("text", LINALG + COMPLEX + FFT)
def test_same_as_torch(text):
    ours, theirs = evaluated(text, dynograd), evaluated(text, torch)
    for element, other in zip(ours[0], theirs[0], strict=True):
        assert getattr(element, "dtype", None) == getattr(other, "dtype", None)
        assert getattr(element, "shape", None) == getattr(other, "shape", None)
        numpy.testing.assert_allclose(element, other, rtol=1e-6, atol=1e-7)
    for order in (1, 2):
        for name, element, other in zip(ARRAYS, ours[order], theirs[order], strict=True):
            element = numpy.zeros(ARRAYS[name].shape) if element is None else plain(element)
            other = numpy.zeros(ARRAYS[name].shape) if other is None else plain(other)
            numpy.testing.assert_allclose(element, other, rtol=1e-5, atol=1e-6, err_msg=f"order {order} of {name}")


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text):
    for library in (dynograd, torch):
        arrays = {name: library.tensor(value) for name, value in ARRAYS.items()}
        with pytest.raises((RuntimeError, IndexError)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(text, {"T": library, "L": library.linalg, **arrays})


def test_names():
    """What torch.linalg and torch.fft have and we have not, by name: the list may only shrink."""
    theirs = {name for name in dir(torch.linalg) if not name.startswith("_") and callable(getattr(torch.linalg, name))}
    assert theirs - set(dir(dynograd.linalg)) == set()
    theirs = set(torch.fft.__all__) - {"Tensor"}
    assert theirs - set(dir(dynograd.fft)) == set()
