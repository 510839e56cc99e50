"""Programs of many kinds give compiled what they give as they are written, step after step, and what a caller keeps stays."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import dynograd as torch
import tests.plans.larger_programs
import tests.plans.strange_programs  # noqa: F401 (both enter their programs)
from dynograd.plans.compiling import Compiled
from tests.plans.programs import PROGRAMS

STEPS = 10


def plain(value: Any) -> Any:
    """Numbers of all tensors in it."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def check_same(first: Any, second: Any, where: str) -> None:
    if isinstance(first, dict):
        assert first.keys() == second.keys(), where
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list):
        assert len(first) == len(second), where
        for place, (element, other) in enumerate(zip(first, second)):
            check_same(element, other, f"{where}[{place}]")
    elif isinstance(first, numpy.ndarray):
        assert first.dtype == second.dtype and first.shape == second.shape, where
        numpy.testing.assert_allclose(first.astype(float), second.astype(float), rtol=2e-4, atol=2e-5, err_msg=where)
    elif isinstance(first, float):
        assert first == pytest.approx(second, rel=2e-4, abs=2e-5), where
    else:
        assert first == second, where


def compile_all(created: list[Compiled]) -> Any:
    def compile(function: Any) -> Compiled:
        created.append(Compiled(function, always=True))
        return created[-1]

    return compile


# Programs of which no step goes along a record, and why.
LEFT = {
    "hooks": "a hook on a gradient",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_give_what_they_give_as_they_are_written(name: str) -> None:
    created: list[Compiled] = []
    twins = []
    for compile in (lambda function: function, compile_all(created)):
        torch.manual_seed(0)
        twins.append(PROGRAMS[name](compile))
    kept: list[tuple[Any, Any]] = []
    for n in range(STEPS):
        seen = []
        for step, watched in twins:
            torch.manual_seed(100 + n)
            result = step(n)
            seen.append([plain(result), plain(watched())])
        kept.append((result, seen[1][0]))
        check_same(*seen, f"{name}, step {n}")
    for result, numbers in kept:
        check_same(plain(result), numbers, f"{name}, kept")
    report = str(created[0].report())
    assert (created[0].walked == 0) == (name in LEFT), report
    if name in LEFT:
        assert LEFT[name] in report
