"""Recurrent layers: dynograd's where they do the same, else step by step, as ONNX defines them: gates, peepholes, lengths, directions, clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dynograd.errors import OnnxError
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import dynograd
from dynograd.tensor.tensor import Tensor

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Sigmoid": dynograd.sigmoid,
    "Tanh": dynograd.tanh,
    "Relu": dynograd.relu,
    "Softsign": dynograd.nn.functional.softsign,
    "Softplus": dynograd.nn.functional.softplus,
}


def _functions(names: Any, usual: list[str], directions: int) -> list[list[Callable[..., Any]]]:
    names = names or usual * directions
    for name in names:
        if name not in _FUNCTIONS:
            raise OnnxError(
                f"onnx.load: a recurrent layer has the activation {name!r}. Expected one of {', '.join(_FUNCTIONS)}; "
                "export the model with one of these."
            )
    width = len(usual)
    return [[_FUNCTIONS[name] for name in names[i * width : (i + 1) * width]] for i in range(directions)]


def _run(x: Tensor, states: list, direction: str, layout: int, layer: Callable[..., Any]) -> tuple:
    """Runs `layer(direction's number, x, states, whether it goes backwards)` in each direction: (outputs, last states)."""
    x = x.transpose(0, 1) if layout else x
    states = [state.transpose(0, 1) if layout else state for state in states]
    outputs, lasts = [], []
    for number, reverse in enumerate(
        {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    ):
        output, *last = layer(number, x, [state[number] for state in states], reverse)
        outputs.append(output)
        lasts.append(last)
    y = dynograd.stack(outputs, 1)
    finals = [dynograd.stack(state) for state in zip(*lasts)]
    if layout:
        return (y.permute(2, 0, 1, 3), *(state.transpose(0, 1) for state in finals))
    return (y, *finals)


def _whole(
    layer: Callable[..., Any], w: Tensor, r: Tensor, b: Tensor | None, lengths: Tensor | None, order: Sequence[int]
) -> Callable[..., Any]:
    """A layer of dynograd for `_run`; `order` says where its gates are in ONNX's matrices."""

    def ordered(matrix: Tensor) -> Tensor:
        blocks = matrix.chunk(len(order))
        return dynograd.cat([blocks[place] for place in order]) if len(order) > 1 else matrix

    def run(number: int, x: Tensor, states: list, reverse: bool) -> tuple:
        biases = (None, None) if b is None else map(ordered, b[number].chunk(2))
        counts = None if lengths is None else lengths.to(dynograd.int64)
        return layer(x, *states, ordered(w[number]), ordered(r[number]), *biases, lengths=counts, reverse=reverse)

    return run


def _stepped(step: Callable[..., list], lengths: Tensor | None) -> Callable[..., Any]:
    """A layer for `_run` that calls `step(direction's number, x at a time, states)`, for what no layer of dynograd does."""

    def run(number: int, x: Tensor, states: list, reverse: bool) -> tuple:
        outputs = []
        for time in range(x.shape[0])[:: -1 if reverse else 1]:
            new = step(number, x[time], states)
            if lengths is None:
                states, output = new, new[0]
            else:
                inside = (lengths > time)[:, None]
                states = [dynograd.where(inside, after, before) for after, before in zip(new, states)]
                output = dynograd.where(inside, new[0], dynograd.zeros_like(new[0]))
            outputs.append(output)
        return (dynograd.stack(outputs[:: -1 if reverse else 1]), *states)

    return run


def _start(state: Any, x: Any, directions: int, size: int, layout: int) -> Tensor:
    if state is not None:
        return state
    batch = x.shape[0 if layout else 1]
    return dynograd.zeros((batch, directions, size) if layout else (directions, batch, size), dtype=x.dtype)


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else dynograd.clamp(x, -clip, clip)


def _biases(b: Any, number: int, gates: int, size: int) -> tuple:
    return (0, 0) if b is None else (b[number][: gates * size], b[number][gates * size :])


@operator("RNN", outputs=2)
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None,
    *, activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0,
) -> tuple:  # fmt: skip
    directions, size = r.shape[0], r.shape[-1]
    functions = _functions(activations, ["Tanh"], directions)
    starts = [_start(h, x, directions, size, layout)]
    for name in ("Tanh", "Relu"):
        if clip is None and (activations or ["Tanh"]) == [name] * directions:
            layer = partial(dynograd.rnn_layer, nonlinearity=name.lower())
            return _run(x, starts, direction, layout, _whole(layer, w, r, b, lengths, (0,)))

    def step(number: int, now: Any, states: list) -> list:
        wb, rb = _biases(b, number, 1, size)
        return [functions[number][0](_clipped(now @ w[number].T + wb + states[0] @ r[number].T + rb, clip))]

    return _run(x, starts, direction, layout, _stepped(step, lengths))


@operator("GRU", outputs=2)
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None,
    *, activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0, linear_before_reset: int = 0,
) -> tuple:  # fmt: skip
    directions, size = r.shape[0], r.shape[-1]
    usual = ["Sigmoid", "Tanh"]
    functions, starts = _functions(activations, usual, directions), [_start(h, x, directions, size, layout)]
    if linear_before_reset and clip is None and activations in (None, usual * directions):
        return _run(x, starts, direction, layout, _whole(dynograd.gru_layer, w, r, b, lengths, (1, 0, 2)))

    def step(number: int, now: Any, states: list) -> list:
        gate, new = functions[number]
        wb, rb = _biases(b, number, 3, size)
        inputs, hidden, before = now @ w[number].T + wb, states[0], 2 * size
        recurrent = hidden @ r[number][:before].T + (rb if b is None else rb[:before])
        update, reset = gate(_clipped(inputs[:, :before] + recurrent, clip)).split(size, -1)
        weight, bias = r[number][before:].T, (0 if b is None else rb[before:])
        if linear_before_reset:
            candidate = reset * (hidden @ weight + bias)
        else:
            candidate = (reset * hidden) @ weight + bias
        candidate = new(_clipped(inputs[:, before:] + candidate, clip))
        return [(1 - update) * candidate + update * hidden]

    return _run(x, starts, direction, layout, _stepped(step, lengths))


@operator("LSTM", outputs=3)
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None,
    c: Tensor | None = None, p: Tensor | None = None, *, activations: Any = None, activation_alpha: Any = None,
    activation_beta: Any = None, clip: float | None = None, direction: str = "forward", hidden_size: int = 0,
    input_forget: int = 0, layout: int = 0,
) -> tuple:  # fmt: skip
    directions, size = r.shape[0], r.shape[-1]
    usual = ["Sigmoid", "Tanh", "Tanh"]
    functions = _functions(activations, usual, directions)
    starts = [_start(h, x, directions, size, layout), _start(c, x, directions, size, layout)]
    if not input_forget and clip is None and p is None and activations in (None, usual * directions):
        return _run(x, starts, direction, layout, _whole(dynograd.lstm_layer, w, r, b, lengths, (0, 2, 3, 1)))

    def step(number: int, now: Any, states: list) -> list:
        gate, new, out = functions[number]
        hidden, cell = states
        wb, rb = _biases(b, number, 4, size)
        i, o, f, candidate = (now @ w[number].T + wb + hidden @ r[number].T + rb).split(size, -1)
        pi, po, pf = (0, 0, 0) if p is None else p[number].split(size)
        i = gate(_clipped(i + pi * cell, clip))
        f = 1 - i if input_forget else gate(_clipped(f + pf * cell, clip))
        cell = f * cell + i * new(_clipped(candidate, clip))
        return [gate(_clipped(o + po * cell, clip)) * out(cell), cell]

    return _run(x, starts, direction, layout, _stepped(step, lengths))
