"""Batch rules of layers: normalisation, pooling, losses, attention."""

from __future__ import annotations

from typing import Any

from dynograd.tensor.creation import arange
from dynograd.transforms.batching.batched import run
from dynograd.transforms.batching.calls import Call, rule
from dynograd.transforms.batching.elementwise import masked
from dynograd.transforms.batching.products import merged, parted


@rule("layer_norm", "rms_norm")
def over_last_dims(call: Call) -> Any:
    """Over the last dims, whatever stands before; a scale of each example's own comes after."""
    if "weight" not in call.batched and ("bias" not in call.batched):
        return call.with_()
    plain = {name: None for name in ("weight", "bias") if name in call.op.array_names}
    result = call.with_(**plain, input=call.front("input"))
    for name, use in (("weight", "mul"), ("bias", "add")):
        value = call.given.get(name)
        if value is None:
            continue
        if name in call.batched:
            shape = tuple(value.shape)
            value = run("view", value, (shape[0], *(1,) * (result.ndim - len(shape)), *shape[1:]))
        result = run(use, result, value)
    return result


@rule("group_norm")
def group_norm(call: Call) -> Any:
    if not call.size:
        return NotImplemented
    rank = call.rank("input")
    if "weight" not in call.batched and "bias" not in call.batched:
        return parted(call.with_(input=merged(call["input"])), call.size)
    result = parted(call.with_(input=merged(call.front("input")), weight=None, bias=None), call.size)
    for name, use in (("weight", "mul"), ("bias", "add")):
        value = call[name]
        if value is None:
            continue
        lead = (call.size, 1) if name in call.batched else (1, 1)
        result = run(use, result, run("view", value, (*lead, value.shape[-1], *(1,) * (rank - 2))))
    return result


@rule("max_pool", "max_pool_values", "max_pool_places", "avg_pool")
def pool(call: Call) -> Any:
    return _leading(call, "input")


@rule("adaptive_max_pool", "adaptive_max_pool_places", "adaptive_avg_pool", "columns_of_patches", "patches_of_columns")
def adaptive_pool(call: Call) -> Any:
    return _leading(call, "input")


def _leading(call: Call, name: str) -> Any:
    """Ops on (N, ...) to whose N the batch is added."""
    if call.rank(name) < 2 or not call.size:
        return NotImplemented
    result = call.with_(**{name: merged(call[name])})
    if isinstance(result, tuple):
        return type(result)(*[parted(tensor, call.size) for tensor in result])
    return parted(result, call.size)


@rule("avg_pool_backward", "adaptive_avg_pool_backward")
def pool_backward(call: Call) -> Any:
    shape = tuple(call["shape"])
    if not call.size or len(shape) < 2:
        return NotImplemented
    return parted(call.with_(g=merged(call["g"]), shape=(call.size * shape[0], *shape[1:])), call.size)


@rule("max_unpool")
def max_unpool(call: Call) -> Any:
    if call.rank("input") < 2 or not call.size:
        return NotImplemented
    return parted(call.with_(input=merged(call.front("input")), indices=merged(call.front("indices"))), call.size)


@rule("moved_statistics")
def moved_statistics(call: Call) -> Any:
    momentum = call["momentum"]
    from dynograd.transforms.batching.elementwise import aligned

    values = aligned(call, ("input", "batch"))
    return run("add", run("mul", values["input"], 1 - momentum), run("mul", values["batch"], momentum))


@rule("dropout_add")
def dropout_add(call: Call) -> Any:
    inner, residual = call.front("input"), call.front("residual")
    return run("add", residual, masked(call, inner, tuple(inner.shape[1:]), call["p"], call["key"]))


@rule("scaled_dot_product_attention")
def attention(call: Call) -> Any:
    """The fused op when heads can be batched with the examples."""
    if call["p"] or not call.size or call.rank("query") != 4 or call["mask"] is not None:
        return NotImplemented
    if any(call.rank(name) != 4 for name in ("key", "value")):
        return NotImplemented
    values = {name: merged(call.front(name)) for name in ("query", "key", "value")}
    return parted(call.with_(**values), call.size)


@rule("lstm_step")
def lstm_step(call: Call) -> Any:
    return _leading_of_all(call)


@rule("gru_step")
def gru_step(call: Call) -> Any:
    return _leading_of_all(call)


def _leading_of_all(call: Call) -> Any:
    """Steps of recurrent cells on (N, features)."""
    if not call.size or any(call.rank(name) != 2 for name in call.op.array_names):
        return NotImplemented
    result = call.with_(**{name: merged(call.front(name)) for name in call.op.array_names})
    if isinstance(result, tuple):
        return type(result)(*[parted(tensor, call.size) for tensor in result])
    return parted(result, call.size)


@rule("chain_likelihoods", "chain_marginals", "chain_best_paths")
def chains(call: Call) -> Any:
    """All examples' sequences as one batch, if the transitions are the same for all."""
    if not call.size or call.batched & {"transitions", "first", "last"}:
        return NotImplemented
    emissions, starts = call.front("emissions"), call.front("starts")
    first = run("mul", arange(call.size, device=starts.device), emissions.shape[1])
    moved = {"emissions": merged(emissions), "starts": merged(run("add", starts, run("view", first, (-1, 1))))}
    moved["lengths"] = merged(call.front("lengths"))
    if call.given.get("tags") is not None:
        moved["tags"] = merged(call.front("tags"))
    result = call.with_(**moved)
    if isinstance(result, tuple):
        return type(result)(*[parted(tensor, call.size) for tensor in result])
    return parted(result, call.size)


@rule(
    "segment_sum", "segment_extreme", "segment_product", "segment_softmax", "segment_squares", "segment_logsumexp", "segment_cumsum",
    "segment_cumprod", "segment_logcumsumexp", "segment_move", "segment_behind_one", "segment_places",
)  # fmt: skip
def segments(call: Call) -> Any:
    """The examples' rows behind one another, their segments moved along with them."""
    return _moved_segments(call, ["values"], call.shape("values")[0])


@rule("segment_recurrence")
def segment_recurrence(call: Call) -> Any:
    return _moved_segments(call, ["values", "decay"], call.shape("values")[0])


@rule("segment_combine")
def segment_combine(call: Call) -> Any:
    return _moved_segments(call, ["values", "g"], call.shape("values")[0])


@rule("segment_gather")
def segment_gather(call: Call) -> Any:
    return _moved_segments(call, ["values", "places"], call.shape("values")[0])


@rule("segment_spread")
def segment_spread(call: Call) -> Any:
    return _moved_segments(call, ["g"], call["rows"], rows=call["rows"] * call.size)


@rule("segment_scatter")
def segment_scatter(call: Call) -> Any:
    return _moved_segments(call, ["g", "places"], call["rows"], rows=call["rows"] * call.size)


def _moved_segments(call: Call, names: list[str], own_rows: int, **changed: Any) -> Any:
    if not call.size:
        return NotImplemented
    bounds = {name: call.front(name) for name in ("starts", "ends")}
    first = run("mul", arange(call.size, device=bounds["starts"].device), own_rows)
    moved = {name: merged(run("add", value, run("view", first, (-1, 1)))) for name, value in bounds.items()}
    return parted(call.with_(**{name: merged(call.front(name)) for name in names}, **moved, **changed), call.size)


@rule("grouped_products")
def grouped_products(call: Call) -> Any:
    """The examples' vectors behind one another, and the products of all."""
    if not call.size:
        return NotImplemented
    vectors = {name: merged(call.front(name)) for name in ("a", "b")}
    return parted(call.with_(**vectors, plan=call["plan"].times(call.size)), call.size)


@rule("ctc_losses")
def ctc_losses(call: Call) -> Any:
    """All examples' sequences as one batch."""
    if not call.size:
        return NotImplemented
    sequences = run("permute", call.front("log_probs"), (1, 0, 2, 3))
    steps, _, _, classes = sequences.shape
    arguments = {name: merged(call.front(name)) for name in ("targets", "input_lengths", "target_lengths")}
    return parted(call.with_(log_probs=run("reshape", sequences, (steps, -1, classes)), **arguments), call.size)
