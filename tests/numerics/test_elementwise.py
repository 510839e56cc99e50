"""Elementwise ops are within two units in the last place of the exact value, over all exponents, or no further than the table says."""

from __future__ import annotations

import warnings

import numpy
import pytest

import dynograd
from tests.numerics import elementwise
from tests.ops.tables import title_of

_MOST = 2.0
# Further than that: as far as PyTorch's, or twice rounded.
KNOWN = {
    ("round-decimals -1", "float32"): 5.1,
    ("sub-alpha", "float16"): 0.76,
    ("sub-alpha", "bfloat16"): 0.76,
}
# A step in between is no number of the dtype, or the exact value jumps or vanishes at numbers that are rounded: docs/reliability.md.
_BEYOND = frozenset("hardswish i0 add-alpha div-trunc logaddexp logaddexp2 igamma igammac sinc lgamma digamma".split())
ROWS = [
    row
    for row in [*elementwise.rows(1), *elementwise.rows(2)]
    if elementwise.name_of(row) not in elementwise.NOT_RELATIVE
    and not {elementwise.name_of(row), title_of(row)} & _BEYOND
    and title_of(row) != "round-decimals 1"
]
_DTYPES = [dtype for dtype in elementwise.DTYPES if dtype != "float64"]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=title_of)
def test_errors_in_the_last_place(row):
    for dtype in _DTYPES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = elementwise.errors_of(row, dtype)
        most = KNOWN.get((title_of(row), dtype), _MOST if dtype == "float32" else 0.51)
        assert error is None or error[0] <= most, (title_of(row), dtype, error)


def test_mish_where_its_exponential_has_digits():
    """Where it is used, at many numbers; PyTorch's is up to 3.1 units away there."""
    x = numpy.random.default_rng(0).uniform(-80, 20, 1 << 20).astype(numpy.float32)
    x = numpy.concatenate([x, x / 16])
    n = numpy.exp(x.astype(numpy.float64)) * (numpy.exp(x.astype(numpy.float64)) + 2)
    exact = x * (n / (n + 2))
    result = dynograd.nn.functional.mish(dynograd.from_numpy(x)).numpy()
    error = numpy.abs(result - exact) / numpy.spacing(numpy.abs(exact).astype(numpy.float32))
    assert error.max() <= 2.7, x[error.argmax()]
    assert numpy.signbit(dynograd.nn.functional.mish(dynograd.tensor([-0.0, 0.0])).numpy()).tolist() == [True, False]
