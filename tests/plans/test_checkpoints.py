"""`checkpoint` in compiled steps: results of eager mode, and no memory for what is computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.plans.twins import overwritten_between_steps

F = nn.functional
WIDTH = 8


def layers_of(count: int = 3) -> nn.ModuleList:
    wide = 4 * WIDTH
    return nn.ModuleList(
        [
            nn.Sequential(nn.Linear(WIDTH, wide), nn.GELU(), nn.Dropout(0.3), nn.Linear(wide, WIDTH), nn.Tanh())
            for _ in range(count)
        ]
    )


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.2, batch_first=True, norm_first=True)

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = checkpoint(self.block, x.unsqueeze(0), use_reentrant=False).squeeze(0)
        return x


class Layers(nn.Module):
    """`run(layers, x)` with layers of its own."""

    def __init__(self, run: Callable[[Any, Any], Any], *more: Any) -> None:
        super().__init__()
        self.layers, self.run, self.more, self.calls = layers_of(), run, nn.ModuleList(more), 0

    def forward(self, x: Any) -> Any:
        return self.run(self, x)


def each(reentrant: bool) -> Callable[[Any, Any], Any]:
    def run(self: Any, x: Any) -> Any:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=reentrant)
        return x

    return run


def nested(self: Any, x: Any) -> Any:
    def inner(layer: Any, x: Any) -> Any:
        return checkpoint(layer, x, use_reentrant=False) * 1.5

    for layer in self.layers:
        x = checkpoint(inner, layer, x, use_reentrant=False)
    return x


def of_two(self: Any, x: Any) -> Any:
    def run(x: Any, scale: Any = 1.0) -> Any:
        h = self.layers[0](x)
        return h * scale, h.sum(1), {"mean": h.mean()}

    h, total, named = checkpoint(run, x, scale=0.5, use_reentrant=False)
    return self.layers[1](h) + total.unsqueeze(1) * named["mean"]


def with_a_read(self: Any, x: Any) -> Any:
    def run(x: Any) -> Any:
        h = self.layers[0](x)
        return h * 2 if h.sum().item() > 0 else h - 1

    return checkpoint(run, x, use_reentrant=False) + self.layers[1](x)


def of_several_ways(self: Any, x: Any) -> Any:
    self.calls += 1
    first = self.calls % 3

    def run(x: Any) -> Any:
        h = self.layers[0](x)
        return h.exp() if first else h.sin()

    return checkpoint(run, x, use_reentrant=False)


def in_place_inside(self: Any, x: Any) -> Any:
    def run(x: Any) -> Any:
        h = self.layers[0](x)
        g = h + 1
        g += x
        return F.relu(g, inplace=True)

    return checkpoint(run, x, use_reentrant=False)


def used_twice(self: Any, x: Any) -> Any:
    h = checkpoint(self.layers[0], x, use_reentrant=False)
    return checkpoint(self.layers[0], h, use_reentrant=False) + h


def under_autocast(self: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return each(False)(self, x).float()


def in_place_into_what_comes(self: Any, x: Any) -> Any:
    h = self.layers[0](x) * 1.0
    return checkpoint(lambda h: F.relu(h, inplace=True) * 2, h, use_reentrant=False)


def normed(self: Any, x: Any) -> Any:
    return checkpoint(self.more[0], self.layers[0](x), use_reentrant=False)


def with_other_numbers(self: Any, x: Any) -> Any:
    return checkpoint(self.layers[0], x, use_reentrant=False, preserve_rng_state=False)


def of_what_needs_no_gradient(self: Any, x: Any) -> Any:
    return checkpoint(self.layers[0], x.detach(), use_reentrant=True) + self.layers[1](x)


def in_sections(self: Any, x: Any) -> Any:
    return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)


PROGRAMS: dict[str, Callable[[], nn.Module]] = {
    "each layer": lambda: Layers(each(False)),
    "each layer, with reentry": lambda: Layers(each(True)),
    "within one another": lambda: Layers(nested),
    "several results": lambda: Layers(of_two),
    "a read": lambda: Layers(with_a_read),
    "ways": lambda: Layers(of_several_ways),
    "a write in place": lambda: Layers(in_place_inside),
    "one layer twice": lambda: Layers(used_twice),
    "autocast": lambda: Layers(under_autocast),
    "no gradient": lambda: Layers(of_what_needs_no_gradient),
    "sections": lambda: Layers(in_sections),
    "a transformer": Block,
}
AS_WRITTEN: dict[str, Callable[[], nn.Module]] = {
    "a write into an argument": lambda: Layers(in_place_into_what_comes),
    "running statistics": lambda: Layers(normed, nn.BatchNorm1d(WIDTH)),
    "other random numbers": lambda: Layers(with_other_numbers),
}
PROGRAMS |= AS_WRITTEN


class Side:
    """A model and what trains it."""

    def __init__(self, name: str, compile: Callable[[Any], Any]) -> None:
        torch.manual_seed(0)
        self.model = PROGRAMS[name]()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

        def step(x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss

        self.step = compile(step)

    def outcome(self, n: int, rows: int) -> list[Any]:
        x = torch.from_numpy(numpy.random.default_rng(n).standard_normal((rows, WIDTH), dtype="float32"))
        x.requires_grad_()
        torch.manual_seed(n)
        loss = self.step(x).detach().numpy()
        state = [value.numpy().copy() for value in self.model.state_dict().values()]
        return [loss.copy(), x.grad.numpy().copy(), torch.rand(1).numpy(), *state]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_with_checkpoints_are_those_of_eager_mode(name: str, exact: bool) -> None:
    sides = [Side(name, lambda step: step), Side(name, lambda step: Compiled(step, always=True, exact=exact))]
    with overwritten_between_steps():
        for n in range(12):
            for first, second in zip(*[side.outcome(n, 6) for side in sides], strict=True):
                if exact:
                    assert first.tobytes() == second.tobytes()
                else:
                    tolerance = 2e-2 if name == "autocast" else 1e-5
                    numpy.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance / 10)
    step = sides[1].step
    assert (step.walked > 3) is (name not in AS_WRITTEN), step.report()


@pytest.mark.parametrize("name", ["each layer", "a transformer"])
def test_sizes_between_recorded_ones(name: str) -> None:
    sides = [Side(name, lambda step: step), Side(name, lambda step: Compiled(step, always=True, dynamic=True))]
    with overwritten_between_steps():
        for n, rows in enumerate([4, 4, 12, 12, 8, 8, 5, 7, 9, 11, 6, 10]):
            for first, second in zip(*[side.outcome(n, rows) for side in sides], strict=True):
                numpy.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    assert sides[1].step.families.all, sides[1].step.report()


def test_running_statistics_in_evaluation_are_walked() -> None:
    side = Side("running statistics", lambda step: Compiled(step, always=True))
    for training in (False, True, False):
        side.model.train(training)
        before = side.step.walked
        steps = int(side.model.more[0].num_batches_tracked)
        for n in range(5):
            side.outcome(n, 6)
        assert (side.step.walked > before) is not training
        assert int(side.model.more[0].num_batches_tracked) - steps == (10 if training else 0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_takes_no_memory(reentrant: bool) -> None:
    taken = {}
    for checkpointed in (False, True):
        torch.manual_seed(0)
        layers = layers_of(8)

        @torch.compile
        def step(x: Any, layers: Any = layers, checkpointed: bool = checkpointed) -> Any:
            layers.zero_grad()
            for layer in layers:
                x = checkpoint(layer, x, use_reentrant=reentrant) if checkpointed else layer(x)
            loss = x.square().sum()
            loss.backward()
            return loss

        for _ in range(4):
            step(torch.randn(256, WIDTH).requires_grad_())
        assert step.walked == 2
        taken[checkpointed] = step.report().ways[0].bytes
    assert taken[True] < 0.4 * taken[False]


def test_the_function_runs_once() -> None:
    side = Side("each layer", lambda step: Compiled(step, always=True))
    counts = []
    side.model.layers[0].register_forward_hook(lambda *args: counts.append(None))
    for n in range(6):
        side.outcome(n, 6)
    assert len(counts) == 6


def test_a_compiled_module_whose_backward_comes_later() -> None:
    outcomes = []
    for compile in (lambda model: model, lambda model: Compiled(model, always=True)):
        torch.manual_seed(0)
        model = Layers(each(False))
        run = compile(model)
        losses = []
        for n in range(8):
            torch.manual_seed(n)
            model.zero_grad()
            loss = run(torch.randn(5, WIDTH)).square().sum()
            loss.backward()
            losses.append([loss.item(), *[parameter.grad.numpy().copy() for parameter in model.parameters()]])
        outcomes.append(losses)
    assert run.walked > 3
    for first, second in zip(*outcomes):
        for value, other in zip(first, second):
            numpy.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6)


def test_an_error_in_a_part_and_a_gradient_as_a_value() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    fails = [False]

    def run(x: Any) -> Any:
        if fails[0]:
            raise KeyError("in the part")
        return layer(x).exp()

    def step(x: Any) -> Any:
        y = checkpoint(run, x, use_reentrant=False).sum()
        return torch.autograd.grad(y, x)[0] * 2

    compiled = Compiled(step, always=True)
    for n in range(9):
        x = torch.randn(3, WIDTH).requires_grad_()
        fails[0] = n == 5
        if fails[0]:
            with pytest.raises(KeyError):
                compiled(x)
        else:
            numpy.testing.assert_allclose(compiled(x).numpy(), step(x).numpy(), rtol=1e-5)
    assert compiled.walked > 3
