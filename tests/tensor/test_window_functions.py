"""Windows against NumPy's."""

import numpy
import pytest

import dynograd

REFERENCES = {
    "hann_window": numpy.hanning,
    "hamming_window": numpy.hamming,
    "blackman_window": numpy.blackman,
    "bartlett_window": numpy.bartlett,
    "kaiser_window": lambda n: numpy.kaiser(n, 12.0),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
def test_windows(name, n):
    function = getattr(dynograd, name)
    result = function(n, periodic=False)
    assert result.dtype is dynograd.float32
    numpy.testing.assert_allclose(result.numpy(), REFERENCES[name](n), rtol=1e-5, atol=1e-6)
    wide = function(n, dtype=dynograd.float64, requires_grad=True)
    assert wide.requires_grad
    expected = REFERENCES[name](n + 1)[:n] if n > 1 else numpy.ones(n)
    numpy.testing.assert_allclose(wide.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_parameters():
    numpy.testing.assert_allclose(dynograd.hamming_window(3, False, 0.5, 0.5).numpy(), [0, 1, 0], atol=1e-7)
    numpy.testing.assert_allclose(dynograd.kaiser_window(5, False, 2.0).numpy(), numpy.kaiser(5, 2.0), rtol=1e-6)


def test_errors():
    with pytest.raises(RuntimeError, match="hann_window requires non-negative window_length, got window_length=-1"):
        dynograd.hann_window(-1)
    with pytest.raises(RuntimeError, match="hann_window expects floating point dtypes, got: dynograd.int64"):
        dynograd.hann_window(3, dtype=dynograd.int64)
    with pytest.raises(TypeError, match="hann_window: got unexpected arguments \\['alpha'\\]"):
        dynograd.hann_window(3, alpha=1)
