"""Every GPU benchmark row runs, in a tiny size."""

import pytest

import dynograd
from benchmarks.gpu.rows import GPU_ROWS
from benchmarks.gpu.worker import timed


@pytest.mark.parametrize("name", GPU_ROWS)
def test_row_runs(name):
    result = timed(dynograd, GPU_ROWS[name], small=True)
    assert result["seconds"] > 0
    assert result["moved"] or result["flops"]


@pytest.mark.parametrize(
    "name", ["mlp.small", "mlp", "mlp.dropout", "lengths", "chain.backward", "resnet20", "gpt.small", "gpt"]
)
def test_row_of_training_is_compiled(name, monkeypatch):
    """Its steps go along a record, and are one graph with the step of the optimizer; each length has its own."""
    compiled = []

    def compile(function):
        compiled.append(dynograd.compile(function))
        return compiled[-1]

    monkeypatch.setattr(dynograd, "benchmark_compile", compile, raising=False)
    monkeypatch.setattr(dynograd, "benchmark_compiles_steps", True, raising=False)
    step = GPU_ROWS[name].build(dynograd, True)
    for _ in range(4):
        step.run()
    ways = compiled[0].report().ways
    assert len(ways) == (2 if name == "lengths" else 1)
    for way in ways:
        assert way.walked == (3 if way is ways[-1] and len(ways) > 1 else 2), compiled[0].report()
        assert way.launches == (2 if "gpt" in name else 1), compiled[0].report()
        assert not way.in_python
