"""Batch rules of reductions: dims move up by one, "all dims" becomes all but the first."""

from __future__ import annotations

from typing import Any

from dynograd.transforms.batching.batched import run
from dynograd.transforms.batching.calls import Call, rule


def dims_after(dim: Any, rank: int) -> Any:
    """`dim` of an example (None: all `rank` of them) as it is called in the batch."""
    if dim is None:
        return tuple(range(1, rank + 1))
    return tuple([place + 1 for place in dim]) if isinstance(dim, tuple) else dim + 1


def flat(call: Call, name: str = "input") -> Any:
    """(examples, elements of one)."""
    inner = call.front(name)
    if inner.ndim == 2:
        return inner
    count = 1
    for size in inner.shape[1:]:
        count *= size
    return run("view", inner, (inner.shape[0], count))


def reduced(call: Call, dim: Any, keepdim: bool, **others: Any) -> Any:
    """The op over `dim` of each example; examples of no dims are rows of one element."""
    rank = call.rank("input")
    if rank:
        return call.with_(dim=dims_after(dim, rank), keepdim=keepdim, **others)
    return call.with_(input=flat(call), dim=1, keepdim=False, **others)


@rule("sum", "mean", "any", "all", "logsumexp", "amax", "amin", "vector_norm", "var", "std")
def over_dims(call: Call) -> Any:
    return reduced(call, call["dim"], call["keepdim"])


@rule("prod", "argmax", "argmin")
def over_one_dim(call: Call) -> Any:
    """These take one dim, or all elements as one."""
    dim, keepdim, rank = call["dim"], call["keepdim"], call.rank("input")
    if dim is not None and not isinstance(dim, tuple) and rank:
        return call.with_(dim=dim + 1)
    if isinstance(dim, tuple) and len(dim) == 1 and rank:
        return call.with_(dim=(dim[0] + 1,))
    if isinstance(dim, tuple) and dim and len(dim) < rank:
        return call.with_(dim=dims_after(dim, rank))
    result = call.with_(input=flat(call), dim=1, keepdim=False)
    return run("view", result, (call.size, *(1,) * rank)) if keepdim and rank else result


@rule("count_nonzero")
def count_nonzero(call: Call) -> Any:
    rank = call.rank("input")
    if rank:
        return call.with_(dim=dims_after(call["dim"], rank))
    return call.with_(input=flat(call), dim=1)


@rule("max", "min", "kthvalue", "median", "mode")
def values_and_places(call: Call) -> Any:
    return reduced(call, call["dim"], call["keepdim"])


@rule("median_of_all")
def median_of_all(call: Call) -> Any:
    """The gradient of ties is shared, as the op shares it, and not given to the first alone."""
    ignore = call["ignore_nan"]
    rows = flat(call)
    result = run("median", rows, 1, True, ignore)[0]
    if not rows.requires_grad and not hasattr(rows, "primal"):
        return run("view", result, (call.size,))
    shares = run("tie_shares", rows, result, 1, True)
    # the value of `result`, the gradient of the shared mean
    spread = run("sum", run("mul", run("where", run("gt", shares, 0), rows, 0.0), shares), 1, True)
    exact = run("where", run("isfinite", result), spread, result)
    return run("view", exact, (call.size,))


@rule("tie_shares")
def tie_shares(call: Call) -> Any:
    rank = call.rank("input")
    if not rank:
        return call.with_(input=flat(call), output=flat(call, "output"), dim=1, keepdim=True).reshape(call.size)
    dim, keepdim = call["dim"], call["keepdim"]
    output = call.front("output")
    if dim is None:  # whatever was kept, one number for each example
        output = run("view", output, (call.size, *(1,) * rank))
        return call.with_(input=call.front("input"), output=output, dim=dims_after(None, rank), keepdim=True)
    return call.with_(input=call.front("input"), output=output, dim=dims_after(dim, rank), keepdim=keepdim)


@rule("exp_difference")
def exp_difference(call: Call) -> Any:
    from dynograd.transforms.batching.elementwise import aligned

    return call.with_(**aligned(call, call.op.array_names))


@rule("sum_to")
def sum_to(call: Call) -> Any:
    target, rank = tuple(call["shape"]), call.rank("input")
    inner = call["input"]
    lead = rank - len(target)
    if lead > 0:
        inner = run("sum", inner, tuple(range(1, lead + 1)), False)
    return run("sum_to", inner, (call.size, *target))
