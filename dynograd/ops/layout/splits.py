"""Parts of a tensor along one dim, as views: `split`, `chunk`, `unbind`, `narrow`, `select`, and writes into such parts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, islice
from typing import Any, Unpack

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import check_whole, normalize_dim
from dynograd.base.signatures import signature_of
from dynograd.errors import IndexRangeError, ShapeError
from dynograd.ops.index.indexing import get_basic, put_basic
from dynograd.ops.index.indices import FULL
from dynograd.ops.layout.joins import joined, stacked
from dynograd.ops.op import Gradients, composed, keep, op, shortcut
from dynograd.ops.row import Row

__all__ = ["chunk", "narrow", "select", "select_scatter", "slice_scatter", "split", "tensor_split", "unbind"]

FAMILY = Row(out=None)


@op(name="unbind", outputs="list", linear=True, view=True)
def unbound(input: Array, dim: int = 0) -> tuple[Array, ...]:
    """The slices along `dim`, with that dim removed."""
    if not input.ndim:
        raise IndexRangeError(
            "unbind: Dimension specified as 0 but tensor has no dimensions. Use item() for its value."
        )
    if dim == 0 and type(input) is arrays.ndarray and input.ndim > 1:
        return tuple(input)
    place = normalize_dim("unbind", dim, input.ndim)
    if type(input) is arrays.ndarray and input.ndim > 1:
        return tuple(input.swapaxes(0, place) if place == 1 else input.transpose(place, *_others(place, input.ndim)))
    lead = (FULL,) * place
    return tuple([input[(*lead, number, ...)] for number in range(input.shape[place])])


def _others(place: int, rank: int) -> tuple[int, ...]:
    return (*range(place), *range(place + 1, rank))


@unbound.backward
def unbound_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (stacked(list(g), dim),)


_FRONT: dict[tuple[int, int], tuple[tuple[int], tuple[int, ...] | None]] = {
    (rank, dim): ((dim % rank,), (dim % rank, *_others(dim % rank, rank)) if dim % rank else None)
    for rank in range(2, 9)
    for dim in range(-rank, rank)
}
"""(rank, dim) -> arguments of `unbound`, the order of the dims that puts `dim` in front."""


def _quick_unbind(input: Any, dim: Any) -> tuple | None:
    statics, order = _FRONT[input.ndim, dim]
    rows = input.transpose(order) if order else input
    return [*islice(rows, len(rows))], statics


@composed(covers="unbind", method=True)
@shortcut(unbound, _quick_unbind, misses=(LookupError, TypeError))
def unbind(input: Any, dim: int = 0) -> tuple[Array, ...]:
    """The slices along `dim`, as a tuple of views with that dim removed.

    Args:
        input: tensor with at least one dim.
        dim: which dim; negative counts from the end.
    Returns:
        As many views as `dim` is long.
    Raises:
        DimError: the tensor has no dims.

    >>> dynograd.unbind(tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    return unbound(input, dim)


@op(method=True, outputs="list", linear=True, view=True, aliases={"dim": "axis"})
def split_with_sizes(input: Array, split_sizes: tuple[int, ...], dim: int = 0) -> list[Array]:
    """Consecutive parts of the given sizes along `dim`, as a tuple of views.

    Args:
        input: tensor of any shape.
        split_sizes: ints, whose sum is the size of `dim`.
        dim: which dim; negative counts from the end.
    Returns:
        As many views as there are sizes.
    Raises:
        ShapeError: the sizes do not sum to the size of `dim`.

    >>> dynograd.split_with_sizes(tensor([1, 2, 3]), (1, 2))
    (tensor([1]), tensor([2, 3]))
    """
    shape = input.shape
    place = dim if type(dim) is int and 0 <= dim < len(shape) else normalize_dim("split_with_sizes", dim, len(shape))
    size = shape[place] if shape else 1
    if type(split_sizes) is not tuple:
        split_sizes = tuple(split_sizes)
    total, parts = _PARTS.get((place, split_sizes)) or _parts_of(place, split_sizes)
    if total != size:
        raise ShapeError(
            f"split_with_sizes: expects split_sizes (not negative) to sum exactly to {size} (input tensor's size at dimension "
            f"{place}), but got split_sizes={list(split_sizes)}, which sum to {sum(split_sizes)}."
        )
    return [input[part] for part in parts]


_PARTS: dict[tuple[int, tuple[int, ...]], tuple[int, list[tuple]]] = {}  # what `_parts_of` has answered


def _parts_of(place: int, split_sizes: tuple[int, ...]) -> tuple[int, list[tuple]]:
    """The sum of the sizes (-1 if one is negative) and the indices of the parts along dim `place`."""
    for size in split_sizes:
        check_whole("split_with_sizes", split_sizes=size)
    if split_sizes and min(split_sizes) < 0:
        return -1, []
    lead = (FULL,) * place
    stops = list(accumulate(split_sizes))
    parts = [(*lead, slice(stop - count, stop)) for count, stop in zip(split_sizes, stops, strict=True)]
    result = sum(split_sizes), parts
    if len(parts) <= 64:
        keep(_PARTS, (place, split_sizes), result, 256)
    return result


@split_with_sizes.backward
def split_with_sizes_backward(g: Any, saved: Any, split_sizes: Any, dim: Any) -> Gradients:
    return (joined(list(g), dim),)


@composed(method=True)
def split(
    tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Array, ...]:
    """Views of `tensor` along `dim`: parts of one size (the last may be smaller), or of the listed sizes.

    Args:
        tensor: with at least one dim.
        split_size_or_sections: an int, or a list of sizes.
        dim: which dim; negative counts from the end.
        split_size: another name of the same.
    Returns:
        A tuple of views.
    Raises:
        ShapeError: listed sizes do not sum to the size of `dim`, or the size is negative or 0.

    >>> dynograd.split(tensor([1, 2, 3, 4, 5]), 2)
    (tensor([1, 2]), tensor([3, 4]), tensor([5]))
    """
    lengths = split_size if split_size_or_sections is None else split_size_or_sections
    if type(lengths) is not int and isinstance(lengths, (tuple, list)):
        return split_with_sizes(tensor, tuple([size.__index__() for size in lengths]), dim)
    shape = getattr(tensor, "array", tensor).shape
    place = dim if type(dim) is int and 0 <= dim < len(shape) else normalize_dim("split", dim, len(shape))
    _check_has_dims("split", shape)
    size, part = shape[place], lengths.__index__()
    if part < 0 or (part == 0 and size):
        raise ShapeError(
            f"split: split expects split_size be non-negative, and split_size can only be 0 if dimension size is 0, but got "
            f"split_size={part} for dimension size of {size}."
        )
    count = max(1, -(-size // part)) if part else 1
    return split_with_sizes(tensor, (*(part,) * (count - 1), size - part * (count - 1)), place)


def _check_has_dims(who: str, shape: tuple[int, ...]) -> None:
    if not shape:
        raise ShapeError(f"{who}: {who} expects at least a 1-dimensional tensor, got a 0-d one. Use unsqueeze(0).")


_CHUNKS: dict[Any, tuple[Any, list[tuple]]] = {}  # (shape, chunks, dim) -> arguments of `split_with_sizes`, indices
_SECTIONS: dict[Any, tuple[Any, list[tuple]]] = {}  # the same for `tensor_split`


def _quick_chunk(input: Any, chunks: Any, dim: Any) -> tuple | None:
    statics, parts = _CHUNKS[input.shape, chunks, dim]
    return [input[part] for part in parts], statics


@composed(method=True)
@shortcut(split_with_sizes, _quick_chunk, misses=(LookupError, TypeError))
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """At most `chunks` views of equal size along `dim`; the last may be smaller.

    Args:
        input: tensor with at least one dim.
        chunks: how many, at least 1.
        dim: which dim; negative counts from the end.
    Returns:
        A tuple of views.

    >>> dynograd.chunk(tensor([1, 2, 3, 4, 5]), 2)
    (tensor([1, 2, 3]), tensor([4, 5]))
    """
    shape = input.shape
    if type(dim) is int and type(chunks) is int and (known := _CHUNKS.get((shape, chunks, dim))) is not None:
        (known_sizes, place), _ = known
        return split_with_sizes(input, known_sizes, place)
    if not shape:
        _check_has_dims("chunk", shape)
    if chunks <= 0:
        raise ShapeError(f"chunk: chunk expects `chunks` to be greater than 0, got: {chunks}.")
    place = dim if type(dim) is int and 0 <= dim < len(shape) else normalize_dim("chunk", dim, len(shape))
    size = shape[place]
    part = -(-size // chunks)
    if part * chunks == size:
        sizes: tuple[int, ...] = (part,) * chunks
    else:
        whole, rest = size // part, size % part
        sizes = (part,) * whole + ((rest,) if rest else ())
    if len(sizes) <= 64 and type(dim) is int and (shape, chunks, dim) not in _CHUNKS:
        keep(_CHUNKS, (shape, chunks, dim), ((sizes, place), _parts_of(place, sizes)[1]), 256)
    return split_with_sizes(input, sizes, place)


def _unsafe(name: str, function: Any, **row: Unpack[Row]) -> Callable[..., Any]:
    def parts(*args: Any, **kwargs: Any) -> tuple[Array, ...]:
        return function(*args, **kwargs)

    parts.__name__ = parts.__qualname__ = f"unsafe_{name}"
    parts.__doc__ = f"`{name}`; PyTorch does not check writes into the parts of this one, here they are checked. Of `{name}`:\n\n    {function.__doc__}"
    parts.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    return composed(method=True, **row)(parts)


unsafe_chunk = _unsafe("chunk", chunk)


def _split(input: Any, split_size: Any, dim: int = 0) -> tuple[Array, ...]:
    """Views of `input` along `dim`: parts of one size (the last may be smaller), or of the listed sizes.

    Args:
        input: tensor with at least one dim.
        split_size: an int, or a list of sizes.
        dim: which dim; negative counts from the end.
    Returns:
        A tuple of views.

    >>> dynograd.unsafe_split(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return split(input, split_size, dim)


unsafe_split = _unsafe("split", _split, aliases={"dim": "axis"})
unsafe_split_with_sizes = _unsafe("split_with_sizes", split_with_sizes, aliases={"dim": "axis"})


def _quick_tensor_split(input: Any, indices_or_sections: Any, dim: Any) -> tuple | None:
    if type(indices_or_sections) is int or type(indices_or_sections) is tuple:
        statics, parts = _SECTIONS[input.shape, indices_or_sections, dim]
        return [input[part] for part in parts], statics
    return None


@composed(method=True)
@shortcut(split_with_sizes, _quick_tensor_split, misses=(LookupError, TypeError))
def tensor_split(
    input: Any,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: Any = None,
    tensor_indices_or_sections: Any = None,
) -> tuple[Array, ...]:
    """Views along `dim`: that many parts of nearly equal size, or cut at the given indices.

    Args:
        input: tensor of any shape.
        indices_or_sections: how many parts, or where they begin.
        dim: which dim; negative counts from the end.
        indices, sections, tensor_indices_or_sections: PyTorch's other names of it.
    Returns:
        A tuple of views.

    >>> dynograd.tensor_split(tensor([1, 2, 3, 4, 5]), 3)
    (tensor([1, 2]), tensor([3, 4]), tensor([5]))
    """
    _check_has_dims("tensor_split", input.shape)
    cuts: Any = indices_or_sections
    for index in (indices, sections, tensor_indices_or_sections):
        cuts = index if cuts is None else cuts
    place = normalize_dim("tensor_split", dim, input.ndim)
    size = input.shape[place]
    if hasattr(cuts, "tolist"):
        cuts = cuts.tolist()
    if not isinstance(cuts, (tuple, list)):
        parts = cuts.__index__()
        if parts <= 0:
            raise ShapeError(f"tensor_split: number of sections must be larger than 0, got {parts}.")
        small, more = divmod(size, parts)
        return _in_sections(input, cuts, dim, place, (small + 1,) * more + (small,) * (parts - more))
    bounds = [slice(None, cut).indices(size)[1] for cut in cuts]
    starts, stops = [0, *bounds], [*bounds, size]
    if starts == sorted(starts):
        sizes = tuple([stop - start for start, stop in zip(starts, stops, strict=True)])
        return _in_sections(input, cuts, dim, place, sizes)
    lead = (FULL,) * place
    return tuple(
        [get_basic(input, (*lead, slice(start, max(start, stop)))) for start, stop in zip(starts, stops, strict=True)]
    )


def _in_sections(input: Any, cuts: Any, dim: int, place: int, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """The parts of these sizes; the next call with the same `cuts` takes the quick way."""
    if len(sizes) <= 64 and type(dim) is int and {*map(type, cuts if type(cuts) is tuple else (cuts,))} == {int}:
        keep(_SECTIONS, (tuple(input.shape), cuts, dim), ((sizes, place), _parts_of(place, sizes)[1]), 256)
    return split_with_sizes(input, sizes, place)


_EVEN: dict[Any, tuple[Any, list[tuple]]] = {}  # (name, shape, what was given) -> as in `_SECTIONS`


def _quick_hsplit(input: Any, indices_or_sections: Any) -> tuple | None:
    statics, parts = _EVEN["hsplit", input.shape, indices_or_sections]
    return [input[part] for part in parts], statics


@composed(method=True)
@shortcut(split_with_sizes, _quick_hsplit, misses=(LookupError, TypeError))
def hsplit(input: Any, *indices_or_sections: Any, indices: Any = None, sections: Any = None) -> tuple[Array, ...]:
    """Splits along the second dim (the first of a vector) into equal parts, or at the given indices.

    Args:
        input: tensor of any shape.
        indices_or_sections: how many parts, or where they begin.
        indices, sections: other names of it.
    Returns:
        A tuple of views.
    Raises:
        ShapeError: no dims, or a number of parts that does not divide the size.

    >>> dynograd.hsplit(dynograd.zeros(2, 4), 2)[0].shape
    dynograd.Size([2, 2])
    """
    return _even_split("hsplit", input, indices_or_sections or _cuts(indices, sections), 1 if input.ndim > 1 else 0, 1)


def _quick_vsplit(input: Any, indices_or_sections: Any) -> tuple | None:
    statics, parts = _EVEN["vsplit", input.shape, indices_or_sections]
    return [input[part] for part in parts], statics


@composed(method=True)
@shortcut(split_with_sizes, _quick_vsplit, misses=(LookupError, TypeError))
def vsplit(input: Any, *indices_or_sections: Any, indices: Any = None, sections: Any = None) -> tuple[Array, ...]:
    """Splits along the first dim of a matrix into equal parts, or at the given indices.

    Args:
        input: tensor of any shape.
        indices_or_sections: how many parts, or where they begin.
        indices, sections: other names of it.
    Returns:
        A tuple of views.
    Raises:
        ShapeError: fewer than two dims, or a number of parts that does not divide the size.

    >>> dynograd.vsplit(tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    return _even_split("vsplit", input, indices_or_sections or _cuts(indices, sections), 0, 2)


def _quick_dsplit(input: Any, indices_or_sections: Any) -> tuple | None:
    statics, parts = _EVEN["dsplit", input.shape, indices_or_sections]
    return [input[part] for part in parts], statics


@composed(method=True)
@shortcut(split_with_sizes, _quick_dsplit, misses=(LookupError, TypeError))
def dsplit(input: Any, *indices_or_sections: Any, indices: Any = None, sections: Any = None) -> tuple[Array, ...]:
    """Splits along the third dim into equal parts, or at the given indices.

    Args:
        input: tensor of any shape.
        indices_or_sections: how many parts, or where they begin.
        indices, sections: other names of it.
    Returns:
        A tuple of views.
    Raises:
        ShapeError: fewer than three dims, or a number of parts that does not divide the size.

    >>> dynograd.dsplit(tensor([[[1, 2]]]), 2)
    (tensor([[[1]]]), tensor([[[2]]]))
    """
    return _even_split("dsplit", input, indices_or_sections or _cuts(indices, sections), 2, 3)


def _cuts(indices: Any, sections: Any) -> tuple:
    """What was given by name, as if it had been given by place."""
    return () if indices is None and sections is None else (sections if indices is None else indices,)


def _even_split(who: str, input: Any, sizes: tuple, dim: int, rank: int) -> tuple[Array, ...]:
    if input.ndim < rank:
        raise ShapeError(
            f"{who}: {who} requires a tensor with at least {rank} dimension, but got a tensor with {input.ndim} dimensions."
        )
    cuts = sizes[0] if len(sizes) == 1 else sizes
    if not isinstance(cuts, (tuple, list)):
        if cuts <= 0 or input.shape[dim] % cuts:
            raise ShapeError(
                f"{who}: attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is not divisible "
                f"by the split_size {cuts}. Use tensor_split."
            )
    parts = tensor_split(input, cuts, dim)
    known = _SECTIONS.get((tuple(input.shape), cuts, dim)) if type(cuts) in (int, tuple) else None
    if known is not None:
        keep(_EVEN, (who, tuple(input.shape), sizes), known, 256)
    return parts


@composed(method=True)
def narrow(input: Any, dim: Any = None, start: Any = None, length: Any = None, *, axis: Any = None) -> Array:
    """The view `start:start + length` along `dim`; a negative `start` counts from the end.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        start: where it begins.
        length: how many.
    Returns:
        A view, `input`'s shape with `length` in `dim`.
    Raises:
        ShapeError: the range leaves the tensor.

    >>> dynograd.narrow(tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    dim = axis if dim is None else dim
    if dim is None or start is None or length is None:
        raise TypeError("narrow() missing required arguments: expected dim, start and length, as in x.narrow(0, 1, 2).")
    shape = getattr(input, "array", input).shape
    _check_has_dims("narrow", shape)
    place = normalize_dim("narrow", dim, len(shape))
    size = shape[place]
    if hasattr(start, "dtype") and (start.dtype == dtypes.bool or start.ndim):
        raise ShapeError(
            f"narrow: start must be an int or a 0-dim integral Tensor, got {start.dtype} of shape {tuple(start.shape)}."
        )
    first = start.__index__()
    if not -size <= first <= size:
        raise IndexRangeError(
            f"narrow: start out of range (expected to be in range of [{-size}, {size}], but got {first})."
        )
    if first < 0:
        first += size
    if length < 0 or first + length > size:
        raise ShapeError(
            f"narrow: start ({first}) + length ({length}) exceeds dimension size ({size}), or length is negative."
        )
    return get_basic(input, (*(FULL,) * place, slice(first, first + length.__index__())))


def _quick_select(input: Any, dim: Any, index: Any, axis: Any) -> tuple | None:
    if axis is None and type(dim) is int is type(index) and -input.ndim <= dim < input.ndim:
        statics = ((*_LEAD[dim if dim >= 0 else dim + input.ndim], index, ...),)
        return input[statics[0]], statics
    return None


@composed(method=True)
@shortcut(get_basic, _quick_select, misses=(LookupError, TypeError))
def select(input: Any, dim: Any = None, index: Any = None, *, axis: Any = None) -> Array:
    """The view at `index` along `dim`, with that dim removed.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index: which slice; negative counts from the end.
    Returns:
        A view, `input`'s shape without `dim`.

    >>> dynograd.select(tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    dim = axis if dim is None else dim
    if dim is None or index is None:
        raise TypeError("select() missing required arguments: expected dim and index, as in x.select(0, 1).")
    return get_basic(input, _at("select", input, dim, index))


_LEAD = [(FULL,) * dim for dim in range(16)]


def _at(who: str, input: Any, dim: int, index: Any) -> tuple:
    shape = getattr(input, "array", input).shape
    if not shape:
        raise IndexError(f"{who}: {who}() cannot be applied to a 0-dim tensor. Use item() for its value.")
    place = normalize_dim(who, dim, len(shape))
    number, size = index.__index__(), shape[place]
    if not -size <= number < size:
        raise IndexRangeError(
            f"{who}: index {number} out of range for tensor of size {list(input.shape)} at dimension {place} (index {number} is out of "
            f"bounds for dimension {place} with size {size})."
        )
    return (*(FULL,) * place, number, ...)


@composed(method=True, aliases={"dim": "axis"}, ragged="places")
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Array:
    """A copy of `input` with `src` in place of `input.select(dim, index)`.

    Args:
        input: tensor of any shape.
        src: the shape of `input.select(dim, index)`.
        dim: which dim; negative counts from the end.
        index: which slice; negative counts from the end.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.select_scatter(dynograd.zeros(2, 2), dynograd.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _put("select_scatter", input, src, _at("select_scatter", input, dim, index))


@composed(method=True, out="cast", aliases={"dim": "axis"}, ragged="places")
def slice_scatter(input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    """A copy of `input` with `src` in place of the slice `start:end:step` along `dim`.

    Args:
        input: tensor of any shape.
        src: the shape of the slice.
        dim: which dim; negative counts from the end.
        start, end, step: as in a Python slice; None: the dim's ends.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.slice_scatter(dynograd.zeros(3), dynograd.ones(2), start=1)
    tensor([0., 1., 1.])
    """
    if step <= 0:
        raise ShapeError(f"slice_scatter: slice step must be positive, got {step}.")
    place = normalize_dim("slice_scatter", dim, input.ndim)
    return _put("slice_scatter", input, src, (*(FULL,) * place, slice(start, end, step)))


def _put(who: str, input: Any, src: Any, index: tuple) -> Array:
    region = tuple(get_basic(arrays.outline(getattr(input, "array", input)), index).shape)
    if tuple(src.shape) != region:
        raise ShapeError(
            f"{who}: expected src to have a size equal to the slice of input, {region}, got {tuple(src.shape)}."
        )
    return put_basic(input, src, index)
