"""One layer, one direction of LSTM, GRU and RNN over whole sequences, on NumPy arrays.

All real time steps are laid out one after another ("packed": step by step, longest rows first), so that one matrix product
projects all inputs, one makes each weight gradient, and padding costs nothing. A step works on the first rows of the
previous one. Shapes: T time, B batch, I inputs, H hidden; `x` is (T, B, I).

`lengths` (B) or None: a row of length l keeps its state after step l and its outputs beyond are zero, whatever `x` holds
there; order does not matter and 0 is allowed. `reverse=True` runs every row backwards over its own l steps. Half
types are computed in float32. Every forward returns an opaque `reserve` last; its backward takes it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "gru_backward",
    "gru_forward",
    "lstm_backward",
    "lstm_forward",
    "rnn_backward",
    "rnn_forward",
]


class Schedule(NamedTuple):
    """Which rows work in which step. `order` and `tokens` are None when packed rows are `x` as it lies in memory."""

    sizes: list[int]
    starts: list[int]
    total: int
    batch: int
    order: np.ndarray | None
    tokens: np.ndarray | None
    previous: np.ndarray | None
    last: np.ndarray | None

    def steps(self, backwards=False):
        """(start, before, now, rows) of each step: first row among gates, among previous states, among new states."""
        steps = range(len(self.sizes))
        for step in reversed(steps) if backwards else steps:
            start, rows = self.starts[step], self.sizes[step]
            before = self.batch + self.starts[step - 1] if step else 0
            yield start, before, self.batch + start, rows

    def pack(self, x):
        """(T, B, D) to (total, D)."""
        flat = np.ascontiguousarray(x).reshape(-1, x.shape[2])
        return flat if self.tokens is None else flat.take(self.tokens, axis=0)

    def unpack(self, packed, shape):
        """(total, D) to (T, B, D) with zeros where there is no token."""
        if self.tokens is None:
            return packed.reshape(shape)
        flat = np.zeros((shape[0] * shape[1], shape[2]), packed.dtype)
        flat[self.tokens] = packed
        return flat.reshape(shape)

    def sort(self, state):
        """Rows of a (B, D) state in packed order, as a fresh array."""
        return np.array(state, order="C") if self.order is None else state[self.order]

    def unsort(self, state):
        """Inverse of `sort`."""
        if self.order is None:
            return state
        restored = np.empty_like(state)
        restored[self.order] = state
        return restored

    def final(self, states):
        """Each row's state after its last step, from a state buffer, in batch order."""
        if self.last is None:
            return states[self.total :].copy()
        return self.unsort(states[self.last])

    def before(self, states):
        """The state each token started from: (total, D)."""
        return states[: self.total] if self.previous is None else states.take(self.previous, axis=0)


def lstm_forward(x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths=None, reverse=False):
    """Outputs (T, B, H), last hidden and cell states (B, H), reserve; gates in PyTorch's order i, f, g, o.

    c' = f * c + i * g and h' = o * tanh(c'), where i, f, o are sigmoids and g a tanh of x W_ih^T + b_ih + h W_hh^T + b_hh.
    Biases may be None.
    """
    from dynograd.kernels.recurrent_numba import lstm_cell_forward

    kind = x.dtype
    x, h0, c0, w_ih, w_hh = _compute(x, h0, c0, w_ih, w_hh)
    schedule = _schedule(x.shape[0], x.shape[1], lengths, reverse)
    width = w_hh.shape[1]
    gates = schedule.pack(x) @ w_ih.T
    bias = _joined_bias(b_ih, b_hh, gates)
    hiddens = _state_buffer(schedule, h0)
    cells = _state_buffer(schedule, c0)
    recurrent = np.empty((x.shape[1], 4 * width), x.dtype)
    weight = np.ascontiguousarray(w_hh.T)
    for start, before, now, rows in schedule.steps():
        part = recurrent[:rows]
        np.matmul(hiddens[before : before + rows], weight, out=part)
        lstm_cell_forward(gates, part, bias, cells, hiddens, start, before, now, rows)
    y = _outputs(schedule, hiddens, x.shape)
    h_n, c_n = schedule.final(hiddens), schedule.final(cells)
    return *_as(kind, y, h_n, c_n), (schedule, gates, cells, hiddens)


def lstm_backward(gy, gh_n, gc_n, x, h0, c0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gc0, gw_ih, gw_hh, gb_ih, gb_hh); `gy`, `gh_n`, `gc_n` may be None (zero).

    gx is None unless `input_gradient`. The reserve is left as it was, so backward may run again.
    """
    from dynograd.kernels.recurrent_numba import lstm_cell_backward

    kind = x.dtype
    x, w_ih, w_hh = _compute(x, w_ih, w_hh)
    schedule, gates, cells, hiddens = reserve
    hidden_gradient = _state_gradient(schedule, gh_n, hiddens)
    cell_gradient = _state_gradient(schedule, gc_n, hiddens)
    outer = _output_gradient(schedule, gy, hiddens)
    gate_gradients = np.empty_like(gates)
    for start, before, now, rows in schedule.steps(backwards=True):
        lstm_cell_backward(
            gates, gate_gradients, cells, hidden_gradient, cell_gradient, outer, start, before, now, rows
        )
        np.matmul(gate_gradients[start : start + rows], w_hh, out=hidden_gradient[:rows])
    gx = schedule.unpack(gate_gradients @ w_ih, x.shape) if input_gradient else None
    gw_ih = gate_gradients.T @ schedule.pack(x)
    gw_hh = gate_gradients.T @ schedule.before(hiddens)
    gb = gate_gradients.sum(axis=0)
    gh0, gc0 = schedule.unsort(hidden_gradient), schedule.unsort(cell_gradient)
    return _as(kind, gx, gh0, gc0, gw_ih, gw_hh, gb, gb.copy())


def gru_forward(x, h0, w_ih, w_hh, b_ih, b_hh, lengths=None, reverse=False):
    """Outputs (T, B, H), last hidden states (B, H), reserve; gates in PyTorch's order r, z, n.

    n = tanh(x W_in^T + b_in + r * (h W_hn^T + b_hn)): the reset gate acts after the product. h' = (1 - z) * n + z * h.
    """
    from dynograd.kernels.recurrent_numba import gru_cell_forward

    kind = x.dtype
    x, h0, w_ih, w_hh = _compute(x, h0, w_ih, w_hh)
    schedule = _schedule(x.shape[0], x.shape[1], lengths, reverse)
    width = w_hh.shape[1]
    gates = schedule.pack(x) @ w_ih.T
    bias = _joined_bias(b_ih, b_hh, gates, shared=2 * width)
    new_bias = np.zeros(width, x.dtype) if b_hh is None else b_hh[2 * width :].astype(x.dtype)
    candidates = np.empty((schedule.total, width), x.dtype)
    hiddens = _state_buffer(schedule, h0)
    recurrent = np.empty((x.shape[1], 3 * width), x.dtype)
    weight = np.ascontiguousarray(w_hh.T)
    for start, before, now, rows in schedule.steps():
        part = recurrent[:rows]
        np.matmul(hiddens[before : before + rows], weight, out=part)
        gru_cell_forward(gates, part, bias, new_bias, candidates, hiddens, start, before, now, rows)
    y = _outputs(schedule, hiddens, x.shape)
    return *_as(kind, y, schedule.final(hiddens)), (schedule, gates, candidates, hiddens)


def gru_backward(gy, gh_n, x, h0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh); conventions of `lstm_backward`."""
    from dynograd.kernels.recurrent_numba import gru_cell_backward

    kind = x.dtype
    x, w_ih, w_hh = _compute(x, w_ih, w_hh)
    schedule, gates, candidates, hiddens = reserve
    hidden_gradient = _state_gradient(schedule, gh_n, hiddens)
    outer = _output_gradient(schedule, gy, hiddens)
    input_gradients, recurrent_gradients = np.empty_like(gates), np.empty_like(gates)
    through = np.empty_like(hidden_gradient)
    for start, before, _now, rows in schedule.steps(backwards=True):
        gru_cell_backward(
            gates,
            candidates,
            hiddens,
            input_gradients,
            recurrent_gradients,
            hidden_gradient,
            outer,
            start,
            before,
            rows,
        )
        np.matmul(recurrent_gradients[start : start + rows], w_hh, out=through[:rows])
        hidden_gradient[:rows] += through[:rows]
    gx = schedule.unpack(input_gradients @ w_ih, x.shape) if input_gradient else None
    gw_ih = input_gradients.T @ schedule.pack(x)
    gw_hh = recurrent_gradients.T @ schedule.before(hiddens)
    gb_ih, gb_hh = input_gradients.sum(axis=0), recurrent_gradients.sum(axis=0)
    return _as(kind, gx, schedule.unsort(hidden_gradient), gw_ih, gw_hh, gb_ih, gb_hh)


def rnn_forward(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity="tanh", lengths=None, reverse=False):
    """Outputs (T, B, H), last hidden states (B, H), reserve; h' = tanh or relu of x W_ih^T + b_ih + h W_hh^T + b_hh."""
    kind = x.dtype
    x, h0, w_ih, w_hh = _compute(x, h0, w_ih, w_hh)
    schedule = _schedule(x.shape[0], x.shape[1], lengths, reverse)
    hiddens = _state_buffer(schedule, h0)
    projected = hiddens[schedule.batch :]
    np.matmul(schedule.pack(x), w_ih.T, out=projected)
    if b_ih is not None:
        projected += _joined_bias(b_ih, b_hh, projected)
    recurrent = np.empty_like(hiddens[: schedule.batch])
    weight = np.ascontiguousarray(w_hh.T)
    for _start, before, now, rows in schedule.steps():
        hidden, part = hiddens[now : now + rows], recurrent[:rows]
        np.matmul(hiddens[before : before + rows], weight, out=part)
        hidden += part
        if nonlinearity == "tanh":
            np.tanh(hidden, out=hidden)
        else:
            np.maximum(hidden, 0, out=hidden)
    y = _outputs(schedule, hiddens, x.shape)
    return *_as(kind, y, schedule.final(hiddens)), (schedule, nonlinearity, hiddens)


def rnn_backward(gy, gh_n, x, h0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh); conventions of `lstm_backward`."""
    kind = x.dtype
    x, w_ih, w_hh = _compute(x, w_ih, w_hh)
    schedule, nonlinearity, hiddens = reserve
    hidden_gradient = _state_gradient(schedule, gh_n, hiddens)
    outer = _output_gradient(schedule, gy, hiddens)
    new = hiddens[schedule.batch :]
    slopes = 1 - new * new if nonlinearity == "tanh" else (new > 0).astype(new.dtype)
    for start, _before, _now, rows in schedule.steps(backwards=True):
        step, dh = slopes[start : start + rows], hidden_gradient[:rows]
        dh += outer[start : start + rows]
        step *= dh
        np.matmul(step, w_hh, out=dh)
    gx = schedule.unpack(slopes @ w_ih, x.shape) if input_gradient else None
    gw_ih = slopes.T @ schedule.pack(x)
    gw_hh = slopes.T @ schedule.before(hiddens)
    gb = slopes.sum(axis=0)
    return _as(kind, gx, schedule.unsort(hidden_gradient), gw_ih, gw_hh, gb, gb.copy())


def _schedule(steps, batch, lengths, reverse):
    if lengths is None and not reverse:
        sizes = [batch] * steps
        return Schedule(sizes, [batch * step for step in range(steps)], steps * batch, batch, None, None, None, None)
    lengths = np.full(batch, steps) if lengths is None else np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    active = np.arange(steps)[:, None] < ordered
    counts = active.sum(axis=1)
    counts = counts[counts > 0]
    starts = np.cumsum(counts) - counts
    step, rank = np.nonzero(active)
    time = ordered[rank] - 1 - step if reverse else step
    # Row of each token's previous state in a buffer whose first `batch` rows are the initial states.
    previous = np.where(step > 0, batch + starts[step - 1] + rank, rank) if step.size else step
    last = np.arange(batch)
    worked = ordered > 0
    last[worked] += batch + starts[ordered[worked] - 1]
    return Schedule(
        counts.tolist(), starts.tolist(), step.size, batch, order, time * batch + order[rank], previous, last
    )


def _state_buffer(schedule, initial):
    states = np.empty((schedule.batch + schedule.total, initial.shape[1]), initial.dtype)
    states[: schedule.batch] = initial if schedule.order is None else initial[schedule.order]
    return states


def _outputs(schedule, hiddens, shape):
    new = hiddens[schedule.batch :]
    # A copy: the caller may write into the outputs, and backward still needs the states.
    return schedule.unpack(new.copy() if schedule.tokens is None else new, (*shape[:2], new.shape[1]))


def _state_gradient(schedule, g, states):
    if g is None:
        return np.zeros((schedule.batch, states.shape[1]), states.dtype)
    return schedule.sort(g.astype(states.dtype, copy=False))


def _output_gradient(schedule, gy, states):
    if gy is None:
        return np.zeros((schedule.total, states.shape[1]), states.dtype)
    return schedule.pack(gy.astype(states.dtype, copy=False))


def _joined_bias(b_ih, b_hh, like, shared=None):
    """b_ih + b_hh, over the first `shared` entries only where the recurrent rest is added elsewhere; zeros for None."""
    bias = np.zeros(like.shape[1], like.dtype)
    if b_ih is not None:
        bias += b_ih.astype(like.dtype, copy=False)
    if b_hh is not None:
        bias[:shared] += b_hh[:shared].astype(like.dtype, copy=False)
    return bias


def _compute(*arrays):
    """The arrays in the type that computes: float32 for half types."""
    return [array.astype(np.float32) if array.dtype.itemsize == 2 else array for array in arrays]


def _as(kind, *arrays):
    return tuple(None if array is None else array.astype(kind, copy=False) for array in arrays)
