"""Names of PyTorch's top level that are no ops of their own: shapes that broadcast, in-place methods as functions."""

from __future__ import annotations

from typing import Any

from dynograd import shapes
from dynograd.inplace import write_result
from dynograd.tensor import Tensor

__all__ = ["broadcast_shapes"]

# In-place methods that PyTorch also has as functions: `dynograd.relu_(x)` is `x.relu_()`.
INPLACE = """
abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_
clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_
ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_
sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
""".split()


def broadcast_shapes(*shapes_: Any) -> shapes.Size:
    """The shape that tensors of these shapes broadcast to; a number stands for a shape of one dim.

    Raises:
        ShapeError: they do not broadcast.

    >>> dynograd.broadcast_shapes((2, 1), (3,), ())
    dynograd.Size([2, 3])
    """
    given = [(one,) if isinstance(one, int) else tuple(one) for one in shapes_]
    for one in given:
        shapes.check_sizes("broadcast_shapes", one)
    return shapes.Size(shapes.broadcast_shapes("broadcast_shapes", *given))


def inplace_functions() -> dict[str, Any]:
    """The methods of `INPLACE` by name."""
    return {name: getattr(Tensor, name) for name in INPLACE if hasattr(Tensor, name)}


def install_more_methods(functions: dict[str, Any]) -> None:
    """Puts methods on Tensor whose function does not take the tensor first."""

    def polygamma(self: Tensor, n: int) -> Tensor:
        return functions["polygamma"](n, self)

    def polygamma_(self: Tensor, n: int) -> Tensor:
        return write_result(self, functions["polygamma"](n, self), "polygamma_")

    for method in (polygamma, polygamma_):
        method.__doc__ = "See `dynograd.polygamma`."
        method.__qualname__ = f"Tensor.{method.__name__}"
        setattr(Tensor, method.__name__, method)
