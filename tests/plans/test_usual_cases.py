"""The usual cases of a walk, and all that is nearly one: results and gradients are those of the program as it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from dynograd.plans.walking.usual import UsualCases
from tests.plans.twins import overwritten_between_steps


class Learning:
    """A weight, and what a program keeps between its calls."""

    def __init__(self) -> None:
        self.weight = torch.tensor([[1.0, -2.0, 3.0, 0.5]] * 4, requires_grad=True)
        self.bias = torch.tensor([0.5, 1.0, -1.0, 2.0], requires_grad=True)
        self.kept: list[Any] = []

    def loss(self, x: Any) -> Any:
        return ((x @ self.weight + self.bias).exp() * 0.1).sum()

    def forget(self) -> None:
        self.weight.grad = self.bias.grad = None


def usual(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x)
    loss.backward()
    return loss


def adds(learning: Learning, x: Any, k: int) -> Any:
    if k % 3:
        learning.forget()
    loss = learning.loss(x)
    loss.backward()
    return loss


def retains(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x)
    loss.backward(retain_graph=k % 3 == 0)
    if k % 3 == 0:
        loss.backward()
    return loss


def frees(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x)
    loss.backward(retain_graph=k % 3 > 0)
    try:
        loss.backward()
        learning.kept = [torch.tensor(1)]
    except RuntimeError:
        learning.kept = [torch.tensor(0)]
    return loss


def another_in_its_place(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    other = torch.tensor(_numbers(k + 100)) if k % 3 == 0 else x
    loss = learning.loss(x) + learning.loss(other).sin()
    loss.backward()
    return loss


def differs_behind(learning: Learning, x: Any, k: int) -> Any:
    loss = usual(learning, x, k)
    return loss.detach() * 2 if k % 3 == 0 else loss


def reads(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x)
    if k % 3 == 0:
        learning.kept = [loss.item()]
    loss.backward()
    return loss


def of_another(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x)
    other = (loss * 2).tanh()
    (loss if k % 3 else other).backward()
    return other


def freezes(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x)
    learning.bias.requires_grad = k % 3 > 0
    loss.backward()
    learning.bias.requires_grad = True
    return loss


def keeps_gradients(learning: Learning, x: Any, k: int) -> Any:
    learning.kept = [learning.weight.grad, *learning.kept[:2]]
    return usual(learning, x, k)


def keeps_inputs(learning: Learning, x: Any, k: int) -> Any:
    learning.kept = [x, *learning.kept[:2]]
    return usual(learning, learning.kept[k % len(learning.kept)], k)


def twice(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x) + learning.loss(x).sin() * learning.loss(x * x)
    loss.backward()
    return loss


def writes_between(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x * 1)
    with torch.no_grad():
        x.mul_(0.5 if k % 3 else 1.0)
    loss = loss + learning.loss(x * 2)
    loss.backward()
    return loss


def numpy_writes_between(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    loss = learning.loss(x * 1)
    if k % 3 == 0:
        x.numpy()[...] = 0.25
    loss = loss + learning.loss(x * 2)
    loss.backward()
    return loss


def without_gradients(learning: Learning, x: Any, k: int) -> Any:
    learning.forget()
    with torch.set_grad_enabled(k % 3 > 0):
        loss = learning.loss(x)
    if k % 3:
        loss.backward()
    return loss


PROGRAMS = [
    usual, adds, retains, frees, another_in_its_place, differs_behind, reads, of_another, freezes, keeps_gradients, keeps_inputs, twice, writes_between, numpy_writes_between, without_gradients,
]  # fmt: skip


def plain(k: int) -> Any:
    return torch.tensor(_numbers(k))


def from_numpy(k: int) -> Any:
    return torch.from_numpy(_numbers(k))


def strided(k: int) -> Any:
    return torch.tensor(_numbers(k)).t() if k % 3 == 0 else torch.tensor(_numbers(k))


def leaf(k: int) -> Any:
    return torch.tensor(_numbers(k), requires_grad=k % 3 == 0)


def with_history(k: int) -> Any:
    x = torch.tensor(_numbers(k), requires_grad=True)
    return x.sin() if k % 3 == 0 and k else x.detach()  # the first call meets the leaves


def large(k: int) -> Any:
    return torch.tensor(numpy.tile(_numbers(k) * 0.01, (640, 1)))


INPUTS: list[Callable[[int], Any]] = [plain, from_numpy, strided, leaf, with_history, large]


REFUSED = {
    (numpy_writes_between, leaf): "NumPy gets no memory of tensors that require grad",
    (numpy_writes_between, with_history): "NumPy gets no memory of tensors that require grad",
    (writes_between, leaf): "the graph still needs what is written",
    (writes_between, with_history): "the graph still needs what is written",
    (keeps_inputs, with_history): "the graph of an earlier input is gone",
}


def _numbers(k: int) -> Any:
    return numpy.random.default_rng(k).standard_normal((4, 4)).astype("float32") * 0.3


def run(program: Any, make: Any, compiles: bool) -> tuple[list[Any], Any]:
    learning = Learning()

    def step(x: Any, k: int) -> Any:
        return program(learning, x, k)

    called = Compiled(step, exact=True, always=True) if compiles else step
    results = []
    for k in range(16):
        x = make(k)
        loss = called(x, k)
        # Who reads gradients has them, and the next step is no usual one.
        leaves = [learning.weight, learning.bias, *[x] * x.is_leaf] if k in (1, 4, 8, 11, 15) else []
        gradients = [leaf.grad for leaf in leaves]
        kept = [value for value in learning.kept if isinstance(value, torch.Tensor)]
        values = [None if value is None else numpy.array(value.detach()) for value in (loss, *gradients, *kept)]
        results.append((loss.requires_grad, values))
    return results, called


@pytest.mark.parametrize("make", INPUTS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results_are_those_of_eager_mode(program: Any, make: Any) -> None:
    if (program, make) in REFUSED:
        pytest.skip(REFUSED[program, make])
    expected, _ = run(program, make, False)
    with overwritten_between_steps():
        results, step = run(program, make, True)
    for (has_graph, values), (expects_graph, expected_values) in zip(results, expected, strict=True):
        assert has_graph == expects_graph
        for value, number in zip(values, expected_values, strict=True):
            assert (value is None) == (number is None)
            assert value is None or numpy.array_equal(value, number), str(step.report())


def test_what_is_usual_is_walked_so(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: dict[str, list[bool]] = {"takes": [], "goes_back": []}

    def noting(name: str) -> Any:
        original = getattr(UsualCases, name)

        def method(self: Any, *args: Any) -> Any:
            outcome = original(self, *args)
            outcomes[name].append(outcome)
            return outcome

        return method

    for name in outcomes:
        monkeypatch.setattr(UsualCases, name, noting(name))
    learning = Learning()
    step = Compiled(lambda x: usual(learning, x, 0), always=True)
    for k in range(16):
        step(plain(k))
    assert step.walked >= 12
    assert outcomes["goes_back"].count(True) >= 11 and outcomes["takes"].count(True) >= 11
