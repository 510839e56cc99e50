"""Where the public functions refuse Python numbers, as PyTorch does."""

import pytest

import dynograd


@pytest.mark.parametrize("name", ["maximum", "logaddexp", "gcd", "atan2"])
def test_functions_that_take_tensors_only(name):
    x = dynograd.tensor([1, 2]) if name == "gcd" else dynograd.tensor([1.0, 2.0])
    for pair in ((x, 2), (2, x), (2, 3)):
        with pytest.raises(TypeError, match=rf"{name}\(\).*int.*expected Tensors"):
            getattr(dynograd, name)(*pair)


@pytest.mark.parametrize("name", ["eq", "fmod", "clamp_max", "copysign", "greater"])
def test_functions_that_take_a_tensor_first(name):
    assert getattr(dynograd, name)(dynograd.tensor([1.0]), 2).shape == (1,)
    with pytest.raises(TypeError, match=rf"{name}\(\).*int, Tensor.*a Tensor first"):
        getattr(dynograd, name)(2, dynograd.tensor([1.0]))


@pytest.mark.parametrize("name", ["pow", "remainder", "xlogy", "float_power"])
def test_functions_that_take_one_tensor_at_least(name):
    assert getattr(dynograd, name)(2, dynograd.tensor([1.0])).shape == (1,)
    with pytest.raises(TypeError, match=rf"{name}\(\).*int, float.*at least one Tensor"):
        getattr(dynograd, name)(2, 3.0)


def test_rsub_of_numbers():
    with pytest.raises(TypeError, match=r"rsub\(\).*'input'.*int"):
        dynograd.rsub(2, dynograd.tensor([1.0]))
