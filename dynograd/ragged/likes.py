"""Functions that are no ops, on ragged tensors: `zeros_like` and its kin, random draws, and methods that fill in place."""

from __future__ import annotations

import inspect
from typing import Any

from dynograd.errors import ShapeError
from dynograd.ops.layout.joins import stack
from dynograd.ragged.families.elementwise import repeated
from dynograd.ragged.families.selecting import row_of
from dynograd.ragged.families.sized import arange_of_rows, made_of_sizes
from dynograd.ragged.interception import intercept, intercept_sizes
from dynograd.ragged.making import ragged_tensor
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor import creation, randomness
from dynograd.tensor.tensor import Tensor

__all__ = ["FILLS", "LIKES", "install"]

LIKES = (
    *[getattr(creation, name) for name in ("zeros_like", "ones_like", "empty_like", "full_like")],
    *[getattr(randomness, name) for name in ("rand_like", "randn_like", "randint_like", "bernoulli")],
)
SIZED = tuple(
    [getattr(creation, name) for name in ("zeros", "ones", "empty", "full")] + [randomness.rand, randomness.randn]
)
FILLS = (
    "zero_ fill_ uniform_ normal_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ trunc_normal_".split()
)


def install() -> None:
    """Functions look for ragged tensors from now on; methods are put on RaggedTensor."""
    for function in LIKES:
        _alike(inspect.unwrap(function), function)
    intercept(inspect.unwrap(randomness.multinomial), _multinomial)
    for function in SIZED:
        own = inspect.unwrap(function)
        intercept_sizes(own, _of_sizes(own.__name__, function))
    intercept_sizes(inspect.unwrap(creation.arange), arange_of_rows)
    for name in FILLS:
        if hasattr(RaggedTensor, name):
            setattr(RaggedTensor, name, _fill(name))
    RaggedTensor.copy_ = _copy  # type: ignore[assignment, method-assign]


def _alike(own: Any, function: Any) -> None:
    def handler(arguments: dict[str, Any]) -> Any:
        x = arguments.pop("input")
        if arguments.get("out") is not None:
            raise ShapeError(f"{own.__name__}: out= has no form for ragged tensors. Leave it away.")
        arguments.pop("out", None)
        arguments.pop("memory_format", None)
        positional = [arguments.pop(name) for name in ("fill_value", "low", "high") if name in arguments]
        return x.with_packed(function(x.packed, *positional, **arguments))

    intercept(own, handler)


def _of_sizes(who: str, function: Any) -> Any:
    """`zeros(B, T, D)` with a ragged T."""

    def handler(arguments: dict[str, Any]) -> Any:
        sizes = arguments.pop("sizes", ())
        if (size := arguments.pop("size", None)) is not None:
            sizes = size if isinstance(size, (tuple, list)) else (size,)
        if arguments.get("out") is not None:
            raise ShapeError(f"{who}: out= has no form for ragged tensors. Leave it away.")
        arguments.pop("out", None)
        if who == "full":
            value = arguments.pop("fill_value")
            return made_of_sizes(who, (sizes,), lambda shape: function(shape, value, **arguments))
        return made_of_sizes(who, sizes, lambda shape: function(shape, **arguments))

    return handler


def _multinomial(arguments: dict[str, Any]) -> Any:
    """From each row of (B, j) weights its own draws: (B, num_samples)."""
    x = arguments.pop("input")
    if x.ndim != 2 or isinstance(x.packed, RaggedTensor):
        raise ShapeError(f"multinomial: expected ragged weights (B, j), got shape {tuple(x.shape)}.")
    samples, replacement = arguments["num_samples"], arguments["replacement"]
    rows = [
        randomness.multinomial(row_of(x, number), samples, replacement, generator=arguments["generator"])
        for number in range(x.partition.count)
    ]
    return stack(rows) if rows else ragged_tensor([])


def _fill(name: str) -> Any:
    def method(self: RaggedTensor, *args: object, **kwargs: object) -> RaggedTensor:
        getattr(self.packed, name)(*args, **kwargs)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = (
        f"`{name}` of all real elements.\n\nArgs:\n    args, kwargs: as for `Tensor.{name}`.\nReturns:\n    The tensor."
    )
    return method


def _copy(self: RaggedTensor, src: Tensor | float, non_blocking: bool = False) -> RaggedTensor:
    """Writes the elements of `src`, ragged with the same lengths, or dense and repeated for the elements of each row.

    Args:
        src: a tensor or a number.
        non_blocking: a copy between devices need not be waited for.
    Returns:
        The tensor.
    Raises:
        ShapeError: other lengths.
    """
    if isinstance(src, RaggedTensor):
        self.partition.check_same("copy_", src.partition, ("the", "the copied"))
        self.packed.copy_(src.packed, non_blocking)
    else:
        self.packed.copy_(repeated("copy_", src, self) if hasattr(src, "shape") else src)
    return self
