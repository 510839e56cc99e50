"""Reductions over one dim of (outer, n, inner) memory, on the GPU.

A program takes `ROWS` results and goes through what they are made of in tiles of `BLOCK`. Results lie side by side along `inner`
where there is one (`INNER`), else each is a row of its own. Few long rows are cut into `splits` segments, each a result of its
own that a second launch reduces; how many there are depends on the sizes only, and so do the bits of the result.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_ROWS = {"outer": "i32", "n": "i32", "inner": "i32", "blocks": "i32", "splits": "i32", "segment": "i32"}
# With multiples of 16 rows are read in wide pieces.
_WIDE = ("n", "inner", "segment")


@triton.jit
def product_of(left, right):
    return left * right


@triton.jit
def places_of(program, split, outer, n, inner, blocks, splits, INNER: tl.constexpr, ROWS: tl.constexpr):
    """(which results there are, where the first element of each lies, the step to the next, where each result goes)."""
    if INNER:
        i = (program % blocks) * ROWS + tl.arange(0, ROWS)
        o = program // blocks
        return i < inner, o * n * inner + i, inner, (o * splits + split) * inner + i
    else:
        row = program * ROWS + tl.arange(0, ROWS)
        return row < outer, row * n, inner, row * splits + split


@triton.jit
def term_of(x, power, TERM: tl.constexpr):
    """What is reduced of an element."""
    if TERM == "nonzero":
        return (x != 0).to(x.dtype)
    elif TERM == "size":
        return tl.abs(x)
    elif TERM == "square":
        return x * x
    elif TERM == "power":
        return tl.exp2(power * tl.log2(tl.abs(x)))
    else:
        return x


@triton_kernel(
    variants=[
        {"x": "*fp32", "out": "*fp32", **_ROWS, "power": "fp32", "parameter": "fp32", "OP": "sum", "TERM": "same",
         "FINISH": "none", "FIRST": 0, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 2048, "num_warps": 4},
        {"x": "*bf16", "out": "*bf16", **_ROWS, "power": "fp32", "parameter": "fp32", "OP": "sum", "TERM": "same",
         "FINISH": "divide", "FIRST": 0, "ACC": tl.float32, "INNER": True, "ROWS": 128, "BLOCK": 16, "num_warps": 4},
        {"x": "*i64", "out": "*i64", **_ROWS, "power": "i32", "parameter": "i32", "OP": "max", "TERM": "same",
         "FINISH": "none", "FIRST": -(1 << 63), "ACC": tl.int64, "INNER": False, "ROWS": 4, "BLOCK": 512, "num_warps": 4},
        {"x": "*fp64", "out": "*fp64", **_ROWS, "power": "fp64", "parameter": "fp64", "OP": "sum", "TERM": "power",
         "FINISH": "root", "FIRST": 0, "ACC": tl.float64, "INNER": False, "ROWS": 1, "BLOCK": 2048, "num_warps": 4},
        {"x": "*fp32", "out": "*fp32", **_ROWS, "power": "fp32", "parameter": "fp32", "OP": "prod", "TERM": "same",
         "FINISH": "none", "FIRST": 1, "ACC": tl.float32, "INNER": True, "ROWS": 64, "BLOCK": 32, "num_warps": 4},
        {"x": "*i1", "out": "*i1", **_ROWS, "power": "i32", "parameter": "i32", "OP": "max", "TERM": "nonzero",
         "FINISH": "none", "FIRST": 0, "ACC": tl.int32, "INNER": False, "ROWS": 1, "BLOCK": 2048, "num_warps": 4},
    ],
    divisible=_WIDE,
)  # fmt: skip
def reduction(
    x, out, outer, n, inner, blocks, splits, segment, power, parameter,
    OP: tl.constexpr, TERM: tl.constexpr, FINISH: tl.constexpr, FIRST: tl.constexpr, ACC: tl.constexpr,
    INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = `OP` ("sum", "prod", "max", "min") over n of `TERM` of x; `FIRST` is what `OP` starts from."""
    split = tl.program_id(1).to(tl.int64)
    alive, base, step, place = places_of(
        tl.program_id(0).to(tl.int64), split, outer, n, inner, blocks, splits, INNER, ROWS
    )
    columns = tl.arange(0, BLOCK).to(tl.int64)
    if INNER:
        pointers = x + base[:, None] + columns[None, :] * step
    else:
        pointers = x + base[:, None] + columns[None, :]
    start = split * segment
    stop = tl.minimum(start + segment, n)
    acc = tl.full((ROWS, BLOCK), FIRST, ACC)
    for c in range(start, stop, BLOCK):
        inside = alive[:, None] & (c + columns < stop)[None, :]
        if INNER:
            value = tl.load(pointers + c * step, inside, other=0).to(ACC)
        else:
            value = tl.load(pointers + c, inside, other=0).to(ACC)
        value = tl.where(inside, term_of(value, power, TERM), tl.full((ROWS, BLOCK), FIRST, ACC))
        if OP == "sum":
            acc += value
        elif OP == "prod":
            acc *= value
        elif OP == "max":
            acc = tl.maximum(acc, value, propagate_nan=tl.PropagateNan.ALL)
        else:
            acc = tl.minimum(acc, value, propagate_nan=tl.PropagateNan.ALL)
    if OP == "sum":
        total = tl.sum(acc, 1)
    elif OP == "prod":
        total = tl.reduce(acc, 1, product_of)
    else:
        wrong = tl.max((acc != acc).to(tl.int32), 1)
        acc = tl.where(acc == acc, acc, tl.full((ROWS, BLOCK), FIRST, ACC))
        total = tl.max(acc, 1) if OP == "max" else tl.min(acc, 1)
        if ACC.is_floating():
            total = tl.where(wrong != 0, float("nan"), total)
    if FINISH == "divide":
        total = total / parameter
    elif FINISH == "sqrt":
        total = tl.sqrt(total)
    elif FINISH == "root":
        total = tl.exp2(parameter * tl.log2(total))
    tl.store(out + place, total, alive)


@triton_kernel(
    variants=[
        {"x": "*fp32", "places_in": "*i64", "values": "*fp32", "places": "*i64", **_ROWS, "FIRST": float("-inf"), "GREATEST": True,
         "GIVEN": False, "ACC": tl.float32, "PLACE": tl.int32, "INNER": False, "ROWS": 1, "BLOCK": 2048, "num_warps": 4},
        {"x": "*bf16", "places_in": "*i64", "values": "*bf16", "places": "*i64", **_ROWS, "FIRST": float("inf"), "GREATEST": False,
         "GIVEN": False, "ACC": tl.float32, "PLACE": tl.int32, "INNER": True, "ROWS": 128, "BLOCK": 16, "num_warps": 4},
        {"x": "*fp64", "places_in": "*i64", "values": "*fp64", "places": "*i64", **_ROWS, "FIRST": float("-inf"), "GREATEST": True,
         "GIVEN": True, "ACC": tl.float64, "PLACE": tl.int64, "INNER": False, "ROWS": 1, "BLOCK": 1024, "num_warps": 4},
        {"x": "*i32", "places_in": "*i64", "values": "*i32", "places": "*i64", **_ROWS, "FIRST": -(1 << 31), "GREATEST": True,
         "GIVEN": False, "ACC": tl.int32, "PLACE": tl.int32, "INNER": False, "ROWS": 8, "BLOCK": 256, "num_warps": 4},
        {"x": "*u64", "places_in": "*i64", "values": "*u64", "places": "*i64", **_ROWS, "FIRST": (1 << 64) - 1, "GREATEST": False,
         "GIVEN": False, "ACC": tl.uint64, "PLACE": tl.int32, "INNER": False, "ROWS": 8, "BLOCK": 128, "num_warps": 4},
    ],
    divisible=_WIDE,
)  # fmt: skip
def extreme(
    x, places_in, values, places, outer, n, inner, blocks, splits, segment,
    FIRST: tl.constexpr, GREATEST: tl.constexpr, GIVEN: tl.constexpr, ACC: tl.constexpr, PLACE: tl.constexpr,
    INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The greatest (or least) element over n and the first place where it stands; NaN counts as the extreme.

    `GIVEN`: x holds extremes of segments, whose places are in `places_in`.
    """
    split = tl.program_id(1).to(tl.int64)
    alive, base, step, place = places_of(
        tl.program_id(0).to(tl.int64), split, outer, n, inner, blocks, splits, INNER, ROWS
    )
    columns = tl.arange(0, BLOCK).to(tl.int64)
    if INNER:
        offsets = base[:, None] + columns[None, :] * step
    else:
        offsets = base[:, None] + columns[None, :]
    start = split * segment
    stop = tl.minimum(start + segment, n)
    first = tl.full((ROWS, BLOCK), FIRST, ACC)
    best = first
    # A lane starts at its first column: right where all that it sees is FIRST. Beyond the row it is larger than any place there.
    most = tl.full((ROWS, BLOCK), (1 << 31) - 1 if PLACE.primitive_bitwidth == 32 else (1 << 63) - 1, PLACE)
    at = most if GIVEN else tl.zeros((ROWS, BLOCK), PLACE) + (start + columns).to(PLACE)[None, :]
    for c in range(start, stop, BLOCK):
        inside = alive[:, None] & (c + columns < stop)[None, :]
        if INNER:
            here = offsets + c * step
        else:
            here = offsets + c
        value = tl.where(inside, tl.load(x + here, inside, other=0).to(ACC), first)
        better = (value > best) if GREATEST else (value < best)
        better = better | ((value != value) & (best == best))
        if GIVEN:
            result = tl.load(places_in + here, inside, other=0).to(PLACE)
            better = better | (inside & (value == best) & (result < at))
        else:
            result = tl.zeros((ROWS, BLOCK), PLACE) + (c + columns).to(PLACE)[None, :]
        at = tl.where(better, result, at)
        best = tl.where(better, value, best)
    wrong = tl.max((best != best).to(tl.int32), 1)
    numbers = tl.where(best == best, best, first)
    value = tl.max(numbers, 1) if GREATEST else tl.min(numbers, 1)
    hit = tl.where((wrong != 0)[:, None], best != best, best == value[:, None])
    if ACC.is_floating():
        value = tl.where(wrong != 0, float("nan"), value)
    result = tl.min(tl.where(hit, at, most), 1)
    tl.store(values + place, value, alive)
    tl.store(places + place, result.to(tl.int64), alive)
