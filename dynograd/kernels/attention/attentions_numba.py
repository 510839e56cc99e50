"""The Numba half of `attentions_cpu`: attention of one head at a time, in tiles of queries by keys that stay in the level-2 cache.

Forward keeps, beside the result, the logarithm of each row's sum of exp(scores); backward computes weights from it again. Scores are
never kept. Arrays come by handle, with their strides in `sizes` (what `attentions_cpu` lists). What there is to do stands in `tasks`
(see `attentions_tasks`): a head, and in backward a head of keys with all heads of queries that share it. Sums are taken in one order
whatever the number of threads and whatever else is in the batch; items of a kernel are parts of the tasks.
"""

import functools
import math

import numpy as np
from numba import types

from dynograd.kernels.build.addresses_numba import (
    address,
    address_of,
    call,
    handle,
    make_vector,
    vector8,
    vector32,
    vector64,
    word_at,
)
from dynograd.kernels.build.bits_numba import float32_of, int32_of
from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.math_numba import exp
from dynograd.kernels.random.random_numba import words_of
from dynograd.kernels.tiles.tile_products_numba import PACK_COLUMNS, PACK_ROWS, ROWS, TILES, products32, products64

__all__ = ["address_of_words", "backward", "forward", "functions", "handle"]

# 96 queries by 512 keys: 192 KiB of scores. In short causal sequences 48: fewer scores beyond the diagonal are computed in vain.
_KEYS, _QUERIES, _FEW_QUERIES, _SHORT = 512, 96, 48, 256
_PAD = 16  # rows of scores a power of two apart would share a few sets of the cache
_NO_MASK, _BOOL = 0, 1


@compiled(inline=True)
def _top32(row):
    """The maximum, by way of integers that sort like the numbers: maxima of floats do not vectorise."""
    best = np.int32(-0x7FFFFFFF)
    for j in range(row.size):
        bits = int32_of(row[j])
        key = np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))
        best = key if key > best else best
    return float32_of(best ^ ((best >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@compiled(inline=True)
def _top64(row):
    best = -np.inf
    for j in range(row.size):
        best = row[j] if not row[j] <= best else best
    return best


@compiled
def _aligned(memory):
    return (np.int64(memory.ctypes.data) + 63) // 64 * 64


_vector_of_words = make_vector(types.uint32)


@compiled(exact=True)
def _write_words(seed, offset, first, count, words):
    words_of(seed, offset, first, count, _vector_of_words(words, count + 8))


@functools.cache
def address_of_words():
    """Of what dropout calls, so that attention without it does not compile it."""
    return address_of(_write_words, (types.uint64, types.uint64, types.int64, types.int64, types.int64))


def _make(real, result, vector, top_of):
    scratch_size, width = result.scratch_size, result.width
    size, key = real().itemsize, real.__name__
    zero, element, below_all = real(0), real(1), real(-np.inf)

    @compiled(key=key, inline=True)
    def rounded(count):
        """Elements for `count` and what is written beyond them, in whole cache lines."""
        return (count + 2 * width - 1) // width * width

    @compiled(key=key, inline=True)
    def queries_at_once(rows, keys, causal):
        """Blocks of one size, in whole groups of rows."""
        most = _FEW_QUERIES if causal != 0 and keys <= _SHORT else _QUERIES
        even = rows // ((rows + most - 1) // most)
        return min(even + (-even) % ROWS + (ROWS if rows % even != 0 else 0), most)

    @compiled(key=key)
    def hide(row, begin, visible, kind, mask, step):
        """Adds a mask's numbers or makes -inf of what it hides, and of what stands before `begin` and from `visible` on."""
        if kind == _BOOL:
            seen = vector8(mask, (row.size - 1) * step + 1)
            for j in range(row.size):
                row[j] = row[j] if seen[j * step] != 0 else below_all
        elif kind != _NO_MASK:
            step //= size
            numbers = vector(mask, (row.size - 1) * step + 1)
            for j in range(row.size):
                row[j] = below_all if numbers[j * step] == below_all else row[j] + numbers[j * step]
        for j in range(min(begin, row.size)):
            row[j] = below_all
        for j in range(max(visible, 0), row.size):
            row[j] = below_all

    @compiled(key=key)
    def drop(row, first, words_at, seed, offset, threshold, factor, words):
        """Multiplies by what `random_cpu.dropout_mask` has for elements `first` and following."""
        call(words_at, (seed, offset, first, row.size, np.int64(words.ctypes.data)))
        begin = first & 3
        for j in range(row.size):
            row[j] = zero if np.uint64(words[begin + j]) < threshold else row[j] * factor

    @compiled(key=key)
    def pack_queries(functions, q, row, count, features, packed, factor):
        call(word_at(functions + PACK_ROWS), (q, False, row, count, features, packed))
        if factor != element:
            numbers = vector(packed, count * features)
            for i in range(numbers.size):
                numbers[i] *= factor

    @compiled(key=key)
    def scores_of(functions, packed, count, panels, keys, features, zeros, scores, stride):
        """scores (count, keys) of packed rows and packed columns; some beyond `keys` are written too."""
        for left in range(0, keys, width):
            call(word_at(functions + TILES), (
                False, packed, features * size, size, ROWS * size, features * size, size, count, panels + left * features * size,
                width * size, zeros, 0, scores + left * size, stride * size, features,
            ))  # fmt: skip

    @chunked(key=key)
    def forward(
        functions,
        tasks,
        bounds,
        sizes,
        scale,
        q,
        k,
        v,
        out,
        logarithms,
        mask,
        words_at,
        draw,
        threshold,
        factor,
        start,
        stop,
    ):
        """out = softmax(scale * q @ k.T + mask) @ v, and for each query the logarithm of its sum of exp.

        `draw` is where the mask of dropout begins in its stream: seed and offset.
        """
        group, most_rows, most_keys, features, values, causal, kind, window, _ = sizes[:9]
        q_strides, k_strides, v_strides, out_strides, mask_strides = (
            sizes[9:12],
            sizes[12:15],
            sizes[15:18],
            sizes[18:21],
            sizes[21:25],
        )
        q_row, k_row, v_row, out_row = q_strides[2], k_strides[2], v_strides[2], out_strides[2]
        most = min(_QUERIES, most_rows + ROWS)
        stride = min(most_keys + width, _KEYS) + _PAD
        memory = np.empty(
            rounded((most_keys + width) * features) + rounded((most + ROWS) * features) + rounded(most * stride)
            + rounded(scratch_size(most, values, _KEYS)) + 2 * width, real
        )  # fmt: skip
        zeros = _aligned(memory)
        vector(zeros, width)[:] = zero
        panels = zeros + width * size
        packed = panels + rounded((most_keys + width) * features) * size
        scores = packed + rounded((most + ROWS) * features) * size
        scratch = scores + rounded(most * stride) * size
        tops, totals = np.empty(most, real), np.empty(most, real)
        words = np.empty(_KEYS + 8 if threshold > 0 else 1, np.uint32)
        for item in range(bounds[start], bounds[stop]):
            first_q, rows, first_k, keys, batch, head, split, splits, weights, sums_at, shift = tasks[item]
            if rows == 0:
                continue
            at_q = address(q) + (batch * q_strides[0] + head * q_strides[1] + first_q * q_row) * size
            at_k = address(k) + (batch * k_strides[0] + head // group * k_strides[1] + first_k * k_row) * size
            at_v = address(v) + (batch * v_strides[0] + head // group * v_strides[1] + first_k * v_row) * size
            at_out = address(out) + (batch * out_strides[0] + head * out_strides[1] + first_q * out_row) * size
            at_mask = (address(mask) if kind != _NO_MASK else 0) + batch * mask_strides[0] + head * mask_strides[1]
            at_mask += first_k * sizes[8]
            sums = vector(address(logarithms) + sums_at * size, rows)
            block = queries_at_once(rows, keys, causal)
            seen = max(0, min(keys, rows + shift)) if causal else keys
            if seen > 0:
                call(word_at(functions + PACK_COLUMNS), (at_k, True, k_row, seen, features, panels))
            for first in range(split * block, rows, splits * block):
                count = min(block, rows - first)
                reach = max(0, min(seen, first + count + shift)) if causal else keys
                begin_at = max(0, first + shift - window) // _KEYS * _KEYS if window >= 0 else 0
                pack_queries(functions, at_q + first * q_row * size, q_row, count, features, packed, scale)
                tops[:] = below_all
                totals[:] = zero
                target = at_out + first * out_row * size
                if begin_at >= reach:
                    for i in range(count):
                        vector(target + i * out_row * size, values)[:] = zero
                for left in range(begin_at, reach, _KEYS):
                    across = min(_KEYS, reach - left)
                    scores_of(
                        functions,
                        packed,
                        count,
                        panels + left * features * size,
                        across,
                        features,
                        zeros,
                        scores,
                        stride,
                    )
                    for i in range(count):
                        row = vector(scores + i * stride * size, across)
                        visible = first + i + 1 + shift - left if causal else across
                        hidden = first + i + shift - window - left if window >= 0 else 0
                        if kind != _NO_MASK or visible < across or hidden > 0:
                            hide(
                                row,
                                hidden,
                                visible,
                                kind,
                                at_mask + (first + i) * mask_strides[2] + left * mask_strides[3],
                                mask_strides[3],
                            )
                        top = top_of(row)
                        if top < tops[i]:
                            top = tops[i]
                        if top == below_all:
                            row[:] = zero
                            continue
                        total = zero
                        for j in range(across):
                            value = exp(row[j] - top)
                            row[j] = value
                            total += value
                        if left > begin_at:
                            shrink = exp(tops[i] - top)
                            totals[i] *= shrink
                            result = vector(target + i * out_row * size, values)
                            for j in range(values):
                                result[j] *= shrink
                        tops[i] = top
                        totals[i] += total
                        if threshold > 0:
                            drop(
                                row,
                                weights + (first + i) * keys + left,
                                words_at,
                                draw[0],
                                draw[1],
                                threshold,
                                factor,
                                words,
                            )
                    begin = target if left > begin_at else 0
                    call(word_at(functions), (
                        functions, False, False, count, values, across, scores, stride, at_v + left * v_row * size, v_row,
                        begin, out_row, target, out_row, scratch,
                    ))  # fmt: skip
                for i in range(count):
                    result = vector(target + i * out_row * size, values)
                    share = zero if totals[i] == zero else element / totals[i]
                    for j in range(values):
                        result[j] *= share
                    sums[first + i] = below_all if totals[i] == zero else tops[i] + real(math.log(totals[i]))
        memory[0] = zero  # alive until here

    @chunked(key=key)
    def backward(
        functions,
        tasks,
        bounds,
        sizes,
        scale,
        g,
        q,
        k,
        v,
        out,
        logarithms,
        mask,
        words_at,
        draw,
        threshold,
        factor,
        g_q,
        g_k,
        g_v,
        start,
        stop,
    ):
        """Gradients of q, k and v. Tasks are heads of keys."""
        group, most_rows, most_keys, features, values, causal, kind, window, _ = sizes[:9]
        q_strides, k_strides, v_strides, out_strides, mask_strides = (
            sizes[9:12],
            sizes[12:15],
            sizes[15:18],
            sizes[18:21],
            sizes[21:25],
        )
        g_strides, gq_strides, gk_strides, gv_strides = sizes[25:28], sizes[28:31], sizes[31:34], sizes[34:37]
        q_row, k_row, v_row, out_row, g_row = q_strides[2], k_strides[2], v_strides[2], out_strides[2], g_strides[2]
        gq_row, gk_row, gv_row = gq_strides[2], gk_strides[2], gv_strides[2]
        block = min(_QUERIES, most_rows + ROWS)
        stride = min(most_keys + width, _KEYS) + _PAD
        most, tall = max(features, values), min(most_keys, _KEYS)
        room = max(scratch_size(tall, most, block), scratch_size(block, most, tall))
        memory = np.empty(
            rounded((tall + width) * features) + rounded((tall + width) * values) + rounded((block + ROWS) * features)
            + rounded((block + ROWS) * values) + 2 * rounded(block * stride) + rounded(room) + 2 * width, real
        )  # fmt: skip
        zeros = _aligned(memory)
        vector(zeros, width)[:] = zero
        panels = zeros + width * size
        value_panels = panels + rounded((tall + width) * features) * size
        packed = value_panels + rounded((tall + width) * values) * size
        packed_g = packed + rounded((block + ROWS) * features) * size
        scores = packed_g + rounded((block + ROWS) * values) * size
        slopes = scores + rounded(block * stride) * size
        scratch = slopes + rounded(block * stride) * size
        inner = np.empty(most_rows, real)
        words = np.empty(_KEYS + 8 if threshold > 0 else 1, np.uint32)
        for item in range(bounds[start], bounds[stop]):
            first_q, rows, first_k, keys, batch, head_k, _, _, first_weight, first_sum, shift = tasks[item]
            at_k = address(k) + (batch * k_strides[0] + head_k * k_strides[1] + first_k * k_row) * size
            at_v = address(v) + (batch * v_strides[0] + head_k * v_strides[1] + first_k * v_row) * size
            at_gk = address(g_k) + (batch * gk_strides[0] + head_k * gk_strides[1] + first_k * gk_row) * size
            at_gv = address(g_v) + (batch * gv_strides[0] + head_k * gv_strides[1] + first_k * gv_row) * size
            for j in range(keys):
                vector(at_gk + j * gk_row * size, features)[:] = zero
                vector(at_gv + j * gv_row * size, values)[:] = zero
            if rows == 0:
                continue
            block = queries_at_once(rows, keys, causal)
            for head in range(head_k * group, (head_k + 1) * group):
                member = head - head_k * group
                weights = first_weight + member * rows * keys
                at_q = address(q) + (batch * q_strides[0] + head * q_strides[1] + first_q * q_row) * size
                at_g = address(g) + (batch * g_strides[0] + head * g_strides[1] + first_q * g_row) * size
                at_out = address(out) + (batch * out_strides[0] + head * out_strides[1] + first_q * out_row) * size
                at_gq = address(g_q) + (batch * gq_strides[0] + head * gq_strides[1] + first_q * gq_row) * size
                at_mask = (address(mask) if kind != _NO_MASK else 0) + batch * mask_strides[0] + head * mask_strides[1]
                at_mask += first_k * sizes[8]
                sums = vector(address(logarithms) + (first_sum + member * rows) * size, rows)
                for i in range(rows):
                    vector(at_gq + i * gq_row * size, features)[:] = zero
                    left_row = vector(at_g + i * g_row * size, values)
                    right_row = vector(at_out + i * out_row * size, values)
                    total = zero
                    for j in range(values):
                        total += left_row[j] * right_row[j]
                    inner[i] = total
                for left in range(0, keys, _KEYS):
                    tall = min(_KEYS, keys - left)
                    call(
                        word_at(functions + PACK_COLUMNS),
                        (at_k + left * k_row * size, True, k_row, tall, features, panels),
                    )
                    call(
                        word_at(functions + PACK_COLUMNS),
                        (at_v + left * v_row * size, True, v_row, tall, values, value_panels),
                    )
                    for first in range(0, rows, block):
                        count = min(block, rows - first)
                        across = min(tall, first + count + shift - left) if causal else tall
                        if across <= 0 or (window >= 0 and first + shift - window >= left + tall):
                            continue
                        pack_queries(functions, at_q + first * q_row * size, q_row, count, features, packed, scale)
                        pack_queries(functions, at_g + first * g_row * size, g_row, count, values, packed_g, element)
                        scores_of(functions, packed, count, panels, across, features, zeros, scores, stride)
                        scores_of(functions, packed_g, count, value_panels, across, values, zeros, slopes, stride)
                        for i in range(count):
                            row = vector(scores + i * stride * size, across)
                            slope = vector(slopes + i * stride * size, across)
                            visible = first + i + 1 + shift - left if causal else across
                            hidden = first + i + shift - window - left if window >= 0 else 0
                            if kind != _NO_MASK or visible < across or hidden > 0:
                                hide(
                                    row,
                                    hidden,
                                    visible,
                                    kind,
                                    at_mask + (first + i) * mask_strides[2] + left * mask_strides[3],
                                    mask_strides[3],
                                )
                            top, mean = sums[first + i], inner[first + i]
                            if top == below_all:
                                row[:] = zero
                                slope[:] = zero
                                continue
                            if threshold > 0:
                                place = weights + (first + i) * keys + left
                                call(words_at, (draw[0], draw[1], place, across, np.int64(words.ctypes.data)))
                                begin = place & 3
                                for j in range(across):
                                    weight = exp(row[j] - top)
                                    kept = zero if np.uint64(words[begin + j]) < threshold else factor
                                    slope[j] = weight * (slope[j] * kept - mean)
                                    row[j] = weight * kept
                            else:
                                for j in range(across):
                                    weight = exp(row[j] - top)
                                    slope[j] = weight * (slope[j] - mean)
                                    row[j] = weight
                        from_g, from_q = at_g + first * g_row * size, at_q + first * q_row * size
                        to_v, to_k, to_q = (
                            at_gv + left * gv_row * size,
                            at_gk + left * gk_row * size,
                            at_gq + first * gq_row * size,
                        )
                        call(word_at(functions), (
                            functions, True, False, across, values, count, scores, stride, from_g, g_row, to_v, gv_row, to_v, gv_row, scratch
                        ))  # fmt: skip
                        call(word_at(functions), (
                            functions, True, False, across, features, count, slopes, stride, from_q, q_row, to_k, gk_row, to_k, gk_row, scratch
                        ))  # fmt: skip
                        call(word_at(functions), (
                            functions, False, False, count, features, across, slopes, stride, at_k + left * k_row * size, k_row,
                            to_q, gq_row, to_q, gq_row, scratch,
                        ))  # fmt: skip
                for i in range(rows):
                    result = vector(at_gq + i * gq_row * size, features)
                    for j in range(features):
                        result[j] *= scale
            for i in range(keys):
                result = vector(at_gk + i * gk_row * size, features)
                for j in range(features):
                    result[j] *= scale
        memory[0] = zero  # alive until here

    return forward, backward


_kinds = {
    np.dtype(np.float32): _make(np.float32, products32, vector32, _top32),
    np.dtype(np.float64): _make(np.float64, products64, vector64, _top64),
}
functions = {np.dtype(np.float32): products32.functions, np.dtype(np.float64): products64.functions}
forward = {kind: pair[0] for kind, pair in _kinds.items()}
backward = {kind: pair[1] for kind, pair in _kinds.items()}
