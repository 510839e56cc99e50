"""Special functions where SciPy looks for them."""

import numpy
import pytest
import scipy.special

import dynograd as dg
from dynograd.array_api import special

TWO = {"gammainc", "gammaincc", "xlog1py", "xlogy", "zeta"}


@pytest.mark.parametrize("name", special.__all__)
def test_values_are_scipys_and_numbers_are_taken(name):
    x = numpy.random.default_rng(0).uniform(0.05, 0.95, 50)
    reference, function = getattr(scipy.special, name, numpy.sinc), getattr(special, name)
    arguments = (x + 1.1, x) if name in TWO else (x,)
    result = function(*[dg.tensor(argument) for argument in arguments])
    assert result.dtype is dg.float64 and function.__name__ == name
    numpy.testing.assert_allclose(result.numpy(), reference(*arguments), rtol=1e-12)
    if name in TWO:
        numpy.testing.assert_allclose(function(2, dg.tensor(x)).numpy(), reference(2, x), rtol=1e-12)


def test_gradients_and_that_it_is_no_name_of_the_standard():
    x = dg.tensor([0.0, 1.0], requires_grad=True)
    special.erf(x).sum().backward()
    assert numpy.allclose(x.grad.numpy(), 2 / numpy.pi**0.5 * numpy.exp(-numpy.array([0, 1])))
    assert "special" not in dg.array_api.__all__ and dg.array_api.special is special
