"""A user's `autograd.Function` on batched tensors: its `vmap`, or its forward and backward on all examples at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd.tensor.tensor import Tensor
from dynograd.transforms.batching.batched import Batched, BatchError, Level, example, highest_level, make_batched, run


class VmapInfo(NamedTuple):
    """What `Function.vmap` is told: the number of examples, and what random functions do."""

    batch_size: int
    randomness: str


def run_function(function: Any, args: tuple, kwargs: dict) -> Any:
    level = highest_level(args)
    assert level is not None
    own = function.__dict__.get("vmap") or next(
        (base.__dict__["vmap"] for base in function.__mro__ if "vmap" in base.__dict__), None
    )
    if function.generate_vmap_rule and own is not None:
        raise RuntimeError(f"{function.__name__}: has both generate_vmap_rule=True and its own vmap; keep one of them.")
    inner = [argument.inner if _is_of(argument, level) else argument for argument in args]
    dims = tuple(0 if _is_of(argument, level) else None for argument in args)
    if own is not None:
        result, out_dims = function.vmap(VmapInfo(level.size, level.randomness), dims, *inner, **kwargs)
        return _placed(function, level, result, out_dims)
    if not function.generate_vmap_rule:
        raise BatchError(
            f"{function.__name__}: vmap of this autograd.Function needs a rule. Set generate_vmap_rule = True in the class (its forward "
            f"and backward are then run per example), or write a static vmap(info, in_dims, *args) that returns (output, out_dims)."
        )
    results = [
        function.apply(
            *[example(operand, number) if dim == 0 else operand for operand, dim in zip(inner, dims, strict=True)],
            **kwargs,
        )
        for number in range(level.size)
    ]
    if isinstance(results[0], (tuple, list)):
        return tuple(make_batched(level, run("stack", list(parts), 0)) for parts in zip(*results, strict=True))
    return make_batched(level, run("stack", results, 0))


def _is_of(value: Any, level: Level) -> bool:
    return type(value) is Batched and value.level is level


def _placed(function: Any, level: Level, result: Any, out_dims: Any) -> Any:
    many = isinstance(result, (tuple, list))
    outputs = list(result) if many else [result]
    dims = list(out_dims) if isinstance(out_dims, (tuple, list)) else [out_dims] * len(outputs)
    if len(dims) != len(outputs):
        raise RuntimeError(
            f"{function.__name__}.vmap: returned {len(outputs)} outputs and {len(dims)} out_dims; one int or None for each is needed."
        )
    results = []
    for output, dim in zip(outputs, dims, strict=True):
        if not isinstance(output, Tensor) or dim is None:
            results.append(output)
            continue
        dim %= output.ndim
        moved = (
            output
            if dim == 0
            else run("permute", output, (dim, *[place for place in range(output.ndim) if place != dim]))
        )
        results.append(make_batched(level, moved))
    return tuple(results) if many else results[0]


Batched.__dynograd_function__ = staticmethod(run_function)
