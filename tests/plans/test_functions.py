"""`autograd.Function`s of users in compiled steps give what they give as they are written, step after step."""

from __future__ import annotations

import gc
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans import functions_in_programs
from tests.plans.functions_beside_others import FUNCTIONS_BESIDE_OTHERS
from tests.plans.functions_in_programs import PROGRAMS_WITH_FUNCTIONS
from tests.plans.functions_of_users import FUNCTIONS, TABLE
from tests.plans.programs import batch
from tests.plans.test_programs_of_users import check_same, plain
from tests.plans.twins import difference, overwritten_between_steps

F = nn.functional
STEPS = 8


def training(compile: Any, call: Any) -> Any:
    """A step of a model with the Function in its midst, and what it changes."""
    torch.manual_seed(0)
    first, second = nn.Linear(4, 6), nn.Linear(6, 3)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    @compile
    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        TABLE.grad = None
        loss = F.cross_entropy(second(call(first(x).tanh())), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: [*parameters, *[parameter.grad for parameter in parameters], TABLE.grad]


def compare(name: str, make: Any, settings: dict[str, Any], lengths: Any = (5,) * STEPS) -> Any:
    """Runs a program as it is written and compiled. Gives what was compiled."""
    made: list[Compiled] = []

    def compile(function: Any) -> Compiled:
        made.append(Compiled(function, always=True, **settings))
        return made[-1]

    runs, kept = [], []
    for how in (lambda function: function, compile):
        step, watched = make(how)
        seen = []
        for n, rows in enumerate(lengths):
            torch.manual_seed(n)
            result = step(batch(n, rows, 4), batch(n, rows, classes=3))
            seen.append([plain(result), plain(watched())])
            kept.append((result, seen[-1][0]))
        runs.append(seen)
    for n, (first, second) in enumerate(zip(*runs)):
        if settings.get("exact"):
            assert numpy.array_equal(numpy.array(first[0]), numpy.array(second[0])), f"{name}, step {n}"
            for ours, theirs in zip(first[1], second[1]):
                assert (ours is None and theirs is None) or ours.tobytes() == theirs.tobytes(), f"{name}, step {n}"
        check_same(first, second, f"{name}, step {n}")
    for result, numbers in kept:
        check_same(plain(result), numbers, f"{name}, kept")
    return made[0]


# Of Functions with gradients as values in their backward each size is recorded.
AT_LENGTHS = {"run_again": 1, "one_within_another": 1}
LENGTHS = [4, 4, 12, 7, 9, 5, 6, 8, 12]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_new_lengths_of_functions_are_walked(name: str) -> None:
    made = compare(name, lambda compile: training(compile, FUNCTIONS[name]), {"dynamic": True}, lengths=LENGTHS)
    assert made.walked == AT_LENGTHS.get(name, 5), str(made.report())


@pytest.mark.parametrize("settings", [{}, {"exact": True}, {"replay": True}], ids=["checked", "exact", "replay"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_steps_with_functions_of_users_go_along_the_record(name: str, settings: dict[str, Any]) -> None:
    made = compare(name, lambda compile: training(compile, FUNCTIONS[name]), settings)
    assert made.walked == STEPS - 2, str(made.report())


def test_a_graph_shows_a_function_and_what_its_backward_does() -> None:
    made = compare("MaskedRelu", lambda compile: training(compile, FUNCTIONS["MaskedRelu"]), {})
    nodes = {node.kind: node for node in made.graph().nodes}
    assert nodes["function"].name == "MaskedRelu" and len(nodes["function"].results) == 1
    assert nodes["backward"].rules[:2] == ("cross_entropy", "linear") and "tanh" in nodes["backward"].rules
    lines = str(made.graph()).splitlines()
    starts = [place for place, line in enumerate(lines) if "of autograd.Function(" in line]
    assert len(starts) == 2 and any(["clone(" in line for line in lines[slice(*starts)]])


# Of programs of which some steps, or all, do not go along a record: how many do, and what the report says.
LEFT = {
    "another_way_in_front_of_the_second_one": (7, "cos, which the record does not have"),
    "another_way_behind_the_pass": (7, "mul came where the record has add"),
    "another_way_within_the_second_backward": (7, "within the backward of an autograd.Function"),
    "another_way_within_the_first_backward": (7, "within the backward of an autograd.Function"),
    "draws_within_backward": (7, "within the backward of an autograd.Function"),
    "values_are_read_and_then_another_way": (6, "within the backward of an autograd.Function"),
    "another_way_within_gradients_as_values": (7, "within the backward of an autograd.Function"),
    "a_hook_of_a_leaf": (0, "hooks of leaves beside an autograd.Function"),
    "a_result_is_differentiated_outside": (1, "its backward has no plan: Noted, an autograd.Function"),
    "a_result_that_nobody_uses": (1, "its backward has no plan: Noted, an autograd.Function"),
    "an_error_in_backward": (6, "an exception in the backward of an autograd.Function"),
    "saved_values_are_overwritten": (0, "a tensor that backward needs as it was"),
    "under_autocast_another_way_behind": (6, "abs, which the record does not have"),
    "under_autocast_another_way_within_backward": (6, "within the backward of an autograd.Function"),
    "autocast_now_and_then": (7, "linear came where the record has to_copy"),
    "within_a_checkpoint_another_way_behind": (7, "abs, which the record does not have"),
    "within_a_checkpoint_another_way_within_backward": (6, "within the backward of an autograd.Function"),
    "a_checkpoint_beside_it": (7, "within the backward of an autograd.Function"),
    "a_hook_that_looks": (0, "hooks of leaves beside an autograd.Function"),
    "a_hook_that_halves": (0, "hooks of leaves beside an autograd.Function"),
    "a_hook_behind": (0, "hooks of leaves beside an autograd.Function"),
    "a_hook_that_comes_later": (5, "hooks of leaves beside an autograd.Function"),
    "a_flag_changes_and_another_way_within_backward": (6, "within the backward of an autograd.Function"),
    "a_flag_changes_and_another_way_between": (7, "came where the record has toggle"),
    "adversaries": (7, "mul came where the record has backward"),
    "a_flag_changes_behind_what_is_read": (7, "within the backward of an autograd.Function"),
}


@pytest.fixture
def without_collector() -> Any:
    """Nothing of a call may wait for the collector of cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Of these each size is recorded.
OF_ONE_LENGTH = {name for name in FUNCTIONS_BESIDE_OTHERS if name.startswith(("a_flag_", "a_hook_", "adversaries"))}
ALL = {**PROGRAMS_WITH_FUNCTIONS, **FUNCTIONS_BESIDE_OTHERS}


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("how", ["checked", "exact", "lengths"])
@pytest.mark.parametrize("name", ALL)
def test_programs_with_functions_do_what_they_do_as_they_are_written(name: str, how: str, monkeypatch: Any) -> None:
    changes, exact = how == "lengths", how == "exact"
    monkeypatch.setattr(functions_in_programs, "CHANGES", [changes])
    made: list[Compiled] = []

    def compile(function: Any) -> Compiled:
        made.append(Compiled(function, always=True, dynamic=True if changes else None, exact=exact))
        return made[-1]

    twins = [ALL[name](how) for how in (lambda function: function, compile)]
    kept: list[tuple[Any, Any]] = []
    with overwritten_between_steps():
        for n in range(10):
            seen = []
            for step, watched in twins:
                torch.manual_seed(n)
                result = step(n)
                seen.append([plain(result), plain(watched())])
            kept.append((result, seen[1][0]))
            check_same(*seen, f"{name}, step {n}")
            told = exact and difference(*seen)
            assert not told, f"{name}, step {n}: {told}"
    for result, numbers in kept:
        check_same(plain(result), numbers, f"{name}, kept")
    report = str(made[0].report())
    walked, said = LEFT.get(name, (8, ""))
    if changes:
        assert name in OF_ONE_LENGTH or bool(made[0].walked) is bool(walked), report
        return
    enough = made[0].walked >= walked if walked else not made[0].walked  # a way that comes again may be known by then
    assert enough and said in report, f"{made[0].walked} of {walked}\n{report}"


def test_a_module_that_learns_as_it_is_written_is_evaluated_along_its_record() -> None:
    weight = torch.nn.Parameter(torch.rand(4))

    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.round()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def function(x: Any) -> Any:
        return (Rounded.apply(x * weight * 4) + 1).tanh()

    compiled = Compiled(function, always=True, exact=True)
    for n in range(12):
        x = torch.rand(3, 4)
        results = []
        for each in (function, compiled):
            weight.grad = None
            each(x).sum().backward()
            with torch.no_grad():
                results.append([weight.grad.tolist(), each(x + n).tolist()])
        assert results[0] == results[1]
    report = compiled.report()
    assert report.learns_as_written and not report.stopped and "where gradients are recorded" in str(report)
    assert compiled.walked >= 9, str(report)
