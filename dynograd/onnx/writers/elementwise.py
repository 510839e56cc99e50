"""Elementwise ops, from their formulas."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.interpreter import fusion
from dynograd.kernels.formula import formulas_onnx
from dynograd.kernels.formula.formulas import Tree
from dynograd.onnx.writers.calls import Call
from dynograd.ops.op import Op
from dynograd.plans.reporting.graphs import Value

__all__ = ["is_writable", "write_elementwise"]

_LARGEST = 1_000_000  # denominator of a number that follows from the sizes
_ROUNDING = ("floor", "ceil", "round")  # which leave whole numbers as they are
_OF_TRUTHS = ("&&", "||", "!")


def _tree_of(op: Op) -> Tree | None:
    return None if op.formula is None else formulas_onnx.in_words(fusion.expression(op.formula))


def is_writable(op: Op) -> bool:
    """Whether the formula of an elementwise op has words in ONNX."""
    tree = _tree_of(op)
    return tree is not None and formulas_onnx.is_in_words(tree)


def write_elementwise(call: Call, op: Op) -> str:
    """The nodes of an elementwise op."""
    if not is_writable(op):
        raise call.refused("whose formula has functions that ONNX has not")
    tree = _tree_of(op)
    assert tree is not None
    writing = _Formula(call, op)
    name, is_truth = writing.of(tree)
    if is_truth != (call.dtype == bool) or (not is_truth and writing.kind != call.dtype):
        name = call.cast(name, call.dtype)
    return name


class _Formula:
    """One formula while it is written: each part once."""

    def __init__(self, call: Call, op: Op) -> None:
        self.call, self.op = call, op
        self.kind = self._kind()
        self.done: dict[Tree, tuple[str, bool]] = {}

    def _kind(self) -> numpy.dtype[Any]:
        """The dtype in which numbers are computed: of truths, what their operands have in common."""
        if self.call.dtype != bool:
            return self.call.dtype
        arguments = [self.call.arguments[name] for name in self.op.array_names]
        tensors = [value for value in arguments if isinstance(value, Value)]
        kinds = [tensor.dtype.numpy for tensor in tensors if tensor.shape] or [tensor.dtype.numpy for tensor in tensors]
        kind = numpy.result_type(*kinds)
        numbers = [value for value in arguments if isinstance(value, float)]
        return numpy.dtype(numpy.float32) if numbers and kind.kind in "iub" else kind

    def of(self, tree: Tree) -> tuple[str, bool]:
        """The name of an expression, and whether it is a truth."""
        if tree not in self.done:
            self.done[tree] = self._new(tree)
        return self.done[tree]

    def number(self, value: Any) -> str:
        return self.call.constant(numpy.asarray(value).astype(self.kind))

    def _new(self, tree: Tree) -> tuple[str, bool]:
        head, parts = tree
        if head == "number":
            if isinstance(parts[0], bool) or self.op.promote == "logical":
                return self.call.constant(bool(parts[0])), True
            return self.number(parts[0]), False
        if head == "name":
            return self._operand(parts[0])
        if head == "max" and parts[1].head == "number" and parts[1].parts[0] == 0 and self.kind.kind == "f":
            return self.node("Relu", self._plain(self.of(parts[0]))), False
        operands = [self.of(part) for part in parts]
        if head in _OF_TRUTHS:
            return self.node(formulas_onnx.TRUTHS[head], *[self._truth(operand) for operand in operands]), True
        if head == "select":
            condition, then, other = operands
            if then[1] and other[1]:  # onnxruntime has no Where of truths
                holds = self._truth(condition)
                parts = self.node("And", holds, then[0]), self.node("And", self.node("Not", holds), other[0])
                return self.node("Or", *parts), True
            return self.node("Where", self._truth(condition), self._plain(then), self._plain(other)), False
        if head == "==" and all([is_truth for _, is_truth in operands]):
            names = [name for name, _ in operands]
        else:
            names = [self._plain(operand) for operand in operands]
        if head in formulas_onnx.BITS:
            return self._bits(formulas_onnx.BITS[head], names)
        if head in formulas_onnx.TRUTHS:
            return self.node(formulas_onnx.TRUTHS[head], *names), True
        if head in formulas_onnx.DIVISIONS:
            return self._division(head, names), False
        if head in _ROUNDING and self.kind.kind != "f":
            return names[0], False
        return self.node(formulas_onnx.NUMBERS[head], *names), False

    def _bits(self, kind: str, names: list[str]) -> tuple[str, bool]:
        if self.kind.kind == "b":
            return self.node(kind, *names), True
        if self.call.builder.opset < 18:
            raise self.call.refused("of bits before opset 18")
        return self.node(f"Bitwise{kind}", *names), False

    def _division(self, head: str, names: list[str]) -> str:
        if head in ("<<", ">>"):
            power = self.node("Pow", self.number(2), names[1])
            return (
                self.node("Mul", names[0], power) if head == "<<" else self._division("floor_divide", [names[0], power])
            )
        if head == "fmod":
            return self.call.node("Mod", names, fmod=1)
        if self.kind.kind != "f":
            rest = self.node("Mod", *names)
            return rest if head == "mod" else self.node("Div", self.node("Sub", names[0], rest), names[1])
        whole = self.node("Floor", self.node("Div", *names))
        return whole if head == "floor_divide" else self.node("Sub", names[0], self.node("Mul", whole, names[1]))

    def node(self, kind: str, *names: str) -> str:
        return self.call.node(kind, names)

    def _truth(self, operand: tuple[str, bool]) -> str:
        name, is_truth = operand
        return name if is_truth else self.call.cast(name, bool)

    def _plain(self, operand: tuple[str, bool]) -> str:
        name, is_truth = operand
        return self.call.cast(name, self.kind) if is_truth and self.kind.kind != "b" else name

    def _operand(self, name: str) -> tuple[str, bool]:
        value = self.call.arguments[name]
        if isinstance(value, (Value, ndarray)):
            dtype = value.dtype.numpy if isinstance(value, Value) else value.dtype
            own = self.call.input(name)
            if dtype.kind == "b" or dtype == self.kind:
                return own, dtype.kind == "b"
            if self.op.promote == "logical":
                return self.call.cast(own, bool), True
            return self.call.cast(own, self.kind), False
        if value is None:  # a bound that is left out
            limits = numpy.iinfo(self.kind) if self.kind.kind in "iu" else None
            low, high = (-math.inf, math.inf) if limits is None else (limits.min, limits.max)
            return self.number(low if name == "min" else high), False
        values = self.call.each(name)
        if isinstance(value, bool):
            return self.call.constant(value), True
        if all([other == value or other != other for other in values]):
            return self.number(value), False
        return self._sized(values), False

    def _parts_of(self, fractions: list[Fraction]) -> list[list[int]]:
        """Numerators and denominators; the latter are a size, or nearly so, if all fractions are parts of that."""
        if all([fraction.denominator == 1 for fraction in fractions]):
            return [[fraction.numerator for fraction in fractions], [1] * len(fractions)]
        for column, by in itertools.product(self.call.builder.columns().values(), (0, -1, 1, -2, 2)):
            wholes = [size + by for size in column]
            if all([whole % fraction.denominator == 0 for whole, fraction in zip(wholes, fractions)]):
                return [[int(whole * fraction) for whole, fraction in zip(wholes, fractions)], wholes]
        return [[fraction.numerator for fraction in fractions], [fraction.denominator for fraction in fractions]]

    def _sized(self, values: list[Any]) -> str:
        """A number that follows from the sizes: a whole one, its root or logarithm, or a fraction of whole ones."""
        if self.kind.kind == "f":
            name = self.call.builder.real([float(value) for value in values], self.kind)
            if name is not None:
                return name
        fractions = [Fraction(value).limit_denominator(_LARGEST) for value in values]
        if all([math.isclose(fraction, value, rel_tol=1e-12) for fraction, value in zip(fractions, values)]):
            parts = self._parts_of(fractions)
            names = [self.call.cast(self.call.builder.scalar(whole), self.kind) for whole in parts]
            return names[0] if set(parts[1]) == {1} else self.node("Div", *names)
        raise self.call.refused(f"of a number that depends on the sizes ({values[0]}, {values[1]})")
