"""Large Fourier transforms: every path of the compiled kernels beside NumPy's in float64, and parts beside the whole."""

import numpy
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.fft import fft_plans, ffts_cpu

SHAPES = {
    "rows of fours": ((64, 1024), (1,)),
    "rows of one group and a rest": ((19, 960), (1,)),
    "rows of twos and threes": ((40, 486), (1,)),
    "rows of primes": ((20, 1001), (1,)),
    "columns": ((512, 45), (0,)),
    "columns in the middle": ((3, 360, 33), (1,)),
    "two dims": ((128, 160), (0, 1)),
    "three dims": ((16, 32, 64), (0, 1, 2)),
    "pairs": ((9000, 2), (1,)),
    "one long line": ((1 << 16,), (0,)),
    "two long lines": ((2, 30000), (1,)),
    "a large prime": ((20, 1009), (1,)),
}
TOLERANCE = {"F": 2e-6, "D": 2e-14}


def drawn(shape, kind):
    rng = numpy.random.default_rng(len(shape))
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(kind)


def close(result, wanted, kind):
    assert result.shape == wanted.shape
    assert numpy.abs(result - wanted).max() <= TOLERANCE[kind] * numpy.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", "FD")
def test_like_numpy(name, kind):
    shape, dims = SHAPES[name]
    x = drawn(shape, kind)
    wide = x.astype("D")
    for inverse, norm in ((False, "backward"), (True, "ortho"), (True, "backward"), (False, "forward")):
        reference = numpy.fft.ifftn if inverse else numpy.fft.fftn
        result = ffts_cpu.complex_transform(x, dims, norm, inverse)
        assert result.dtype == x.dtype
        close(result, reference(wide, axes=dims, norm=norm), kind)
    whole = ffts_cpu.complex_transform(x.real, dims, "ortho", False)
    assert whole.dtype == x.dtype
    close(whole, numpy.fft.fftn(wide.real, axes=dims, norm="ortho"), kind)
    half = ffts_cpu.half_transform(x.real, dims, "ortho")
    close(half, numpy.fft.rfftn(wide.real, axes=dims, norm="ortho"), kind)
    back = ffts_cpu.from_half(half, shape[dims[-1]], dims, "ortho")
    assert back.dtype == x.real.dtype
    close(back, wide.real, kind)


@pytest.mark.slow
def test_numbers_that_are_their_own_conjugates_are_taken_as_real():
    x = drawn((64, 513), "F")
    result = ffts_cpu.from_half(x, 1024, (1,), "backward")
    close(result, numpy.fft.irfft(x.astype("D"), 1024), "F")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows of one group and a rest", "columns in the middle", "one long line"])
def test_parts_give_the_same_bits(name):
    shape, dims = SHAPES[name]
    x = drawn(shape, "F")

    def both():
        return ffts_cpu.complex_transform(x, dims, "backward", False), ffts_cpu.half_transform(x.real, dims, "backward")

    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        alone = both()
        threads.set_num_threads(2)
        together = both()
    finally:
        threads.set_num_threads(before)
    for element, two in zip(alone, together, strict=True):
        numpy.testing.assert_array_equal(element, two)


def test_what_goes_where():
    def compiled(shape, dim):
        return fft_plans._factors(shape[dim]) is not None and numpy.prod(shape) >= fft_plans.LEAST

    assert compiled((64, 1024), 1) and not compiled((4, 8), 1) and not compiled((20, 1009), 1)
    assert fft_plans._factors(2 * 3 * 4 * 5 * 7 * 11 * 13) == (4, 2, 3, 5, 7, 11, 13)
    assert fft_plans._split(1 << 20) == (1024, 1024)
