"""Complex numbers, which ONNX's runtimes have not: each is two real tensors of the graph, and ops of them are written by ops of their parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from dynograd.arrays import ndarray
from dynograd.base import dtypes
from dynograd.export.encoding import Tree
from dynograd.onnx.building import Builder
from dynograd.onnx.picking import values_in
from dynograd.onnx.records import records_at
from dynograd.onnx.writers.calls import WRITERS, Call
from dynograd.ops.op import registry
from dynograd.plans.reporting.graphs import Node, Value
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["RULES", "is_complex", "write_complex"]


class Parts(NamedTuple):
    """The real and the imaginary part."""

    real: Any
    imag: Any


Rule = Callable[..., Tree]
RULES: dict[str, Rule] = {}
"""By op, what it is with `Parts` in the place of complex tensors. Linear ops without a rule do the same with each part."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


# Parameters that are numbers like the result, whose imaginary part may be 0.
_NUMBERS = ("input", "other", "value", "values", "src", "tensors")


def is_complex(node: Node) -> bool:
    """Whether an op takes or gives complex numbers."""
    return any([value.dtype.numpy.kind == "c" for value in (*values_in(node.arguments), *node.results)])


def write_complex(builder: Builder, nodes: Sequence[Node]) -> list[str]:
    """Writes an op of complex numbers, given at each recorded size; the names of its results."""
    call = Call(builder, nodes)
    if call.op_name in WRITERS and call.op_name.startswith("fft_"):
        names = WRITERS[call.op_name](call)
        return [names] if isinstance(names, str) else list(names or ())
    op = registry[call.op_name]
    rule = RULES.get(op.name)
    if rule is None and not op.linear:
        raise call.refused("of complex numbers")
    rule = rule or functools.partial(_alike, op.function)
    names = [name for value in values_in(call.arguments) for name in _names(builder, value)]
    samples = [[part for value in values_in(node.arguments) for part in _zeros(value)] for node in nodes]
    graphs = records_at([functools.partial(_ruled, rule, node) for node in nodes], samples, call.op_name)
    builder.within += 1
    try:
        builder.write(graphs, names)
    finally:
        builder.within -= 1
    results = iter([builder.name(value) for value in graphs[0].results])
    return [
        builder.joined(next(results), next(results)) if value.dtype.numpy.kind == "c" else next(results)
        for value in nodes[0].results
    ]


def _names(builder: Builder, value: Value) -> list[str]:
    return list(builder.parts(value)) if value.dtype.numpy.kind == "c" else [builder.name(value)]


def _zeros(value: Value) -> list[Tensor]:
    zeros = Tensor.wrap(_of_kind(value))
    return [zeros, zeros.clone()] if value.dtype.numpy.kind == "c" else [zeros]


def _of_kind(value: Value) -> ndarray:
    kind = value.dtype.numpy
    return numpy.zeros(value.shape, kind.type(0).real.dtype if kind.kind == "c" else kind)


def _ruled(rule: Rule, node: Node, *tensors: Tensor) -> list[Tensor]:
    """What a rule gives of the arguments of a node, with these tensors in the place of its own."""
    remaining = iter(tensors)
    result = rule(**{name: _replaced(value, remaining) for name, value in node.arguments.items()})
    results = [result] if isinstance(result, (Parts, Tensor)) else list(result)
    return [part.clone() for each in results for part in (each if isinstance(each, Parts) else [each])]


def _replaced(value: Any, tensors: Iterator[Tensor]) -> Tree:
    if isinstance(value, Value):
        first = next(tensors)
        return Parts(first, next(tensors)) if value.dtype.numpy.kind == "c" else first
    return type(value)([_replaced(part, tensors) for part in value]) if isinstance(value, (tuple, list)) else value


# --- rules -------------------------------------------------------------------------------------------------------------------------


def _alike(function: Rule, **arguments: Any) -> Tree:
    parts = [
        function(**{name: _part(value, place, name in _NUMBERS) for name, value in arguments.items()})
        for place in (0, 1)
    ]
    if isinstance(parts[0], Tensor):
        return Parts(*parts)
    return [Parts(*pair) for pair in zip(*parts)]


def _part(value: Any, place: int, is_number: bool) -> Tree:
    """The real or the imaginary part of an argument."""
    if isinstance(value, Parts):
        return value[place]
    if isinstance(value, (list, tuple)):
        return type(value)([_part(each, place, is_number) for each in value])
    if isinstance(value, complex):
        return value.imag if place else value.real
    if not place or not is_number:
        return value
    return creation.zeros_like(value) if isinstance(value, Tensor) else 0.0 if isinstance(value, float) else value * 0


def _pair(value: Any) -> Parts:
    return value if isinstance(value, Parts) else Parts(_part(value, 0, True), _part(value, 1, True))


@_rule("mul")
def _mul(input: Any, other: Any) -> Parts:
    if isinstance(input, complex):
        input = _pair(input)
    if not isinstance(input, Parts) or not isinstance(other, (Parts, complex)):
        pair, factor = (input, other) if isinstance(input, Parts) else (_pair(other), input)
        return Parts(pair.real * factor, pair.imag * factor)
    x, y = input, _pair(other)
    return Parts(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


@_rule("div")
def _div(input: Any, other: Any) -> Parts:
    if not isinstance(other, (Parts, complex)):
        return Parts(input.real / other, input.imag / other)
    y = _pair(other)
    squares = y.real * y.real + y.imag * y.imag
    product = _mul(Parts(y.real, -y.imag), input)
    return Parts(product.real / squares, product.imag / squares)


@_rule("pow")
def _pow(input: Any, other: Any) -> Parts:
    if isinstance(input, Parts) and isinstance(other, int) and 0 < other <= 4:
        return functools.reduce(_mul, [input] * other)
    return _exp(_mul(_log(input if isinstance(input, Parts) else _pair(input)), other))


@_rule("exp")
def _exp(input: Parts) -> Parts:
    size = input.real.exp()
    return Parts(size * input.imag.cos(), size * input.imag.sin())


@_rule("log")
def _log(input: Parts) -> Parts:
    return Parts(_modulus(input).log(), _angle(input))


@_rule("sqrt")
def _sqrt(input: Parts) -> Parts:
    """sqrt((|x| + a) / 2) + i sign(b) sqrt((|x| - a) / 2)."""
    size = _modulus(input)
    real, imag = [((size + part).clamp(min=0) / 2).sqrt() for part in (input.real, -input.real)]
    return Parts(real, (-imag).where(input.imag < 0, imag))


@_rule("modulus", "abs")
def _modulus(input: Any) -> Tensor:
    return input.real.hypot(input.imag)


@_rule("angle")
def _angle(input: Any) -> Tensor:
    if isinstance(input, Parts):
        return input.imag.atan2(input.real)
    return input.where(input.isnan(), creation.full_like(input, math.pi).where(input < 0, 0.0))


@_rule("matmul")
def _matmul(input: Any, other: Any) -> Parts:
    if not isinstance(input, Parts):
        return Parts(input @ other.real, input @ other.imag)
    if not isinstance(other, Parts):
        return Parts(input.real @ other, input.imag @ other)
    real, imag = input.real @ other.real - input.imag @ other.imag, input.real @ other.imag + input.imag @ other.real
    return Parts(real, imag)


@_rule("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Parts:
    turned = Parts(weight.real.mT, weight.imag.mT) if isinstance(weight, Parts) else weight.mT
    product = _matmul(input, turned)
    return product if bias is None else _alike(registry["add"].function, input=product, other=bias)


@_rule("to_copy")
def _to_copy(input: Any, dtype: Any) -> Tree:
    kind = getattr(dtype, "numpy", dtype)
    if kind.kind != "c":
        return input.real.to(dtype)
    own = dtypes.float64 if kind.itemsize == 16 else dtypes.float32
    return Parts(*[part.to(own) for part in _pair(input)])


def _of_each_part(name: str) -> None:
    RULES[name] = functools.partial(_alike, registry[name].function)


for _name in ("embedding", "constant_pad_nd", "where", "add", "sub", "neg", "zero_nan"):
    _of_each_part(_name)


@_rule("square")
def _square(input: Parts) -> Parts:
    return _mul(input, input)


@_rule("reciprocal")
def _reciprocal(input: Parts) -> Parts:
    return _div(1.0, input)


@_rule("conj")
def _conj(input: Parts) -> Parts:
    return Parts(input.real, -input.imag)


@_rule("complex")
def _complex(real: Tensor, imag: Tensor) -> Parts:
    return Parts(real, imag)


@_rule("view_as_real")
def _view_as_real(input: Parts) -> Tensor:
    rows: Tensor = registry["stack"].function(list(input), -1)
    return rows


@_rule("view_as_complex")
def _view_as_complex(input: Tensor) -> Parts:
    return Parts(input[..., 0], input[..., 1])


@_rule("ones_of")
def _ones_of(input: Parts) -> Parts:
    return Parts(creation.ones_like(input.real), creation.zeros_like(input.real))


@_rule("eq")
def _eq(input: Any, other: Any) -> Tree:
    x, y = _pair(input), _pair(other)
    return (x.real == y.real) & (x.imag == y.imag)


@_rule("ne")
def _ne(input: Any, other: Any) -> Tree:
    return ~_eq(input, other)


@_rule("isnan")
def _isnan(input: Parts) -> Tree:
    return input.real.isnan() | input.imag.isnan()
