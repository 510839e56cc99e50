"""Fourier transforms against NumPy's, in one and several dims, cut off and padded, in every normalisation."""

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, error, generate

DOUBLES = ("float32", "float64")
zeros, fft = dynograd.zeros, dynograd.fft
COARSE = {"float32": (1e-4, 1e-5), "complex64": (1e-4, 1e-5), "float64": (1e-9, 1e-11)}


def pairs(array):
    return numpy.stack([array.real, array.imag], -1)


def complex_to_complex(name, reference, **options):
    """Rows of a transform of complex numbers, from their parts to the parts of the result."""

    def call(x, y, **given):
        return dynograd.view_as_real(getattr(fft, name)(dynograd.complex(x, y), **given))

    return Row(
        f"fft_{name}", lambda x, y, **given: pairs(reference(x + 1j * y, **given)), shapes=[(3, 4), (3, 4)], dtypes=DOUBLES,
        function=call, empty=False, tolerance=COARSE, **options,
    )  # fmt: skip


def real_to_complex(name, reference, **options):
    def call(x, **given):
        return dynograd.view_as_real(getattr(fft, name)(x, **given))

    return Row(
        f"fft_{name}", lambda x, **given: pairs(reference(x, **given)), shapes=[(3, 4)], dtypes=DOUBLES, function=call, empty=False,
        tolerance=COARSE, **options,
    )  # fmt: skip


def complex_to_real(name, reference, ones=False, **options):
    def call(x, y, **given):
        return getattr(fft, name)(dynograd.complex(x, y), **given)

    return Row(
        f"fft_{name}", lambda x, y, **given: reference(x + 1j * y, **given), shapes=[(3, 4), (3, 4)], dtypes=DOUBLES, function=call,
        empty=False, ones=ones, tolerance=COARSE, **options,
    )  # fmt: skip


def over(function, *names):
    """A NumPy function with NumPy's names of the arguments for PyTorch's."""

    def call(x, dim=-1, norm=None, **options):
        return function(x, **options, **{names[0]: dim}, norm=norm)

    return call


def np_hfftn(x, s=None, dim=(0, 1), norm=None):
    other = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
    return numpy.fft.irfftn(x.conj(), s, dim, other)


def np_ihfftn(x, s=None, dim=(0, 1), norm=None):
    other = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
    return numpy.fft.rfftn(x, s, dim, other).conj()


LINES = [
    {"id": "plain"},
    {"kwargs": {"n": 6, "norm": "ortho"}, "id": "padded"},
    {"kwargs": {"n": 3, "dim": 0, "norm": "forward"}, "id": "first"},
    {"kwargs": {"n": 2}, "id": "cut"},
]
PLANES = [
    {"id": "plain"},
    {"kwargs": {"s": (4, 3), "dim": (1, 0), "norm": "ortho"}, "id": "exchanged"},
    {"kwargs": {"s": (2, 5), "dim": (0, 1), "norm": "forward"}, "id": "resized"},
]


def n_dims(function, axes=(0, 1)):
    def call(x, s=None, dim=axes, norm=None):
        return function(x, s, dim, norm)

    return call


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


ERRORS = [
    bad(lambda: fft.fft(zeros(4), n=0), RuntimeError, "fft", "Invalid number of data points (0)"),
    bad(lambda: fft.fft(zeros(4), norm="x"), RuntimeError, "fft", 'Invalid normalization mode: "x"'),
    bad(lambda: fft.fft(zeros(4).half()), RuntimeError, "fft", "Unsupported dtype", "float16"),
    bad(lambda: fft.fft(zeros(())), IndexError, "fft", "tensor has no dimensions"),
    bad(lambda: fft.fft(zeros(4), dim=1), IndexError, "fft", "1"),
    bad(lambda: fft.rfft(dynograd.tensor([1j])), RuntimeError, "rfft expects a real input tensor", "complex64"),
    bad(lambda: fft.ihfft(dynograd.tensor([1j])), RuntimeError, "ihfft expects a real input tensor", "complex64"),
    bad(lambda: fft.irfft(zeros(1)), RuntimeError, "irfft", "Invalid number of data points (0)"),
    bad(lambda: fft.fftn(zeros(4), s=(3, 4)), RuntimeError, "fftn", "Got shape with 2 values", "1 dimensions"),
    bad(lambda: fft.fftn(zeros(2, 4), dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
    bad(lambda: fft.fftn(zeros(2, 4), s=(3,), dim=(0, 1)), RuntimeError, "same length"),
    bad(lambda: fft.fftn(zeros(2, 4), s=(0, 1)), RuntimeError, "Invalid number of data points (0)"),
    bad(lambda: fft.fft2(zeros(4)), IndexError, "fft2", "-2"),
    bad(lambda: fft.rfftn(zeros(())), RuntimeError, "rfftn", "at least one axis"),
]

ROWS = [
    *[complex_to_complex("fft", over(numpy.fft.fft, "axis"), **line, covers=["fft_complex"]) for line in LINES],
    *[complex_to_complex("ifft", over(numpy.fft.ifft, "axis"), **line) for line in LINES],
    *[real_to_complex("rfft", over(numpy.fft.rfft, "axis"), **line, covers=["fft_half"]) for line in LINES],
    *[real_to_complex("ihfft", over(numpy.fft.ihfft, "axis"), **line) for line in LINES],
    *[complex_to_real("irfft", over(numpy.fft.irfft, "axis"), **line, covers=["fft_from_half"]) for line in LINES],
    *[complex_to_real("hfft", over(numpy.fft.hfft, "axis"), **line) for line in LINES],
    *[complex_to_complex("fftn", n_dims(numpy.fft.fftn), **plane) for plane in PLANES],
    *[complex_to_complex("ifftn", n_dims(numpy.fft.ifftn), **plane) for plane in PLANES],
    *[real_to_complex("rfftn", n_dims(numpy.fft.rfftn), **plane) for plane in PLANES],
    *[complex_to_real("irfftn", n_dims(numpy.fft.irfftn), **plane) for plane in PLANES],
    *[complex_to_real("hfftn", np_hfftn, **plane) for plane in PLANES],
    *[real_to_complex("ihfftn", np_ihfftn, **plane) for plane in PLANES],
    complex_to_complex("fft2", lambda x: numpy.fft.fft2(x), errors=ERRORS),
    complex_to_complex("ifft2", lambda x: numpy.fft.ifft2(x)),
    real_to_complex("rfft2", lambda x: numpy.fft.rfft2(x)),
    complex_to_real("irfft2", lambda x: numpy.fft.irfft2(x)),
    complex_to_real("hfft2", np_hfftn),
    real_to_complex("ihfft2", np_ihfftn),
    Row("fft_fftshift", numpy.fft.fftshift, shapes=[(3, 4)], dtypes=DOUBLES),
    Row("fft_fftshift", lambda x, dim: numpy.fft.fftshift(x, dim), shapes=[(3, 4)], dtypes=DOUBLES, kwargs={"dim": 0}, id="dim"),
    Row("fft_ifftshift", numpy.fft.ifftshift, shapes=[(3, 5)], dtypes=DOUBLES),
]  # fmt: skip
test_rows = generate(ROWS)


def test_real_and_integer_inputs():
    x = numpy.arange(6.0)
    for argument in (dynograd.arange(6), dynograd.arange(6.0)):
        result = fft.fft(argument)
        assert result.dtype is dynograd.complex64
        numpy.testing.assert_allclose(result.numpy(), numpy.fft.fft(x), rtol=1e-5, atol=1e-5)
    assert fft.fft(dynograd.arange(6.0).double()).dtype is dynograd.complex128
    assert fft.irfft(dynograd.arange(3.0)).dtype is dynograd.float32
    assert fft.rfft(dynograd.arange(6)).dtype is dynograd.complex64


def test_gradient_of_a_real_signal_through_fft_is_real():
    x = dynograd.arange(4.0).requires_grad_()
    fft.fft(x).abs().square().sum().backward()
    assert x.grad.dtype is dynograd.float32 and x.grad.tolist() == pytest.approx([0, 8, 16, 24], abs=1e-4)


def test_without_elements():
    assert fft.fft(zeros(0, 4)).shape == (0, 4) and fft.rfft(zeros(0, 4)).shape == (0, 3)
    assert fft.irfft(zeros(0, 4)).shape == (0, 6)
    assert fft.fftn(zeros(2, 2), dim=()).tolist() == [[0, 0], [0, 0]]


def test_minus_one_keeps_the_size_of_a_dim():
    x = dynograd.arange(12.0).reshape(3, 4)
    assert fft.fftn(x, s=(-1, 2), dim=(0, 1)).shape == (3, 2) and fft.rfftn(x, s=(5, -1)).shape == (5, 3)
    assert fft.irfftn(x, s=(5, -1)).shape == (5, 6) and fft.irfftn(x, s=(-1, 7)).shape == (3, 7)


def test_a_number_of_points_is_that_of_one_dim():
    x = dynograd.arange(12.0).reshape(3, 4)
    for function in (fft.fftn, fft.ifftn, fft.rfftn, fft.ihfftn):
        assert dynograd.equal(function(x, s=5, dim=0), function(x, s=(5,), dim=(0,)))
        assert dynograd.equal(function(x, s=3), function(x, s=(3,), dim=-1))


def test_frequencies():
    for n in (1, 4, 5):
        numpy.testing.assert_allclose(fft.fftfreq(n, 0.5).numpy(), numpy.fft.fftfreq(n, 0.5), rtol=1e-6)
        numpy.testing.assert_allclose(fft.rfftfreq(n, 0.5, dtype=dynograd.float64).numpy(), numpy.fft.rfftfreq(n, 0.5))
