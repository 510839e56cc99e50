"""Borders around the last dims: constants, or the tensor's own values, reflected, replicated or wrapped around."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, literals
from dynograd.base import dtypes
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["constant_pad_nd", "pad"]

FAMILY = Row(out=None)


@op(name="constant_pad_nd")
def pad_constant(input: Array, sides: tuple[tuple[int, int], ...], value: float) -> Array:
    """`input` with `value` around it: (before, after) for each dim; negative ones cut off."""
    if type(value) in (int, float) and not -65504 <= value <= 65504:
        value = literals.fitting(value, dtypes.of_array(input))
    return _padded(kernel("paddings", "pad_constant", input), input, sides, value)


def _padded(run: Callable[..., Array], input: Array, sides: tuple[tuple[int, int], ...], value: Any) -> Array:
    """What a kernel makes; of channels that lie side by side, in that order."""
    order = None if value == "circular" else arrays.image_order(input)  # as in PyTorch
    if order is None:
        return run(input, sides, value)
    turned = tuple([sides[dim] for dim in order])
    return arrays.turned(run(input.transpose(order), turned, value), order)


@pad_constant.backward
def pad_constant_backward(g: Any, saved: Any, sides: Any, value: Any) -> Gradients:
    return (pad_constant(g, tuple([(-before, -after) for before, after in sides]), 0.0),)


@pad_constant.jvp
def pad_constant_jvp(tangents: Any, saved: Any, sides: Any, value: Any) -> Array:
    return pad_constant(tangents[0], sides, 0.0)


@composed(covers="constant_pad_nd")
def constant_pad_nd(input: Any, pad: Any, value: float = 0) -> Array:
    """`nn.functional.pad` with mode "constant".

    Args:
        input: tensor of any shape.
        pad: (before, after) of the last dim, then of the one before it, and so on.
        value: number in the border.
    Returns:
        `input` with its border.

    >>> dynograd.constant_pad_nd(tensor([1, 2, 3]), (1, 0), 7)
    tensor([7, 1, 2, 3])
    """
    return pad_constant(input, _sides(tuple(input.shape), _widths(pad), "constant"), value)


@op(name="mirrored_pad", linear=True, inner=True)
def pad_mirrored(input: Array, sides: tuple[tuple[int, int], ...], border: str) -> Array:
    """`input` with borders that repeat it."""
    return _padded(kernel("paddings", "pad_mirrored", input), input, sides, border)


@pad_mirrored.backward
def pad_mirrored_backward(g: Any, saved: Any, sides: Any, border: Any) -> Gradients:
    return (fold_mirrored(g, sides, border),)


@op(name="mirrored_pad_backward", linear=True, inner=True)
def fold_mirrored(g: Array, sides: tuple[tuple[int, int], ...], border: str) -> Array:
    """`g` without its borders, which are added where `pad_mirrored` read them."""
    return _padded(kernel("paddings", "pad_mirrored_backward", g), g, sides, border)


@fold_mirrored.backward
def fold_mirrored_backward(g: Any, saved: Any, sides: Any, border: Any) -> Gradients:
    return (pad_mirrored(g, sides, border),)


@composed(functional=True)
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Array:
    """`input` with a border around its last dims.

    Args:
        input: tensor of any shape.
        pad: (before, after) of the last dim, then of the one before it, and so on; negative numbers cut off.
        mode: "constant"; "reflect" (without the edge, narrower than the dim), "replicate" (the edge), "circular" (the other end).
        value: for "constant"; 0 when left out.
    Returns:
        `input` with its border, in its dtype.
    Raises:
        ShapeError: an odd number of widths, more than the dims of `input`, or a border that the mode cannot fill.

    >>> dynograd.nn.functional.pad(tensor([1, 2, 3]), (1, 2))
    tensor([0, 1, 2, 3, 0, 0])
    >>> dynograd.nn.functional.pad(tensor([1, 2, 3]), (1, 2), mode="reflect")
    tensor([2, 1, 2, 3, 2, 1])
    """
    shape = tuple(input.shape)
    sides = _sides(shape, _widths(pad), mode)
    if mode == "constant":
        return pad_constant(input, sides, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"pad: Padding mode {mode!r} doesn't take in value argument, got value={value}.")
    return _mirrored(input, shape, sides, mode)


def _widths(pad: Any) -> tuple[int, ...]:
    try:
        return tuple([width.__index__() for width in pad])
    except (TypeError, AttributeError):
        raise TypeError(f"pad: pad must be a sequence of ints, got {pad!r}.") from None


@lru_cache(maxsize=256)
def _sides(shape: tuple[int, ...], widths: tuple[int, ...], mode: str) -> tuple[tuple[int, int], ...]:
    """(before, after) for each dim, checked."""
    if len(widths) % 2:
        raise ShapeError(f"pad: Padding length must be divisible by 2, got {len(widths)} widths: {widths}.")
    if len(widths) // 2 > len(shape):
        raise ShapeError(
            f"pad: Padding length should be less than or equal to two times the input dimension but got padding length {len(widths)} "
            f"and input of dimension {len(shape)} (shape {shape})."
        )
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: Unrecognised padding mode {mode!r}: expected 'constant', 'reflect', 'replicate' or 'circular'."
        )
    pairs = list(zip(widths[0::2], widths[1::2], strict=True))
    if mode in ("reflect", "replicate") and 0 in shape[-len(pairs) - 1 :] and pairs:
        raise ShapeError(
            f"pad: mode {mode!r} over {len(pairs)} dims expected an input whose last {len(pairs) + 1} dims are not empty, got shape {shape}."
        )
    sides = (*((0, 0),) * (len(shape) - len(pairs)), *reversed(pairs))
    left = [size + before + after for size, (before, after) in zip(shape, sides, strict=True)]
    kept = [size + min(before, 0) + min(after, 0) for size, (before, after) in zip(shape, sides, strict=True)]
    if min((*left, *(kept if mode == "constant" else ())), default=0) < 0:
        raise ShapeError(
            f"pad: The input size {shape}, plus padding {widths}, resulted in a negative output size, {tuple(left)}, which is invalid."
        )
    return sides


def _mirrored(input: Any, shape: tuple[int, ...], sides: tuple, mode: str) -> Array:
    if mode == "replicate":
        sides = tuple([_with_an_edge(size, *pair) for size, pair in zip(shape, sides, strict=True)])
    if min([min(pair) for pair in sides], default=0) < 0:
        cut = tuple([(min(0, before), min(0, after)) for before, after in sides])
        input, sides = (
            pad_constant(input, cut, 0.0),
            tuple([(max(0, before), max(0, after)) for before, after in sides]),
        )
        shape = tuple(input.shape)
    _check_borders(shape, sides, mode)
    return pad_mirrored(input, sides, mode)


def _with_an_edge(size: int, before: int, after: int) -> tuple[int, int]:
    """What is cut away on one side and grown on the other leaves the last element, which the border repeats."""
    if size and -before >= size and after > 0:
        return 1 - size, after + before + size - 1
    if size and -after >= size and before > 0:
        return before + after + size - 1, 1 - size
    return before, after


@lru_cache(maxsize=256)
def _check_borders(shape: tuple[int, ...], sides: tuple[tuple[int, int], ...], mode: str) -> None:
    for dim, (size, pair) in enumerate(zip(shape, sides, strict=True)):
        widest = max(pair)
        if mode == "reflect" and widest >= max(size, 1):
            raise ShapeError(
                f"pad: Padding size should be less than the corresponding input dimension for mode 'reflect', but got: padding {pair} at "
                f"dimension {dim} of input {shape}. Use 'replicate', or pad twice."
            )
        if mode == "circular" and widest > size:
            raise ShapeError(
                f"pad: Padding value causes wrapping around more than once: padding {pair} at dimension {dim} of input {shape}. Pad twice."
            )
