"""CRC-32 of large pieces of memory, taken by a few threads while the bytes are read or written."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["crc32", "joined", "read_all", "while_writing"]

_PIECE = 1 << 20  # fits into the cache: the checksum reads what has just been written there
_SHARE = 1 << 25
_FEW = 4 * _PIECE  # below, threads cost more than they give


crc32 = zlib.crc32
"""The checksum of one piece of memory."""


def read_all(
    reads: Sequence[tuple[Any, int, bool]], read_into: Callable[[Any, int], None], most_threads: int = 4
) -> list[int | None]:
    """Fills memory from a file and returns the checksum of each target, None where it was not asked for.

    Args:
        reads: (target, its place in the file, whether the checksum is wanted); targets are buffers of bytes.
        read_into: fills a buffer with the bytes from a place on; called by several threads at once.
    """
    shares = []
    for number, (target, _, _) in enumerate(reads):
        size = len(target)
        shares += [(number, begin, min(begin + _SHARE, size)) for begin in range(0, size, _SHARE)]

    def fill(share: tuple[int, int, int]) -> int:
        number, begin, end = share
        target, offset, is_checked = reads[number]
        whole, checksum = memoryview(target), 0
        for at in range(begin, end, _PIECE):
            piece = whole[at : min(at + _PIECE, end)]
            read_into(piece, offset + at)
            if is_checked:
                checksum = zlib.crc32(piece, checksum)
        return checksum

    workers = min(most_threads, os.cpu_count() or 1, len(shares))
    if workers > 1 and sum([end - begin for _, begin, end in shares]) > _FEW:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            sums = list(pool.map(fill, shares))
    else:
        sums = [fill(share) for share in shares]
    checksums: list[int | None] = [0 if is_checked else None for _, _, is_checked in reads]
    for (number, begin, end), checksum in zip(shares, sums):
        before = checksums[number]
        if before is not None:
            checksums[number] = joined(before, checksum, end - begin) if begin else checksum
    return checksums


def while_writing(pieces: Sequence[Any], write: Callable[[Any], None]) -> list[int]:
    """Writes the pieces one after the other and returns their checksums, which another thread takes meanwhile."""
    if sum([len(piece) for piece in pieces]) <= _FEW:
        for piece in pieces:
            write(piece)
        return [zlib.crc32(piece) for piece in pieces]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        futures = [pool.submit(zlib.crc32, piece) for piece in pieces]
        for piece in pieces:
            write(piece)
        return [future.result() for future in futures]


def joined(first: int, second: int, length: int) -> int:
    """The checksum of two pieces from theirs; the second has `length` bytes."""
    shift, power = 1 << 31, 1 << 23  # x^0, x^8
    while length:
        if length & 1:
            shift = _times(shift, power)
        power = _times(power, power)
        length >>= 1
    return _times(shift, first) ^ second


def _times(first: int, second: int) -> int:
    """Product of polynomials over two elements modulo CRC-32's, lowest power in the highest bit."""
    product = 0
    for bit in range(31, -1, -1):
        if first >> bit & 1:
            product ^= second
        second = second >> 1 ^ (0xEDB88320 if second & 1 else 0)
    return product
