"""Batch rules of views, joins, splits and rearrangements: every dim moves up by one, shapes get the batch in front."""

from __future__ import annotations

from typing import Any

from dynograd.errors import ShapeError
from dynograd.transforms.batching.batched import run
from dynograd.transforms.batching.calls import Call, rule


@rule("view")
def view(call: Call) -> Any:
    shape = tuple(call["shape"])
    if -1 in shape and not call.size:
        count = 1
        for size in call.shape("input"):
            count *= size
        for size in shape:
            count //= size if size > 0 else 1
        shape = tuple([count if size == -1 else size for size in shape])
    return call.with_(shape=(call.size, *shape))


@rule("expand")
def expand(call: Call) -> Any:
    shape, own = tuple(call["shape"]), call.shape("input")
    inner = run("view", call["input"], (call.size, *(1,) * (len(shape) - len(own)), *own))
    return call.with_(input=inner, shape=(call.size, *shape))


@rule("permute")
def permute(call: Call) -> Any:
    return call.with_(dims=(0, *[place + 1 for place in call["dims"]]))


@rule("basic_index")
def basic_index(call: Call) -> Any:
    return call.with_(index=_behind_all(call["index"]))


@rule("basic_fill")
def basic_fill(call: Call) -> Any:
    return call.with_(shape=(call.size, *call["shape"]), index=_behind_all(call["index"]))


@rule("basic_put")
def basic_put(call: Call) -> Any:
    inner, index = call.front("input"), _behind_all(call["index"])
    value = call["value"]
    if value is not None and "value" in call.batched:
        rank = run("basic_index", inner, index).ndim - 1
        shape = tuple(value.shape)
        if len(shape) - 1 < rank:
            value = run("view", value, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))
    return call.with_(input=inner, value=value, index=index)


def _behind_all(index: tuple) -> tuple:
    return (slice(None), *index)


@rule("cat", "stack")
def join(call: Call) -> Any:
    tensors = call.fronts("tensors")
    stacks = call.op.name == "stack"
    full = [tensor for tensor in tensors if stacks or tuple(tensor.shape[1:]) != (0,)] or tensors
    rank = full[0].ndim - 1 + stacks
    dim = call["dim"]
    if not isinstance(dim, int) or not -rank <= dim < rank:
        return NotImplemented  # one example says what is wrong
    if len(full) < len(tensors):  # those of one dim without elements join tensors of any shape
        shape = [*full[0].shape]
        shape[dim % rank + 1] = 0
        tensors = [
            tensor if tuple(tensor.shape[1:]) != (0,) else run("view", tensor, tuple(shape)) for tensor in tensors
        ]
    return call.with_(tensors=tensors, dim=dim % rank + 1)


@rule(
    "unbind",
    "split_with_sizes",
    "repeat_interleave",
    "repeat_interleave_backward",
    "resample",
    "resample_back",
    "behind_one",
)
def along_dim(call: Call) -> Any:
    dim = call["dim"]
    return call.with_(dim=dim + 1 + (call.rank(call.op.array_names[0]) if dim < 0 else 0))


@rule("repeat_rows", "sum_runs")
def by_counts(call: Call) -> Any:
    if "repeats" in call.batched:
        return NotImplemented  # each example may have another size
    return call.with_(dim=call["dim"] + 1)


@rule("flip")
def flip(call: Call) -> Any:
    return call.with_(dims=tuple([place + 1 for place in call["dims"]]))


@rule("fft_complex", "fft_half", "fft_from_half")
def transform(call: Call) -> Any:
    return call.with_(dims=tuple([place + 1 for place in call["dims"]]))


@rule("roll")
def roll(call: Call) -> Any:
    if not call["dims"]:
        shape = tuple(call["input"].shape)
        flat = run("view", call["input"], (shape[0], -1 if call["input"].numel() else 0))
        return run("view", run("roll", flat, call["shifts"], (1,)), shape)
    return call.with_(dims=tuple([place + 1 for place in call["dims"]]))


@rule("repeat")
def repeat(call: Call) -> Any:
    repeats, own = tuple(call["repeats"]), call.shape("input")
    inner = run("view", call["input"], (call.size, *(1,) * (len(repeats) - len(own)), *own))
    return call.with_(input=inner, repeats=(1, *repeats))


@rule("repeat_backward")
def repeat_backward(call: Call) -> Any:
    shape, repeats = tuple(call["shape"]), tuple(call["repeats"])
    lead = len(repeats) - len(shape)
    result = call.with_(shape=(call.size, *(1,) * lead, *shape), repeats=(1, *repeats))
    return run("view", result, (call.size, *shape)) if lead else result


@rule("diagonal")
def diagonal(call: Call) -> Any:
    first, second = _two(call, call.rank("input"))
    return call.with_(dim1=first, dim2=second)


@rule("diagonal_backward")
def diagonal_backward(call: Call) -> Any:
    shape = tuple(call["shape"])
    first, second = _two(call, len(shape))
    return call.with_(shape=(call.size, *shape), dim1=first, dim2=second)


@rule("diagonal_put")
def diagonal_put(call: Call) -> Any:
    first, second = _two(call, call.rank("input"))
    return call.with_(input=call.front("input"), src=call.front("src"), dim1=first, dim2=second)


def _two(call: Call, rank: int) -> tuple[int, int]:
    dims = call["dim1"], call["dim2"]
    for dim in dims:
        if rank < 2 or not -rank <= dim < rank:
            raise ShapeError(f"diagonal: dims {dims} do not fit an example of {rank} dims inside vmap.")
    return dims[0] % rank + 1, dims[1] % rank + 1


@rule("unfold")
def unfold(call: Call) -> Any:
    rank, dim = call.rank("input"), call["dimension"]
    if not rank or not -rank <= dim < rank:
        return NotImplemented
    return call.with_(dimension=dim % rank + 1)


@rule("unfold_backward")
def unfold_backward(call: Call) -> Any:
    shape = tuple(call["shape"])
    if not shape:
        return NotImplemented
    return call.with_(shape=(call.size, *shape), dimension=call["dimension"] % len(shape) + 1)


@rule("tril", "triu")
def triangle(call: Call) -> Any:
    return call.with_() if call.rank("input") > 1 else NotImplemented


@rule("constant_pad_nd", "mirrored_pad", "mirrored_pad_backward")
def pad(call: Call) -> Any:
    """One pair of sizes for each dim."""
    return call.with_(sides=((0, 0), *call["sides"]))
