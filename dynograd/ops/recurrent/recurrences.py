"""Recurrent layers: one layer, one direction, over whole sequences, padded or packed. Single steps are in `cells.py`.

A layer runs as one fused kernel (`kernels/recurrent/recurrent_cpu.py`); its `decomposition` is the same thing step by step, from which
gradients of any order and forward mode come. Shapes: T time, B batch, N tokens, I inputs, H hidden.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base.values import has_own_values
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.activations import relu
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.elementwise.exponentials import tanh
from dynograd.ops.index.indexing import get_advanced, get_basic
from dynograd.ops.layout.joins import joined, stack
from dynograd.ops.layout.views import reshaped
from dynograd.ops.matmul.matmuls import linear
from dynograd.ops.op import Gradients, op
from dynograd.ops.recurrent.cells import gru_of_gates, lstm_of_gates
from dynograd.ops.row import Row

__all__ = ["gru_layer", "lstm_layer", "projected_lstm", "rnn_layer"]

FAMILY = Row(out=None)


@op(
    outputs="output h_n c_n",
    extras="reserve",
    cast="lower",
    inner=True,
    partly_at_once="lengths of sequences are checked against the tokens",
    work="recurrence",
)
def lstm_layer(
    input: Array,
    h_0: Array,
    c_0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    lengths: Array | None = None,
    reverse: bool = False,
    ragged: bool = False,
) -> Array:
    """One direction of one LSTM layer: c' = f * c + i * g, h' = o * tanh(c').

    i, f, o are sigmoids and g a tanh of the four blocks of `input @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh`, in this
    order. A row keeps its states after its last step, and its outputs beyond are 0; padding costs nothing.

    Args:
        input (T, B, I): whatever lies beyond a row's length is not read. Or (N, I), packed: the real tokens only, those of the first
            step, then of the second, ...; rows are in the order of `lengths`, longest first. Or with `ragged`, (N, I): the tokens of
            the first row, then of the second, ..., in any order of lengths.
        h_0, c_0 (B, H): states before the first step.
        weight_ih (4 H, I), weight_hh (4 H, H), bias_ih (4 H,), bias_hh (4 H,): biases may be None.
        lengths (B,): steps of each row, in any order, 0 allowed; None: all T.
        reverse: each row runs from its own last step to its first.
        ragged: see `input`.
    Returns:
        output (T, B, H), or (N, H) for tokens (N, I); h_n (B, H), c_n (B, H).
    Raises:
        ShapeError: sizes that do not fit each other.
        IndexRangeError: a length outside 0 to T; lengths that grow or do not add up to N.

    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997; forget gates: Gers et al., Learning to forget, 2000.

    >>> ops = dynograd.zeros(3, 2, 5), dynograd.zeros(2, 4), dynograd.zeros(2, 4), dynograd.ones(16, 5), dynograd.ones(16, 4)
    >>> output, h, c = dynograd.lstm_layer(*ops)
    >>> output.shape, c.shape
    (dynograd.Size([3, 2, 4]), dynograd.Size([2, 4]))
    """
    _check("lstm_layer", 4, input, (h_0, c_0), weight_ih, weight_hh, bias_ih, bias_hh, lengths, ragged)
    result = kernel("recurrent", "lstm_forward", input)(
        input, h_0, c_0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse, ragged
    )
    return result[:3], result[3]


@lstm_layer.fast_backward
def lstm_fast_backward(g: Any, saved: Any, reverse: Any, ragged: Any) -> Gradients:
    arrays = saved.input, saved.h_0, saved.c_0, saved.weight_ih, saved.weight_hh
    result = kernel("recurrent", "lstm_backward", saved.input)(*g, *arrays, saved.reserve, saved.needs(0))
    return (*result, None)


@lstm_layer.decomposition
def lstm_decomposition(
    input: Any,
    h_0: Any,
    c_0: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    lengths: Any = None,
    reverse: bool = False,
    ragged: bool = False,
) -> tuple[Array, ...]:
    def step(gates: Any, states: tuple) -> tuple:
        return lstm_of_gates(gates + linear(states[0], weight_hh, bias_hh), states[1])

    return _unrolled(step, _projected(input, weight_ih, bias_ih, lengths), (h_0, c_0), lengths, reverse, ragged)


def projected_lstm(
    input: Any,
    h_0: Any,
    c_0: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    weight_hr: Any,
    lengths: Any = None,
    reverse: bool = False,
    ragged: bool = False,
) -> tuple[Array, ...]:
    """`lstm_layer` whose hidden state (B, P) is `(o * tanh(c)) @ weight_hr.T`, step by step; h_0 (B, P), weight_hh (4 H, P).

    Source: Sak et al., Long short-term memory based recurrent neural network architectures, 2014 (arXiv:1402.1128).
    """

    def step(gates: Any, states: tuple) -> tuple:
        hidden, cell = lstm_of_gates(gates + linear(states[0], weight_hh, bias_hh), states[1])
        return linear(hidden, weight_hr), cell

    return _unrolled(step, _projected(input, weight_ih, bias_ih, lengths), (h_0, c_0), lengths, reverse, ragged)


@op(
    outputs="output h_n",
    extras="reserve",
    cast="lower",
    inner=True,
    partly_at_once="lengths of sequences are checked against the tokens",
    work="recurrence",
)
def gru_layer(
    input: Array,
    h_0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    lengths: Array | None = None,
    reverse: bool = False,
    ragged: bool = False,
) -> Array:
    """One direction of one GRU layer: h' = (1 - z) * n + z * h with n = tanh(x_n + r * h_n).

    r and z are sigmoids of the first two blocks of `input @ weight_ih.T + bias_ih` plus `h @ weight_hh.T + bias_hh`; x_n and h_n
    are the third block of either, so the reset gate r acts after the product. Arguments as in `lstm_layer`, with 3 H rows.

    Returns:
        output (T, B, H) or (N, H), h_n (B, H).

    Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014 (arXiv:1406.1078), in cuDNN's variant.

    >>> ops = dynograd.zeros(3, 2, 5), dynograd.ones(2, 4), dynograd.zeros(12, 5), dynograd.zeros(12, 4)
    >>> dynograd.gru_layer(*ops).h_n[0]
    tensor([0.1250, 0.1250, 0.1250, 0.1250])
    """
    _check("gru_layer", 3, input, (h_0,), weight_ih, weight_hh, bias_ih, bias_hh, lengths, ragged)
    result = kernel("recurrent", "gru_forward", input)(
        input, h_0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse, ragged
    )
    return result[:2], result[2]


@gru_layer.fast_backward
def gru_fast_backward(g: Any, saved: Any, reverse: Any, ragged: Any) -> Gradients:
    arrays = saved.input, saved.h_0, saved.weight_ih, saved.weight_hh
    return (*kernel("recurrent", "gru_backward", saved.input)(*g, *arrays, saved.reserve, saved.needs(0)), None)


@gru_layer.decomposition
def gru_decomposition(
    input: Any,
    h_0: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    lengths: Any = None,
    reverse: bool = False,
    ragged: bool = False,
) -> tuple[Array, ...]:
    def step(gates: Any, states: tuple) -> tuple:
        return (gru_of_gates(gates, linear(states[0], weight_hh, bias_hh), states[0]),)

    return _unrolled(step, _projected(input, weight_ih, bias_ih, lengths), (h_0,), lengths, reverse, ragged)


@op(
    outputs="output h_n",
    extras="reserve",
    cast="lower",
    inner=True,
    partly_at_once="lengths of sequences are checked against the tokens",
    work="recurrence",
)
def rnn_layer(
    input: Array,
    h_0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    lengths: Array | None = None,
    nonlinearity: str = "tanh",
    reverse: bool = False,
    ragged: bool = False,
) -> Array:
    """One direction of one Elman layer: h' = tanh(input @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh), or relu.

    Arguments as in `lstm_layer`, with H rows.

    Args:
        nonlinearity: "tanh" or "relu".
    Returns:
        output (T, B, H) or (N, H), h_n (B, H).

    Source: Elman, Finding structure in time, 1990.

    >>> ops = dynograd.ones(3, 1, 1), dynograd.zeros(1, 1), dynograd.ones(1, 1), dynograd.ones(1, 1)
    >>> dynograd.rnn_layer(*ops, nonlinearity="relu").output.flatten()
    tensor([1., 2., 3.])
    """
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn_layer: Unknown nonlinearity: expected 'tanh' or 'relu', got {nonlinearity!r}.")
    _check("rnn_layer", 1, input, (h_0,), weight_ih, weight_hh, bias_ih, bias_hh, lengths, ragged)
    result = kernel("recurrent", "rnn_forward", input)(
        input, h_0, weight_ih, weight_hh, bias_ih, bias_hh, nonlinearity, lengths, reverse, ragged
    )
    return result[:2], result[2]


@rnn_layer.fast_backward
def rnn_fast_backward(g: Any, saved: Any, nonlinearity: Any, reverse: Any, ragged: Any) -> Gradients:
    arrays = saved.input, saved.h_0, saved.weight_ih, saved.weight_hh
    return (*kernel("recurrent", "rnn_backward", saved.input)(*g, *arrays, saved.reserve, saved.needs(0)), None)


@rnn_layer.decomposition
def rnn_decomposition(
    input: Any,
    h_0: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    lengths: Any = None,
    nonlinearity: str = "tanh",
    reverse: bool = False,
    ragged: bool = False,
) -> tuple[Array, ...]:
    bend = tanh if nonlinearity == "tanh" else relu

    def step(gates: Any, states: tuple) -> tuple:
        return (bend(gates + linear(states[0], weight_hh, bias_hh)),)

    return _unrolled(step, _projected(input, weight_ih, bias_ih, lengths), (h_0,), lengths, reverse, ragged)


# --- the layers, step by step ------------------------------------------------------------------------------------------------


def _projected(input: Any, weight: Any, bias: Any, lengths: Any) -> Array:
    """All inputs through `weight`; what lies beyond a row's length counts as 0, whatever it is."""
    if lengths is not None and input.ndim == 3:
        input = choose(_alive(lengths, input.shape[0]), input, 0.0)
    return linear(input, weight, bias)


def _alive(lengths: Any, steps: int) -> Array:
    """(T, B, 1): whether a row still runs in a step."""
    array = getattr(lengths, "array", lengths)
    if not has_own_values(lengths):
        numbers = arrays.to_device(arrays.from_python(list(range(steps)), None), arrays.place_of(array))
        return (reshaped(lengths, (1, -1)) > numbers.reshape((-1, 1))).reshape((steps, -1, 1))
    mask = kernel("masks", "length_mask", array)(steps, array)
    return reshaped(mask, (*mask.shape, 1))


def _unrolled(step: Any, gates: Any, states: tuple, lengths: Any, reverse: bool, ragged: bool = False) -> tuple:
    if ragged:
        return _unrolled_ragged(step, gates, states, lengths, reverse)
    if gates.ndim == 2:
        return _unrolled_packed(step, gates, states, lengths, reverse)
    alive = None if lengths is None else _alive(lengths, gates.shape[0])
    times = range(gates.shape[0])
    outputs: list[Any] = [None] * len(times)
    for time in reversed(times) if reverse else times:
        new = step(get_basic(gates, (time,)), states)
        if alive is not None:
            new = tuple([choose(alive[time], state, old) for state, old in zip(new, states, strict=True)])
            outputs[time] = choose(alive[time], new[0], 0.0)
        else:
            outputs[time] = new[0]
        states = new
    return (stack(outputs), *states)


def _unrolled_ragged(step: Any, gates: Any, states: tuple, lengths: Any, reverse: bool) -> tuple:
    """Packed, run, and put back."""
    array = getattr(lengths, "array", lengths)
    order, back, tokens, tokens_back, longest_first = kernel("recurrent_packing", "ragged_places", array)(array)

    def taken(x: Any, places: Any) -> Array:
        return get_advanced(x, [places], (0,))

    sorted_states = tuple([taken(state, order) for state in states])
    output, *finals = _unrolled_packed(step, taken(gates, tokens), sorted_states, longest_first, reverse)
    return (taken(output, tokens_back), *[taken(final, back) for final in finals])


def _unrolled_packed(step: Any, gates: Any, states: tuple, lengths: Any, reverse: bool) -> tuple:
    """Steps of packed tokens: rows drop out as their sequences end, or in reverse join where these begin."""
    array = getattr(lengths, "array", lengths)
    sizes = kernel("recurrent_packing", "sizes_of", array)(array).tolist()
    starts = [sum(sizes[:time]) for time in range(len(sizes))]
    outputs: list[Any] = [None] * len(sizes)
    now, rows = (tuple([_rows(state, 0, 0) for state in states]), 0) if reverse else (states, array.size)
    ended: list[tuple] = []
    for time in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        size = sizes[time]
        if reverse:
            now = tuple(
                [_joined_rows([state, _rows(all_, rows, size)]) for state, all_ in zip(now, states, strict=True)]
            )
        else:
            ended.append(tuple([_rows(state, size, rows) for state in now]))
            now = tuple([_rows(state, 0, size) for state in now])
        rows = size
        now = step(_rows(gates, starts[time], starts[time] + size), now)
        outputs[time] = now[0]
    rest = [tuple([_rows(state, rows, array.size) for state in states])] if reverse else ended[::-1]
    finals = [_joined_rows(list(parts)) for parts in zip(now, *rest, strict=True)]
    output = _joined_rows(outputs) if outputs else _rows(states[0], 0, 0)
    return (output, *finals)


def _rows(x: Any, start: int, stop: int) -> Array:
    return get_basic(x, (slice(start, stop),))


def _joined_rows(parts: list[Any]) -> Array:
    return joined(parts, 0)


# --- checks ------------------------------------------------------------------------------------------------------------------


def _check(
    who: str,
    blocks: int,
    input: Any,
    states: tuple,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    lengths: Any,
    ragged: bool,
) -> None:
    packed = input.ndim == 2 and lengths is not None and lengths.ndim == 1
    if input.ndim != 3 and not packed:
        raise ShapeError(
            f"{who}: expected input (T, B, I), or packed tokens (N, I) with lengths (B,), got shape {input.shape}. Use unsqueeze(1) "
            f"for a single sequence."
        )
    if ragged and not packed:
        raise ShapeError(
            f"{who}: expected tokens (N, I) with lengths (B,) for ragged=True, got input of shape {input.shape}."
        )
    features = input.shape[-1]
    steps, batch = (input.shape[0], lengths.shape[0]) if packed else input.shape[:2]
    width = w_hh.shape[-1]
    rows = blocks * width
    expected: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("weight_ih", w_ih, (rows, features)),
        ("weight_hh", w_hh, (rows, width)),
    ]
    expected += [(name, state, (batch, width)) for name, state in zip(("h_0", "c_0"), states)]
    expected += [("bias_ih", b_ih, (rows,)), ("bias_hh", b_hh, (rows,)), ("lengths", lengths, (batch,))]
    for name, array, shape in expected:
        if array is None:
            continue
        if array.shape != shape:
            raise ShapeError(
                f"{who}: {name} has shape {array.shape}, expected {shape} for input of shape {input.shape} (T, B, I) and hidden size "
                f"{width}. Give input the layer's input size as last dim, and states the batch size as first."
            )
        if name != "lengths" and array.dtype != input.dtype:
            raise DtypeError(
                f"{who}: expected {name} to have the dtype of input, {input.dtype}, got {array.dtype}. Convert one of them, e.g. "
                f"input.to(weight.dtype)."
            )
    if packed:
        _check_packed(who, input, lengths, ragged)
    elif lengths is not None:
        wrong = kernel("indexing", "out_of_range", lengths)(lengths, 0, steps + 1, who)
        if wrong is not None:
            raise IndexRangeError(
                f"{who}: length {wrong[0]} at position {wrong[1][0]} of lengths is out of range: input of shape {input.shape} has "
                f"{steps} steps."
            )


def _check_packed(who: str, input: Any, lengths: Any, ragged: bool) -> None:
    operands = lengths.tolist()
    if ragged and operands and min(operands) < 0:
        row = operands.index(min(operands))
        raise IndexRangeError(f"{who}: lengths must be 0 or more, got {operands[row]} in row {row}.")
    if not ragged and operands and (min(operands) < 0 or operands != sorted(operands, reverse=True)):
        raise IndexRangeError(f"{who}: lengths of packed tokens must be 0 or more, longest first, got {operands}.")
    if sum(operands) != input.shape[0]:
        raise IndexRangeError(
            f"{who}: lengths {operands} add up to {sum(operands)}, but input of shape {input.shape} has {input.shape[0]} tokens."
        )
