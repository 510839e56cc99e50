"""Programs of tests are small: most would be left as they are written, since their Python costs less than a walk."""

from __future__ import annotations

import pytest

from dynograd.plans import compiling
from dynograd.plans.walking import gains


@pytest.fixture(autouse=True)
def walked_whatever_it_gains(monkeypatch):
    monkeypatch.setattr(compiling, "gain_without_gradients", lambda program, events, sizes_change: 1.0)
    monkeypatch.setattr(gains.Balance, "lost", lambda self, walk, grad, exchanged: 0.0)
