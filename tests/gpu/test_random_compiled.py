"""Programs by chance on a GPU: compiled they give what they give as they are written, as those of `tests/plans/test_random_programs.py` do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import dynograd as torch
from tests.plans import random_programs

# Seeds with writes in place, and without.
PROGRAMS = [(1003, True), (1016, True), (1011, True), (3, False), (12, False)]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors that programs make, or make of NumPy's arrays, lie on the GPU; who looks at them copies them."""
    from_numpy, numpy = torch.from_numpy, torch.Tensor.numpy
    monkeypatch.setattr(random_programs, "overwritten_between_steps", contextlib.nullcontext)
    monkeypatch.setattr(torch, "from_numpy", lambda array: from_numpy(array).to("cuda"))
    monkeypatch.setattr(torch.Tensor, "numpy", lambda tensor, **options: numpy(tensor.cpu(), **options))
    torch.set_default_device("cuda")
    yield
    torch.set_default_device("cpu")


@pytest.mark.parametrize("seed, writes", PROGRAMS)
def test_programs_give_the_same(on_gpu: Any, seed: int, writes: bool) -> None:
    text = random_programs.program_of(seed, writes).text().replace("'cpu'", "'cuda'")
    result = random_programs.compare(text, 1e-4)
    assert not result.difference, f"{result.difference}\n{result.report}\n{text}"
    assert result.walked >= 4, f"{result.report}\n{text}"
