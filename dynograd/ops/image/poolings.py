"""Maxima, means and p-norms over windows, given or adaptive, and the inverse of taking maxima.

Maxima are one fused op; its `decomposition` finds the places of the maxima and gathers there, which gives gradients of every
order. Means are linear: `average` and `average_back` are each other's transpose. The public functions are in `windows.py`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.index.scatters import gathered
from dynograd.ops.layout.conversions import image_like
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, op
from dynograd.ops.row import Row

FAMILY = Row(out=None, ragged="groups")


# --- maxima ------------------------------------------------------------------------------------------------------------------


@op(name="max_pool", outputs="values indices", extras="places", inner=True)
def largest(input: Array, window: tuple) -> Array:
    """The largest value of each window over the last dims, and its place among them.

    `window` is (kernel, stride, padding, dilation, ceil_mode).
    """
    values, indices = kernel("poolings", "max_pool_forward", input)(input, *window)
    return (image_like(values, input), image_like(indices, input)), indices


@largest.fast_backward
def largest_fast_backward(g: Any, saved: Any, window: Any) -> Gradients:
    shape = saved.input.shape
    return (kernel("poolings", "max_pool_backward", g[0])(g[0], saved.places, shape, len(window[0])),)


@largest.decomposition
def largest_decomposition(input: Any, window: Any) -> tuple[Array, Array]:
    indices = largest_places(input, window)
    return picked(input, indices, len(window[0])), indices


@op(name="max_pool_values", extras="places", inner=True, bound=True)
def largest_values(input: Array, window: tuple) -> Array:
    """The largest value of each window over the last dims."""
    values, places = kernel("poolings", "max_pool_places", input)(input, *window)
    return image_like(values, input), places


@largest_values.fast_backward
def largest_values_fast_backward(g: Any, saved: Any, window: Any) -> Gradients:
    shape = saved.input.shape
    return (kernel("poolings", "max_pool_backward", g)(g, saved.places, shape, len(window[0])),)


@largest_values.decomposition
def largest_values_decomposition(input: Any, window: Any) -> Array:
    return picked(input, largest_places(input, window), len(window[0]))


@op(name="max_pool_places", differentiable=False, inner=True)
def largest_places(input: Array, window: tuple) -> Array:
    """Where the largest value of each window stands among the last dims."""
    return kernel("poolings", "max_pool_forward", input)(input, *window)[1]


@op(name="adaptive_max_pool", outputs="values indices", extras="places", inner=True, bound=True)
def adaptive_largest(input: Array, sizes: tuple[int, ...]) -> Array:
    """The largest value of each of `sizes` windows over the last dims, and its place among them."""
    values, indices = kernel("poolings", "adaptive_max_pool_forward", input)(input, sizes)
    result = (image_like(values, input), image_like(indices, input)) if len(sizes) == 2 else (values, indices)
    return result, indices


@adaptive_largest.fast_backward
def adaptive_largest_fast_backward(g: Any, saved: Any, sizes: Any) -> Gradients:
    shape = saved.input.shape
    return (kernel("poolings", "max_pool_backward", g[0])(g[0], saved.places, shape, len(sizes)),)


@adaptive_largest.decomposition
def adaptive_largest_decomposition(input: Any, sizes: Any) -> tuple[Array, Array]:
    indices = adaptive_places(input, sizes)
    return picked(input, indices, len(sizes)), indices


@op(name="adaptive_max_pool_places", differentiable=False, inner=True)
def adaptive_places(input: Array, sizes: tuple[int, ...]) -> Array:
    """Where the largest value of each of `sizes` windows stands among the last dims."""
    return kernel("poolings", "adaptive_max_pool_forward", input)(input, sizes)[1]


def picked(input: Any, indices: Any, rank: int) -> Array:
    """The elements of `input` at `indices` into its last `rank` dims."""
    lead = tuple(input.shape[: len(input.shape) - rank])
    flat = reshaped(input, (*lead, prod(input.shape[len(lead) :])))
    places = reshaped(indices, (*lead, prod(indices.shape[len(lead) :])))
    return reshaped(gathered(flat, len(lead), places), tuple(indices.shape))


@op(name="max_unpool", linear=True, saves="indices", inner=True)
def placed(input: Array, indices: Array, sizes: tuple[int, ...]) -> Array:
    """Zeros over last dims of `sizes` that hold `input` at `indices`; of several values for a place one stays."""
    result = kernel("poolings", "max_unpool_forward", input)(input, indices, sizes)
    return image_like(result, input) if len(sizes) == 2 else result


@placed.backward
def placed_backward(g: Any, saved: Any, sizes: Any) -> Gradients:
    return (picked(g, saved.indices, len(sizes)), None)


# --- means -------------------------------------------------------------------------------------------------------------------


@op(name="avg_pool", linear=True, saves="input.shape", inner=True)
def average(input: Array, window: tuple) -> Array:
    """The mean of each window over the last dims.

    `window` is (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override).
    """
    result = kernel("poolings", "avg_pool_forward", input)(input, *window)
    return image_like(result, input) if len(window[0]) == 2 else result


@average.backward
def average_backward(g: Any, saved: Any, window: Any) -> Gradients:
    return (average_back(g, saved.input_shape, window),)


@op(name="avg_pool_backward", linear=True, inner=True)
def average_back(g: Array, shape: tuple[int, ...], window: tuple) -> Array:
    """The transpose of `average`: each window's share handed to all its places."""
    return kernel("poolings", "avg_pool_backward", g)(g, shape, *window)


@average_back.backward
def average_back_backward(g: Any, saved: Any, shape: Any, window: Any) -> Gradients:
    return (average(g, window),)


@op(name="adaptive_avg_pool", linear=True, saves="input.shape", inner=True)
def adaptive_average(input: Array, sizes: tuple[int, ...]) -> Array:
    """The mean of each of `sizes` windows over the last dims."""
    result = kernel("poolings", "adaptive_avg_pool_forward", input)(input, sizes)
    return image_like(result, input) if len(sizes) == 2 else result


@adaptive_average.backward
def adaptive_average_backward(g: Any, saved: Any, sizes: Any) -> Gradients:
    return (adaptive_average_back(g, saved.input_shape, sizes),)


@op(name="adaptive_avg_pool_backward", linear=True, inner=True)
def adaptive_average_back(g: Array, shape: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """The transpose of `adaptive_average`."""
    expected = (*shape[: len(shape) - len(sizes)], *sizes)
    if tuple(g.shape) != expected:
        raise ShapeError(
            f"adaptive_avg_pool_backward: expected g of shape {expected}, got {tuple(g.shape)}. Pass the gradient of its output."
        )
    return kernel("poolings", "adaptive_avg_pool_backward", g)(g, shape, sizes)


@adaptive_average_back.backward
def adaptive_average_back_backward(g: Any, saved: Any, shape: Any, sizes: Any) -> Gradients:
    return (adaptive_average(g, sizes),)
