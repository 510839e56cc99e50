"""Who computes what in attention on the CPU: a row of numbers for each head of each sequence, dealt out to the threads by work.

Dense batches and sequences of different lengths differ in these rows alone, so that a head gives the same bits in either.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy


class Tasks(NamedTuple):
    """`rows` (N, 11): first query, queries, first key, keys, batch, head, which part of the queries of how many, number of the first
    weight in the stream of dropout, number of the first logarithm, how far beyond its own place a causal query sees. Those of part p
    are `bounds[p]` to `bounds[p + 1]`.
    """

    rows: numpy.ndarray
    bounds: numpy.ndarray
    most_rows: int
    most_keys: int
    work: int  # queries times keys over all heads


@lru_cache(256)
def dense_tasks(batch: int, heads: int, step: int, rows: int, keys: int, parts: int) -> Tasks:
    """Every head of every batch, its queries cut where there are few; with a `step` (backward) whole, every so many heads together."""
    cut, step = not step, step or 1
    count = heads // step
    splits = 1 if not cut or batch * count % parts == 0 or batch * count >= 8 * parts else parts
    which = numpy.arange(batch * count * splits)
    head = which // splits % count
    batches = which // (splits * count)
    first = batches * heads + head * step
    table = numpy.zeros((which.size, 11), numpy.int64)
    table[:, 1], table[:, 3], table[:, 4], table[:, 5], table[:, 6], table[:, 7] = (
        rows,
        keys,
        batches,
        head,
        which % splits,
        splits,
    )
    table[:, 8], table[:, 9] = first * rows * keys, first * rows
    return Tasks(table, _even(which.size, parts), rows, keys, batch * heads * rows * keys)


def ragged_tasks(offsets_q: Any, offsets_k: Any, heads: int, step: int, ends: bool, reach: int, parts: int) -> Tasks:
    """Every head of every sequence, `step` as above. `ends`: a last query's own place is the last key's; `reach`: how far it sees beyond."""
    return _ragged_tasks(_whole(offsets_q).tobytes(), _whole(offsets_k).tobytes(), heads, step, ends, reach, parts)


def _whole(offsets: Any) -> numpy.ndarray:
    return numpy.ascontiguousarray(offsets, numpy.int64)


@lru_cache(256)
def _ragged_tasks(
    offsets_q: bytes, offsets_k: bytes, heads: int, step: int, ends: bool, reach: int, parts: int
) -> Tasks:
    first_q, first_k = (numpy.frombuffer(offsets, numpy.int64) for offsets in (offsets_q, offsets_k))
    rows, keys = numpy.diff(first_q), numpy.diff(first_k)
    pairs = rows * keys
    cut, step = not step, step or 1
    count = heads // step
    total = int(pairs.sum()) * heads
    # One head that is more than half of a thread's share is cut into blocks of its queries.
    splits = numpy.where(2 * parts * pairs > total, parts, 1) if cut else numpy.ones_like(rows)
    repeats = count * splits
    batch = numpy.repeat(numpy.arange(rows.size), repeats)
    place = numpy.arange(batch.size) - numpy.repeat(numpy.cumsum(repeats) - repeats, repeats)
    head, split = place // splits[batch], place % splits[batch]
    table = numpy.zeros((batch.size, 11), numpy.int64)
    table[:, 0], table[:, 1], table[:, 2], table[:, 3] = first_q[batch], rows[batch], first_k[batch], keys[batch]
    table[:, 5], table[:, 6], table[:, 7] = head, split, splits[batch]
    table[:, 8] = (numpy.cumsum(pairs) - pairs)[batch] * heads + head * step * pairs[batch]
    table[:, 9] = first_q[batch] * heads + head * step * rows[batch]
    table[:, 10] = (keys - rows)[batch] * ends + reach
    # Heaviest first, dealt to and fro: parts of nearly equal work whatever the lengths.
    order = numpy.argsort(-(rows + 1)[batch] * (keys + 1)[batch] // splits[batch], kind="stable")
    turn = numpy.arange(order.size) % (2 * parts)
    part = numpy.where(turn < parts, turn, 2 * parts - 1 - turn)
    table = table[order[numpy.argsort(part, kind="stable")]]
    bounds = numpy.concatenate([[0], numpy.cumsum(numpy.bincount(part, minlength=parts))]).astype(numpy.int64)
    return Tasks(table, bounds, int(rows.max(initial=0)), int(keys.max(initial=0)), total)


def _even(count: int, parts: int) -> numpy.ndarray:
    return numpy.arange(parts + 1, dtype=numpy.int64) * count // parts
