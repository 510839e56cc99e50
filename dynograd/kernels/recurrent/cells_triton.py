"""One step of LSTM and GRU after the products with the weights, on the GPU, in Triton. Gates are kept in the type that computes."""

from typing import Any

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.formula.exponentials_triton import sigmoid, tanh

_LSTM: dict[str, Any] = dict(
    gates="*bf16", cell="*bf16", active="*fp32", new_cell="*bf16", hidden="*bf16", rows="i32", width="i32", BLOCK=512
)
_LSTM_BACK: dict[str, Any] = dict(
    g_hidden="*bf16", g_cell="*bf16", active="*fp32", cell="*bf16", new_cell="*bf16", gates_g="*bf16", cell_g="*bf16", rows="i32",
    width="i32", BLOCK=512,
)  # fmt: skip
_GRU: dict[str, Any] = dict(
    inner="*bf16", outer="*bf16", hidden="*bf16", active="*fp32", new_hidden="*bf16", rows="i32", width="i32", BLOCK=512
)
_GRU_BACK: dict[str, Any] = dict(
    g="*bf16", active="*fp32", outer="*bf16", hidden="*bf16", inner_g="*bf16", outer_g="*bf16", hidden_g="*bf16", rows="i32",
    width="i32", BLOCK=512,
)  # fmt: skip


def _in(kind: str, variant: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"*{kind}" if isinstance(value, str) and value[0] == "*" else value for name, value in variant.items()
    }


@triton_kernel(variants=[_LSTM, _in("fp32", _LSTM), _in("fp64", _LSTM)])
def lstm_cells(gates, cell, active, new_cell, hidden, rows, width, BLOCK: tl.constexpr):
    """Activates gates i, f, g, o of (rows, 4 width) and writes the new states. Grid: blocks of (rows, width), flat."""
    ACC: tl.constexpr = active.dtype.element_ty
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows.to(tl.int64) * width
    first = place // width * (4 * width) + place % width
    into = sigmoid(tl.load(gates + first, mask=inside, other=0.0).to(ACC))
    keep = sigmoid(tl.load(gates + first + width, mask=inside, other=0.0).to(ACC))
    update = tanh(tl.load(gates + first + 2 * width, mask=inside, other=0.0).to(ACC))
    out = sigmoid(tl.load(gates + first + 3 * width, mask=inside, other=0.0).to(ACC))
    now = keep * tl.load(cell + place, mask=inside, other=0.0).to(ACC) + into * update
    tl.store(active + first, into, mask=inside)
    tl.store(active + first + width, keep, mask=inside)
    tl.store(active + first + 2 * width, update, mask=inside)
    tl.store(active + first + 3 * width, out, mask=inside)
    tl.store(new_cell + place, now.to(new_cell.dtype.element_ty), mask=inside)
    tl.store(hidden + place, (out * tanh(now)).to(hidden.dtype.element_ty), mask=inside)


@triton_kernel(variants=[_LSTM_BACK, _in("fp32", _LSTM_BACK), _in("fp64", _LSTM_BACK)])
def lstm_cells_backward(g_hidden, g_cell, active, cell, new_cell, gates_g, cell_g, rows, width, BLOCK: tl.constexpr):
    """Gradients of the gates before their activations and of the cells. Grid: blocks of (rows, width), flat."""
    ACC: tl.constexpr = active.dtype.element_ty
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows.to(tl.int64) * width
    first = place // width * (4 * width) + place % width
    into, keep = (
        tl.load(active + first, mask=inside, other=0.0),
        tl.load(active + first + width, mask=inside, other=0.0),
    )
    update = tl.load(active + first + 2 * width, mask=inside, other=0.0)
    out = tl.load(active + first + 3 * width, mask=inside, other=0.0)
    before = tl.load(cell + place, mask=inside, other=0.0).to(ACC)
    squashed = tanh(tl.load(new_cell + place, mask=inside, other=0.0).to(ACC))
    shown = tl.load(g_hidden + place, mask=inside, other=0.0).to(ACC)
    toward = tl.load(g_cell + place, mask=inside, other=0.0).to(ACC) + shown * out * (1 - squashed * squashed)
    kind = gates_g.dtype.element_ty
    tl.store(gates_g + first, (toward * update * into * (1 - into)).to(kind), mask=inside)
    tl.store(gates_g + first + width, (toward * before * keep * (1 - keep)).to(kind), mask=inside)
    tl.store(gates_g + first + 2 * width, (toward * into * (1 - update * update)).to(kind), mask=inside)
    tl.store(gates_g + first + 3 * width, (shown * squashed * out * (1 - out)).to(kind), mask=inside)
    tl.store(cell_g + place, (toward * keep).to(kind), mask=inside)


@triton_kernel(variants=[_GRU, _in("fp32", _GRU), _in("fp64", _GRU)])
def gru_cells(inner, outer, hidden, active, new_hidden, rows, width, BLOCK: tl.constexpr):
    """Gates r, z, n from both projections (rows, 3 width), and the new states. Grid: blocks of (rows, width), flat."""
    ACC: tl.constexpr = active.dtype.element_ty
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows.to(tl.int64) * width
    first = place // width * (3 * width) + place % width
    reset = tl.load(inner + first, mask=inside, other=0.0).to(ACC) + tl.load(outer + first, mask=inside, other=0.0).to(
        ACC
    )
    update = tl.load(inner + first + width, mask=inside, other=0.0).to(ACC)
    update = sigmoid(update + tl.load(outer + first + width, mask=inside, other=0.0).to(ACC))
    reset = sigmoid(reset)
    new = tl.load(inner + first + 2 * width, mask=inside, other=0.0).to(ACC)
    new = tanh(new + reset * tl.load(outer + first + 2 * width, mask=inside, other=0.0).to(ACC))
    before = tl.load(hidden + place, mask=inside, other=0.0).to(ACC)
    tl.store(active + first, reset, mask=inside)
    tl.store(active + first + width, update, mask=inside)
    tl.store(active + first + 2 * width, new, mask=inside)
    tl.store(new_hidden + place, (new + update * (before - new)).to(new_hidden.dtype.element_ty), mask=inside)


@triton_kernel(variants=[_GRU_BACK, _in("fp32", _GRU_BACK), _in("fp64", _GRU_BACK)])
def gru_cells_backward(g, active, outer, hidden, inner_g, outer_g, hidden_g, rows, width, BLOCK: tl.constexpr):
    """Gradients of both projections and of the hidden states. Grid: blocks of (rows, width), flat."""
    ACC: tl.constexpr = active.dtype.element_ty
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows.to(tl.int64) * width
    first = place // width * (3 * width) + place % width
    reset, update = (
        tl.load(active + first, mask=inside, other=0.0),
        tl.load(active + first + width, mask=inside, other=0.0),
    )
    new = tl.load(active + first + 2 * width, mask=inside, other=0.0)
    part = tl.load(outer + first + 2 * width, mask=inside, other=0.0).to(ACC)
    before = tl.load(hidden + place, mask=inside, other=0.0).to(ACC)
    shown = tl.load(g + place, mask=inside, other=0.0).to(ACC)
    new_g = shown * (1 - update) * (1 - new * new)
    kind = inner_g.dtype.element_ty
    reset_g = (new_g * part * reset * (1 - reset)).to(kind)
    update_g = (shown * (before - new) * update * (1 - update)).to(kind)
    tl.store(inner_g + first, reset_g, mask=inside)
    tl.store(inner_g + first + width, update_g, mask=inside)
    tl.store(inner_g + first + 2 * width, new_g.to(kind), mask=inside)
    tl.store(outer_g + first, reset_g, mask=inside)
    tl.store(outer_g + first + width, update_g, mask=inside)
    tl.store(outer_g + first + 2 * width, (new_g * reset).to(kind), mask=inside)
    tl.store(hidden_g + place, (shown * update).to(kind), mask=inside)
