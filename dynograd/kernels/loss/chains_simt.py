"""Linear chains in numba-cuda: a block for each sequence, its threads side by side over tags, one step after the other.

Logarithms of sums over paths (`levels`) are kept in float64, so that long sequences lose no digits; exponentials and logarithms are
taken in the dtype of the emissions. What a step needs of the one before, all threads of the block read from global memory, between
two barriers. Lengths and tags outside their ranges have been reported: they are cut, and nothing outside is read or written.
"""

from __future__ import annotations

import math
from typing import Any

from numba import float32, float64, int32, int64

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda

MOST = 512  # threads of a block


@cuda.jit(device=True)
def within(value, low, high):
    """`value`, or the end of the range that lies next to it."""
    value = low if value < low else value
    return high if value > high else value


@cuda.jit(device=True)
def steps_of(starts, lengths, n, step, rows):
    """(first row, number of steps) of a sequence, cut to the rows that exist."""
    start = within(starts[n], int64(0), int64(rows))
    room = (int64(rows) - start + int64(step) - int64(1)) // int64(step)
    return start, within(lengths[n], int64(0), room)


def _likelihoods_of(real: Any) -> Any:
    def likelihoods(
        x, transitions, first, last, tags, labelled, starts, lengths, step, levels, result, rows, count
    ):  # fmt: skip
        """Log-likelihood of a sequence's tags (float64), or minus the logarithm of the sum over all; `levels` (rows, count)."""
        thread, threads, n = int32(cuda.threadIdx.x), int32(cuda.blockDim.x), int64(cuda.blockIdx.x)
        start, steps = steps_of(starts, lengths, n, step, rows)
        wide = int64(count)
        j = int64(thread)
        while steps > int64(0) and j < wide:
            levels[start * wide + j] = float64(first[j]) + float64(x[start * wide + j])
            j += int64(threads)
        cuda.syncthreads()
        t = int64(1)
        while t < steps:
            now = (start + t * int64(step)) * wide
            before = now - int64(step) * wide
            j = int64(thread)
            while j < wide:
                top = -math.inf
                for i in range(count):
                    value = levels[before + int64(i)] + float64(transitions[int64(i) * wide + j])
                    top = top if top > value else value
                base = top if top > -math.inf and top < math.inf else float64(0)
                total = real(0)
                for i in range(count):
                    value = levels[before + int64(i)] + float64(transitions[int64(i) * wide + j])
                    total = real(total + real(math.exp(real(value - base))))
                level = -math.inf
                if total != real(0):
                    level = base + float64(real(math.log(total))) + float64(x[now + j])
                levels[now + j] = level
                j += int64(threads)
            cuda.syncthreads()
            t += int64(1)
        if thread == 0:
            score = float64(0)
            if steps > int64(0):
                ended = (start + (steps - int64(1)) * int64(step)) * wide
                top = -math.inf
                for i in range(count):
                    value = levels[ended + int64(i)] + float64(last[i])
                    top = top if top > value else value
                base = top if top > -math.inf and top < math.inf else float64(0)
                total = float64(0)
                for i in range(count):
                    total += math.exp(levels[ended + int64(i)] + float64(last[i]) - base)
                score = math.inf
                if total != float64(0):
                    score = -(base + math.log(total))
                if labelled:
                    row, old = start, int64(0)
                    t = int64(0)
                    while t < steps:
                        tag = within(tags[row], int64(0), wide - int64(1))
                        score += float64(x[row * wide + tag])
                        score += float64(first[tag]) if t == int64(0) else float64(transitions[old * wide + tag])
                        old = tag
                        row += int64(step)
                        t += int64(1)
                    score += float64(last[old])
            result[n] = score

    return likelihoods


def _gradients_of(real: Any) -> Any:
    def gradients(
        g, x, transitions, last, tags, labelled, starts, lengths, step, levels, gx, moves, ends, chances, rows, count, sequences
    ):  # fmt: skip
        """Gradients of `likelihoods`; a block takes every gridDim-th sequence and has sums of its own.

        moves (blocks, count, count), ends (blocks, 2, count): of the transitions, and of first and last; chances (blocks, 2, count):
        room for the probabilities of the tags of two steps. moves, ends and gx begin as zeros.
        """
        thread, threads, block = int32(cuda.threadIdx.x), int32(cuda.blockDim.x), int64(cuda.blockIdx.x)
        wide = int64(count)
        moves_at, ends_at = block * wide * wide, block * int64(2) * wide
        n = block
        while n < int64(sequences):
            start, steps = steps_of(starts, lengths, n, step, rows)
            factor = g[n]
            turn = int64(0)
            if steps > int64(0):
                ended = (start + (steps - int64(1)) * int64(step)) * wide
                top = -math.inf
                for j in range(count):
                    value = levels[ended + int64(j)] + float64(last[j])
                    top = top if top > value else value
                base = top if top > -math.inf and top < math.inf else float64(0)
                total = float64(0)
                for j in range(count):
                    total += math.exp(levels[ended + int64(j)] + float64(last[j]) - base)
                i = int64(thread)
                while i < wide:
                    chance = real(0)
                    if total != float64(0):
                        chance = real(math.exp(levels[ended + i] + float64(last[i]) - base) / total)
                    chances[ends_at + i] = chance
                    ends[ends_at + wide + i] -= real(factor * chance)
                    i += int64(threads)
            cuda.syncthreads()
            t = steps - int64(1)
            while t >= int64(0):
                row = start + t * int64(step)
                tag, old = int64(-1), int64(-1)
                if labelled:
                    tag = within(tags[row], int64(0), wide - int64(1))
                    if t > int64(0):
                        old = within(tags[row - int64(step)], int64(0), wide - int64(1))
                here, there = ends_at + turn * wide, ends_at + (int64(1) - turn) * wide
                before = (row - int64(step)) * wide
                i = int64(thread)
                while i < wide:
                    slope = real(-factor * chances[here + i])
                    slope = real(slope + factor) if i == tag else slope
                    gx[row * wide + i] = slope
                    if t == int64(0):
                        ends[ends_at + i] += slope
                    if labelled and t == steps - int64(1) and i == tag:
                        ends[ends_at + wide + i] += factor
                    if t > int64(0):
                        level, total_chance = levels[before + i], real(0)
                        for j in range(count):
                            chance = chances[here + int64(j)]
                            if chance != real(0):
                                place = i * wide + int64(j)
                                reached = levels[row * wide + int64(j)] - float64(x[row * wide + int64(j)])
                                chance = real(
                                    chance * real(math.exp(real(level + float64(transitions[place]) - reached)))
                                )
                                moves[moves_at + place] -= real(factor * chance)
                                total_chance = real(total_chance + chance)
                        if i == old:
                            moves[moves_at + i * wide + tag] += factor
                        chances[there + i] = total_chance
                    i += int64(threads)
                cuda.syncthreads()
                turn = int64(1) - turn
                t -= int64(1)
            n += int64(cuda.gridDim.x)

    return gradients


def _best_paths_of(real: Any) -> Any:
    def best_paths(x, transitions, first, last, starts, lengths, step, levels, origins, tags, scores, rows, count):
        """The best path's tags, in the sequence's rows of `tags`, and its score; levels, origins (rows, count) are room for it."""
        thread, threads, n = int32(cuda.threadIdx.x), int32(cuda.blockDim.x), int64(cuda.blockIdx.x)
        start, steps = steps_of(starts, lengths, n, step, rows)
        wide = int64(count)
        j = int64(thread)
        while steps > int64(0) and j < wide:
            levels[start * wide + j] = float64(first[j]) + float64(x[start * wide + j])
            j += int64(threads)
        cuda.syncthreads()
        t = int64(1)
        while t < steps:
            now = (start + t * int64(step)) * wide
            before = now - int64(step) * wide
            j = int64(thread)
            while j < wide:
                top, origin = levels[before] + float64(transitions[j]), int32(0)
                for i in range(1, count):
                    value = levels[before + int64(i)] + float64(transitions[int64(i) * wide + j])
                    if value > top:
                        top, origin = value, int32(i)
                levels[now + j] = top + float64(x[now + j])
                origins[now + j] = origin
                j += int64(threads)
            cuda.syncthreads()
            t += int64(1)
        if thread == 0:
            score = float64(0)
            if steps > int64(0):
                row = start + (steps - int64(1)) * int64(step)
                score, best = levels[row * wide] + float64(last[0]), int64(0)
                for i in range(1, count):
                    value = levels[row * wide + int64(i)] + float64(last[i])
                    if value > score:
                        score, best = value, int64(i)
                tags[row] = best
                while row > start:
                    best = int64(origins[row * wide + best])
                    row -= int64(step)
                    tags[row] = best
            scores[n] = score

    return best_paths


def _kernels(make: Any, **types: str) -> dict[int, Any]:
    """A kernel by the size of its numbers."""
    shared = dict(
        x="*real", transitions="*real", last="*real", starts="*i64", lengths="*i64", step="i64", levels="*fp64", rows="i64",
        count="i32",
    )  # fmt: skip
    kernels = {}
    for size, real in ((4, float32), (8, float64)):
        own = {name: kind.replace("real", f"fp{8 * size}") for name, kind in {**shared, **types}.items()}
        kernels[size] = simt_kernel(most=MOST, variants=[{**own, "threads": 32}])(make(real))
    return kernels


_TAGS = dict(tags="*i64", labelled="i1")
likelihoods = _kernels(_likelihoods_of, first="*real", result="*fp64", **_TAGS)
gradients = _kernels(
    _gradients_of, g="*real", gx="*real", moves="*real", ends="*real", chances="*real", sequences="i64", **_TAGS
)  # fmt: skip
best_paths = _kernels(_best_paths_of, first="*real", origins="*i32", tags="*i64", scores="*fp64")


def kernels_to_check() -> list[Any]:
    kernels = [*likelihoods.values(), *gradients.values(), *best_paths.values()]
    return [(kernel, variant) for kernel in kernels for variant in kernel.kernel.variants]
