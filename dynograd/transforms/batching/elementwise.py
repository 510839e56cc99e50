"""Batch rules of elementwise ops: examples along dim 0, the other dims aligned at the end."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator
from dynograd.kernels import kernel
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.batching.batched import make_batched, run
from dynograd.transforms.batching.calls import Call, rule
from dynograd.transforms.batching.places import RowPlaces


def aligned(call: Call, names: Any) -> dict[str, Any]:
    """The arguments `names`, batched ones with dims of size 1 behind dim 0 so that all broadcast."""
    rank = max([call.rank(name) for name in names if call[name] is not None])
    result = {}
    for name in names:
        value = call[name]
        if name in call.batched and value.ndim - 1 < rank:
            shape = tuple(value.shape)
            value = run("view", value, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))
        result[name] = value
    return result


@rule("elementwise")
def elementwise(call: Call) -> Any:
    op = call.op
    values = aligned(call, op.array_names)
    if len(op.array_names) > 1:
        _settle_dtypes(call, values)
    return call.with_(**values)


def _settle_dtypes(call: Call, values: dict[str, Any]) -> None:
    """One number per example promotes as a 0-d tensor does, though together they have a dim."""
    names = call.op.array_names[1:] if call.op.promote == "select" else call.op.array_names
    tensors = [name for name in names if isinstance(values[name], Tensor)]
    kinds = {values[name].dtype for name in tensors}
    single = [name for name in tensors if name in call.batched and call.rank(name) == 0]
    if len(kinds) < 2 or not single or len(single) == len(tensors):
        return
    shown = [
        make_batched(call.level, call[name]).array if name in call.batched else getattr(call[name], "array", call[name])
        for name in names
    ]
    kind = dtypes.result_dtype(*shown)
    for name in single:
        if values[name].dtype is not kind:
            values[name] = run("to_copy", values[name], kind)


@rule(
    "absolute_power",
    "signed_power",
    "zero_nan",
    "not_nan",
    "to_copy",
    "ones_of",
    "scaled",
    "whole_places",
    "to_device",
    "angle",
    "modulus",
    "view_as_real",
    "view_as_complex",
)
def one_operand(call: Call) -> Any:
    return call.with_()


@rule("ties", "binary_cross_entropy", "complex")
def of_one_shape(call: Call) -> Any:
    values = {name: call.front(name) for name in call.op.array_names}
    return call.with_(**values)


@rule("clone")
def clone(call: Call) -> Any:
    return run("clone", call["input"], None)


@rule("dropout")
def dropout(call: Call) -> Any:
    """One mask for all examples ("same"), or one that covers the whole batch ("different")."""
    shape = call["mask_shape"]
    return masked(call, call["input"], shape, call["p"], call["key"])


@rule("dropout_again")
def dropout_again(call: Call) -> Any:
    inner, shape = call["input"], call["mask_shape"]
    return call.with_(mask_shape=(1, *(1,) * (inner.ndim - 1 - len(shape)), *shape))


def masked(call: Call, inner: Any, shape: tuple, p: float, key: Any) -> Any:
    randomness = call.level.randomness
    if randomness == "error":
        raise random_error(call.op.name)
    rank = inner.ndim - 1
    lead = (1,) * (rank - len(shape))
    if isinstance(randomness, RowPlaces):
        return run("mul", inner, randomness.masks((*lead, *shape), p, inner))
    size = 1
    if randomness == "different":  # a place in the stream for masks of all examples
        size = call.size
        key = default_generator.key(kernel("random", "blocks_needed", 0)("dropout_mask", size * prod(shape)))
    return run("dropout", inner, (size, *lead, *shape), p, key)


def random_error(who: str) -> RuntimeError:
    return RuntimeError(
        f"vmap: called random operation {who} while in randomness error mode. Pass randomness='different' to vmap for one draw per "
        f"example, or randomness='same' for one draw that all examples share."
    )
