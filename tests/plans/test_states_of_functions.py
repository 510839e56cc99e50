"""The state machine with `autograd.Function`s in the program: they change, read values, go other ways and fail within backward, between and within steps.

`DYNOGRAD_STATE_MACHINE=5000` runs so many programs (60 by default).
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

import dynograd as torch
from dynograd import nn
from tests.plans.test_state_machine import FLAGS, PLACES, Side, Steps
from tests.plans.twins import outcome_of

F = nn.functional


class Gate(torch.autograd.Function):
    """What its backward does is up to the model."""

    @staticmethod
    def forward(ctx: Any, x: Any, model: Any) -> Any:
        ctx.model, ctx.large = model, x > 0.5
        result = x.tanh()
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        model = ctx.model
        x, result = ctx.saved_tensors
        g = g * (1 - result * result) * model.slope
        if model.way == "read" and g.abs().max() > 0.01:
            g = g.clamp(-0.01, 0.01)
        elif model.way == "draws":
            g = F.dropout(g, 0.2)
        elif model.way == "raises":
            raise ValueError("a backward that fails")
        elif model.way == "writes":
            g = g.clone()
            g[x < -0.5] = 0
        elif model.way == "differentiates":
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                g = g + torch.autograd.grad(inner.sin().sum(), inner)[0]
        elif model.way == "keeps":
            model.seen = g
        return g + 0.1 * ctx.large, None


class Same(torch.autograd.Function):
    """Gives its argument itself."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.Dropout(0.3)
        self.last = nn.Linear(5, 3)
        self.scale, self.fails, self.hooked = 1.0, False, False
        self.slope, self.way, self.place, self.frozen = 1.0, "", "hidden", ""
        self.seen: Any = None

    def hidden(self, x: Any) -> Any:
        weight = Gate.apply(self.first.weight, self) if self.place == "weight" else self.first.weight
        h = self.norm(F.linear(x, weight))
        h = Gate.apply(h, self) if self.place in ("hidden", "both") else h.tanh()
        return Same.apply(self.drop(h)) if self.place == "both" else self.drop(h)

    def forward(self, x: Any) -> Any:
        if self.frozen:
            self.last.weight.requires_grad_(False)
        if self.place == "checkpoint":
            h = torch.utils.checkpoint.checkpoint(lambda x: Gate.apply(self.hidden(x), self), x, use_reentrant=False)
        else:
            h = self.hidden(x)
        if self.hooked and h.requires_grad:
            h.register_hook(lambda g: g * 0.5)
        if self.fails:
            raise ValueError("a step that fails")
        result = self.last(h) * self.scale
        if self.frozen:
            self.last.weight.requires_grad_(True)
        return result if self.frozen != "twice" else result + F.linear(h, self.last.weight)


class FunctionSide(Side):
    model_class = Model

    def seen(self) -> Any:
        seen = self.model.seen
        return [super().seen(), None if seen is None else seen.detach().numpy().tolist()]


class FunctionSteps(Steps):
    side = FunctionSide

    @rule(slope=st.sampled_from([1.0, 0.5, 0.0]))
    def change_slope(self, slope: float) -> None:
        self.both(lambda side: setattr(side.model, "slope", slope))

    @rule(way=st.sampled_from(["", "", "read", "draws", "raises", "writes", "differentiates", "keeps"]))
    def change_way(self, way: str) -> None:
        self.both(lambda side: setattr(side.model, "way", way))

    @rule(place=st.sampled_from(["hidden", "hidden", "weight", "both", "checkpoint", "nowhere"]))
    def change_place(self, place: str) -> None:
        self.both(lambda side: setattr(side.model, "place", place))

    @rule(frozen=st.sampled_from(["", "once", "twice"]))
    def change_frozen(self, frozen: str) -> None:
        self.both(lambda side: setattr(side.model, "frozen", frozen))

    @rule(slope=st.sampled_from([1.0, 0.25]), way=st.sampled_from(["raises", "draws", "read"]), keep=PLACES)
    def one_step_of_another_way(self, slope: float, way: str, keep: int) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            before = side.model.slope, side.model.way
            side.model.slope, side.model.way = slope, way
            try:
                return outcome_of(lambda: side.train(x, y, True)).seen()
            finally:
                side.model.slope, side.model.way = before

        self.call(4, take, 0)

    @rule(clear=FLAGS)
    def gradients_as_values(self, clear: bool) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            return torch.autograd.grad(side.inner(x, y), side.parameters, allow_unused=True)

        self.call(4, take, 0)

    @rule(dtype=st.sampled_from([torch.bfloat16, torch.float16]))
    def training_with_autocast(self, dtype: Any) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            with torch.autocast("cpu", dtype):
                return side.train(x, y, True)

        for _ in range(3):
            self.call(4, take, 0)

    @rule()
    def forget_what_is_kept(self) -> None:
        self.both(lambda side: side.kept.clear())


class ExactFunctionSteps(FunctionSteps):
    exact = True


class ReplayedFunctionSteps(FunctionSteps):
    exact = replay = True


FunctionSteps.TestCase.settings = Steps.TestCase.settings
ExactFunctionSteps.TestCase.settings = ReplayedFunctionSteps.TestCase.settings = Steps.TestCase.settings
test_functions_in_python = FunctionSteps.TestCase
test_functions_in_the_exact_mode = ExactFunctionSteps.TestCase
test_functions_in_the_replay_mode = ReplayedFunctionSteps.TestCase
