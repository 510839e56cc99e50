"""Bessel functions and Airy's: functions of `dynograd.special`, here under their names with `special_` in front.

Their formulas are those of `kernels/formula/bessel_formulas.py` and `airy_formulas.py`: relative errors of a few units in the last place,
near zeros of the functions
absolute ones. Far from 0 the waves of J, Y and Ai are as exact as `sin` of a number that is rounded.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import composed, elementwise

# --- modified ------------------------------------------------------------------------------------------------------------


@elementwise(
    formula="abs(input) == inf ? inf : exp(abs(input)) * special_i0e(input)",
    derivative="g * special_i1(input)",
    promote="float",
    method=True,
    inplace="function",
)
def i0(input: Array) -> Array:
    """The modified Bessel function of the first kind of order 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.i0(tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """


@elementwise(
    name="special_i0e",
    formula="bessel_i0e(input)",
    derivative="g * (special_i1e(input) - sign(input) * output)",
    promote="float",
)
def i0e(input: Array) -> Array:
    """`exp(-abs(input)) * i0(input)`, which does not overflow.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.i0e(tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """


@elementwise(
    name="special_i1",
    formula="abs(input) == inf ? input : exp(abs(input)) * special_i1e(input)",
    derivative="g * where(abs(input) < 1e-30, 0.5, i0(input) - output / where(input == 0, 1.0, input))",
    promote="float",
)
def i1(input: Array) -> Array:
    """The modified Bessel function of the first kind of order 1.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.i1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """


@elementwise(
    name="special_i1e",
    formula="bessel_i1e(input)",
    derivative="g * where(abs(input) < 1e-30, 0.5, special_i0e(input) - output * (sign(input) + 1 / where(input == 0, 1.0, input)))",
    promote="float",
)
def i1e(input: Array) -> Array:
    """`exp(-abs(input)) * i1(input)`, which does not overflow.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.i1e(tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """


@composed()
def special_modified_bessel_i0(input: Any) -> Array:
    """Another name of `i0`.

    Args:
        input: tensor of any shape.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.modified_bessel_i0(tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return i0(input)


@composed()
def special_modified_bessel_i1(input: Any) -> Array:
    """Another name of `special.i1`.

    Args:
        input: tensor of any shape.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.modified_bessel_i1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return i1(input)


@elementwise(
    name="special_modified_bessel_k0",
    formula="bessel_k0(input)",
    derivative="-g * special_modified_bessel_k1(input)",
    promote="float",
)
def k0(input: Array) -> Array:
    """The modified Bessel function of the second kind of order 0; infinite at 0, NaN below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.modified_bessel_k0(tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """


@elementwise(
    name="special_modified_bessel_k1",
    formula="bessel_k1(input)",
    derivative="-g * (special_modified_bessel_k0(input) + output / input)",
    promote="float",
)
def k1(input: Array) -> Array:
    """The modified Bessel function of the second kind of order 1; infinite at 0, NaN below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.modified_bessel_k1(tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """


@elementwise(
    name="special_scaled_modified_bessel_k0",
    formula="bessel_scaled_k0(input)",
    derivative="g * (output - special_scaled_modified_bessel_k1(input))",
    promote="float",
)
def scaled_k0(input: Array) -> Array:
    """`exp(input) * modified_bessel_k0(input)`, which does not underflow.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.scaled_modified_bessel_k0(tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """


@elementwise(
    name="special_scaled_modified_bessel_k1",
    formula="bessel_scaled_k1(input)",
    derivative="g * (output - special_scaled_modified_bessel_k0(input) - output / input)",
    promote="float",
)
def scaled_k1(input: Array) -> Array:
    """`exp(input) * modified_bessel_k1(input)`, which does not underflow.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.scaled_modified_bessel_k1(tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """


# --- of the first and second kind ----------------------------------------------------------------------------------------------


@elementwise(
    name="special_bessel_j0",
    formula="bessel_j0(input)",
    derivative="-g * special_bessel_j1(input)",
    promote="float",
)
def j0(input: Array) -> Array:
    """The Bessel function of the first kind of order 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.bessel_j0(tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """


@elementwise(
    name="special_bessel_j1",
    formula="bessel_j1(input)",
    derivative="g * where(input == 0, 0.5, special_bessel_j0(input) - output / where(input == 0, 1.0, input))",
    promote="float",
)
def j1(input: Array) -> Array:
    """The Bessel function of the first kind of order 1.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.bessel_j1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """


@elementwise(
    name="special_bessel_y0",
    formula="bessel_y0(input)",
    derivative="-g * special_bessel_y1(input)",
    promote="float",
)
def y0(input: Array) -> Array:
    """The Bessel function of the second kind of order 0; minus infinity at 0, NaN below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.bessel_y0(tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """


@elementwise(
    name="special_bessel_y1",
    formula="bessel_y1(input)",
    derivative="g * (special_bessel_y0(input) - output / input)",
    promote="float",
)
def y1(input: Array) -> Array:
    """The Bessel function of the second kind of order 1; minus infinity at 0, NaN below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.bessel_y1(tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """


@elementwise(
    name="special_spherical_bessel_j0",
    formula="spherical_bessel(input, 0)",
    derivative="-g * input * spherical_bessel_quotient(input, 1)",
    promote="float",
)
def spherical_j0(input: Array) -> Array:
    """The spherical Bessel function of the first kind of order 0, `sin(input) / input`.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.spherical_bessel_j0(tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """


@elementwise(
    formula="spherical_bessel(input, n)",
    derivative="-g * input * spherical_bessel_quotient(input, n + 1)",
    promote="float",
)
def spherical_bessel_quotient(input: Array, n: int) -> Array:
    """The spherical Bessel function of order `n` over `input ** n`, which has no singularity: what derivatives of `j0` are made of."""


@elementwise(name="special_airy_ai", formula="airy_ai(input)", derivative="g * airy_ai_slope(input)", promote="float")
def airy_ai(input: Array) -> Array:
    """Airy's function Ai.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.airy_ai(tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """


@elementwise(formula="airy_slope(input)", derivative="g * input * special_airy_ai(input)", promote="float")
def airy_ai_slope(input: Array) -> Array:
    """The derivative of Airy's function Ai."""
