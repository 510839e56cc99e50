"""Attention in tiles on the GPU, twin of `attentions_cpu`: nothing of the size of all scores is kept.

Forward keeps the logarithm of each row's sum of exp(scores); backward is two kernels, one for the queries and one for keys and values.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy

from dynograd.arrays.cuda_arrays import (
    CudaArray,
    contiguous_strides,
    empty,
    from_numpy,
    layout_of,
    of_layout,
    operations,
)
from dynograd.cuda import driver
from dynograd.kernels.attention import attentions_triton as device
from dynograd.kernels.build import precision

_KINDS = ("float32", "float16", "bfloat16")
_WIDEST = 256  # features of a head: wider tiles have no room in shared memory
_MOST_PLANS = 20000  # kept at a time: shapes that never come again would fill the memory
_plans: dict[Any, Any] = {}
_float32 = numpy.dtype(numpy.float32)


class Blocks(NamedTuple):
    """Queries and keys of a tile, warps, stages of the pipeline."""

    queries: int
    keys: int
    warps: int
    stages: int


# By the widest head a row serves: what fits into the registers of an H100 or H200 without spilling; for half types on other cards,
# "elsewhere". On an H200 forward and backward take 1.1 to 1.7 times as long as PyTorch's.
_FORWARD = {
    "half": {64: Blocks(128, 64, 8, 3), 128: Blocks(128, 64, 8, 3), 256: Blocks(128, 32, 8, 2)},
    "elsewhere": {64: Blocks(128, 64, 8, 3), 128: Blocks(128, 64, 8, 2), 256: Blocks(64, 32, 8, 2)},
    "tf32": {64: Blocks(64, 32, 4, 2), 128: Blocks(32, 32, 8, 1), 256: Blocks(32, 16, 8, 1)},
    "single": {64: Blocks(64, 32, 8, 2), 128: Blocks(32, 16, 8, 2), 256: Blocks(16, 16, 8, 1)},
    "dropout": {64: Blocks(64, 64, 8, 2), 128: Blocks(64, 64, 8, 2), 256: Blocks(64, 32, 8, 2)},
}
_TO_QUERIES = {
    "half": {64: Blocks(128, 64, 8, 3), 128: Blocks(128, 64, 8, 2), 256: Blocks(128, 32, 8, 2)},
    "elsewhere": {64: Blocks(128, 64, 8, 3), 128: Blocks(128, 64, 8, 2), 256: Blocks(64, 32, 8, 2)},
    "tf32": {64: Blocks(32, 32, 4, 2), 128: Blocks(32, 32, 8, 1), 256: Blocks(16, 16, 8, 1)},
    "single": {64: Blocks(32, 32, 4, 2), 128: Blocks(32, 16, 8, 1), 256: Blocks(16, 16, 8, 1)},
    "dropout": {64: Blocks(64, 64, 8, 2), 128: Blocks(64, 64, 8, 2), 256: Blocks(64, 32, 8, 2)},
}
_TO_KEYS = {
    "half": {64: Blocks(64, 128, 8, 2), 128: Blocks(32, 128, 8, 2), 256: Blocks(32, 32, 8, 2)},
    "elsewhere": {64: Blocks(32, 128, 8, 2), 128: Blocks(32, 64, 8, 2), 256: Blocks(32, 32, 8, 2)},
    "tf32": {64: Blocks(32, 32, 8, 2), 128: Blocks(32, 32, 8, 1), 256: Blocks(16, 16, 8, 1)},
    "single": {64: Blocks(32, 32, 8, 2), 128: Blocks(32, 16, 8, 1), 256: Blocks(16, 16, 8, 1)},
    "dropout": {64: Blocks(32, 64, 8, 2), 128: Blocks(32, 64, 8, 2), 256: Blocks(16, 32, 8, 2)},
}


def attends_in_tiles(query: Any, key: Any, value: Any) -> bool:
    """Whether the kernels here take these arrays."""
    if query.dtype.name not in _KINDS or not 2 <= query.ndim == key.ndim == value.ndim <= 4:
        return False
    lead, heads = query.shape[:-3], query.shape[-3] if query.ndim > 2 else 1
    shared = key.shape[-3] if query.ndim > 2 else 1
    if key.shape[:-3] != lead or value.shape[:-2] != key.shape[:-2] or not shared or heads % shared:
        return False
    sizes = (*query.shape, key.shape[-2], value.shape[-1])
    return 0 not in sizes and max(query.shape[-1], value.shape[-1]) <= _WIDEST


def attends_ragged(query: Any, values: int, window: tuple[int, int], ends: bool) -> bool:
    """Whether the kernels here take sequences behind one another of this dtype, these widths and this window."""
    if query.dtype.name not in _KINDS or max(query.shape[-1], values) > _WIDEST:
        return False
    return window == (-1, -1) or (window == (-1, 0) and not ends)


def attention_forward(
    query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, p: float, place: tuple[int, int]
) -> tuple[Any, Any]:
    """The result, laid out in memory like `query`, and the logarithm of each row's sum of exp(scores), (B, H, L), in float32.

    Args:
        mask: bool, True where a query may look, or numbers to add; broadcast.
        p, place: weights are dropped as `random_cpu.dropout_mask` says for their shape and this (seed, offset).
    """
    q, k, v = (_in_rows(_with_four_dims(operand)) for operand in (query, key, value))
    mask = _readable(mask, k.shape[2])
    plan = _planned(_forward_plan, mask, causal, p, q, k, v)
    out, logarithms = (of_layout(shape_and_dtype) for shape_and_dtype in plan.outputs)
    plan.launches[0](
        q, k, v, out, logarithms, q if mask is None else mask, float(scale), numbers=(q, q, q, *_stream(p, place))
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
    g, q, k, v, out = (_in_rows(_with_four_dims(operand)) for operand in (g, query, key, value, out))
    mask = _readable(mask, k.shape[2])
    plan = _planned(_backward_plan, mask, causal, p, q, k, v, g, out)
    g_q, g_k, g_v, delta = (of_layout(shape_and_dtype) for shape_and_dtype in plan.outputs)
    to_rows, to_keys, to_queries = plan.launches
    to_rows(g, out, delta)
    operands = (q, k, v, g, logarithms, delta, q if mask is None else mask)
    numbers = (q, q, q, *_stream(p, place))
    to_keys(*operands, g_k, g_v, float(scale), numbers=numbers)
    to_queries(*operands, g_q, float(scale), numbers=numbers)
    return g_q.reshape(query.shape), g_k.reshape(key.shape), g_v.reshape(value.shape)


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
    """The result (Tq, H, V), laid out in memory like `query`, and the logarithm of each row's sum of exp(scores), (H, Tq).

    `longest`: sequence of queries and of keys. The other arguments as in `attentions_cpu`.
    """
    q, k, v = (_heads_first(operand) for operand in (query, key, value))
    on = q.device_index
    out, logarithms = of_layout(_laid_out_like(q, v.shape[-1]).layout), empty(q.shape[1:3], _float32, on)
    launch, firsts = _ragged(_FORWARD, offsets_q, offsets_k, mask, window, p, longest, q, k, v, (q, k, v, out))
    if q.size and longest[0]:
        launch(
            device.attention, 0, (q, k, v, out, logarithms), (), float(scale), (q, k, v, out), (*firsts, *_stream(p, place))
        )  # fmt: skip
    return out[0].transpose(1, 0, 2), logarithms


def logarithms_by_head(logarithms: Any, offsets_q: Any, heads: int) -> Any:
    """(H, Tq), as they are."""
    return logarithms


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
    g, q, k, v, out = (_heads_first(operand) for operand in (g, query, key, value, out))
    g_q, g_k, g_v = (of_layout(_laid_out_like(operand, operand.shape[-1]).layout) for operand in (q, k, v))
    heads, tokens = q.shape[1:3]
    delta = empty((heads, tokens), _float32, q.device_index)
    width = _power(v.shape[3])
    high = max(1, 4096 // width)
    if tokens:
        device.row_products(
            (heads, -(-tokens // high)), g, out, delta, heads, tokens, v.shape[3], *_steps(g, out), BM=high, BV=width, num_warps=4
        )  # fmt: skip
    numbers = _stream(p, place)
    operands = (q, k, v, g, logarithms, delta)
    for table, kernel, which, result in (
        (_TO_KEYS, device.attention_to_keys, 1, (g_k, g_v)),
        (_TO_QUERIES, device.attention_to_queries, 0, (g_q,)),
    ):
        stepped = (q, k, v, g, *result)
        launch, firsts = _ragged(table, offsets_q, offsets_k, mask, window, p, longest, q, k, v, stepped)
        if result[0].size and longest[which]:
            launch(kernel, which, operands, result, float(scale), stepped, (*firsts, *numbers))
    return tuple([operand[0].transpose(1, 0, 2) for operand in (g_q, g_k, g_v)])  # type: ignore[return-value]


def _heads_first(array: Any) -> Any:
    """(tokens, H, E) as (1, H, tokens, E)."""
    return _in_rows(array.transpose(1, 0, 2)[None])


def _ragged(
    table: Any, offsets_q: Any, offsets_k: Any, mask: Any, window: Any, p: float, longest: Any, q: Any, k: Any, v: Any, stepped: Any
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    """How to launch a kernel over sequences behind one another, and where they and their weights begin."""
    kind = 0 if mask is None else 3 if mask.dtype.kind == "b" else 4
    blocks, constants = _blocks(table, q, k, v, [kind, 1], window[1] == 0, p, stepped)
    constants |= {"QUADS": False, "VARLEN": True}
    firsts = [_int64(offsets_q), _int64(offsets_k)]
    firsts.append(_weights_before(*firsts) if p else firsts[0])
    batch = offsets_q.shape[0] - 1
    seen = q if mask is None else (mask if mask.is_contiguous else mask.copy())
    seen = seen.view(numpy.uint8) if kind == 3 else seen

    def launch(kernel: Any, of_keys: int, operands: Any, result: Any, scale: float, arrays: Any, numbers: Any) -> None:
        many, high = (k.shape[1], blocks.keys) if of_keys else (q.shape[1], blocks.queries)
        steps = [step for array in arrays for step in (0, *_steps(array)[1:])]
        grid = (batch * many, -(-longest[of_keys] // high))
        kernel(grid, *operands, seen, *result, scale, *_sizes(q, k, v), *steps, 0, 0, 0, *numbers, **constants)

    return launch, tuple(firsts)


def _int64(offsets: Any) -> Any:
    offsets = offsets if offsets.is_contiguous else offsets.copy()
    return offsets if offsets.dtype == numpy.int64 else offsets.astype(numpy.dtype(numpy.int64))


def _weights_before(offsets_q: Any, offsets_k: Any) -> Any:
    """(B,) how many weights of one head the sequences before have. Waits for the device; drawing weights is rare."""
    pairs = numpy.diff(offsets_q.numpy()) * numpy.diff(offsets_k.numpy())
    return from_numpy(numpy.cumsum(pairs) - pairs, offsets_q.device_index)


# --- plans: what is decided once for all arrays of the same layouts -------------------------------------------------------------


class Plan(NamedTuple):
    """The layouts of the outputs, and the launches, each with its own numbers bound."""

    outputs: tuple[Any, ...]
    launches: tuple[Any, ...]


def _planned(make: Any, mask: Any, causal: bool, p: float, *arrays: Any) -> Plan:
    bits = 0
    for array in arrays:
        bits |= array.pointer
    layouts = tuple([array.layout for array in arrays])
    key = (
        make, *layouts, None if mask is None else mask.layout, bool(causal), p > 0, bits % 16 == 0, precision.allows_tf32("matmul")
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = make(mask, bool(causal), p, *arrays)
    return plan


def _launch(kernel: Any, grid: tuple[int, ...], fixed: tuple[int, ...], constants: dict[str, Any]) -> Any:
    """A function of arrays and of the numbers that come last."""
    return lambda *operands, numbers=(): kernel(grid, *operands, *fixed, *numbers, **constants)


def _forward_plan(mask: Any, causal: bool, p: float, q: Any, k: Any, v: Any) -> Plan:
    out = _laid_out_like(q, v.shape[-1])
    mask_steps, *kind = _mask(mask, q, k)
    blocks, constants = _blocks(_FORWARD, q, k, v, kind, causal, p, (q, k, v, out))
    fixed = (*_sizes(q, k, v), *_steps(q, k, v, out), *mask_steps)
    grid = (q.shape[0] * q.shape[1], -(-q.shape[2] // blocks.queries))
    return Plan((out.layout, _of_rows(q)), (_launch(device.attention, grid, fixed, constants),))


def _backward_plan(mask: Any, causal: bool, p: float, q: Any, k: Any, v: Any, g: Any, out: Any) -> Plan:
    g_q, g_k, g_v = (_laid_out_like(operand, operand.shape[-1]) for operand in (q, k, v))
    batch, heads, rows = q.shape[:3]
    width = _power(v.shape[3])
    high = max(1, 4096 // width)
    fixed: tuple[int, ...] = (heads, rows, v.shape[3], *_steps(g, out))
    constants: dict[str, Any] = {"BM": high, "BV": width, "num_warps": 4}
    launches = [_launch(device.row_products, (batch * heads, -(-rows // high)), fixed, constants)]
    mask_steps, *kind = _mask(mask, q, k)
    blocks, constants = _blocks(_TO_KEYS, q, k, v, kind, causal, p, (q, k, v, g, g_k, g_v))
    fixed = (*_sizes(q, k, v), *_steps(q, k, v, g, g_k, g_v), *mask_steps)
    grid = (batch * k.shape[1], -(-k.shape[2] // blocks.keys))
    launches.append(_launch(device.attention_to_keys, grid, fixed, constants))
    blocks, constants = _blocks(_TO_QUERIES, q, k, v, kind, causal, p, (q, k, v, g, g_q))
    fixed = (*_sizes(q, k, v), *_steps(q, k, v, g, g_q), *mask_steps)
    launches.append(_launch(device.attention_to_queries, (batch * heads, -(-rows // blocks.queries)), fixed, constants))
    return Plan((g_q.layout, g_k.layout, g_v.layout, _of_rows(q)), tuple(launches))


def _of_rows(q: Any) -> Any:
    """The layout of a float32 for each query."""
    shape = q.shape[:3]
    return layout_of(shape, contiguous_strides(shape, 4), _float32, q.device_index)


def _blocks(
    table: Any, q: Any, k: Any, v: Any, mask: list[int], causal: bool, p: float, stepped: tuple[Any, ...]
) -> tuple[Blocks, dict[str, Any]]:
    """The tiles, and the constants of a kernel that steps through the arrays of `stepped`."""
    width, values = _power(q.shape[3]), _power(v.shape[3])
    half = q.dtype.itemsize == 2
    tf32 = not half and precision.allows_tf32("matmul")
    kind = "tf32" if tf32 else "single"
    if half:
        ours = driver.get("attention").capability(q.device_index)[0] == 9
        kind = "dropout" if p else "half" if ours else "elsewhere"
        if mask[0] in (1, 2) and (kind == "elsewhere" or (table is _TO_KEYS and kind == "half")):
            kind = "dropout" if kind == "elsewhere" else "elsewhere"  # a tile of the mask takes registers too
    blocks = table[kind][max(64, width, values)]
    unit = 16 // q.dtype.itemsize
    for block in stepped:
        if block.pointer % 16 or any([step % 16 for step in block.strides[:3]]):
            unit = 1
    constants: dict[str, Any] = {
        "BM": blocks.queries, "BN": blocks.keys, "BE": width, "BV": values, "UNIT": unit, "MASK": mask[0], "MASK_UNIT": mask[1],
        "CAUSAL": bool(causal),
        "FULL": width == q.shape[3] and values == v.shape[3], "DROPOUT": p > 0, "QUADS": k.shape[2] % 4 == 0,
        "PRECISION": "tf32" if tf32 else "ieee", "num_warps": blocks.warps, "num_stages": blocks.stages, "VARLEN": False,
    }  # fmt: skip
    return blocks, constants


def _power(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())


def _sizes(q: Any, k: Any, v: Any) -> tuple[int, ...]:
    heads, rows, features = q.shape[1:]
    return heads, heads // k.shape[1], rows, k.shape[2], features, v.shape[3]


def _steps(*arrays: CudaArray) -> list[int]:
    """Strides of batches, heads and rows in elements."""
    return [step // array.itemsize for array in arrays for step in array.strides[:3]]


def _readable(mask: Any, keys: int) -> Any:
    """The mask, or a copy, with four dims, so that the kernels can read 16 bytes of a row at a time; truths as bytes."""
    if mask is None:
        return None
    mask = _with_four_dims(mask.view(numpy.uint8) if mask.dtype.kind == "b" else mask)
    size = mask.itemsize
    wide = mask.shape[3] == keys and (mask.strides[3] == size or keys == 1)
    if wide and not (
        mask.pointer % 16 or keys * size % 16 or any([step < 0 or step % 16 for step in mask.strides[:3]])
    ):
        return mask
    room = empty((*mask.shape[:3], -(-keys * size // 16) * 16 // size), mask.dtype, mask.device_index)[..., :keys]
    operations.copy_into(room, mask)
    return room


def _mask(mask: Any, q: Any, k: Any) -> tuple[tuple[int, ...], int, int]:
    """The mask's first three strides in elements, which kind it is, and elements of 16 bytes."""
    if mask is None:
        return (0, 0, 0), 0, 1
    wide = mask.broadcast_to((*q.shape[:3], k.shape[2]))
    steps = tuple([step // mask.itemsize for step in wide.strides[:3]])
    kind = 1 if mask.dtype == numpy.uint8 else 2
    return steps, kind if steps[2] else kind + 2, 16 // mask.itemsize


def _stream(p: float, place: tuple[int, int]) -> tuple[int, int, int, float]:
    """Seed and offset, below which word a weight is dropped, and the factor of the others."""
    if not p:
        return 0, 0, 0, 1.0
    threshold = min(int(import_module("dynograd.kernels.random.random_cpu").threshold_of(p)), (1 << 32) - 1)
    seed, offset = (number - (1 << 64) if number >> 63 else number for number in place)
    return seed, offset, threshold, 1 / (1 - p) if p < 1 else 0.0


def _with_four_dims(array: Any) -> Any:
    return array if array.ndim == 4 else array[(None,) * (4 - array.ndim)]


def _in_rows(array: CudaArray) -> CudaArray:
    """The array, or a copy, so that its last dim lies in one piece and steps are whole elements."""
    size = array.itemsize
    if (array.strides[3] != size and array.shape[3] > 1) or any(
        [step < 0 or step % size for step in array.strides[:3]]
    ):
        return array.copy()
    return array


def _laid_out_like(array: CudaArray, width: int) -> CudaArray:
    """A new array (B, H, T, width) whose dims follow each other in memory as those of `array` do."""
    order = sorted((0, 1, 2), key=lambda dim: -array.strides[dim])
    result = empty((*[array.shape[dim] for dim in order], width), array.dtype, array.device_index)
    return result.transpose(*[order.index(dim) for dim in (0, 1, 2)], 3)
