"""Cross products on the GPU, in Triton."""

from typing import Any

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_TYPES: dict[str, Any] = dict(x="*bf16", y="*bf16", out="*bf16", count="i64", inner="i32", BLOCK=512)


@triton_kernel(
    variants=[
        _TYPES,
        {**_TYPES, "x": "*fp32", "y": "*fp32", "out": "*fp32"},
        {**_TYPES, "x": "*i64", "y": "*i64", "out": "*i64"},
        {**_TYPES, "x": "*fp64", "y": "*fp64", "out": "*fp64"},
    ]
)
def cross_products(x, y, out, count, inner, BLOCK: tl.constexpr):
    """Of `count` triples, whose numbers lie `inner` elements apart in row-major arrays (*, 3, inner). Grid: blocks of triples."""
    kind = x.dtype.element_ty
    if kind.is_floating() and kind.primitive_bitwidth == 16:
        kind = tl.float32
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    first = place // inner * (3 * inner) + place % inner
    a, b = tl.load(x + first, mask=inside, other=0).to(kind), tl.load(y + first, mask=inside, other=0).to(kind)
    c, d = (
        tl.load(x + first + inner, mask=inside, other=0).to(kind),
        tl.load(y + first + inner, mask=inside, other=0).to(kind),
    )
    e, f = (
        tl.load(x + first + 2 * inner, mask=inside, other=0).to(kind),
        tl.load(y + first + 2 * inner, mask=inside, other=0).to(kind),
    )
    into = out.dtype.element_ty
    tl.store(out + first, (c * f - e * d).to(into), mask=inside)
    tl.store(out + first + inner, (e * b - a * f).to(into), mask=inside)
    tl.store(out + first + 2 * inner, (a * d - c * b).to(into), mask=inside)
