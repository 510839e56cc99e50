"""`dynograd.summary`: a table of a model's layers with shapes, parameters, time and memory, from running it on an input."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

from dynograd import cuda
from dynograd.autograd.modes import MODES, enable_grad, no_grad
from dynograd.interpreter.differentiation import grad
from dynograd.nn import Module
from dynograd.nn.parameter import is_lazy
from dynograd.profiler.ranges import listen, stop_listening
from dynograd.profiler.recording import Recorder
from dynograd.tensor.randomness import fork_rng
from dynograd.tensor.tensor import Tensor

__all__ = ["LayerSummary", "Summary", "summary"]

_COLUMNS = ("Layer", "Output", "Parameters", "Calls", "Time", "Memory")


def summary(model: Module, *inputs: object, depth: int | None = None, repeats: int = 3, **keywords: object) -> Summary:
    """What the layers of `model` make of an input: shapes, parameters, time and memory; `print` it, or look at it in a notebook.

    The model runs 2 + 2 * `repeats` times, half of them with backward, in the mode it is in (`model.eval()` first, if that is what you want
    to see). Its buffers and the random generator are put back as they were, gradients are not touched; lazy layers keep the shapes they found.

    Args:
        model: a Module, on the device of its inputs.
        inputs: what the model is called with, one or several; ragged tensors, too.
        depth: how many levels of modules are listed; None: all.
        repeats: passes whose times are taken, forward and backward, behind a first one, in which kernels are compiled. Times are medians.
        keywords: given to the model by name.
    Returns:
        a `Summary`.
    Raises:
        TypeError: `model` is no module, or there is no input.
        ValueError: `repeats` or `depth` is below 1.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 3), dynograd.nn.ReLU(), dynograd.nn.Linear(3, 1))
    >>> told = dynograd.summary(model, dynograd.ones(4, 2))
    >>> [(row.name, row.kind, row.output, row.parameters) for row in told.layers][1:]
    [('0', 'Linear', '(4, 3)', 9), ('1', 'ReLU', '(4, 3)', 0), ('2', 'Linear', '(4, 1)', 4)]
    >>> told.parameters, told.trained, told.unused
    (13, 13, [])
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary: expected a Module, got {type(model).__name__}. Pass the model and then its input.")
    if not inputs and not keywords:
        raise TypeError(
            f"summary: expected an input for {type(model).__name__}, got none. Pass a batch, e.g. summary(model, x)."
        )
    for name, value in (("repeats", repeats), ("depth", depth)):
        if value is not None and value < 1:
            raise ValueError(f"summary: expected {name} of at least 1, got {value}.")

    def run() -> object:
        return model(*inputs, **keywords)

    with _as_it_was(model):
        run()  # compiles kernels, and gives lazy layers their shapes
        result = Summary(model, depth)
        _measure(model, run, result, repeats)
        _look_backward(model, run, result, repeats)
    return result


@dataclass
class LayerSummary:
    """A row of a `Summary`.

    Attributes:
        name: where the module is in the model, "" for the model itself.
        kind: the name of its class.
        output: the shapes of what its last call returned; "" if it was not called.
        parameters: how many numbers its parameters are, those of the modules inside included.
        calls: how often it ran in one pass.
        seconds: the time of its calls in one forward pass, that of the modules inside included.
        bytes: of the results that were made in it, those of the modules inside included.
    """

    name: str
    kind: str
    output: str = ""
    parameters: int = 0
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0

    @property
    def depth(self) -> int:
        return self.name.count(".") + 1 if self.name else 0


@dataclass
class Summary:
    """What `summary` returns; `str` is the table.

    Attributes:
        layers: a `LayerSummary` for the model and each module in it.
        parameters, trained: how many numbers the parameters are, and of those that want a gradient.
        parameter_bytes: their memory.
        forward, backward: seconds; backward is 0 where the output has no history.
        unused: names of parameters that want a gradient and have no part in the output.
    """

    model: Module = field(repr=False)
    listed: int | None = None
    layers: list[LayerSummary] = field(init=False)
    parameters: int = field(init=False)
    trained: int = field(init=False)
    parameter_bytes: int = field(init=False)
    forward: float = 0.0
    backward: float = 0.0
    unused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        parameters = [parameter for parameter in self.model.parameters() if not is_lazy(parameter)]
        self.parameters = sum([parameter.numel() for parameter in parameters])
        self.trained = sum([parameter.numel() for parameter in parameters if parameter.requires_grad])
        self.parameter_bytes = sum([parameter.nbytes for parameter in parameters])
        self.layers = [
            LayerSummary(
                name,
                type(module).__name__,
                parameters=sum([parameter.numel() for parameter in module.parameters() if not is_lazy(parameter)]),
            )
            for name, module in self.model.named_modules()
        ]

    def __str__(self) -> str:
        cells = [_COLUMNS, *self._cells()]
        widths = [max([len(row[place]) for row in cells]) for place in range(len(_COLUMNS))]
        lines = []
        for row in cells:
            left = [text.ljust(width) for text, width in zip(row[:2], widths)]
            right = [text.rjust(width) for text, width in zip(row[2:], widths[2:])]
            lines.append("  ".join([*left, *right]).rstrip())
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join([*lines, lines[1], *self._totals()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join([f"<th style='text-align:left'>{name}</th>" for name in _COLUMNS])
        rows = []
        for row in self._cells():
            layer = row[0].replace("  ", "\N{EM SPACE}")
            rest = "".join([f"<td style='text-align:right'>{escape(text)}</td>" for text in row[2:]])
            rows.append(
                f"<tr><td style='text-align:left'>{escape(layer)}</td><td style='text-align:left'>{escape(row[1])}</td>{rest}</tr>"
            )
        totals = "".join([f"<div>{escape(line)}</div>" for line in self._totals()])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{totals}"

    def _cells(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for layer in self.layers:
            if self.listed is not None and layer.depth > self.listed:
                continue
            label = f"{layer.name.rpartition('.')[2]}: {layer.kind}" if layer.name else layer.kind
            counted = f"{layer.parameters:,}" if layer.parameters else "-"
            if layer.calls:
                told = (f"{layer.calls}", _seconds(layer.seconds), _bytes(layer.bytes))
            else:
                told = ("-", "-", "-")
            rows.append(("  " * layer.depth + label, layer.output or "-", counted, *told))
        return rows

    def _totals(self) -> list[str]:
        root = self.layers[0]
        lines = [
            f"Parameters: {self.parameters:,} ({_bytes(self.parameter_bytes)}), {self.trained:,} of them trained",
            f"Forward: {_seconds(self.forward)}, {_bytes(root.bytes)} of results"
            + (f". Backward: {_seconds(self.backward)}" if self.backward else ""),
        ]
        if self.unused:
            lines.append(f"Unused parameters: {', '.join(self.unused)}")
        return lines


@contextmanager
def _as_it_was(model: Module) -> Iterator[None]:
    """Puts buffers and the random generator back."""
    kept = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and not is_lazy(buffer)
    ]
    with fork_rng():
        try:
            yield
        finally:
            with no_grad():
                for module, name, buffer, values in kept:
                    module._buffers[name] = buffer
                    if not buffer.equal(values):
                        buffer.copy_(values)


def _measure(model: Module, run: Callable[[], Any], told: Summary, repeats: int) -> None:
    """Time, memory and shapes of each module."""
    on_gpu = any([parameter.is_cuda for parameter in model.parameters()])
    rows = {id(module): row for module, row in zip(model.modules(), told.layers)}
    recorder = Recorder(frozenset({"memory"}))
    marks: list[Any] = []
    events: dict[int, list[Any]] = {key: [] for key in rows}

    def before(module: Module, args: Any) -> None:
        if on_gpu:
            cuda.synchronize()
        marks.append(recorder.begin("module", type(module).__name__, ()))

    def after(module: Module, args: Any, output: Any) -> None:
        if on_gpu:
            cuda.synchronize()
        mark = marks.pop()
        recorder.end(mark, None)
        events[id(module)].append(mark)
        rows[id(module)].output = _shapes(output)

    handles = []
    for module in model.modules():
        handles.append(module.register_forward_pre_hook(before, prepend=True))
        handles.append(module.register_forward_hook(after))
    passes: list[dict[int, float]] = []
    listen(recorder)
    try:
        for _ in range(repeats):
            for listed in events.values():
                listed.clear()
            run()
            passes.append(
                {key: sum([event.cpu_time_total for event in listed]) / 1e6 for key, listed in events.items()}
            )
    finally:
        stop_listening(recorder)
        for handle in handles:
            handle.remove()
    for key, row in rows.items():
        row.calls = len(events[key])
        row.seconds = statistics.median([times[key] for times in passes])
        row.bytes = sum([event.cpu_memory_usage for event in events[key]])
    told.forward = told.layers[0].seconds


def _look_backward(model: Module, run: Callable[[], Any], told: Summary, repeats: int) -> None:
    """The time of backward, and the parameters that it does not reach."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained or MODES.inference:
        return
    gradients: Any = [None] * len(trained)
    times = []
    for _ in range(1 + repeats):  # the first compiles kernels
        with enable_grad():
            outputs = [output.sum() for output in _tensors(run()) if output.requires_grad]
            if not outputs:
                break
            total = sum([output.real if output.is_complex() else output for output in outputs])
            begun = time.perf_counter()
            gradients = grad(total, list(trained.values()), allow_unused=True)
            if any([parameter.is_cuda for parameter in trained.values()]):
                cuda.synchronize()
            times.append(time.perf_counter() - begun)
    told.backward = statistics.median(times[1:]) if times else 0.0
    told.unused = [name for name, gradient in zip(trained, gradients) if gradient is None]


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in what a module returned."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    elif not isinstance(value, (list, tuple)):
        value = list(getattr(value, "__dict__", {}).values())
    return [tensor for part in value for tensor in _tensors(part)]


def _shapes(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    if isinstance(value, Mapping):
        return f"{{{', '.join([f'{key}: {_shapes(part)}' for key, part in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return ", ".join([_shapes(part) for part in value])
    return type(value).__name__


def _seconds(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.0f} us"


def _bytes(count: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
