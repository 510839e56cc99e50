"""Steps that are recorded while numbers in them are 1, 0 or not finite, and then go along the record with others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.passes import is_constant

F = nn.functional
RECORDED = 4  # calls with the special number
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": F.cross_entropy,
    "cross_entropy_smooth": lambda scores, labels: F.cross_entropy(scores, labels, label_smoothing=0.1),
    "cross_entropy_of_rows": lambda scores, labels: F.cross_entropy(scores, labels, reduction="none").mean(),
    "cross_entropy_of_distributions": lambda scores, labels: F.cross_entropy(scores, F.one_hot(labels, 3).float()),
    "nll_loss": lambda scores, labels: F.nll_loss(scores.log_softmax(1), labels),
    "binary_cross_entropy_with_logits": lambda scores, labels: F.binary_cross_entropy_with_logits(
        scores[:, 0], (labels > 0).float()
    ),
    "mse_loss": lambda scores, labels: F.mse_loss(scores, F.one_hot(labels, 3).float()),
    "layer_norm": lambda scores, labels: F.layer_norm(scores, (3,))[:, 0].sum(),
}


def twins_of(loss: Callable[[Any, Any], Any], exact: bool) -> tuple[list[Any], Any]:
    """The step as it is written, and compiled: what the weight's gradient is."""
    weight = nn.Parameter(torch.linspace(-1, 1, 12).reshape(4, 3))

    def step(x: Any, labels: Any, factor: Any) -> Any:
        weight.grad = None
        (loss(x @ weight, labels) * factor).backward()
        assert weight.grad is not None
        return weight.grad.clone()

    compiled = Compiled(step, always=True, exact=exact)
    return [step, compiled], compiled


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("number", [1.0, 0.0, math.nan, math.inf])
@pytest.mark.parametrize("name", LOSSES)
def test_what_a_loss_is_multiplied_by_may_change(name: str, number: float, exact: bool) -> None:
    """A gradient that receives 1 is left as the forward has made it; one that is not finite stays so whatever it is multiplied by."""
    twins, compiled = twins_of(LOSSES[name], exact)
    random = numpy.random.default_rng(0)
    for call in range(RECORDED + 3):
        x = torch.from_numpy(random.standard_normal((5, 4)).astype("float32"))
        labels = torch.from_numpy(random.integers(0, 3, 5))
        factor = torch.tensor(number if call < RECORDED else 2.0 + call)
        expected, seen = [step(x, labels, factor).numpy() for step in twins]
        numpy.testing.assert_allclose(seen, expected, rtol=0.0 if exact else 1e-5, atol=0.0 if exact else 1e-6)
    assert compiled.walked >= RECORDED, str(compiled.report())


def test_gradients_of_infinite_losses_are_unscaled() -> None:
    """The step that is recorded overflows, and those that follow do not: half types, whose gradients are scaled."""

    def trained(compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)

        @compile
        def step(x: Any, labels: Any) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        for call in range(8):
            x = torch.randn(5, 4)
            step(x * 1e30 if call in (1, 2) else x, torch.randint(3, (5,)))
        return [*model.parameters()], step

    expected, _ = trained(lambda step: step)
    seen, compiled = trained(lambda step: Compiled(step, always=True, exact=True))
    assert all(map(torch.equal, seen, expected))
    assert compiled.walked >= 3, str(compiled.report())


def test_an_op_that_saves_other_things_at_another_size_ends_the_walk() -> None:
    """Few scores are computed without the gradient that is made in the same pass where there are more."""

    def trained(compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(batches: Any) -> Any:
            total: Any = 0
            for x, labels in (next(batches), next(batches)):
                loss = F.cross_entropy(model(x), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total = total + loss
            return total

        batches = _batches()
        return [step(batches).item() for _ in range(24)], step

    expected, _ = trained(lambda step: step)
    seen, compiled = trained(lambda step: Compiled(step, always=True, exact=True))
    assert seen == expected, compiled.report()
    assert compiled.walked >= 1, compiled.report()


def _batches() -> Iterator[tuple[Any, Any]]:
    random = numpy.random.default_rng(0)
    for n in range(48):
        rows = 3 + n * 7 % 11
        x, labels = random.standard_normal((rows, 4)).astype("float32"), random.integers(0, 2, rows)
        yield torch.from_numpy(x), torch.from_numpy(labels)


def test_a_tensor_with_a_history_is_printed_as_it_is_as_written() -> None:
    """Its node is named without leaving the record: of what is used up, of what is still to be differentiated, and within the step."""
    model = nn.Linear(4, 2)

    def step(x: Any) -> Any:
        hidden = model(x)
        loss = hidden.square().mean()
        before = repr(loss)
        model.zero_grad()
        loss.backward()
        return before, repr(loss), repr(hidden[0].detach()), loss, hidden.relu(), model(x).exp()

    compiled = Compiled(step, always=True)
    seen: Any = None
    for call in range(6):
        x = torch.full((3, 4), float(call))
        expected, seen = str(step(x)), None
        seen = str(compiled(x))
        assert seen == expected
    assert "<ExpBackward0>" in seen
    assert compiled.walked == 4, str(compiled.report())


def test_a_truth_value_beside_a_tensor_is_a_constant():
    """Its array was taken for memory of the step: gradients of `p * True` were lost in most runs of some programs."""
    p = nn.Parameter(torch.ones(4))
    compiled = Compiled(lambda x: (p * True).sum().backward(), exact=True, always=True)
    for _ in range(3):
        compiled(torch.ones(4))
    calls = compiled.walk.paths[0].program.calls
    numbers = [array for call in calls for array in call.inputs if str(getattr(array, "dtype", "")) == "bool"]
    assert numbers and all(is_constant(array) for array in numbers)
