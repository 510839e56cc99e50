"""One step of LSTM and GRU after the products with the weights, on NumPy arrays. Half types are computed in float32."""

from __future__ import annotations

import numpy as np


def lstm_step_forward(gates, cell):
    """(h', c', activated gates) of gates (B, 4 H) in the order i, f, g, o, before their activations."""
    from dynograd.kernels.recurrent.cells_numba import lstm_rows

    active, before = _copy(gates), _ready(cell)
    cells, hiddens = np.empty_like(before), np.empty_like(before)
    lstm_rows(active, before, cells, hiddens)
    return _as(cell.dtype, hiddens), _as(cell.dtype, cells), active


def lstm_step_backward(g_hidden, g_cell, active, cell, new_cell):
    """Gradients of the gates and of the cell."""
    from dynograd.kernels.recurrent.cells_numba import lstm_rows_backward

    before = _ready(cell)
    gate_gradients, cell_gradients = np.empty_like(active), np.empty_like(before)
    outer, inner = _ready(g_hidden), _ready(g_cell)
    lstm_rows_backward(outer, inner, active, before, _ready(new_cell), gate_gradients, cell_gradients)
    return _as(cell.dtype, gate_gradients), _as(cell.dtype, cell_gradients)


def gru_step_forward(inner, outer, hidden):
    """(h', activated gates) of the projected input and hidden state (B, 3 H), each in the order r, z, n."""
    from dynograd.kernels.recurrent.cells_numba import gru_rows

    active, before = _copy(inner), _ready(hidden)
    hiddens = np.empty_like(before)
    gru_rows(active, _ready(outer), before, hiddens)
    return _as(hidden.dtype, hiddens), active


def gru_step_backward(g, active, outer, hidden):
    """Gradients of both projections and of the hidden state."""
    from dynograd.kernels.recurrent.cells_numba import gru_rows_backward

    before, part = _ready(hidden), _ready(outer)
    inner_gradients, outer_gradients, through = np.empty_like(active), np.empty_like(active), np.empty_like(before)
    gru_rows_backward(_ready(g), active, part, before, inner_gradients, outer_gradients, through)
    return _as(hidden.dtype, inner_gradients), _as(hidden.dtype, outer_gradients), _as(hidden.dtype, through)


def _ready(array):
    """C-contiguous, in the type that computes."""
    kind = array.dtype
    return np.ascontiguousarray(array, np.float32 if kind.itemsize == 2 else kind)


def _copy(array):
    kind = array.dtype
    return np.array(array, np.float32 if kind.itemsize == 2 else kind, order="C")


def _as(kind, array):
    return array.astype(kind, copy=False)
