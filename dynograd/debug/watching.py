"""`watch`: what the layers of a model do while it learns, every few steps, and alarms where something is wrong."""

from __future__ import annotations

import math
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynograd.autograd.modes import MODES, is_grad_enabled, no_grad
from dynograd.autograd.nodes import frame_at, line_text, place_of
from dynograd.debug.texts import number, short
from dynograd.nn import Module
from dynograd.ops.reduce.deviations import std_mean
from dynograd.ops.reduce.norms import vector_norm
from dynograd.ops.reduce.reductions import count_nonzero
from dynograd.optim.hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["Alarm", "LayerStatistics", "Watcher", "watch"]

_SATURATING = {"Sigmoid": 0.0, "Tanh": -1.0, "Hardsigmoid": 0.0, "Hardtanh": -1.0}
"""Modules whose results lie between two bounds, with the lower one; the upper one is 1."""
_NEAR = 0.01  # of a bound, as a share of the range
_MOSTLY = 0.9  # a share that raises an alarm
_EXPLODING, _VANISHING = 1e3, 1e-7  # of the gradient's size, beside that of the next layer; beside the largest
_FAST, _SLOW = 0.1, 1e-7  # of an update, beside the weights


@dataclass
class LayerStatistics:
    """What a module did in a step.

    Attributes:
        step: from 0, the number of the training step.
        layer, kind: the module's path and the name of its class.
        mean, spread: of what it gave; the spread is the standard deviation.
        zeros: the share of elements that are zero.
        dead: the share of units (the last dim of features, the channels of images) that gave zero for the whole batch.
        saturated: the share of elements next to a bound, of sigmoid, tanh and their like; else None.
        gradient: root mean square of the gradient of what it gave; None if none came.
        weights, weight_gradient: norms of its own parameters and their gradients; None if it has none.
        update: norm of what the optimizer changed over the norm of the parameters; None where no optimizer took a step.
        used: whether it was called in the step.
        line: `file:line in function` that called it.
    """

    step: int
    layer: str
    kind: str
    mean: float = math.nan
    spread: float = math.nan
    zeros: float = 0.0
    dead: float = 0.0
    saturated: float | None = None
    gradient: float | None = None
    weights: float | None = None
    weight_gradient: float | None = None
    update: float | None = None
    used: bool = False
    line: str | None = None


@dataclass
class Alarm:
    """Something that is wrong.

    Attributes:
        kind: "not finite", "dead", "saturated", "constant", "exploding", "vanishing", "no gradient", "frozen", "unused", "fast", "slow".
        step, layer, line: where.
        text: the sentence.
    """

    kind: str
    step: int
    layer: str
    line: str | None
    text: str

    def __str__(self) -> str:
        return f"step {self.step}, {self.layer} ({short(self.line)}): {self.text}"


class Watcher:
    """What `watch` gives: printed, it is a table of the latest step that was looked at.

    Attributes:
        rows: `LayerStatistics` of all steps that were looked at, the latest `keep` steps.
        alarms: each kind once for each layer.
    """

    def __init__(self, model: Module, every: int, alarm: Callable[[Alarm], Any] | None, writer: Any, keep: int) -> None:
        self.model, self.every, self.writer = model, every, writer
        self.rows: deque[list[LayerStatistics]] = deque(maxlen=keep)
        self.alarms: list[Alarm] = []
        self.calls = 0
        self._tell = alarm
        self._raised: set[tuple[str, str]] = set()
        self._now: dict[Module, LayerStatistics] = {}
        self._step = -1
        self._begun = self._moved = False
        self._waiting: set[int] = set()  # rows whose gradient has not come yet, by their place
        self._optimizer: weakref.ref[Any] | None = None
        self._handles: dict[Module, Any] = {}
        self._seen: list[_Seen] = []
        self._before: dict[Module, list[tuple[Tensor, Tensor]]] = {}  # parameters, and as they were
        me = weakref.ref(self)
        self._told = lambda method: lambda *args: _told(me, method, args)
        self._root: list[Any] = []
        self._pre_hook: list[Any] = []
        self._post_hook = register_optimizer_step_post_hook(self._told("_after_update"))
        weakref.finalize(
            self, _remove, [self._root, self._pre_hook, [self._post_hook]]
        )  # nobody closes those that are forgotten
        self._listen(True)

    def close(self) -> None:
        """Watches no more; what was learnt stays."""
        self._finish()
        self._listen(False)
        self._post_hook.remove()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    # --- a step ---------------------------------------------------------------------------------------------------------------

    def _listen(self, on: bool) -> None:
        """Whether calls of the model are noticed: only where the step that they begin may be looked at."""
        if on and not self._root:
            self._root.append(self.model.register_forward_pre_hook(self._told("_begin")))
        elif self._root and not on:
            _remove([self._root])

    def _begin(self, *_: Any) -> None:
        """The model is called: unless the call belongs to the step before, that is over."""
        if not is_grad_enabled() or not self.model.training:
            return
        if self._begun and (self._waiting or self._optimizer is not None):
            return
        self._finish()
        step, self.calls, self._begun = self.calls, self.calls + 1, True
        if self._optimizer is not None:
            self._listen(False)  # its step tells when calls matter again
        if step % self.every:
            return
        self._step = step
        self._pre_hook.append(register_optimizer_step_pre_hook(self._told("_before_update")))
        for name, module in self.model.named_modules():
            if not next(module.children(), None):
                self._now[module] = LayerStatistics(step, name or "the model", type(module).__name__)
                self._handles[module] = module.register_forward_hook(self._look)

    def _look(self, module: Module, inputs: Any, output: Any) -> None:
        row = self._now.get(module)
        tensor = output[0] if isinstance(output, tuple) else output
        if row is None or not isinstance(tensor, Tensor) or not tensor.is_floating_point() or not tensor.numel():
            return
        if row.used:
            return
        row.used = True
        self._handles.pop(module).remove()  # later calls in the step run as without it
        row.line = line_text(place_of(frame_at(2)))
        with no_grad():
            seen = _Seen(row, tensor, [value for value in inputs if isinstance(value, Tensor)])
        if MODES.recorder is None:
            self._note_output(seen)
        else:
            self._seen.append(seen)  # a scope of autobatch computes it with the rest
        if tensor.requires_grad:
            self._waiting.add(id(row))
            tensor.register_hook(lambda g: self._note_gradient(row, g))

    def _note_output(self, seen: _Seen) -> None:
        row = seen.row
        constant = seen.read()
        if constant:
            self._alarm("constant", row, f"gives the same for all {seen.count} examples of the batch")
        if not math.isfinite(row.mean) or not math.isfinite(row.spread):
            self._alarm(
                "not finite",
                row,
                "gives what is not a number; dynograd.debug.provenance() and explain() tell where it comes from",
            )

    def _note_gradient(self, row: LayerStatistics, g: Tensor) -> None:
        self._waiting.discard(id(row))
        with no_grad():
            x = g.packed if isinstance(g, RaggedTensor) else g
            row.gradient = _norm([x]) / math.sqrt(max(x.numel(), 1))

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        """Gradients are whole: their norms, and the weights as they are before the optimizer takes its step."""
        if self._moved and self._counts(optimizer):
            self._finish()
        if self._step < 0:
            return
        with no_grad():
            for module, row in self._now.items():
                own = [p for p in module._parameters.values() if p is not None and p.requires_grad]
                if own and module not in self._before:
                    row.weights = _norm(own)
                    grads = [p.grad for p in own if p.grad is not None]
                    row.weight_gradient = _norm(grads) if grads else None
                    self._before[module] = [(p, p.detach().clone()) for p in own]

    def _after_update(self, optimizer: Any, *_: Any) -> None:
        if self._step < 0 and not self._root and self._optimizer is not None and self._optimizer() is optimizer:
            self.calls += 1  # a step between, of which nothing else was noticed
            if not self.calls % self.every:
                self._listen(True)
            return
        if self._step >= 0:
            with no_grad():
                for module, before in self._before.items():
                    row = self._now[module]
                    change = _norm([p - old for p, old in before])
                    row.update = change / row.weights if row.weights else None
        if self._counts(optimizer):
            if self._step >= 0:
                self._moved = True
                self._unhook()
            self._begun = False
            self._waiting.clear()
            self._listen(self.calls % self.every == 0)

    def _unhook(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        self._handles = {}

    def _counts(self, optimizer: Any) -> bool:
        """Whether its steps are those of the model: it is the first that has some of its parameters."""
        known = None if self._optimizer is None else self._optimizer()
        if known is None:
            own = {id(parameter) for parameter in self.model.parameters()}
            if all([id(p) not in own for group in optimizer.param_groups for p in group["params"]]):
                return False
            self._optimizer, known = weakref.ref(optimizer), optimizer
        return known is optimizer

    def _finish(self) -> None:
        """The step that was looked at is over: its rows are kept, and looked through."""
        if self._step < 0:
            return
        self._unhook()
        _remove([self._pre_hook])
        for seen in self._seen:
            self._note_output(seen)
        self._seen = []
        rows = list(self._now.values())
        self.rows.append(rows)
        self._judge(rows)
        if self.writer is not None:
            for row in rows:
                for name in (
                    "mean",
                    "spread",
                    "zeros",
                    "dead",
                    "saturated",
                    "gradient",
                    "weights",
                    "weight_gradient",
                    "update",
                ):
                    value = getattr(row, name)
                    if value is not None:
                        self.writer.add_scalar(f"{name}/{row.layer}", value, row.step)
        self._now, self._before, self._step, self._moved = {}, {}, -1, False
        self._waiting.clear()

    def _judge(self, rows: list[LayerStatistics]) -> None:
        took_step = any([row.update is not None for row in rows])
        gradients = sorted([row.gradient for row in rows if row.gradient])
        updates = sorted([row.update for row in rows if row.update])
        usual = updates[len(updates) // 2] if updates else 0.0
        for position, row in enumerate(rows):
            module = next(module for module, other in self._now.items() if other is row)
            own = list(module.parameters(recurse=False))
            trained = any([p.requires_grad for p in own])
            if not row.used:
                if own:
                    self._alarm("unused", row, "was not called in this step")
                continue
            if row.dead > _MOSTLY or (row.zeros > 0.999 and row.kind != "Dropout"):
                self._alarm("dead", row, f"{row.dead:.0%} of its units give zero for the whole batch")
            if row.saturated is not None and row.saturated > _MOSTLY:
                self._alarm(
                    "saturated",
                    row,
                    f"{row.saturated:.0%} of what it gives lies next to its bounds, where the slope is near zero",
                )
            if row.gradient is not None and not math.isfinite(row.gradient):
                self._alarm("not finite", row, "the gradient of what it gives is not a number")
            elif row.gradient and (after := _gradient_behind(rows, position)) and row.gradient > _EXPLODING * after:
                self._alarm(
                    "exploding",
                    row,
                    f"its gradient ({number(row.gradient)}) is {number(row.gradient / after)} times that of the layer behind it",
                )
            elif row.gradient is not None and gradients and row.gradient < _VANISHING * gradients[-1]:
                self._alarm(
                    "vanishing",
                    row,
                    f"its gradient ({number(row.gradient)}) is {number(row.gradient / gradients[-1])} of the largest",
                )
            if own and not trained:
                self._alarm("frozen", row, "none of its parameters require a gradient")
            elif trained and took_step and row.weight_gradient is None:
                self._alarm("no gradient", row, "its parameters got no gradient; dynograd.explain(parameter) tells why")
            if row.update is not None and row.weights:
                if row.update > _FAST:
                    self._alarm("fast", row, f"the step changed its parameters by {row.update:.1%} of their norm")
                elif row.weight_gradient and row.update < max(_SLOW, usual * 1e-3):
                    self._alarm("slow", row, f"the step changed its parameters by {number(row.update)} of their norm")

    def _alarm(self, kind: str, row: LayerStatistics, text: str) -> None:
        if (kind, row.layer) in self._raised:
            return
        self._raised.add((kind, row.layer))
        alarm = Alarm(kind, row.step, row.layer, row.line, text)
        self.alarms.append(alarm)
        if self._tell is not None:
            self._tell(alarm)

    # --- reading --------------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        self._finish_if_read()
        if not self.rows:
            return "watch: no step was looked at yet"
        names = ["layer", "kind", "mean", "spread", "zeros", "dead", "saturated", "gradient", "weights", "update"]
        table = [names] + [[_cell(getattr(row, name)) for name in names] for row in self.rows[-1]]
        widths = [max(len(line[column]) for line in table) for column in range(len(names))]
        lines = [f"step {self.rows[-1][0].step}"]
        for line in table:
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        return "\n".join([*lines, *[f"! {alarm}" for alarm in self.alarms]])

    __repr__ = __str__

    def _finish_if_read(self) -> None:
        if self._step >= 0 and any([row.update is not None for row in self._now.values()]):
            self._finish()

    def series(self, name: str, layer: str) -> list[tuple[int, float]]:
        """(step, value) pairs of one statistic of one layer.

        Args:
            name: a field of `LayerStatistics`, such as "gradient".
            layer: the module's path.
        Returns:
            A list, the earliest step first; steps without that value are left out.
        Raises:
            KeyError: there is no such layer.
        """
        rows = [row for rows in self.rows for row in rows if row.layer == layer]
        if not rows:
            layers = sorted({row.layer for rows in self.rows for row in rows})
            raise KeyError(f"watch: expected one of the layers {layers}, got {layer!r}.")
        return [(row.step, getattr(row, name)) for row in rows if getattr(row, name) is not None]

    def plot(self, file: str, name: str = "gradient") -> None:
        """Draws one statistic of all layers over the steps (extra `viz`: matplotlib).

        Args:
            file: `watch.svg`, `watch.png`, ...
            name: a field of `LayerStatistics`.
        Raises:
            ImportError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("watch: plot needs matplotlib: pip install 'dynograd[viz]'.") from error
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        for layer in dict.fromkeys(row.layer for rows in self.rows for row in rows):
            points = self.series(name, layer)
            if points:
                axes.plot([step for step, _ in points], [value for _, value in points], label=layer)
        axes.set(xlabel="step", ylabel=name, yscale="log" if name in ("gradient", "update", "weights") else "linear")
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(file)


class _Seen:
    """What a layer gave, as far as it has been computed: its numbers are read later, where a scope of `autobatch` computes them."""

    def __init__(self, row: LayerStatistics, output: Tensor, inputs: list[Tensor]) -> None:
        x = (output.packed if isinstance(output, RaggedTensor) else output).detach()
        self.row, self.count, self.x, self.inputs = row, len(x) if x.ndim else 1, x, inputs
        spread, mean = std_mean(x, correction=0)
        self.numbers = {"mean": mean, "spread": spread, "zeros": count_nonzero(x)}
        low = _SATURATING.get(row.kind)
        if low is not None:
            near = (1 - low) * _NEAR
            self.numbers["saturated"] = ((x < low + near) | (x > 1 - near)).float().mean()
        self.constant = _is_constant(x) if not isinstance(output, RaggedTensor) else None

    def read(self) -> bool:
        """Writes the numbers into the row; whether all examples are one, though they came from others."""
        row = self.row
        for name, value in self.numbers.items():
            setattr(row, name, value.item())
        row.zeros = 1 - row.zeros / self.x.numel()
        if row.zeros > 0 and self.x.ndim > 1:
            units = 1 if self.x.ndim in (3, 4, 5) and "Conv" in row.kind else -1
            row.dead = (self.x == 0).movedim(units, 0).flatten(1).all(1).float().mean().item()
        if self.constant is None or not self.constant.item():
            return False
        before = [_is_constant(value) for value in self.inputs if not isinstance(value, RaggedTensor)]
        return not any([flag is not None and flag.item() for flag in before])


def _told(watcher: weakref.ref[Watcher], method: str, args: Any) -> None:
    """Hooks hold no watcher: one that the program has let go of watches no more."""
    alive = watcher()
    if alive is not None:
        getattr(alive, method)(*args)


def _remove(lists: list[list[Any]]) -> None:
    for handles in lists:
        for handle in handles:
            handle.remove()
        handles.clear()


def _gradient_behind(rows: list[LayerStatistics], position: int) -> float | None:
    """The gradient of the next layer that got one."""
    return next((row.gradient for row in rows[position + 1 :] if row.gradient), None)


def _is_constant(x: Tensor) -> Tensor | None:
    """Whether all examples of a batch are one; None where it has no two."""
    return (x == x[:1]).all() if x.ndim > 1 and len(x) > 1 else None


def _norm(tensors: list[Any]) -> float:
    return math.hypot(*[vector_norm(tensor.to_dense() if tensor.is_sparse else tensor).item() for tensor in tensors])


def _cell(value: Any) -> str:
    return "" if value is None else (value if isinstance(value, str) else number(float(value)))


def _warn(alarm: Alarm) -> None:
    warnings.warn(f"watch: {alarm}", stacklevel=2)


def watch(
    model: Module,
    *,
    every: int = 200,
    alarm: Callable[[Alarm], Any] | None = _warn,
    writer: Any = None,
    keep: int = 1000,
) -> Watcher:
    """Looks at each layer of a model every 200 training steps: activations, gradients, weights, updates; and raises alarms.

    A step ends when the first optimizer that has parameters of the model has taken its own: until then all calls of the model belong to it, as
    those of the examples in a scope of `autobatch`, where what the first call gave is looked at. Without an optimizer it is a call of the model
    in training, with its backward pass. The other steps run as without it, up to a few calls in the optimizer's step.

    Args:
        model: the module whose calls are counted; its innermost modules are the layers.
        every: look at every so many steps; a step that is looked at takes about three times as long.
        alarm: called with each `Alarm`, once for each kind and layer; the default warns. None: they are only kept in `alarms`.
        writer: gets `add_scalar(name, value, step)` for each number: a `SummaryWriter`.
        keep: so many of the steps that were looked at are kept.
    Returns:
        A `Watcher`, which watches as long as you keep it, or until `close()`.
    Raises:
        TypeError: `model` is no module.
        ValueError: `every` or `keep` is below 1.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 2), dynograd.nn.ReLU())
    >>> with dynograd.no_grad():
    ...     _ = model[0].bias.fill_(-100)
    >>> with dynograd.debug.watch(model, alarm=None) as watcher:
    ...     model(dynograd.ones(4, 2)).sum().backward()
    >>> [alarm.layer for alarm in watcher.alarms if alarm.kind == "dead"]
    ['1']
    """
    if not isinstance(model, Module):
        raise TypeError(f"watch: expected a module, got {type(model).__name__}.")
    if every < 1 or keep < 1:
        raise ValueError(f"watch: expected every >= 1 and keep >= 1, got every={every}, keep={keep}.")
    return Watcher(model, every, alarm, writer, keep)
