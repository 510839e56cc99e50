"""Plugin of pytest, which gives each test the filters of warnings of its own: dynograd's, set by its import, is set there again."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest


def _drop_warnings_of_numpy() -> None:
    """Of what is inf or NaN in dynograd, in programs that use it."""
    if "dynograd" in sys.modules:
        sys.modules["dynograd.base.numpy_warnings"].drop()


@pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's own wrapper, which takes all filters away
def pytest_collection() -> Generator[None, object, object]:
    _drop_warnings_of_numpy()
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    _drop_warnings_of_numpy()
    return (yield)
