"""A user's `autograd.Function` on batched tensors: its `vmap`, or its forward and backward on all examples at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd.tensor.tensor import Tensor
from dynograd.transforms.batching.batched import Batched, BatchError, Level, example, highest_level, make_batched, run

__all__ = ["run_function"]


class VmapInfo(NamedTuple):
    """What `Function.vmap` is told: the number of examples, and what random functions do."""

    batch_size: int
    randomness: str


def run_function(function: Any, args: tuple, kwargs: dict) -> Any:
    level = highest_level(args)
    assert level is not None
    own = function.__dict__.get("vmap") or next(
        (one.__dict__["vmap"] for one in function.__mro__ if "vmap" in one.__dict__), None
    )
    if function.generate_vmap_rule and own is not None:
        raise RuntimeError(f"{function.__name__}: has both generate_vmap_rule=True and its own vmap; keep one of them.")
    inner = [one.inner if _is_of(one, level) else one for one in args]
    dims = tuple(0 if _is_of(one, level) else None for one in args)
    if own is not None:
        found, out_dims = function.vmap(VmapInfo(level.size, level.randomness), dims, *inner, **kwargs)
        return _placed(function, level, found, out_dims)
    if not function.generate_vmap_rule:
        raise BatchError(
            f"{function.__name__}: vmap of this autograd.Function needs a rule. Set generate_vmap_rule = True in the class (its forward "
            f"and backward are then run per example), or write a static vmap(info, in_dims, *args) that returns (output, out_dims)."
        )
    results = [
        function.apply(
            *[example(one, number) if dim == 0 else one for one, dim in zip(inner, dims, strict=True)], **kwargs
        )
        for number in range(level.size)
    ]
    if isinstance(results[0], (tuple, list)):
        return tuple(make_batched(level, run("stack", list(parts), 0)) for parts in zip(*results, strict=True))
    return make_batched(level, run("stack", results, 0))


def _is_of(one: Any, level: Level) -> bool:
    return type(one) is Batched and one.level is level


def _placed(function: Any, level: Level, found: Any, out_dims: Any) -> Any:
    many = isinstance(found, (tuple, list))
    outputs = list(found) if many else [found]
    dims = list(out_dims) if isinstance(out_dims, (tuple, list)) else [out_dims] * len(outputs)
    if len(dims) != len(outputs):
        raise RuntimeError(
            f"{function.__name__}.vmap: returned {len(outputs)} outputs and {len(dims)} out_dims; one int or None for each is needed."
        )
    made = []
    for one, dim in zip(outputs, dims, strict=True):
        if not isinstance(one, Tensor) or dim is None:
            made.append(one)
            continue
        dim %= one.ndim
        moved = one if dim == 0 else run("permute", one, (dim, *[place for place in range(one.ndim) if place != dim]))
        made.append(make_batched(level, moved))
    return tuple(made) if many else made[0]


Batched.__dynograd_function__ = staticmethod(run_function)
