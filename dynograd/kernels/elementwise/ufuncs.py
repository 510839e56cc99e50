"""Elementwise kernels that NumPy lacks, as NumPy ufuncs made from formulas (`loops_cpu.ufunc`), compiled on first use."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import kernels
from dynograd.errors import DtypeError
from dynograd.kernels.elementwise import loops_cpu

__all__ = ["COMPOSED", "FLAT", "KEPT", "SMALL", "VECTORISED", "compiled", "gate", "number", "of_table", "select"]

# Below these sizes NumPy's own functions do: a small program should not have to load Numba for a mask.
SMALL = 2048
# The same where a compiled function takes half of the time at 1000 elements: NumPy needs several passes, or branches.
COMPOSED = 512

_TAIL = "0.7978845608028654 * (other + 0.044715 * other * other * other)"
_FORMULAS: dict[str, tuple[str, str]] = {
    "select": ("condition input other", "condition ? input : other"),
    "kept": ("condition input", "condition ? input : 0"),
    "gate": ("input other", "other <= 0 ? 0 : input"),
    "sigmoid": ("input", "sigmoid(input)"),
    "silu": ("input", "input * sigmoid(input)"),
    "silu_backward": (
        "input other",
        "input * sigmoid(other) * (1 + other * (1 - sigmoid(other)))",
    ),
    "gelu": ("input", "normal_gate(input)"),
    "gelu_backward": ("input other", "input * normal_gate_slope(other)"),
    "gelu_tanh": ("other", f"0.5 * other * (1 + tanh({_TAIL}))"),
    "gelu_tanh_backward": (
        "input other",
        f"0.5 * input * (1 + tanh({_TAIL}) + other * (1 - tanh({_TAIL}) * tanh({_TAIL}))"
        " * (other * other * 0.1070322244089 + 0.7978845608028654))",
    ),
    "erf": ("input", "erf(input)"),
    "erfc": ("input", "erfc(input)"),
    "erfinv": ("input", "erfinv(input)"),
    "lgamma": ("input", "lgamma(input)"),
    "digamma": ("input", "digamma(input)"),
    "polygamma": ("n input", "polygamma(input, n)"),
    "relu": ("input", "input <= 0 ? 0 : input"),
    "sign": ("input", "input > 0 ? 1 : (input < 0 ? -1 : 0)"),
    "clamp": (
        "input min max",
        "max <= (input <= min ? min : input) ? max : (input <= min ? min : input)",
    ),  # no NaN bounds
    "addcmul": ("input tensor1 tensor2 value", "input + value * tensor1 * tensor2"),
    "addcdiv": ("input tensor1 tensor2 value", "input + value * tensor1 / tensor2"),
    "lerp": (
        "input end weight",
        "abs(weight) < 0.5 ? input + weight * (end - input) : end - (end - input) * (1 - weight)",
    ),
}
# The operands that are 0-d arrays; the others are of one shape.
_NUMBERS = {"relu": "", "sign": "", "clamp": "min max", "addcmul": "value", "addcdiv": "value", "lerp": "weight"}
# Those whose one loop is vector code: as good as a function of NumPy's on medium arrays.
VECTORISED = frozenset("sigmoid silu silu_backward gelu gelu_backward gelu_tanh gelu_tanh_backward erf".split())
_found: dict[tuple[str, str], Any] = {}
_numbers: dict[tuple[Any, str], Any] = {}


def compiled(name: str, kinds: str) -> Any:
    """The ufunc of the formula `name` for operands of these dtypes (letters; the result has the last one's)."""
    made = _found.get((name, kinds))
    if made is None:
        if kinds[-1] in "FD" and name != "select":
            raise TypeError(f"{name}: formulas are compiled for real numbers")
        operands, text = _FORMULAS[name]
        made = _found[name, kinds] = loops_cpu.ufunc(
            f"{name}_{kinds.replace('?', 'b')}", text, operands, kinds, kinds[-1], _NUMBERS.get(name, "")
        )
    return made


class _ByType(dict):
    """The compiled function of a formula by the letter of the dtype; None for dtypes that are not float32 or float64."""

    __slots__ = ("count", "first", "name")

    def __init__(self, name: str, first: str = "") -> None:
        self.name, self.first, self.count = name, first, len(_FORMULAS[name][0].split())

    def __missing__(self, char: str) -> Any:
        kinds = self.first + char * (self.count - len(self.first))
        made = self[char] = compiled(self.name, kinds) if char in ("f", "d") else None
        return made


FLAT = {name: _ByType(name) for name in _NUMBERS}
KEPT = _ByType("kept", "?")  # where the first operand, of bools, is true; 0 elsewhere


def of_table(name: str) -> Any:
    """The kernel of an op by its formula in the table of ops; None when it is no elementwise op."""
    told = kernels.op_formulas[0].forward(name)
    if told is None:
        return None
    operands, statics, (tree,), _, _ = told
    found: dict[str, Any] = {}

    def computed(*arguments: Any) -> Any:
        char = arguments[0].dtype.char
        made = found.get(char)
        if made is None:
            made = found[char] = _of_tree(name, tree, (*operands, *statics), char, statics)
        count = len(operands)
        return made(*arguments[:count], *[number(value, char) for value in arguments[count:]])

    return computed


def _of_tree(name: str, tree: Any, operands: tuple[str, ...], char: str, numbers: tuple[str, ...]) -> Any:
    if char not in ("f", "d"):
        raise DtypeError(f"{name}: expected real floating-point numbers, got {numpy.dtype(char).name}.")
    from dynograd.kernels.formula import generator_numba

    return generator_numba.ufunc(f"{name}_{char}", tree, operands, char * len(operands), char, numbers)


def number(value: Any, char: str) -> Any:
    """A 0-d array; repeated numbers are remembered."""
    key = (value, char) if value or type(value) is int else (str(value), char)  # 0.0 is not -0.0
    found = _numbers.get(key)
    if found is None:
        found = numpy.asarray(value).astype(char)
        if len(_numbers) < 256:
            _numbers[key] = found
    return found


_SPREAD = 4096  # elements from which it pays to write operands out over the common shape


def select(condition: Any, input: Any, other: Any) -> Any:
    """`numpy.where` for operands of one dtype; for a million elements and a random mask 0.1 ms instead of 4 ms (AMD EPYC).

    NumPy branches for each element; this moves bits without a branch, so the result does not depend on which one runs.
    """
    if (condition.size < COMPOSED and input.size < COMPOSED and other.size < COMPOSED) or input.dtype.itemsize > 8:
        return numpy.where(condition, input, other)
    letter = input.dtype.char
    if condition.shape != input.shape or input.shape != other.shape:
        if condition.size < _SPREAD and input.size < _SPREAD and other.size < _SPREAD:
            return numpy.where(condition, input, other)
        shape = numpy.broadcast(condition, input, other).shape
        condition, input, other = _spread(condition, shape), _spread(input, shape), _spread(other, shape)
    if letter == "f" or letter == "d":
        return compiled("select", f"?{letter}{letter}")(condition, input, other)
    letter = numpy.dtype(f"u{input.dtype.itemsize}").char
    bits = (condition, input.view(letter), other.view(letter))
    return compiled("select", f"?{letter}{letter}")(*bits).view(input.dtype)


def gate(input: Any, other: Any) -> Any:
    """`input` where `other` is above 0 or NaN, 0 elsewhere: the backward of relu."""
    kinds = input.dtype.char * 2
    made = _found.get(("gate", kinds))
    if made is None:
        if input.size < SMALL or input.dtype.kind != "f":
            return numpy.where(other <= 0, input.dtype.type(0), input)
        made = compiled("gate", kinds)
    if input.ndim and not input.strides[-1]:
        input = input.copy()
    return made(input, other)


def _spread(array: Any, shape: tuple[int, ...]) -> Any:
    """The array, written out over `shape` when its last dim would repeat: compiled loops are fast over unit strides only."""
    if array.ndim == 0 or array.shape[-1] != shape[-1] or (not array.strides[-1] and shape[-1] > 1):
        return numpy.broadcast_to(array, shape).copy()
    return array
