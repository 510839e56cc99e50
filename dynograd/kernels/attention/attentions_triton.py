"""Attention in tiles on the GPU (flash attention), in Triton: no matrix of all scores is ever kept.

Forward keeps, beside the result, the logarithm of each row's sum of exp(scores); backward computes weights from it again, once for the
gradient of the queries and once for those of keys and values, each program with sums of its own: no atomics, the same bits every time.
Scores are kept in powers of two inside: exp2 is what the hardware has.

With VARLEN, sequences lie behind one another along the rows of q and of k and v: those of batch b begin at row `first_q[b]` and `first_k[b]`,
and `first_w[b]` weights of a head come before. L and S are then the rows of all sequences, strides of batches 0, lse and delta (H, L).

Sources: Dao, FlashAttention-2, 2023 (arXiv:2307.08691), algorithms 1 and 2.
"""

from typing import Any

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.matmul.matmuls_triton import multiple

_LOG2_E = tl.constexpr(1.4426950408889634)
_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _tile(base, at, step, count, columns, width, FULL: tl.constexpr):
    """Rows `at` (those below `count`) and `columns` (those below `width`, all of them where FULL) as a tile, 0 elsewhere."""
    place = base + at.to(tl.int64)[:, None] * step + columns[None, :]
    if FULL:
        return tl.load(place, mask=at[:, None] < count, other=0.0)
    return tl.load(place, mask=(at[:, None] < count) & (columns[None, :] < width), other=0.0)


@triton.jit
def _hidden(
    scores,
    mask,
    rows,
    columns,
    L,
    S,
    step_row,
    MASK: tl.constexpr,
    MASK_UNIT: tl.constexpr,
    CAUSAL: tl.constexpr,
    EDGE: tl.constexpr,
    BEYOND: tl.constexpr,
):
    """Scores (in powers of two) with -inf where nothing may be seen. rows and columns have the shape of the tile, or broadcast to it.

    BEYOND: some columns are not below S.
    """
    if MASK:
        # rows of a mask have room for whole 16 bytes
        near = columns < tl.cdiv(S, MASK_UNIT) * MASK_UNIT
        if MASK > 2:
            operands = tl.load(mask + columns, mask=near, other=0) if BEYOND else tl.load(mask + columns)
        else:
            there = (rows < L) & near if BEYOND else rows < L
            operands = tl.load(mask + rows.to(tl.int64) * step_row + columns, mask=there, other=0)
        if MASK == 1 or MASK == 3:
            scores = tl.where(operands != 0, scores, -float("inf"))
        else:
            operands = operands.to(tl.float32)
            scores = tl.where(operands == -float("inf"), -float("inf"), scores + operands * _LOG2_E)
    if EDGE:
        seen = columns < S
        if CAUSAL:
            seen = seen & (columns <= rows)
        scores = tl.where(seen, scores, -float("inf"))
    return scores


@triton.jit
def _keeps(
    seed,
    offset,
    first,
    step_row,
    threshold,
    factor,
    R: tl.constexpr,
    C: tl.constexpr,
    QUADS: tl.constexpr,
    TURNED: tl.constexpr,
):
    """(R, C), or (C, R) where TURNED: 0 for weights that are dropped and `factor` for the others, as `dropout_mask` has them.

    Element (r, c) is number first + r * step_row + c of the draw. QUADS: first and step_row are multiples of 4.
    """
    if QUADS:
        blocks = (first + tl.arange(0, R).to(tl.int64)[:, None] * step_row) // 4 + tl.arange(0, C // 4)[None, :]
        a, b, c, d = tl.randint4x(seed, offset + blocks)
        words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (R, C))
    else:
        number = first + tl.arange(0, R).to(tl.int64)[:, None] * step_row + tl.arange(0, C)[None, :]
        a, b, c, d = tl.randint4x(seed, offset + number // 4)
        lane = number % 4
        words = tl.where(lane == 0, a, tl.where(lane == 1, b, tl.where(lane == 2, c, d)))
    kept = tl.where(words.to(tl.uint32) < threshold.to(tl.uint32), 0.0, factor)
    return tl.trans(kept) if TURNED else kept


@triton.jit
def _forward_keys(
    acc, top, total, x, k, v, mask, start, stop, rows, drawn, scale, L, S, E, V, k_row, v_row, mask_row, seed, offset,
    threshold, factor, BM: tl.constexpr, BN: tl.constexpr, BE: tl.constexpr, BV: tl.constexpr, FULL: tl.constexpr,
    MASK: tl.constexpr, MASK_UNIT: tl.constexpr, CAUSAL: tl.constexpr, EDGE: tl.constexpr, DROPOUT: tl.constexpr, QUADS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Takes in the keys from `start` to `stop`; some may be hidden by the edges where EDGE."""
    for first in range(start, stop, BN):
        columns = first + tl.arange(0, BN)
        y = _tile(k, columns, k_row, S, tl.arange(0, BE), E, FULL)
        scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * scale
        scores = _hidden(
            scores, mask, rows[:, None], columns[None, :], L, S, mask_row, MASK, MASK_UNIT, CAUSAL, EDGE, EDGE
        )
        higher = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp2(top - base)
        weights = tl.exp2(scores - base[:, None])
        total = total * shrink + tl.sum(weights, 1)
        if DROPOUT:
            number = drawn + tl.min(rows, 0).to(tl.int64) * S + first
            weights *= _keeps(seed, offset, number, S, threshold, factor, BM, BN, QUADS, False)
        z = _tile(v, columns, v_row, S, tl.arange(0, BV), V, FULL)
        acc = tl.dot(weights.to(z.dtype), z, acc * shrink[:, None], input_precision=PRECISION)
        top = higher
    return acc, top, total


_NUMBERS: dict[str, Any] = dict(
    scale="fp32", heads="i32", group="i32", L="i32", S="i32", E="i32", V="i32",
    **{f"{name}_{dim}": "i32" for name in ("q", "k", "v", "o", "mask") for dim in ("batch", "head", "row")},
    seed="i64", offset="i64", threshold="i64", factor="fp32", first_q="*i64", first_k="*i64", first_w="*i64", VARLEN=False,
    FULL=True, MASK=0, MASK_UNIT=1, CAUSAL=True, DROPOUT=False, QUADS=True, PRECISION="ieee", UNIT=8,
)  # fmt: skip
_HALF = dict(_NUMBERS, q="*bf16", k="*bf16", v="*bf16", mask="*bf16", lse="*fp32")
_SINGLE = dict(_NUMBERS, q="*fp32", k="*fp32", v="*fp32", mask="*fp32", lse="*fp32", UNIT=4)
_FORWARD_64 = dict(_HALF, out="*bf16", BM=128, BN=64, BE=64, BV=64, num_warps=8, num_stages=3)
_FORWARD_128 = dict(_HALF, out="*bf16", BM=128, BN=64, BE=128, BV=128, num_warps=8, num_stages=3)


_TRUTHS: dict[str, Any] = dict(MASK=1, mask="*u8", MASK_UNIT=16)
_DROPOUT: dict[str, Any] = dict(_TRUTHS, CAUSAL=False, DROPOUT=True, num_warps=8, num_stages=2)


@triton_kernel(
    variants=[
        _FORWARD_64,
        dict(_FORWARD_128, CAUSAL=False),
        {**_FORWARD_64, **_DROPOUT, "BM": 64},
        dict(_FORWARD_128, MASK=2, MASK_UNIT=8, CAUSAL=False),
        {**_FORWARD_64, **_TRUTHS, "MASK": 3},
        dict(_FORWARD_128, BN=32, BE=256, BV=256, num_stages=2, capability=(9, 0)),
        dict(_FORWARD_128, BM=64, BN=32, BE=256, BV=256, num_stages=2),
        dict(_SINGLE, out="*fp32", BM=64, BN=32, BE=64, BV=64, num_warps=8, num_stages=2),
        dict(_SINGLE, out="*fp32", BM=32, BN=16, BE=128, BV=128, num_warps=8, num_stages=2),
        dict(_SINGLE, out="*fp32", BM=64, BN=32, BE=64, BV=64, num_warps=4, num_stages=2, PRECISION="tf32"),
        dict(_FORWARD_64, VARLEN=True, QUADS=False),
        {**_FORWARD_64, **_DROPOUT, "BM": 64, "MASK": 3, "MASK_UNIT": 1, "VARLEN": True, "QUADS": False, "spills": 64},
        dict(_SINGLE, out="*fp32", BM=64, BN=32, BE=64, BV=64, num_warps=8, num_stages=2, VARLEN=True, QUADS=False),
    ]
)
def attention(
    q, k, v, out, lse, mask, scale, heads, group, L, S, E, V, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    o_batch, o_head, o_row, mask_batch, mask_head, mask_row, first_q, first_k,
    first_w, seed, offset, threshold, factor,
    BM: tl.constexpr, BN: tl.constexpr, BE: tl.constexpr, BV: tl.constexpr, FULL: tl.constexpr, MASK: tl.constexpr,
    MASK_UNIT: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, QUADS: tl.constexpr, PRECISION: tl.constexpr, UNIT: tl.constexpr,
    VARLEN: tl.constexpr,
):  # fmt: skip
    """out = softmax(q @ k.T * scale + mask) @ v, and lse (B, H, L). Grid: (B * H, blocks of queries).

    MASK: 0 none, 1 truths, 2 numbers to add; 3, 4: the same, one row for all queries. MASK_UNIT divides the mask's steps, and its rows
    may be read up to a multiple of it. FULL: E == BE and V == BV. UNIT divides all steps of the others.
    """
    which = tl.program_id(0)
    block = tl.num_programs(1) - 1 - tl.program_id(1)  # with CAUSAL the last blocks take longest: they begin first
    batch, head = (which // heads).to(tl.int64), which % heads
    shared = (head // group).to(tl.int64)
    head = head.to(tl.int64)
    q += batch * (q_batch // UNIT * UNIT) + head * (q_head // UNIT * UNIT)
    k += batch * (k_batch // UNIT * UNIT) + shared * (k_head // UNIT * UNIT)
    v += batch * (v_batch // UNIT * UNIT) + shared * (v_head // UNIT * UNIT)
    out += batch * (o_batch // UNIT * UNIT) + head * (o_head // UNIT * UNIT)
    mask += batch * multiple(mask_batch, MASK_UNIT) + head * multiple(mask_head, MASK_UNIT)
    mask_row = multiple(mask_row, MASK_UNIT)
    k_row, v_row, o_row = k_row // UNIT * UNIT, v_row // UNIT * UNIT, o_row // UNIT * UNIT
    rows = block * BM + tl.arange(0, BM)
    sums_at = which.to(tl.int64) * L
    drawn = sums_at * S
    if VARLEN:
        begin_q, begin_k = tl.load(first_q + batch), tl.load(first_k + batch)
        sums_at = head * L + begin_q
        L = (tl.load(first_q + batch + 1) - begin_q).to(tl.int32)
        S = (tl.load(first_k + batch + 1) - begin_k).to(tl.int32)
        if DROPOUT:
            drawn = tl.load(first_w + batch) * heads + head * L * S
        q += begin_q * (q_row // UNIT * UNIT)
        k += begin_k * k_row
        v += begin_k * v_row
        out += begin_q * o_row
        mask += begin_k
    x = _tile(q, rows, q_row // UNIT * UNIT, L, tl.arange(0, BE), E, FULL)
    top = tl.zeros((BM,), tl.float32) - float("inf")
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BV), tl.float32)
    whole = S // BN * BN
    stop = S
    if CAUSAL:
        stop = tl.minimum(S, (block + 1) * BM)
        whole = tl.minimum(whole, block * BM // BN * BN)
    if VARLEN:  # nothing to do behind the end of a sequence
        stop = tl.where(block * BM < L, stop, 0)
        whole = tl.minimum(whole, stop)
    scale = scale * _LOG2_E
    acc, top, total = _forward_keys(
        acc, top, total, x, k, v, mask, 0, whole, rows, drawn, scale, L, S, E, V, k_row, v_row, mask_row, seed, offset,
        threshold, factor, BM, BN, BE, BV, FULL, MASK, MASK_UNIT, CAUSAL, False, DROPOUT, QUADS, PRECISION,
    )  # fmt: skip
    acc, top, total = _forward_keys(
        acc, top, total, x, k, v, mask, whole, stop, rows, drawn, scale, L, S, E, V, k_row, v_row, mask_row, seed, offset,
        threshold, factor, BM, BN, BE, BV, FULL, MASK, MASK_UNIT, CAUSAL, True, DROPOUT, QUADS, PRECISION,
    )  # fmt: skip
    nothing = total == 0
    acc = acc * tl.where(nothing, 0.0, 1.0 / tl.where(nothing, 1.0, total))[:, None]
    columns = tl.arange(0, BV)
    place = out + rows.to(tl.int64)[:, None] * o_row + columns[None, :]
    tl.store(place, acc.to(out.dtype.element_ty), mask=(rows[:, None] < L) & (columns[None, :] < V))
    logarithms = tl.where(nothing, -float("inf"), (top + tl.log2(tl.where(nothing, 1.0, total))) * _LN_2)
    tl.store(lse + sums_at + rows, logarithms, mask=rows < L)


@triton_kernel(
    variants=[
        dict(g="*bf16", out="*bf16", delta="*fp32", heads="i32", L="i32", V="i32", g_batch="i32", g_head="i32", g_row="i32",
             o_batch="i32", o_head="i32", o_row="i32", BM=64, BV=64, num_warps=4),
    ]
)  # fmt: skip
def row_products(
    g, out, delta, heads, L, V, g_batch, g_head, g_row, o_batch, o_head, o_row, BM: tl.constexpr, BV: tl.constexpr
):
    """delta (B, H, L) = sum of g * out over the last dim. Grid: (B * H, blocks of rows)."""
    which = tl.program_id(0)
    batch, head = (which // heads).to(tl.int64), (which % heads).to(tl.int64)
    rows, columns = tl.program_id(1) * BM + tl.arange(0, BM), tl.arange(0, BV)
    product = _tile(g + batch * g_batch + head * g_head, rows, g_row, L, columns, V, False).to(tl.float32)
    two = _tile(out + batch * o_batch + head * o_head, rows, o_row, L, columns, V, False).to(tl.float32)
    tl.store(delta + which.to(tl.int64) * L + rows, tl.sum(product * two, 1), mask=rows < L)


_BACKWARD = {name: kind for name, kind in _NUMBERS.items() if not name.startswith("o_")} | {
    f"g_{dim}": "i32" for dim in ("batch", "head", "row")
}
_QUERIES = {f"gq_{dim}": "i32" for dim in ("batch", "head", "row")}
_KEYS = {f"{name}_{dim}": "i32" for name in ("gk", "gv") for dim in ("batch", "head", "row")}
_HALF_BACK = dict(
    _BACKWARD, q="*bf16", k="*bf16", v="*bf16", g="*bf16", g_q="*bf16", g_k="*bf16", g_v="*bf16", lse="*fp32", delta="*fp32",
    mask="*bf16",
)  # fmt: skip
_SINGLE_BACK = {
    **_HALF_BACK, "q": "*fp32", "k": "*fp32", "v": "*fp32", "g": "*fp32", "g_q": "*fp32", "g_k": "*fp32", "g_v": "*fp32",
    "mask": "*fp32", "UNIT": 4,
}  # fmt: skip


@triton.jit
def _queries_keys(
    acc, x, gx, sums, means, k, v, mask, start, stop, rows, drawn, scale, L, S, E, V, k_row, v_row, mask_row, seed,
    offset, threshold, factor, BM: tl.constexpr, BN: tl.constexpr, BE: tl.constexpr, BV: tl.constexpr, FULL: tl.constexpr,
    MASK: tl.constexpr, MASK_UNIT: tl.constexpr, CAUSAL: tl.constexpr, EDGE: tl.constexpr, DROPOUT: tl.constexpr, QUADS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds what the keys from `start` to `stop` send back to a tile of queries."""
    for first in range(start, stop, BN):
        columns = first + tl.arange(0, BN)
        y = _tile(k, columns, k_row, S, tl.arange(0, BE), E, FULL)
        z = _tile(v, columns, v_row, S, tl.arange(0, BV), V, FULL)
        scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * scale
        scores = _hidden(
            scores, mask, rows[:, None], columns[None, :], L, S, mask_row, MASK, MASK_UNIT, CAUSAL, EDGE, EDGE
        )
        weights = tl.exp2(scores - sums[:, None])
        g_weights = tl.dot(gx, tl.trans(z), input_precision=PRECISION)
        if DROPOUT:
            number = drawn + tl.min(rows, 0).to(tl.int64) * S + first
            g_weights *= _keeps(seed, offset, number, S, threshold, factor, BM, BN, QUADS, False)
        g_scores = weights * (g_weights - means[:, None])
        acc = tl.dot(g_scores.to(y.dtype), y, acc, input_precision=PRECISION)
    return acc


_GQ_64 = dict(_HALF_BACK, **_QUERIES, BM=128, BN=64, BE=64, BV=64, num_warps=8, num_stages=3)
_GQ_128 = dict(_GQ_64, BM=128, BN=64, BE=128, BV=128, num_warps=8, num_stages=2)


@triton_kernel(
    variants=[
        _GQ_64,
        dict(_GQ_128, CAUSAL=False),
        dict(_GQ_128, MASK=2, MASK_UNIT=8),
        {**_GQ_64, **_TRUTHS, "MASK": 3},
        {**_GQ_64, **_DROPOUT, "BM": 64},
        dict(_GQ_128, BM=64, BN=32, BE=256, BV=256),
        dict(_GQ_128, BN=32, BE=256, BV=256, capability=(9, 0)),
        dict(_SINGLE_BACK, **_QUERIES, BM=32, BN=32, BE=64, BV=64, num_warps=4, num_stages=2),
        dict(_SINGLE_BACK, **_QUERIES, BM=32, BN=32, BE=64, BV=64, num_warps=4, num_stages=2, PRECISION="tf32"),
        dict(_GQ_64, VARLEN=True, QUADS=False),
        dict(_SINGLE_BACK, **_QUERIES, BM=32, BN=32, BE=64, BV=64, num_warps=4, num_stages=2, VARLEN=True, QUADS=False),
    ]
)
def attention_to_queries(
    q, k, v, g, lse, delta, mask, g_q, scale, heads, group, L, S, E, V, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head,
    v_row, g_batch, g_head, g_row, gq_batch, gq_head, gq_row, mask_batch, mask_head, mask_row, first_q, first_k, first_w, seed,
    offset, threshold, factor, BM: tl.constexpr, BN: tl.constexpr, BE: tl.constexpr, BV: tl.constexpr, FULL: tl.constexpr, MASK: tl.constexpr,
    MASK_UNIT: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, QUADS: tl.constexpr,
    PRECISION: tl.constexpr, UNIT: tl.constexpr, VARLEN: tl.constexpr,
):  # fmt: skip
    """g_q, the gradient of the queries. Grid: (B * H, blocks of queries)."""
    which = tl.program_id(0)
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    batch, head = (which // heads).to(tl.int64), which % heads
    shared = (head // group).to(tl.int64)
    head = head.to(tl.int64)
    q += batch * (q_batch // UNIT * UNIT) + head * (q_head // UNIT * UNIT)
    k += batch * (k_batch // UNIT * UNIT) + shared * (k_head // UNIT * UNIT)
    v += batch * (v_batch // UNIT * UNIT) + shared * (v_head // UNIT * UNIT)
    g += batch * (g_batch // UNIT * UNIT) + head * (g_head // UNIT * UNIT)
    g_q += batch * (gq_batch // UNIT * UNIT) + head * (gq_head // UNIT * UNIT)
    mask += batch * multiple(mask_batch, MASK_UNIT) + head * multiple(mask_head, MASK_UNIT)
    mask_row = multiple(mask_row, MASK_UNIT)
    k_row, v_row = k_row // UNIT * UNIT, v_row // UNIT * UNIT
    rows, columns = block * BM + tl.arange(0, BM), tl.arange(0, BE)
    sums_at = which.to(tl.int64) * L
    drawn = sums_at * S
    if VARLEN:
        begin_q, begin_k = tl.load(first_q + batch), tl.load(first_k + batch)
        sums_at = head * L + begin_q
        L = (tl.load(first_q + batch + 1) - begin_q).to(tl.int32)
        S = (tl.load(first_k + batch + 1) - begin_k).to(tl.int32)
        if DROPOUT:
            drawn = tl.load(first_w + batch) * heads + head * L * S
        q += begin_q * (q_row // UNIT * UNIT)
        g += begin_q * (g_row // UNIT * UNIT)
        g_q += begin_q * (gq_row // UNIT * UNIT)
        k += begin_k * k_row
        v += begin_k * v_row
        mask += begin_k
    x = _tile(q, rows, q_row // UNIT * UNIT, L, columns, E, FULL)
    gx = _tile(g, rows, g_row // UNIT * UNIT, L, tl.arange(0, BV), V, FULL)
    sums = tl.load(lse + sums_at + rows, mask=rows < L, other=-float("inf"))
    sums = tl.where(sums == -float("inf"), float("inf"), sums * _LOG2_E)  # a row that saw nothing has weights of 0
    means = tl.load(delta + sums_at + rows, mask=rows < L, other=0.0)
    acc = tl.zeros((BM, BE), tl.float32)
    whole = S // BN * BN
    stop = S
    if CAUSAL:
        stop = tl.minimum(S, (block + 1) * BM)
        whole = tl.minimum(whole, block * BM // BN * BN)
    if VARLEN:
        stop = tl.where(block * BM < L, stop, 0)
        whole = tl.minimum(whole, stop)
    steep = scale * _LOG2_E
    acc = _queries_keys(
        acc, x, gx, sums, means, k, v, mask, 0, whole, rows, drawn, steep, L, S, E, V, k_row, v_row, mask_row, seed, offset,
        threshold, factor, BM, BN, BE, BV, FULL, MASK, MASK_UNIT, CAUSAL, False, DROPOUT, QUADS, PRECISION,
    )  # fmt: skip
    acc = _queries_keys(
        acc, x, gx, sums, means, k, v, mask, whole, stop, rows, drawn, steep, L, S, E, V, k_row, v_row, mask_row, seed,
        offset, threshold, factor, BM, BN, BE, BV, FULL, MASK, MASK_UNIT, CAUSAL, True, DROPOUT, QUADS, PRECISION,
    )  # fmt: skip
    place = g_q + rows.to(tl.int64)[:, None] * (gq_row // UNIT * UNIT) + columns[None, :]
    tl.store(place, (acc * scale).to(g_q.dtype.element_ty), mask=(rows[:, None] < L) & (columns[None, :] < E))


@triton.jit
def _keys_queries(
    g_keys, g_values, y, z, q, g, lse, delta, mask, start, stop, columns, drawn, scale, L, S, E, V, q_row, g_row, mask_row, seed,
    offset, threshold, factor, BM: tl.constexpr, BN: tl.constexpr, BE: tl.constexpr, BV: tl.constexpr,
    FULL: tl.constexpr, MASK: tl.constexpr, MASK_UNIT: tl.constexpr, CAUSAL: tl.constexpr, EDGE: tl.constexpr, DROPOUT: tl.constexpr,
    QUADS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds what the queries from `start` to `stop` of a head send back to a tile of keys and values. Tiles are keys by queries."""
    for first in range(start, stop, BM):
        rows = first + tl.arange(0, BM)
        x = _tile(q, rows, q_row, L, tl.arange(0, BE), E, FULL)
        gx = _tile(g, rows, g_row, L, tl.arange(0, BV), V, FULL)
        sums = tl.load(lse + rows, mask=rows < L, other=-float("inf"))
        sums = tl.where(sums == -float("inf"), float("inf"), sums * _LOG2_E)
        means = tl.load(delta + rows, mask=rows < L, other=0.0)
        scores = tl.dot(y, tl.trans(x), input_precision=PRECISION) * scale
        scores = _hidden(
            scores, mask, rows[None, :], columns[:, None], L, S, mask_row, MASK, MASK_UNIT, CAUSAL, EDGE, True
        )
        weights = tl.exp2(scores - sums[None, :])
        g_weights = tl.dot(z, tl.trans(gx), input_precision=PRECISION)
        if DROPOUT:
            number = drawn + tl.min(rows, 0).to(tl.int64) * S + tl.min(columns, 0)
            kept = _keeps(seed, offset, number, S, threshold, factor, BM, BN, QUADS, True)
            g_values = tl.dot((weights * kept).to(gx.dtype), gx, g_values, input_precision=PRECISION)
            g_weights *= kept
        else:
            g_values = tl.dot(weights.to(gx.dtype), gx, g_values, input_precision=PRECISION)
        g_scores = weights * (g_weights - means[None, :])
        g_keys = tl.dot(g_scores.to(x.dtype), x, g_keys, input_precision=PRECISION)
    return g_keys, g_values


_GK_64 = dict(_HALF_BACK, **_KEYS, BM=64, BN=128, BE=64, BV=64, num_warps=8, num_stages=2)
_GK_128 = dict(_GK_64, BM=32, BN=128, BE=128, BV=128)


@triton_kernel(
    variants=[
        dict(_GK_64, BM=32, spills=64),  # for an sm_80 by Triton 3.6: 36
        _GK_64,
        dict(_GK_128, CAUSAL=False),
        dict(_GK_128, BN=64),
        dict(_GK_128, BN=64, MASK=2, MASK_UNIT=8),
        {**_GK_64, **_TRUTHS, "MASK": 3},
        {**_GK_64, **_DROPOUT, "BM": 32, "BN": 64},
        dict(_GK_128, BM=32, BN=32, BE=256, BV=256),
        dict(_SINGLE_BACK, **_KEYS, BM=32, BN=32, BE=64, BV=64, num_warps=8, num_stages=2),
        dict(_SINGLE_BACK, **_KEYS, BM=32, BN=32, BE=64, BV=64, num_warps=8, num_stages=2, PRECISION="tf32"),
        dict(_GK_64, BM=32, VARLEN=True, QUADS=False, spills=64),
        dict(_SINGLE_BACK, **_KEYS, BM=32, BN=32, BE=64, BV=64, num_warps=8, num_stages=2, VARLEN=True, QUADS=False),
    ]
)
def attention_to_keys(
    q, k, v, g, lse, delta, mask, g_k, g_v, scale, heads, group, L, S, E, V, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch,
    v_head, v_row, g_batch, g_head, g_row, gk_batch, gk_head, gk_row, gv_batch, gv_head, gv_row, mask_batch, mask_head, mask_row,
    first_q, first_k, first_w, seed, offset, threshold, factor, BM: tl.constexpr, BN: tl.constexpr, BE: tl.constexpr, BV: tl.constexpr,
    FULL: tl.constexpr, MASK: tl.constexpr, MASK_UNIT: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, QUADS: tl.constexpr,
    PRECISION: tl.constexpr, UNIT: tl.constexpr, VARLEN: tl.constexpr,
):  # fmt: skip
    """g_k and g_v, the gradients of keys and values: sums over the `group` heads of queries that share them.

    Grid: (B * heads of keys, blocks of keys).
    """
    block = tl.program_id(1)
    many = heads // group
    batch, shared = tl.program_id(0) // many, tl.program_id(0) % many
    far = batch.to(tl.int64)
    k += far * (k_batch // UNIT * UNIT) + shared.to(tl.int64) * (k_head // UNIT * UNIT)
    v += far * (v_batch // UNIT * UNIT) + shared.to(tl.int64) * (v_head // UNIT * UNIT)
    g_k += far * (gk_batch // UNIT * UNIT) + shared.to(tl.int64) * (gk_head // UNIT * UNIT)
    g_v += far * (gv_batch // UNIT * UNIT) + shared.to(tl.int64) * (gv_head // UNIT * UNIT)
    q_row, g_row, mask_row = q_row // UNIT * UNIT, g_row // UNIT * UNIT, multiple(mask_row, MASK_UNIT)
    columns = block * BN + tl.arange(0, BN)
    total, begin_q = L, far * 0
    if VARLEN:
        begin_q, begin_k = tl.load(first_q + far), tl.load(first_k + far)
        L = (tl.load(first_q + far + 1) - begin_q).to(tl.int32)
        S = (tl.load(first_k + far + 1) - begin_k).to(tl.int32)
        q += begin_q * q_row
        g += begin_q * g_row
        k += begin_k * (k_row // UNIT * UNIT)
        v += begin_k * (v_row // UNIT * UNIT)
        g_k += begin_k * (gk_row // UNIT * UNIT)
        g_v += begin_k * (gv_row // UNIT * UNIT)
        mask += begin_k
    y = _tile(k, columns, k_row // UNIT * UNIT, S, tl.arange(0, BE), E, FULL)
    z = _tile(v, columns, v_row // UNIT * UNIT, S, tl.arange(0, BV), V, FULL)
    g_keys, g_values = tl.zeros((BN, BE), tl.float32), tl.zeros((BN, BV), tl.float32)
    steep = scale * _LOG2_E
    for member in range(group):
        head = shared * group + member
        which = batch * heads + head
        from_q = q + far * (q_batch // UNIT * UNIT) + head.to(tl.int64) * (q_head // UNIT * UNIT)
        from_g = g + far * (g_batch // UNIT * UNIT) + head.to(tl.int64) * (g_head // UNIT * UNIT)
        of_mask = mask + far * multiple(mask_batch, MASK_UNIT) + head.to(tl.int64) * multiple(mask_head, MASK_UNIT)
        place = which.to(tl.int64) * L
        drawn = place * S
        stop = L
        if VARLEN:
            place = head.to(tl.int64) * total + begin_q
            if DROPOUT:
                drawn = tl.load(first_w + far) * heads + head.to(tl.int64) * L * S
            stop = tl.where(block * BN < S, L, 0)
        begin = 0
        if CAUSAL:
            begin = tl.minimum(block * BN // BM * BM, stop)
        # one loop for tiles on the diagonal and below: the code of two would take more registers than there are
        g_keys, g_values = _keys_queries(
            g_keys, g_values, y, z, from_q, from_g, lse + place, delta + place, of_mask, begin, stop, columns, drawn, steep, L, S, E, V,
            q_row, g_row, mask_row, seed, offset, threshold, factor, BM, BN, BE, BV, FULL, MASK, MASK_UNIT, CAUSAL, CAUSAL,
            DROPOUT, QUADS, PRECISION,
        )  # fmt: skip
    across = tl.arange(0, BE)
    to = g_k + columns.to(tl.int64)[:, None] * (gk_row // UNIT * UNIT) + across[None, :]
    tl.store(to, (g_keys * scale).to(g_k.dtype.element_ty), mask=(columns[:, None] < S) & (across[None, :] < E))
    across = tl.arange(0, BV)
    to = g_v + columns.to(tl.int64)[:, None] * (gv_row // UNIT * UNIT) + across[None, :]
    tl.store(to, g_values.to(g_v.dtype.element_ty), mask=(columns[:, None] < S) & (across[None, :] < V))
