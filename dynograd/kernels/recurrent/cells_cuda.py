"""One step of LSTM and GRU after the products with the weights on the GPU, twin of `cells_cpu`. Half types are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import empty
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.recurrent import cells_triton as device

_BLOCK = 512  # elements of a program, 4 for each thread of its 4 warps


def lstm_step_forward(gates: Any, cell: Any) -> tuple[Any, Any, Any]:
    """(h', c', activated gates) of gates (B, 4 H) in the order i, f, g, o, before their activations."""
    gates, cell = contiguous(gates), contiguous(cell)
    active, cells, hiddens = _computed(gates), _like(cell), _like(cell)
    _run(device.lstm_cells, cell, gates, cell, active, cells, hiddens)
    return hiddens, cells, active


def lstm_step_backward(g_hidden: Any, g_cell: Any, active: Any, cell: Any, new_cell: Any) -> tuple[Any, Any]:
    """Gradients of the gates and of the cell."""
    cell = contiguous(cell)
    gate_gradients, cell_gradients = empty(active.shape, cell.dtype, cell.device_index), _like(cell)
    operands = (contiguous(g_hidden), contiguous(g_cell), active, cell, contiguous(new_cell))
    _run(device.lstm_cells_backward, cell, *operands, gate_gradients, cell_gradients)
    return gate_gradients, cell_gradients


def gru_step_forward(inner: Any, outer: Any, hidden: Any) -> tuple[Any, Any]:
    """(h', activated gates) of the projected input and hidden state (B, 3 H), each in the order r, z, n."""
    inner, hidden = contiguous(inner), contiguous(hidden)
    active, hiddens = _computed(inner), _like(hidden)
    _run(device.gru_cells, hidden, inner, contiguous(outer), hidden, active, hiddens)
    return hiddens, active


def gru_step_backward(g: Any, active: Any, outer: Any, hidden: Any) -> tuple[Any, Any, Any]:
    """Gradients of both projections and of the hidden state."""
    hidden = contiguous(hidden)
    inner_gradients, outer_gradients = (empty(active.shape, hidden.dtype, hidden.device_index) for _ in range(2))
    through = _like(hidden)
    operands = (contiguous(g), active, contiguous(outer), hidden)
    _run(device.gru_cells_backward, hidden, *operands, inner_gradients, outer_gradients, through)
    return inner_gradients, outer_gradients, through


def _run(kernel: Any, state: Any, *arrays: Any) -> None:
    width = state.shape[-1]
    if state.size:
        kernel((-(-state.size // _BLOCK),), *arrays, state.size // width, width, BLOCK=_BLOCK, num_warps=4)


def _like(array: Any) -> Any:
    return empty(array.shape, array.dtype, array.device_index)


def _computed(array: Any) -> Any:
    """A new array in the type that computes."""
    kind = array.dtype
    return empty(array.shape, numpy.dtype(numpy.float32) if kind.itemsize == 2 else kind, array.device_index)
