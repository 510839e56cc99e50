"""Recurrent cells: one step of LSTM, GRU and Elman networks, for loops written by hand.

The products with the weights are `linear`; what follows them is one fused op.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.activations import relu
from dynograd.ops.elementwise.exponentials import sigmoid, tanh
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.joins import joined
from dynograd.ops.matmul.matmuls import linear
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]

FAMILY = Row(out=None)


@op(outputs="h c", saves="input cell", extras="active new_cell")
def lstm_step(input: Array, cell: Array) -> Array:
    """h' and c' from the sum of both projections (B, 4 H), in the order i, f, g, o, and the cell (B, H).

    c' = f * c + i * g and h' = o * tanh(c'), where i, f, o are sigmoids and g a tanh of the four blocks.
    """
    if input.size != 4 * cell.size:
        raise _wrong_sizes("lstm_step", 4, input, cell)
    hidden, new_cell, active = kernel("cells", "lstm_step_forward", input)(input, cell)
    return (hidden, new_cell), active, new_cell


@lstm_step.backward
def lstm_step_backward(g: Any, saved: Any) -> Gradients:
    cell = saved.cell
    i, f, u, o = _blocks(saved.input, 4)
    i, f, u, o = sigmoid(i), sigmoid(f), tanh(u), sigmoid(o)
    squashed = tanh(f * cell + i * u)
    g_hidden, g_cell = g
    toward = g_cell + g_hidden * o * (1 - squashed * squashed)
    parts = [
        toward * u * i * (1 - i),
        toward * cell * f * (1 - f),
        toward * i * (1 - u * u),
        g_hidden * squashed * o * (1 - o),
    ]
    return joined(parts, len(cell.shape) - 1), toward * f


@lstm_step.fast_backward
def lstm_step_fast_backward(g: Any, saved: Any) -> Gradients:
    return kernel("cells", "lstm_step_backward", saved.cell)(*g, saved.active, saved.cell, saved.new_cell)


@op(saves="input other hidden", extras="active")
def gru_step(input: Array, other: Array, hidden: Array) -> Array:
    """h' from the projected input and hidden state (B, 3 H), in the order r, z, n, and the hidden state (B, H).

    h' = (1 - z) * n + z * h with n = tanh(x_n + r * h_n), where r and z are sigmoids of the sums of their blocks.
    """
    if not input.size == other.size == 3 * hidden.size:
        raise _wrong_sizes("gru_step", 3, input if input.size != 3 * hidden.size else other, hidden)
    return kernel("cells", "gru_step_forward", input)(input, other, hidden)


@gru_step.backward
def gru_step_backward(g: Any, saved: Any) -> Gradients:
    hidden = saved.hidden
    x_r, x_z, x_n = _blocks(saved.input, 3)
    h_r, h_z, h_n = _blocks(saved.other, 3)
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    n = tanh(x_n + r * h_n)
    g_n = g * (1 - z) * (1 - n * n)
    g_z = g * (hidden - n) * z * (1 - z)
    g_r = g_n * h_n * r * (1 - r)
    last = len(hidden.shape) - 1
    return joined([g_r, g_z, g_n], last), joined([g_r, g_z, g_n * r], last), g * z


@gru_step.fast_backward
def gru_step_fast_backward(g: Any, saved: Any) -> Gradients:
    return kernel("cells", "gru_step_backward", saved.hidden)(g, saved.active, saved.other, saved.hidden)


def lstm_of_gates(gates: Any, cell: Any) -> tuple[Array, ...]:
    """`lstm_step`; of complex numbers, for which there are no kernels, by other ops."""
    if getattr(gates, "array", gates).dtype.kind != "c":
        return tuple(lstm_step(gates, cell))
    i, f, u, o = _blocks(gates, 4)
    new_cell = sigmoid(f) * cell + sigmoid(i) * tanh(u)
    return sigmoid(o) * tanh(new_cell), new_cell


def gru_of_gates(gates: Any, other: Any, hidden: Any) -> Array:
    """`gru_step`; of complex numbers, for which there are no kernels, by other ops."""
    if getattr(gates, "array", gates).dtype.kind != "c":
        return gru_step(gates, other, hidden)
    (x_r, x_z, x_n), (h_r, h_z, h_n) = _blocks(gates, 3), _blocks(other, 3)
    update, fresh = sigmoid(x_z + h_z), tanh(x_n + sigmoid(x_r + h_r) * h_n)
    return fresh + update * (hidden - fresh)


def _wrong_sizes(who: str, count: int, gates: Any, state: Any) -> ShapeError:
    return ShapeError(
        f"{who}: expected {count} blocks of gates, each as large as the state of shape {tuple(state.shape)}, got shape {tuple(gates.shape)}. "
        f"Use nn.functional or nn's cells, which make the gates of their input."
    )


def _blocks(gates: Any, count: int) -> list[Any]:
    """The columns of (B, count * H) in `count` parts."""
    width = gates.shape[-1] // count
    return [get_basic(gates, (Ellipsis, slice(part * width, (part + 1) * width))) for part in range(count)]


@composed(cast="lower")
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Array, ...]:
    """One step of an LSTM: (h', c') from `input` (B, I) and `hx` = (h, c), each (B, H); see `lstm_layer`.

    Args:
        input (B, I): one step of a batch.
        hx: a pair (h, c) of tensors (B, H).
        w_ih (4 H, I), w_hh (4 H, H), b_ih (4 H,), b_hh (4 H,): weights, in the order of input, forget, cell and output gate.
    Returns:
        (h', c'), each (B, H).
    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997; Gers et al., Learning to forget, 2000.

    >>> states = dynograd.zeros(1, 2), dynograd.ones(1, 2)
    >>> h, c = dynograd.lstm_cell(dynograd.ones(1, 3), states, dynograd.zeros(8, 3), dynograd.zeros(8, 2))
    >>> c
    tensor([[0.5000, 0.5000]])
    """
    h, c = hx
    check_sizes("lstm_cell", 4, input, (h, c), w_ih, w_hh)
    return lstm_of_gates(linear(input, w_ih, b_ih) + linear(h, w_hh, b_hh), c)


@composed(cast="lower")
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """One step of a GRU: h' (B, H) from `input` (B, I) and `hx` (B, H); see `gru_layer`.

    Args:
        input (B, I): one step of a batch.
        hx (B, H): the state.
        w_ih (3 H, I), w_hh (3 H, H), b_ih (3 H,), b_hh (3 H,): weights, in the order of reset, update and new gate.
    Returns:
        (B, H).

    >>> dynograd.gru_cell(dynograd.ones(1, 3), dynograd.ones(1, 2), dynograd.zeros(6, 3), dynograd.zeros(6, 2))
    tensor([[0.5000, 0.5000]])
    """
    check_sizes("gru_cell", 3, input, (hx,), w_ih, w_hh)
    return gru_of_gates(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)


@composed(cast="lower")
def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """One step of an Elman network: tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).

    Args:
        input (B, I): one step of a batch.
        hx (B, H): the state.
        w_ih (H, I), w_hh (H, H), b_ih (H,), b_hh (H,): weights.
    Returns:
        (B, H).

    >>> dynograd.rnn_tanh_cell(dynograd.ones(1, 1), dynograd.zeros(1, 1), dynograd.ones(1, 1), dynograd.ones(1, 1))
    tensor([[0.7616]])
    """
    check_sizes("rnn_tanh_cell", 1, input, (hx,), w_ih, w_hh)
    return tanh(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


@composed(cast="lower")
def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """One step of an Elman network with relu: relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).

    Args:
        input (B, I): one step of a batch.
        hx (B, H): the state.
        w_ih (H, I), w_hh (H, H), b_ih (H,), b_hh (H,): weights.
    Returns:
        (B, H).

    >>> dynograd.rnn_relu_cell(dynograd.ones(1, 1), dynograd.zeros(1, 1), dynograd.ones(1, 1), dynograd.ones(1, 1))
    tensor([[1.]])
    """
    check_sizes("rnn_relu_cell", 1, input, (hx,), w_ih, w_hh)
    return relu(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


def check_sizes(who: str, blocks: int, input: Any, states: tuple, w_ih: Any, w_hh: Any) -> None:
    """Raises unless input (B, I), states (B, H) and weights fit each other; `linear` checks the rest."""
    x, weight = getattr(input, "array", input), getattr(w_hh, "array", w_hh)
    width = weight.shape[-1]
    if x.ndim != 2:
        raise ShapeError(f"{who}: expected input (B, I), got shape {x.shape}. Use unsqueeze(0) for a single example.")
    for state in states:
        shape = getattr(state, "array", state).shape
        if shape != (x.shape[0], width):
            raise ShapeError(
                f"{who}: expected a state of shape {(x.shape[0], width)} for input of shape {x.shape} and hidden size {width}, got {shape}."
            )
    rows = getattr(w_ih, "array", w_ih).shape[0]
    if weight.shape[0] != blocks * width or rows != blocks * width:
        raise ShapeError(
            f"{who}: expected weights of {blocks * width} rows for hidden size {width}, got w_ih {tuple(w_ih.shape)} and w_hh "
            f"{tuple(w_hh.shape)}."
        )
