"""Batch rules of ops on sequences that lie behind one another: the examples' sequences, behind one another too, are one larger batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.ops.op import registry
from dynograd.tensor.creation import arange
from dynograd.tensor.tensor import wrap
from dynograd.transforms.batching.batched import Batched, make_batched, run
from dynograd.transforms.batching.calls import Call, one_by_one, rule
from dynograd.transforms.batching.elementwise import random_error
from dynograd.transforms.batching.places import RowPlaces
from dynograd.transforms.batching.products import merged, parted

_WEIGHTS = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}


@rule("varlen_attention", "varlen_attention_with_logarithms")
def varlen_attention(call: Call) -> Any:
    """Tokens (V, T, H, E) as (V T, H, E): all examples' sequences as one batch, with offsets of their own where these differ."""
    p = call.given.get("p", 0.0)
    if p and call.level.randomness != "different":
        if call.level.randomness == "error" or isinstance(call.level.randomness, RowPlaces):
            raise random_error("varlen_attention")
        return NotImplemented
    if not call.size:
        return NotImplemented
    both = call.op.name != "varlen_attention"
    function = registry["varlen_attention.public"].function(
        *[merged(call.front(name)) for name in ("query", "key", "value")],
        *[_offsets(call, f"offsets_{which}", name) for which, name in (("q", "query"), ("k", "key"))],
        key_mask=None if call["mask"] is None else merged(call.front("mask")),
        dropout_p=p,
        scale=call["scale"],
        enable_gqa=True,
        window=call["window"],
        ends=call["ends"],
        return_lse=both,
    )  # fmt: skip
    if not both:
        return parted(function, call.size)
    logarithms = run("view", function[1], (function[1].shape[0], call.size, call.shape("query")[0]))
    return parted(function[0], call.size), run("permute", logarithms, (1, 0, 2))


def _offsets(call: Call, name: str, tokens: str) -> Any:
    """(V B + 1,): the offsets of all examples' sequences, of (V, B + 1) or (B + 1,) of one example each."""
    operands = call.front(name)
    count = call.shape(tokens)[0]
    first = run("mul", arange(call.size, device=operands.device, dtype=operands.dtype), count)
    moved = run("add", operands, run("view", first, (-1, 1)))
    starts = run("reshape", run("basic_index", moved, (slice(None), slice(0, -1))), (-1,))
    return run("cat", [starts, run("reshape", run("basic_index", moved, (-1, slice(-1, None))), (1,))], 0)


@rule("lstm_layer", "gru_layer", "rnn_layer")
def recurrent_layer(call: Call) -> Any:
    """With weights that all examples share: their rows as one batch. Other weights go step by step, a product for each example."""
    if not call.size:
        return NotImplemented
    if hasattr(type(call["input"]), "__dynograd_rows__"):
        return _of_rows(call)
    packed, lengths = call.rank("input") == 2, "lengths" in call.batched
    if call.batched & _WEIGHTS or (packed and lengths and not call["ragged"]):
        return _padded(call) if packed and lengths else NotImplemented
    size, operands = call.size, {}
    x = call.front("input")
    if packed and not call["ragged"]:  # (N, I): step by step, so the examples' rows stand side by side
        operands["input"] = merged(run("permute", x, (1, 0, 2)))
        moved = {name: merged(run("permute", call.front(name), (1, 0, 2))) for name in _states(call)}
        operands["lengths"] = merged(_repeated(call["lengths"], size))
        result = call.with_(**operands, **moved)
        return type(result)(
            *[run("permute", _split(tensor, size), (1, 0, *range(2, tensor.ndim + 1))) for tensor in result]
        )
    if packed:
        operands["input"] = merged(x)
    else:
        _, steps, rows, width = x.shape
        operands["input"] = run("view", run("permute", x, (1, 0, 2, 3)), (steps, size * rows, width))
    operands["lengths"] = None if call["lengths"] is None else merged(call.front("lengths"))
    result = call.with_(**operands, **{name: merged(call.front(name)) for name in _states(call)})
    if packed:
        return type(result)(*[parted(tensor, size) for tensor in result])
    steps, rows, width = result[0].shape
    output = run("permute", run("view", result[0], (steps, size, rows // size, width)), (1, 0, 2, 3))
    return type(result)(output, *[parted(tensor, size) for tensor in result[1:]])


def _of_rows(call: Call) -> Any:
    """A vmap over the rows of a ragged tensor: each example has its own number of steps, (V, j, B, I)."""
    x = call["input"]
    if call.rank("input") != 3 or x.place != 1 or call["lengths"] is not None:
        return NotImplemented
    part, size = x.partition, call.size
    batch, width = (int(size) for size in x.packed.shape[1:])
    if call.batched & _WEIGHTS:
        return _row_by_row(call, x)
    # the tokens of one sequence behind one another
    rows, times = np.repeat(np.arange(size), batch), part.lengths.repeat(batch)
    first = part.offsets[:-1][rows] * batch + np.tile(np.arange(batch), size)
    starts = np.cumsum(times) - times
    places = np.repeat(first, times) + (np.arange(times.sum()) - np.repeat(starts, times)) * batch
    tokens = run("view", x.packed, (part.total * batch, width))
    if batch != 1:
        tokens = _at(tokens, places)
    states = {name: merged(call.front(name)) for name in _states(call)}
    lengths = wrap(arrays.to_device(times, arrays.place_of(tokens.array)))
    result = call.with_(input=tokens, lengths=lengths, ragged=True, **states)
    output = result[0]
    if batch != 1:
        back = np.empty_like(places)
        back[places] = np.arange(places.size)
        output = _at(output, back)
    output = x.with_packed(run("view", output, (part.total, batch, output.shape[-1])))
    return type(result)(output, *[parted(tensor, size) for tensor in result[1:]])


def _row_by_row(call: Call, x: Any) -> Any:
    """Weights of each row's own."""
    results = []
    for number in range(call.size):
        arguments = {
            name: run("basic_index", call[name], (number, Ellipsis)) if name in call.batched else call[name]
            for name in call.given
        }
        results.append(call.op.function(**arguments))
    output = run("cat", [row[0] for row in results], 0)
    rest = [run("stack", list(parts), 0) for parts in zip(*[row[1:] for row in results], strict=True)]
    return type(results[0])(x.with_packed(output), *rest)


def _states(call: Call) -> list[str]:
    return [name for name in ("h_0", "c_0") if name in call.given]


def _repeated(lengths: Any, size: int) -> Any:
    """(B, V)."""
    return run("expand", run("view", lengths, (-1, 1)), (lengths.shape[0], size))


def _split(x: Any, size: int) -> Any:
    shape = tuple(x.shape)
    return run("view", x, (shape[0] // size, size, *shape[1:]))


def _padded(call: Call) -> Any:
    """Tokens (N, I) whose rows have other lengths in each example, laid out as (T, B, I) and back."""
    operands = call["lengths"]
    if type(operands) is Batched:  # of another vmap: its numbers are not to be seen here
        return one_by_one(call)
    lengths = arrays.to_numpy(operands.array).astype(np.int64)
    examples, batch = lengths.shape
    tokens = call.shape("input")[0]
    steps = int(lengths.max(initial=0))
    rows, times = (np.zeros((examples, tokens), np.int64) for _ in range(2))
    for number, own in enumerate(lengths):
        if call["ragged"]:
            rows[number] = np.repeat(np.arange(batch), own)
            times[number] = np.arange(tokens) - np.repeat(np.cumsum(own) - own, own)
        else:
            alive = own[None, :] > np.arange(steps)[:, None]
            times[number], rows[number] = np.nonzero(alive)
    example = np.arange(examples)[:, None]
    places = np.zeros((examples, steps, batch), np.int64)  # what lies beyond a row's end is not read
    places[example, times, rows] = example * tokens + np.arange(tokens)
    padded = _at(merged(call.front("input")), places) if tokens else call.front("input").new_zeros(
        (examples, steps, batch, call.shape("input")[1])
    )  # fmt: skip
    changed = {"input": make_batched(call.level, padded), "ragged": False}
    function = call.op.function(**{**call.original, **changed})
    output = function[0].inner
    flat = run("reshape", output, (-1, output.shape[-1]))
    back = (example * steps + times) * batch + rows
    return type(function)(_at(flat, back), *[tensor.inner for tensor in function[1:]])


def _at(x: Any, places: np.ndarray) -> Any:
    """Rows of `x` (n, features) at `places`."""
    index = wrap(arrays.to_device(places.reshape(-1), arrays.place_of(x.array)))
    return run("view", run("index", x, [index], (0,)), (*places.shape, x.shape[1]))
