"""Elementwise ops are within two units in the last place of the exact value, over all exponents, or no further than the table says."""

from __future__ import annotations

import warnings

import pytest

from tests.numerics import elementwise
from tests.ops.tables import title_of

_MOST = 2.0
# Further than that, by dtype: as far as PyTorch's, near numbers where the value bends or is a rounded quotient.
KNOWN = {("round-decimals -1", "float32"): 5.1}
# Where a step in between is no number of the dtype (PyTorch's is none either).
_BEYOND = {"hardswish", "round-decimals 1", "i0", "i0-8.5 to 12"}
ROWS = [
    row
    for row in [*elementwise.rows(1), *elementwise.rows(2)]
    if elementwise.name_of(row) not in elementwise.NOT_RELATIVE and title_of(row) not in _BEYOND
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
