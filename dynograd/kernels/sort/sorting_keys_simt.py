"""What the sorting kernels of numba-cuda share: the order of elements as numbers, and counting digits by warps.

Elements are compared as whole numbers without sign, made of their bits so that -0 equals 0, all NaN are equal and the largest, and
descending order is the ascending order of the complement. Results keep the bits that were given.
"""

from __future__ import annotations

from typing import Any

from numba import int8, int16, int32, int64, uint32, uint64

from dynograd.kernels.build.simt_language import cuda

ALL_LANES = 0xFFFFFFFF  # the 32 threads of a warp as bits
ELEMENTS = {1: int8, 2: int16, 4: int32, 8: int64}  # by size
KEYS = {1: uint32, 2: uint32, 4: uint32, 8: uint64}
_INFINITIES = {1: 0, 2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


def _key_of(size: int) -> Any:
    signed, unsigned = (int64, uint64) if size == 8 else (int32, uint32)
    top = signed((1 << (8 * size - 1)) - 1)  # the largest positive one
    all_bits = unsigned((1 << 8 * size) - 1)
    infinity, brain_infinity, sign = signed(_INFINITIES[size]), signed(0x7F80), signed(-1 - int(top))

    @cuda.jit(device=True)
    def key_of(bits, kind, descending):
        """The bits of an element as a number that stands in their order. `kind`: 0 signed, 1 unsigned, 2 floating, 3 bfloat16."""
        key = signed(bits)
        if kind > 1:
            size_of = signed(key & top)
            most = infinity
            if kind == 3:
                most = brain_infinity
            if key < signed(0):
                key = signed(key ^ top)
            if size_of == signed(0):
                key = signed(0)
            if size_of > most:
                key = top
        if kind != 1:
            key = signed(key ^ sign)
        if descending:
            key = signed(key ^ signed(-1))
        return unsigned(unsigned(key) & all_bits)

    return key_of


key_of = {size: _key_of(size) for size in ELEMENTS}


@cuda.jit(device=True)
def lanes_alike(digit, lane):
    """(how many lanes of the warp before this one have its digit, how many have it)."""
    alike = uint32(cuda.match_any_sync(ALL_LANES, digit))
    before = uint32(alike & uint32((uint32(1) << uint32(lane)) - uint32(1)))
    return int32(cuda.popc(before)), int32(cuda.popc(alike))


@cuda.jit(device=True)
def sums_of_digits(counts, sums, lane):
    """sums[d] = the sum of counts[:d] for 256 digits, by one warp; each lane has 8 digits one after the other."""
    total = int32(0)
    for i in range(8):
        total += counts[lane * int32(8) + int32(i)]
    before = total
    step = int32(1)
    while step < int32(32):
        other = cuda.shfl_up_sync(ALL_LANES, before, step)
        if lane >= step:
            before += other
        step *= int32(2)
    before -= total
    for i in range(8):
        count = counts[lane * int32(8) + int32(i)]
        sums[lane * int32(8) + int32(i)] = before
        before += count
