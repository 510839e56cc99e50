"""Softmax, its logarithm and softmin."""

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, error, generate

inf, nan = float("inf"), float("nan")


def np_softmax(input, dim, dtype=None):
    shifted = numpy.exp(input - input.max(dim, keepdims=True, initial=-inf))
    return shifted / shifted.sum(dim, keepdims=True)


def np_log_softmax(input, dim, dtype=None):
    return input - numpy.log(numpy.exp(input).sum(dim, keepdims=True))


def np_softmin(input, dim):
    return np_softmax(-input, dim)


def errors_of(who):
    return [
        error(lambda op: op(dynograd.zeros(2, 3), 2), IndexError, who, "dim", "[-2, 1]", "got 2"),
        error(lambda op: op(dynograd.tensor([1, 2]), 0), RuntimeError, who, "int64", "input.float()"),
    ]


ROWS = [
    Row("softmax", np_softmax, shapes=[(3, 4)], kwargs={"dim": 1}, errors=errors_of("softmax")),
    Row("softmax", np_softmax, shapes=[(2, 3, 4)], kwargs={"dim": -2}, id="inner"),
    Row("softmax", np_softmax, shapes=[(40, 30)], kwargs={"dim": 0}, domain=(-30, 30), id="large", grad=False),
    Row(
        "log_softmax", np_log_softmax, shapes=[(3, 4)], kwargs={"dim": 0}, empty=False, errors=errors_of("log_softmax")
    ),
    Row("log_softmax", np_log_softmax, shapes=[(2, 3, 4)], kwargs={"dim": 2}, id="last"),
    Row("nn.functional.softmin", np_softmin, shapes=[(3, 4)], kwargs={"dim": 1}, errors=errors_of("softmin")),
]
test_rows = generate(ROWS)


def test_dtype_converts_first_and_may_stand_third():
    x = dynograd.tensor([1, 2])
    assert dynograd.softmax(x, 0, dtype=dynograd.float64).dtype is dynograd.float64
    assert dynograd.softmax(x, 0, dynograd.float32).dtype is dynograd.float32
    assert x.softmax(0, dtype=dynograd.float16).dtype is dynograd.float16


def test_a_zero_dim_tensor_is_all_there_is():
    assert dynograd.softmax(dynograd.tensor(3.0), 0).item() == 1.0
    assert dynograd.log_softmax(dynograd.tensor(3.0), -1).item() == 0.0


def test_rows_of_minus_infinity_are_nan_and_others_are_not():
    y = dynograd.softmax(dynograd.tensor([[-inf, -inf], [0.0, -inf]]), 1)
    numpy.testing.assert_array_equal(y.numpy(), [[nan, nan], [1.0, 0.0]])


def test_large_scores_do_not_overflow():
    y = dynograd.log_softmax(dynograd.tensor([1e4, 0.0]), 0)
    assert y.tolist() == [0.0, -1e4]


def test_without_dim_pytorchs_old_choice_is_taken_with_a_warning():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax.*dim=1"):
        y = dynograd.nn.functional.softmax(dynograd.zeros(2, 4))
    assert y[0, 0].item() == 0.25
