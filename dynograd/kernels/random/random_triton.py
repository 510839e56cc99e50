"""Random numbers from their place in the stream, on the GPU: what `random_cpu` says of the stream, word for word.

The formulas are those of `random_formulas`, in the same order of operations. Equal bits need products and sums that are rounded one
by one, so every kernel here is compiled without contraction (`exact`), and divides and takes roots as IEEE 754 says.
A program makes `BLOCK` blocks of four words each; four neighbours in memory come from one thread.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel


@triton.jit
def philox(seed_low, seed_high, counter):
    """The four words (uint32) of the blocks with these counters (uint64)."""
    c0, c1 = (counter & 0xFFFFFFFF).to(tl.uint32), (counter >> 32).to(tl.uint32)
    c2, c3 = c0 * 0, c0 * 0
    k0, k1 = c0 * 0 + seed_low.to(tl.uint32), c0 * 0 + seed_high.to(tl.uint32)
    for _ in tl.static_range(10):
        p0, p1 = c0.to(tl.uint64) * 0xD2511F53, c2.to(tl.uint64) * 0xCD9E8D57
        c0, c1, c2, c3 = (
            (p1 >> 32).to(tl.uint32) ^ c1 ^ k0,
            (p1 & 0xFFFFFFFF).to(tl.uint32),
            (p0 >> 32).to(tl.uint32) ^ c3 ^ k1,
            (p0 & 0xFFFFFFFF).to(tl.uint32),
        )
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK: tl.constexpr):
    """The words of blocks `first` to first + BLOCK - 1 of a draw; seed and offset come as two halves of 32 bits."""
    offset = (offset_high.to(tl.uint64) << 32) | (offset_low.to(tl.uint64) & 0xFFFFFFFF)
    counter = offset + (first + tl.arange(0, BLOCK)).to(tl.uint64)
    return philox(seed_low, seed_high, counter)


@triton.jit
def _wide(low, high):
    return low.to(tl.uint64) | (high.to(tl.uint64) << 32)


@triton.jit
def together(a, b, c, d):
    """The elements of four vectors in turn."""
    return tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), [4 * a.shape[0]])


@triton.jit
def _pair(a, b):
    return tl.reshape(tl.join(a, b), [2 * a.shape[0]])


@triton.jit
def _unit32(word):
    return (word >> 8).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def _unit64(word):
    return (word >> 11).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def _negative_log32(word):
    unit = (word.to(tl.float32) + 0.5) * 2.3283064365386963e-10
    bits = unit.to(tl.int32, bitcast=True)
    exponent = (bits - 1060439283) >> 23
    m = (bits - (exponent << 23)).to(tl.float32, bitcast=True)
    s = tl.div_rn(m - 1.0, m + 1.0)
    z = s * s
    series = 1.0 + z * ((1.0 / 3.0) + z * ((1.0 / 5.0) + z * ((1.0 / 7.0) + z * (1.0 / 9.0))))
    return -(exponent.to(tl.float32) * 0.6931471805599453 + 2.0 * s * series)


@triton.jit
def _negative_log64(word):
    unit = ((word >> 11).to(tl.int64).to(tl.float64) + 0.5) * 1.1102230246251565e-16
    bits = unit.to(tl.int64, bitcast=True)
    exponent = (bits - 4604544271217802189) >> 52
    m = (bits - (exponent << 52)).to(tl.float64, bitcast=True)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = (1.0 / 13.0) + z * ((1.0 / 15.0) + z * ((1.0 / 17.0) + z * ((1.0 / 19.0) + z * (1.0 / 21.0))))
    series = (1.0 / 3.0) + z * ((1.0 / 5.0) + z * ((1.0 / 7.0) + z * ((1.0 / 9.0) + z * ((1.0 / 11.0) + z * series))))
    series = 1.0 + z * series
    return -(exponent.to(tl.float64) * 0.6931471805599453 + 2.0 * s * series)


@triton.jit
def _turned32(sine, cosine, turns):
    sine_bits, cosine_bits = sine.to(tl.int32, bitcast=True), cosine.to(tl.int32, bitcast=True)
    exchange = (sine_bits ^ cosine_bits) & (0 - (turns & 1))
    sine_bits = (sine_bits ^ exchange) ^ ((turns >> 1) << 31)
    cosine_bits = (cosine_bits ^ exchange) ^ (((turns + 1) >> 1) << 31)
    return cosine_bits.to(tl.float32, bitcast=True), sine_bits.to(tl.float32, bitcast=True)


@triton.jit
def _direction32(word):
    """(cosine, sine) of 2 pi word / 2**32."""
    quadrant = (word + 536870912) >> 30
    x = (word - (quadrant << 30)).to(tl.int32, bitcast=True).to(tl.float32) * 1.462918119976564e-09
    z = x * x
    sine = x * (1.0 + z * ((-1.0 / 6.0) + z * ((1.0 / 120.0) + z * ((-1.0 / 5040.0) + z * (1.0 / 362880.0)))))
    cosine = (1.0 / 24.0) + z * ((-1.0 / 720.0) + z * ((1.0 / 40320.0) + z * (-1.0 / 3628800.0)))
    cosine = 1.0 + z * (-0.5 + z * cosine)
    return _turned32(sine, cosine, quadrant.to(tl.int32, bitcast=True))


@triton.jit
def _direction64(word):
    """(cosine, sine) of 2 pi word / 2**64."""
    quadrant = (word + 2305843009213693952) >> 62
    x = (word - (quadrant << 62)).to(tl.int64, bitcast=True).to(tl.float64) * 3.4061215800865545e-19
    z = x * x
    sine = (1.0 / 362880.0) + z * (
        (-1.0 / 39916800.0)
        + z * ((1.0 / 6227020800.0) + z * ((-1.0 / 1307674368000.0) + z * (1.0 / 355687428096000.0)))
    )
    sine = x * (1.0 + z * ((-1.0 / 6.0) + z * ((1.0 / 120.0) + z * ((-1.0 / 5040.0) + z * sine))))
    cosine = (1.0 / 40320.0) + z * (
        (-1.0 / 3628800.0) + z * ((1.0 / 479001600.0) + z * ((-1.0 / 87178291200.0) + z * (1.0 / 20922789888000.0)))
    )
    cosine = 1.0 + z * (-0.5 + z * ((1.0 / 24.0) + z * ((-1.0 / 720.0) + z * cosine)))
    turns = quadrant.to(tl.int64, bitcast=True)
    sine_bits, cosine_bits = sine.to(tl.int64, bitcast=True), cosine.to(tl.int64, bitcast=True)
    exchange = (sine_bits ^ cosine_bits) & (0 - (turns & 1))
    sine_bits = (sine_bits ^ exchange) ^ ((turns >> 1) << 63)
    cosine_bits = (cosine_bits ^ exchange) ^ (((turns + 1) >> 1) << 63)
    return cosine_bits.to(tl.float64, bitcast=True), sine_bits.to(tl.float64, bitcast=True)


_DRAW = dict(seed_low="i32", seed_high="i32", offset_low="i32", offset_high="i32", total="i64", num_warps=4)
_ON_DEVICE = dict.fromkeys(("seed_low", "seed_high", "offset_low", "offset_high"), "*i32")


@triton_kernel(variants=[dict(_DRAW, out="*i32", BLOCK=256)], exact=True)
def fill_bits(out, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    """The words themselves."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    tl.store(out + place, together(a, b, c, d).to(tl.int32, bitcast=True), mask=place < total)


@triton.jit
def _within(unit, span, low, most):
    value = unit * span + low
    return tl.where(value < most, value, most)


_THREE = dict(_DRAW, BLOCK=256)


@triton_kernel(variants=[dict(_THREE, out="*fp32", span="fp32", low="fp32", most="fp32")], exact=True)
def fill_uniform32(out, span, low, most, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    unit = _unit32(together(a, b, c, d))
    tl.store(out + place, _within(unit, span, low, most), mask=place < total)


@triton_kernel(variants=[dict(_THREE, out="*bf16", span="fp32", low="fp32", most="fp32", BITS=8)], exact=True)
def fill_uniform16(
    out, span, low, most, seed_low, seed_high, offset_low, offset_high, total, BITS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Of BITS random bits, in float32, rounded and then kept at most `most`."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    unit = (together(a, b, c, d) >> (32 - BITS)).to(tl.float32) * (1.0 / (1 << BITS))
    value = (unit * span + low).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + place, tl.where(value < most, value, most).to(out.dtype.element_ty), mask=place < total)


@triton_kernel(variants=[dict(_THREE, out="*fp64", span="fp64", low="fp64", most="fp64")], exact=True)
def fill_uniform64(out, span, low, most, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 2 + tl.arange(0, 2 * BLOCK)
    unit = _unit64(_pair(_wide(a, b), _wide(c, d)))
    tl.store(out + place, _within(unit, span, low, most), mask=place < total)


@triton_kernel(
    variants=[dict(_THREE, out="*fp32", std="fp32", mean="fp32"), dict(_THREE, out="*bf16", std="fp32", mean="fp32")],
    exact=True,
)
def fill_normal32(out, std, mean, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    radius, two = tl.sqrt_rn(2.0 * _negative_log32(a)), tl.sqrt_rn(2.0 * _negative_log32(c))
    cosine, sine = _direction32(b)
    other_cosine, other_sine = _direction32(d)
    value = together(radius * cosine, radius * sine, two * other_cosine, two * other_sine) * std + mean
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < total)


@triton_kernel(variants=[dict(_THREE, out="*fp64", std="fp64", mean="fp64")], exact=True)
def fill_normal64(out, std, mean, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 2 + tl.arange(0, 2 * BLOCK)
    radius = tl.sqrt(2.0 * _negative_log64(_wide(a, b)))
    cosine, sine = _direction64(_wide(c, d))
    tl.store(out + place, _pair(radius * cosine, radius * sine) * std + mean, mask=place < total)


@triton_kernel(
    variants=[
        dict(_THREE, out="*fp32", least="fp32", rate="fp32"),
        dict(_THREE, out="*fp16", least="fp32", rate="fp32"),
    ],
    exact=True,
)
def fill_exponential32(out, least, rate, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    value = _negative_log32(together(a, b, c, d))
    value = tl.div_rn(tl.where(value > least, value, least), rate + tl.zeros([4 * BLOCK], tl.float32))
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < total)


@triton_kernel(variants=[dict(_THREE, out="*fp64", least="fp64", rate="fp64")], exact=True)
def fill_exponential64(out, least, rate, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 2 + tl.arange(0, 2 * BLOCK)
    value = _negative_log64(_pair(_wide(a, b), _wide(c, d)))
    tl.store(out + place, tl.where(value > least, value, least) / rate, mask=place < total)


@triton.jit
def _high_product(word, width):
    """The upper 64 bits of a product of two 64-bit words."""
    word_high, word_low = word >> 32, word & 0xFFFFFFFF
    width_high, width_low = width >> 32, width & 0xFFFFFFFF
    middle = word_high * width_low + ((word_low * width_low) >> 32)
    other = word_low * width_high + (middle & 0xFFFFFFFF)
    return word_high * width_high + (middle >> 32) + (other >> 32)


@triton_kernel(
    variants=[
        dict(_THREE, out="*i64", low="i64", width="i64", ANY=False),
        dict(_THREE, out="*fp32", low="i64", width="i64", ANY=True),
    ],
    exact=True,
)
def fill_integers(
    out, low, width, seed_low, seed_high, offset_low, offset_high, total, ANY: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """low + (word * width >> 64), all modulo 2**64; ANY: low + word."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 2 + tl.arange(0, 2 * BLOCK)
    word = _pair(_wide(a, b), _wide(c, d))
    if not ANY:
        word = _high_product(word, tl.zeros([2 * BLOCK], tl.uint64) + width.to(tl.int64).to(tl.uint64, bitcast=True))
    value = word.to(tl.int64, bitcast=True) + low
    if out.dtype.element_ty == tl.float16 or out.dtype.element_ty == tl.bfloat16:
        value = value.to(tl.float32)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < total)


@triton_kernel(
    variants=[
        dict(_THREE, out="*fp32", threshold="i64", below="fp32", above="fp32", PLACED=False),
        dict(_THREE, out="*i8", threshold="i64", below="i32", above="i32", PLACED=False),
        dict(_THREE, out="*fp32", threshold="i64", below="fp32", above="fp32", PLACED=True, **_ON_DEVICE),
    ],
    exact=True,
)
def fill_choice(
    out, threshold, below, above, seed_low, seed_high, offset_low, offset_high, total, PLACED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`below` where the element's word is under the threshold, else `above`. PLACED: seed and offset lie on the device."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    if PLACED:
        seed_low, seed_high = tl.load(seed_low), tl.load(seed_high)
        offset_low, offset_high = tl.load(offset_low), tl.load(offset_high)
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    drawn = together(a, b, c, d).to(tl.int64) < threshold
    tl.store(out + place, tl.where(drawn, below, above).to(out.dtype.element_ty), mask=place < total)


@triton_kernel(
    variants=[dict(_THREE, out="*fp32", probabilities="*fp32"), dict(_THREE, out="*i8", probabilities="*fp64")],
    exact=True,
)
def fill_bernoulli(out, probabilities, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    """1 where the element's word is below its probability * 2**32, else 0."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    p = tl.load(probabilities + place, mask=place < total, other=0)
    if probabilities.dtype.element_ty == tl.bfloat16:
        p = p.to(tl.float32)
    drawn = together(a, b, c, d).to(tl.float64) < p.to(tl.float64) * 4294967296.0
    tl.store(out + place, drawn.to(tl.int32).to(out.dtype.element_ty), mask=place < total)


@triton_kernel(variants=[dict(_THREE, out="*i64", position_bits="i64")], exact=True)
def fill_keys(out, position_bits, seed_low, seed_high, offset_low, offset_high, total, BLOCK: tl.constexpr):
    """Words whose lowest bits are their place."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 2 + tl.arange(0, 2 * BLOCK)
    word = _pair(_wide(a, b), _wide(c, d)).to(tl.int64, bitcast=True)
    tl.store(out + place, (word & (-1 - position_bits)) | place, mask=place < total)


@triton_kernel(variants=[dict(weights="*fp32", sums="*fp64", columns="i32", BLOCK=1024, num_warps=4)], exact=True)
def sums_of_rows(weights, sums, columns, BLOCK: tl.constexpr):
    """The sums of each row up to each column, over the sum of all; one program a row."""
    start = tl.program_id(0).to(tl.int64) * columns
    before = tl.zeros([1], tl.float64)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        weight = tl.load(weights + start + column, mask=column < columns, other=0).to(tl.float64)
        tl.store(sums + start + column, before + tl.cumsum(weight, axis=0), mask=column < columns)
        before += tl.sum(weight, axis=0)
    tl.debug_barrier()
    last = tl.load(sums + start + columns - 1)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        total = tl.load(sums + start + column, mask=column < columns, other=0)
        tl.store(sums + start + column, total / last, mask=column < columns)


# --- dropout -------------------------------------------------------------------------------------------------------------


_DROP = dict(_THREE, x="*fp32", y="*fp32", kept="*i8", threshold="i64", scale="fp32")


@triton_kernel(
    variants=[
        dict(_DROP, residual="*fp32", ADD=False, PLACED=False),
        dict(_DROP, x="*bf16", y="*bf16", residual="*bf16", ADD=True, PLACED=False),
        dict(_DROP, residual="*fp32", ADD=False, PLACED=True, **_ON_DEVICE),
    ],
    exact=True,
)
def dropout(
    x, residual, y, kept, threshold, scale, seed_low, seed_high, offset_low, offset_high, total, ADD: tl.constexpr,
    PLACED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = x times 0 or `scale` (plus residual); kept is 1 where the element stays. PLACED: seed and offset lie on the device."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    if PLACED:
        seed_low, seed_high = tl.load(seed_low), tl.load(seed_high)
        offset_low, offset_high = tl.load(offset_low), tl.load(offset_high)
    a, b, c, d = words_at(seed_low, seed_high, offset_low, offset_high, first, BLOCK)
    place = first * 4 + tl.arange(0, 4 * BLOCK)
    inside = place < total
    stays = together(a, b, c, d).to(tl.int64) >= threshold
    value = tl.load(x + place, mask=inside, other=0).to(tl.float32) * tl.where(stays, scale, 0.0)
    if ADD:
        value = tl.load(residual + place, mask=inside, other=0).to(tl.float32) + value
    tl.store(y + place, value.to(y.dtype.element_ty), mask=inside)
    tl.store(kept + place, stays.to(tl.int8), mask=inside)


@triton_kernel(
    variants=[dict(g="*fp32", kept="*i8", gx="*fp32", scale="fp32", total="i64", BLOCK=1024, num_warps=4)], exact=True
)
def dropout_gradient(g, kept, gx, scale, total, BLOCK: tl.constexpr):
    """gx = g times 0 or `scale`."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    stays = tl.load(kept + e, mask=e < total, other=0) != 0
    value = tl.load(g + e, mask=e < total, other=0).to(tl.float32) * tl.where(stays, scale, 0.0)
    tl.store(gx + e, value.to(gx.dtype.element_ty), mask=e < total)
