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
    made = {}
    ops = public_functions()
    for name in _NAMES:
        made[f"_foreach_{name}"] = _over(f"_foreach_{name}", ops[name])
        method = getattr(Tensor, f"{name}_")
        made[f"_foreach_{name}_"] = _over(f"_foreach_{name}_", method, in_place=True)
    made["_foreach_copy_"] = _over("_foreach_copy_", Tensor.copy_, in_place=True)
    made["_foreach_zero_"] = _over("_foreach_zero_", Tensor.zero_, in_place=True)
    made["_foreach_norm"] = _over("_foreach_norm", lambda one, ord=2: ops["norm"](one, ord))
    return made


def _over(name: str, function: Callable[..., Any], in_place: bool = False) -> Callable[..., Any]:
    def each(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...] | None:
        for one in args:
            if isinstance(one, (list, tuple)) and len(one) != len(self):
                raise RuntimeError(
                    f"{name}: Tensor lists must have the same number of tensors, got {len(self)} and {len(one)}."
                )
        rows = [[one[place] if isinstance(one, (list, tuple)) else one for one in args] for place in range(len(self))]
        made = tuple(function(one, *row, **kwargs) for one, row in zip(self, rows))
        return None if in_place else made

    each.__name__ = each.__qualname__ = name
    each.__doc__ = (
        f"`{name[len('_foreach_') :]}` of each tensor of a list, with a number for all or one value for each."
    )
    return each
