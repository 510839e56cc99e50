"""Sums and what is made of them have no larger errors than the table says, in units of u times their bound."""

from __future__ import annotations

import pytest

from tests.numerics import sums

# At lengths up to 100,000, float32 and bfloat16; "far" apart, as those inputs leave fewer digits.
MOST = {
    "norm": (1.5, 1.5), "norm, 1": (2.5, 1), "logsumexp": (1.5, 1), "softmax": (20, 1.01), "layer_norm": (10, 1.01), "rms_norm": (5, 1.01),
    "batch_norm": (14, 1.01), "group_norm": (10, 1.01), "cumsum": (1.01, 1.01), "cumsum, dim 0": (1.01, 1.01), "sum, dim 0": (6, 1.01),
    "matmul": (300, 1.01), "conv1d": (15, 1.01), "conv2d": (35, 1.01), "conv1d, gradient of weight": (20, 1.01), "gradient of a bias": (6, 1.01),
    "gradient of an embedding": (40, 1.01), "index_add": (50, 1.01),
}  # fmt: skip
_USUAL = (4.0, 1.01)
FAR = {"var": 60, "var, dim 0": 20, "var, dim 1": 20, "rms_norm": 5}


@pytest.mark.slow
@pytest.mark.parametrize("row", sums.ROWS, ids=lambda row: row.name)
def test_errors_of_sums(row):
    for length in row.lengths:
        for dtype, most in zip(row.dtypes, MOST.get(row.name, _USUAL), strict=True):
            for kind in row.inputs if length <= 100_000 else ():
                if kind == "far":
                    most = FAR.get(row.name, 1e5)
                error = sums.error_of(row, kind, length, dtype)
                assert error <= most, (row.name, kind, length, dtype, error)


@pytest.mark.parametrize("length", [1000, 1_000_000])
def test_a_variance_far_from_0_down_columns(length):
    (row,) = [row for row in sums.ROWS if row.name == "var, dim 0"]
    assert sums.error_of(row, "far", length, "float32") <= 20
