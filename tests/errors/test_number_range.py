"""A number that a dtype does not hold is refused where it is written, as in PyTorch; where it is computed with, it becomes infinite."""

import math

import pytest

import dynograd as dg
from dynograd.errors import NumberRangeError

FIRST = dg.tensor([0])
WRITES = {
    "fill_": lambda x, value: x.fill_(value),
    "full": lambda x, value: dg.full((2, 3), value, dtype=x.dtype),
    "full of many": lambda x, value: dg.full((300, 300), value, dtype=x.dtype),
    "full_like": lambda x, value: dg.full_like(x, value),
    "full_like of a transpose": lambda x, value: dg.full_like(x.t(), value),
    "new_full": lambda x, value: x.new_full((2,), value),
    "masked_fill": lambda x, value: x.masked_fill(x > 0, value),
    "masked_fill_": lambda x, value: x.masked_fill_(x > 0, value),
    "index_fill": lambda x, value: x.index_fill(0, FIRST, value),
    "scatter": lambda x, value: x.scatter(0, FIRST[None], value),
    "fill_diagonal_": lambda x, value: x.fill_diagonal_(value),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [(dg.float32, 1e300), (dg.float32, -1e39), (dg.float16, 70000.0), (dg.bfloat16, 1e39), (dg.float32, 2**200)],
)
def test_floats(name, dtype, value):
    with pytest.raises(
        NumberRangeError, match=rf"converted to type {dtype} without overflow: {value}".replace("+", r"\+")
    ):
        WRITES[name](dg.ones(2, 3, dtype=dtype), value)


# Numbers that become a tensor of one element of their own, or fill one: floats narrower than float32 round them, as a conversion does.
OF_ONE = {
    "fill_": lambda x, value: x[0, 0].fill_(value),
    "fill_ of one row": lambda x, value: x[:1, :1].fill_(value).reshape(()),
    "fill": lambda x, value: dg.fill(x[0, 0], value),
    "full": lambda x, value: dg.full((), value, dtype=x.dtype),
    "full of a row": lambda x, value: dg.full((1, 1), value, dtype=x.dtype).reshape(()),
    "full_like": lambda x, value: dg.full_like(x[0, 0], value),
    "new_full": lambda x, value: x.new_full((), value),
    "setitem of an int": lambda x, value: (x.__setitem__(0, value), x[0, 2])[1],
    "setitem of a slice": lambda x, value: (x.__setitem__(slice(None), value), x[1, 2])[1],
    "setitem of a mask": lambda x, value: (x.__setitem__(x > 0, value), x[0, 1])[1],
    "setitem of indices": lambda x, value: (x.__setitem__(FIRST, value), x[0, 1])[1],
}


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize(
    ("dtype", "value", "result"),
    [
        (dg.float16, 70000.0, math.inf),
        (dg.float16, -(10**9), -math.inf),
        (dg.bfloat16, 1e39, math.inf),
    ],
)
def test_narrow_floats_of_one_element(name, dtype, value, result):
    assert OF_ONE[name](dg.ones(2, 3, dtype=dtype), value).item() == result


@pytest.mark.parametrize("name", ["fill_", "full", "full_like", "new_full", "setitem of a slice"])
def test_float8_of_one_element(name):
    assert OF_ONE[name](dg.ones(2, 3, dtype=dg.float8_e4m3fn), -1e5).item() == -448.0


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize(("dtype", "value"), [(dg.float32, 1e39), (dg.uint8, 300), (dg.int64, 1e20)])
def test_others_of_one_element(name, dtype, value):
    with pytest.raises(NumberRangeError, match="without overflow"):
        OF_ONE[name](dg.ones(2, 3, dtype=dtype), value)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -1e9, 3.4e38])
def test_what_fits(name, value):
    WRITES[name](dg.ones(2, 3), value)
    WRITES[name](dg.ones(2, 3, dtype=dg.float64), 1e300)


@pytest.mark.parametrize("kind", [RuntimeError, OverflowError])
def test_integers(kind):
    with pytest.raises(
        kind, match=r"uint8 without overflow: 300 is not in 0 to 255. .*tensor\(...\).to\(uint8\), which wraps"
    ):
        dg.full((2,), 300, dtype=dg.uint8)
    with pytest.raises(kind, match="int64 without overflow"):
        dg.full((2,), 2**70)
    assert dg.full((2,), -1, dtype=dg.uint8).tolist() == [255, 255]


def test_computing_gives_infinity():
    x = dg.ones(2)
    assert (x + 1e300).isinf().all() and x.add_(1e300).isinf().all() and dg.tensor([1e300]).isinf().all()
    assert x.fill_(dg.tensor(1e300, dtype=dg.float64)).isinf().all()


def test_negative_numbers_wrap_in_short_unsigned_integers():
    x = dg.ones(2, dtype=dg.uint8)
    for result in (x.masked_fill(x > 0, -1), dg.fill(x, -1), dg.full_like(x, -1), x.clone().fill_(-1)):
        assert result.tolist() == [255, 255]
