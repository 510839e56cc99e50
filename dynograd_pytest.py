"""Plugin of pytest, which gives each test the filters of warnings of its own: dynograd's, set by its import, is set there again."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's own wrapper, which takes all filters away
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Drops NumPy's warnings of what is inf or NaN in dynograd, in programs that use it."""
    if "dynograd" in sys.modules:
        sys.modules["dynograd.base.numpy_warnings"].drop()
    return (yield)
