"""Sliding windows of images as columns, and back: `im2col` (PyTorch's `nn.functional.unfold`) and `fold`, each other's transpose."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.conv.spatial_sizes import per_dim
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["fold", "im2col"]

FAMILY = Row(out=None, ragged="groups")


@op(name="columns_of_patches", linear=True, saves="input.shape", inner=True)
def columns_of(input: Array, window: tuple) -> Array:
    """(N, C, H, W) to (N, C * kernel places, windows); `window` is (kernel, dilation, padding, stride)."""
    return kernel("patches", "columns_of_patches", input)(input, *window)


@columns_of.backward
def columns_of_backward(g: Any, saved: Any, window: Any) -> Gradients:
    return (patches_of(g, tuple(saved.input_shape[2:]), window),)


@op(name="patches_of_columns", linear=True, inner=True)
def patches_of(input: Array, sizes: tuple[int, ...], window: tuple) -> Array:
    """The transpose of `columns_of`: columns added into images of `sizes`."""
    return kernel("patches", "patches_of_columns", input)(input, sizes, *window)


@patches_of.backward
def patches_of_backward(g: Any, saved: Any, sizes: Any, window: Any) -> Gradients:
    return (columns_of(g, window),)


@composed()
def im2col(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    """The windows of a batch of images as columns; `nn.functional.unfold`.

    Args:
        input (N, C, H, W) or (C, H, W): images.
        kernel_size, dilation, padding, stride: an int, or one for each of H and W.
    Returns:
        (N, C * kernel places, windows), windows row by row.
    Raises:
        ShapeError: no window fits.

    >>> dynograd.nn.functional.unfold(dynograd.arange(4.0).reshape(1, 1, 2, 2), (1, 2))
    tensor([[[0., 2.],
             [1., 3.]]])
    """
    shape = tuple(input.shape)
    if len(shape) not in (3, 4):
        raise ShapeError(
            f"unfold: Expected 3D or 4D (batch mode) tensor (N, C, H, W), but got input of size: {list(shape)}."
        )
    window = _window("unfold", kernel_size, dilation, padding, stride)
    counts = _counts(shape[-2:], window)
    if min(counts) < 1:
        raise ShapeError(
            f"unfold: Given input with spatial size {shape[-2:]}, kernel_size={window[0]}, dilation={window[1]}, padding={window[2]}, "
            f"calculated shape of the array of sliding blocks as {counts}, but its components must be at least one. Use padding."
        )
    if len(shape) == 3:
        out = columns_of(reshaped(input, (1, *shape)), window)
        return reshaped(out, tuple(out.shape[1:]))
    return columns_of(input, window)


@composed(functional=True)
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    """Columns added back into the images whose windows they are; where windows overlap, values add up.

    Args:
        input (N, C * kernel places, windows) or (C * kernel places, windows): what `unfold` gives.
        output_size: (H, W) of the images.
        kernel_size, dilation, padding, stride: as `unfold` had them.
    Returns:
        (N, C, H, W) or (C, H, W).
    Raises:
        ShapeError: columns that do not belong to such images.

    >>> dynograd.nn.functional.fold(tensor([[[0.0, 2.0], [1.0, 3.0]]]), (2, 2), (1, 2))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    shape = tuple(input.shape)
    if len(shape) not in (2, 3):
        raise ShapeError(
            f"fold: Expected 2D or 3D (batch mode) tensor for input, but got input of size: {list(shape)}."
        )
    window = _window("fold", kernel_size, dilation, padding, stride)
    sizes = per_dim("fold", "output_size", output_size, 2, 1)
    places = window[0][0] * window[0][1]
    if shape[-2] % places:
        raise ShapeError(
            f"fold: Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={shape[-2]} "
            f"and kernel_size={window[0]}."
        )
    counts = _counts(sizes, window)
    if shape[-1] != counts[0] * counts[1] or min(counts) < 1:
        raise ShapeError(
            f"fold: Given output_size={sizes}, kernel_size={window[0]}, dilation={window[1]}, padding={window[2]}, stride={window[3]}, "
            f"expected size of input's dimension 2 to match the calculated number of sliding blocks {counts[0]} * {counts[1]} = "
            f"{counts[0] * counts[1]}, but got input.size(2)={shape[-1]}."
        )
    if len(shape) == 2:
        out = patches_of(reshaped(input, (1, *shape)), sizes, window)
        return reshaped(out, tuple(out.shape[1:]))
    return patches_of(input, sizes, window)


def _window(who: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple:
    return (
        per_dim(who, "kernel_size", kernel_size, 2, 1),
        per_dim(who, "dilation", dilation, 2, 1),
        per_dim(who, "padding", padding, 2, 0),
        per_dim(who, "stride", stride, 2, 1),
    )


def _counts(sizes: Any, window: tuple) -> tuple[int, ...]:
    return tuple([(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, d, p, s in zip(sizes, *window, strict=True)])
