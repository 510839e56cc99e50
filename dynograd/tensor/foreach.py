"""`torch._foreach_*`: an op over lists of tensors, as a loop over the tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynograd.ops.linalg.matrix_norms import linalg_vector_norm
from dynograd.ops.op import Op
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["foreach_functions"]

# Ops of several tensors that PyTorch has in this form, with how their further arguments are called; lists are one for each tensor. Beside
# them stand all elementwise ops of one tensor.
_OF_SEVERAL = """
    abs round(decimals) add(other,scalar,scalars) sub(other,scalar,scalars) mul(other,scalar,scalars) div(other,scalar,scalars)
    maximum(other,scalar,scalars) minimum(other,scalar,scalars) clamp_max(other,scalar,scalars) clamp_min(other,scalar,scalars)
    pow(exponent) lerp(tensors1;weight,weights) addcmul(tensor1;tensor2;value,scalars) addcdiv(tensor1;tensor2;value,scalars)
"""


def foreach_functions() -> dict[str, Any]:
    """`_foreach_add` and its like by name.

    >>> dynograd._foreach_add([tensor([1.0]), tensor([2.0])], 1)
    (tensor([2.]), tensor([3.]))
    >>> dynograd._foreach_addcmul([tensor([1.0])], [tensor([2.0])], [tensor([3.0])], value=10)
    (tensor([61.]),)
    """
    result: dict[str, Any] = {}
    ops = public_functions()
    for entry in [*_of_one_tensor(), *_OF_SEVERAL.split()]:
        name, _, rest = entry.rstrip(")").partition("(")
        places = [place.split(",") for place in rest.split(";")] if rest else []
        function, method = ops[name], getattr(Tensor, f"{name}_", None)
        if name in ("maximum", "minimum"):
            function = _with_numbers(ops[name], ops["clamp_min" if name == "maximum" else "clamp_max"])
            method = None
        if name.startswith("addc"):
            function, method = _with_value(function), _with_value(method)
        result[f"_foreach_{name}"] = _over(f"_foreach_{name}", function, places)
        result[f"_foreach_{name}_"] = _over(f"_foreach_{name}_", method or _written(function), places, in_place=True)
    of_tensors, power = result["_foreach_pow"], ops["pow"]

    def foreach_pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
        if isinstance(self, (list, tuple)):
            return of_tensors(self, exponent)
        return tuple([power(self, each) for each in exponent])

    foreach_pow.__name__ = foreach_pow.__qualname__ = "_foreach_pow"
    foreach_pow.__doc__ = of_tensors.__doc__
    result["_foreach_pow"] = foreach_pow
    result["_foreach_copy_"] = _over("_foreach_copy_", Tensor.copy_, [["src"], ["non_blocking"]], in_place=True)
    result["_foreach_zero_"] = _over("_foreach_zero_", Tensor.zero_, [], in_place=True)
    result["_foreach_clone"] = _over("_foreach_clone", Tensor.clone, [])
    result["_foreach_max"] = _over("_foreach_max", lambda tensor: tensor.max(), [])
    result["_foreach_mm"] = _over("_foreach_mm", ops["mm"], [["mat2"]])
    result["_foreach_norm"] = _over("_foreach_norm", _norm, [["ord"], ["dtype"]])
    result["_foreach_powsum"] = _over("_foreach_powsum", _power_sum, [["ord"], ["dtype"]])
    return result


def _of_one_tensor() -> list[str]:
    """Elementwise ops of one tensor, with nothing else to say."""
    return [
        name
        for name, function in public_functions().items()
        if isinstance(entry := getattr(function, "op", None), Op)
        and entry.kind == "elementwise"
        and entry.inplace
        and len(entry.parameter_names) == 1
        and name == entry.name
    ]


def _norm(tensor: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return linalg_vector_norm(tensor, ord, dtype=dtype)


def _power_sum(tensor: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return tensor.abs().pow(ord).sum(dtype=dtype)


def _with_numbers(function: Callable[..., Tensor], of_numbers: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda tensor, other: (function if isinstance(other, Tensor) else of_numbers)(tensor, other)


def _with_value(function: Any) -> Callable[..., Tensor]:
    return lambda tensor, first, second, value=1: function(tensor, first, second, value=value)


def _written(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda tensor, *args: tensor.copy_(function(tensor, *args))


def _over(
    name: str, function: Callable[..., Any], places: list[list[str]], in_place: bool = False
) -> Callable[..., Any]:
    def each(self: Any, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        if len(self) == 0:
            raise RuntimeError(f"{name}: Tensor list must have at least one tensor, got none.")
        values = list(args)
        for keys in places[len(args) :]:
            key = next((key for key in keys if key in kwargs), None)
            if key is None:
                break
            values.append(kwargs.pop(key))
        rows = [_row(name, values, number, len(self)) for number in range(len(self))]
        results = [function(tensor, *row, **kwargs) for tensor, row in zip(self, rows)]
        return self if in_place else tuple(results)

    each.__name__ = each.__qualname__ = name
    each.__doc__ = (
        f"`{name[len('_foreach_') :]}` of each tensor of a list, with a number for all or one value for each."
    )
    return each


def _row(name: str, values: list[Any], number: int, count: int) -> list[Any]:
    """The arguments for one of the tensors."""
    row = []
    for place, value in enumerate(values):
        if isinstance(value, (list, tuple)):
            if len(value) != count:
                raise RuntimeError(
                    f"{name}: Tensor lists must have the same number of tensors, got {count} and {len(value)}."
                )
            row.append(value[number])
        elif isinstance(value, Tensor) and value.ndim == 1 and place == 2 and "addc" in name:  # one number for each
            if len(value) != count:
                raise RuntimeError(
                    f"{name}: Expected length of scalars to match input of length {count} but got {len(value)} instead."
                )
            row.append(value[number].item())
        else:
            row.append(value)
    return row
