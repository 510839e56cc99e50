"""Functions of `nn.functional` that are others with an option: `max_pool2d_with_indices` and the like, `conv_tbc`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dynograd.nn import randomized
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = [
    "conv_tbc",
    *[f"{kind}max_pool{rank}d_with_indices" for kind in ("", "adaptive_") for rank in (1, 2, 3)],
    *[f"fractional_max_pool{rank}d_with_indices" for rank in (2, 3)],
]

_ops = public_functions()


def _with_indices(name: str, function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("return_indices", None)
        return function(*args, **kwargs, return_indices=True)

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = f"{name}_with_indices"
    rank = int(name[-2])
    sizes = {"fractional": "2, output_size=2", "adaptive": "2"}.get(name.split("_")[0], "2")
    call.__doc__ = f"""`{name}` with `return_indices=True`: where the maxima lie, too.

    Args: those of `{name}`.
    Returns:
        (values, indices): of the same shape; indices are int64, and count within the last {"dim" if rank == 1 else f"{rank} dims"}.
    Raises: what `{name}` raises.

    >>> values, indices = dynograd.nn.functional.{name}_with_indices(dynograd.ones(1, 1{", 4" * rank}), {sizes})
    >>> indices.shape
    dynograd.Size([1, 1{", 2" * rank}])
    """
    return call


for _name in ("max_pool{}d", "adaptive_max_pool{}d", "fractional_max_pool{}d"):
    for _rank in (1, 2, 3):
        _one = _name.format(_rank)
        if f"{_one}_with_indices" in __all__:
            _function = _ops[_one] if _one in _ops else getattr(randomized, _one)
            globals()[f"{_one}_with_indices"] = _with_indices(_one, _function)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor | None, pad: int = 0) -> Any:
    """`conv1d` with time first.

    Args:
        input (T, B, C): the sequences.
        weight (width, C, out): the kernel.
        bias (out,): added to each result.
        pad: how many zeros stand at both ends.
    Returns:
        (T + 2 pad - width + 1, B, out).

    >>> dynograd.nn.functional.conv_tbc(dynograd.ones(4, 1, 2), dynograd.ones(3, 2, 5), dynograd.zeros(5)).shape
    dynograd.Size([2, 1, 5])
    """
    return _ops["conv1d"](input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
