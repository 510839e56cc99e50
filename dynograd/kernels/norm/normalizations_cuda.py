"""Layer, group and batch norm with their gradients, on CudaArrays: row programs, and small kernels between their passes.

Half types are computed in float32, and the statistics returned for them are float32.

What functions without a docstring take and give is said in `normalizations_cpu`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.elementwise.loops_cuda import triton_type
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.norm import normalizations_triton as device
from dynograd.kernels.reduce.reducing_cuda import computed, number, power_of_two, reduced
from dynograd.kernels.rows.folding_cuda import constant, rows_of, vector_of
from dynograd.kernels.rows.row_programs_cuda import run

# --- layer norm ----------------------------------------------------------------------------------------------------------------


def layer_norm_forward(x: Any, normalized_ndim: int, weight: Any, bias: Any, eps: float) -> Any:
    kept = (*x.shape[: x.ndim - normalized_ndim], *(1,) * normalized_ndim)
    rows = rows_of(x, normalized_ndim)
    y, mean, rstd = run("layer_norm", [rows, vector_of(weight, 1, rows), vector_of(bias, 0, rows), float(eps)])
    return y.reshape(x.shape), mean.reshape(kept), rstd.reshape(kept)


def layer_norm_backward(g: Any, x: Any, mean: Any, rstd: Any, weight: Any, normalized_ndim: int) -> Any:
    """Gradients (gx, gw, gb); gw and gb have the shape of the normalised dimensions, whether or not there is a weight."""
    rows, shape = rows_of(x, normalized_ndim), x.shape[x.ndim - normalized_ndim :]
    kind = x.dtype if weight is None else weight.dtype
    arrays = [rows_of(g, normalized_ndim), rows, mean, rstd, vector_of(weight, 1, rows)]
    gx, gw, gb = run("layer_norm_backward", arrays, kinds=[x.dtype, kind, kind])
    return gx.reshape(x.shape), gw.reshape(shape), gb.reshape(shape)


# --- group norm ----------------------------------------------------------------------------------------------------------------


def group_norm_forward(x: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
    """(y, mean, rstd): each group of channels of each example of x (N, C, *) normalised, times weight plus bias per channel."""
    rows, places = _channel_rows(x)
    examples, channels = x.shape[:2]
    width, compute = channels // groups, computed(x.dtype)
    means, squares = run("row_moments", [rows])
    mean, rstd = (cuda_arrays.empty((examples * groups,), compute, x.device_index) for _ in range(2))
    scale = cuda_arrays.empty((examples * channels,), compute, x.device_index)
    device.group_statistics(
        (examples * groups,), means, squares, means if weight is None else contiguous(weight), mean, rstd, scale, groups, width,
        places, number(eps, compute), WEIGHTED=weight is not None, ACC=triton_type(compute), BLOCK=min(power_of_two(width), 1024),
    )  # fmt: skip
    shift = constant(0, channels, compute, x.device_index) if bias is None else contiguous(bias)
    shift = shift.reshape((1, channels)).broadcast_to((examples, channels)).copy()
    y = run("row_normal", [rows, mean, scale, shift], period=width, places={"mean": "//"})[0]
    return y.reshape(x.shape), mean, rstd


def group_norm_backward(g: Any, x: Any, mean: Any, rstd: Any, weight: Any, groups: int) -> Any:
    """Gradients (gx, gw, gb); gw and gb are (C,), whether or not there is a weight."""
    rows, places = _channel_rows(x)
    outer, _ = _channel_rows(g)
    examples, channels = x.shape[:2]
    width, compute, index = channels // groups, computed(x.dtype), x.device_index
    totals, alongs = run("row_sums", [outer, rows, mean], period=width, places={"mean": "//"})
    gws, scale = (cuda_arrays.empty((examples * channels,), compute, index) for _ in range(2))
    shift, slope = (cuda_arrays.empty((examples * groups,), compute, index) for _ in range(2))
    device.group_coefficients(
        (examples * groups,), totals, alongs, totals if weight is None else contiguous(weight), rstd, gws, scale, shift, slope,
        groups, width, places, WEIGHTED=weight is not None, ACC=triton_type(compute), BLOCK=min(power_of_two(width), 1024),
    )  # fmt: skip
    shared = {"mean": "//", "shift": "//", "slope": "//"}
    gx = run("row_gradient", [outer, rows, mean, scale, shift, slope], kinds=[x.dtype], period=width, places=shared)[0]
    kind = x.dtype if weight is None else weight.dtype
    folded_shape = (examples, channels)
    gw, gb = (reduced("sum", operand.reshape(folded_shape), 0, False, kind, compute) for operand in (gws, totals))
    return gx.reshape(x.shape), gw, gb


# --- batch norm ----------------------------------------------------------------------------------------------------------------


def batch_norm_forward(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: Any, eps: float
) -> Any:
    channels, compute, index = x.shape[1], computed(x.dtype), x.device_index
    last = _channels_last(x)
    rows, places = (last, 1) if last is not None else _channel_rows(x)
    examples = rows.shape[0] if last is not None else x.shape[0]
    mean, rstd, variance, scale = (cuda_arrays.empty((channels,), compute, index) for _ in range(4))
    shift = constant(0, channels, compute, index) if bias is None else contiguous(bias)
    means = squares = mean
    if training and last is not None and x.size:
        count = examples
        means = _scaled(run("column_total", [last], kinds=[compute])[0], 1 / count)
        squares = run("column_squares", [last, means], kinds=[compute])[0]
        examples, places = 1, count
    elif training:
        means, squares = run("row_moments", [rows])
    operands = [means if operand is None else contiguous(operand) for operand in (weight, running_mean, running_var)]
    device.batch_statistics(
        (-(-channels // 32),), means, squares, *operands, mean, rstd, variance, scale, examples, channels, places,
        number(eps, compute), TRAINING=training, WEIGHTED=weight is not None, ACC=triton_type(compute),
        ROWS=min(power_of_two(examples), 32), BLOCK=32,
    )  # fmt: skip
    if last is not None:
        y = run("column_normal", [last, mean, scale, shift])[0]
    else:
        repeated = dict.fromkeys(("mean", "scale", "shift"), "%")
        y = run("row_normal", [rows, mean, scale, shift], period=channels, places=repeated)[0]
    return _as_given(y, x, last), mean, rstd, variance


def batch_norm_backward(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, training: bool) -> Any:
    """Gradients (gx, gw, gb) from the mean and rstd that the forward kernel returned."""
    channels, compute, index = x.shape[1], computed(x.dtype), x.device_index
    last = _channels_last(x)
    if last is not None:
        outer = contiguous(_moved(g)).reshape(last.shape)
        totals, alongs = run("column_sums", [outer, last, mean], kinds=[compute, compute])
        examples, places = 1, last.shape[0]
    else:
        (rows, places), (outer, _) = _channel_rows(x), _channel_rows(g)
        totals, alongs = run("row_sums", [outer, rows, mean], period=channels, places={"mean": "%"})
        examples = x.shape[0]
    kind = x.dtype if weight is None else weight.dtype
    gw, gb = (cuda_arrays.empty((channels,), kind, index) for _ in range(2))
    scale, shift, slope = (cuda_arrays.empty((channels,), compute, index) for _ in range(3))
    device.batch_coefficients(
        (-(-channels // 32),), totals, alongs, mean if weight is None else contiguous(weight), rstd, gw, gb, scale, shift, slope,
        examples, channels, places, TRAINING=training, WEIGHTED=weight is not None, ACC=triton_type(compute),
        ROWS=min(power_of_two(examples), 32), BLOCK=32,
    )  # fmt: skip
    if last is not None:
        gx = run("column_gradient", [outer, last, mean, scale, shift, slope], kinds=[x.dtype])[0]
    else:
        repeated = dict.fromkeys(("mean", "scale", "shift", "slope"), "%")
        arrays = [outer, rows, mean, scale, shift, slope]
        gx = run("row_gradient", arrays, kinds=[x.dtype], period=channels, places=repeated)[0]
    return _as_given(gx, x, last), gw, gb


def moved_statistics(running: Any, batch: Any, momentum: float) -> Any:
    """Running statistics a step closer to the batch's, in the dtype of the running ones."""
    return running * (1 - momentum) + batch.astype(running.dtype, copy=False) * momentum


def _channels_last(x: Any) -> Any:
    """(rows, C, 1) where the channels of x (N, C, *) lie beside each other in memory, else None."""
    if x.ndim == 2 or prod(x.shape[2:]) == 1:
        return contiguous(x).reshape((x.shape[0], x.shape[1], 1))
    if x.is_contiguous:
        return None
    moved = _moved(x)
    return moved.reshape((x.size // max(x.shape[1], 1), x.shape[1], 1)) if moved.is_contiguous else None


def _moved(x: Any) -> Any:
    """x with its channels as the last dim."""
    return x.transpose((0, *range(2, x.ndim), 1))


def _as_given(y: Any, x: Any, last: Any) -> Any:
    """A result in the shape and memory order of x."""
    if last is not None and x.ndim > 2 and prod(x.shape[2:]) != 1:
        return y.reshape((x.shape[0], *x.shape[2:], x.shape[1])).transpose((0, x.ndim - 1, *range(1, x.ndim - 1)))
    return y.reshape(x.shape)


def _scaled(values: Any, factor: float) -> Any:
    return operations.elementwise("mul", values, factor)


# --- shapes --------------------------------------------------------------------------------------------------------------------


def _channel_rows(x: Any) -> tuple[Any, int]:
    """(row-major rows (N * C, places, 1), places)."""
    places = prod(x.shape[2:])
    return contiguous(x).reshape((x.shape[0] * x.shape[1], places, 1)), places
