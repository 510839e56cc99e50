"""Whatever is changed between steps, a compiled step gives what it gives as it is written: nothing of an earlier step stays.

`DYNOGRAD_STATE_MACHINE=5000` runs so many programs (60 by default).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, in_python_form, outcome_of, seen

F = nn.functional
PLACES = st.integers(0, 20)
FLAGS = st.booleans()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.Dropout(0.3)
        self.last = nn.Linear(5, 3)
        self.scale, self.fails, self.hooked = 1.0, False, False

    def forward(self, x: Any) -> Any:
        h = self.drop(self.norm(self.first(x)).tanh())
        if self.hooked and h.requires_grad:
            h.register_hook(lambda g: g * 0.5)
        if self.fails:
            raise ValueError("a step that fails")
        return self.last(h) * self.scale


class Side:
    """A model with its steps, as they are written or compiled."""

    model_class: Any = Model

    def __init__(self, compile: Callable[[Any], Any]) -> None:
        torch.manual_seed(0)
        self.model = self.model_class()
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.running, self.array = torch.zeros(3), numpy.ones(4, "float32")
        self.shift = torch.from_numpy(self.array)
        self.hooks: list[Any] = []
        self.kept: list[Any] = []
        self.random = torch.get_rng_state()
        self.forward = compile(self.model)
        self.train = compile(self.step_of_training)
        self.inner = compile(self.loss_of)
        self.nested = compile(self.step_with_inner)
        self.compiled = [self.forward, self.train, self.inner, self.nested]

    def loss_of(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.model(x + self.shift), y)

    def step_of_training(self, x: Any, y: Any, clear: bool) -> Any:
        out = self.model(x + self.shift)
        loss = F.cross_entropy(out, y)
        if clear:
            self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            self.running.mul_(0.9).add_(out.mean(0))
        return loss, out.detach(), out.argmax(-1)

    def step_with_inner(self, x: Any, y: Any) -> Any:
        loss = self.inner(x, y)
        if loss > 1.0:
            loss = loss * 2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @property
    def parameters(self) -> list[Any]:
        return list(self.model.parameters())

    def parameter(self, place: int) -> Any:
        return self.parameters[place % len(self.parameters)]

    def seen(self) -> Any:
        return seen(
            dict(
                model=self.model,
                optimizer=self.optimizer,
                running=self.running,
                array=self.array,
                kept=self.kept,
                random=self.random,
            )
        )


class Steps(RuleBasedStateMachine):
    exact = False  # the mode; else all calls have their Python form
    replay = False
    side: Any = Side

    def __init__(self) -> None:
        super().__init__()
        self.scope = contextlib.nullcontext() if self.exact else in_python_form()
        self.scope.__enter__()
        self.sides = [
            self.side(lambda function: function),
            self.side(lambda function: Compiled(function, exact=self.exact, always=True, replay=self.replay)),
        ]
        self.count = 0

    def teardown(self) -> None:
        self.scope.__exit__(None, None, None)
        torch.set_num_threads(2)

    def both(self, change: Callable[[Side], Any]) -> None:
        result = []
        for side in self.sides:
            torch.set_rng_state(side.random)
            outcome = outcome_of(lambda: change(side))  # noqa: B023
            side.random = torch.get_rng_state()
            result.append([outcome.seen(), side.seen()])
        told = difference(*result)
        assert not told, told + "".join([f"\n{compiled.report()}" for compiled in self.sides[1].compiled])

    def batch(self, size: int, seed: int = 0) -> tuple[Any, Any]:
        generator = numpy.random.default_rng([self.count, size, seed])
        return (
            torch.from_numpy(generator.standard_normal((size, 4)).astype("float32")),
            torch.from_numpy(generator.integers(0, 3, size)),
        )

    # --- steps ------------------------------------------------------------------------------------------------------------------

    @initialize()
    def warm_up(self) -> None:
        for _ in range(4):
            self.train(4, True, 0)

    def call(self, size: int, take: Callable[[Side, Any, Any], Any], keep: int) -> None:
        self.count += 1

        def change(side: Side) -> Any:
            argument = take(side, *self.batch(size))
            if keep % 4 == 3:
                side.kept.append(argument)
            return argument

        self.both(change)

    @rule(size=st.sampled_from([4, 4, 4, 3]), clear=st.sampled_from([True, True, True, False]), keep=PLACES)
    def train(self, size: int, clear: bool, keep: int) -> None:
        self.call(size, lambda side, x, y: side.train(x, y, clear), keep)

    @rule(keep=PLACES)
    def train_often(self, keep: int) -> None:
        for _ in range(4):
            self.train(4, True, keep)

    @rule(size=st.sampled_from([4, 4, 3]), keep=PLACES)
    def forward(self, size: int, keep: int) -> None:
        self.call(size, lambda side, x, y: side.forward(x), keep)

    @rule(keep=PLACES)
    def forward_and_backward(self, keep: int) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            out = side.forward(x)
            F.cross_entropy(out, y).backward()
            return out

        self.call(4, take, keep)

    @rule(times=st.integers(1, 3))
    def nested(self, times: int) -> None:
        for _ in range(times):
            self.call(4, lambda side, x, y: side.nested(x, y), 0)

    @rule(keep=PLACES)
    def inner_alone(self, keep: int) -> None:
        self.call(4, lambda side, x, y: side.inner(x, y), keep)

    @rule()
    def without_gradients(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            with torch.no_grad():
                return side.forward(x), side.inner(x, y)

        self.call(4, take, 0)

    @rule()
    def train_where_gradients_are_off(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            with torch.set_grad_enabled(False):
                return side.train(x, y, True)

        self.call(4, take, 0)

    @rule(dtype=st.sampled_from([torch.bfloat16, torch.float16]))
    def with_autocast(self, dtype: Any) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            with torch.autocast("cpu", dtype):
                return side.inner(x, y), side.forward(x)

        self.call(4, take, 0)

    @rule()
    def in_anomaly_mode(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            with torch.autograd.set_detect_anomaly(True):
                return side.train(x, y, True)

        self.call(4, take, 0)

    @rule()
    def from_another_thread(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            argument: list[Any] = []
            thread = threading.Thread(target=lambda: argument.append(outcome_of(lambda: side.train(x, y, True))))
            thread.start()
            thread.join()
            return argument[0].seen()

        self.call(4, take, 0)

    @rule()
    def that_fails(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            side.model.fails = True
            try:
                return side.train(x, y, True)
            finally:
                side.model.fails = False

        self.call(4, take, 0)

    @rule()
    def with_labels_out_of_range(self) -> None:
        self.call(4, lambda side, x, y: side.train(x, y + 3, True), 0)

    @rule()
    def on_other_inputs(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            wide = x.repeat(1, 2)[:, ::2]
            needed = x.clone().requires_grad_()
            side.forward(needed).sum().backward()
            return (
                side.forward(wide),
                side.forward(x.double().float()),
                needed.grad,
                side.forward(x.t().contiguous().t()),
            )

        self.call(4, take, 0)

    @rule()
    def on_one_input_that_is_written(self) -> None:
        def take(side: Side, x: Any, y: Any) -> Any:
            first = side.forward(x)
            x.numpy()[0] += 1
            second = side.forward(x)
            x.mul_(2)
            return first, second, side.forward(x)

        self.call(4, take, 0)

    # --- changes ----------------------------------------------------------------------------------------------------------------

    @rule(lr=st.sampled_from([0.1, 0.05, 0.0]))
    def change_lr(self, lr: float) -> None:
        self.both(lambda side: side.optimizer.param_groups[0].update(lr=lr))

    @rule(place=PLACES, wanted=FLAGS)
    def change_requires_grad(self, place: int, wanted: bool) -> None:
        self.both(lambda side: side.parameter(place).requires_grad_(wanted).requires_grad)

    @rule(training=FLAGS)
    def change_mode(self, training: bool) -> None:
        self.both(lambda side: side.model.train(training).training)

    @rule(p=st.sampled_from([0.0, 0.3, 0.6]))
    def change_dropout(self, p: float) -> None:
        self.both(lambda side: setattr(side.model.drop, "p", p))

    @rule(scale=st.sampled_from([1.0, 2.0, 0.5]))
    def change_scale(self, scale: float) -> None:
        self.both(lambda side: setattr(side.model, "scale", scale))

    @rule(wanted=FLAGS)
    def change_hook_inside(self, wanted: bool) -> None:
        self.both(lambda side: setattr(side.model, "hooked", wanted))

    @rule(place=PLACES, kind=st.sampled_from(["gradient", "accumulated", "forward", "before", "backward"]))
    def add_hook(self, place: int, kind: str) -> None:
        def change(side: Side) -> None:
            parameter, layer = side.parameter(place), [side.model.first, side.model.last, side.model.norm][place % 3]
            side.hooks.append(
                {
                    "gradient": lambda: parameter.register_hook(lambda g: g * 0.5),
                    "accumulated": lambda: parameter.register_post_accumulate_grad_hook(lambda q: q.grad.mul_(0.5)),
                    "forward": lambda: layer.register_forward_hook(lambda module, args, out: out * 1.5),
                    "before": lambda: layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
                    "backward": lambda: layer.register_full_backward_hook(lambda module, inner, outer: None),
                }[kind]()
            )

        self.both(change)

    @rule()
    @precondition(lambda self: self.sides[0].hooks)
    def remove_hook(self) -> None:
        self.both(lambda side: side.hooks.pop().remove())

    @rule(place=PLACES, way=st.sampled_from(["data =", "data", "in place", "numpy", "copy_", "fill", "swap", "load"]))
    def change_parameter(self, place: int, way: str) -> None:
        def change(side: Side) -> None:
            parameter = side.parameter(place)
            with torch.no_grad():
                if way == "data =":
                    parameter.data = parameter.data * 0.9
                elif way == "data":
                    parameter.data.add_(0.01)
                elif way == "in place":
                    parameter.mul_(0.9)
                elif way == "numpy":
                    parameter.detach().numpy()[...] *= 0.9
                elif way == "copy_":
                    parameter.copy_(parameter.flip(0))
                elif way == "fill":
                    parameter[0] = 0.1
                elif way == "swap":
                    side.model.last.weight = nn.Parameter(side.model.last.weight * 0.9)
                else:
                    side.model.load_state_dict({name: value * 1 for name, value in side.model.state_dict().items()})

        self.both(change)

    @rule(way=st.sampled_from(["running", "array", "statistics", "replace"]))
    def change_buffer(self, way: str) -> None:
        def change(side: Side) -> None:
            if way == "running":
                side.running.add_(1)
            elif way == "array":
                side.array[0] += 1
            elif way == "statistics":
                side.model.norm.reset_running_stats()
            else:
                side.running = torch.ones(3)

        self.both(change)

    @rule(place=PLACES, way=st.sampled_from(["none", "scaled", "set", "zeros", "all none", "in place"]))
    def change_gradient(self, place: int, way: str) -> None:
        def change(side: Side) -> None:
            parameter = side.parameter(place)
            if way == "none":
                parameter.grad = None
            elif way == "scaled":
                parameter.grad = None if parameter.grad is None else parameter.grad * 0.5
            elif way == "set":
                parameter.grad = torch.ones_like(parameter)
            elif way == "zeros":
                side.optimizer.zero_grad(set_to_none=False)
            elif way == "all none":
                side.optimizer.zero_grad()
            elif parameter.grad is not None:
                parameter.grad.mul_(0.5)

        self.both(change)

    @rule(way=st.sampled_from(["group", "other", "state", "step", "decay"]))
    def change_optimizer(self, way: str) -> None:
        def change(side: Side) -> None:
            if way == "group":
                side.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 0.01})
            elif way == "other":
                side.optimizer = torch.optim.Adam(side.parameters, lr=0.01)
            elif way == "state":
                side.optimizer.load_state_dict(side.optimizer.state_dict())
            elif way == "step":
                side.optimizer.step()
            else:
                side.optimizer.param_groups[0]["weight_decay"] = 0.01

        self.both(change)

    @rule(count=st.integers(1, 2))
    def change_threads(self, count: int) -> None:
        torch.set_num_threads(count)

    @rule(seed=st.integers(0, 3))
    def seed(self, seed: int) -> None:
        self.both(lambda side: torch.manual_seed(seed).initial_seed())

    @rule(place=PLACES, way=st.sampled_from(["write", "numpy", "backward", "forget", "use", "gradient"]))
    @precondition(lambda self: self.sides[0].kept)
    def use_kept(self, place: int, way: str) -> None:
        def change(side: Side) -> Any:
            kept = side.kept[place % len(side.kept)]
            tensor = kept[place % 2] if isinstance(kept, tuple) else kept
            if way == "write":
                with torch.no_grad():
                    tensor.mul_(2)
            elif way == "numpy":
                tensor.detach().numpy()[...] += 1
            elif way == "backward":
                tensor.sum().backward()
            elif way == "forget":
                side.kept.clear()
            elif way == "use":
                return side.forward(tensor.detach().reshape(-1)[:1].expand(4, 4))
            else:
                return torch.autograd.grad(tensor.sum(), side.parameters, allow_unused=True)
            return None

        self.both(change)

    @rule()
    def reset(self) -> None:
        for compiled in self.sides[1].compiled:
            compiled.reset()

    @rule()
    def copy(self) -> None:
        """A copy of the model is another model."""
        import copy

        def change(side: Side) -> Any:
            other = copy.deepcopy(side.model)
            x, _ = self.batch(4, 1)
            with torch.no_grad():
                other.last.weight.zero_()
            return other(x), other

        self.both(change)


class ExactSteps(Steps):
    exact = True


class ReplayedSteps(Steps):
    exact = replay = True


Steps.TestCase.settings = ExactSteps.TestCase.settings = ReplayedSteps.TestCase.settings = settings(
    max_examples=int(os.environ.get("DYNOGRAD_STATE_MACHINE", 60)),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_steps_in_python = Steps.TestCase
test_steps_in_the_exact_mode = ExactSteps.TestCase
test_steps_in_the_replay_mode = ReplayedSteps.TestCase
