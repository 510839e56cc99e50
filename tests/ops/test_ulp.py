"""Elementwise ops are within two units in the last place of the exact value, over all exponents, or no further than the table says."""

from __future__ import annotations

import warnings

import pytest

from tests import numerics
from tests.ops.tables import title_of

_MOST = 2.0
# Further than that, in float32, float16, bfloat16: what they reach, and why.
KNOWN = {
    "tanh": (4.6, 0.5, 0.5),
    "erf": (3.1, 0.5, 0.5),
    "erfinv": (2.6, 0.5, 0.5),
    "tan": (2.6, 0.5, 0.5),
    "asin": (2.5, 0.5, 0.5),
}
# Near zeros of their own, or where they vanish, an error is not relative to the value: beside PyTorch the same.
_NOT_RELATIVE = {"sinc", "round", "airy_ai_slope", "i0", "gelu", "mish", "silu", "hardswish"}
ROWS = [row for row in numerics.rows() if numerics.name_of(row) not in _NOT_RELATIVE]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=title_of)
def test_errors_in_the_last_place(row):
    for number, dtype in enumerate(numerics.DTYPES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = numerics.errors_of(row, dtype)
        most = KNOWN.get(numerics.name_of(row), (_MOST,) * 3)[number]
        assert error is None or error[0] <= max(most, 0.51), (title_of(row), dtype, error)
