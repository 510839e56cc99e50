"""Every GPU benchmark row runs, in a tiny size."""

import pytest

import dynograd
from benchmarks.gpu.rows import GPU_ROWS
from benchmarks.gpu.worker import timed


@pytest.mark.parametrize("name", GPU_ROWS)
def test_row_runs(name):
    found = timed(dynograd, GPU_ROWS[name], small=True)
    assert found["seconds"] > 0
    assert found["moved"] or found["flops"]
