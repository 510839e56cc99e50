"""Numba kernels that write numbers in another dtype. float16 and bfloat16 are given as their bits (uint16)."""

import platform

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.build.processors import processor
from dynograd.kernels.tiles.lines_numba import LINE, convert_half_line

# Whether the processor converts float16 itself; a library function that compiled code would call may be missing.
HAS_HALF = processor().has("f16c") or platform.machine() in ("aarch64", "arm64")


@chunked(noalias=True)
def convert(target, source, start, stop):
    """target[i] = source[i], as floats."""
    kind = target.dtype.type
    for i in range(start, stop):
        target[np.uint64(i)] = kind(source[np.uint64(i)])


@chunked(noalias=True)
def convert_half(target, source, start, stop):
    """float32 to float16 or back; at least 16 elements."""
    for i in range(start, stop - LINE, LINE):
        convert_half_line(target, i, source, i)
    convert_half_line(target, stop - LINE, source, stop - LINE)


@chunked(noalias=True)
def narrow_bfloat16(target, source, start, stop):
    """float32 (its bits) to bfloat16: the nearest, of two the even one; NaN loses all bits but its sign."""
    for i in range(start, stop):
        bits = source[np.uint64(i)]
        if bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000):
            rounded = ((bits >> np.uint32(16)) & np.uint32(0x8000)) | np.uint32(0x7FC0)
        else:
            rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        target[np.uint64(i)] = np.uint16(rounded)


@chunked(noalias=True)
def widen_bfloat16(target, source, start, stop):
    """bfloat16 to float32 (its bits)."""
    for i in range(start, stop):
        target[np.uint64(i)] = np.uint32(source[np.uint64(i)]) << np.uint32(16)
