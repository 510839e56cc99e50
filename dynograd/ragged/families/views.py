"""Other shapes of the same elements: a ragged dim stays one, or is merged with its neighbours."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dynograd.base.shapes import normalize_dim
from dynograd.errors import ShapeError
from dynograd.ops.op import registry
from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.elementwise import repeated
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.levels import is_deep
from dynograd.ragged.families.shaped_views import as_shapes, expanded_shapes, of_sizes, viewed_shapes
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, RaggedSize, Shapes, shown
from dynograd.ragged.tensor import RaggedTensor, make

__all__ = ["merged_levels", "viewed"]


@ragged_rule("view", kind="rows")
def view_op(call: Call) -> Any:
    """Rows keep their elements: dims beside the ragged one change, and dims behind it may be merged into it."""
    return viewed(call, call["input"], tuple(call["shape"]))


@ragged_rule("view.public", "reshape", "view_copy", kind="rows")
def view_public(call: Call) -> Any:
    """As `view`; the ragged dim is named by `x.shape[dim]`, or by -1."""
    if call.get("dtype") is not None or (
        call["sizes"] and not isinstance(call["sizes"][0], (int, tuple, list, RaggedSize))
    ):
        return on_elements(call)
    return viewed(call, call["input"], _sizes(call["sizes"], call.get("size") or call.get("shape")))


def on_elements(call: Call) -> Any:
    x = call["input"]
    return x.with_packed(call.with_(input=x.packed))


@ragged_rule("view_as", "reshape_as", "expand_as", kind="rows")
def like_other(call: Call) -> Any:
    """The shape of the other one, which may be ragged."""
    x, other = call["input"], call["other"]
    if call.name == "expand_as":
        return expanded(call, x, tuple(other.shape), other)
    if not isinstance(x, RaggedTensor):
        raise call.refuse("a dense tensor has no rows; use ragged_from_padded(x, lengths) or ragged_like(other, x).")
    return viewed(call, x, tuple(other.shape))


def _sizes(sizes: Any, named: Any) -> tuple[Any, ...]:
    sizes = sizes if named is None else named
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return tuple([size if isinstance(size, RaggedSize) else size.__index__() for size in sizes])


def viewed(call: Call, x: RaggedTensor, sizes: tuple[Any, ...]) -> Any:
    part, place = x.partition, x.place
    reshape = registry["reshape"].function
    if isinstance(part, Shapes):
        view = viewed_shapes(x, sizes)
        if view is None:
            raise _no_view(call, x, sizes)
        return view
    if isinstance(x.packed, RaggedTensor):
        return _view_of_levels(call, x, sizes)
    before, behind = tuple(x.packed.shape)[: place - 1], tuple(x.packed.shape)[place:]
    inner = prod(behind)
    at = next((dim for dim, size in enumerate(sizes) if isinstance(size, RaggedSize)), None)
    if at is not None:
        if sum([isinstance(size, RaggedSize) for size in sizes]) > 1:  # a row of pixels as an image again
            view = viewed_shapes(as_shapes(x), sizes)
            if view is None:
                raise _no_view(call, x, sizes)
            return view
        target = sizes[at].partition
        lead, rest = sizes[1:at], sizes[at + 1 :]
        if at and sizes[0] in (part.count, -1) and not any(isinstance(size, RaggedSize) for size in rest):
            factor = _factor(lead, rest, before, behind)
            if factor and part.times(factor).same(target) and (factor == 1 or place == at):
                shape = (*_filled(lead, prod(before)), part.total * factor, *_filled(rest, inner // factor))
                return make(reshape(x.packed, shape), part.times(factor), at)
        raise _no_view(call, x, sizes)
    if not sizes:
        return reshape(x.packed, sizes)
    if sizes[0] in (part.count, -1) and len(sizes) > 1 and sizes.count(-1) - (sizes[0] == -1) == 1:
        at = len(sizes) - 1 - sizes[::-1].index(-1)
        lead, rest = sizes[1:at], sizes[at + 1 :]
        if prod(lead) == prod(before) and prod(rest) and inner % prod(rest) == 0:
            factor = inner // prod(rest)
            if factor == 1 or place == at:
                return make(reshape(x.packed, (*lead, part.total * factor, *rest)), part.times(factor), at)
    known = [size for size in sizes if size != -1]
    if place == 1 and (sizes[0] in (-1, part.total) or len(sizes) == 1):
        return reshape(x.packed, sizes)
    if prod(known) == x.numel() and part.count and not (part.lengths != part.longest).any():
        return reshape(x.to_padded(), sizes)  # all rows are equally long
    raise _no_view(call, x, sizes)


def _factor(lead: tuple, rest: tuple, before: tuple, behind: tuple) -> int:
    """How many elements of the ragged dim one becomes; 0 when the dims do not fit."""
    inner = prod(behind)
    if (-1 not in lead and prod(lead) != prod(before)) or (-1 in lead and prod(before) % max(-prod(lead), 1)):
        return 0
    if -1 in rest:
        return 1
    return inner // prod(rest) if prod(rest) and inner % prod(rest) == 0 else 0 if inner or prod(rest) else 1


def _filled(sizes: tuple, count: int) -> tuple:
    if -1 not in sizes:
        return sizes
    known = max(-prod(sizes), 1)
    return tuple([count // known if size == -1 else size for size in sizes])


def _no_view(call: Call, x: RaggedTensor, sizes: tuple[Any, ...]) -> ShapeError:
    part = x.partition
    return ShapeError(
        f"{call.name}: a ragged tensor of shape {tuple(x.shape)} cannot become {sizes}. Dim 0 counts the rows ({part.count}) and the ragged dim is "
        f"x.shape[{max(x.place, 1)}] or -1, with the sizes in front of it and behind it as they are together; (-1, *) or ({part.total}, *) "
        f"gives the elements of all rows."
    )


def _view_of_levels(call: Call, x: RaggedTensor, sizes: tuple[Any, ...]) -> Any:
    """The upper level stays where it is named, by its size or by -1 in front of that of the lower one; else -1 is all words of a row."""
    part = x.partition
    if len(sizes) > 1 and sizes[0] in (part.count, -1):
        upper, lower = sizes[1], any([isinstance(size, RaggedSize) for size in sizes[2:]])
        if part.same(upper.partition) if isinstance(upper, RaggedSize) else upper == -1 and lower:
            inner = viewed(call, x.packed, (x.packed.partition.count, *sizes[2:]))
            if isinstance(inner, RaggedTensor):
                return x.with_packed(inner)
        elif isinstance(upper, int) and upper == -1:
            return viewed(call, merged_levels(x), sizes)
    if sizes and sizes[0] == -1:
        return viewed(call, x.packed, sizes)
    raise _no_view(call, x, sizes)


def merged_levels(x: RaggedTensor) -> RaggedTensor:
    """(B, j, j, *) as (B, j, *): the rows of the lower level behind one another."""
    inner = x.packed
    ends = inner.partition.offsets[x.partition.offsets]
    return make(inner.packed, Partition(np.diff(ends), ends), inner.place)


@ragged_rule("flatten", "ravel", kind="rows")
def flatten(call: Call) -> Any:
    """Dims from 0 on: the elements of all rows (dense). The ragged dim with dims behind it: a longer ragged dim."""
    x = call["input"]
    rank = x.ndim
    first = normalize_dim(call.name, call.get("start_dim", 0), rank)
    last = normalize_dim(call.name, call.get("end_dim", -1), rank)
    if first >= last:
        if first > last:
            raise ShapeError(f"flatten: start_dim={first} comes behind end_dim={last}.")
        return x
    place, reshape = x.place, registry["reshape"].function
    if isinstance(x.partition, Shapes):
        if last == rank - 1 and first < 2:
            return x.packed if first == 0 else make(x.packed, Partition(x.partition.lengths, x.partition.offsets))
        if not first:
            raise call.refuse("rows with several ragged dims flatten from dim 1 on, or as a whole.")
        return grouped(call)
    if isinstance(x.packed, RaggedTensor):
        if first > 1:
            return x.with_packed(_flattened(x.packed, first - 1, last - 1))
        if first == 0:
            return x.packed if last == 1 else _flattened(x.packed, 0, last - 1)
        merged = merged_levels(x)
        return merged if last == 2 else _flattened(merged, 1, last - 1)
    shape = tuple(x.packed.shape)
    if first == 0:
        if last < place:
            raise call.refuse(
                f"dims 0 to {last} lie in front of the ragged dim {place}; flatten up to it, or from dim 1 on."
            )
        return (
            reshape(x.packed.movedim(place - 1, 0), (-1, *shape[last:]))
            if place > 1
            else reshape(x.packed, (-1, *shape[last:]))
        )
    low, high = first - 1, last - 1
    if not low <= place - 1 <= high:
        flat = reshape(x.packed, (*shape[:low], prod(shape[low : high + 1]), *shape[high + 1 :]))
        return x.with_packed(flat, place - (high - low) if place - 1 > high else place)
    if low < place - 1:
        return grouped(call)
    factor = prod(shape[low + 1 : high + 1])
    flat = reshape(x.packed, (*shape[:low], shape[low] * factor, *shape[high + 1 :]))
    return make(flat, x.partition.times(factor), place)


def _flattened(x: Any, first: int, last: int) -> Any:
    return run("flatten", x, first, last)


@ragged_rule("unflatten", kind="rows")
def unflatten(call: Call) -> Any:
    """A dim as several; a ragged one too, where the sizes divide every row."""
    x, sizes = call["input"], call["sizes"]
    dim = normalize_dim("unflatten", call["dim"], x.ndim)
    if isinstance(x.partition, Shapes) and dim:
        shape = tuple(x.shape)
        return viewed(call, x, (*shape[:dim], *sizes, *shape[dim + 1 :]))
    if dim in (0, x.place) and (not dim or isinstance(x.packed, RaggedTensor)):
        raise call.refuse(
            f"dim {dim} of a ragged tensor of shape {tuple(x.shape)} is {'the rows' if not dim else 'ragged'} and cannot be divided. Use "
            f"x.values() or x.unbind()."
        )
    if dim == x.place and any([isinstance(size, RaggedSize) for size in sizes]):
        shape = tuple(x.shape)
        return viewed(call, x, (*shape[:dim], *sizes, *shape[dim + 1 :]))
    if dim == x.place:
        return _divided(call, x, tuple(sizes))
    divided = call.with_(input=x.packed, dim=dim - 1)
    more = divided.ndim - x.packed.ndim
    return x.with_packed(divided, x.place + more if dim < x.place else x.place)


def _divided(call: Call, x: RaggedTensor, sizes: tuple[Any, ...]) -> Any:
    """The ragged dim as several: (-1, k) has rows of a k-th of the length, other sizes go row by row."""
    part, place = x.partition, x.place
    size = abs(prod(sizes))
    if sizes.count(-1) != 1 or (part.lengths % max(size, 1)).any() or not size:
        row = int((part.lengths % max(size, 1) if sizes.count(-1) == 1 else part.lengths != size).argmax())
        raise ShapeError(
            f"unflatten: the ragged dim {place} becomes {sizes}, but row {row} has {part.lengths[row] if part.count else 0} elements (lengths "
            f"{shown(part.lengths)}). One of the sizes must be -1, and the others divide every length; pad the rows up to that."
        )
    if sizes[0] != -1:
        return grouped(call)
    before, behind = tuple(x.packed.shape)[: place - 1], tuple(x.packed.shape)[place:]
    divided = run("reshape", x.packed, (*before, part.total // size, *sizes[1:], *behind))
    return make(divided, Partition(part.lengths // size), place)


@ragged_rule("unsqueeze", kind="rows")
def unsqueeze(call: Call) -> Any:
    """A dim of size 1; in front of the rows, one row of rows."""
    x = call["input"]
    dim = normalize_dim("unsqueeze", call["dim"], x.ndim + 1)
    part = x.partition
    if dim == 0:
        return make(x, Partition(np.array([part.count], np.int64)))
    if isinstance(part, Shapes):
        ones = np.insert(part.sizes, dim - 1, 1, axis=1)
        return make(x.packed, Shapes(ones, (*part.fixed[: dim - 1], 1, *part.fixed[dim - 1 :])), 0)
    if isinstance(x.packed, RaggedTensor):
        if dim == 1:
            return make(x, Partition(np.ones(part.count, np.int64)))
        return x.with_packed(call.with_(input=x.packed, dim=dim - 1))
    return x.with_packed(call.with_(input=x.packed, dim=dim - 1), x.place + (dim <= x.place))


@ragged_rule("squeeze", kind="rows")
def squeeze(call: Call) -> Any:
    """Dims of size 1 beside the ragged one go; the rows and the ragged dim stay."""
    x, asked = call["input"], (call["dim"], *call["dims"]) if call["dims"] else call["dim"]
    rank, shape = x.ndim, tuple(x.shape)
    dims = range(rank) if asked is None else asked if isinstance(asked, (tuple, list)) else (asked,)
    dims = sorted({normalize_dim("squeeze", dim, rank) for dim in dims})
    gone = [dim for dim in dims if dim and isinstance(shape[dim], int) and shape[dim] == 1]
    part = x.partition
    if not gone:
        return x
    if isinstance(part, Shapes):
        kept = [dim for dim in range(part.sizes.shape[1]) if dim + 1 not in gone]
        return of_sizes(x.packed, Shapes(part.sizes[:, kept], tuple(part.fixed[dim] for dim in kept)))
    packed = x.packed
    return x.with_packed(
        call.with_(input=packed, dim=tuple(dim - 1 for dim in gone)), x.place - sum(dim < x.place for dim in gone)
    )


@ragged_rule("permute", kind="rows")
def permute(call: Call) -> Any:
    """Dims of each row in another order; the rows stay in front."""
    x, dims = call["input"], tuple(call["dims"])
    rank = x.ndim
    dims = tuple([normalize_dim("permute", dim, rank) for dim in dims])
    if dims == tuple(range(rank)):
        return x
    if dims[0] != 0:
        raise call.refuse(
            f"dim 0 counts the rows of a ragged tensor and stays in front; got the order {dims} for shape {tuple(x.shape)}. Keep the batch "
            f"first (batch_first=True), or use x.to_padded()."
        )
    if isinstance(x.partition, Shapes):
        return grouped(call)
    if isinstance(x.packed, RaggedTensor):
        if dims[1] != 1:
            raise call.refuse(f"the upper level of rows (dim 1) stays in front of the lower one; got the order {dims}.")
        return x.with_packed(run("permute", x.packed, tuple([dim - 1 for dim in dims[1:]])))
    order = tuple([dim - 1 for dim in dims[1:]])
    return x.with_packed(run("permute", x.packed, order), dims.index(x.place))


@ragged_rule("expand", kind="rows")
def expand_op(call: Call) -> Any:
    """Dims of size 1 stretch as in a dense tensor; the ragged dim and the rows stay."""
    return expanded(call, call["input"], tuple(call["shape"]))


@ragged_rule("expand.public", "broadcast_to", "expand_copy", kind="rows")
def expand_public(call: Call) -> Any:
    """As `expand`; a dense tensor may stretch to a ragged shape."""
    sizes = call.get("sizes")
    return expanded(call, call["input"], _sizes((call["size"],), None) if sizes is None else _sizes(sizes, None))


@ragged_rule("broadcast_tensors", kind="rows")
def broadcast_tensors(call: Call) -> Any:
    """All of them with the rows and the dims that their sum has."""
    total, *others = call["tensors"]
    for other in others:
        total = run("add.public", total.detach(), other.detach())
    return tuple([run("expand_as", tensor, total) for tensor in call["tensors"]])


def expanded(call: Call, x: Any, sizes: tuple[Any, ...], other: Any = None) -> Any:
    if isinstance(getattr(other, "partition", None), Shapes) and not isinstance(getattr(x, "partition", None), Shapes):
        return grouped(call)
    if not isinstance(x, RaggedTensor):
        packed = repeated(call.name, x, other)
        shape = tuple(other.packed.shape)
        return other.with_packed(
            run("expand.public", packed, shape)
            if not isinstance(other.packed, RaggedTensor)
            else packed.expand_as(other.packed)
        )
    part = x.partition
    if is_deep(other) and not is_deep(x) and x.place == 1 and part.same(other.partition):
        return other.with_packed(run("expand_as", x.packed, other.packed))
    shape = tuple(x.shape)
    if is_deep(x) and part.count == 1 and sizes == tuple(x.packed.shape):
        return x.packed  # `arange(T).unsqueeze(0).expand(B, T)`: one row of all rows
    lead = len(sizes) - len(shape)
    for dim, size in enumerate(shape):
        asked = sizes[lead + dim] if lead >= 0 else size
        if (not isinstance(size, int) or dim == 0) and asked != size and asked != -1:
            lead = -1
    if isinstance(part, Shapes):
        view = expanded_shapes(x, sizes)
        if view is not None:
            return view
        lead = -1
    if lead:
        raise call.refuse(
            f"a ragged tensor of shape {shape} cannot be stretched to {tuple(sizes)}: only dims of size 1 beside the ragged ones stretch."
        )
    if isinstance(x.packed, RaggedTensor):
        return x.with_packed(expanded(call, x.packed, (-1, *sizes[2:])))
    more = [size.partition.count for dim, size in enumerate(sizes) if isinstance(size, RaggedSize) and dim != x.place]
    if more and set(more) == {part.count}:  # one more ragged dim of each row
        own = {"input": x, "sizes": (-1, *sizes[1:])}
        return grouped(Call("expand.public", registry["expand.public"], own))
    if more and set(more) == {part.total} and x.place == 1:  # a level below
        return x.with_packed(run("expand.public", x.packed, (part.total, *sizes[2:])))
    target = list(sizes[1:])
    target[x.place - 1] = part.total
    target = [have if want == -1 else want for want, have in zip(target, x.packed.shape, strict=True)]
    return x.with_packed(run("expand.public", x.packed, tuple(target)))
