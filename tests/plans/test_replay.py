"""Mode "replay": steps give what they give as they are written, guards see every change, and what is not pure is refused with its line."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy
import pytest

import dynograd as torch
import tests.plans.larger_programs  # noqa: F401 (enters its programs)
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.replaying.replays import Replay
from tests.plans import replayed_programs
from tests.plans.programs import PROGRAMS, batch
from tests.plans.random_programs import compare, program_of
from tests.plans.replayed_programs import CHANGES, PURE, Scaled, arguments, helper, step_of, world
from tests.plans.sized_programs import PROGRAMS as SIZED
from tests.plans.test_programs_of_users import check_same, plain
from tests.plans.twins import difference, outcome_of, overwritten_between_steps, seen

F = nn.functional
STEPS = 12


def replayed(function: Any, **options: Any) -> Compiled:
    return Compiled(function, always=True, replay=True, **options)


def run_twins(build: Any, steps: int = STEPS, **options: Any) -> list[Compiled]:
    """Runs a program as it is written and replayed, in memory that is overwritten between steps, and compares all that it gives and changes."""
    created: list[Compiled] = []

    def compile(function: Any) -> Compiled:
        created.append(replayed(function, **options))
        return created[-1]

    twins, random, kept = [], [], []
    for use in (lambda function: function, compile):
        torch.manual_seed(0)
        twins.append(build(use))
        random.append(torch.get_rng_state())
    for n in range(steps):
        results = []
        for place, (step, watched) in enumerate(twins):
            torch.set_rng_state(random[place])
            result = step(n)
            random[place] = torch.get_rng_state()
            results.append([plain(result), plain(watched()), plain(random[place])])
        kept.append((result, results[1][0]))
        check_same(*results, f"step {n}")
    for result, numbers in kept:
        check_same(plain(result), numbers, "kept")
    return created


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", PURE)
def test_pure_steps(name: str, exact: bool) -> None:
    with overwritten_between_steps():
        created = run_twins(PURE[name], exact=exact)
    report = created[0].report()
    assert report.replayed >= STEPS - 6, str(report)
    assert " replayed, " in str(report)


# Programs of users of which no step is replayed, and why; "": nothing is recorded.
LEFT = {
    "state_carried": "it changes state[0]",
    "mixtures_of_experts": "nonzero, whose result depends on values",
    "seq2seq": "a tensor that the step has made of numbers is written in place",
    "variational": "a value is read",
    "gradients_of_each_row": "a value is read",
    "decisions_on_values": "a value is read",
    "hooks": "",
    "inner_loop": "",
    "mixed_precision": "a value of a tensor from outside is read",
    "statistics_read": "a value is read",
    "language_model": "it changes schedule",
    "policy_gradients": "a value is read",
    "gradient_penalty": "",
    "packed_sequences": "a value is read",
    "functional_transforms": "",
    "epochs_of_a_loader": "a value is read",
    "several_inputs": "a value is read",
    "memory_that_numpy_has": "a value is read",
    "caches_that_begin_empty": "it changes cache.keys",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_users(name: str) -> None:
    created = run_twins(PROGRAMS[name], 14)
    report = "\n".join([str(compiled.report()) for compiled in created])
    assert any([compiled.report().replayed for compiled in created]) == (name not in LEFT), report
    assert LEFT.get(name, "") in report, report


def test_what_the_collector_calls_is_nothing_of_the_programs() -> None:
    def note(phase: str, info: dict[str, int]) -> None:
        perf_counter()

    model = nn.Linear(4, 4)
    step, thresholds = replayed(lambda x: model([x][0]).exp().sum()), gc.get_threshold()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(1)
        for n in range(10):
            step(batch(n, 3, 4))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
    assert step.report().replayed, step.report()


@pytest.mark.parametrize("name", SIZED)
def test_lengths_that_come_again(name: str) -> None:
    sizes = [9, 14, 6, 20, 12, 9, 14, 6, 20, 12] * 4
    results, created = [], []
    for use in (lambda function: function, replayed):
        torch.manual_seed(0)
        step, watched, batch_of = SIZED[name](lambda function: created.append(use(function)) or created[-1])  # noqa: B023
        numbers = numpy.random.default_rng(0)
        with overwritten_between_steps():
            results.append([seen([step(*batch_of(numbers, n, 4)), watched()]) for n in sizes])
    for place, pair in enumerate(zip(*results)):
        differing = difference(*pair, 2e-4)
        assert differing is None, f"step {place}: {differing}\n{created[-1].report()}"


# --- guards -------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    """What rows of the table change for all."""
    forward, dtype = Scaled.forward, torch.get_default_dtype()
    try:
        yield
    finally:
        Scaled.forward, Scaled.offset = forward, 0.0
        helper.__defaults__ = (1.0,)
        replayed_programs.FACTOR = replayed_programs.SETTINGS["scale"] = 2.0
        torch.set_default_dtype(dtype)


def run_with_change(use: Any, change: Any, calls: list[tuple[tuple, dict[str, Any]]] | None = None) -> Any:
    """What seven calls give, a change before the last two; and what was called."""
    with put_back():
        w = world()
        step = use(step_of(w))
        results = []
        for n in range(8):
            if n == 6:
                change(w)
            args, kwargs = arguments(n) if calls is None or n < 6 else calls[n - 6]
            if kwargs.get("history"):
                args, kwargs = (args[0].clone().requires_grad_() * 1, args[1]), {}
            outcome = outcome_of(lambda: step(*args, **kwargs))  # noqa: B023
            results.append([outcome.seen(), seen([w.model, w.optimizer])])
    return results, step


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_guards(name: str, guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without guards a step gives something else than it should: so each row can fail."""
    change, told = CHANGES[name]
    expected, _ = run_with_change(lambda function: function, change)
    if not guarded:
        monkeypatch.setattr(Replay, "failed", lambda replay, args, kwargs, tensors: tensors.extend(args) or "")
    results, step = run_with_change(replayed, change)
    report = str(step.report())
    assert step.replays.times >= 2, report
    differing = difference(expected, results, 2e-5)
    if guarded:
        assert differing is None, f"{differing}\n{report}"
        assert [row.reason for row in step.report().breaks if told in row.reason and "another one now" in row.reason], (
            report
        )
    else:
        assert differing is not None


X, Y = batch(9, 5, 4), batch(9, 5, classes=3)
CALLS: dict[str, tuple[tuple, dict[str, Any]]] = {
    "number": ((X, Y), {"number": 2.0}),
    "type of a number": ((X, Y), {"number": 1}),
    "place of an argument": ((X, Y, 2.0), {}),
    "length of a list": ((X, Y), {"flags": (1, 2)}),
    "tensor for a number": ((X, Y), {"number": torch.tensor(2.0)}),
    "dtype": ((X.double(), Y), {}),
    "shape": ((X[:4], Y[:4]), {}),
    "layout": ((X.t().contiguous().t(), Y), {}),
    "requires_grad": ((X.clone().requires_grad_(), Y), {}),
    "labels out of range": ((X, Y + 3), {}),
    "too few": ((X,), {}),
    "history": ((X, Y), {"history": True}),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_arguments(name: str) -> None:
    calls = [CALLS[name], arguments(7)]
    expected, _ = run_with_change(lambda function: function, lambda w: None, calls)
    results, step = run_with_change(replayed, lambda w: None, calls)
    assert difference(expected, results, 2e-5) is None, str(step.report())
    # Calls 4 and 5, and the last one; but where another number has come in the place of one, a record with both is made first.
    assert step.replays.times == (2 if name == "place of an argument" else 3), str(step.report())


def test_one_tensor_at_two_places() -> None:
    def step(a: Any, b: Any, w: Any = None) -> Any:
        return a * 2 + b, a is b

    compiled = replayed(step)
    element, other = torch.ones(3), torch.zeros(3)
    for args in [(element, other)] * 6 + [(element, element), (other, other), (element, other)] * 3:
        assert difference(seen(step(*args)), seen(compiled(*args))) is None


def test_modes_of_the_thread() -> None:
    model = nn.Linear(3, 2)
    compiled = replayed(lambda x: model(x).tanh())
    x = torch.randn(4, 3)
    for _ in range(6):
        compiled(x)
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert not compiled(x).requires_grad
    with torch.autocast("cpu"):
        assert compiled(x).dtype is torch.bfloat16
    assert compiled(x).requires_grad and compiled(x).dtype is torch.float32


def test_gradients_that_are_there() -> None:
    """A step that adds to gradients, and one that finds none."""
    results = []
    for use in (lambda function: function, replayed):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        step = use(lambda x: model(x).square().sum().backward())  # noqa: B023
        gradients = []
        for n in range(14):
            if n in (0, 7, 8, 12):
                model.zero_grad()
            step(batch(n, 4, 3))
            gradients.append(model.weight.grad.numpy().copy())
        results.append(gradients)
    assert step.replays.times > 3, str(step.report())
    for element, other in zip(*results):
        numpy.testing.assert_allclose(element, other, rtol=1e-5)


# --- what is not replayed ---------------------------------------------------------------------------------------------------------


COUNT = [0]
KEPT: list[Any] = []
MEMORY = torch.zeros(3)
LARGE = numpy.zeros(1 << 16, "float32")


def _counts(x: Any) -> Any:
    COUNT[0] += 1
    return x * 2


def _prints(x: Any) -> Any:
    print("a step")
    return x * 2


def _keeps(x: Any) -> Any:
    KEPT[:] = [x * 2]
    return x * 2


def _reads(x: Any) -> Any:
    return x * 2 if x.sum() > -1e9 else x


def _lists_an_argument(x: Any) -> Any:
    return (x * 2)[: len(x.tolist())]


def _draws(x: Any) -> Any:
    return x * 2, numpy.random.rand() < 2


def _array(x: Any) -> Any:
    return x + torch.from_numpy(numpy.ones(3, "float32"))


def _large(x: Any) -> Any:
    return x * 2, LARGE.size


def _argument_written(x: Any) -> Any:
    y = x * 2
    x.add_(0)
    return y


def _set(x: Any) -> Any:
    return {1, 2}, x * 2


def _seeds(x: Any) -> Any:
    torch.manual_seed(3)
    return x * torch.rand(3)


def _depends(x: Any) -> Any:
    return x[x > 0] * 2


REFUSED = {
    _counts: "it changes COUNT[0]",
    _prints: "it calls print()",
    _keeps: "it changes KEPT",
    _reads: "a value is read",
    _lists_an_argument: "a value is read",
    _draws: "random numbers of Python or NumPy",
    _array: "a tensor is made in the step by what is not known",
    _large: "LARGE, a NumPy array that is too large",
    _argument_written: "into an argument",
    _set: "its result holds a set",
    _seeds: "random numbers are seeded",
    _depends: "depends on values",
}


@pytest.mark.parametrize("step", REFUSED)
def test_what_is_not_pure_is_refused(step: Any) -> None:
    compiled = replayed(step)
    for n in range(8):
        assert difference(seen(step(batch(n, 3))), seen(compiled(batch(n, 3))), 1e-6) is None
    report = compiled.report()
    assert report.replayed == 0 and f"{REFUSED[step]}" in str(report), str(report)


def test_fullgraph_names_the_line() -> None:
    step = torch.compile(_reads, mode="replay", fullgraph=True)
    with pytest.raises(
        RuntimeError,
        match=r"cannot be replayed, as fullgraph=True .* a value is read, at .*test_replay.py:\d+ in _reads",
    ):
        for n in range(8):
            step(batch(n, 3))


def test_modules_and_report() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    compiled = torch.compile(model, mode="replay")
    with torch.no_grad():
        for n in range(8):
            assert torch.allclose(compiled(batch(n, 5, 3)), model(batch(n, 5, 3)))
    report = compiled.report()
    assert (report.calls, report.walked, report.replayed) == (8, 6, 4)
    assert report.ways[0].replayed == 4 and report.ways[0].replay_seconds > 0
    assert "8 calls, 6 along the record (4 replayed)" in str(report)


def test_ways_that_alternate() -> None:
    """One is replayed, the other reads a value; and each state of a model that comes again is replayed again."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))

    def step(x: Any, reads: bool) -> Any:
        out = model(x)
        return (out * 2, out.sum().item()) if reads else (out, None)

    compiled, results = replayed(step), []
    for use in (step, compiled):
        torch.manual_seed(3)
        results.append([])
        for n in range(24):
            model.train(n // 4 % 2 == 0)
            results[-1].append(seen(use(batch(n, 5, 3), n % 3 == 2)))
    assert difference(*results, 1e-6) is None
    assert compiled.report().replayed >= 8, str(compiled.report())


def test_arguments_of_the_watched_call_are_let_go() -> None:
    compiled = replayed(lambda x: x * 2)
    arguments = [torch.randn(3) for _ in range(8)]
    references = [weakref.ref(x) for x in arguments]
    for _ in range(8):
        compiled(arguments.pop(0))
    assert compiled.report().replayed == 4
    gc.collect()
    assert [reference() is None for reference in references[2:7]] == [True] * 5  # a record has those of its call


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_programs_by_chance(first: int) -> None:
    count = 0
    for seed in range(first, first + 20):
        result = compare(program_of(seed).text(), 0.0, True, 16, (), True)
        assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{program_of(seed).text()}"
        count += result.replayed
    assert count > 20
