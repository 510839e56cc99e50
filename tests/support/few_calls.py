"""Small arrays before and after a program has made so many calls that compiled kernels of few elements come in."""

import pytest

from dynograd.kernels.build import compiled_kernels


@pytest.fixture(autouse=True, params=["few calls", "many calls"])
def few_or_many_calls(request, monkeypatch):
    compiled_kernels.entries.clear()
    calls = compiled_kernels.SMALL_CALLS if request.param == "many calls" else -(1 << 30)
    monkeypatch.setattr(compiled_kernels, "_few_calls", calls)
