"""How far elementwise ops are from exact values, over all exponents, in units in the last place (ulp), beside PyTorch's.

Every op of one or two operands whose row has a reference. One operand: float32 at 96 numbers of each exponent and sign, float16 and bfloat16 at all
numbers, float64 at two numbers of each exponent and sign; two operands: 65,536 pairs, half of them of like size. Each op runs on all numbers at once and
again in parts of 256, which other kernels compute. The reference is NumPy's or SciPy's in float64; of float64, and where float64 has too few digits,
mpmath's with 40 digits. Where the exact value is no normal number of the dtype, or where the reference gives none, nothing is compared.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import dynograd
from dynograd.ops.op import registry
from tests.ops.tables import all_rows, title_of

__all__ = ["DTYPES", "NOT_RELATIVE", "errors_of", "gradient_error", "gradients", "name_of", "rows"]

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}
# Ops that vanish at numbers that are no powers of two (or are sums that may cancel): an error is not relative to the value there.
NOT_RELATIVE = frozenset("round airy_ai_slope gelu mish silu gelu_backward gelu_tanh_backward silu_backward".split())
_MANTISSAS = 96
_PAIRS = 1 << 16
_SHARE = 256
_DIGITS = 40


@cache
def numbers(dtype: str, count: int = 1) -> tuple[np.ndarray, ...]:
    """The operands."""
    if count > 1:
        return _pairs(dtype)
    if np.dtype(DTYPES[dtype]).itemsize == 2:
        return (np.arange(1 << 16, dtype=np.uint16).view(DTYPES[dtype]),)
    draw = np.random.default_rng(0)
    wide = dtype == "float64"
    word = np.uint64 if wide else np.uint32
    digits, exponents, mantissas = (52, 2046, 2) if wide else (23, 254, _MANTISSAS)
    powers = np.arange(1, exponents + 1, dtype=word)[:, None] << word(digits)
    fractions = draw.integers(0, 1 << digits, (exponents, mantissas), dtype=word)
    fractions[:, 0] = 0
    positive = (powers | fractions).reshape(-1).view(DTYPES[dtype])
    return (np.concatenate([positive, -positive, np.zeros(1, DTYPES[dtype])]),)


def _pairs(dtype: str) -> tuple[np.ndarray, ...]:
    draw = np.random.default_rng(1)
    (alone,) = numbers(dtype)
    x = alone[draw.integers(0, alone.size, _PAIRS)].astype(np.float64)
    y = alone[draw.integers(0, alone.size, _PAIRS)].astype(np.float64)
    near = x * np.exp2(draw.uniform(-8, 8, _PAIRS)) * draw.choice([-1.0, 1.0], _PAIRS)
    y[::2] = near[::2]
    with np.errstate(all="ignore"):
        return x.astype(DTYPES[dtype]), y.astype(DTYPES[dtype])


def name_of(row: Any) -> str:
    return row.name.rpartition(".")[2]


def rows(count: int = 1) -> list[Any]:
    """Of elementwise ops with so many operands of numbers with a fraction."""
    return [
        row
        for _, row in all_rows()
        if row.reference is not None
        and "float32" in row.dtypes
        and len(row.shapes) == count
        and isinstance(row.kwargs, dict)
        and not row.args
        and (op := registry.get(name_of(row))) is not None
        and op.kind == "elementwise"
        and len(op.array_names) == count
    ]


# --- exact values --------------------------------------------------------------------------------------------------------------


def _mpmath() -> dict[str, Callable[[Any], Any]]:
    import mpmath
    from mpmath import mp

    mp.dps = _DIGITS
    half_pi_root = mpmath.sqrt(2 / mp.pi)
    return {
        "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "expm1": mpmath.expm1,
        "log": mpmath.log, "log2": lambda x: mpmath.log(x) / mpmath.log(2), "log10": lambda x: mpmath.log(x) / mpmath.log(10),
        "log1p": mpmath.log1p, "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x), "reciprocal": lambda x: 1 / x,
        "square": lambda x: x * x, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin, "acos": mpmath.acos,
        "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asinh": mpmath.asinh,
        "acosh": mpmath.acosh, "atanh": mpmath.atanh, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "erf": mpmath.erf,
        "erfc": mpmath.erfc, "erfinv": _erfinv, "digamma": mpmath.digamma, "lgamma": _lgamma, "sinc": lambda x: mpmath.sincpi(x),
        "softplus": lambda x: mpmath.log1p(mpmath.exp(x)), "logsigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
        "silu": lambda x: x / (1 + mpmath.exp(-x)), "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
        "gelu-tanh": lambda x: x / (1 + mpmath.exp(-2 * half_pi_root * (x + mpmath.mpf(0.044715) * x**3))),
        "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    }  # fmt: skip


def _erfinv(x: Any) -> Any:
    import mpmath

    return mpmath.erfinv(x) if abs(x) < 1 else mpmath.nan


def _lgamma(x: Any) -> Any:
    import mpmath

    return mpmath.log(abs(mpmath.gamma(x))) if x < 0 else mpmath.loggamma(x)


# Beyond these sizes no value is a normal number, or exact ones take too long.
_MOST = {
    "lgamma": 1e6,
    "digamma": 1e6,
    "erfc": 40.0,
    "mish": 1e4,
    "gelu": 1e3,
    "erf": 1e3,
    "sin": 1e22,
    "cos": 1e22,
    "tan": 1e22,
    "sinc": 1e22,
}
# float64 references that have too few digits for float32.
_TOO_COARSE = frozenset("sinc lgamma digamma gelu mish".split())
_USUAL = 1e3
_TINIEST = 1e-290  # of float64: below, mpmath's numbers cost as much and show nothing


@cache
def _exactly(title: str, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(operands, exact values, what float64 leaves of them) by mpmath; None where it is not there or has no such function."""
    if importlib.util.find_spec("mpmath") is None:
        return None
    import mpmath

    function = _mpmath().get(title)
    if function is None:
        return None
    (x,) = numbers(dtype)
    wide = x.astype(np.float64)
    most = _MOST.get(title, 1e300)
    if dtype != "float64":
        x = x[np.random.default_rng(2).integers(0, x.size, 8192)]
        wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        x = x[(np.abs(wide) <= most) & (np.abs(wide) >= _TINIEST)]
    heads, rests = np.empty(x.size), np.empty(x.size)
    for place, value in enumerate(x.astype(np.float64).tolist()):
        heads[place], rests[place] = _split(mpmath, function, value)
    return x, heads, rests


def _split(mpmath: Any, function: Callable[[Any], Any], value: float) -> tuple[float, float]:
    try:
        exact = function(mpmath.mpf(value))
        if not isinstance(exact, mpmath.mpf):
            return np.nan, 0.0
        head = float(exact)
        return head, float(exact - mpmath.mpf(head)) if np.isfinite(head) else 0.0
    except (ValueError, ZeroDivisionError, OverflowError, mpmath.libmp.NoConvergence, TypeError):
        return np.nan, 0.0


def _by_reference(row: Any, operands: tuple[np.ndarray, ...]) -> np.ndarray | None:
    exact = np.asarray(row.reference(*[x.astype(np.float64) for x in operands], **row.kwargs))
    return exact if exact.dtype.kind == "f" and exact.shape == operands[0].shape else None


# --- errors --------------------------------------------------------------------------------------------------------------------


def _function(row: Any, library: Any) -> Any:
    name = name_of(row)
    for place in (library, library.nn.functional, library.special):
        if (function := getattr(place, name, None)) is not None:
            return function
    return None


def errors_of(row: Any, dtype: str, library: Any = dynograd) -> tuple[float, tuple[float, ...]] | None:
    """(the largest error in ulp, the operands it was at); None where the library has no such op or result."""
    function = _function(row, library)
    if function is None:
        return None
    count = len(row.shapes)
    told = (
        _exactly(title_of(row), dtype) if count == 1 and (dtype == "float64" or name_of(row) in _TOO_COARSE) else None
    )
    with np.errstate(all="ignore"):
        if told is not None:
            operands, exact, rest = (told[0],), told[1], told[2]
        elif dtype == "float64":
            return None
        else:
            operands, rest = numbers(dtype, count), np.zeros(1)
            exact = _by_reference(row, operands)
            if exact is None:
                return None
        try:
            results = _computed(function, operands, dtype, row.kwargs, library)
        except (RuntimeError, TypeError, NotImplementedError):
            return None
        spacing, compared = _spacing(exact, dtype)
        for x in operands:
            compared &= np.isfinite(x.astype(np.float64))
        error = np.max([np.abs((result - exact) - rest) / spacing for result in results], 0)
        error = np.where(compared, np.where(np.isnan(error), np.inf, error), 0.0)
    place = int(error.argmax())
    return float(error[place]), tuple(float(x[place]) for x in operands)


def _spacing(exact: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info = ml_dtypes.finfo(DTYPES[dtype])
    size = np.abs(exact)
    compared = (size >= float(info.smallest_normal)) & (size <= float(info.max))
    return np.exp2(np.floor(np.log2(np.where(compared, size, 1.0)))) * float(info.eps), compared


def _computed(
    function: Any, operands: tuple[np.ndarray, ...], dtype: str, kwargs: Any, library: Any
) -> list[np.ndarray]:
    """At once, and by dynograd in parts too."""
    kind = getattr(library, dtype)
    tensors = [library.tensor(x.astype(np.float64)).to(kind) for x in operands]
    whole = function(*tensors, **kwargs).to(library.float64).numpy()
    if library is not dynograd:
        return [whole]
    parts = [
        function(*[x[start : start + _SHARE].clone() for x in tensors], **kwargs).to(library.float64).numpy()
        for start in range(0, operands[0].size, _SHARE)
    ]
    return [whole, np.concatenate(parts)]


# --- gradients -----------------------------------------------------------------------------------------------------------------


def gradients() -> dict[str, tuple[Callable[[Any], Any], tuple[float, float]]]:
    """The derivative of each op in float64, and where."""
    from scipy import special

    def density(x: Any) -> Any:
        return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)

    def tanh_gate(x: Any) -> Any:
        share = special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
        return share * (
            1
            + x
            * special.expit(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
            * 2
            * np.sqrt(2 / np.pi)
            * (1 + 0.134145 * x * x)
        )

    return {
        "tanh": (lambda x: 1 / np.cosh(x) ** 2, (-9, 9)),
        "sigmoid": (lambda x: special.expit(x) * special.expit(-x), (-20, 20)),
        "erf": (lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x), (-4, 4)),
        "erfinv": (lambda x: np.sqrt(np.pi) / 2 * np.exp(special.erfinv(x) ** 2), (-0.999, 0.999)),
        "gelu": (lambda x: special.ndtr(x) + x * density(x), (-6, 6)),
        "gelu tanh": (tanh_gate, (-6, 6)),
        "silu": (lambda x: special.expit(x) * (1 + x * special.expit(-x)), (-20, 20)),
        "softplus": (special.expit, (-20, 20)),
        "tan": (lambda x: 1 / np.cos(x) ** 2, (-1.5, 1.5)),
        "asin": (lambda x: 1 / np.sqrt((1 - x) * (1 + x)), (-0.999, 0.999)),
        "acos": (lambda x: -1 / np.sqrt((1 - x) * (1 + x)), (-0.999, 0.999)),
        "atan": (lambda x: 1 / (1 + x * x), (-50, 50)),
        "log1p": (lambda x: 1 / (1 + x), (-0.9, 50)),
        "expm1": (np.exp, (-9, 9)),
    }


def gradient_error(name: str, library: Any = dynograd) -> float:
    """The largest error of a derivative in float32, in units of 2^-24 times the larger of 1 and its size."""
    exact, (low, high) = gradients()[name]
    points = np.linspace(low, high, 100_001).astype(np.float32)
    x = library.tensor(points).requires_grad_()
    if name == "gelu tanh":
        y = library.nn.functional.gelu(x, approximate="tanh")
    else:
        y = (getattr(library, name, None) or getattr(library.nn.functional, name))(x)
    y.backward(library.ones_like(y))
    expected = exact(points.astype(np.float64))
    error = np.abs(x.grad.numpy().astype(np.float64) - expected)
    return float((error / np.maximum(np.abs(expected), 1.0)).max() * 2**24)
