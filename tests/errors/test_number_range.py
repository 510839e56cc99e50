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
    "setitem of an int": lambda x, value: x.__setitem__(0, value),
    "setitem of a mask": lambda x, value: x.__setitem__(x > 0, value),
    "setitem of indices": lambda x, value: x.__setitem__(FIRST, value),
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
