"""Batch rules of indexing, gathering and scattering: the batch is one more index, or one more dim in front."""

from __future__ import annotations

from typing import Any

from dynograd.base import dtypes
from dynograd.tensor.creation import arange
from dynograd.transforms.batching.batched import Batched, BatchError, run
from dynograd.transforms.batching.calls import Call, as_tensor, rule

_FULL = slice(None)


def numbers(call: Call, rank: int) -> Any:
    """0, 1, ... of the examples, with `rank` dims of size 1 behind."""
    place = next(call[name].device for name in call.op.array_names if hasattr(call[name], "device"))
    return run("view", arange(call.size, device=place), (call.size, *(1,) * rank))


def _indices(call: Call) -> tuple[list[Any], int] | None:
    """The index arrays, batched ones aligned behind dim 0, and the dims that they broadcast to; None: a mask per example."""
    values = [as_tensor(entry) for entry in call.original["indices"]]
    indices = []
    own = [type(value) is Batched and value.level is call.level for value in values]
    for entry, batched in zip(values, own, strict=True):
        if entry.dtype is dtypes.bool:
            if batched or len(values) > 1:
                return None
    rank = max([value.ndim for value in values])
    for entry, batched in zip(values, own, strict=True):
        if batched:
            shape = tuple(entry.shape)
            entry = run("view", entry.inner, (call.size, *(1,) * (rank - len(shape)), *shape))
        indices.append(entry)
    return indices, rank


def _apart(template: tuple) -> bool:
    """Whether full slices stand between index arrays: then NumPy puts the picked dims first."""
    places = [place for place, entry in enumerate(template) if type(entry) is int]
    return places[-1] - places[0] + 1 != len(places)


def _mask_error(name: str) -> BatchError:
    return BatchError(
        f"vmap: {name} with a mask that differs from example to example gives results of different shapes. Use where(mask, a, b), or "
        f"masked_fill; or multiply with the mask."
    )


class Places:
    """How an advanced index of one example reads for the batch: further index arrays, template, and how dims have to move."""

    def __init__(self, call: Call, template: tuple) -> None:
        ready = _indices(call)
        if ready is None:
            raise _mask_error(call.op.name)
        self.indices, self.rank = ready
        self.any = any(type(entry) is Batched and entry.level is call.level for entry in call.original["indices"])
        first = next(place for place, entry in enumerate(template) if type(entry) is int)
        if not self.any:
            self.template: tuple = (_FULL, *template)
            # picked dims stand where the first index array is, or in front of all when the arrays are apart
            self.home = 0 if _apart(template) else None
        else:
            self.template = (len(self.indices), *template)
            self.indices = [*self.indices, numbers(call, self.rank)]
            # with the batch as an index array: dims are (batch, picked..., kept...) if now apart, or already in front
            self.home = first if first and not _apart(template) else None
        self.boolean = ready[0][0].dtype is dtypes.bool
        if self.boolean and not self.any:
            self.rank = 1

    def out(self, result: Any) -> Any:
        """The op's result with the batch at dim 0 and the others as for one example."""
        if not self.any:
            if self.home is None:
                return result
            # (picked..., batch, kept...)
            order = (self.rank, *range(self.rank), *range(self.rank + 1, result.ndim))
            return run("permute", result, order)
        if self.home is None:
            return result
        # (batch, picked..., kept...) -> (batch, kept[:home], picked..., kept[home:])
        order = (
            0,
            *range(1 + self.rank, 1 + self.rank + self.home),
            *range(1, 1 + self.rank),
            *range(1 + self.rank + self.home, result.ndim),
        )
        return run("permute", result, order)

    def back(self, value: Any) -> Any:
        """The opposite of `out`, for values to be written or added."""
        if not self.any:
            if self.home is None:
                return value
            order = (*range(1, 1 + self.rank), 0, *range(1 + self.rank, value.ndim))
            return run("permute", value, order)
        if self.home is None:
            return value
        order = (
            0,
            *range(1 + self.home, 1 + self.home + self.rank),
            *range(1, 1 + self.home),
            *range(1 + self.home + self.rank, value.ndim),
        )
        return run("permute", value, order)


@rule("index")
def index(call: Call) -> Any:
    if _indices(call) is None:
        raise _mask_error(call.op.name)
    if "input" not in call.batched and all(
        not (type(array) is Batched and array.level is call.level) or array.dtype is not dtypes.bool
        for array in call.original["indices"]
    ):
        template = call["template"]
        if len(template) == 1:
            ready = _indices(call)
            if ready is not None and len(ready[0]) == 1:
                return run("index", call["input"], ready[0], template)
    places = Places(call, call["template"])
    return places.out(run("index", call.front("input"), places.indices, places.template))


@rule("index_backward")
def index_backward(call: Call) -> Any:
    places = Places(call, call["template"])
    return run(
        "index_backward", places.back(call.front("g")), places.indices, places.template, (call.size, *call["shape"])
    )


@rule("index_put_at")
def index_put_at(call: Call) -> Any:
    inner = call.front("input")
    values = call["values"]
    if _indices(call) is None:
        return _put_masked(call, inner, values)
    places = Places(call, call["template"])
    if values is not None:
        picked = places.out(run("index", inner.detach(), places.indices, places.template))
        values = as_tensor(values)
        if "values" in call.batched:
            shape = tuple(values.shape)
            while len(shape) > picked.ndim and shape[1] == 1:
                shape = (shape[0], *shape[2:])
            values = run("view", values, (shape[0], *(1,) * (picked.ndim - len(shape)), *shape[1:]))
        values = places.back(run("expand", values, tuple(picked.shape)))
    return run("index_put_at", inner, values, places.indices, places.template, call["accumulate"])


def _put_masked(call: Call, inner: Any, values: Any) -> Any:
    """One number written where a mask of each example's own is True."""
    masks = call.original["indices"]
    value = 0.0 if values is None else as_tensor(values)
    if len(masks) > 1 or call["template"] != (0,) or (values is not None and call.rank("values")):
        raise _mask_error(call.op.name)
    mask = masks[0].inner
    lead = (1,) * (inner.ndim - 1)
    mask = run("view", mask, (*mask.shape, *(1,) * (inner.ndim - mask.ndim)))
    if values is not None and "values" in call.batched:
        value = run("view", value, (call.size, *lead))
    return run("where", mask, run("add", inner, value) if call["accumulate"] else value, inner)


# --- along one dim -----------------------------------------------------------------------------------------------------------


def _fronts(call: Call, *names: str) -> dict[str, Any]:
    return {name: call.front(name) for name in names}


@rule("gather")
def gather(call: Call) -> Any:
    if not call.rank("input"):
        return NotImplemented if call.rank("index") else call.front("input")
    return call.with_(**_fronts(call, "input", "index"), dim=call["dim"] + 1)


@rule("gather_backward")
def gather_backward(call: Call) -> Any:
    shape = tuple(call["shape"])
    if not shape:
        return NotImplemented
    return call.with_(**_fronts(call, "g", "index"), dim=call["dim"] + 1, shape=(call.size, *shape))


@rule("scatter", "scatter_add", "scatter_reduce", "scatter_number")
def scatter(call: Call) -> Any:
    if not call.rank("input"):
        return NotImplemented
    names = [name for name in call.op.array_names if call[name] is not None]
    return call.with_(**_fronts(call, *names), dim=call["dim"] + 1)


@rule("embedding")
def embedding(call: Call) -> Any:
    weight, indices = call["weight"], call["indices"]
    if "weight" not in call.batched:
        return call.with_()
    if call["by_frequency"]:
        return NotImplemented
    padding = call["padding_idx"]
    # rows of one long table
    rows = weight.shape[1]
    flat = run("view", weight, (call.size * rows, weight.shape[2]))
    places = call.front("indices")
    shifted = run("add", places, run("mul", numbers(call, places.ndim - 1), rows))
    result = run("embedding", flat, shifted, None, False)
    if padding is None:
        return result
    pad = run("view", run("eq", indices, padding), (*indices.shape, 1))
    return run("where", pad, result.detach(), result)


@rule("embedding_backward")
def embedding_backward(call: Call) -> Any:
    rows, padding = call["rows"], call["padding_idx"]
    g, indices = call.front("g"), call.front("indices")
    if padding is not None:
        keep = run("ne", indices, padding)
        g = run("mul", g, run("to_copy", run("view", keep, (*keep.shape, 1)), g.dtype))
    shifted = run("add", indices, run("mul", numbers(call, indices.ndim - 1), rows))
    result = run("embedding_backward", g, shifted, call.size * rows, None)
    return run("view", result, (call.size, rows, result.shape[-1]))


@rule("one_hot")
def one_hot(call: Call) -> Any:
    return call.with_()


@rule("isin")
def isin(call: Call) -> Any:
    if "test_elements" not in call.batched:
        return call.with_()
    elements, tests = as_tensor(call["elements"]), call["test_elements"]
    count = tests.ndim - 1
    lead = elements.ndim - ("elements" in call.batched)
    size = call.size
    flat = (
        run("view", tests, (size, *(1,) * lead, -1 if tests.numel() else 0))
        if count
        else run("view", tests, (size, *(1,) * lead, 1))
    )
    wide = run("view", elements, (*elements.shape, 1))
    hits = run("any", run("eq", wide, flat), flat.ndim - 1, False)
    return run("logical_not", hits) if call["invert"] else hits


@rule("searchsorted")
def searchsorted(call: Call) -> Any:
    if "sorted_sequence" not in call.batched and call["sorter"] is None and call.rank("sorted_sequence") == 1:
        return call.with_()
    if call.rank("sorted_sequence") == 1:  # one row of each example: all its values are one row too
        values = call.front("input")
        names = [name for name in ("sorted_sequence", "sorter") if call[name] is not None]
        count = 1
        for size in values.shape[1:]:
            count *= size
        flat = run("view", values, (call.size, count))
        return run("view", call.with_(**_fronts(call, *names), input=flat), tuple(values.shape))
    if call.rank("sorted_sequence") == call.rank("input") and call.rank("input"):
        names = [name for name in call.op.array_names if call[name] is not None]
        return call.with_(**_fronts(call, *names))
    return NotImplemented


@rule("bincount")
def bincount(call: Call) -> Any:
    raise BatchError(
        "vmap: bincount has as many counts as its largest number, which differs from example to example. Use one_hot(x, n).sum(0), or "
        "zeros(n).scatter_add(0, x, weights)."
    )


@rule("nonzero", "unique")
def of_unknown_size(call: Call) -> Any:
    raise BatchError(
        f"vmap: {call.op.name} gives results whose size depends on the values, which differ from example to example. Use a form of fixed "
        f"size (where, a mask), or loop over the examples."
    )
