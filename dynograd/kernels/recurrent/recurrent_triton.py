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
    _STEPS, gates="*fp32", weight="*bf16", hidden="*bf16", cell="*fp32", kept_hidden="*bf16", kept_cell="*fp32", y="*bf16", new_bias="*bf16",
    candidates="*fp32",
)  # fmt: skip
_SINGLE = {
    **{name: "*fp32" if kind == "*bf16" else kind for name, kind in _HALF.items()}, "UNIT": 4, "BB": 16, "BU": 32, "BK": 32,
}  # fmt: skip
_DOUBLE = {
    **{name: "*fp64" if kind == "*fp32" else kind for name, kind in _SINGLE.items()}, "UNIT": 2, "BB": 16, "BU": 16, "BK": 16,
}  # fmt: skip


def _of(variant: dict[str, Any], *left_out: str, **changes: Any) -> dict[str, Any]:
    return {name: kind for name, kind in variant.items() if name not in left_out} | changes


@triton_kernel(
    variants=[
        _of(_HALF, "new_bias", "candidates"),
        _of(_HALF, "new_bias", "candidates", PERSISTENT=True, BB=16, BU=32, RAGGED=1, REVERSE=True),
        _of(_SINGLE, "new_bias", "candidates", RAGGED=2),
        _of(_SINGLE, "new_bias", "candidates", PRECISION="tf32"),
        _of(_DOUBLE, "new_bias", "candidates", PERSISTENT=True),
    ]
)
def lstm_steps(
    gates, weight, hidden, cell, kept_hidden, kept_cell, y, starts, lengths, first, last, steps, batch, width, token_step, token_row,
    REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr, FULL: tl.constexpr, PRECISION: tl.constexpr,
    PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Places `first` to `last` of the steps: turns projected inputs in `gates` (tokens, 4 H) into activated gates i, f, g, o.

    Grid: (blocks of rows, tiles of units), or (blocks of rows, 1) where PERSISTENT.
    """
    ACC: tl.constexpr = gates.dtype.element_ty
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
            into, keep, update, out = (
                tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC),
            )  # fmt: skip
            for start in range(0, depth, BK):
                k = start + tl.arange(0, BK)
                x = _state(source, rows, k, width, batch, FULL)
                into = _gate(x, weight, units, k, width, into, FULL, PRECISION)
                keep = _gate(x, weight + size, units, k, width, keep, FULL, PRECISION)
                update = _gate(x, weight + 2 * size, units, k, width, update, FULL, PRECISION)
                out = _gate(x, weight + 3 * size, units, k, width, out, FULL, PRECISION)
            inside = here[:, None] & (units < width)[None, :]
            gate = gates + token[:, None] * (4 * width) + units[None, :]
            into = sigmoid(into + tl.load(gate, mask=inside, other=0.0))
            keep = sigmoid(keep + tl.load(gate + width, mask=inside, other=0.0))
            update = tanh(update + tl.load(gate + 2 * width, mask=inside, other=0.0))
            out = sigmoid(out + tl.load(gate + 3 * width, mask=inside, other=0.0))
            tl.store(gate, into, mask=inside)
            tl.store(gate + width, keep, mask=inside)
            tl.store(gate + 2 * width, update, mask=inside)
            tl.store(gate + 3 * width, out, mask=inside)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            before = tl.load(cell + own, mask=inside, other=0.0)
            old = tl.load(source + own, mask=real, other=0.0)
            now = keep * before + into * update
            shown = (out * tanh(now)).to(y.dtype.element_ty)
            to = token[:, None] * width + units[None, :]
            tl.store(kept_hidden + to, old, mask=inside)
            tl.store(kept_cell + to, before, mask=inside)
            tl.store(y + to, shown, mask=inside)
            tl.store(cell + own, now, mask=inside)
            tl.store(target + own, tl.where(inside, shown, old), mask=real)
        if PERSISTENT:
            tl.debug_barrier()


@triton_kernel(
    variants=[
        _of(_HALF, "cell", "kept_cell"),
        _of(_HALF, "cell", "kept_cell", PERSISTENT=True, BB=16, BU=32, RAGGED=1),
        _of(_SINGLE, "cell", "kept_cell", RAGGED=2, REVERSE=True),
        _of(_DOUBLE, "cell", "kept_cell"),
    ]
)
def gru_steps(
    gates, weight, new_bias, hidden, kept_hidden, candidates, y, starts, lengths, first, last, steps, batch, width, token_step, token_row,
    REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr, FULL: tl.constexpr, PRECISION: tl.constexpr,
    PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`lstm_steps` for GRU: gates r, z, n (tokens, 3 H); keeps the recurrent part of n in `candidates`."""
    ACC: tl.constexpr = gates.dtype.element_ty
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
            reset, update, inner = tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC), tl.zeros((BB, BU), ACC)
            for start in range(0, depth, BK):
                k = start + tl.arange(0, BK)
                x = _state(source, rows, k, width, batch, FULL)
                reset = _gate(x, weight, units, k, width, reset, FULL, PRECISION)
                update = _gate(x, weight + size, units, k, width, update, FULL, PRECISION)
                inner = _gate(x, weight + 2 * size, units, k, width, inner, FULL, PRECISION)
            inside = here[:, None] & (units < width)[None, :]
            gate = gates + token[:, None] * (3 * width) + units[None, :]
            reset = sigmoid(reset + tl.load(gate, mask=inside, other=0.0))
            update = sigmoid(update + tl.load(gate + width, mask=inside, other=0.0))
            inner += tl.load(new_bias + units, mask=units < width, other=0.0).to(ACC)[None, :]
            new = tanh(tl.load(gate + 2 * width, mask=inside, other=0.0) + reset * inner)
            tl.store(gate, reset, mask=inside)
            tl.store(gate + width, update, mask=inside)
            tl.store(gate + 2 * width, new, mask=inside)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            old = tl.load(source + own, mask=real, other=0.0)
            shown = (new + update * (old.to(ACC) - new)).to(y.dtype.element_ty)
            to = token[:, None] * width + units[None, :]
            tl.store(kept_hidden + to, old, mask=inside)
            tl.store(candidates + to, inner, mask=inside)
            tl.store(y + to, shown, mask=inside)
            tl.store(target + own, tl.where(inside, shown, old), mask=real)
        if PERSISTENT:
            tl.debug_barrier()


@triton_kernel(
    variants=[
        _of(_HALF, "cell", "kept_cell", "candidates", "new_bias", CURVED=True),
        _of(_SINGLE, "cell", "kept_cell", "candidates", "new_bias", CURVED=False, PERSISTENT=True),
        _of(_DOUBLE, "cell", "kept_cell", "candidates", "new_bias", CURVED=True),
    ]
)
def rnn_steps(
    gates, weight, hidden, kept_hidden, y, starts, lengths, first, last, steps, batch, width, token_step, token_row,
    REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr, FULL: tl.constexpr, PRECISION: tl.constexpr,
    PERSISTENT: tl.constexpr, CURVED: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`lstm_steps` for Elman networks: hidden states by tanh (CURVED) or relu, kept in `gates` (tokens, H)."""
    ACC: tl.constexpr = gates.dtype.element_ty
    width = multiple(width, UNIT)
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
            total = tl.zeros((BB, BU), ACC)
            for start in range(0, depth, BK):
                k = start + tl.arange(0, BK)
                x = _state(source, rows, k, width, batch, FULL)
                total = _gate(x, weight, units, k, width, total, FULL, PRECISION)
            inside = here[:, None] & (units < width)[None, :]
            to = token[:, None] * width + units[None, :]
            total += tl.load(gates + to, mask=inside, other=0.0)
            if CURVED:
                total = tanh(total)
            else:
                total = tl.where(total < 0, 0.0, total)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            old = tl.load(source + own, mask=real, other=0.0)
            shown = total.to(y.dtype.element_ty)
            tl.store(gates + to, total, mask=inside)
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


_BACK = _of(
    _HALF,
    "hidden",
    "cell",
    "y",
    "new_bias",
    gy="*bf16",
    gates_g="*bf16",
    hidden_g="*fp32",
    gy_step="i32",
    gy_row="i32",
    GIVEN=True,
)
_SINGLE_BACK = {
    **{name: "*fp32" if kind == "*bf16" else kind for name, kind in _BACK.items()}, "UNIT": 4, "BB": 16, "BU": 32, "BK": 32,
}  # fmt: skip
_DOUBLE_BACK = {
    **{name: "*fp64" if kind == "*fp32" else kind for name, kind in _SINGLE_BACK.items()}, "UNIT": 2, "BB": 16, "BU": 16, "BK": 16,
}  # fmt: skip


@triton_kernel(
    variants=[
        _of(_BACK, "kept_hidden", "candidates", cell_g="*fp32"),
        _of(_BACK, "kept_hidden", "candidates", cell_g="*fp32", PERSISTENT=True, BB=16, BU=32, RAGGED=1),
        _of(_SINGLE_BACK, "kept_hidden", "candidates", cell_g="*fp32", RAGGED=2),
        _of(_DOUBLE_BACK, "kept_hidden", "candidates", cell_g="*fp64"),
    ]
)
def lstm_steps_backward(
    gates, weight, kept_cell, gy, gates_g, hidden_g, cell_g, starts, lengths, first, last, steps, batch, width, token_step, token_row,
    gy_step, gy_row, GIVEN: tl.constexpr, REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr, FULL: tl.constexpr,
    PRECISION: tl.constexpr, PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Writes gradients before the activations to `gates_g`; hidden_g, cell_g (B, H) become those of the initial states.

    gy's token steps are its own; GIVEN: there is a gy. Grid as forward.
    """
    ACC: tl.constexpr = gates.dtype.element_ty
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
            acc = _before(acc, gates_g, done_token, done, weight, units, 4 * width, width, FULL, PRECISION, BK)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            toward = tl.where(done[:, None], acc, tl.load(hidden_g + own, mask=real, other=0.0))
            tl.store(hidden_g + own, toward, mask=real)
            inside = here[:, None] & (units < width)[None, :]
            gate = gates + token[:, None] * (4 * width) + units[None, :]
            into, keep = tl.load(gate, mask=inside, other=0.0), tl.load(gate + width, mask=inside, other=0.0)
            update, out = (
                tl.load(gate + 2 * width, mask=inside, other=0.0),
                tl.load(gate + 3 * width, mask=inside, other=0.0),
            )
            before = tl.load(kept_cell + token[:, None] * width + units[None, :], mask=inside, other=0.0)
            if GIVEN:
                toward += tl.load(gy + shown_token[:, None] * width + units[None, :], mask=inside, other=0.0).to(ACC)
            squashed = tanh(keep * before + into * update)
            to_cell = tl.load(cell_g + own, mask=inside, other=0.0) + toward * out * (1 - squashed * squashed)
            to = gates_g + token[:, None] * (4 * width) + units[None, :]
            kind = gates_g.dtype.element_ty
            tl.store(to, (to_cell * update * into * (1 - into)).to(kind), mask=inside)
            tl.store(to + width, (to_cell * before * keep * (1 - keep)).to(kind), mask=inside)
            tl.store(to + 2 * width, (to_cell * into * (1 - update * update)).to(kind), mask=inside)
            tl.store(to + 3 * width, (toward * squashed * out * (1 - out)).to(kind), mask=inside)
            tl.store(cell_g + own, to_cell * keep, mask=inside)
        if PERSISTENT:
            tl.debug_barrier()


@triton_kernel(
    variants=[
        _of(_BACK, "kept_cell", candidates_g="*bf16"),
        _of(_BACK, "kept_cell", candidates_g="*bf16", PERSISTENT=True, BB=16, BU=32, RAGGED=1),
        _of(_SINGLE_BACK, "kept_cell", candidates_g="*fp32", RAGGED=2),
        _of(_DOUBLE_BACK, "kept_cell", candidates_g="*fp64"),
    ]
)
def gru_steps_backward(
    gates, weight, candidates, kept_hidden, gy, gates_g, candidates_g, hidden_g, starts, lengths, first, last, steps, batch, width, token_step,
    token_row, gy_step, gy_row, GIVEN: tl.constexpr, REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr,
    FULL: tl.constexpr, PRECISION: tl.constexpr, PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`lstm_steps_backward` for GRU.

    `gates_g` (tokens, 3 H): gradients of the projected inputs; `candidates_g` (tokens, 3 H): of the projected hidden states, which
    differ in the last block.
    """
    ACC: tl.constexpr = gates.dtype.element_ty
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
            acc = _before(acc, candidates_g, done_token, done, weight, units, 3 * width, width, FULL, PRECISION, BK)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            toward = acc + tl.load(hidden_g + own, mask=real, other=0.0)
            inside = here[:, None] & (units < width)[None, :]
            gate = gates + token[:, None] * (3 * width) + units[None, :]
            reset, update = tl.load(gate, mask=inside, other=0.0), tl.load(gate + width, mask=inside, other=0.0)
            new = tl.load(gate + 2 * width, mask=inside, other=0.0)
            at = token[:, None] * width + units[None, :]
            before = tl.load(kept_hidden + at, mask=inside, other=0.0).to(ACC)
            candidate = tl.load(candidates + at, mask=inside, other=0.0)
            shown = toward
            if GIVEN:
                shown += tl.load(gy + shown_token[:, None] * width + units[None, :], mask=inside, other=0.0).to(ACC)
            new_g = shown * (1 - update) * (1 - new * new)
            kind = gates_g.dtype.element_ty
            reset_g = (new_g * candidate * reset * (1 - reset)).to(kind)
            update_g = (shown * (before - new) * update * (1 - update)).to(kind)
            to = token[:, None] * (3 * width) + units[None, :]
            tl.store(gates_g + to, reset_g, mask=inside)
            tl.store(gates_g + to + width, update_g, mask=inside)
            tl.store(gates_g + to + 2 * width, new_g.to(kind), mask=inside)
            tl.store(candidates_g + to, reset_g, mask=inside)
            tl.store(candidates_g + to + width, update_g, mask=inside)
            tl.store(candidates_g + to + 2 * width, (new_g * reset).to(kind), mask=inside)
            tl.store(hidden_g + own, tl.where(inside, shown * update, toward), mask=real)
        if PERSISTENT:
            tl.debug_barrier()


@triton_kernel(
    variants=[
        _of(_BACK, "kept_cell", "kept_hidden", "candidates", CURVED=True),
        _of(_SINGLE_BACK, "kept_cell", "kept_hidden", "candidates", CURVED=False, PERSISTENT=True),
        _of(_DOUBLE_BACK, "kept_cell", "kept_hidden", "candidates", CURVED=True),
    ]
)
def rnn_steps_backward(
    gates, weight, gy, gates_g, hidden_g, starts, lengths, first, last, steps, batch, width, token_step, token_row, gy_step, gy_row,
    GIVEN: tl.constexpr, CURVED: tl.constexpr, REVERSE: tl.constexpr, RAGGED: tl.constexpr, UNIT: tl.constexpr, FULL: tl.constexpr,
    PRECISION: tl.constexpr, PERSISTENT: tl.constexpr, BB: tl.constexpr, BU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`lstm_steps_backward` for Elman networks."""
    ACC: tl.constexpr = gates.dtype.element_ty
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
            acc = _before(acc, gates_g, done_token, done, weight, units, width, width, FULL, PRECISION, BK)
            real = (rows < batch)[:, None] & (units < width)[None, :]
            own = rows.to(tl.int64)[:, None] * width + units[None, :]
            toward = tl.where(done[:, None], acc, tl.load(hidden_g + own, mask=real, other=0.0))
            tl.store(hidden_g + own, toward, mask=real)
            inside = here[:, None] & (units < width)[None, :]
            at = token[:, None] * width + units[None, :]
            shown = tl.load(gates + at, mask=inside, other=0.0)
            if GIVEN:
                toward += tl.load(gy + shown_token[:, None] * width + units[None, :], mask=inside, other=0.0).to(ACC)
            if CURVED:
                toward *= 1 - shown * shown
            else:
                toward = tl.where(shown > 0, toward, 0.0)
            tl.store(gates_g + at, toward.to(gates_g.dtype.element_ty), mask=inside)
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
