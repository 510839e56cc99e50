"""`torch._foreach_*`: an op over lists of tensors, as a loop over the tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["foreach_functions"]

# Ops that PyTorch has in this form: what optimizers call, and nothing in an op says so.
_NAMES = ("add", "sub", "mul", "div", "sqrt", "neg", "abs", "exp", "reciprocal", "sign", "lerp", "addcmul", "addcdiv")


def foreach_functions() -> dict[str, Any]:
    """`_foreach_add` and its like by name.

    >>> dynograd._foreach_add([tensor([1.0]), tensor([2.0])], 1)
    (tensor([2.]), tensor([3.]))
    """
    result = {}
    ops = public_functions()
    for name in _NAMES:
        result[f"_foreach_{name}"] = _over(f"_foreach_{name}", ops[name])
        method = getattr(Tensor, f"{name}_")
        result[f"_foreach_{name}_"] = _over(f"_foreach_{name}_", method, in_place=True)
    result["_foreach_copy_"] = _over("_foreach_copy_", Tensor.copy_, in_place=True)
    result["_foreach_zero_"] = _over("_foreach_zero_", Tensor.zero_, in_place=True)
    result["_foreach_norm"] = _over("_foreach_norm", lambda tensor, ord=2: ops["norm"](tensor, ord))
    return result


def _over(name: str, function: Callable[..., Any], in_place: bool = False) -> Callable[..., Any]:
    def each(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...] | None:
        for argument in args:
            if isinstance(argument, (list, tuple)) and len(argument) != len(self):
                raise RuntimeError(
                    f"{name}: Tensor lists must have the same number of tensors, got {len(self)} and {len(argument)}."
                )
        rows = [
            [argument[place] if isinstance(argument, (list, tuple)) else argument for argument in args]
            for place in range(len(self))
        ]
        result = tuple(function(tensor, *row, **kwargs) for tensor, row in zip(self, rows))
        return None if in_place else result

    each.__name__ = each.__qualname__ = name
    each.__doc__ = (
        f"`{name[len('_foreach_') :]}` of each tensor of a list, with a number for all or one value for each."
    )
    return each
