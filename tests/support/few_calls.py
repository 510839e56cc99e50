"""Small arrays before and after a program has made so many calls that compiled kernels of few elements come in."""

import pytest

from dynograd.kernels.small import few_cpu


@pytest.fixture(autouse=True, params=["few calls", "many calls"])
def few_or_many_calls(request, monkeypatch):
    few_cpu.entries.clear()
    calls = few_cpu.SMALL_CALLS if request.param == "many calls" else -(1 << 30)
    monkeypatch.setattr(few_cpu, "_NUMBA", "not loaded")
    monkeypatch.setattr(few_cpu, "_calls", calls)
