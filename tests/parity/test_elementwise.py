"""Every elementwise function beside PyTorch's: values, dtypes and gradients, on ordinary and on special values.

A case names the function, its domain and what is known to differ. Each is run in several dtypes, on random values and (in the
floating ones) on zeros, infinities, NaN and the kinks of the usual activations.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy
import pytest
import torch

import dynograd

INF, NAN = math.inf, math.nan
SPECIAL = numpy.array([-INF, -7.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 25.0, INF, NAN])
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "uint8")
TOLERANCE = {"float64": (1e-9, 1e-12), "float32": (1e-5, 1e-6), "float16": (2e-3, 1e-4), "bfloat16": (2e-2, 1e-3)}


@dataclass
class Case:
    """One call in both libraries.

    Args:
        name: dotted name below dynograd and torch.
        count: number of tensor arguments.
        args, kwargs: further arguments.
        domain: from which random values are drawn.
        dtypes: what is tried beside the floats.
        skip: special values of the first argument that are left out, with the reason in `why`.
        special: whether special values are tried at all.
        gradient: whether gradients are compared.
        sign: whether the sign of zeros is compared too.
        loose: factor on the tolerance.
    """

    name: str
    count: int = 1
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    domain: tuple[float, float] = (-3.0, 3.0)
    dtypes: tuple[str, ...] = ()
    skip: tuple[float, ...] = ()
    why: str = ""
    special: bool = True
    gradient: bool = True
    sign: bool = False
    loose: float = 1.0


def functional(name: str, *args: Any, **options: Any) -> Case:
    return Case(f"nn.functional.{name}", args=args, **options)


WHOLE = INTEGERS
ALL = (*INTEGERS, "bool")
CASES = [
    *[
        Case(name, dtypes=ALL)
        for name in ("exp", "exp2", "expm1", "sin", "cos", "tan", "tanh", "sigmoid", "asinh", "atan", "erf")
    ],
    *[Case(name, dtypes=ALL) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "erfc", "reciprocal")],
    *[Case(name, dtypes=("uint8", "int64")) for name in ("cosh", "sinh", "asin", "acos", "atanh", "acosh", "erfinv")],
    Case("logit", dtypes=("uint8", "int64"), skip=(-0.0,), why="torch gives +inf as the slope at -0"),
    Case("sinc", dtypes=("uint8", "int64"), loose=200, special=False),
    *[Case(name, dtypes=("uint8", "int64", "float32")) for name in ("deg2rad", "rad2deg")],
    Case(
        "logit",
        args=(0.1,),
        skip=(numpy.nan,),
        why="torch gives a slope of NaN at NaN in small arrays, and 0 in large ones",
    ),
    Case("lgamma", dtypes=("uint8", "int64"), loose=20),
    Case("digamma", dtypes=("uint8", "int64"), loose=20, gradient=False),
    Case("digamma", domain=(0.1, 9), special=False, loose=20),
    *[
        Case(name, dtypes=(*WHOLE, "bool"), gradient=False)
        for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit")
    ],
    Case("logical_not", dtypes=ALL, gradient=False),
    *[
        Case(name, dtypes=WHOLE, sign=True)
        for name in ("neg", "abs", "sign", "floor", "ceil", "trunc", "round", "square")
    ],
    Case("frac", skip=(-0.0,), why="torch keeps the sign of the zero in some loops only"),
    Case("round", kwargs={"decimals": 1}),
    Case("round", kwargs={"decimals": -1}, domain=(-50, 50)),
    Case("nan_to_num", dtypes=WHOLE),
    Case("nan_to_num", args=(1.0, 2.0, 3.0)),
    Case("mvlgamma", args=(2,), domain=(1, 5), special=False, loose=20),
    # two operands
    *[Case(name, 2, dtypes=(*WHOLE, "bool")) for name in ("add", "mul", "div", "true_divide")],
    *[Case(name, 2, dtypes=WHOLE) for name in ("sub", "rsub", "maximum", "minimum", "fmax", "fmin")],
    Case("add", 2, kwargs={"alpha": 2}, dtypes=WHOLE),
    Case("sub", 2, kwargs={"alpha": 0.5}),
    *[Case(name, 2, loose=4) for name in ("remainder", "fmod")],
    Case("floor_divide", 2, gradient=False),
    *[Case("div", 2, kwargs={"rounding_mode": mode}) for mode in ("floor", "trunc")],
    *[
        Case(name, 2, domain=(1, 9), dtypes=WHOLE, special=False, gradient=False)
        for name in ("remainder", "fmod", "floor_divide")
    ],
    Case("pow", 2, domain=(0.1, 3), dtypes=WHOLE),
    Case("atan2", 2, dtypes=(*WHOLE, "bool")),
    Case("hypot", 2),
    Case("copysign", 2, dtypes=WHOLE, sign=True, skip=(-INF, INF, NAN), why="torch divides inf by inf in the gradient"),
    Case("logaddexp", 2),
    Case("logaddexp2", 2),
    Case("xlogy", 2, dtypes=WHOLE),
    Case("heaviside", 2, gradient=False),
    Case("ldexp", 2, special=False),
    Case("float_power", 2, domain=(0.1, 3), dtypes=WHOLE, special=False),
    *[
        Case(name, 2, dtypes=ALL, gradient=False)
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
    ],
    Case("isclose", 2, gradient=False, dtypes=WHOLE),
    # numbers
    *[Case("pow", args=(number,)) for number in (0, 0.5, 1, 2, 3, 2.5, -0.5, -1, -2)],
    *[Case("pow", args=(number,), dtypes=WHOLE) for number in (0, 1, 2, 3, 2.0, 0.5)],
    *[Case(name, args=(number,), dtypes=WHOLE) for name in ("add", "sub", "mul", "div") for number in (2, 2.5)],
    *[Case(name, args=(number,), special=False) for name in ("remainder", "fmod") for number in (2, 1.5)],
    *[Case(name, args=(number,), dtypes=WHOLE, gradient=False) for name in ("eq", "lt", "ge") for number in (1, 1.5)],
    *[Case(name, args=(number,), dtypes=WHOLE) for name in ("clamp_min", "clamp_max") for number in (1, 0.5)],
    *[Case("clamp", args=bounds, dtypes=WHOLE) for bounds in ((1, 2), (0, 1.5), (None, 1), (0.5, None), (2, 1))],
    Case("clamp", args=(NAN, 1.0)),
    Case("addcmul", 3, dtypes=WHOLE),
    Case("addcmul", 3, kwargs={"value": 0.5}),
    Case("addcdiv", 3, kwargs={"value": 2}),
    Case("lerp", 3),
    Case("lerp", 2, args=(0.3,)),
    Case("lerp", 2, args=(0.7,)),
    Case("clamp", 3),
    Case("clamp_min", 2),
    # activations
    Case("relu", dtypes=WHOLE),
    functional("relu6", dtypes=WHOLE),
    functional("leaky_relu"),
    functional("leaky_relu", -0.5),
    functional("elu"),
    functional("elu", 0.5),
    Case("selu"),
    Case("celu", args=(2.0,)),
    functional("gelu", skip=(INF,), why="torch's vector loop gives nan at inf, its scalar loop inf"),
    functional("gelu", kwargs={"approximate": "tanh"}),
    functional("silu"),
    functional("mish"),
    functional("softplus"),
    functional("softplus", 2, 5),
    functional("softsign"),
    functional("tanhshrink"),
    functional("hardtanh", dtypes=("int64", "int16")),
    functional("hardtanh", -0.5, 3.0),
    functional("hardsigmoid", loose=100),  # torch's float64 gradient is a float32 sixth
    functional("hardswish"),
    functional("logsigmoid"),
    Case("hardshrink", args=(1.0,)),
    functional("softshrink", 1.0),
    Case("threshold", args=(0.5, 9.0)),
]


def both(case: Case) -> tuple[Any, Any]:
    return tuple(functools.reduce(getattr, case.name.split("."), library) for library in (dynograd, torch))


def to_torch(array: numpy.ndarray) -> torch.Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.astype(numpy.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def to_numpy(tensor: Any) -> numpy.ndarray:
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.detach()
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    array = tensor.detach().array
    return array.astype(numpy.float64) if array.dtype.kind in "fV" else array


def compare(result: Any, expected: Any, case: Case, name: str, what: str) -> None:
    kind = str(expected.dtype).removeprefix("torch.")
    assert result.dtype is getattr(dynograd, kind), f"{what}: {result.dtype}, PyTorch gives {kind}"
    rtol, atol = (part * case.loose for part in TOLERANCE.get(name, TOLERANCE["float32"]))
    element, other = to_numpy(result), to_numpy(expected)
    numpy.testing.assert_allclose(element, other, rtol=rtol, atol=atol, err_msg=what)
    if case.sign and what == "values":
        zero = other == 0
        numpy.testing.assert_array_equal(
            numpy.signbit(element[zero]), numpy.signbit(other[zero]), err_msg=f"{what}: signs of zeros"
        )


def check(case: Case, arrays: list[numpy.ndarray], name: str) -> None:
    ours, theirs = both(case)
    wants = case.gradient and name in FLOATS
    mine = [dynograd.from_numpy(array.copy()).requires_grad_(wants) for array in arrays]
    other = [to_torch(array).requires_grad_(wants) for array in arrays]
    result = ours(*mine, *case.args, **case.kwargs)
    expected = theirs(*other, *case.args, **case.kwargs)
    compare(result, expected, case, name, "values")
    if not wants or not expected.requires_grad:
        return
    result.backward(dynograd.ones_like(result))
    expected.backward(torch.ones_like(expected))
    for place, (element, two) in enumerate(zip(mine, other, strict=True)):
        if two.grad is None:
            assert element.grad is None or not element.grad.array.any()
        else:
            compare(element.grad, two.grad, case, name, f"gradient of argument {place}")


def title(case: Case) -> str:
    extra = [str(arg) for arg in case.args] + [f"{key}={value}" for key, value in case.kwargs.items()]
    return "-".join([case.name.rpartition(".")[2], str(case.count), *extra])


@pytest.mark.parametrize("case", CASES, ids=title)
def test_random_values(case: Case) -> None:
    rng = numpy.random.default_rng(2)
    for name in (*FLOATS, *case.dtypes):
        kind = numpy.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        arrays = []
        for _ in range(case.count):
            values = rng.uniform(*case.domain, (5, 7))
            if kind.kind in "iu":
                values = (
                    numpy.floor(numpy.abs(values)) if kind.kind == "u" or case.domain[0] > 0 else numpy.floor(values)
                )
            arrays.append(values > 0 if kind.kind == "b" else values.astype(kind))
        check(case, arrays, name)


@pytest.mark.parametrize("case", [case for case in CASES if case.special], ids=title)
def test_special_values(case: Case) -> None:
    """Whole vectors of them: PyTorch's code for the last few elements of an array gives other gradients at NaN."""
    left_out = [numpy.float64(element).tobytes() for element in case.skip]  # by bits: -0 is not 0, and NaN is NaN
    values = numpy.array([element for element in SPECIAL if element.tobytes() not in left_out])
    for name in ("float32", "float64"):
        grids = numpy.meshgrid(*[values] * case.count, indexing="ij")
        check(case, [numpy.tile(grid.astype(name).ravel(), 64) for grid in grids], name)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"])
def test_integers(name: str) -> None:
    rng = numpy.random.default_rng(2)
    for kind in INTEGERS:
        arrays = [rng.integers(1, 60, (4, 5)).astype(kind) for _ in range(2)]
        result = getattr(dynograd, name)(*[dynograd.from_numpy(array) for array in arrays])
        expected = getattr(torch, name)(*[torch.from_numpy(array) for array in arrays])
        assert result.dtype is getattr(dynograd, kind)
        numpy.testing.assert_array_equal(result.array, expected.numpy())


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts_beyond_the_width(name: str) -> None:
    values, shifts = numpy.meshgrid([-9, -1, 0, 1, 7], [0, 1, 31, 62, 63, 64, 100])
    result = getattr(dynograd, name)(dynograd.from_numpy(values.copy()), dynograd.from_numpy(shifts.copy()))
    expected = getattr(torch, name)(torch.from_numpy(values.copy()), torch.from_numpy(shifts.copy()))
    numpy.testing.assert_array_equal(result.array, expected.numpy())


KINDS = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "pow", "eq", "atan2", "copysign", "where"])
def test_promotion(name: str) -> None:
    """Result dtypes for all pairs of dtypes, with dims and without, and with Python numbers."""
    ours, theirs = getattr(dynograd, name), getattr(torch, name)
    if name == "where":
        condition = numpy.array([True, False])
        one_sided, other_sided = ours, theirs
        ours = lambda x, y: one_sided(dynograd.from_numpy(condition), x, y)  # noqa: E731
        theirs = lambda x, y: other_sided(torch.from_numpy(condition), x, y)  # noqa: E731
    for first in KINDS:
        for second in KINDS:
            for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
                mine = [
                    dynograd.ones(shape, dtype=getattr(dynograd, kind))
                    for shape, kind in zip(shapes, (first, second), strict=True)
                ]
                other = [
                    torch.ones(shape, dtype=getattr(torch, kind))
                    for shape, kind in zip(shapes, (first, second), strict=True)
                ]
                same_dtype(ours, theirs, mine, other)
        for number in (2, 2.5, True):
            for shape in ((2,), ()):
                mine = [dynograd.ones(shape, dtype=getattr(dynograd, first)), number]
                other = [torch.ones(shape, dtype=getattr(torch, first)), number]
                same_dtype(ours, theirs, mine, other)
                same_dtype(ours, theirs, mine[::-1], other[::-1])


def same_dtype(ours: Any, theirs: Any, mine: list, other: list) -> None:
    try:
        expected = theirs(*other)
    except (RuntimeError, TypeError, NotImplementedError):
        return  # dynograd may take more
    result = ours(*mine)
    described = ", ".join(
        f"{element.dtype} {tuple(element.shape)}" if hasattr(element, "dtype") else repr(element) for element in other
    )
    assert result.dtype is getattr(dynograd, str(expected.dtype).removeprefix("torch.")), (
        f"({described}) gave {result.dtype}, PyTorch gives {expected.dtype}"
    )
    numpy.testing.assert_allclose(to_numpy(result), to_numpy(expected), rtol=1e-6, err_msg=described)
