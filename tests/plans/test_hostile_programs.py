"""Programs of hostile users give compiled, bit for bit, what they give as they are written, call after call, and what a caller keeps stays.

`python -m tests.plans.test_hostile_programs` runs all of them, and prints what differs; words choose a way (`exact`, `replay`, ...) and programs.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import dynograd as torch
import tests.plans.python_programs
import tests.plans.training_programs
import tests.plans.view_programs  # noqa: F401 (they enter their programs)
from dynograd.compat.compiler import OptimizedModule
from dynograd.plans.compiling import Compiled
from dynograd.plans.recording import RECORDER
from tests.plans.hostile_programs import HOSTILE
from tests.plans.programs import batch, network
from tests.plans.twins import difference, in_python_form, outcome_of, seen

CALLS = 16
WAYS: dict[str, dict[str, Any]] = {
    "exact": {"exact": True},
    "python": {},
    "bound": {},
    "replay": {"exact": True, "replay": True},
    "dynamic": {"exact": True, "dynamic": True},
    "static": {"exact": True, "dynamic": False},
}
OF_SIZES = ("sizes", "batches", "broadcast")  # in the names of programs that are tried with each `dynamic`, too
TRIED = [
    (name, way)
    for name in HOSTILE
    for way in WAYS
    if way not in ("dynamic", "static") or any([word in name for word in OF_SIZES])
]


def compare(name: str, way: str) -> tuple[str, list[Compiled]]:
    """Where the two differ ("": nowhere), and what was compiled."""
    compiled: list[Compiled] = []

    def compile(function: Any) -> Any:
        options = {"always": True, **WAYS[way]}
        if isinstance(function, torch.nn.Module):
            module = OptimizedModule(function, options)
            compiled.append(module._compiled)  # type: ignore[arg-type]
            return module
        compiled.append(Compiled(function, **options))
        return compiled[-1]

    twins = []
    with in_python_form() if way == "python" else contextlib.nullcontext():
        for make in (lambda function: function, compile):
            torch.manual_seed(0)
            twins.append(HOSTILE[name](make))
        for n in range(CALLS):
            runs = []
            for step, watched in twins:
                torch.manual_seed(100 + n)
                outcome = outcome_of(lambda step=step, n=n: step(n))  # type: ignore[misc]
                runs.append([outcome.seen(), seen(watched())])
            text = difference(*runs, 1e-4 if way == "bound" else 0.0)
            if text:
                reports = "\n".join([str(function.report()) for function in compiled])
                return f"{name}, call {n}, {way}: {text}\n{reports}", compiled
    return "", compiled


@pytest.mark.parametrize(("name", "way"), TRIED)
def test_hostile_programs(name: str, way: str) -> None:
    text, _ = compare(name, way)
    assert not text, text
    assert not RECORDER.times, "nothing is recorded any more"


def test_a_history_that_the_record_does_not_keep_is_no_other_one() -> None:
    """It was computed with weights that the optimizer has written: backward raises, and gives nothing that is wrong."""
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def step(x: Any, keeps: bool) -> Any:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        shares = weight.softmax(0)
        optimizer.step()
        return shares if keeps else shares.detach()

    compiled = Compiled(step, always=True, exact=True)
    for n in range(4):
        compiled(batch(n, 4), False)
    shares = compiled(batch(4, 4), True)
    with pytest.raises(torch.errors.InplaceError, match="backward of softmax: .* had used it. Call backward before"):
        shares.sum().backward()


# --- what grows ---------------------------------------------------------------------------------------------------------------


def of_new_sizes(n: int, model: Any) -> tuple[Any, ...]:
    return (batch(n, 1 + n * 37 % 211, 4),)


def of_new_objects(n: int, model: Any) -> tuple[Any, ...]:
    return (batch(n, 3, 4), SimpleNamespace(scale=1.0 + n, names={"n": n}))


def of_new_closures(n: int, model: Any) -> tuple[Any, ...]:
    return (batch(n, 3, 4), lambda h: h * n)


def of_new_texts(n: int, model: Any) -> tuple[Any, ...]:
    return (batch(n, 3, 4), f"call {n}")


def of_new_weights(n: int, model: Any) -> tuple[Any, ...]:
    model[0].weight = torch.nn.Parameter(model[0].weight.detach() + 1)
    return (batch(n, 3, 4),)


STORMS = [of_new_sizes, of_new_objects, of_new_closures, of_new_texts, of_new_weights]


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("arguments", STORMS, ids=lambda arguments: arguments.__name__)
def test_what_is_new_in_each_call_is_not_kept(arguments: Any, replay: bool) -> None:
    """After some calls there are no more ways, bytes and records, and arguments die with their call."""
    torch.manual_seed(0)
    model = network(4, 5, 2)

    @torch.no_grad()
    def step(x: Any, other: Any = None) -> Any:
        h = model(x).tanh()
        if callable(other):
            return other(h).sum()
        if isinstance(other, str):
            return h.sum() * len(other)
        return h.sum() if other is None else (h * other.scale).sum() * other.names["n"]

    compiled = Compiled(step, always=True, exact=True, replay=replay, most_ways=8)
    sizes, alive = [], []
    for n in range(400):
        passed = arguments(n, model)
        alive += [weakref.ref(value) for value in passed if hasattr(value, "__weakref__")]
        assert compiled(*passed).item() == step(*passed).item()
        del passed
        sizes.append((compiled.ways, len(compiled.walks), len(compiled.reasons), compiled.report().arena))
    gc.collect()
    assert len([reference for reference in alive if reference() is not None]) <= 16, compiled.report()
    early, late = [max(column) for column in zip(*sizes[100:200])], [max(column) for column in zip(*sizes[300:])]
    assert all([after <= 1.25 * before + 2 for before, after in zip(early, late)]), (early, late)


def test_sets_of_shapes_do_not_grow_what_one_walk_keeps() -> None:
    """200 sizes in turn over and over: as many records as the first turns have left."""
    model = network(4, 5, 2)

    def step(x: Any) -> Any:
        loss = model(x).square().sum()
        model.zero_grad()
        loss.backward()
        return loss

    compiled = Compiled(step, always=True, exact=True)
    counts = []
    for _ in range(4):
        for rows in range(1, 60):
            compiled(batch(rows, rows, 4))
        counts.append((compiled.ways, len(compiled.walks)))
    assert counts[-1] == counts[-2], counts


def main(way: str = "all", *names: str) -> int:
    failed = 0
    for name in names or HOSTILE:
        for chosen in WAYS if way == "all" else [way]:
            text, compiled = compare(name, chosen)
            failed += bool(text)
            walked = [f"{function.walked} of {function.calls}" for function in compiled]
            print(f"{name}, {chosen}: {text[:1500] or 'equal'} {walked}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
