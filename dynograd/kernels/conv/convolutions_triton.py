"""Convolution on the GPU, in Triton: products of matrices whose rows are gathered (implicit GEMM), and depthwise convolution.

Forward and the gradient of the input are one kernel, `correlate`: an output place reads the input at `base + scale * place + tap * step`
in each of three spatial dims, with a `step` that is negative for the gradient. For strides above 1 the host calls it once for each
residue of the output places, so that no tap is computed in vain. Arrays are channels-last: a tile's channels are read 16 bytes at a time.
"""

from typing import Any

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.matmul.matmuls_triton import multiple, tile_of


@triton.jit
def _place(m, D, H, W):
    """(n, d, h, w) of output place number m."""
    w = m % W
    m = m // W
    h = m % H
    m = m // H
    return m // D, m % D, h, w


@triton.jit
def _within(i, size):
    """0 <= i < size, in one comparison."""
    return i.to(tl.uint32, bitcast=True) < size.to(tl.uint32, bitcast=True)


_WINDOW: dict[str, Any] = {
    f"{name}_{dim}": "i32" for name in ("out", "size", "taps", "base", "scale", "step") for dim in "dhw"
}
_STRIDES: dict[str, Any] = {
    **{f"x_{dim}": "i32" for dim in "ndhw"}, "w_group": "i32", "w_outer": "i32", "w_inner": "i32",
    **{f"w_{dim}": "i32" for dim in "dhw"}, **{f"y_{dim}": "i32" for dim in "ncdhw"},
}  # fmt: skip
_NUMBERS = dict(_WINDOW, places="i32", inner="i32", outer="i32", **_STRIDES)
_HALF: dict[str, Any] = dict(
    _NUMBERS, x="*bf16", weight="*bf16", y="*bf16", bias="*bf16", FLAT=False, TURNED=False, PLANE=0, X_UNIT=8, W_UNIT=8, Y_UNIT=8,
    HAS_BIAS=True, PRECISION="ieee", BM=128, BN=128, BK=64, num_warps=8, num_stages=3,
)  # fmt: skip
_SINGLE = {
    **_HALF,
    "x": "*fp32",
    "weight": "*fp32",
    "y": "*fp32",
    "bias": "*fp32",
    "X_UNIT": 4,
    "W_UNIT": 4,
    "Y_UNIT": 4,
}


@triton_kernel(
    variants=[
        _HALF,
        dict(_HALF, TURNED=True, PLANE=4, BN=64),
        dict(_HALF, FLAT=True, BN=64, BK=32, X_UNIT=1, W_UNIT=1),
        dict(_SINGLE, BM=64, BN=64, BK=16, num_warps=4),
        dict(_SINGLE, BM=64, BN=64, BK=16, num_warps=4, FLAT=True, X_UNIT=1, W_UNIT=1),
        dict(_SINGLE, BM=128, BN=64, BK=32, PRECISION="tf32"),
        {**_SINGLE, "x": "*fp64", "weight": "*fp64", "y": "*fp64", "bias": "*fp64", "X_UNIT": 2, "W_UNIT": 2, "Y_UNIT": 2, "BM": 64, "BN": 32,
         "BK": 16, "num_warps": 4},
    ]
)  # fmt: skip
def correlate(
    x, weight, y, bias, places, inner, outer, out_d, out_h, out_w, size_d, size_h, size_w, taps_d, taps_h, taps_w, base_d, base_h,
    base_w, scale_d, scale_h, scale_w, step_d, step_h, step_w, x_n, x_d, x_h, x_w, w_group, w_outer, w_inner, w_d, w_h, w_w, y_n, y_c,
    y_d, y_h, y_w, FLAT: tl.constexpr, TURNED: tl.constexpr, PLANE: tl.constexpr, X_UNIT: tl.constexpr, W_UNIT: tl.constexpr,
    Y_UNIT: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y = sums over taps and `inner` channels of a group, plus a bias. Grid: (tiles, groups).

    x is channels-last (`inner` channels of each group side by side), and so is y unless PLANE; w_*: strides of the weight.
    FLAT: taps and channels in one run, for few channels. TURNED: the weight's outer channels lie side by side, not the inner ones.
    PLANE: y is row-major, and this number divides the places of an image; 0: y is channels-last.
    X_UNIT, W_UNIT, Y_UNIT: divide all strides but those of channels, and the channels of a group.
    """
    ACC: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    group = tl.program_id(1).to(tl.int64)
    row, column = tile_of(tl.program_id(0), tl.cdiv(places, BM), tl.cdiv(outer, BN), 8)
    om, on, ok = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    n, d, h, w = _place(om, out_d, out_h, out_w)
    at_d, at_h, at_w = base_d + d * scale_d, base_h + h * scale_h, base_w + w * scale_w
    x += group * multiple(inner, X_UNIT) + n.to(tl.int64) * multiple(x_n, X_UNIT)
    weight += group * multiple(w_group, W_UNIT)
    wide = (n >= 0) & (om < places)
    x_d, x_h, x_w = multiple(x_d, X_UNIT), multiple(x_h, X_UNIT), multiple(x_w, X_UNIT)
    w_d, w_h, w_w = multiple(w_d, W_UNIT), multiple(w_h, W_UNIT), multiple(w_w, W_UNIT)
    w_outer = w_outer if TURNED else multiple(w_outer, W_UNIT)
    w_inner = multiple(w_inner, W_UNIT) if TURNED else w_inner
    acc = tl.zeros((BM, BN), ACC)
    taps = taps_d * taps_h * taps_w
    if FLAT:
        # a place's own reach and a tap's: one sum for each element of the tile
        start = x + (at_d.to(tl.int64) * x_d + at_h.to(tl.int64) * x_h + at_w.to(tl.int64) * x_w)
        for k in range(0, taps * inner, BK):
            at = k + ok
            tap = at // inner
            c = at % inner
            t_d, t_h, t_w = tap // (taps_h * taps_w), tap // taps_w % taps_h, tap % taps_w
            inside = _within(at_d[:, None] + (t_d * step_d)[None, :], size_d)
            inside &= _within(at_h[:, None] + (t_h * step_h)[None, :], size_h)
            inside &= _within(at_w[:, None] + (t_w * step_w)[None, :], size_w)
            inside = inside & wide[:, None] & (at < taps * inner)[None, :]
            reach = (t_d * step_d).to(tl.int64) * x_d + (t_h * step_h).to(tl.int64) * x_h + t_w * step_w * x_w + c
            a = tl.load(start[:, None] + reach[None, :], mask=inside, other=0.0)
            from_w = (c * w_inner + t_d * w_d + t_h * w_h + t_w * w_w)[:, None] + (on * w_outer)[None, :]
            b = tl.load(weight + from_w, mask=(at < taps * inner)[:, None] & (on < outer)[None, :], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
    else:
        blocks = tl.cdiv(inner, BK)
        channels = multiple(inner, X_UNIT)
        filters = multiple(outer, W_UNIT) if TURNED else outer
        depth = inner if TURNED else multiple(inner, W_UNIT)
        for i in range(taps * blocks):
            tap = i // blocks
            c = (i % blocks) * BK + ok
            t_d, t_h, t_w = tap // (taps_h * taps_w), tap // taps_w % taps_h, tap % taps_w
            i_d, i_h, i_w = at_d + t_d * step_d, at_h + t_h * step_h, at_w + t_w * step_w
            inside = wide & _within(i_d, size_d) & _within(i_h, size_h) & _within(i_w, size_w)
            spot = x + (i_d.to(tl.int64) * x_d + i_h.to(tl.int64) * x_h + i_w.to(tl.int64) * x_w)
            a = tl.load(spot[:, None] + c[None, :], mask=inside[:, None] & (c < channels)[None, :], other=0.0)
            from_w = weight + (t_d * w_d + t_h * w_h + t_w * w_w)
            if TURNED:
                b = tl.load(
                    from_w + (c * w_inner)[:, None] + on[None, :],
                    mask=(c < depth)[:, None] & (on < filters)[None, :],
                    other=0.0,
                )
            else:
                b = tl.load(
                    from_w + c[:, None] + (on * w_outer)[None, :],
                    mask=(c < depth)[:, None] & (on < filters)[None, :],
                    other=0.0,
                )
            acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
    if HAS_BIAS:
        acc += tl.load(bias + group * outer + on, mask=on < outer, other=0.0).to(ACC)[None, :]
    if PLANE:
        count = multiple(out_d * out_h * out_w, PLANE)
        spot = n.to(tl.int64) * multiple(y_n, PLANE) + om % count
        spot = tl.max_contiguous(tl.multiple_of(spot, PLANE), PLANE)
        to = y + group * outer * multiple(y_c, PLANE) + spot[:, None] + on.to(tl.int64)[None, :] * multiple(y_c, PLANE)
    else:
        spot = n.to(tl.int64) * multiple(y_n, Y_UNIT) + d.to(tl.int64) * multiple(y_d, Y_UNIT)
        spot += h.to(tl.int64) * multiple(y_h, Y_UNIT) + w.to(tl.int64) * multiple(y_w, Y_UNIT)
        to = y + group * multiple(outer, Y_UNIT) + spot[:, None] + on[None, :]
    last = outer if PLANE else multiple(outer, Y_UNIT)
    tl.store(to, acc.to(y.dtype.element_ty), mask=wide[:, None] & (on < last)[None, :])


_WEIGHTS: dict[str, Any] = dict(
    _WINDOW, x="*bf16", g="*bf16", parts="*fp32", places="i32", inner="i32", outer="i32", span="i32",
    **{f"x_{dim}": "i32" for dim in "ndhw"}, **{f"g_{dim}": "i32" for dim in "ndhw"}, FLAT=False, X_UNIT=8, G_UNIT=8,
    PRECISION="ieee", BM=128, BN=64, BK=64, num_warps=8, num_stages=3,
)  # fmt: skip


@triton_kernel(
    variants=[
        dict(_WEIGHTS, spills=16),  # for an sm_100 by Triton 3.6
        dict(_WEIGHTS, FLAT=True, BM=64, BN=32, BK=32, num_warps=4, X_UNIT=1),
        {**_WEIGHTS, "x": "*fp32", "g": "*fp32", "X_UNIT": 4, "G_UNIT": 4, "BM": 64, "BN": 64, "BK": 16, "num_warps": 4},
        {**_WEIGHTS, "x": "*fp32", "g": "*fp32", "X_UNIT": 4, "G_UNIT": 4, "BM": 64, "BN": 64, "BK": 32, "num_warps": 4,
         "PRECISION": "tf32"},
        {**_WEIGHTS, "x": "*fp64", "g": "*fp64", "parts": "*fp64", "X_UNIT": 2, "G_UNIT": 2, "BM": 32, "BN": 32, "BK": 16,
         "num_warps": 4},
    ]
)  # fmt: skip
def correlate_weights(
    x, g, parts, places, inner, outer, span, out_d, out_h, out_w, size_d, size_h, size_w, taps_d, taps_h, taps_w, base_d, base_h,
    base_w, scale_d, scale_h, scale_w, step_d, step_h, step_w, x_n, x_d, x_h, x_w, g_n, g_d, g_h, g_w,
    FLAT: tl.constexpr, X_UNIT: tl.constexpr, G_UNIT: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """parts (splits, groups, outer, taps, inner): sums of g * x over `span` places each, both channels-last.

    Grid: (tiles, groups, splits); tiles of outer channels by inner channels of a tap, or FLAT by taps and channels in one run.
    """
    ACC: tl.constexpr = parts.dtype.element_ty
    group, split = tl.program_id(1).to(tl.int64), tl.program_id(2)
    taps = taps_d * taps_h * taps_w
    down = tl.cdiv(outer, BM)
    row, column = tl.program_id(0) % down, tl.program_id(0) // down
    om, ok = row * BM + tl.arange(0, BM), tl.arange(0, BK)
    if FLAT:
        at = column * BN + tl.arange(0, BN)
        tap = at // inner
        c = at % inner
        columns = at < taps * inner
    else:
        blocks = tl.cdiv(inner, BN)
        tap = column // blocks
        c = (column % blocks) * BN + tl.arange(0, BN)
        at = tap * inner + c
        columns = c < multiple(inner, X_UNIT)
    t_d, t_h, t_w = tap // (taps_h * taps_w), tap // taps_w % taps_h, tap % taps_w
    x += group * multiple(inner, X_UNIT)
    g += group * multiple(outer, G_UNIT)
    x_n, x_d, x_h, x_w = multiple(x_n, X_UNIT), multiple(x_d, X_UNIT), multiple(x_h, X_UNIT), multiple(x_w, X_UNIT)
    g_n, g_d, g_h, g_w = multiple(g_n, G_UNIT), multiple(g_d, G_UNIT), multiple(g_h, G_UNIT), multiple(g_w, G_UNIT)
    reach = (t_d * step_d).to(tl.int64) * x_d + (t_h * step_h).to(tl.int64) * x_h + t_w * step_w * x_w + c
    acc = tl.zeros((BM, BN), ACC)
    first = split * span
    for start in range(first, tl.minimum(first + span, places), BK):
        place = start + ok
        real = place < places
        n, d, h, w = _place(place, out_d, out_h, out_w)
        spot = n.to(tl.int64) * g_n + d.to(tl.int64) * g_d + h.to(tl.int64) * g_h + w.to(tl.int64) * g_w
        operands = tl.load(
            g + spot[:, None] + om[None, :], mask=real[:, None] & (om < multiple(outer, G_UNIT))[None, :], other=0.0
        )
        at_d, at_h, at_w = base_d + d * scale_d, base_h + h * scale_h, base_w + w * scale_w
        if FLAT:
            inside = _within(at_d[:, None] + (t_d * step_d)[None, :], size_d)
            inside &= _within(at_h[:, None] + (t_h * step_h)[None, :], size_h)
            inside &= _within(at_w[:, None] + (t_w * step_w)[None, :], size_w)
            from_x = n.to(tl.int64) * x_n + at_d.to(tl.int64) * x_d + at_h.to(tl.int64) * x_h + at_w.to(tl.int64) * x_w
            b = tl.load(x + from_x[:, None] + reach[None, :], mask=inside & real[:, None] & columns[None, :], other=0.0)
        else:
            i_d, i_h, i_w = at_d + t_d * step_d, at_h + t_h * step_h, at_w + t_w * step_w
            inside = real & _within(i_d, size_d) & _within(i_h, size_h) & _within(i_w, size_w)
            from_x = n.to(tl.int64) * x_n + i_d.to(tl.int64) * x_d + i_h.to(tl.int64) * x_h + i_w.to(tl.int64) * x_w
            b = tl.load(x + from_x[:, None] + c[None, :], mask=inside[:, None] & columns[None, :], other=0.0)
        acc = tl.dot(tl.trans(operands), b, acc, input_precision=PRECISION, out_dtype=ACC)
    to = (
        parts + ((split * tl.num_programs(1) + group) * outer + om.to(tl.int64))[:, None] * (taps * inner) + at[None, :]
    )
    tl.store(to, acc, mask=(om < outer)[:, None] & columns[None, :])


_DEPTHWISE: dict[str, Any] = dict(
    _WINDOW, x="*bf16", weight="*bf16", y="*bf16", bias="*bf16", places="i32", channels="i32", share="i32",
    **{f"x_{dim}": "i32" for dim in "ncdhw"}, **{f"w_{dim}": "i32" for dim in "cdhw"}, **{f"y_{dim}": "i32" for dim in "ncdhw"},
    LAST=True, UNIT=8, HAS_BIAS=True, BP=32, BC=64, num_warps=4,
)  # fmt: skip


@triton_kernel(
    variants=[
        _DEPTHWISE,
        {
            **_DEPTHWISE,
            "x": "*fp32",
            "weight": "*fp32",
            "y": "*fp32",
            "bias": "*fp32",
            "LAST": False,
            "UNIT": 1,
            "BP": 512,
            "BC": 1,
        },
        {
            **_DEPTHWISE,
            "x": "*fp64",
            "weight": "*fp64",
            "y": "*fp64",
            "bias": "*fp64",
            "LAST": False,
            "UNIT": 1,
            "BP": 512,
            "BC": 1,
        },
    ]
)
def correlate_depthwise(
    x, weight, y, bias, places, channels, share, out_d, out_h, out_w, size_d, size_h, size_w, taps_d, taps_h, taps_w, base_d, base_h,
    base_w, scale_d, scale_h, scale_w, step_d, step_h, step_w, x_n, x_c, x_d, x_h, x_w, w_c, w_d, w_h, w_w, y_n, y_c, y_d, y_h, y_w,
    LAST: tl.constexpr, UNIT: tl.constexpr, HAS_BIAS: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """y's channel c from x's channel c // share. Grid: (blocks of places * blocks of channels,). LAST: channels lie side by side.

    UNIT divides the channels and all strides but theirs.
    """
    ACC: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    blocks = tl.cdiv(channels, BC)
    if LAST:
        c = tl.program_id(0) % blocks * BC + tl.arange(0, BC)
        place = tl.program_id(0) // blocks * BP + tl.arange(0, BP)
    else:
        c = tl.program_id(0) // tl.cdiv(places, BP) * BC + tl.arange(0, BC)
        place = tl.program_id(0) % tl.cdiv(places, BP) * BP + tl.arange(0, BP)
    n, d, h, w = _place(place, out_d, out_h, out_w)
    real, known = place < places, c < multiple(channels, UNIT)
    x_n, x_d, x_h, x_w = multiple(x_n, UNIT), multiple(x_d, UNIT), multiple(x_h, UNIT), multiple(x_w, UNIT)
    y_n, y_d, y_h, y_w = multiple(y_n, UNIT), multiple(y_d, UNIT), multiple(y_h, UNIT), multiple(y_w, UNIT)
    at_d, at_h, at_w = base_d + d * scale_d, base_h + h * scale_h, base_w + w * scale_w
    # one of the two strides of channels is 1: said so, or nothing would be read in wide pieces
    from_c = c if LAST else (c // share).to(tl.int64) * x_c
    to_c = c if LAST else c.to(tl.int64) * y_c
    acc = tl.zeros((BP, BC), ACC)
    for t_d in range(taps_d):
        for t_h in range(taps_h):
            for t_w in range(taps_w):
                i_d, i_h, i_w = at_d + t_d * step_d, at_h + t_h * step_h, at_w + t_w * step_w
                inside = real & _within(i_d, size_d) & _within(i_h, size_h) & _within(i_w, size_w)
                spot = n.to(tl.int64) * x_n + i_d.to(tl.int64) * x_d + i_h.to(tl.int64) * x_h + i_w.to(tl.int64) * x_w
                a = tl.load(x + spot[:, None] + from_c[None, :], mask=inside[:, None] & known[None, :], other=0.0).to(
                    ACC
                )
                b = tl.load(weight + c * w_c + t_d * w_d + t_h * w_h + t_w * w_w, mask=known, other=0.0).to(ACC)
                acc += a * b[None, :]
    if HAS_BIAS:
        acc += tl.load(bias + c, mask=known, other=0.0).to(ACC)[None, :]
    spot = n.to(tl.int64) * y_n + d.to(tl.int64) * y_d + h.to(tl.int64) * y_h + w.to(tl.int64) * y_w
    tl.store(y + spot[:, None] + to_c[None, :], acc.to(y.dtype.element_ty), mask=real[:, None] & known[None, :])


_DEPTHWISE_WEIGHTS: dict[str, Any] = dict(
    _WINDOW, x="*bf16", g="*bf16", parts="*fp32", places="i32", channels="i32", share="i32", span="i32",
    **{f"x_{dim}": "i32" for dim in "ncdhw"}, **{f"g_{dim}": "i32" for dim in "ncdhw"}, LAST=True, UNIT=8, BP=32, BC=64, num_warps=4,
)  # fmt: skip


@triton_kernel(
    variants=[
        _DEPTHWISE_WEIGHTS,
        {**_DEPTHWISE_WEIGHTS, "x": "*fp32", "g": "*fp32", "LAST": False, "UNIT": 1, "BP": 1024, "BC": 1},
        {
            **_DEPTHWISE_WEIGHTS,
            "x": "*fp64",
            "g": "*fp64",
            "parts": "*fp64",
            "LAST": False,
            "UNIT": 1,
            "BP": 512,
            "BC": 1,
        },
    ]
)
def correlate_depthwise_weights(
    x, g, parts, places, channels, share, span, out_d, out_h, out_w, size_d, size_h, size_w, taps_d, taps_h, taps_w, base_d, base_h,
    base_w, scale_d, scale_h, scale_w, step_d, step_h, step_w, x_n, x_c, x_d, x_h, x_w, g_n, g_c, g_d, g_h, g_w,
    LAST: tl.constexpr, UNIT: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """parts (splits, channels, taps): sums of g * x over `span` places each. Grid: (taps, blocks of channels, splits)."""
    ACC: tl.constexpr = parts.dtype.element_ty
    tap, split = tl.program_id(0), tl.program_id(2)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    known = c < multiple(channels, UNIT)
    x_n, x_d, x_h, x_w = multiple(x_n, UNIT), multiple(x_d, UNIT), multiple(x_h, UNIT), multiple(x_w, UNIT)
    g_n, g_d, g_h, g_w = multiple(g_n, UNIT), multiple(g_d, UNIT), multiple(g_h, UNIT), multiple(g_w, UNIT)
    t_d, t_h, t_w = tap // (taps_h * taps_w), tap // taps_w % taps_h, tap % taps_w
    from_x = c if LAST else (c // share).to(tl.int64) * x_c
    from_g = c if LAST else c.to(tl.int64) * g_c
    acc = tl.zeros((BP, BC), ACC)
    first = split * span
    for start in range(first, tl.minimum(first + span, places), BP):
        place = start + tl.arange(0, BP)
        real = place < places
        n, d, h, w = _place(place, out_d, out_h, out_w)
        spot = n.to(tl.int64) * g_n + d.to(tl.int64) * g_d + h.to(tl.int64) * g_h + w.to(tl.int64) * g_w
        operands = tl.load(g + spot[:, None] + from_g[None, :], mask=real[:, None] & known[None, :], other=0.0).to(ACC)
        i_d, i_h, i_w = (
            base_d + d * scale_d + t_d * step_d,
            base_h + h * scale_h + t_h * step_h,
            base_w + w * scale_w + t_w * step_w,
        )
        inside = real & _within(i_d, size_d) & _within(i_h, size_h) & _within(i_w, size_w)
        spot = n.to(tl.int64) * x_n + i_d.to(tl.int64) * x_d + i_h.to(tl.int64) * x_h + i_w.to(tl.int64) * x_w
        acc += operands * tl.load(
            x + spot[:, None] + from_x[None, :], mask=inside[:, None] & known[None, :], other=0.0
        ).to(ACC)
    to = parts + (split.to(tl.int64) * channels + c) * tl.num_programs(0) + tap
    tl.store(to, tl.sum(acc, 0), mask=known)
