"""Ops along one dim that keep its size: softmaxes, scans, sorts, flips. Along the ragged dim each row is for itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dynograd.base.shapes import check_whole, normalize_dim
from dynograd.errors import ShapeError
from dynograd.interpreter import named_outputs
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.ops.index.indices import FULL
from dynograd.ops.op import registry
from dynograd.ragged.calls import Call, ragged_rule, results
from dynograd.ragged.families import segmented
from dynograd.ragged.families.groups import grouped, index_of
from dynograd.ragged.families.reductions import across_rows, flat_rows, refuse_short
from dynograd.ragged.families.selecting import rows_at
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.ragged.uniform import as_dense, as_ragged, lines_of

__all__ = ["along", "reordered"]


@ragged_rule("softmax", "log_softmax", kind="segments", note="along the ragged dim by segments")
def softmaxes(call: Call) -> Any:
    """Rows sum to 1; an empty row stays empty."""
    x = call["input"]
    if isinstance(x.partition, Shapes) and not batch_invariant():
        if normalize_dim(call.name, call["dim"], x.ndim) == x.ndim - 1:
            return x.with_packed(call.with_(input=lines_of(x), dim=1).packed)
    return along(
        call, call["dim"], lambda x: grouped(call) if batch_invariant() else _of_rows(x, getattr(segmented, call.name))
    )


@ragged_rule(
    "cumsum", "sum_onwards", "cumprod", "logcumsumexp", kind="segments",
    note="along the ragged dim by segments; products of whole numbers, rows of equal length together",
)  # fmt: skip
def scans(call: Call) -> Any:
    """Running sums and products of each row."""

    def of_rows(x: RaggedTensor) -> Any:
        if call.name == "cumsum" and not (x.dtype.is_complex or x.dtype.is_floating_point):
            return _of_rows(x, segmented.cumsum_of_integers)
        if x.dtype.is_complex or not x.dtype.is_floating_point or batch_invariant():
            return grouped(call)
        return _of_rows(x, getattr(segmented, call.name))

    return along(call, call["dim"], of_rows)


@ragged_rule(
    "sort", "argsort", "cummax", "cummin", kind="segments",
    note="along the ragged dim by segments; along other dims on packed elements",
)  # fmt: skip
def in_order(call: Call) -> Any:
    """Each row for itself; places are counted from its first element."""
    how = call.name if call.name.startswith("cum") else "descending" if call["descending"] else "ascending"

    def of_rows(x: RaggedTensor) -> Any:
        flat, part, rest = flat_rows(x, [])
        places = segmented.places(flat, part, how)
        back = partial(_back, x, part, rest)
        if call.name == "argsort":
            return back(places)
        return named_outputs(call.op)(back(segmented.picked(flat, part, places)), back(places))

    return along(call, call["dim"], of_rows)


@ragged_rule(
    "reversed_along", "behind_one", kind="groups",
    note="along the ragged dim, rows of equal length together; along other dims on packed elements",
)  # fmt: skip
def of_one_dim(call: Call) -> Any:
    """Along the ragged dim each row for itself."""
    return along(call, call["dim"], lambda x: grouped(call))


@ragged_rule("unfold", "unfold.public", kind="rows")
def unfold(call: Call) -> Any:
    """Windows of each row, which must be as long as one."""
    size, step = call["size"], call["step"]

    def of_rows(x: RaggedTensor) -> Any:
        part, place = x.partition, x.place
        check_whole("unfold", size=size, step=step)
        if size < 0 or step <= 0:
            raise ShapeError(
                f"unfold: expected a size of at least 0 and a step above 0, got size {size} and step {step}."
            )
        if part.count:
            refuse_short(call, part, size, f"maximum size for a window at dimension {place} is that of the row")
        windows = Partition((part.lengths - size) // step + 1)
        number = np.arange(windows.total, dtype=np.int64) - np.repeat(windows.offsets[:-1], windows.lengths)
        first = np.repeat(part.offsets[:-1], windows.lengths) + number * step
        index = index_of(first[:, None] + np.arange(size), x.packed)
        elements = run("index", x.packed, [index], (*(FULL,) * (place - 1), 0))
        rest = range(elements.ndim)
        return make(run("permute", elements, (*rest[:place], *rest[place + 1 :], place)), windows, place)

    x = call["input"]
    if normalize_dim("unfold", call["dimension"], x.ndim) == x.place and not isinstance(x.packed, RaggedTensor):
        return of_rows(x)
    return along(call, call["dimension"], of_rows, "dimension")


@ragged_rule("renorm", kind="packed")
def renorm(call: Call) -> Any:
    """Slices of a dim beside the ragged one, each over all real elements."""
    x = call["input"]
    return along(call, call["dim"], lambda _: x.with_packed(call.with_(input=x.packed, dim=x.place - 1)))


def along(call: Call, dim: int, of_rows: Any, name: str = "dim", keeps_rows: bool = True) -> Any:
    """The op along one dim; `of_rows(x)` where that is the ragged one, which results have too if `keeps_rows`."""
    x = call["input"]
    dim = normalize_dim(call.name, dim, x.ndim)
    if not dim:
        raise across_rows(call, x)
    if isinstance(x.partition, Shapes):
        return grouped(call)
    if dim == x.place:
        if isinstance(x.packed, RaggedTensor):
            raise across_rows(call, x, dim)
        dense = as_dense(x)
        if dense is None:
            return of_rows(x)
        return results(call.with_(input=dense), lambda result: as_ragged(result, x) if keeps_rows else result)
    return results(call.with_(input=x.packed, **{name: dim - 1}), x.with_packed)


def _of_rows(x: RaggedTensor, function: Any) -> RaggedTensor:
    """A function of (total, D) and a partition, on packed elements of any dims."""
    flat, part, rest = flat_rows(x, [])
    return _back(x, part, rest, function(flat, part))


def _back(x: RaggedTensor, part: Partition, rest: tuple[int, ...], flat: Any) -> RaggedTensor:
    """(total, D) as the packed elements of `x`."""
    place = x.place
    if len(rest) != 1:
        flat = run("view", flat, (part.total, *rest))
    if place > 1:
        flat = run("permute", flat, (*range(1, place), 0, *range(place, len(rest) + 1)))
    return x.with_packed(flat)


def reordered(x: RaggedTensor, key: Any, places: Any) -> RaggedTensor:
    """The elements of each row in another order: `places()` gives, for each, where in the packed dim it comes from."""
    packed = x.packed
    index = x.partition.kept(("order", key, str(packed.device)), lambda: index_of(places(), packed))
    return x.with_packed(run("index", packed, [index], (*(FULL,) * (x.place - 1), 0)))


@ragged_rule("flip", kind="rows")
def flip(call: Call) -> Any:
    """The ragged dim: the elements of each row the other way round. The rows: in reverse order."""
    x, dims = call["input"], [normalize_dim("flip", dim, call["input"].ndim) for dim in call["dims"]]
    if isinstance(x.partition, Shapes) or (isinstance(x.packed, RaggedTensor) and x.place in dims):
        if 0 in dims:
            x, dims = _rows_reversed(x), [dim for dim in dims if dim]
        if isinstance(x.packed, RaggedTensor) and 1 in dims:
            x, dims = x.with_packed(_level_reversed(x)), [dim for dim in dims if dim != 1]
        return grouped(Call(call.key, call.op, {"input": x, "dims": tuple(dims)})) if dims else x
    if 0 in dims:
        x = _rows_reversed(x)
    if x.place in dims:
        part = x.partition

        def places() -> np.ndarray:
            return np.repeat(part.offsets[:-1] + part.offsets[1:] - 1, part.lengths) - np.arange(
                part.total, dtype=np.int64
            )

        x = reordered(x, "flip", places)
    rest = tuple([dim - 1 for dim in dims if dim not in (0, x.place)])
    return x.with_packed(run("flip", x.packed, rest)) if rest else x


def _rows_reversed(x: RaggedTensor) -> RaggedTensor:
    return rows_at(x, np.arange(x.partition.count, dtype=np.int64)[::-1])


def _level_reversed(x: RaggedTensor) -> RaggedTensor:
    part = x.partition
    return rows_at(x.packed, np.repeat(part.offsets[:-1] + part.offsets[1:] - 1, part.lengths) - np.arange(part.total))


@ragged_rule("roll", kind="rows")
def roll(call: Call) -> Any:
    """The ragged dim: each row goes round in itself. The rows: they go round."""
    x = call["input"]
    for shift, dim in zip(call["shifts"], call["dims"], strict=True):
        x = _rolled(call, x, int(shift), normalize_dim("roll", dim, x.ndim))
    return x


def _rolled(call: Call, x: RaggedTensor, shift: int, dim: int) -> RaggedTensor:
    part = x.partition
    if not dim:
        return rows_at(x, (np.arange(part.count, dtype=np.int64) - shift) % max(part.count, 1))
    if isinstance(part, Shapes):
        return grouped(Call(call.key, call.op, {"input": x, "shifts": (shift,), "dims": (dim,)}))
    if dim != x.place:
        return x.with_packed(run("roll", x.packed, (shift,), (dim - 1,)))

    def places() -> np.ndarray:
        lengths = np.repeat(part.lengths, part.lengths)
        return np.repeat(part.offsets[:-1], part.lengths) + (part.array("places") - shift) % np.maximum(lengths, 1)

    if isinstance(x.packed, RaggedTensor):
        return x.with_packed(rows_at(x.packed, places()))
    return reordered(x, ("roll", shift), places)


@ragged_rule("topk", "topk.public", kind="segments")
def topk(call: Call) -> Any:
    """Along the ragged dim (B, k) of each row, which needs k elements; along other dims on packed elements."""

    x, k = call["input"], int(call["k"])
    if normalize_dim("topk", call["dim"], x.ndim) == x.place and not isinstance(x.packed, RaggedTensor):
        refuse_short(call, x.partition, k, "selected index k out of range")

    def of_rows(x: RaggedTensor) -> Any:
        part = x.partition
        if not call["sorted"]:
            return grouped(call)
        flat, part, rest = flat_rows(x, [])
        places = segmented.places(flat, part, "largest" if call["largest"] else "smallest", k)
        picked = [
            run("view", picks, (part.count, k, *rest)) for picks in (segmented.picked(flat, part, places, k), places)
        ]
        if x.place > 1:
            order = (0, *range(2, x.place + 1), 1, *range(x.place + 1, x.ndim))
            picked = [run("permute", picks, order) for picks in picked]
        return named_outputs(registry["topk"])(*picked)

    return along(call, call["dim"], of_rows, keeps_rows=False)
