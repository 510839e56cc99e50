"""Scaled dot product attention in tiles, forward and backward, for (B, H, T, features) with any strides; see `attentions_numba`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels import threads

__all__ = ["attention_backward", "attention_forward", "attends_in_tiles"]

# Below so many multiplications a head is computed by other ops: nobody waits for Numba on a toy.
_LEAST = 1 << 14
_PER_OPERATION = 6  # a fused multiplication in a tile takes about a sixth of a simple elementwise operation
_FLOATS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))
_loops: list[Any] = []


def attends_in_tiles(query: Any, key: Any, value: Any) -> bool:
    """Whether the kernels here take these arrays. What a head is decides, not how many there are, so that batches do not matter."""
    if query.dtype not in _FLOATS or not 2 <= query.ndim == key.ndim == value.ndim <= 4:
        return False
    lead, heads = query.shape[:-3], query.shape[-3] if query.ndim > 2 else 1
    shared = key.shape[-3] if query.ndim > 2 else 1
    if key.shape[:-3] != lead or value.shape[:-2] != key.shape[:-2] or not shared or heads % shared:
        return False
    return query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1]) >= _LEAST and 0 not in lead


def attention_forward(
    query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, p: float, place: tuple[int, int]
) -> tuple[Any, Any]:
    """The result, laid out in memory like `query`, and the logarithm of each row's sum of exp(scores), (B, H, L).

    Args:
        mask: bool, True where a query may look, or numbers to add; broadcast.
        p, place: weights are dropped as `random_cpu.dropout_mask` says for their shape and this (seed, offset).
    """
    q, k, v = (_in_rows(_with_four_dims(one)) for one in (query, key, value))
    out = _laid_out_like(q, v.shape[-1])
    logarithms = numpy.empty(q.shape[:3], q.dtype)
    parts = threads.parts(
        q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * (q.shape[3] + v.shape[3]) // _PER_OPERATION
    )
    heads = q.shape[0] * q.shape[1]
    splits = 1 if heads % parts == 0 or heads >= 8 * parts else parts
    mask, sizes = _sizes(q, k, v, out, mask, causal, splits)
    loops = _kernels()
    handle = loops.handle
    loops.forward[q.dtype](
        loops.functions[q.dtype](), numpy.array(sizes), q.dtype.type(scale), handle(q), handle(k), handle(v), handle(out), handle(logarithms),
        0 if mask is None else handle(mask), *_stream(p, place, q.dtype), count=heads * splits, work=0, parts=parts,
    )  # fmt: skip
    return out.reshape(*query.shape[:-1], v.shape[-1]), logarithms


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
    g, q, k, v, out = (_in_rows(_with_four_dims(one)) for one in (g, query, key, value, out))
    found = [_laid_out_like(one, one.shape[-1]) for one in (q, k, v)]
    mask, sizes = _sizes(q, k, v, out, mask, causal, 1)
    size = q.itemsize
    for one in (g, *found):
        sizes += [step // size for step in one.strides[:3]]
    work = 5 * q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * q.shape[3] // _PER_OPERATION
    loops = _kernels()
    handle = loops.handle
    loops.backward[q.dtype](
        loops.functions[q.dtype](), numpy.array(sizes), q.dtype.type(scale), handle(g), handle(q), handle(k), handle(v), handle(out), handle(logarithms),
        0 if mask is None else handle(mask), *_stream(p, place, q.dtype), *map(handle, found),
        count=k.shape[0] * k.shape[1], work=0, parts=threads.parts(work),
    )  # fmt: skip
    g_q, g_k, g_v = found
    return g_q.reshape(query.shape), g_k.reshape(key.shape), g_v.reshape(value.shape)


def _kernels() -> Any:
    if not _loops:
        _loops.append(import_module("dynograd.kernels.attentions_numba"))
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
    made = buffers.empty((*[array.shape[dim] for dim in order], width), array.dtype)
    return made.transpose(*[order.index(dim) for dim in (0, 1, 2)], 3)


def _sizes(q: Any, k: Any, v: Any, out: Any, mask: Any, causal: bool, splits: int) -> tuple[Any, list[int]]:
    heads, rows, features = q.shape[1:]
    keys = k.shape[2]
    sizes = [heads, heads // k.shape[1], rows, keys, features, v.shape[3], int(causal), 0, splits]
    for one in (q, k, v, out):
        sizes += [step // one.itemsize for step in one.strides[:3]]
    if mask is None:
        return None, sizes + [0] * 4
    mask = numpy.broadcast_to(mask, (*q.shape[:3], keys))
    size = mask.itemsize
    if any([step < 0 or step % size for step in mask.strides]):
        mask = numpy.ascontiguousarray(mask)
    sizes[7] = 1 if mask.dtype.kind == "b" else 2
    return mask, sizes + list(mask.strides)


def _stream(p: float, place: tuple[int, int], kind: Any) -> tuple[Any, ...]:
    """Seed and offset, below which word a weight is dropped, and the factor of the others."""
    random = import_module("dynograd.kernels.random_cpu")
    unsigned = numpy.uint64
    if not p:
        return unsigned(0), unsigned(0), unsigned(0), kind.type(1)
    return (
        unsigned(place[0]),
        unsigned(place[1]),
        unsigned(random.threshold_of(p)),
        kind.type(1 / (1 - p) if p < 1 else 0),
    )
