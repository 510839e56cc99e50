"""Second names that PyTorch gives to elementwise ops, as functions, methods and in-place methods."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base.shapes import check_tensor
from dynograd.base.signatures import signature_of
from dynograd.ops.elementwise import arithmetic, comparisons, exponentials, roundings, special_functions, trigonometrics
from dynograd.ops.op import composed

ALIASES: dict[str, Any] = {
    "absolute": arithmetic.abs,
    "arccos": trigonometrics.acos,
    "arccosh": exponentials.acosh,
    "arcsin": trigonometrics.asin,
    "arcsinh": exponentials.asinh,
    "arctan": trigonometrics.atan,
    "arctan2": trigonometrics.atan2,
    "arctanh": exponentials.atanh,
    "divide": arithmetic.div,
    "expit": exponentials.sigmoid,
    "fix": roundings.trunc,
    "greater": comparisons.gt,
    "greater_equal": comparisons.ge,
    "less": comparisons.lt,
    "less_equal": comparisons.le,
    "multiply": arithmetic.mul,
    "negative": arithmetic.neg,
    "not_equal": comparisons.ne,
    "psi": special_functions.digamma,
    "subtract": arithmetic.sub,
    "true_divide": arithmetic.divide,
}
_NO_METHODS = ("expit", "psi")
_NO_FUNCTIONS = ("absolute",)  # in place


def _publish(name: str, function: Any) -> None:
    def alias(*args: Any, **kwargs: Any) -> Array:
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = name
    alias.__doc__ = f"Another name of `{function.op.name}`.\n\n    {function.__doc__}"
    alias.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    method = name not in _NO_METHODS
    inplace = "function" if function.op.inplace == "function" and name not in _NO_FUNCTIONS else True
    composed(method=method, inplace=method and inplace, tensors=function.op.row["tensors"])(alias)


for _name, _function in ALIASES.items():
    _publish(_name, _function)


@composed(method=True, out=None, ragged="packed")
def positive(input: Any) -> Array:
    """`input` itself, as `+input`.

    Args:
        input: tensor of any shape.
    Returns:
        `input`.
    Raises:
        TypeError: `input` is no tensor.

    >>> dynograd.positive(tensor([-1.0, 2.0]))
    tensor([-1.,  2.])
    """
    check_tensor("positive", "input", input)
    return input
