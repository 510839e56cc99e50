"""Programs that go another way in each call: what is recorded of them is bounded, and so is what recording costs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd.plans import compiling
from dynograd.plans.compiling import Compiled


def scaled(x: Any, factor: float) -> Any:
    """Each factor is a way of its own: it is no operand."""
    return (torch.nn.functional.leaky_relu(x, factor).relu() + 1).tanh().sum()


def test_recording_pauses_where_each_call_brings_another_number() -> None:
    compiled, x = Compiled(scaled, always=True), torch.randn(3, 4)
    for n in range(3000):
        assert torch.allclose(compiled(x, float(n)), scaled(x, float(n)), rtol=1e-5)
    left = sum(compiled.reasons.values())
    assert left <= 20 and compiled.ways <= 20, str(compiled.report())  # the first ones, and one in each 2,000 calls
    for _ in range(3000):
        compiled(x, 1.0)
    assert compiled.walked >= 500, str(compiled.report())  # no longer than the program did otherwise


def test_ways_that_come_once_are_made_into_programs_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes most of the time of a record: of the first twenty calls a few, and then those of ways that come again."""
    programs = []
    program_of = compiling.program_of
    monkeypatch.setattr(
        compiling, "program_of", lambda *args, **kwargs: programs.append(0) or program_of(*args, **kwargs)
    )
    compiled, x = Compiled(scaled, always=True), torch.randn(3, 4)
    for n in range(20):
        compiled(x, float(n))
    assert len(programs) == compiled.ways <= 5, str(compiled.report())
    compiled, counts = Compiled(scaled, always=True), []
    for n in [*range(12), 9, 9, 9, 10, 10, 10]:
        compiled(x, float(n))
        counts.append((compiled.ways, compiled.walked))
    assert counts[11:] == [(4, 0), (5, 0), (5, 1), (5, 2), (6, 2), (6, 3), (6, 4)], counts


def test_recording_pauses_where_a_parameter_gets_other_memory_before_each_call() -> None:
    """It is one way, which does not come again as it was."""
    weight = torch.nn.Parameter(torch.ones(4))
    compiled, x = Compiled(lambda x: ((x * weight).relu() + 1).tanh().sum(), always=True), torch.randn(3, 4)
    for _ in range(400):
        weight.data = weight.data * 0.9
        assert torch.allclose(compiled(x), compiled.function(x), rtol=1e-5)
    assert compiled.ways <= 20 and compiled.report().pauses, str(compiled.report())


def test_a_way_that_comes_now_and_then_does_not_have_all_others_recorded() -> None:
    compiled, x = Compiled(scaled, always=True), torch.randn(3, 4)
    numbers = numpy.random.default_rng(0)
    for n in range(4000):
        compiled(x, 1.0 if numbers.random() < 0.2 else float(n))
    assert sum(compiled.reasons.values()) <= 40, str(compiled.report())


def test_some_ways_that_come_by_chance_are_all_recorded() -> None:
    compiled, x = Compiled(scaled, always=True), torch.randn(3, 4)
    numbers = numpy.random.default_rng(0)
    for _ in range(400):
        compiled(x, float(numbers.integers(32)))
    assert compiled.walked >= 350 and not compiled.report().pauses, str(compiled.report())


def test_new_ways_that_keep_coming_among_known_ones_are_not_recorded_for_ever() -> None:
    """A loop until it has converged: four of five calls go along a record, and the fifth costs as much as 50."""
    compiled, x = Compiled(scaled, always=True), torch.randn(3, 4)
    for n in range(800):
        compiled(x, 1.0 if n % 5 else 2.0 + n)
    assert compiled.report().pauses and compiled.ways <= 150, str(compiled.report())


def test_records_beyond_the_first_ones_wait_until_calls_have_paid_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each length is a way of its own, and a record costs as much as 50 calls: a program of some dozens of calls has a few made."""
    programs = []
    program_of = compiling.program_of
    monkeypatch.setattr(
        compiling, "program_of", lambda *args, **kwargs: programs.append(0) or program_of(*args, **kwargs)
    )
    weight = torch.nn.Parameter(torch.eye(4))

    def step(x: Any) -> Any:
        weight.grad = None
        h = x[0]
        for row in x.unbind()[1:]:
            h = (h @ weight + row).tanh()
        h.sum().backward()
        return weight.grad

    compiled, lengths = Compiled(step), [2 + n * 7 % 40 for n in range(80)]
    for length in lengths:
        x = torch.randn(length, 4)
        assert torch.allclose(compiled(x), step(x), rtol=1e-5, atol=1e-6)
    assert 6 <= len(programs) <= 12, (len(programs), str(compiled.report()))
    assert any([reason.startswith("no more is recorded until") for reason, _ in compiled.reasons])
    known = next(sizes for sizes, walk in compiled.walks.items() if walk.paths)
    for _ in range(600):
        compiled(torch.randn(*known[0][0]))
    made = len(programs)
    for _ in range(4):
        compiled(torch.randn(60, 4))
    assert len(programs) == made + 1, str(compiled.report())


def test_ways_at_many_sizes_together_are_bounded() -> None:
    compiled = Compiled(scaled, always=True, dynamic=False, most_ways=4)
    for n in range(400):
        size = 2 + n // 20
        x = torch.randn(size, 4)
        assert torch.allclose(compiled(x, float(n // 5 % 4)), scaled(x, float(n // 5 % 4)), rtol=1e-5)
        assert compiled.ways <= 17
    assert len(compiled.walks) <= 5 and compiled.walked >= 100, str(compiled.report())


def test_choices_at_each_step_give_what_they_give_as_they_are_written() -> None:
    """Teacher forcing: after each token the right one or the model's own comes next, by chance."""
    words, cell = torch.nn.Embedding(9, 8), torch.nn.GRUCell(8, 8)
    score = torch.nn.Linear(8, 9)
    parameters = [*words.parameters(), *cell.parameters(), *score.parameters()]

    def loss_of(tokens: Any, choices: list[bool]) -> Any:
        h, token, loss = torch.zeros(4, 8), tokens[:, 0], torch.zeros(())
        for step, teaches in enumerate(choices):
            h = cell(words(token), h)
            scores = score(h)
            loss = loss + torch.nn.functional.cross_entropy(scores, tokens[:, step + 1])
            token = tokens[:, step + 1] if teaches else scores.argmax(1)
        return loss

    def step(tokens: Any, choices: list[bool]) -> Any:
        for parameter in parameters:
            parameter.grad = None
        loss = loss_of(tokens, choices)
        loss.backward()
        return loss, [parameter.grad.clone() for parameter in parameters]

    compiled, numbers = Compiled(step, always=True), numpy.random.default_rng(1)
    for _ in range(40):
        tokens, choices = torch.randint(9, (4, 5)), [bool(bit) for bit in numbers.integers(0, 2, 4)]
        expected, gradients = step(tokens, choices)
        loss, got = compiled(tokens, choices)
        assert torch.allclose(loss, expected, rtol=1e-5, atol=1e-6)
        for ours, its in zip(got, gradients, strict=True):
            assert torch.allclose(ours, its, rtol=1e-4, atol=1e-5)
    assert compiled.ways <= 20


FIRST_CALLED = """
import dynograd as torch
from dynograd.plans.compiling import Compiled

weight = torch.ones(3, requires_grad=True)
step = Compiled(lambda x, long: (x * weight).prod() if long else (x * weight).sum(), always=True)
for call in range(12):
    x, long = torch.tensor([1.0, 2.0, float(call)]), call % 4 > 1
    assert step(x, long).item() == (x.prod() if long else x.sum()).item()
assert step.walked >= 9, str(step.report())
"""


def test_an_op_that_is_called_for_the_first_time_on_the_second_way() -> None:
    """Its function is written while the walk's reader is on, which does not see it yet."""
    done = subprocess.run([sys.executable, "-c", FIRST_CALLED], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


CALLS = {
    "by place": (lambda network, x: network(x), lambda judge, x: judge(x)),
    "by name": (lambda network, x: network(x), lambda judge, x: judge(input=x)),
    "in a list": (lambda network, rows: network(rows[0]), lambda judge, x: judge([x])),
}


@pytest.mark.parametrize("form", CALLS)
def test_what_has_a_history_is_met_once(form, monkeypatch):
    """A network that judges what another one makes, and what was measured: calls of the first kind run as they are written, unrecorded."""
    torch.manual_seed(0)
    makes, judges = (
        torch.nn.Linear(4, 6),
        torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
    )
    inside, call = CALLS[form]
    judge = Compiled(lambda input: inside(judges, input), always=True)
    recorded = []
    begin = Compiled.begin_recording
    monkeypatch.setattr(Compiled, "begin_recording", lambda self: recorded.append(self) or begin(self))
    for n in range(12):
        measured, seed = torch.full((3, 6), n / 8), torch.full((3, 4), 1 - n / 8)
        for x in (makes(seed), measured):
            result = call(judge, x)
            expected = judges(x)
            assert torch.allclose(result, expected, rtol=1e-5, atol=1e-6)
            slopes = torch.autograd.grad(result.sum(), [*judges.parameters()])
            for slope, other in zip(slopes, torch.autograd.grad(expected.sum(), [*judges.parameters()])):
                assert torch.allclose(slope, other, rtol=1e-5, atol=1e-6)
    reasons = {line.reason: line.times for line in judge.report().breaks}
    assert reasons["a tensor from outside has a history"] == 12 and judge.walked >= 9, str(judge.report())
    assert len(recorded) <= 4


@pytest.mark.parametrize("every", [2, 4, 7])
def test_a_way_that_parts_behind_an_optimizers_step_is_walked_in_its_turn(every: int) -> None:
    """Gradients of a few calls are added up before a step is taken: what was computed before cannot be computed again for another way."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, is_last: bool) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    compiled = Compiled(step, always=True)
    for n in range(20 * every):
        compiled(torch.randn(3, 4), n % every == every - 1)
    left = sum(compiled.reasons.values())
    assert compiled.walked >= 20 * every - 9 and left <= 6, str(compiled.report())
    assert compiled.ways <= 4, str(compiled.report())


def test_calls_without_a_rhythm_are_seldom_recorded_from_their_beginning() -> None:
    """As a way that is known shows itself in vain, that is given up."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorded = []

    def step(x: Any, is_last: bool) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    compiled = Compiled(step, always=True)
    begin = compiled.begin_recording
    compiled.begin_recording = lambda: recorded.append(compiled.calls) or begin()  # type: ignore[method-assign, func-returns-value]
    turns = numpy.random.RandomState(0).rand(600) < 0.05
    for is_last in turns.tolist():
        compiled(torch.randn(3, 4), is_last)
    assert compiled.walked >= 500, str(compiled.report())
    assert len(recorded) <= turns.sum() + 20, str(compiled.report())
