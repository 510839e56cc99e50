"""Programs that train on a GPU, as they are written and compiled: what both give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled

__all__ = ["batch", "check_same", "compiling", "mlp", "plain", "run_twins"]

STEPS = 7


def batch(n: int, *shape: int, classes: int = 0) -> Any:
    generator = torch.Generator().manual_seed(1000 * n + len(shape))
    if classes:
        return torch.randint(classes, shape, generator=generator).to("cuda")
    return torch.randn(*shape, generator=generator).to("cuda")


def mlp(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *more, nn.ReLU(), nn.Linear(8, 3)).to("cuda")


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.device), value.stride(), value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return value


def check_same(one: Any, other: Any, where: str) -> None:
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for place, (first, second) in enumerate(zip(one, other)):
            check_same(first, second, f"{where}[{place}]")
    elif hasattr(one, "tobytes"):
        torch.testing.assert_close(torch.from_numpy(other), torch.from_numpy(one), rtol=1e-5, atol=1e-6, msg=where)
    else:
        assert one == other, where


def compiling(compiled: list[Compiled]) -> Callable[[Any], Compiled]:
    def compile(function: Any) -> Compiled:
        compiled.append(Compiled(function, always=True))
        return compiled[-1]

    return compile


def run_twins(make: Callable[[Any], Any], name: str) -> Any:
    """Runs a program twice, step by step, and compares all that can be seen of it; gives the report of its first compiled function.

    Args:
        make: given what compiles, gives a function of the step's number, and one that gives what is watched.
    """
    compiled: list[Compiled] = []
    twins = []
    for compile in (lambda function: function, compiling(compiled)):
        torch.manual_seed(0)
        twins.append(make(compile))
    kept = []
    for n in range(STEPS):
        seen = []
        for step, watched in twins:
            torch.manual_seed(100 + n)
            result = step(n)
            seen.append([plain(result), plain(watched()), torch.get_rng_state().tolist()])
        check_same(*seen, f"{name}, step {n}")
        kept.append((result, seen[1][0]))
    for result, numbers in kept:
        check_same(plain(result), numbers, f"{name}, kept")
    return compiled[0].report()
