"""Cross-entropy and negative log-likelihood of class numbers, forward and backward, on CudaArrays.

Scores are (N, C), (C,) or (N, C, d1, ...); `target` holds class numbers and has the scores' shape without C. Rows whose target is
`ignore_index` count nothing. The mean divides by the sum of the targets' weights, which stays on the device; it is NaN when no row
counts. Half types are computed in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.kernels.elementwise.loops_cuda import triton_type
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.loss import losses_triton as device
from dynograd.kernels.reduce.reducing_cuda import computed, number, power_of_two, reduced, rows_at_once, with_kept
from dynograd.kernels.rows.folding_cuda import constant
from dynograd.kernels.rows.row_programs_cuda import run

_INT64 = numpy.dtype(numpy.int64)
_TILE = 4096  # scores that a program handles at a time: 8 for each thread of 16 warps
_ONE_PROGRAM = 1 << 15  # losses that one program adds as fast as two launches


def cross_entropy_forward(
    logits: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    with_gradient: bool = False,
) -> Any:
    """(loss, statistics, total weight, None) of -log softmax(logits)[target], smoothed and weighted as PyTorch does.

    loss: shape of `target` for reduction "none", else 0-d. statistics (rows, 2): each row's maximum and sum of
    exp(logits - maximum); they and the total weight (0-d) are for the backward kernel, which makes the gradient in one pass.
    """
    x, (outer, n, inner) = _scores(logits)
    rows, compute, index = outer * inner, computed(logits.dtype), logits.device_index
    losses, counts = (cuda_arrays.empty((rows,), compute, index) for _ in range(2))
    statistics = cuda_arrays.empty((rows, 2), compute, index)
    tile = _tile(outer, n, inner)
    device.cross_entropy(
        (tile["programs"],), x, _labels(target), losses if weight is None else contiguous(weight), losses, counts, statistics,
        outer, n, inner, tile["blocks"], ignore_index, number(label_smoothing, compute), WEIGHTED=weight is not None,
        SMOOTH=label_smoothing != 0, ACC=triton_type(compute), INNER=inner > 1, ROWS=tile["rows"], BLOCK=tile["block"],
        num_warps=_warps(tile),
    )  # fmt: skip
    loss, total = _finished(losses, counts, target.shape, reduction, logits.dtype, compute)
    return loss, statistics, total, None


def cross_entropy_backward(
    g: Any,
    logits: Any,
    target: Any,
    statistics: Any,
    total_weight: Any,
    weight: Any,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    gradient: Any = None,
) -> Any:
    """Gradient of the logits; `statistics` and `total_weight` as `cross_entropy_forward` returned them."""
    x, (outer, n, inner) = _scores(logits)
    compute = computed(logits.dtype)
    result = cuda_arrays.empty(logits.shape, logits.dtype, logits.device_index)
    tile = _tile(outer, n, inner)
    parts = -(-n // tile["block"]) if n else 1
    if weight is None:
        weights, whole = statistics, constant(n, 1, compute, logits.device_index)
    else:
        weights = contiguous(weight)
        whole = reduced("sum", weights, None, False, compute, compute) if label_smoothing else statistics
    device.cross_entropy_gradient(
        (tile["programs"] * parts,), contiguous(g), total_weight, x, _labels(target), weights, whole, statistics, result, outer, n,
        inner, tile["blocks"], ignore_index, parts, number(label_smoothing, compute), REDUCTION=reduction,
        WEIGHTED=weight is not None, SMOOTH=label_smoothing != 0, ACC=triton_type(compute), INNER=inner > 1, ROWS=tile["rows"],
        BLOCK=tile["block"], num_warps=_warps(tile),
    )  # fmt: skip
    return result


def distribution_entropy_forward(logits: Any, target: Any, weight: Any) -> Any:
    """(losses, maxima, sums) of -sum(target * weight * log softmax(logits)) over dim 1 (dim 0 of one example); float32."""
    x, (outer, n, inner) = _scores(logits)
    arrays = [x, _scores(target)[0], _weights(weight, logits, n)]
    result = run("distribution_entropy", arrays, inner, [None, None, None])
    shape = (outer, inner) if inner > 1 else (outer,)
    return tuple([array.reshape(shape) for array in result])


def distribution_entropy_backward(g: Any, logits: Any, target: Any, weight: Any, top: Any, total: Any) -> Any:
    """Gradient of the logits from those of the losses, which are flat or have the losses' shape."""
    x, (_, n, inner) = _scores(logits)
    arrays = [x, _scores(target)[0], contiguous(g), top, total, _weights(weight, logits, n)]
    return run("distribution_entropy_backward", arrays, inner, [logits.dtype])[0].reshape(logits.shape)


def nll_loss_forward(log_probabilities: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """(loss, total weight) of -log_probabilities[target] times the target's weight."""
    x, (outer, n, inner) = _scores(log_probabilities)
    rows, compute = outer * inner, computed(log_probabilities.dtype)
    losses, counts = (cuda_arrays.empty((rows,), compute, x.device_index) for _ in range(2))
    device.nll(
        (-(-rows // 256),), x, _labels(target), losses if weight is None else contiguous(weight), losses, counts, rows, n, inner,
        ignore_index, WEIGHTED=weight is not None, ACC=triton_type(compute), BLOCK=256,
    )  # fmt: skip
    return _finished(losses, counts, target.shape, reduction, log_probabilities.dtype, compute)


def nll_loss_backward(
    g: Any, log_probabilities: Any, target: Any, total_weight: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    """Gradient of the log-probabilities: minus the target's weight at the target, 0 elsewhere."""
    shape = log_probabilities.shape
    _, n, inner = _sizes(shape)
    compute = computed(log_probabilities.dtype)
    result = cuda_arrays.empty(shape, log_probabilities.dtype, log_probabilities.device_index)
    device.nll_gradient(
        (-(-result.size // 1024),), contiguous(g), total_weight, _labels(target), result if weight is None else contiguous(weight),
        result, result.size, n, inner, ignore_index, REDUCTION=reduction, WEIGHTED=weight is not None, ACC=triton_type(compute),
        BLOCK=1024,
    )  # fmt: skip
    return result


# --- shapes and types ----------------------------------------------------------------------------------------------------------


def _sizes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(outer, classes, inner) of scores."""
    return (1, shape[0], 1) if len(shape) == 1 else (shape[0], shape[1], prod(shape[2:]))


def _scores(scores: Any) -> tuple[Any, tuple[int, int, int]]:
    """Row-major scores as (outer, classes, inner), and these sizes."""
    sizes = _sizes(scores.shape)
    return contiguous(scores).reshape(sizes), sizes


def _labels(target: Any) -> Any:
    return contiguous(target if target.dtype == _INT64 else target.astype(_INT64))


def _weights(weight: Any, scores: Any, classes: int) -> Any:
    return constant(1, classes, computed(scores.dtype), scores.device_index) if weight is None else contiguous(weight)


def _tile(outer: int, n: int, inner: int) -> dict[str, int]:
    if inner == 1:
        block = min(power_of_two(n), _TILE)
        rows = rows_at_once(outer, _TILE // 4 // block)
        return {"rows": rows, "block": block, "blocks": 1, "programs": -(-outer // rows)}
    rows = min(power_of_two(inner), 128)
    blocks = -(-inner // rows)
    return {
        "rows": rows,
        "block": min(power_of_two(n), max(_TILE // 2 // rows, 1)),
        "blocks": blocks,
        "programs": outer * blocks,
    }


def _warps(tile: dict[str, int]) -> int:
    return 16 if tile["rows"] * tile["block"] > 2048 else 4


def _finished(losses: Any, counts: Any, shape: tuple[int, ...], reduction: str, kind: Any, compute: Any) -> Any:
    """(the reduced loss, the total weight) from losses and weights of rows."""
    index = losses.device_index
    if reduction == "none":
        return losses.reshape(shape).astype(kind, copy=False), constant(1, 1, compute, index).reshape(())
    if losses.size > _ONE_PROGRAM:
        parts = -(-losses.size // 4096)
        losses, counts = (_parts(loss, parts) for loss in (losses, counts))
    loss, total = cuda_arrays.empty((), kind, index), cuda_arrays.empty((), compute, index)
    device.finished(
        (1,), losses, counts, loss, total, losses.size, REDUCTION=reduction, ACC=triton_type(compute),
        BLOCK=max(16, min(power_of_two(losses.size), 1024)), num_warps=8,
    )  # fmt: skip
    return loss, total


def _parts(values: Any, parts: int) -> Any:
    """Sums of 4096 values each, the last of what is left."""
    whole = values.size // 4096 * 4096
    kind = values.dtype
    result = cuda_arrays.empty((parts,), kind, values.device_index)
    result[: whole // 4096] = reduced("sum", values[:whole].reshape((whole // 4096, 4096)), 1, False, kind, kind)
    if whole != values.size:
        result[whole // 4096 :] = with_kept(reduced("sum", values[whole:], None, False, kind, kind), (1,), None)
    return result
