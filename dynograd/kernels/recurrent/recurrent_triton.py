"""Steps of LSTM, GRU and Elman layers on the GPU, forward and backward, in Triton: a step's product with W_hh and the cell in one kernel.

A program owns a block of rows (sequences) and a tile of hidden units, and for these all gates. Either a launch is one step and the
units are dealt out over programs, or (few units: the weights lie in the nearest cache) a program owns all units of its rows and a
launch is the whole sequence, with a barrier between steps.

The token of row r in step t is t * token_step + r * token_row, or (RAGGED 2, packed) starts[t] + r; rows are at work in step t
always (RAGGED 0), while t < lengths[r] (1), or while r < lengths[t], which then holds sizes of steps (2). States of rows that rest
are carried along. `hidden` (2, B, H) holds the state before place p of the loop in half p % 2.
"""

from typing import Any

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.formula.exponentials_triton import sigmoid, tanh
from dynograd.kernels.matmul.matmuls_triton import multiple


@triton.jit
def _at_work(rows, batch, step, steps, lengths, RAGGED: tl.constexpr):
    """Which rows have a token in this step; none outside the sequence."""
    here = (rows < batch) & (step >= 0) & (step < steps)
    if RAGGED == 1:
        here = here & (step < tl.load(lengths + rows, mask=rows < batch, other=0))
    elif RAGGED == 2:
        here = here & (rows < tl.load(lengths + step, mask=(step >= 0) & (step < steps), other=0))
    return here


@triton.jit
def _tokens(rows, step, steps, starts, token_step, token_row, RAGGED: tl.constexpr):
    if RAGGED == 2:
        return tl.load(starts + step, mask=(step >= 0) & (step < steps), other=0).to(tl.int64) + rows
    return token_step.to(tl.int64) * step + rows.to(tl.int64) * token_row


@triton.jit
def _any(truths):
    return tl.max(truths.to(tl.int32), 0) > 0


@triton.jit
def _gate(x, weight, units, k, width, acc, FULL: tl.constexpr, PRECISION: tl.constexpr):
    """Adds x (rows, k) times the rows `units` of a gate's weight (width, width)."""
    place = weight + units.to(tl.int64)[None, :] * width + k[:, None]
    y = tl.load(place) if FULL else tl.load(place, mask=(units < width)[None, :] & (k < width)[:, None], other=0.0)
    return tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=acc.dtype)


@triton.jit
def _state(hidden, rows, k, width, batch, FULL: tl.constexpr):
    place = hidden + rows.to(tl.int64)[:, None] * width + k[None, :]
    if FULL:
        return tl.load(place, mask=(rows < batch)[:, None], other=0.0)
    return tl.load(place, mask=(rows < batch)[:, None] & (k < width)[None, :], other=0.0)


_STEPS: dict[str, Any] = dict(
    starts="*i64", lengths="*i64", first="i32", last="i32", steps="i32", batch="i32", width="i32", token_step="i32", token_row="i32",
    REVERSE=False, RAGGED=0, UNIT=8, FULL=True, PRECISION="ieee", PERSISTENT=False, BB=64, BU=16, BK=64, num_warps=4, num_stages=3,
)  # fmt: skip
_HALF = dict(
    _STEPS, gates="*fp32", weight="*bf16", bias="*bf16", hidden="*bf16", cell="*fp32", kept_hidden="*bf16", kept="*fp32", y="*bf16",
)  # fmt: skip
_SINGLE = {
    **{name: "*fp32" if kind == "*bf16" else kind for name, kind in _HALF.items()}, "UNIT": 4, "BB": 16, "BU": 32, "BK": 32,
}  # fmt: skip
_DOUBLE = {
    **{name: "*fp64" if kind == "*fp32" else kind for name, kind in _SINGLE.items()}, "UNIT": 2, "BB": 16, "BU": 16, "BK": 16,
}  # fmt: skip


def _of(variant: dict[str, Any], *absent: str, **changes: Any) -> dict[str, Any]:
    return variant | dict.fromkeys(absent) | changes


@triton_kernel(
    variants=[
        _of(_HALF, "bias", CELL="lstm"),
        _of(_HALF, "bias", CELL="lstm", PERSISTENT=True, BB=16, BU=32, RAGGED=1, REVERSE=True),
        _of(_SINGLE, "bias", CELL="lstm", RAGGED=2),
        _of(_SINGLE, "bias", CELL="lstm", PRECISION="tf32"),
        _of(_DOUBLE, "bias", CELL="lstm", PERSISTENT=True),
        _of(_HALF, "cell", CELL="gru"),
        _of(_HALF, "cell", CELL="gru", PERSISTENT=True, BB=16, BU=32, RAGGED=1),
        _of(_SINGLE, "cell", CELL="gru", RAGGED=2, REVERSE=True),
        _of(_DOUBLE, "cell", CELL="gru"),
        _of(_HALF, "bias", "cell", "kept", CELL="tanh"),
        _of(_SINGLE, "bias", "cell", "kept", CELL="relu", PERSISTENT=True),
        _of(_DOUBLE, "bias", "cell", "kept", CELL="tanh"),
    ]
)
def recurrent_steps(
    gates, weight, bias, hidden, cell, kept_hidden, kept, y, starts, lengths, first, last, steps, batch, width, token_step, token_row,
    CELL: tl.constexpr, REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr, FULL: tl.constexpr,
    PRECISION: tl.constexpr, PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Places `first` to `last` of the steps: turns projected inputs in `gates` (tokens, n H) into activated gates.

    CELL: "lstm" with gates i, f, g, o, which keeps the cell states in `kept`; "gru" with r, z, n, which adds `bias` (H,) to the
    recurrent part of n and keeps it there; "tanh" and "relu" of Elman networks, whose one gate is the hidden state. What a cell has
    not is None. Grid: (blocks of rows, tiles of units), or (blocks of rows, 1) where PERSISTENT.
    """
    ACC: tl.constexpr = gates.dtype.element_ty
    GATES: tl.constexpr = 4 if CELL == "lstm" else 3 if CELL == "gru" else 1
    width = multiple(width, UNIT)
    size = width.to(tl.int64) * width
    states = width.to(tl.int64) * batch
    rows = tl.program_id(0) * BB + tl.arange(0, BB)
    for place in range(first, last):
        step = steps - 1 - place if REVERSE else place
        here = _at_work(rows, batch, step, steps, lengths, RAGGED)
        token = _tokens(rows, step, steps, starts, token_step, token_row, RAGGED)
        source = hidden + place % 2 * states
        target = hidden + (place + 1) % 2 * states
        depth = tl.where(_any(here), width, 0)
        for tile in range(tl.program_id(1), tl.cdiv(width, BU), tl.num_programs(1)):
            units = tile * BU + tl.arange(0, BU)
            a, b, c, d = (
                tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC),
            )  # fmt: skip
            for start in range(0, depth, BK):
                k = start + tl.arange(0, BK)
                x = _state(source, rows, k, width, batch, FULL)
                a = _gate(x, weight, units, k, width, a, FULL, PRECISION)
                if GATES >= 3:
                    b = _gate(x, weight + size, units, k, width, b, FULL, PRECISION)
                    c = _gate(x, weight + 2 * size, units, k, width, c, FULL, PRECISION)
                if GATES == 4:
                    d = _gate(x, weight + 3 * size, units, k, width, d, FULL, PRECISION)
            inside = here[:, None] & (units < width)[None, :]
            gate = gates + token[:, None] * (GATES * width) + units[None, :]
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            to = token[:, None] * width + units[None, :]
            old = tl.load(source + own, mask=real, other=0.0)
            if CELL == "lstm":
                into = sigmoid(a + tl.load(gate, mask=inside, other=0.0))
                keep = sigmoid(b + tl.load(gate + width, mask=inside, other=0.0))
                update = tanh(c + tl.load(gate + 2 * width, mask=inside, other=0.0))
                out = sigmoid(d + tl.load(gate + 3 * width, mask=inside, other=0.0))
                tl.store(gate, into, mask=inside)
                tl.store(gate + width, keep, mask=inside)
                tl.store(gate + 2 * width, update, mask=inside)
                tl.store(gate + 3 * width, out, mask=inside)
                before = tl.load(cell + own, mask=inside, other=0.0)
                now = keep * before + into * update
                shown = (out * tanh(now)).to(y.dtype.element_ty)
                tl.store(kept + to, before, mask=inside)
                tl.store(cell + own, now, mask=inside)
            elif CELL == "gru":
                reset = sigmoid(a + tl.load(gate, mask=inside, other=0.0))
                update = sigmoid(b + tl.load(gate + width, mask=inside, other=0.0))
                inner = c + tl.load(bias + units, mask=units < width, other=0.0).to(ACC)[None, :]
                new = tanh(tl.load(gate + 2 * width, mask=inside, other=0.0) + reset * inner)
                tl.store(gate, reset, mask=inside)
                tl.store(gate + width, update, mask=inside)
                tl.store(gate + 2 * width, new, mask=inside)
                shown = (new + update * (old.to(ACC) - new)).to(y.dtype.element_ty)
                tl.store(kept + to, inner, mask=inside)
            else:
                total = a + tl.load(gate, mask=inside, other=0.0)
                total = tanh(total) if CELL == "tanh" else tl.where(total < 0, 0.0, total)
                shown = total.to(y.dtype.element_ty)
                tl.store(gate, total, mask=inside)
            tl.store(kept_hidden + to, old, mask=inside)
            tl.store(y + to, shown, mask=inside)
            tl.store(target + own, tl.where(inside, shown, old), mask=real)
        if PERSISTENT:
            tl.debug_barrier()


# --- backward ------------------------------------------------------------------------------------------------------------------
#
# Place p of the loop handles the gradients of a step, after the product that brings those of the step handled before it. Places run
# to one beyond the steps, where only that product is left. A row that did not work in the step before starts from `hidden_g`.


@triton.jit
def _before(
    acc,
    source,
    token,
    work,
    weight,
    units,
    gates_width,
    width,
    FULL: tl.constexpr,
    PRECISION: tl.constexpr,
    BK: tl.constexpr,
):
    """Adds (rows, gates_width) gradients of tokens times `weight` (gates_width, width), for the given units."""
    depth = tl.where(_any(work), gates_width, 0)
    for start in range(0, depth, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(
            source + token[:, None] * gates_width + k[None, :],
            mask=work[:, None] & (k < gates_width)[None, :],
            other=0.0,
        )
        place = weight + k.to(tl.int64)[:, None] * width + units[None, :]
        y = (
            tl.load(place)
            if FULL
            else tl.load(place, mask=(k < gates_width)[:, None] & (units < width)[None, :], other=0.0)
        )
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=acc.dtype)
    return acc


_BACK = dict(
    _STEPS, gates="*fp32", weight="*bf16", kept_hidden="*bf16", kept="*fp32", gy="*bf16", gates_g="*bf16", rest_g="*bf16", hidden_g="*fp32",
    cell_g="*fp32", gy_step="i32", gy_row="i32", GIVEN=True,
)  # fmt: skip
_SINGLE_BACK = {
    **{name: "*fp32" if kind == "*bf16" else kind for name, kind in _BACK.items()}, "UNIT": 4, "BB": 16, "BU": 32, "BK": 32,
}  # fmt: skip
_DOUBLE_BACK = {
    **{name: "*fp64" if kind == "*fp32" else kind for name, kind in _SINGLE_BACK.items()}, "UNIT": 2, "BB": 16, "BU": 16, "BK": 16,
}  # fmt: skip


@triton_kernel(
    variants=[
        _of(_BACK, "kept_hidden", CELL="lstm"),
        _of(_BACK, "kept_hidden", CELL="lstm", PERSISTENT=True, BB=16, BU=32, RAGGED=1),
        _of(_SINGLE_BACK, "kept_hidden", CELL="lstm", RAGGED=2),
        _of(_DOUBLE_BACK, "kept_hidden", CELL="lstm"),
        _of(_BACK, "cell_g", CELL="gru"),
        _of(_BACK, "cell_g", CELL="gru", PERSISTENT=True, BB=16, BU=32, RAGGED=1),
        _of(_SINGLE_BACK, "cell_g", CELL="gru", RAGGED=2),
        _of(_DOUBLE_BACK, "cell_g", CELL="gru"),
        _of(_BACK, "kept_hidden", "kept", "cell_g", CELL="tanh"),
        _of(_SINGLE_BACK, "kept_hidden", "kept", "cell_g", CELL="relu", PERSISTENT=True),
        _of(_DOUBLE_BACK, "kept_hidden", "kept", "cell_g", CELL="tanh"),
    ]
)
def recurrent_steps_backward(
    gates, weight, kept_hidden, kept, gy, gates_g, rest_g, hidden_g, cell_g, starts, lengths, first, last, steps, batch, width, token_step,
    token_row, gy_step, gy_row, CELL: tl.constexpr, GIVEN: tl.constexpr, REVERSE: tl.constexpr, RAGGED: tl.constexpr,
    UNIT: tl.constexpr, FULL: tl.constexpr, PRECISION: tl.constexpr, PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Writes gradients before the activations to `gates_g`; hidden_g, cell_g (B, H) become those of the initial states.

    gy's token steps are its own; GIVEN: there is a gy. `rest_g` (tokens, n H) are the gradients of the projected hidden states: those
    of GRU differ in the last block, of other cells they are `gates_g`. Grid as forward.
    """
    ACC: tl.constexpr = gates.dtype.element_ty
    GATES: tl.constexpr = 4 if CELL == "lstm" else 3 if CELL == "gru" else 1
    width = multiple(width, UNIT)
    rows = tl.program_id(0) * BB + tl.arange(0, BB)
    for place in range(first, last):
        step = place if REVERSE else steps - 1 - place
        prior = step - 1 if REVERSE else step + 1
        here = _at_work(rows, batch, step, steps, lengths, RAGGED)
        done = _at_work(rows, batch, prior, steps, lengths, RAGGED)
        token = _tokens(rows, step, steps, starts, token_step, token_row, RAGGED)
        done_token = _tokens(rows, prior, steps, starts, token_step, token_row, RAGGED)
        shown_token = _tokens(rows, step, steps, starts, gy_step, gy_row, RAGGED)
        for tile in range(tl.program_id(1), tl.cdiv(width, BU), tl.num_programs(1)):
            units = tile * BU + tl.arange(0, BU)
            acc = tl.zeros((BB, BU), ACC)
            acc = _before(acc, rest_g, done_token, done, weight, units, GATES * width, width, FULL, PRECISION, BK)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            toward = tl.load(hidden_g + own, mask=real, other=0.0)
            if CELL == "gru":
                toward = acc + toward
            else:
                toward = tl.where(done[:, None], acc, toward)
                tl.store(hidden_g + own, toward, mask=real)
            inside = here[:, None] & (units < width)[None, :]
            at = token[:, None] * width + units[None, :]
            gate = gates + token[:, None] * (GATES * width) + units[None, :]
            to = gates_g + token[:, None] * (GATES * width) + units[None, :]
            kind = gates_g.dtype.element_ty
            outer = toward
            if GIVEN:
                outer += tl.load(gy + shown_token[:, None] * width + units[None, :], mask=inside, other=0.0).to(ACC)
            if CELL == "lstm":
                into, keep = tl.load(gate, mask=inside, other=0.0), tl.load(gate + width, mask=inside, other=0.0)
                update = tl.load(gate + 2 * width, mask=inside, other=0.0)
                out = tl.load(gate + 3 * width, mask=inside, other=0.0)
                before = tl.load(kept + at, mask=inside, other=0.0)
                squashed = tanh(keep * before + into * update)
                to_cell = tl.load(cell_g + own, mask=inside, other=0.0) + outer * out * (1 - squashed * squashed)
                tl.store(to, (to_cell * update * into * (1 - into)).to(kind), mask=inside)
                tl.store(to + width, (to_cell * before * keep * (1 - keep)).to(kind), mask=inside)
                tl.store(to + 2 * width, (to_cell * into * (1 - update * update)).to(kind), mask=inside)
                tl.store(to + 3 * width, (outer * squashed * out * (1 - out)).to(kind), mask=inside)
                tl.store(cell_g + own, to_cell * keep, mask=inside)
            elif CELL == "gru":
                reset, update = tl.load(gate, mask=inside, other=0.0), tl.load(gate + width, mask=inside, other=0.0)
                new = tl.load(gate + 2 * width, mask=inside, other=0.0)
                before = tl.load(kept_hidden + at, mask=inside, other=0.0).to(ACC)
                candidate = tl.load(kept + at, mask=inside, other=0.0)
                new_g = outer * (1 - update) * (1 - new * new)
                reset_g = (new_g * candidate * reset * (1 - reset)).to(kind)
                update_g = (outer * (before - new) * update * (1 - update)).to(kind)
                rest = rest_g + token[:, None] * (GATES * width) + units[None, :]
                tl.store(to, reset_g, mask=inside)
                tl.store(to + width, update_g, mask=inside)
                tl.store(to + 2 * width, new_g.to(kind), mask=inside)
                tl.store(rest, reset_g, mask=inside)
                tl.store(rest + width, update_g, mask=inside)
                tl.store(rest + 2 * width, (new_g * reset).to(kind), mask=inside)
                tl.store(hidden_g + own, tl.where(inside, outer * update, toward), mask=real)
            else:
                shown = tl.load(gate, mask=inside, other=0.0)
                outer = outer * (1 - shown * shown) if CELL == "tanh" else tl.where(shown > 0, outer, 0.0)
                tl.store(to, outer.to(kind), mask=inside)
        if PERSISTENT:
            tl.debug_barrier()


@triton_kernel(
    variants=[
        dict(x="*bf16", y="*bf16", lengths="*i64", batch="i32", columns="i32", x_step="i32", x_row="i32", token_step="i32",
             token_row="i32", BLOCK=1024, num_warps=4),
    ]
)  # fmt: skip
def real_tokens(x, y, lengths, batch, columns, x_step, x_row, token_step, token_row, BLOCK: tl.constexpr):
    """y's token (t, r) = x's where t < lengths[r], else 0, whatever x holds there. Grid: (T * B, blocks of columns)."""
    step, row = tl.program_id(0) // batch, tl.program_id(0) % batch
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = step < tl.load(lengths + row)
    operands = tl.load(
        x + step.to(tl.int64) * x_step + row.to(tl.int64) * x_row + c, mask=live & (c < columns), other=0.0
    )
    place = (step.to(tl.int64) * token_step + row.to(tl.int64) * token_row) * columns
    tl.store(y + place + c, operands, mask=c < columns)
