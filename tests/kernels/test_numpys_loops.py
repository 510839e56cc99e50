"""LAPACK and Fourier transforms without NumPy's Python code around them: what `numpy.linalg` and `numpy.fft` give."""

import numpy
import pytest

from dynograd.kernels.fft import ffts_cpu
from dynograd.kernels.linalg import linear_algebra_cpu

KINDS = ["f", "d", "F", "D"]


def matrices(kind, shape):
    generator = numpy.random.default_rng(len(shape))
    x = generator.standard_normal(shape)
    return (x + 1j * generator.standard_normal(shape) if kind in "FD" else x).astype(kind)


def same_bits(result, expected, kind=None):
    expected = numpy.asarray(expected, kind)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    assert numpy.ascontiguousarray(result).tobytes() == numpy.ascontiguousarray(expected).tobytes()


def same_numbers(result, expected):
    """Bits in double precision; in single precision NumPy may compute in double, and round."""
    if expected.dtype.char in "dD":
        same_bits(result, expected)
    else:
        assert result.dtype == expected.dtype and result.shape == expected.shape
        numpy.testing.assert_allclose(result, expected, rtol=0, atol=2e-7 * numpy.abs(expected).max() + 1e-12)


@pytest.fixture(params=["at once", "another NumPy"], autouse=True)
def numpys(request, monkeypatch):
    """A NumPy whose own modules are arranged in another way is called by its public functions."""
    if request.param == "another NumPy":
        for name, value in vars(linear_algebra_cpu).items():
            if name.endswith("_at_once") or name in ("_reflections", "_first_columns"):
                refused = (
                    {element: lambda *x: None for element in value} if isinstance(value, dict) else lambda *x: None
                )
                monkeypatch.setattr(linear_algebra_cpu, name, refused) if name != "_at_once" else None
        monkeypatch.setattr(ffts_cpu, "_at_once", None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 4, 4), (2, 3, 6, 6)])
@pytest.mark.parametrize("layout", ["rows", "turned"])
def test_square_matrices(kind, shape, layout):
    x = matrices(kind, shape)
    x = x.swapaxes(-1, -2) if layout == "turned" else x
    b = matrices(kind, (*shape[:-1], 2))
    definite = x @ numpy.conj(x.swapaxes(-1, -2)) + numpy.eye(shape[-1], dtype=kind)
    same_bits(linear_algebra_cpu.inverse(x)[0], numpy.linalg.inv(x))
    same_bits(linear_algebra_cpu.solve(x, b)[0], numpy.linalg.solve(x, b))
    same_bits(linear_algebra_cpu.cholesky(definite)[0], numpy.linalg.cholesky(definite))
    same_bits(linear_algebra_cpu.determinant(x), numpy.linalg.det(x), kind)
    for result, expected in zip(linear_algebra_cpu.sign_and_logarithm(x), numpy.linalg.slogdet(x), strict=True):
        same_bits(result, expected, result.dtype)
    for upper in (False, True):
        for result, expected in zip(
            linear_algebra_cpu.eigh(definite, upper), numpy.linalg.eigh(definite, "U" if upper else "L"), strict=True
        ):
            same_bits(result, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (2, 4, 6), (2, 6, 4), (70, 80)])
@pytest.mark.parametrize("layout", ["rows", "turned"])
def test_matrices(kind, shape, layout):
    x = matrices(kind, shape)
    x = x.swapaxes(-1, -2) if layout == "turned" else x
    before = x.copy()
    for full in (False, True):
        for result, expected in zip(
            linear_algebra_cpu.qr(x, full), numpy.linalg.qr(x, "complete" if full else "reduced"), strict=True
        ):
            same_bits(result, expected)
            assert result.flags.c_contiguous
        for result, expected in zip(linear_algebra_cpu.svd(x, full), numpy.linalg.svd(x, full), strict=True):
            same_bits(result, expected)
    same_bits(linear_algebra_cpu.singular_values(x), numpy.linalg.svd(x, compute_uv=False))
    assert (x == before).all()


def test_failures_among_several():
    x = numpy.stack([numpy.eye(2), numpy.ones((2, 2)), numpy.eye(2) * 2])
    result, info = linear_algebra_cpu.inverse(x)
    assert info.tolist() == [0, 2, 0] and result[2].tolist() == [[0.5, 0.0], [0.0, 0.5]]
    result, info = linear_algebra_cpu.solve(x, x)
    assert info.tolist() == [0, 2, 0] and result[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    result, info = linear_algebra_cpu.cholesky(x - numpy.eye(2) * 0.5)
    assert info.tolist() == [0, 2, 0] and result[0, 0, 0] == numpy.sqrt(0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (3, 10), (4, 9, 2)])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(kind, shape, norm):
    x = matrices(kind, shape)
    whole = x.astype(numpy.result_type(kind, "F"))
    for dim in {0, len(shape) - 1}:
        same_numbers(ffts_cpu.complex_transform(x, (dim,), norm, False), numpy.fft.fft(whole, axis=dim, norm=norm))
        same_numbers(ffts_cpu.complex_transform(x, (dim,), norm, True), numpy.fft.ifft(whole, axis=dim, norm=norm))
        if kind in "fd":
            same_numbers(ffts_cpu.half_transform(x, (dim,), norm), numpy.fft.rfft(x, axis=dim, norm=norm))
        elif shape[dim] > 1:
            for n in (2 * shape[dim] - 2, 2 * shape[dim] - 1):
                same_numbers(ffts_cpu.from_half(x, n, (dim,), norm), numpy.fft.irfft(x, n, dim, norm))
    same_numbers(
        ffts_cpu.complex_transform(x[..., ::-1], (-1,), norm, False), numpy.fft.fft(whole[..., ::-1], norm=norm)
    )
