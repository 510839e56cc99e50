"""Matrix products on the GPU, in Triton: tiles of pointers, tiles of descriptors (TMA), integers, vectors, and sums of parts.

Operands are batches of matrices whose rows or columns lie in one piece each. Sums are taken in float32 (float64 for float64) and
rounded once. A product over a long inner dim may be cut in `splits` parts, which `add_parts` adds in their order: results do not change
from run to run.
"""

from typing import Any

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    """The activation of that name ("" for none) of a tile in the type that accumulates."""
    if ACTIVATION == "relu":
        x = tl.where(x < 0, 0.0, x)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "silu":
        x = x / (1 + tl.exp(-x))
    return x


@triton.jit
def multiple(number, UNIT: tl.constexpr):
    """`number`, of which the caller knows that UNIT divides it: said so that the compiler sees it, and reads 16 bytes at a time."""
    return number if UNIT == 1 else number // UNIT * UNIT


@triton.jit
def tile_of(place, down, across, GROUP: tl.constexpr):
    """Row and column of tile number `place`, in groups of GROUP rows of tiles, so that neighbours share what the level-2 cache holds."""
    in_group = GROUP * across
    first = place // in_group * GROUP
    rows = tl.minimum(down - first, GROUP)
    place = place % in_group
    return first + place % rows, place // rows


# An H200 wants 128 x 256 tiles of half types, 64 deep in 3 stages (144 KiB); float32 without TF32 multiplies on the plain cores.
_TYPES = dict(
    M="i32", N="i32", K="i32", span="i32", lda="i64", ldb="i64", inner="i32",
    a_outer="i64", a_inner="i64", b_outer="i64", b_inner="i64", c_split="i64",
)  # fmt: skip
_ROWS: dict[str, Any] = dict(
    _TYPES, A_ROWS=True, B_ROWS=True, A_UNIT=8, B_UNIT=8, C_UNIT=8, GROUP=8, EVEN=False, HAS_BIAS=True, ACTIVATION="",
    PRECISION="ieee",
)  # fmt: skip
_HALF = dict(_ROWS, a="*bf16", b="*bf16", c="*bf16", bias="*bf16", BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
_SINGLE = dict(_ROWS, a="*fp32", b="*fp32", c="*fp32", bias="*fp32", A_UNIT=4, B_UNIT=4, C_UNIT=4)


@triton_kernel(
    variants=[
        dict(_HALF, BN=256, num_stages=3, EVEN=True),
        dict(_HALF, B_ROWS=False, ACTIVATION="gelu"),
        dict(_HALF, a="*fp16", b="*fp16", c="*fp32", A_ROWS=False, HAS_BIAS=False, num_stages=4),
        dict(_HALF, BM=64, BN=64, num_warps=4, num_stages=4, A_UNIT=1, B_UNIT=1, C_UNIT=1),
        dict(_HALF, BM=16, BN=64, BK=128, num_warps=4, num_stages=4, c="*fp32", HAS_BIAS=False, B_ROWS=False),
        dict(_SINGLE, BM=128, BN=128, BK=16, num_warps=8, num_stages=3),
        dict(_SINGLE, BM=64, BN=64, BK=16, num_warps=4, num_stages=3, A_ROWS=False, B_ROWS=False),
        dict(_SINGLE, BM=128, BN=128, BK=32, num_warps=8, num_stages=3, PRECISION="tf32"),
        dict(_SINGLE, a="*fp64", b="*fp64", c="*fp64", bias="*fp64", A_UNIT=2, B_UNIT=2, C_UNIT=2, BM=64, BN=64, BK=16,
             num_warps=8, num_stages=3),
    ]
)  # fmt: skip
def product(
    a, b, c, bias, M, N, K, span, lda, ldb, inner, a_outer, a_inner, b_outer, b_inner, c_split,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, A_UNIT: tl.constexpr, B_UNIT: tl.constexpr, C_UNIT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """c = activation(a @ b + bias) for a batch. Grid: (batch * tiles, splits); split s sums the `span` places of K from s * span.

    Matrix (i, j) of a batch, `inner` to an i, begins i * outer + j * inner elements into its array; c is row-major, the split's own
    from `s * c_split` on. lda elements lie between rows of `a` (A_ROWS) or columns, ldb the same for `b`.
    BK divides span. UNIT: what divides an operand's ld, its strides of the batch and the size of its dim in one piece. EVEN: BK divides K.
    """
    ACC: tl.constexpr = tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    which = tl.program_id(0) // (down * across)
    row, column = tile_of(tl.program_id(0) % (down * across), down, across, GROUP)
    om, on, ok = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    start = tl.program_id(1) * multiple(span, BK)
    stop = tl.minimum(K, start + span)
    lda, ldb = multiple(lda.to(tl.int64), A_UNIT), multiple(ldb.to(tl.int64), B_UNIT)
    i, j = (which // inner).to(tl.int64), (which % inner).to(tl.int64)
    a += i * multiple(a_outer, A_UNIT) + j * multiple(a_inner, A_UNIT)
    b += i * multiple(b_outer, B_UNIT) + j * multiple(b_inner, B_UNIT)
    if A_ROWS:
        a_stop, a_step = multiple(stop, A_UNIT), BK
        pa = a + tl.minimum(om, M - 1).to(tl.int64)[:, None] * lda + (start + ok)[None, :]
    else:
        a_stop, a_step = stop, BK * lda
        pa = a + om[:, None] + (start + ok).to(tl.int64)[None, :] * lda
    if B_ROWS:
        b_stop, b_step = stop, BK * ldb
        pb = b + (start + ok).to(tl.int64)[:, None] * ldb + on[None, :]
    else:
        b_stop, b_step = multiple(stop, B_UNIT), BK
        pb = b + (start + ok)[:, None] + tl.minimum(on, N - 1).to(tl.int64)[None, :] * ldb
    acc = tl.zeros((BM, BN), ACC)
    for k in range(start, stop, BK):
        if A_ROWS:
            x = tl.load(pa) if EVEN else tl.load(pa, mask=(k + ok)[None, :] < a_stop, other=0.0)
        elif EVEN:
            x = tl.load(pa, mask=om[:, None] < multiple(M, A_UNIT), other=0.0)
        else:
            x = tl.load(pa, mask=(om[:, None] < multiple(M, A_UNIT)) & ((k + ok)[None, :] < a_stop), other=0.0)
        if not B_ROWS:
            y = tl.load(pb) if EVEN else tl.load(pb, mask=(k + ok)[:, None] < b_stop, other=0.0)
        elif EVEN:
            y = tl.load(pb, mask=on[None, :] < multiple(N, B_UNIT), other=0.0)
        else:
            y = tl.load(pb, mask=(on[None, :] < multiple(N, B_UNIT)) & ((k + ok)[:, None] < b_stop), other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=ACC)
        pa += a_step
        pb += b_step
    columns = multiple(N, C_UNIT)
    if HAS_BIAS:
        acc += tl.load(bias + on, mask=on < columns, other=0.0).to(ACC)[None, :]
    acc = activated(acc, ACTIVATION)
    c += tl.program_id(1).to(tl.int64) * multiple(c_split, C_UNIT) + which.to(tl.int64) * M * columns
    pc = c + om.to(tl.int64)[:, None] * columns + on[None, :]
    tl.store(pc, acc.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < columns))


_TMA: dict[str, Any] = dict(
    a="*bf16", b="*bf16", c="*bf16", bias="*bf16", M="i32", N="i32", K="i32", lda="i64", ldb="i64", programs="i32",
    A_ROWS=True, B_ROWS=False, BM=128, BN=256, BK=64, GROUP=8, HAS_BIAS=True, ACTIVATION="", SPECIALIZE=False, num_warps=8, num_stages=3,
    capability=(9, 0),
)  # fmt: skip


@triton_kernel(
    variants=[
        _TMA,
        dict(_TMA, a="*fp16", b="*fp16", c="*fp16", bias="*fp16", B_ROWS=True, SPECIALIZE=True, ACTIVATION="relu"),
        dict(_TMA, A_ROWS=False, B_ROWS=True, HAS_BIAS=False),
        dict(_TMA, BN=128, num_warps=4, num_stages=4),
    ]
)
def product_by_descriptors(
    a, b, c, bias, M, N, K, lda, ldb, programs,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """`product` of two matrices of a half type whose rows begin at multiples of 16 bytes. Grid: (programs,), each with several tiles.

    The copy engine (TMA) reads and writes tiles; the next tile's reads begin while the last one's result is written.
    """
    lda, ldb = multiple(lda.to(tl.int64), 8), multiple(ldb.to(tl.int64), 8)
    columns = multiple(N, 8).to(tl.int64)
    if A_ROWS:
        from_a = tl.make_tensor_descriptor(a, [M, K], [lda, 1], [BM, BK])
    else:
        from_a = tl.make_tensor_descriptor(a, [K, M], [lda, 1], [BK, BM])
    if B_ROWS:
        from_b = tl.make_tensor_descriptor(b, [K, N], [ldb, 1], [BK, BN])
    else:
        from_b = tl.make_tensor_descriptor(b, [N, K], [ldb, 1], [BN, BK])
    into_c = tl.make_tensor_descriptor(c, [M, N], [columns, 1], [BM, BN // 2])
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for place in tl.range(tl.program_id(0), down * across, programs, flatten=True, warp_specialize=SPECIALIZE):
        row, column = tile_of(place, down, across, GROUP)
        m, n = row * BM, column * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            if A_ROWS:
                x = from_a.load([m, k * BK])
            else:
                x = from_a.load([k * BK, m]).T
            if B_ROWS:
                y = from_b.load([k * BK, n])
            else:
                y = from_b.load([n, k * BK]).T
            acc = tl.dot(x, y, acc)
        if HAS_BIAS:
            on = n + tl.arange(0, BN)
            acc += tl.load(bias + on, mask=on < N, other=0.0).to(tl.float32)[None, :]
        acc = activated(acc, ACTIVATION)
        # in halves: the whole tile in shared memory would leave room for one stage less
        left, right = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1)))
        into_c.store([m, n], left.to(c.dtype.element_ty))
        into_c.store([m, n + BN // 2], right.to(c.dtype.element_ty))


@triton_kernel(
    variants=[
        dict(parts="*fp32", bias="*bf16", c="*bf16", count="i64", columns="i32", splits="i32", BLOCK=1024, HAS_BIAS=True,
             ACTIVATION="", num_warps=4),
        dict(parts="*fp64", bias="*fp64", c="*fp64", count="i64", columns="i32", splits="i32", BLOCK=512, HAS_BIAS=False,
             ACTIVATION="relu", num_warps=4),
    ]
)  # fmt: skip
def add_parts(
    parts, bias, c, count, columns, splits, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr
):
    """c (count) = activation of the sum of `parts` (splits, count), plus bias (columns) along rows. Grid: blocks of c."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    total = tl.zeros((BLOCK,), parts.dtype.element_ty)
    for _ in range(splits):
        total += tl.load(parts + place, mask=inside, other=0.0)
        parts += count
    if HAS_BIAS:
        total += tl.load(bias + place % columns, mask=inside, other=0.0).to(parts.dtype.element_ty)
    tl.store(c + place, activated(total, ACTIVATION).to(c.dtype.element_ty), mask=inside)


_VECTOR: dict[str, Any] = dict(
    matrix="*fp32", x="*fp32", y="*fp32", bias="*fp32", rows="i32", K="i32", span="i32", ld="i64", x_step="i64", bias_step="i32", inner="i32",
    m_outer="i64", m_inner="i64", x_outer="i64", x_inner="i64", y_split="i64",
    IN_ROWS=True, UNIT=4, BR=8, BK=512, HAS_BIAS=True, ACTIVATION="", num_warps=4,
)  # fmt: skip


@triton_kernel(
    variants=[
        _VECTOR,
        dict(_VECTOR, matrix="*bf16", x="*bf16", y="*fp32", bias="*bf16", UNIT=8, HAS_BIAS=False, BR=4, BK=1024),
        dict(_VECTOR, matrix="*bf16", x="*bf16", y="*bf16", bias="*bf16", UNIT=8, IN_ROWS=False, BR=256, BK=16),
        dict(_VECTOR, matrix="*fp64", x="*fp64", y="*fp64", bias="*fp64", UNIT=2, IN_ROWS=False, BR=128, BK=16),
    ]
)
def vector_product(
    matrix, x, y, bias, rows, K, span, ld, x_step, bias_step, inner, m_outer, m_inner, x_outer, x_inner, y_split,
    IN_ROWS: tl.constexpr, UNIT: tl.constexpr, BR: tl.constexpr, BK: tl.constexpr, HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """y = matrix @ x + bias for a batch, read once at the speed of memory. Grid: (batch * blocks of rows, splits).

    ld elements lie between rows (IN_ROWS: rows in one piece) or between columns. Otherwise as `product`.
    """
    ACC: tl.constexpr = tl.float64 if matrix.dtype.element_ty == tl.float64 else tl.float32
    blocks = tl.cdiv(rows, BR)
    which = tl.program_id(0) // blocks
    r, k = tl.program_id(0) % blocks * BR + tl.arange(0, BR), tl.arange(0, BK)
    start = tl.program_id(1) * multiple(span, BK)
    stop = tl.minimum(K, start + span)
    ld = multiple(ld.to(tl.int64), UNIT)
    i, j = (which // inner).to(tl.int64), (which % inner).to(tl.int64)
    matrix += i * multiple(m_outer, UNIT) + j * multiple(m_inner, UNIT)
    x += i * x_outer + j * x_inner
    acc = tl.zeros((BR, BK), ACC)
    for first in range(start, stop, BK):
        at = first + k
        if IN_ROWS:
            end = multiple(stop, UNIT)
            mine = matrix + tl.minimum(r, rows - 1).to(tl.int64)[:, None] * ld + at[None, :]
            tile = tl.load(mine, mask=at[None, :] < end, other=0.0).to(ACC)
        else:
            mine = matrix + r[:, None] + at.to(tl.int64)[None, :] * ld
            tile = tl.load(mine, mask=(r[:, None] < multiple(rows, UNIT)) & (at[None, :] < stop), other=0.0).to(ACC)
        acc += tile * tl.load(x + at.to(tl.int64) * x_step, mask=at < stop, other=0.0).to(ACC)[None, :]
    total = tl.sum(acc, 1)
    if HAS_BIAS:
        total += tl.load(bias + r * bias_step, mask=r < rows, other=0.0).to(ACC)
    y += tl.program_id(1).to(tl.int64) * y_split + which.to(tl.int64) * rows
    tl.store(y + r, activated(total, ACTIVATION).to(y.dtype.element_ty), mask=r < rows)


_INTEGERS: dict[str, Any] = dict(
    a="*i64", b="*i64", c="*i64", M="i32", N="i32", K="i32", a_row="i64", a_column="i64", b_row="i64", b_column="i64", inner="i32",
    a_outer="i64", a_inner="i64", b_outer="i64", b_inner="i64", TRUTHS=False, BM=16, BN=16, BK=16, num_warps=4,
)  # fmt: skip


@triton_kernel(
    variants=[
        _INTEGERS,
        dict(_INTEGERS, a="*i32", b="*i32", c="*i32"),
        dict(_INTEGERS, a="*u8", b="*u8", c="*u8", TRUTHS=True),
    ]
)
def integer_product(
    a, b, c, M, N, K, a_row, a_column, b_row, b_column, inner, a_outer, a_inner, b_outer, b_inner,
    TRUTHS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """c = a @ b for a batch of integers, modulo their range; of truths ("or" of "and"s) where TRUTHS. Grid: (batch * tiles,)."""
    ACC: tl.constexpr = tl.int64 if a.dtype.element_ty.primitive_bitwidth == 64 else tl.int32
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    which = tl.program_id(0) // (down * across)
    row, column = tile_of(tl.program_id(0) % (down * across), down, across, 8)
    om, on, ok = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    i, j = (which // inner).to(tl.int64), (which % inner).to(tl.int64)
    a += i * a_outer + j * a_inner
    b += i * b_outer + j * b_inner
    acc = tl.zeros((BM, BN), ACC)
    for k in range(0, K, BK):
        at = k + ok
        pa = a + om.to(tl.int64)[:, None] * a_row + at.to(tl.int64)[None, :] * a_column
        pb = b + at.to(tl.int64)[:, None] * b_row + on.to(tl.int64)[None, :] * b_column
        x = tl.load(pa, mask=(om[:, None] < M) & (at[None, :] < K), other=0).to(ACC)
        y = tl.load(pb, mask=(at[:, None] < K) & (on[None, :] < N), other=0).to(ACC)
        acc += tl.sum(x[:, :, None] * y[None, :, :], 1)
    if TRUTHS:
        acc = (acc != 0).to(ACC)
    pc = c + which.to(tl.int64) * M * N + om.to(tl.int64)[:, None] * N + on[None, :]
    tl.store(pc, acc.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))
