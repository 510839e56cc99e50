"""The CTC loss in numba-cuda: a block for each sequence, its threads side by side over the target's states, one step after the other.

State `i` is blank i and the label i that follows it (see `ctc_numba`), `width` = S + 1 of them. The step before lies in shared
memory; what the next step needs of log_probs is asked for a step ahead. Every `PERIOD` steps the largest number of a step is taken
out of all later ones and added up in float64 (`bases`), so that long sequences in float32 lose no digits. Lengths and labels
outside their ranges have been reported: they are cut, and nothing outside is read or written.
"""

from __future__ import annotations

import math
from typing import Any

from numba import float32, float64, int32, int64

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda

MOST = {4: 1024, 8: 512}  # threads of a block, by the size of a number: as many as its registers allow
PERIOD = 8
ROW_THREADS = 128  # of a block of `ctc_gradients`
_ALL_LANES = 0xFFFFFFFF
_WARPS = 32  # at most, of a block
_NOWHERE = -1


def bytes_of(width: int, itemsize: int) -> int:
    """Bytes of shared memory for the rows of two steps, of blanks and of labels, and one number for each warp."""
    return -(-(4 * (width + 1) + _WARPS) * itemsize // 4096) * 4096  # few sizes: each is a variant of its own


def _helpers(real: Any) -> tuple[Any, Any, Any, Any]:
    """Sums of probabilities by their logarithms, and the largest number and the sum of a block, in numbers of one type."""

    @cuda.jit(device=True)
    def either(a, b):
        """log(exp(a) + exp(b)), -inf of two -inf."""
        top = a if a > b else b
        low = b if a > b else a
        if top == real(-math.inf):
            return top
        return real(top + real(math.log(real(1) + real(math.exp(low - top)))))

    @cuda.jit(device=True)
    def any_of(a, b, c):
        """log(exp(a) + exp(b) + exp(c)), -inf of three -inf."""
        high = a if a > b else b
        low = b if a > b else a
        top = high if high > c else c
        middle = c if high > c else high
        if top == real(-math.inf):
            return top
        return real(top + real(math.log(real(1) + real(math.exp(low - top)) + real(math.exp(middle - top)))))

    @cuda.jit(device=True)
    def highest(value, shared, start, thread, threads):
        """The largest value of a block, 0 where none is finite; `shared` from `start` on has a number for each warp."""
        step = int32(16)
        while step > int32(0):
            other = cuda.shfl_xor_sync(_ALL_LANES, value, step)
            value = other if other > value else value
            step = int32(step >> 1)
        if thread % int32(32) == int32(0):
            shared[start + thread // int32(32)] = value
        cuda.syncthreads()
        for warp in range(threads // int32(32)):
            other = shared[start + warp]
            value = other if other > value else value
        return value if value > real(-math.inf) and value < real(math.inf) else real(0)

    @cuda.jit(device=True)
    def total(value, shared, start, thread, threads):
        """The sum of a block's values, in the same order each time."""
        step = int32(16)
        while step > int32(0):
            value = real(value + cuda.shfl_xor_sync(_ALL_LANES, value, step))
            step = int32(step >> 1)
        if thread % int32(32) == int32(0):
            shared[start + thread // int32(32)] = value
        cuda.syncthreads()
        result = real(0)
        for warp in range(threads // int32(32)):
            result = real(result + shared[start + warp])
        return result

    return either, any_of, highest, total


@cuda.jit(device=True)
def within(value, low, high):
    """`value`, or the end of the range that lies next to it."""
    value = low if value < low else value
    return high if value > high else value


@cuda.jit(device=True)
def skips(targets, labels, i, length):
    """Whether the step from label i - 1 to label i may leave out the blank between them."""
    if i < int32(1) or i >= length:
        return False
    return targets[labels + i] != targets[labels + i - int64(1)]


def _emission_of(real: Any) -> Any:
    @cuda.jit(device=True)
    def emission(x, row, targets, labels, i, length, classes):
        """log of the probability of label i in a step, -inf beyond the target."""
        if i >= length:
            return real(-math.inf)
        label = targets[labels + i]
        if label < int64(0) or label >= int64(classes):
            return real(-math.inf)
        return x[row + label]

    return emission


def _alphas_of(real: Any) -> Any:
    either, any_of, highest, _ = _helpers(real)
    emission = _emission_of(real)

    def ctc_alphas(
        x,
        time_step,
        row_step,
        targets,
        input_lengths,
        target_lengths,
        blank,
        kept,
        bases,
        losses,
        steps,
        classes,
        width,
    ):
        """log of the probability of each state after each step in `kept` (N, T, 2, width), but for `bases` (N, T); the losses."""
        shared = cuda.shared.array(0, real)
        thread, threads, n = int32(cuda.threadIdx.x), int32(cuda.blockDim.x), int64(cuda.blockIdx.x)
        low = real(-math.inf)
        own_steps = int32(within(input_lengths[n], int64(0), int64(steps)))
        length = int32(within(target_lengths[n], int64(0), int64(width - 1)))
        labels = n * int64(width - 1)
        wide = int32(width + 1)  # of a row in shared memory: label i at i + 1, -inf before
        line = n * int64(steps) * int64(2 * width)  # of kept
        place = n * int64(steps)  # of bases
        row = n * int64(row_step) * int64(classes)
        ahead, silent_ahead = low, low
        if own_steps > int32(0):
            ahead, silent_ahead = emission(x, row, targets, labels, thread, length, classes), x[row + blank]
        base, change, now = float64(0), real(0), int32(0)
        for t in range(own_steps):
            first, silent = real(ahead - change), real(silent_ahead - change)
            here = row
            if t + 1 < own_steps:
                row += int64(time_step) * int64(classes)
                ahead, silent_ahead = emission(x, row, targets, labels, thread, length, classes), x[row + blank]
            best = low
            written, read = int32(now * wide * 2), int32((1 - now) * wide * 2)
            i = thread
            while i < width:
                emitted = first
                if i != thread:
                    emitted = real(emission(x, here, targets, labels, i, length, classes) - change)
                on_blank, on_label = low, low
                if t == 0:
                    if i == 0:
                        on_blank, on_label = silent, emitted
                else:
                    was_blank, before, was_label = (
                        shared[read + i],
                        shared[read + wide + i],
                        shared[read + wide + i + 1],
                    )
                    on_blank = real(either(was_blank, before) + silent)
                    if not skips(targets, labels, i, length):
                        before = low
                    on_label = real(any_of(was_label, was_blank, before) + emitted)
                kept[line + i] = on_blank
                kept[line + width + i] = on_label
                shared[written + i] = on_blank
                shared[written + wide + i + 1] = on_label
                if i == 0:
                    shared[written + wide] = low
                best = on_blank if on_blank > best else best
                best = on_label if on_label > best else best
                i = int32(i + threads)
            if thread == 0:
                bases[place + t] = base
            change = real(0)
            if t % PERIOD == PERIOD - 1:
                change = highest(best, shared, int32(4 * wide), thread, threads)
                base += float64(change)
            cuda.syncthreads()
            now = int32(1 - now)
            line += int64(2 * width)
        if thread == 0:
            if own_steps == 0:
                losses[n] = float64(0) if length == 0 else float64(math.inf)
            else:
                read = int32((1 - now) * wide * 2)
                ended = shared[read + length]
                if length > 0:
                    ended = either(ended, shared[read + wide + length])
                losses[n] = -(float64(ended) + bases[place + own_steps - 1])

    return ctc_alphas


def _chances_of(real: Any) -> Any:
    either, any_of, highest, _ = _helpers(real)
    emission = _emission_of(real)

    def ctc_chances(
        x, time_step, row_step, targets, input_lengths, target_lengths, blank, kept, bases, losses, chances, chains, steps,
        classes, width,
    ):  # fmt: skip
        """The probability of each state in each step, given the target, in `chances` (N, T, 2, width), but for a factor near 1.

        `chains` (N, 2, S): for each label, where it stands next in the target (-1: nowhere), and whether it stands there first.
        """
        shared = cuda.shared.array(0, real)
        thread, threads, n = int32(cuda.threadIdx.x), int32(cuda.blockDim.x), int64(cuda.blockIdx.x)
        low = real(-math.inf)
        own_steps = int32(within(input_lengths[n], int64(0), int64(steps)))
        length = int32(within(target_lengths[n], int64(0), int64(width - 1)))
        labels = n * int64(width - 1)
        i = thread
        while i < length:
            following, first, label = int32(_NOWHERE), int32(1), targets[labels + i]
            for j in range(length):
                if targets[labels + j] == label:
                    if j < i:
                        first = int32(0)
                    elif j > i and following == _NOWHERE:
                        following = int32(j)
            chains[2 * labels + i] = following
            chains[2 * labels + width - 1 + i] = first
            i = int32(i + threads)
        loss = losses[n]
        if own_steps == 0 or not loss < float64(math.inf):
            return
        wide = int32(width + 1)
        t = int32(own_steps - 1)
        line = (n * int64(steps) + int64(t)) * int64(2 * width)
        place = n * int64(steps)
        row = (n * int64(row_step) + int64(t) * int64(time_step)) * int64(classes)
        ahead, silent_ahead = emission(x, row, targets, labels, thread, length, classes), x[row + blank]
        blank_ahead, label_ahead = low, low
        if thread < width:
            blank_ahead, label_ahead = kept[line + thread], kept[line + width + thread]
        base, change, now = float64(0), real(0), int32(0)
        while t >= 0:
            offset = real(bases[place + t] + base + loss)
            first, silent, first_blank, first_label = ahead, silent_ahead, blank_ahead, label_ahead
            here, line_here = row, line
            if t > 0:
                row -= int64(time_step) * int64(classes)
                line -= int64(2 * width)
                ahead, silent_ahead = emission(x, row, targets, labels, thread, length, classes), x[row + blank]
                if thread < width:
                    blank_ahead, label_ahead = kept[line + thread], kept[line + width + thread]
            best = low
            written, read = int32(now * wide * 2), int32((1 - now) * wide * 2)
            i = thread
            while i < width:
                emitted, from_blank, from_label = first, first_blank, first_label
                if i != thread:
                    emitted = emission(x, here, targets, labels, i, length, classes)
                    from_blank, from_label = kept[line_here + i], kept[line_here + width + i]
                on_blank, on_label = low, low
                if t == own_steps - 1:
                    if i == length:
                        on_blank = real(0)
                    elif i == length - 1:
                        on_label = real(0)
                else:
                    next_blank, next_label = shared[read + i], shared[read + wide + i]
                    on_blank = real(either(next_blank, next_label) - change)
                    skipped = low
                    if skips(targets, labels, int32(i + 1), length):
                        skipped = shared[read + wide + i + 1]
                    on_label = real(any_of(next_label, shared[read + i + 1], skipped) - change)
                chances[line_here + i] = math.exp(from_blank + on_blank + offset)
                chances[line_here + width + i] = math.exp(from_label + on_label + offset)
                on_blank, on_label = real(on_blank + silent), real(on_label + emitted)
                shared[written + i] = on_blank
                shared[written + wide + i] = on_label
                if i == width - 1:
                    shared[written + width] = low
                    shared[written + wide + width] = low
                best = on_blank if on_blank > best else best
                best = on_label if on_label > best else best
                i = int32(i + threads)
            change = real(0)
            if t % PERIOD == 0:
                change = highest(best, shared, int32(4 * wide), thread, threads)
                base += float64(change)
            cuda.syncthreads()
            now = int32(1 - now)
            t = int32(t - 1)

    return ctc_chances


def _gradients_of(real: Any) -> Any:
    _, _, _, total = _helpers(real)

    def ctc_gradients(
        g, x, time_step, row_step, targets, input_lengths, target_lengths, blank, losses, chances, chains, silenced, gx, steps,
        classes, width,
    ):  # fmt: skip
        """exp(x) minus the probability that a class stands at a step, times `g`; a block for each step of each sequence."""
        shared = cuda.shared.array(0, real)
        thread, threads, item = int32(cuda.threadIdx.x), int32(cuda.blockDim.x), int64(cuda.blockIdx.x)
        n = item // int64(steps)
        t = item - n * int64(steps)
        row = (n * int64(row_step) + t * int64(time_step)) * int64(classes)
        factor = g[n]
        outside = t >= within(input_lengths[n], int64(0), int64(steps))
        if outside or not losses[n] < float64(math.inf):
            value = real(0) if outside or silenced else real(math.nan)
            c = int64(thread)
            while c < classes:
                gx[row + c] = value
                c += int64(threads)
            return
        length = int32(within(target_lengths[n], int64(0), int64(width - 1)))
        labels = n * int64(width - 1)
        line = item * int64(2 * width)
        share, rest = real(0), real(0)
        i = thread
        while i <= length:
            share = real(share + chances[line + i])
            if i < length:
                chance = chances[line + width + i]
                if targets[labels + i] == int64(blank):
                    share = real(share + chance)
                else:
                    rest = real(rest + chance)
            i = int32(i + threads)
        share = total(share, shared, int32(0), thread, threads)
        rest = total(rest, shared, int32(_WARPS), thread, threads)
        scale = real(
            factor / real(share + rest)
        )  # their sum is 1 but for what rounding has gathered up in alphas and betas
        c = int64(thread)
        while c < classes:
            value = real(factor * real(math.exp(x[row + c])))
            if c == int64(blank):
                value = real(value - scale * share)
            gx[row + c] = value
            c += int64(threads)
        cuda.syncthreads()
        i = thread
        while i < length:
            label = targets[labels + i]
            if (
                chains[2 * labels + width - 1 + i] != 0
                and label != int64(blank)
                and label >= 0
                and label < int64(classes)
            ):
                chance, j = real(0), i
                while j != _NOWHERE:
                    chance = real(chance + chances[line + width + j])
                    j = chains[2 * labels + j]
                gx[row + label] -= scale * chance
            i = int32(i + threads)

    return ctc_gradients


def _kernels(make: Any, most: dict[int, int], spills: int = 0, **types: str) -> dict[int, Any]:
    """A kernel by the size of its numbers."""
    shared = dict(
        time_step="i32", row_step="i32", targets="*i64", input_lengths="*i64", target_lengths="*i64", blank="i32",
        losses="*fp64", steps="i32", classes="i32", width="i32",
    )  # fmt: skip
    kernels = {}
    for size, real in ((4, float32), (8, float64)):
        own = {name: kind.replace("real", f"fp{8 * size}") for name, kind in types.items()}
        kernels[size] = simt_kernel(most=most[size], variants=[{**shared, **own, "spills": spills}])(make(real))
    return kernels


ctc_alphas = _kernels(_alphas_of, MOST, x="*real", kept="*real", bases="*fp64")
ctc_chances = _kernels(_chances_of, MOST, x="*real", kept="*real", bases="*fp64", chances="*real", chains="*i32")
ctc_gradients = _kernels(
    _gradients_of,
    dict.fromkeys(MOST, ROW_THREADS),
    96,  # exp of float64 is a call for sm_100, which saves registers
    g="*real",
    x="*real",
    chances="*real",
    chains="*i32",
    silenced="i1",
    gx="*real",
)


def kernels_to_check() -> list[Any]:
    kernels = [*ctc_alphas.values(), *ctc_chances.values(), *ctc_gradients.values()]
    return [(kernel, variant) for kernel in kernels for variant in kernel.kernel.variants]
