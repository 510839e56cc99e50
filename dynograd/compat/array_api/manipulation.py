"""The standard's functions that arrange the same elements in other shapes."""

from __future__ import annotations

from collections.abc import Sequence

from dynograd import arrays
from dynograd.compat.array_api.promotion import promoted
from dynograd.compat.array_api.table import dims, ops
from dynograd.tensor.tensor import Tensor

__all__ = [
    *"broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze".split(),
    *"stack tile unstack".split(),
]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The tensors in their common shape.

    Args:
        arrays: tensors.
    Returns:
        A list of tensors.

    >>> xp.broadcast_arrays(xp.asarray([1, 2]), xp.asarray([[1], [2]]))
    [tensor([[1, 2],
            [1, 2]]), tensor([[1, 1],
            [2, 2]])]
    """
    return list(ops.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """`x` stretched to `shape`.

    Args:
        x: a tensor.
        shape: an int or a tuple.
    Returns:
        A tensor of this shape.

    >>> xp.broadcast_to(xp.asarray([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return ops.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | Sequence[int] | None = 0) -> Tensor:
    """The tensors behind each other along `axis`; flattened before with `axis=None`.

    Args:
        arrays: tensors.
        axis: which dim; None is all elements, as if flattened.
    Returns:
        A tensor.

    >>> xp.concat([xp.asarray([[1, 2]]), xp.asarray([[3], [4]])], axis=None)
    tensor([1, 2, 3, 4])
    """
    operands = promoted(*arrays)
    return ops.cat([ops.reshape(array, (-1,)) for array in operands], 0) if axis is None else ops.cat(operands, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dim.

    Args:
        arrays: tensors.
        axis: which dim; negative counts from the end.
    Returns:
        A tensor with one dim more.

    >>> xp.stack([xp.asarray([1, 2]), xp.asarray([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return ops.stack(promoted(*arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`.

    Args:
        x: a tensor.
        axis: which dim; negative counts from the end.
    Returns:
        A tuple of tensors.

    >>> xp.unstack(xp.asarray([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    return tuple(ops.unbind(x, axis))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """`x` with a dim of size 1 at `axis`.

    Args:
        x: a tensor.
        axis: where the new dim stands.
    Returns:
        A view with one dim more.

    >>> xp.expand_dims(xp.asarray([1, 2]), 0)
    tensor([[1, 2]])
    """
    return ops.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | Sequence[int] | None) -> Tensor:
    """`x` without the dims of `axis`, whose size is 1.

    Args:
        x: a tensor.
        axis: an int or several.
    Returns:
        A view without the dims.
    Raises:
        ValueError: another size.

    >>> xp.squeeze(xp.asarray([[1, 2]]), 0)
    tensor([1, 2])
    """
    over = dims(axis, x.ndim)
    wide = [dim for dim in over if x.shape[dim] != 1]
    if wide:
        raise ValueError(f"squeeze: expected size 1 along axis {wide[0]}, got shape {tuple(x.shape)}.")
    return ops.squeeze(x, over)


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements along `axis` (an int, several, or None: all) in reverse order.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
    Returns:
        The shape of `x`.

    >>> xp.flip(xp.asarray([1, 2]))
    tensor([2, 1])
    """
    return ops.flip(x, dims(axis, x.ndim))


def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements moved along `axis`; those pushed out come in again at the other end. Without `axis`, as if flattened.

    Args:
        x: a tensor.
        shift: an int, or one for each axis.
        axis: which dim; None is all elements, as if flattened.
    Returns:
        The shape of `x`.

    >>> xp.roll(xp.asarray([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    if axis is None:
        return ops.roll(x, shift)
    over = (axis,) if isinstance(axis, int) else tuple(axis)
    return ops.roll(x, (shift,) * len(over) if isinstance(shift, int) else tuple(shift), over)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """`x` with its dims in another order.

    Args:
        x: a tensor.
        axes: the old number of each dim.
    Returns:
        A view.

    >>> xp.permute_dims(xp.asarray([[1, 2]]), (1, 0))
    tensor([[1],
            [2]])
    """
    return ops.permute(x, tuple(axes))


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """`x` with some dims at other places.

    Args:
        x: a tensor.
        source, destination: dims, one or several.
    Returns:
        A view.

    >>> xp.moveaxis(xp.asarray([[1, 2]]), 0, 1).shape
    dynograd.Size([2, 1])
    """
    return ops.moveaxis(x, source, destination)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The elements, row by row, in another shape; one size may be -1.

    Args:
        x: a tensor.
        shape: a tuple.
        copy: True: always in new memory; False: never; None: only where it must be.
    Returns:
        A tensor of this shape.
    Raises:
        ValueError: `copy=False`, but the elements cannot stay where they are.

    >>> xp.reshape(xp.asarray([[1, 2], [3, 4]]), (-1,))
    tensor([1, 2, 3, 4])
    """
    reshaped = ops.reshape(x, tuple(shape))
    shares = arrays.is_view_of(reshaped.array, x.array)
    if copy is False and not shares:
        raise ValueError(
            f"reshape: {tuple(x.shape)} with strides {x.stride()} cannot become {tuple(shape)} without a copy. Pass copy=None."
        )
    return ops.clone(reshaped) if copy and shares else reshaped


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Each element `repeats` times, along `axis` or flattened.

    Args:
        x: a tensor.
        repeats: an int, or one for each element.
        axis: which dim; None is all elements, as if flattened.
    Returns:
        A tensor.

    >>> xp.repeat(xp.asarray([1, 2]), xp.asarray([2, 1]))
    tensor([1, 1, 2])
    """
    return ops.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """`x` beside itself, as often as `repetitions` says for each dim.

    Args:
        x: a tensor.
        repetitions: a tuple of ints.
    Returns:
        A tensor.

    >>> xp.tile(xp.asarray([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    return ops.tile(x, tuple(repetitions))
