"""Ops that find or use places of elements: gather and scatter, masks, `nonzero`, `unique`, padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.base.shapes import normalize_dim
from dynograd.errors import ShapeError
from dynograd.ops.op import registry, rows_with
from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.elementwise import aligned
from dynograd.ragged.families.groups import grouped, index_of
from dynograd.ragged.families.indexing import masked
from dynograd.ragged.families.reductions import across_rows, all_elements
from dynograd.ragged.families.selecting import gathered, rows_at
from dynograd.ragged.families.within_rows import moved_along_rows
from dynograd.ragged.invoking import run
from dynograd.ragged.making import ragged_tensor
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.creation import full

__all__ = ["padded_rows"]


@ragged_rule(
    *rows_with("ragged", "places"),
    kind="groups",
    note="along dims beside the ragged one on packed elements; along it, each row has places of its own",
)
def places_of_rows(call: Call) -> Any:
    """Each row picks from, or writes into, itself."""
    names = [
        name for name in ("input", "index", "indices", "src", "source") if isinstance(call.get(name), RaggedTensor)
    ]
    first = call[names[0]]
    dim = call.get("dim")
    rank = call["input"].ndim
    if dim is None:
        return grouped(call)
    dim = normalize_dim(call.name, dim, rank)
    if not dim:
        if call.name in ("gather", "scatter", "scatter_add", "scatter_reduce", "take_along_dim", "scatter_number"):
            raise across_rows(call, first)
        return _of_whole_rows(call)
    simple = not isinstance(first.partition, Shapes) and isinstance(call["input"], RaggedTensor) and dim != first.place
    if simple and call.name != "diagonal_scatter":
        same = all(call[name].place == first.place and call[name].partition.same(first.partition) for name in names)
        needed = [name for name in ("index", "indices", "src", "source") if getattr(call.get(name), "ndim", 0) > 1]
        if same and all(name in names for name in needed):
            return first.with_packed(call.with_(**{name: call[name].packed for name in names}, dim=dim - 1))
    if call.name in ("gather", "scatter", "scatter_add", "scatter_reduce", "scatter_number") and dim == first.place:
        result = moved_along_rows(call, call["input"], call["index"])
        if result is not None:
            return result
    return grouped(call)


def _of_whole_rows(call: Call) -> Any:
    """index_copy, index_fill, index_add, select_scatter, slice_scatter along the rows: written row by row."""
    raise call.refuse(
        "along dim 0, the rows, whose lengths differ. Put rows together with cat, x[[2, 0, 1]] or where(row_mask.reshape(-1, 1), a, b)."
    )


@ragged_rule("take", "put", kind="packed")
def take(call: Call) -> Any:
    """Numbers count all real elements; a ragged index gives ragged elements."""
    x, index = call["input"], call["index"]
    like = index if isinstance(index, RaggedTensor) else None
    if call.name == "put":
        source = call["source"]
        inner = (
            {"index": all_elements(index), "source": all_elements(source)}
            if like is not None
            else {"source": all_elements(source)}
        )
        return x.with_packed(call.with_(input=x.packed, **inner))
    elements = call.with_(input=all_elements(x), index=index.packed if like is not None else index)
    return elements if like is None else like.with_packed(elements)


@ragged_rule("masked_select", kind="rows")
def masked_select(call: Call) -> Any:
    """(B, j): of each row the elements where the mask is true."""
    aligned_operands = aligned(call.name, {"input": call["input"], "mask": call["mask"]})
    if aligned_operands is None:
        return grouped(call)
    like, packed = aligned_operands
    if isinstance(like.packed, RaggedTensor):
        return like.with_packed(run("masked_select", packed["input"], packed["mask"]))
    shape = (
        tuple(run("mul", packed["input"].detach(), packed["mask"]).shape)
        if not isinstance(like.partition, Shapes)
        else None
    )
    stretched = [
        operand if shape is None or tuple(operand.shape) == shape else run("expand.public", operand, shape)
        for operand in packed.values()
    ]
    x, mask = [like.with_packed(operand) for operand in stretched]
    if like.place > 1:
        order = (0, like.place, *[dim for dim in range(1, like.ndim) if dim != like.place])
        if call["input"].ndim > 2:
            rows = [run("masked_select", row, real) for row, real in zip(x.unbind(), mask.unbind(), strict=True)]
            return ragged_tensor(rows, ragged_dims=1)
        x, mask = x.permute(order), mask.permute(order)  # type: ignore[assignment]
    return masked(x, mask)


@ragged_rule("masked_scatter", kind="packed")
def masked_scatter(call: Call) -> Any:
    """Elements of the source in the order of the rows."""
    aligned_operands = aligned(call.name, {"input": call["input"], "mask": call["mask"]})
    if aligned_operands is None or aligned_operands[0].place > 1:
        raise call.refuse(
            "the elements of the source go in the order of the rows: the ragged dim must be dim 1. Use where(mask, a, b)."
        )
    return aligned_operands[0].with_packed(call.with_(**aligned_operands[1], source=all_elements(call["source"])))


@ragged_rule("nonzero", "nonzero.public", "argwhere", "nonzero_static", kind="packed")
def nonzero(call: Call) -> Any:
    """(n, dims) dense: the row, the place in the row, and the rest."""
    x = call["input"]
    places = _places_of(x)
    if call.name == "nonzero_static":
        size, value = call["size"], call["fill_value"]
        places = places[:size]
        missing = size - places.shape[0]
        if missing > 0:
            filler = full((missing, x.ndim), value, dtype=places.dtype, device=places.device)
            places = run("cat", [places, filler], 0)
        return places
    return tuple(run("unbind", places, 1)) if call.get("as_tuple") else places


def _places_of(x: RaggedTensor) -> Any:
    part = x.partition
    if isinstance(part, Shapes):
        raise_for = [place for place, size in enumerate(part.fixed, 1) if size is None]
        rows = [run("nonzero", row) for row in x.detach().unbind()]
        numbers = index_of(
            np.repeat(np.arange(part.count, dtype=np.int64), [row.shape[0] for row in rows]), x.packed
        ).reshape(-1, 1)
        assert raise_for
        return run("cat", [numbers, run("cat", rows, 0)], 1)
    inner = _places_of(x.packed) if isinstance(x.packed, RaggedTensor) else run("nonzero", x.packed)
    at = x.place - 1
    tokens = inner[:, at]
    rows = part.tensor("rows", x.device)[tokens].reshape(-1, 1)
    places = part.tensor("places", x.device)[tokens].reshape(-1, 1)
    places_of_dims = run("cat", [rows, inner[:, :at], places, inner[:, at + 1 :]], 1)
    if x.place > 1:  # rows in order
        order = run("argsort", rows.reshape(-1), 0, False)
        places_of_dims = places_of_dims[order]
    return places_of_dims


@ragged_rule("unique", "unique.public", "unique_consecutive", "bincount", "bincount.public", kind="packed")
def distinct(call: Call) -> Any:
    """Of all real elements; where each is found stands in the rows."""
    x = call["input"]
    if not isinstance(x, RaggedTensor):
        return call.with_(weights=all_elements(call["weights"]))
    if call.get("dim") is not None:
        raise call.refuse(
            "slices along a dim: rows differ in length. Use x.values() for the distinct elements of the packed dim."
        )
    changed = {"weights": all_elements(call["weights"])} if isinstance(call.get("weights"), RaggedTensor) else {}
    result = call.with_(input=all_elements(x), **changed)
    count = all_elements(x).shape[0]
    if not call.get("return_inverse") or not isinstance(result, tuple):
        return result
    shaped = [
        x.with_packed(part.reshape(tuple(x.packed.shape))) if number == 1 and part.shape[0] == count else part
        for number, part in enumerate(result)
    ]
    return tuple(shaped)


@ragged_rule("pad", kind="rows", note="numbers added to each row; in front of and behind the ragged dim too")
def pad(call: Call) -> Any:
    """The ragged dim of each row grows, or shrinks where the padding is negative."""
    x, sides = call["input"], [int(side) for side in call["pad"]]
    rank = x.ndim
    if len(sides) % 2 or len(sides) // 2 > rank:
        raise call.refuse(f"expected pairs of sides for at most {rank} dims, got {tuple(sides)}.")
    pairs = {rank - 1 - number: (sides[2 * number], sides[2 * number + 1]) for number in range(len(sides) // 2)}
    pairs = {dim: pair for dim, pair in pairs.items() if pair != (0, 0)}
    if 0 in pairs:
        raise across_rows(call, x)
    if call["mode"] != "constant" or isinstance(x.partition, Shapes) or isinstance(x.packed, RaggedTensor):
        if isinstance(x.packed, RaggedTensor) and 1 not in pairs:
            return x.with_packed(call.with_(input=x.packed))
        return grouped(call)
    value = 0 if call["value"] is None else call["value"]
    own = pairs.pop(x.place, None)
    if own is not None:
        x = padded_rows(x, *own, value)
    if not pairs:
        return x
    flat = [0] * (2 * x.packed.ndim)
    for dim, pair in pairs.items():
        at = 2 * (x.packed.ndim - dim)
        flat[at : at + 2] = pair
    return x.with_packed(run("pad", x.packed, flat, "constant", value))


def padded_rows(x: RaggedTensor, before: int, behind: int, value: Any) -> RaggedTensor:
    """`before` and `behind` elements of `value` at the ends of each row; negative numbers take away."""
    part, place = x.partition, x.place
    short = part.lengths + before + behind < 0
    if short.any():
        row = int(short.argmax())
        raise ShapeError(f"pad: row {row} has {part.lengths[row]} elements, too few to take {-before - behind} away.")
    padded = Partition(part.lengths + before + behind)
    first = max(-before, 0)
    kept = Partition(np.maximum(np.minimum(part.lengths, part.lengths + behind) - first, 0))
    if min(before, behind) < 0:
        x = make(gathered(x, Partition.places_from(part.offsets[:-1] + first, kept)), kept, place)
        if max(before, behind) <= 0:
            return x
    packed = x.packed if place == 1 else x.packed.movedim(place - 1, 0)
    base = full((padded.total, *packed.shape[1:]), value, dtype=packed.dtype, device=packed.device)
    places = Partition.places_from(padded.offsets[:-1] + max(before, 0), kept)
    filled = base.index_copy(0, index_of(places, packed), packed)
    return make(filled if place == 1 else filled.movedim(0, place - 1), padded, place)


@ragged_rule("repeat", "repeat.public", "tile", kind="rows")
def repeat(call: Call) -> Any:
    """Dim 0: the rows several times; the ragged dim: each row several times behind itself."""
    x = call["input"]
    counts = (
        call["repeats"]
        if call.get("repeats") is not None
        else call.get("dims")
        if call.get("dims") is not None
        else call["sizes"]
    )
    if len(counts) == 1 and isinstance(counts[0], (tuple, list)):
        counts = counts[0]
    counts = tuple([int(count) for count in counts])
    if call.name == "tile":
        counts = (1,) * (x.ndim - len(counts)) + counts
    if len(counts) != x.ndim:
        raise call.refuse(f"expected one number for each of {x.ndim} dims, got {counts}. Use unsqueeze for new dims.")
    cat = registry["cat.public"].function
    for dim, count in enumerate(counts):
        if count != 1 and count > 0:
            x = cat([x] * count, dim)
        elif count == 0:
            x = x[(*(slice(None),) * dim, slice(0, 0))]
    return x


@ragged_rule("repeat_interleave.public", kind="rows")
def repeat_interleave(call: Call) -> Any:
    """Rows, elements of each row, or features several times each; `repeats` may be ragged, one number for each element."""
    x, repeats, dim = call["input"], call["repeats"], call["dim"]
    if dim is None:
        inner = all_elements(repeats) if isinstance(repeats, RaggedTensor) else repeats
        return call.with_(input=all_elements(x), repeats=inner)
    if not isinstance(x, RaggedTensor):
        raise call.refuse("repeats is ragged and input is not.")
    dim = normalize_dim("repeat_interleave", dim, x.ndim)
    if isinstance(x.partition, Shapes) and dim:
        return grouped(call)
    if dim and dim != x.place:
        return x.with_packed(call.with_(input=x.packed, dim=dim - 1))
    part = x.partition
    size = part.count if not dim else part.total
    if isinstance(repeats, RaggedTensor):
        part.check_same("repeat_interleave", repeats.partition, ("the", "the repeats'"))
        repeats = repeats.packed
    counts = np.asarray(repeats.cpu().array if hasattr(repeats, "array") else repeats, np.int64).reshape(-1)
    if counts.size not in (1, size):
        raise call.refuse(
            f"expected one number, or one for each of {size} {'elements' if dim else 'rows'}, got {counts.size}."
        )
    counts = np.broadcast_to(counts, (size,))
    numbers = np.repeat(np.arange(size, dtype=np.int64), counts)
    if not dim:
        return rows_at(x, numbers)
    lengths = np.diff(np.concatenate(([0], np.cumsum(counts)))[part.offsets])
    return make(gathered(x, numbers), Partition(lengths), x.place)
