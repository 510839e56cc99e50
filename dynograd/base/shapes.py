"""Arithmetic on shapes: normalised dims, broadcasting, inferred sizes. Pure Python; every message names the op that asked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any, SupportsIndex, overload

from dynograd.base.shown_names import shown
from dynograd.errors import DimError, ShapeError, user_level

__all__ = ["Size"]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that prints and slices as `Size([...])`.

    Args:
        iterable: the sizes.

    >>> dynograd.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has.

        Returns:
            An int; 1 for Size([]).

        >>> dynograd.Size([2, 3]).numel()
        6
        """
        return prod(self)

    def __repr__(self) -> str:
        return shown(f"Size([{', '.join(map(str, self))}])")

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: Any) -> Any:
        part = _entry(self, index)
        return part if type(part) is int else Size(part) if isinstance(index, slice) else part

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__


_entry = tuple.__getitem__


class _Sizes(dict[tuple[int, ...], Size]):
    """Shape -> Size, made when it is first asked for; a full table begins anew."""

    def __missing__(self, shape: tuple[int, ...]) -> Size:
        if len(self) >= 1000:
            self.clear()
        size = self[shape] = Size(shape)
        return size


SIZES = _Sizes()


def normalize_dim(who: str, dim: Any, ndim: int) -> int:
    """`dim` counted from the front; raises `DimError` outside [-ndim, ndim). A 0-d tensor counts as having one dim."""
    limit = ndim or 1
    try:
        number = dim.__index__()
    except AttributeError:
        raise TypeError(f"{who}: dim must be an int, got {dim!r}.") from None
    if dim is True or dim is False:  # `x.sum(True)`, where keepdim was meant
        raise TypeError(f"{who}: dim must be an int, got {dim!r}. Write keepdim={dim!r} if that is meant.")
    if not -limit <= number < limit:
        raise DimError(
            f"{who}: Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {number}). "
            f"input has {ndim} dimensions."
        )
    return number + limit if number < 0 else number


def class_dim(who: str, dim: Any, ndim: int) -> int:
    """`normalize_dim`; None is the dim of the classes that PyTorch's first layers had, with a warning."""
    if dim is None:
        dim = 0 if ndim in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {who} has been deprecated. Change the call to include dim=X as an argument (dim={dim} "
            f"is taken here).",
            UserWarning,
            stacklevel=user_level(),
        )
    return normalize_dim(who, dim, ndim)


def one_dim(who: str, dim: Any, ndim: int) -> int | None:
    """`normalize_dim`; None, which is every dim, where there is none."""
    if not hasattr(dim, "__index__"):
        raise TypeError(f"{who}: dim must be an int, got {dim!r}. Take several dims one after the other.")
    place = normalize_dim(who, dim, ndim)
    return place if ndim else None


def reduced_dims(who: str, dim: Any, ndim: int) -> int | tuple[int, ...] | None:
    """An int or a tuple counted from the front; None is every dim, as is () and what there is of a 0-d tensor."""
    if type(dim) is int and -ndim <= dim < ndim:
        return dim + ndim if dim < 0 else dim
    if type(dim) is tuple:  # rules give it in order
        least = 0
        for place in dim:
            if type(place) is not int or not least <= place < ndim:
                break
            least = place + 1
        else:
            return dim or None
    return None if dim is None else normalize_dims(who, dim, ndim) or None


def some_dims(who: str, dim: Any, ndim: int) -> int | tuple[int, ...] | None:
    """`reduced_dims`; () and [] are no dim."""
    return () if isinstance(dim, (tuple, list)) and not dim else reduced_dims(who, dim, ndim)


def normalize_dims(who: str, dims: Any, ndim: int) -> tuple[int, ...]:
    """All dims counted from the front, each once; None and () mean every dim."""
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, (tuple, list)):
        return (normalize_dim(who, dims, ndim),) if ndim else (normalize_dim(who, dims, ndim),)[:0]
    if len(dims) == 0:
        return tuple(range(ndim))
    normalized = tuple(normalize_dim(who, dim, ndim) for dim in dims)
    if len(set(normalized)) != len(normalized):
        raise ShapeError(
            f"{who}: a dim appears twice in dim={tuple(dims)} (input has {ndim} dimensions). Name each dim once."
        )
    return normalized if ndim else ()


def as_shape(who: str, sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes given as `f(2, 3)`, `f((2, 3))` or `f(Size)` as one tuple of ints."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    for size in sizes:
        if type(size) is not int:
            break
    else:
        return tuple(sizes)
    try:
        return tuple([size.__index__() for size in sizes])
    except AttributeError:
        raise TypeError(f"{who}: sizes must be ints, got {tuple(sizes)!r}.") from None


def sizes_by_name(who: str, sizes: tuple, size: Any) -> tuple:
    """Sizes given by name, `f(size=(2, 3))`, as `f((2, 3))` has them; a function takes them one way."""
    if sizes:
        raise TypeError(f"{who}: got sizes twice: {sizes} by position and size={size!r} by name. Pass one of them.")
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"{who}: argument 'size' must be tuple of ints, got {size!r} of type {type(size).__name__}. Pass size=(2, 3)."
        )
    return (size,)


def check_sizes(who: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape`, when no size is negative and some memory could hold them all."""
    try:
        wrong = shape and (min(shape) < 0 or prod(shape) >= _TOO_MANY)
    except TypeError:
        wrong = None
    if wrong is None:
        return check_sizes(who, as_shape(who, shape))
    if wrong:
        if min(shape) < 0:
            raise ShapeError(f"{who}: sizes must not be negative, got {shape}.")
        raise ShapeError(
            f"{who}: storage size calculation overflowed: sizes {shape} are {prod(shape):,} elements, and addresses have 64 bits. "
            f"Check the sizes."
        )
    return shape


def check_number(who: str, name: str, value: Any) -> None:
    """Raises TypeError where `value` is no real number (a 0-d tensor is one)."""
    if type(value) is not int and type(value) is not float and not hasattr(value, "__float__"):
        raise TypeError(f"{who}(): argument '{name}' must be a number, not {type(value).__name__} ({value!r}).")


def check_tensor(who: str, name: str, value: Any) -> None:
    """Raises TypeError where `value` is no tensor."""
    if not hasattr(value, "shape"):
        raise TypeError(
            f"{who}(): argument '{name}' must be Tensor, not {type(value).__name__} ({value!r}). Make one with dynograd.tensor(...)."
        )


def check_fits(who: str, name: str, value: Any, shape: tuple[int, ...]) -> None:
    """Raises where `value` is no tensor, or does not broadcast to `shape`: a result of that shape would have to grow."""
    check_tensor(who, name, value)
    own = tuple(value.shape)
    lead = len(shape) - len(own)
    if own != shape and (lead < 0 or any([length != 1 and length != size for length, size in zip(own, shape[lead:])])):
        raise ShapeError(f"{who}: {name} of shape {own} does not broadcast to {shape}. Squeeze or reshape {name}.")


def check_whole(who: str, **named: Any) -> None:
    """Raises TypeError where one of these is no whole number."""
    for name, value in named.items():
        if type(value) is not int and not hasattr(value, "__index__"):
            raise TypeError(f"{who}(): argument '{name}' must be an int, not {type(value).__name__} ({value!r}).")


def whole_number(who: str, name: str, value: Any) -> int:
    """`value` as an int; raises TypeError where it is none."""
    if type(value) is int:
        return value
    check_whole(who, **{name: value})
    return index(value)


def truth_value(who: str, name: str, value: Any) -> bool:
    """`value` as a bool; raises TypeError where it is no truth value (a string, a float)."""
    if type(value) is bool:
        return value
    if type(value).__name__ in ("bool_", "bool") or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{who}(): argument '{name}' must be a bool, not {type(value).__name__} ({value!r}).")


_TOO_MANY = 1 << 59  # elements of at most 16 bytes


def broadcast_shapes(who: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape; sizes are aligned from the right and 1 stretches."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for offset, size in enumerate(shape, rank - len(shape)):
            if size == 1 or size == result[offset]:
                continue
            if result[offset] != 1:
                raise broadcast_error(who, *shapes)
            result[offset] = size
    return tuple(result)


def broadcast_error(who: str, *shapes: tuple[int, ...]) -> ShapeError:
    """The message for shapes that do not broadcast, naming the first dim (from the right) that disagrees."""
    rank = max(map(len, shapes))
    for back in range(1, rank + 1):
        sizes = {shape[-back] for shape in shapes if len(shape) >= back} - {1}
        if len(sizes) > 1:
            shown = " and ".join(str(tuple(shape)) for shape in shapes)
            return ShapeError(
                f"{who}: shapes {shown} do not broadcast: dimension {-back} has sizes "
                f"{' and '.join(map(str, sorted(sizes)))} (must match the other size, at non-singleton dimension {rank - back}). "
                f"Sizes are aligned from the right and only 1 stretches; use reshape or unsqueeze to line the dimensions up."
            )
    return ShapeError(f"{who}: shapes {shapes} do not broadcast.")


def infer_size(who: str, shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """`shape` with its one -1 filled in so that it holds `numel` elements."""
    unknown = [position for position, size in enumerate(shape) if size == -1]
    known = prod(size for size in shape if size != -1)
    if len(unknown) > 1:
        raise ShapeError(f"{who}: only one dimension can be inferred, got shape {shape}.")
    if min(shape, default=0) < -1:
        raise ShapeError(f"{who}: invalid shape {shape}: sizes must be -1 or at least 0.")
    if not unknown:
        if known != numel:
            raise ShapeError(
                f"{who}: shape '{list(shape)}' is invalid for input of size {numel} (it would hold {known} elements)."
            )
        return shape
    if known == 0 or numel % known:
        if known == 0 and numel == 0:
            raise ShapeError(
                f"{who}: cannot infer -1 in {shape} for an input without elements: any size would do. Give the size."
            )
        raise ShapeError(
            f"{who}: shape '{list(shape)}' is invalid for input of size {numel}: {numel} is not divisible by {known}."
        )
    return shape[: unknown[0]] + (numel // known,) + shape[unknown[0] + 1 :]
