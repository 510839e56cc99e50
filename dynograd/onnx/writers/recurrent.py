"""Recurrent layers as ONNX's own."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("lstm_layer")
def lstm_layer(call: Call) -> list[str]:
    return _recurrent(
        call, "LSTM", (0, 3, 1, 2)
    )  # ours are input, forget, cell, output; ONNX has input, output, forget, cell


@writer("gru_layer")
def gru_layer(call: Call) -> list[str]:
    return _recurrent(
        call, "GRU", (1, 0, 2), linear_before_reset=1
    )  # ours are reset, update, new; ONNX has update, reset, new


@writer("rnn_layer")
def rnn_layer(call: Call) -> list[str]:
    return _recurrent(call, "RNN", (0,), activations=[{"tanh": "Tanh", "relu": "Relu"}[call.static("nonlinearity")]])


@writer("lstm_step")
def lstm_step(call: Call) -> list[str]:
    """h' = o * tanh(c') and c' = f * c + i * g."""
    gates = call.nodes_of("Split", [call.input("input"), call.ints(*[call.fixed(-1, "cell")] * 4)], 4, axis=-1)
    i, f, o = [call.node("Sigmoid", [gates[number]]) for number in (0, 1, 3)]
    entering = call.node("Mul", [i, call.node("Tanh", [gates[2]])])
    cell = call.node("Add", [call.node("Mul", [f, call.input("cell")]), entering])
    return [call.node("Mul", [o, call.node("Tanh", [cell])]), cell]


@writer("gru_step")
def gru_step(call: Call) -> str:
    """h' = n + z * (h - n) with n = tanh(x_n + r * h_n)."""
    sizes = call.ints(*[call.fixed(-1, "hidden")] * 3)
    x, h = [call.nodes_of("Split", [call.input(name), sizes], 3, axis=-1) for name in ("input", "other")]
    r, z = [call.node("Sigmoid", [call.node("Add", [x[number], h[number]])]) for number in (0, 1)]
    new = call.node("Tanh", [call.node("Add", [x[2], call.node("Mul", [r, h[2]])])])
    return call.node("Add", [new, call.node("Mul", [z, call.node("Sub", [call.input("hidden"), new])])])


def _recurrent(call: Call, kind: str, order: tuple[int, ...], **options: Any) -> list[str]:
    """The layer in one direction: (T, B, I) to (T, B, H), and its last states."""
    ragged = call.static("ragged")
    if call.rank() != 3 and not ragged:
        raise call.refused("of packed rows (give padded ones with lengths)")
    size = call.fixed(-1, "h_0")
    weights = [call.unsqueeze(_gates(call, name, size, order), 0) for name in ("weight_ih", "weight_hh")]
    zeros = call.number(numpy.zeros(len(order) * size))
    biases = [_gates(call, name, size, order) if call.has(name) else zeros for name in ("bias_ih", "bias_hh")]
    bias = call.unsqueeze(call.node("Concat", biases, axis=0), 0)
    lengths = call.cast(call.input("lengths"), numpy.int32) if call.has("lengths") else ""
    rows, places = _padded(call) if ragged else (call.input("input"), "")
    states = [call.unsqueeze(call.input(name), 0) for name in ("h_0", "c_0") if name in call.arguments]
    direction = "reverse" if call.static("reverse") else "forward"
    names = call.nodes_of(
        kind,
        [rows, *weights, bias, lengths, *states],
        len(states) + 1,
        hidden_size=size,
        direction=direction,
        **options,
    )
    outputs = [call.squeeze(names[0], 1), *[call.squeeze(name, 0) for name in names[1:]]]
    if ragged:
        outputs[0] = call.node("GatherND", [outputs[0], places])
    return outputs[: call.count]


def _gates(call: Call, name: str, size: int, order: tuple[int, ...]) -> str:
    """A weight with its gates in ONNX's order. Runtimes do this once, when they load the model."""
    weight = call.input(name)
    if len(order) == 1:
        return weight
    parts = call.nodes_of("Split", [weight, call.ints(*[size] * len(order))], len(order), axis=0)
    return call.node("Concat", [parts[gate] for gate in order], axis=0)


def _padded(call: Call) -> tuple[str, str]:
    """Rows behind one another as padded ones (T, B, I), and (N, 2) the places of the values in these."""
    lengths, values = call.cast(call.input("lengths"), numpy.int64), call.input("input")
    zero, step = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    ends = call.node("CumSum", [lengths, zero])
    starts = call.node("Sub", [ends, lengths])
    count = call.squeeze(call.node("Shape", [values], start=0, end=1), 0)
    order = call.node("Range", [zero, count, step])
    passed = call.cast(call.node("GreaterOrEqual", [call.unsqueeze(order, 1), ends]), numpy.int64)
    rows = call.reduce("ReduceSum", passed, [1], False)
    within = call.node("Sub", [order, call.node("Gather", [starts, rows], axis=0)])
    places = call.node("Concat", [call.unsqueeze(within, 1), call.unsqueeze(rows, 1)], axis=1)
    longest = call.reduce("ReduceMax", lengths, [0], True)
    sizes = call.node("Concat", [longest, call.node("Shape", [lengths]), call.ints(call.fixed(-1))], axis=0)
    zeros = call.node("Expand", [call.number(0), sizes])
    return call.node("ScatterND", [zeros, places, values]), places
