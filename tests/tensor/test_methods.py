"""Operators under the names that programs of older times call."""

import pytest

import dynograd
from dynograd import tensor


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.int64])
def test_division_by_its_old_names(dtype):
    x = tensor([1, 2, 4], dtype=dtype)
    assert x.__rdiv__(2).tolist() == (2 / x).tolist() == [2.0, 1.0, 0.5]
    assert x.__div__(2).tolist() == (x / 2).tolist() == [0.5, 1.0, 2.0]


def test_division_by_its_old_names_has_gradients_and_writes():
    x = tensor([1.0, 2.0], requires_grad=True)
    x.__rdiv__(2.0).sum().backward()
    assert x.grad.tolist() == [-2.0, -0.5]
    y = tensor([1.0, 2.0])
    assert y.__idiv__(2) is y and y.tolist() == [0.5, 1.0]
    with pytest.raises(TypeError, match=r"Tensor.__rdiv__: self must be a Tensor, not int, got 3"):
        dynograd.Tensor.__rdiv__(3, y)


def test_hardshrink_is_a_method():
    assert tensor([-1.0, 0.3]).hardshrink().tolist() == [-1.0, 0.0]
