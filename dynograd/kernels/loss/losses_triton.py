"""Cross-entropy and negative log-likelihood of class numbers, on the GPU: scores are read once forward and once backward.

Scores are (rows, C), or (N, C, L) with the places of an example side by side (`INNER`); labels, losses and statistics are one for
each row or place. A label outside the classes counts nothing (it has been reported, see `masks_cuda`).
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_SIZES = {"outer": "i32", "n": "i32", "inner": "i32", "blocks": "i32", "ignored": "i32"}
_WIDE = ("n", "inner")  # with multiples of 16 rows are read in wide pieces


@triton.jit
def rows_of(program, outer, n, inner, blocks, INNER: tl.constexpr, ROWS: tl.constexpr):
    """(which rows there are, their numbers, where the first score of each lies)."""
    if INNER:
        i = (program % blocks) * ROWS + tl.arange(0, ROWS)
        o = program // blocks
        return i < inner, o * inner + i, o * n * inner + i
    else:
        row = program * ROWS + tl.arange(0, ROWS)
        return row < outer, row, row * n


@triton_kernel(
    variants=[
        {"x": "*fp32", "labels": "*i64", "weight": "*fp32", "losses": "*fp32", "counts": "*fp32", "statistics": "*fp32", **_SIZES,
         "smoothing": "fp32", "WEIGHTED": False, "SMOOTH": False, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 4096,
         "num_warps": 16},
        {"x": "*bf16", "labels": "*i64", "weight": "*bf16", "losses": "*fp32", "counts": "*fp32", "statistics": "*fp32", **_SIZES,
         "smoothing": "fp32", "WEIGHTED": True, "SMOOTH": True, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 4096,
         "num_warps": 16},
        {"x": "*fp32", "labels": "*i64", "weight": "*fp32", "losses": "*fp32", "counts": "*fp32", "statistics": "*fp32", **_SIZES,
         "smoothing": "fp32", "WEIGHTED": True, "SMOOTH": True, "ACC": tl.float32, "INNER": True, "ROWS": 128, "BLOCK": 16,
         "num_warps": 4},
    ],
    divisible=_WIDE,
)  # fmt: skip
def cross_entropy(
    x, labels, weight, losses, counts, statistics, outer, n, inner, blocks, ignored, smoothing,
    WEIGHTED: tl.constexpr, SMOOTH: tl.constexpr, ACC: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Loss and weight of each row, and its maximum and sum of exp(x - maximum), in one pass (the maximum moves as it goes)."""
    alive, row, base = rows_of(tl.program_id(0).to(tl.int64), outer, n, inner, blocks, INNER, ROWS)
    label = tl.load(labels + row, alive, other=0)
    counted = alive & (label != ignored) & (label >= 0) & (label < n)
    label = tl.where(counted, label, 0)
    picked = tl.load(x + base + label * inner, counted, other=0).to(ACC)
    c = tl.arange(0, BLOCK).to(tl.int64)
    step = inner + tl.zeros((), tl.int64)
    at = base[:, None] + (c * inner if INNER else c)[None, :]
    top = tl.full((ROWS, BLOCK), float("-inf"), ACC)
    total = tl.zeros((ROWS, BLOCK), ACC)
    level = tl.where(tl.abs(picked) < float("inf"), picked, 0.0)
    spread = tl.zeros((ROWS, BLOCK), ACC)
    whole = tl.zeros((ROWS, BLOCK), ACC)
    for first in range(0, n, BLOCK):
        inside = alive[:, None] & (first + c < n)[None, :]
        value = tl.load(x + at + (first * step if INNER else first), inside, other=float("-inf")).to(ACC)
        # Each lane has its own maximum; -inf - -inf counts as 0, so that a lane of -inf adds nothing. NaN and inf spread.
        higher = tl.maximum(top, value, propagate_nan=tl.PropagateNan.ALL)
        anchor = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - anchor) + tl.exp(value - anchor)
        top = higher
        if SMOOTH:
            factor = tl.zeros((ROWS, BLOCK), ACC) + 1
            if WEIGHTED:
                factor = tl.load(weight + first + c, first + c < n, other=0).to(ACC)[None, :] + tl.zeros(
                    (ROWS, BLOCK), ACC
                )
            spread += tl.where(inside, (value - level[:, None]) * factor, 0.0)
            whole += tl.where(inside, factor, 0.0)
    wrong = tl.max((top != top).to(tl.int32), 1) != 0
    highest = tl.max(tl.where(top == top, top, float("-inf")), 1)
    anchor = tl.where(top == float("-inf"), 0.0, highest[:, None])
    result = tl.sum(total * tl.exp(tl.where(top == float("-inf"), 0.0, top) - anchor), 1)
    # All -inf, or inf or NaN somewhere: NaN, as exp(x - maximum) is.
    result = tl.where(wrong | (tl.abs(highest) == float("inf")), float("nan"), result)
    logarithm = tl.log(result) + (highest - picked)
    loss = logarithm
    factor = tl.zeros((ROWS,), ACC) + 1
    if WEIGHTED:
        factor = tl.load(weight + label, counted, other=0).to(ACC)
        loss = loss * factor
    if SMOOTH:
        each = (tl.log(result) + (highest - level)) * tl.sum(whole, 1) - tl.sum(spread, 1)
        loss = (1 - smoothing) * loss + smoothing / n * each
    tl.store(losses + row, tl.where(counted, loss, 0.0), alive)
    tl.store(counts + row, tl.where(counted, factor, 0.0), alive)
    tl.store(statistics + 2 * row, highest, alive)
    tl.store(statistics + 2 * row + 1, result, alive)


@triton_kernel(
    variants=[
        {"g": "*fp32", "total": "*fp32", "x": "*fp32", "labels": "*i64", "weight": "*fp32", "sum_of_weights": "*fp32",
         "statistics": "*fp32", "gx": "*fp32", **_SIZES, "parts": "i32", "smoothing": "fp32", "REDUCTION": "mean",
         "WEIGHTED": False, "SMOOTH": False, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 4096, "num_warps": 16},
        {"g": "*bf16", "total": "*fp32", "x": "*bf16", "labels": "*i64", "weight": "*fp32", "sum_of_weights": "*fp32",
         "statistics": "*fp32", "gx": "*bf16", **_SIZES, "parts": "i32", "smoothing": "fp32", "REDUCTION": "none",
         "WEIGHTED": True, "SMOOTH": True, "ACC": tl.float32, "INNER": True, "ROWS": 128, "BLOCK": 16, "num_warps": 4},
    ],
    divisible=_WIDE,
)  # fmt: skip
def cross_entropy_gradient(
    g, total, x, labels, weight, sum_of_weights, statistics, gx, outer, n, inner, blocks, ignored, parts, smoothing,
    REDUCTION: tl.constexpr, WEIGHTED: tl.constexpr, SMOOTH: tl.constexpr, ACC: tl.constexpr, INNER: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradient of the scores; a program makes one of `parts` of its rows."""
    part = (tl.program_id(0) % parts).to(tl.int64)
    alive, row, base = rows_of((tl.program_id(0) // parts).to(tl.int64), outer, n, inner, blocks, INNER, ROWS)
    label = tl.load(labels + row, alive, other=0)
    counted = alive & (label != ignored) & (label >= 0) & (label < n)
    label = tl.where(counted, label, 0)
    if REDUCTION == "none":
        outside = tl.load(g + row, alive, other=0).to(ACC)
    else:
        outside = tl.zeros((ROWS,), ACC) + tl.load(g).to(ACC)
    if REDUCTION == "mean":
        divisor = tl.load(total).to(ACC)
        outside = tl.where(divisor == 0, float("nan"), outside / divisor)
    hit = tl.zeros((ROWS,), ACC) + 1
    if WEIGHTED:
        hit = tl.load(weight + label, counted, other=0).to(ACC)
    scale = hit
    if SMOOTH:
        hit = hit * (1 - smoothing)
        scale = hit + smoothing / n * tl.load(sum_of_weights).to(ACC)
    top = tl.load(statistics + 2 * row, alive, other=0).to(ACC)
    scale = scale / tl.load(statistics + 2 * row + 1, alive, other=1).to(ACC)
    c = part * BLOCK + tl.arange(0, BLOCK)
    inside = alive[:, None] & (c < n)[None, :]
    at = base[:, None] + (c * inner if INNER else c)[None, :]
    value = tl.load(x + at, inside, other=0).to(ACC)
    result = tl.exp(value - top[:, None]) * scale[:, None]
    if SMOOTH:
        share = tl.zeros((BLOCK,), ACC) + smoothing / n
        if WEIGHTED:
            share = share * tl.load(weight + c, c < n, other=0).to(ACC)
        result -= share[None, :]
    result -= tl.where(c[None, :] == label[:, None], hit[:, None], 0.0)
    result = tl.where(counted[:, None], result * outside[:, None], 0.0)
    tl.store(gx + at, result, inside)


@triton_kernel(
    variants=[
        {"losses": "*fp32", "counts": "*fp32", "loss": "*fp32", "total": "*fp32", "rows": "i32", "REDUCTION": "mean",
         "ACC": tl.float32, "BLOCK": 1024, "num_warps": 8},
        {"losses": "*fp64", "counts": "*fp64", "loss": "*fp64", "total": "*fp64", "rows": "i32", "REDUCTION": "sum",
         "ACC": tl.float64, "BLOCK": 1024, "num_warps": 8},
    ]
)  # fmt: skip
def finished(
    losses, counts, loss, total, rows, REDUCTION: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The sum or mean of losses, and the sum of their weights, by one program. NaN for the mean of nothing."""
    summed, weighed = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
    for first in range(0, rows, BLOCK):
        row = first + tl.arange(0, BLOCK)
        summed += tl.load(losses + row, row < rows, other=0).to(ACC)
        weighed += tl.load(counts + row, row < rows, other=0).to(ACC)
    whole, weight = tl.sum(summed, 0), tl.sum(weighed, 0)
    if REDUCTION == "mean":
        whole = tl.where(weight == 0, float("nan"), whole / weight)
    tl.store(loss, whole)
    tl.store(total, weight)


@triton_kernel(
    variants=[
        {"x": "*fp32", "labels": "*i64", "weight": "*fp32", "losses": "*fp32", "counts": "*fp32", "rows": "i32", "n": "i32",
         "inner": "i32", "ignored": "i32", "WEIGHTED": True, "ACC": tl.float32, "BLOCK": 256, "num_warps": 4},
    ]
)  # fmt: skip
def nll(
    x, labels, weight, losses, counts, rows, n, inner, ignored, WEIGHTED: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Loss and weight of each row."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    alive = row < rows
    label = tl.load(labels + row, alive, other=0)
    counted = alive & (label != ignored) & (label >= 0) & (label < n)
    label = tl.where(counted, label, 0)
    picked = tl.load(x + (row // inner) * n * inner + label * inner + row % inner, counted, other=0).to(ACC)
    factor = tl.zeros((BLOCK,), ACC) + 1
    if WEIGHTED:
        factor = tl.load(weight + label, counted, other=0).to(ACC)
    tl.store(losses + row, tl.where(counted, -picked * factor, 0.0), alive)
    tl.store(counts + row, tl.where(counted, factor, 0.0), alive)


@triton_kernel(
    variants=[
        {"g": "*fp32", "total": "*fp32", "labels": "*i64", "weight": "*fp32", "gx": "*fp32", "count": "i32", "n": "i32",
         "inner": "i32", "ignored": "i32", "REDUCTION": "mean", "WEIGHTED": True, "ACC": tl.float32, "BLOCK": 1024,
         "num_warps": 4},
    ]
)  # fmt: skip
def nll_gradient(
    g, total, labels, weight, gx, count, n, inner, ignored,
    REDUCTION: tl.constexpr, WEIGHTED: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Minus the target's weight at the target, 0 elsewhere: every element is written once."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    c = (place // inner) % n
    row = place // inner // n * inner + place % inner
    label = tl.load(labels + row, inside, other=0)
    hit = inside & (label == c) & (label != ignored)
    if REDUCTION == "none":
        outside = tl.load(g + row, hit, other=0).to(ACC)
    else:
        outside = tl.zeros((BLOCK,), ACC) + tl.load(g).to(ACC)
    if REDUCTION == "mean":
        divisor = tl.load(total).to(ACC)
        outside = tl.where(divisor == 0, float("nan"), outside / divisor)
    if WEIGHTED:
        outside = outside * tl.load(weight + label, hit, other=0).to(ACC)
    tl.store(gx + place, tl.where(hit, -outside, 0.0), inside)


@triton_kernel(
    variants=[
        {"labels": "*i64", "word": "*i64", "count": "i64", "classes": "i64", "ignored": "i64", "site": "i64", "BLOCK": 1024,
         "num_warps": 4},
    ]
)  # fmt: skip
def wrong_labels(labels, word, count, classes, ignored, site, BLOCK: tl.constexpr):
    """Writes a class number that is none, and the site, to `word`."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    label = tl.load(labels + place, inside, other=0).to(tl.int64)
    wrong = inside & ((label < 0) | (label >= classes)) & (label != ignored)
    tl.store(word + tl.zeros((BLOCK,), tl.int32), label * 65536 + site, wrong)
