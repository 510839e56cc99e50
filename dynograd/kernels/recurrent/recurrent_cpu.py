"""One layer, one direction of LSTM, GRU and RNN over whole sequences, on NumPy arrays.

Steps of a call: the weights are laid out for products with few rows, one product projects all inputs, one compiled kernel runs
all time steps (`recurrent_numba.py`); backward, one kernel runs them in reverse and one makes all weight gradients. Padding costs
nothing: only real tokens are computed. Each row's results have the same bits whatever lies beside it in the batch.

Shapes: T time, B batch, N tokens, I inputs, H hidden. `x` is (T, B, I); with `lengths` (B) a row of length l keeps its state after
step l and its outputs beyond are zero, whatever `x` holds there; order does not matter and 0 is allowed. Or `x` is packed,
(N, I): the real tokens of step 0, then of step 1, and so on, with `lengths` longest first; or with `ragged`, (N, I): those of row 0, then
of row 1, and so on, whatever their lengths. `reverse=True` runs every row backwards over its own l steps. Half types are computed in
float32. Every forward returns an opaque `reserve` last; its backward takes it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynograd.arrays.buffers import empty, empty_like, zeros
from dynograd.kernels.build import threads
from dynograd.kernels.recurrent.recurrent_packing_cpu import longest_first, places, sizes_of

# Multiplications that cost as much as the simple operation `threads.parts` counts; a thread then gets 10 us of them or more.
_PER_OPERATION = 16


class Layout(NamedTuple):
    """Where tokens lie: that of row r in step t is `starts[t] + firsts[r]`, and the first `sizes[t]` rows reach step t.

    Steps that no row reaches may come last. `order` says which the rows were, where they had to be sorted; `tokens`, where they had to be
    gathered (padded).
    """

    sizes: np.ndarray
    starts: np.ndarray
    firsts: np.ndarray
    total: int
    batch: int
    kind: str  # "steps" (T, B, I), "rows" (B, T, I) seen as (T, B, I), "packed" and "ragged" (N, I), "padded" (T, B, I) with lengths
    order: np.ndarray | None
    tokens: np.ndarray | None

    def pack(self, x):
        """`x`, or an array of outputs or their gradients, as (N, D), without a copy where it lies so."""
        if self.kind in ("packed", "ragged"):
            return np.ascontiguousarray(x)
        if self.kind == "padded":
            return _gathered(np.ascontiguousarray(x).reshape(-1, x.shape[2]), self.tokens)
        if self.kind == "rows":
            x = x.transpose(1, 0, 2)
        return _contiguous(x).reshape(self.total, x.shape[2])

    def unpack(self, packed, steps):
        """(N, D) in the shape of x."""
        width = packed.shape[1]
        if self.kind in ("packed", "ragged"):
            return packed
        if self.kind == "padded":
            flat = zeros((steps * self.batch, width), packed.dtype)
            flat[self.tokens] = packed
            return flat.reshape(steps, self.batch, width)
        if self.kind == "rows":
            return packed.reshape(self.batch, steps, width).transpose(1, 0, 2)
        return packed.reshape(steps, self.batch, width)

    def sort(self, state):
        """A (B, D) state with its rows in the layout's order, as a fresh array."""
        return np.array(state, order="C") if self.order is None else state[self.order]

    def unsort(self, state):
        """Inverse of `sort`."""
        if self.order is None:
            return state
        restored = np.empty_like(state)
        restored[self.order] = state
        return restored

    def groups(self, blocks, width):
        """In how many groups of rows to run the steps."""
        # Two rows at a time take hardly longer than one: the weights pass through the cache once for both.
        most = threads.parts(self.total * blocks * width * width // _PER_OPERATION)
        return max(1, min(most, self.batch // 2))


def lstm_forward(x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths=None, reverse=False, ragged=False):
    """Outputs (T, B, H) or (N, H), last hidden and cell states (B, H), reserve; gates in PyTorch's order i, f, g, o.

    c' = f * c + i * g and h' = o * tanh(c'), where i, f, o are sigmoids and g a tanh of x W_ih^T + b_ih + h W_hh^T + b_hh.
    Biases may be None.
    """
    return _forward("lstm", x, (h0, c0), w_ih, w_hh, b_ih, b_hh, lengths, reverse, ragged)


def lstm_backward(gy, gh_n, gc_n, x, h0, c0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gc0, gw_ih, gw_hh, gb_ih, gb_hh); `gy`, `gh_n`, `gc_n` may be None (zero).

    gx is None unless `input_gradient`. The reserve is left as it was, so backward may run again.
    """
    return _backward(gy, (gh_n, gc_n), x, w_ih, w_hh, reserve, input_gradient)


def gru_forward(x, h0, w_ih, w_hh, b_ih, b_hh, lengths=None, reverse=False, ragged=False):
    """Outputs (T, B, H) or (N, H), last hidden states (B, H), reserve; gates in PyTorch's order r, z, n.

    n = tanh(x W_in^T + b_in + r * (h W_hn^T + b_hn)): the reset gate acts after the product. h' = (1 - z) * n + z * h.
    """
    return _forward("gru", x, (h0,), w_ih, w_hh, b_ih, b_hh, lengths, reverse, ragged)


def gru_backward(gy, gh_n, x, h0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh); conventions of `lstm_backward`."""
    return _backward(gy, (gh_n,), x, w_ih, w_hh, reserve, input_gradient)


def rnn_forward(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity="tanh", lengths=None, reverse=False, ragged=False):
    """Outputs, last hidden states (B, H), reserve; h' = tanh or relu of x W_ih^T + b_ih + h W_hh^T + b_hh."""
    return _forward(nonlinearity, x, (h0,), w_ih, w_hh, b_ih, b_hh, lengths, reverse, ragged)


def rnn_backward(gy, gh_n, x, h0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh); conventions of `lstm_backward`."""
    return _backward(gy, (gh_n,), x, w_ih, w_hh, reserve, input_gradient)


def _forward(cell, x, states, w_ih, w_hh, b_ih, b_hh, lengths, reverse, ragged):
    """Outputs, last states, reserve; a cell is "lstm", "gru", "tanh" or "relu"."""
    from dynograd.kernels.recurrent.recurrent_numba import FORWARD

    kind = x.dtype
    x, w_ih, w_hh, *states = _compute(x, w_ih, w_hh, *states)
    layout = _layout(x, lengths, ragged)
    gates, weight = _projected(layout, x, w_ih, w_hh)
    hidden = layout.sort(states[0])
    if cell in ("lstm", "gru"):
        kept_hidden, y, kept = _new(layout, hidden, 3)
    else:
        (kept_hidden, y), kept = _new(layout, hidden, 2), _absent(hidden.shape[1], gates.dtype)
    cells = layout.sort(states[1]) if cell == "lstm" else _absent(hidden.shape[1], gates.dtype)
    bias = _joined_bias(cell, b_ih, b_hh, gates)
    _run(FORWARD[cell], layout, (gates, weight, bias, hidden, cells, kept_hidden, kept, y), reverse, hidden)
    last = [layout.unsort(hidden), layout.unsort(cells)] if cell == "lstm" else [layout.unsort(hidden)]
    return *_as(kind, layout.unpack(y, x.shape[0]), *last), (cell, layout, reverse, gates, kept_hidden, kept)


def _backward(gy, state_gradients, x, w_ih, w_hh, reserve, input_gradient):
    """(gx, those of the initial states, gw_ih, gw_hh, gb_ih, gb_hh)"""
    from dynograd.kernels.recurrent.recurrent_numba import BACKWARD
    from dynograd.kernels.recurrent.recurrent_products_numba import panels_of

    kind = x.dtype
    x, w_ih, w_hh = _compute(x, w_ih, w_hh)
    cell, layout, reverse, gates, kept_hidden, kept = reserve
    initial = [_state_gradient(layout, g, kept_hidden) for g in state_gradients]
    absent = _absent(w_hh.shape[1], gates.dtype)
    gates_g, rest_g = empty_like(gates), empty_like(kept) if cell == "gru" else absent
    arrays = gates, panels_of(w_hh, False), kept_hidden, kept, _output_gradient(layout, gy, gates), gates_g, rest_g
    _run(BACKWARD[cell], layout, (*arrays, initial[0], initial[1] if cell == "lstm" else absent), reverse, initial[0])
    gx = _input_gradient(layout, gates_g, w_ih, x) if input_gradient else None
    rest_g = rest_g if cell == "gru" else gates_g[:, :0]
    gw_ih, gw_hh, gb, gb_rest = _weight_gradients(layout, gates_g, rest_g, x, kept_hidden)
    gb_hh = np.concatenate([gb[: -gb_rest.size], gb_rest]) if gb_rest.size else gb.copy()
    return _as(kind, gx, *[layout.unsort(g) for g in initial], gw_ih, gw_hh, gb, gb_hh)


# --- where tokens lie --------------------------------------------------------------------------------------------------------


def _layout(x, lengths, ragged):
    if lengths is None:
        steps, batch = x.shape[:2]
        sizes, time, rows = np.full(steps, batch), np.arange(steps), np.arange(batch)
        if not x.flags.c_contiguous and x.transpose(1, 0, 2).flags.c_contiguous:
            return Layout(sizes, time, rows * steps, steps * batch, batch, "rows", None, None)
        return Layout(sizes, time * batch, rows, steps * batch, batch, "steps", None, None)
    lengths = np.ascontiguousarray(lengths, np.int64)
    if x.ndim == 2:
        return _tokens_layout(x.shape[0], lengths, ragged)
    batch = lengths.size
    order = longest_first(lengths)
    sizes = sizes_of(lengths[order])
    tokens = places(sizes, order, x.shape[0], batch, False)
    return Layout(sizes, np.cumsum(sizes) - sizes, np.arange(batch), tokens.size, batch, "padded", order, tokens)


def _tokens_layout(total, lengths, ragged):
    """Of packed and ragged tokens: by a kernel, which a compiled step runs again for other lengths."""
    from dynograd.kernels.recurrent.recurrent_layouts_numba import lay_out_packed, lay_out_ragged

    batch = lengths.size
    sizes, starts, firsts = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(batch, np.int64)
    if not ragged:
        lay_out_packed(lengths, sizes, starts, firsts, count=1, work=total)
        return Layout(sizes, starts, firsts, total, batch, "packed", None, None)
    order = np.empty(batch, np.int64)
    lay_out_ragged(lengths, sizes, starts, firsts, order, count=1, work=total)
    return Layout(sizes, starts, firsts, total, batch, "ragged", order, None)


def _new(layout, state, count):
    return [empty((layout.total, state.shape[1]), state.dtype) for _ in range(count)]


@lru_cache(16)
def _absent(width, kind):
    """In place of what a cell has not: no rows, which nobody writes to."""
    return np.empty((0, width), kind)


def _gathered(flat, tokens):
    result = empty((tokens.size, flat.shape[1]), flat.dtype)
    return flat.take(tokens, axis=0, out=result, mode="clip")


def _contiguous(x):
    if x.flags.c_contiguous:
        return x
    result = empty(x.shape, x.dtype)
    result[...] = x
    return result


# --- what the kernels share --------------------------------------------------------------------------------------------------


def _projected(layout, x, w_ih, w_hh):
    """All inputs through W_ih, and W_hh laid out for the steps."""
    from dynograd.kernels.recurrent.recurrent_products_numba import panels_of, rows_product

    return rows_product(layout.pack(x), panels_of(w_ih, True), w_ih.shape[0]), panels_of(w_hh, True)


def _run(kernel, layout, arrays, reverse, state):
    width = state.shape[1]
    groups = layout.groups(arrays[0].shape[1] // max(width, 1), width)
    kernel(*arrays, layout.sizes, layout.starts, layout.firsts, reverse, groups, count=groups, work=0, parts=groups)


def _input_gradient(layout, gates_g, w_ih, x):
    from dynograd.kernels.recurrent.recurrent_products_numba import panels_of, rows_product

    return layout.unpack(rows_product(gates_g, panels_of(w_ih, False), w_ih.shape[1]), x.shape[0])


def _weight_gradients(layout, gates_g, rest_g, x, kept_hidden):
    """(gw_ih, gw_hh, gb, gb_rest); see the kernel."""
    from dynograd.kernels.recurrent.recurrent_numba import weight_gradients

    tokens, rows = gates_g.shape
    kind, inputs, width = gates_g.dtype, x.shape[-1], kept_hidden.shape[1]
    result: Any = (
        empty((rows, inputs), kind),
        empty((rows, width), kind),
        np.empty(rows, kind),
        np.empty(rest_g.shape[1], kind),
    )
    if not tokens:
        for gradient in result:
            gradient.fill(0)
        return result
    rest_g = np.ascontiguousarray(rest_g)
    work = tokens * rows * (inputs + width) // _PER_OPERATION
    weight_gradients(gates_g, rest_g, layout.pack(x), kept_hidden, *result, count=rows, work=work)
    return result


def _state_gradient(layout, g, like):
    if g is None:
        return np.zeros((layout.batch, like.shape[1]), like.dtype)
    return layout.sort(g.astype(like.dtype, copy=False))


def _output_gradient(layout, gy, gates):
    """(N, H), or no rows for None."""
    if gy is None:
        return np.empty((0, gates.shape[1]), gates.dtype)
    return layout.pack(gy.astype(gates.dtype, copy=False))


def _joined_bias(cell, b_ih, b_hh, like):
    """b_ih + b_hh, zeros for None. The recurrent part of a GRU's new gate has a bias of its own, which stands behind the others."""
    count = like.shape[1]
    joined = count // 3 * 2 if cell == "gru" else count
    bias = np.zeros(count + count - joined, like.dtype)
    if b_ih is not None:
        bias[:count] += b_ih.astype(like.dtype, copy=False)
    if b_hh is not None:
        bias[:joined] += b_hh[:joined].astype(like.dtype, copy=False)
        bias[count:] = b_hh[joined:]
    return bias


def _compute(x, *others):
    """The arrays in the type that computes, float32 for half types; all but `x` C-contiguous."""
    kind = np.float32 if x.dtype.itemsize == 2 else x.dtype
    return [x.astype(kind, copy=False), *[np.ascontiguousarray(array, kind) for array in others]]


def _as(kind, *arrays):
    return tuple(None if array is None else array.astype(kind, copy=False) for array in arrays)
