"""Scaled dot product attention in tiles, forward and backward, with any strides; see `attentions_numba`.

For dense batches (B, H, T, features), and for sequences behind one another (tokens, H, features), cut by offsets. A head gives the same
bits in either. Half types are computed in float32.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.attention.any_size import is_alike_at_any_size
from dynograd.kernels.attention.attentions_tasks import Tasks, dense_tasks, ragged_tasks
from dynograd.kernels.build import threads
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.sizes import TILED_PRODUCTS

_PER_OPERATION = 6  # a fused multiplication in a tile takes about a sixth of a simple elementwise operation
_FLOATS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))
_NOWHERE = numpy.zeros(2, numpy.uint64)
_loops: list[Any] = []


def attends_in_tiles(query: Any, key: Any, value: Any) -> bool:
    """Whether the kernels here take these arrays. What a head is decides, not how many there are, so that batches do not matter."""
    if (query.dtype not in _FLOATS and not _half(query)) or not 2 <= query.ndim == key.ndim == value.ndim <= 4:
        return False
    lead, heads = query.shape[:-3], query.shape[-3] if query.ndim > 2 else 1
    shared = key.shape[-3] if query.ndim > 2 else 1
    if key.shape[:-3] != lead or value.shape[:-2] != key.shape[:-2] or not shared or heads % shared:
        return False
    if 0 in lead or 0 in (*query.shape[-2:], *key.shape[-2:], value.shape[-1]):
        return False
    # in batch-invariant mode tiny heads too: beside longer sequences they would be computed here
    products = query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    return products >= TILED_PRODUCTS or batch_invariant() or is_alike_at_any_size()


def attends_ragged(query: Any, values: int, window: tuple[int, int], ends: bool) -> bool:
    """Whether the kernels here take sequences of this dtype, these widths and this window."""
    return query.dtype in _FLOATS or _half(query)


def attention_forward(
    query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, p: float, place: tuple[int, int]
) -> tuple[Any, Any]:
    """The result, laid out in memory like `query`, and the logarithm of each row's sum of exp(scores), (B, H, L).

    Args:
        mask: bool, True where a query may look, or numbers to add; broadcast.
        p, place: weights are dropped as `random_cpu.dropout_mask` says for their shape and this (seed, offset).
    """
    q, k, v = (_in_rows(_with_four_dims(_computed(array))) for array in (query, key, value))
    out = _laid_out_like(q, v.shape[-1])
    logarithms = numpy.empty(q.shape[:3], q.dtype)
    (batch, heads, rows), keys = q.shape[:3], k.shape[2]
    parts = threads.parts(batch * heads * rows * keys * (q.shape[3] + v.shape[3]) // _PER_OPERATION)
    tasks = dense_tasks(batch, heads, 0, rows, keys, parts)
    mask, strides = _mask_strides(q, keys, mask)
    _forward(tasks, (q, k, v, out), logarithms, mask, strides, causal, -1, 0, scale, p, place)
    return _rounded(out.reshape(*query.shape[:-1], v.shape[-1]), query), logarithms


def attention_backward(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    logarithms: Any,
    mask: Any,
    causal: bool,
    scale: float,
    p: float,
    place: tuple[int, int],
) -> tuple[Any, Any, Any]:
    """Gradients of query, key and value, laid out in memory like them."""
    g, q, k, v, out = (_in_rows(_with_four_dims(_computed(array))) for array in (g, query, key, value, out))
    gradients = [_laid_out_like(array, array.shape[-1]) for array in (q, k, v)]
    (batch, heads, rows), keys = q.shape[:3], k.shape[2]
    parts = threads.parts(5 * batch * heads * rows * keys * q.shape[3] // _PER_OPERATION)
    tasks = dense_tasks(batch, heads, heads // k.shape[1], rows, keys, parts)
    mask, strides = _mask_strides(q, keys, mask)
    _backward(tasks, (q, k, v, out, g, *gradients), logarithms, mask, strides, causal, -1, 0, scale, p, place)
    g_q, g_k, g_v = gradients
    return (
        _rounded(g_q.reshape(query.shape), query),
        _rounded(g_k.reshape(key.shape), key),
        _rounded(g_v.reshape(value.shape), value),
    )


def ragged_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    offsets_q: Any,
    offsets_k: Any,
    mask: Any,
    window: tuple[int, int],
    ends: bool,
    scale: float,
    p: float,
    place: tuple[int, int],
    longest: tuple[int, int],
) -> tuple[Any, Any]:
    """The result (Tq, H, V), laid out in memory like `query`, and the logarithm of each row's sum of exp(scores).

    Args:
        query (Tq, H, E), key (Tk, G, E), value (Tk, G, V): tokens of one sequence behind those of another.
        offsets_q, offsets_k (B + 1): where sequences begin and end.
        mask (Tk,): bool, True for a key that is seen, or numbers to add.
        window: how many keys to the left of its own place a query sees, and to the right; -1 for all.
        ends: the places of a sequence's last query and last key are the same, not those of the first.
        p, place: weights are dropped as `random_cpu.dropout_mask` says for the weights of all heads of all sequences behind one another.
        longest: for the GPU.
    """
    q, k, v = (_in_rows(_computed(array).transpose(1, 0, 2)[None]) for array in (query, key, value))
    out = _laid_out_like(q, v.shape[-1])
    logarithms = numpy.empty(q.shape[1] * q.shape[2], q.dtype)
    heads, wide = q.shape[1], q.shape[3] + v.shape[3]
    tasks = ragged_tasks(offsets_q, offsets_k, heads, 0, ends, max(window[1], 0), threads.get_num_threads())
    if threads.parts(tasks.work * wide // _PER_OPERATION) == 1:
        tasks = ragged_tasks(offsets_q, offsets_k, heads, 0, ends, max(window[1], 0), 1)
    mask, strides, step = _key_mask(q, mask)
    _forward(tasks, (q, k, v, out), logarithms, mask, strides, window[1] >= 0, _before(window), step, scale, p, place)
    return _rounded(out[0].transpose(1, 0, 2), query), logarithms


def logarithms_by_head(logarithms: Any, offsets_q: Any, heads: int) -> Any:
    """(H, Tq): those of `ragged_attention_forward`, which stand sequence by sequence, and head by head in each."""
    offsets = numpy.asarray(offsets_q, numpy.int64)
    rows = numpy.diff(offsets)
    begin = numpy.repeat(offsets[:-1] * heads, rows)
    places = numpy.arange(offsets[-1]) - numpy.repeat(offsets[:-1], rows)
    return logarithms[begin + places + numpy.arange(heads)[:, None] * numpy.repeat(rows, rows)]


def ragged_attention_backward(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    logarithms: Any,
    offsets_q: Any,
    offsets_k: Any,
    mask: Any,
    window: tuple[int, int],
    ends: bool,
    scale: float,
    p: float,
    place: tuple[int, int],
    longest: tuple[int, int],
) -> tuple[Any, Any, Any]:
    """Gradients of query, key and value, laid out in memory like them."""
    operands = (g, query, key, value, out)
    g, q, k, v, out = (_in_rows(_computed(array).transpose(1, 0, 2)[None]) for array in operands)
    gradients = [_laid_out_like(array, array.shape[-1]) for array in (q, k, v)]
    heads, reach = q.shape[1], max(window[1], 0)
    step = heads // k.shape[1]
    tasks = ragged_tasks(offsets_q, offsets_k, heads, step, ends, reach, threads.get_num_threads())
    if threads.parts(5 * tasks.work * q.shape[3] // _PER_OPERATION) == 1:
        tasks = ragged_tasks(offsets_q, offsets_k, heads, step, ends, reach, 1)
    mask, strides, each = _key_mask(q, mask)
    _backward(
        tasks,
        (q, k, v, out, g, *gradients),
        logarithms,
        mask,
        strides,
        window[1] >= 0,
        _before(window),
        each,
        scale,
        p,
        place,
    )
    return tuple(
        [_rounded(array[0].transpose(1, 0, 2), like) for array, like in zip(gradients, operands[1:4], strict=True)]
    )  # type: ignore[return-value]


def _forward(
    tasks: Tasks, arrays: tuple[Any, ...], logarithms: Any, mask: Any, strides: list[int], causal: bool, window: int, step: int,
    scale: float, p: float, place: tuple[int, int],
) -> None:  # fmt: skip
    loops = _kernels()
    kind, handle = arrays[0].dtype, loops.handle
    loops.forward[kind](
        loops.functions[kind](), tasks.rows, tasks.bounds, _sizes(tasks, arrays, mask, strides, causal, window, step), kind.type(scale),
        *map(handle, arrays), handle(logarithms), 0 if mask is None else handle(mask), *_stream(p, place, kind),
        count=tasks.bounds.size - 1, work=0, parts=tasks.bounds.size - 1,
    )  # fmt: skip


def _backward(
    tasks: Tasks, arrays: tuple[Any, ...], logarithms: Any, mask: Any, strides: list[int], causal: bool, window: int, step: int,
    scale: float, p: float, place: tuple[int, int],
) -> None:  # fmt: skip
    """`arrays`: q, k, v, out, the gradient of out, and those to make."""
    loops = _kernels()
    kind, handle = arrays[0].dtype, loops.handle
    q, k, v, out, g, *gradients = map(handle, arrays)
    loops.backward[kind](
        loops.functions[kind](), tasks.rows, tasks.bounds, _sizes(tasks, arrays, mask, strides, causal, window, step), kind.type(scale),
        g, q, k, v, out, handle(logarithms), 0 if mask is None else handle(mask), *_stream(p, place, kind), *gradients,
        count=tasks.bounds.size - 1, work=0, parts=tasks.bounds.size - 1,
    )  # fmt: skip


def _kernels() -> Any:
    if not _loops:
        _loops.append(import_module("dynograd.kernels.attention.attentions_numba"))
    return _loops[0]


def _with_four_dims(array: Any) -> Any:
    return array if array.ndim == 4 else array[(None,) * (4 - array.ndim)]


def _in_rows(array: Any) -> Any:
    """The array, or a copy, so that its last dim lies in one piece and steps between rows are whole elements."""
    size = array.itemsize
    strides = array.strides
    if (strides[3] != size and array.shape[3] > 1) or any([step < 0 or step % size for step in strides[:3]]):
        return numpy.ascontiguousarray(array)
    return array


def _laid_out_like(array: Any, width: int) -> Any:
    """A new array (B, H, T, width) whose dims follow each other in memory as those of `array` do."""
    order = sorted((0, 1, 2), key=lambda dim: -array.strides[dim])
    result = buffers.empty((*[array.shape[dim] for dim in order], width), array.dtype)
    return result.transpose(*[order.index(dim) for dim in (0, 1, 2)], 3)


def _sizes(
    tasks: Tasks, arrays: tuple[Any, ...], mask: Any, strides: list[int], causal: bool, window: int, step: int
) -> Any:
    q, k, v = arrays[:3]
    kind = 0 if mask is None else 1 if mask.dtype.kind == "b" else 2
    sizes = [
        q.shape[1] // k.shape[1],
        tasks.most_rows,
        tasks.most_keys,
        q.shape[3],
        v.shape[3],
        int(causal),
        kind,
        window,
        step,
    ]
    for place, array in enumerate(arrays):
        sizes += [stride // array.itemsize for stride in array.strides[:3]]
        if place == 3:
            sizes += strides
    return numpy.array(sizes)


def _mask_strides(q: Any, keys: int, mask: Any) -> tuple[Any, list[int]]:
    if mask is None:
        return None, [0] * 4
    mask = numpy.broadcast_to(_computed(mask), (*q.shape[:3], keys))
    size = mask.itemsize
    if any([step < 0 or step % size for step in mask.strides]):
        mask = numpy.ascontiguousarray(mask)
    return mask, list(mask.strides)


def _before(window: tuple[int, int]) -> int:
    """How many keys a query sees from the last one on to the left, beside it; -1 for all."""
    return window[0] + max(window[1], 0) if window[0] >= 0 else -1


def _key_mask(q: Any, mask: Any) -> tuple[Any, list[int], int]:
    """A mask of the keys, its strides, and the bytes to the next key's in `tokens`."""
    if mask is None:
        return None, [0] * 4, 0
    mask = numpy.ascontiguousarray(_computed(mask))
    return mask, [0, 0, 0, mask.itemsize], mask.itemsize


def _half(array: Any) -> bool:
    return array.dtype.itemsize == 2 and array.dtype.kind in "fV"


def _computed(array: Any) -> Any:
    """The array in the type that computes: float32 for half types."""
    return array.astype(numpy.float32) if _half(array) else array


def _rounded(array: Any, like: Any) -> Any:
    return array.astype(like.dtype) if _half(like) else array


def _stream(p: float, place: tuple[int, int], kind: Any) -> tuple[Any, ...]:
    """What draws words, an array of seed and offset, below which word a weight is dropped, and the factor of the others."""
    random = import_module("dynograd.kernels.random.random_cpu")
    if not p:
        return 0, _NOWHERE, numpy.uint64(0), kind.type(1)
    return (
        _kernels().address_of_words(),
        numpy.array(place, numpy.uint64),
        numpy.uint64(random.threshold_of(p)),
        kind.type(1 / (1 - p) if p < 1 else 0),
    )
