"""addcmul, addcdiv and lerp."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import FLOATS, Row, error, generate

THREE = [(3, 4), (3, 4), (3, 4)]
whole = tensor([4, 7])


def lerp(x, y, w):
    return x + w * (y - x)


ROWS = [
    Row("addcmul", lambda x, a, b: x + a * b, shapes=THREE, dtypes=FLOATS + ("int64",)),
    Row("addcmul", lambda x, a, b, value: x + value * a * b, shapes=THREE, kwargs={"value": 0.5}, id="value"),
    Row("addcmul", lambda x, a, b: x + a * b, shapes=[(3, 4), (4,), (3, 1)], empty=False, id="broadcast"),
    Row(
        "addcdiv",
        lambda x, a, b: x + a / b,
        shapes=THREE,
        domain=(0.5, 2),
        errors=[
            error(lambda op: op(whole, whole, whole), RuntimeError, "Integer division", "addcdiv", "int64", "float")
        ],
    ),
    Row(
        "addcdiv",
        lambda x, a, b, value: x + value * a / b,
        shapes=THREE,
        domain=(0.5, 2),
        kwargs={"value": -2},
        id="value",
    ),
    Row("lerp", lerp, shapes=THREE),
    Row("lerp", lerp, shapes=[(3, 4), (4,), (3, 1)], id="broadcast"),
    *[
        Row(
            "lerp",
            lerp,
            args=lambda rng, w=weight: [rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), w],
            id=f"weight {weight}",
        )
        for weight in (0.25, 0.75)
    ],
]
test_rows = generate(ROWS)


def test_lerp_reaches_both_ends_exactly():
    x, y = tensor([0.1, 1e8]), tensor([0.3, 1.0])
    assert dynograd.lerp(x, y, 0.0).tolist() == x.tolist()
    assert dynograd.lerp(x, y, 1.0).tolist() == y.tolist()
    assert dynograd.lerp(x, y, tensor([1.0, 0.0])).tolist() == [y[0].item(), x[1].item()]


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_the_old_place_of_value(name):
    x, a, b = tensor([1.0]), tensor([2.0]), tensor([4.0])
    expected = getattr(dynograd, name)(x, a, b, value=0.5).item()
    assert getattr(dynograd, name)(x, 0.5, a, b).item() == expected
    getattr(x, f"{name}_")(0.5, a, b)
    assert x.item() == expected


def test_three_operands_of_different_dtypes_are_promoted():
    x, a, b = tensor([1.0]), dynograd.ones(1, dtype=dynograd.float64, requires_grad=True), tensor([2])
    result = dynograd.addcmul(x, a, b)
    result.backward()
    assert result.dtype is dynograd.float64 and a.grad.tolist() == [2.0]
    assert dynograd.addcmul(x.half(), x.half(), tensor(2.0)).dtype is dynograd.float16
    numpy.testing.assert_allclose(result.detach().array, [3.0])
