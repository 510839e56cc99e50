"""Programs on the subjects of PyTorch's tutorials, as one would write them for PyTorch: only the import names dynograd.

`tests/parity/test_programs.py` runs the same texts on torch.
"""

import importlib

import pytest

PROGRAMS = {
    "autograd_basics": (2000, lambda results: all(loss < 200 for loss in results.values())),
    "char_rnn_classification": (600, lambda result: result["accuracy"] > 0.9),
    "seq2seq_attention": (30, lambda result: result["accuracy"] > 0.8),
    "reinforcement_learning": (120, lambda result: result["last"] < 12),
    "spatial_transformer": (150, lambda result: result["accuracy"] > 0.6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_learns(name):
    steps, good = PROGRAMS[name]
    result = importlib.import_module(f"tests.programs.{name}").main(steps)
    assert good(result), result
