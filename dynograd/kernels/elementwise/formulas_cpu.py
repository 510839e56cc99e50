"""The kernel of an elementwise op from its formula: one of NumPy's functions, a text of several, or a compiled function.

Of what a formula may name, NumPy lacks the normal distribution and the like: those are here, on NumPy arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd import kernels
from dynograd.base.generated_sources import run_source
from dynograd.kernels.build.sizes import COMPILED_PASS, UFUNC
from dynograd.kernels.elementwise.ufuncs import FLAT, VECTORISED, ByType, compiled, number, select, without_repeats
from dynograd.kernels.formula import formulas_numpy

# Compiled for real numbers only: PyTorch refuses complex ones, which the others take.
_REAL = frozenset({"special_entr", "special_ndtr", "special_xlog1py"})


def kernel_of_formula(name: str) -> Any:
    """The kernel of an op by its formula in the table of ops; None when it is no elementwise op."""
    told = kernels.op_formulas[0].forward(name)
    if told is None:
        return None
    operands, statics, (tree,), _, _ = told
    if not statics and name not in VECTORISED and (function := formulas_numpy.plain_function(tree, operands)):
        return getattr(numpy, function)
    kind = f"{operands[0]}.dtype.char"
    arguments = ", ".join((*operands, *[f"number({text}, kind)" for text in statics]))
    first = ""
    if name in FLAT:
        shapes = " == ".join([f"{text}.shape" for text in operands])
        same = f" and {shapes}" if len(operands) > 1 else ""
        first = f"    if {operands[0]}.size >= {UFUNC}{same} and (ufunc := flat[kind := {kind}]) is not None:\n"
        first += f"        return ufunc({arguments})\n"
    elif name in VECTORISED:
        unit = [f"without_repeats({operands[0]})", *operands[1:]] if len(operands) > 1 else operands
        first = f"    if {kind} == 'f':\n        return vector['f']({', '.join(unit)})\n"
    source = None if name in _REAL else formulas_numpy.numpy_source(name, operands, statics, tree, first)
    if source is None:
        count = len(operands) + len(statics)
        source = f"def {name}({', '.join((*operands, *statics))}):\n    kind = {kind}\n"
        source += f"    return compiled({name!r}, kind{f' * {count}' if count > 1 else ''})({arguments})\n"
    space = dict(
        _FUNCTIONS,
        __name__=__name__,
        constants=_Constants(formulas_numpy.constants_of(tree, statics)),
        flat=FLAT.get(name),
        vector=ByType(name, len(operands)),
    )
    return run_source(source, f"kernel {name}", space, {})[name]


class _Constants(dict):
    """The numbers of a formula as arrays without dims, by the letter of the operands' dtype; beside integers, fractions stay Python numbers."""

    def __init__(self, values: tuple[float, ...]) -> None:
        self.numbers = values

    def __missing__(self, char: str) -> Any:
        constants = self[char] = tuple([self._constant(value, char) for value in self.numbers])
        return constants

    @staticmethod
    def _constant(value: float, char: str) -> Any:
        if numpy.dtype(char).kind in "biu" and not float(value).is_integer():
            return value
        return numpy.asarray(value).astype(char)


def _compared(value: float, kind: str) -> Any:
    """`number(value, kind)`; beside integers the value itself, which need not be one."""
    return number(value, kind) if kind in "fdFD" else value


def between(input: Any, low: Any, high: Any) -> Any:
    """`input` between two numbers of its dtype, of which the upper one wins."""
    if input.size < COMPILED_PASS:
        return numpy.minimum(numpy.maximum(input, low), high)
    ufunc = FLAT["clamp"][input.dtype.char]
    # Where neither bound is NaN; at a bound of 0 the sign of zeros is as above.
    if ufunc is not None and abs(low.item() * high.item()) > 0:
        return ufunc(input, low, high)
    return numpy.clip(input, low, high)


def _sigmoid(x: Any) -> Any:
    if x.dtype.kind == "c":  # no exponential of a large number: inf + inf j divided is NaN
        small = numpy.exp(numpy.where(x.real > 0, -x, x))
        return numpy.where(x.real > 0, 1, small) / (1 + small)
    top = number(1, x.dtype.char)
    return top / (top + numpy.exp(-x))


def _expm1(x: numpy.ndarray) -> numpy.ndarray:
    """Of float32 by the compiled one: NumPy's is up to 2.2 units in the last place off."""
    return compiled("expm1", "f")(x) if x.dtype.char == "f" else numpy.expm1(x)


def _log(x: numpy.ndarray) -> numpy.ndarray:
    """The same: 1.7 units of NumPy's are too many where a product follows."""
    return compiled("log", "f")(x) if x.dtype.char == "f" else numpy.log(x)


# Of the normal distribution, as arrays, which NumPy takes sooner than numbers.
_HALF, _MINUS_HALF, _MINUS_ROOT, _DENSITY = map(
    numpy.asarray, (0.5, -0.5, -math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi))
)


def _normal_cdf(x: Any) -> Any:
    return _HALF * compiled("erfc", "d")(x * _MINUS_ROOT)


def _normal_gate(x: Any) -> Any:
    return x * _normal_cdf(x)


def _normal_gate_slope(x: Any) -> Any:
    return _normal_cdf(x) + x * _DENSITY * numpy.exp(_MINUS_HALF * x * x)


_FUNCTIONS = {function: getattr(numpy, function) for function in formulas_numpy.FUNCTIONS.values()}
_FUNCTIONS |= dict(
    between=between,
    compared=_compared,
    compiled=compiled,
    expm1=_expm1,
    log=_log,
    normal_gate=_normal_gate,
    normal_gate_slope=_normal_gate_slope,
    number=number,
    select=select,
    sigmoid=_sigmoid,
    without_repeats=without_repeats,
)
