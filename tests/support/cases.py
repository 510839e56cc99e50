"""Many small checks in one test: a test of its own for each would cost more than most of them take.

A failure says which of them failed, each with its own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pytest

import dynograd
from dynograd.base import stubs

__all__ = ["fresh", "run_all"]


def fresh() -> None:
    """What every check starts from, whichever ran before: the same random numbers, and no warning given yet."""
    numpy.random.seed(0)
    dynograd.manual_seed(0)
    stubs._warned.clear()


def run_all(title: str, cases: Sequence[tuple[str, Callable[[], Any]]]) -> None:
    """Runs every check, also after one has failed, and raises what they raised; `title-name` tells which."""
    raised: list[BaseException] = []
    failed = []
    for name, check in cases:
        fresh()
        try:
            check()
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in the case {title}-{name}")
            raised.append(error)
            failed.append(name)
    if len(raised) == 1:
        raise raised[0]
    if raised:
        raise BaseExceptionGroup(f"{title}: {len(failed)} of {len(cases)} cases failed: {', '.join(failed)}", raised)
