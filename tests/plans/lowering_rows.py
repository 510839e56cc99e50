"""Calls of ops and their rules as plans have them, made of eager ones; what runs their launches; and the table of rows to lower."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

import dynograd
from dynograd.autograd.nodes import OutputNode, Partial
from dynograd.autograd.packing import map_saved
from dynograd.kernels.build import threads
from dynograd.kernels.build.bound_calls_numba import Table
from dynograd.kernels.build.launches import noting
from dynograd.ops.op import registry
from dynograd.plans.calls import Call
from dynograd.plans.lowering import Lowered, described, layouts, lower

FLOATS = ("float32", "float64")


@dataclass
class Row:
    """A call of an op: `make(random, dtype)` gives its arguments in the order of its function's parameters."""

    name: str
    make: Callable[[numpy.random.Generator, str], tuple[Any, ...]]
    case: str = ""
    dtypes: tuple[str, ...] = FLOATS
    rule: bool = True
    """Whether the rule is lowered, too."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.case}" if self.case else self.name


def tensor(random: Any, dtype: str, *shape: int, grad: bool = True) -> Any:
    """Random numbers from -2 to 2, none of them near 0."""
    values = random.uniform(0.25, 2, shape) * random.choice([-1, 1], shape)
    return dynograd.tensor(values.astype(dtype)).requires_grad_(grad)


def strided(values: Any, order: tuple[int, ...]) -> Any:
    """The same values as a leaf whose dims lie in memory in this order."""
    array = values.detach().numpy()
    turned = numpy.ascontiguousarray(array.transpose(order)).transpose(numpy.argsort(order))
    return dynograd.from_numpy(turned).requires_grad_(values.requires_grad)


def of(*shapes, numbers=(), **options):
    """Tensors of these shapes, then the numbers."""

    def make(random, dtype):
        return (*[tensor(random, dtype, *shape) for shape in shapes], *numbers)

    return make


def positive(*shapes):
    return lambda random, dtype: tuple(
        [tensor(random, dtype, *shape).detach().abs().requires_grad_() for shape in shapes]
    )


def index(random, high, *shape):
    return dynograd.tensor(random.integers(0, high, shape))


def whole_numbers(random, dtype):
    """Whole numbers and zeros, as floats."""
    return dynograd.tensor(random.integers(-4, 5, (5, 6)).astype(dtype)).requires_grad_()


def mask(random: Any, *shape: int) -> Any:
    return dynograd.tensor(random.integers(0, 2, shape).astype(bool))


class Made:
    """An eager call, and the call of a plan that stands for it, or (kind "rule") for its rule."""

    def __init__(self, row: Row, dtype: str, seed: int, kind: str = "op") -> None:
        op = registry[row.name]
        random = numpy.random.default_rng(seed)
        self.arguments = row.make(random, dtype)
        self.names = op.parameter_names
        with dynograd.enable_grad(), noting() as launches:
            result = op.function(*self.arguments)
        self.results = list(result) if isinstance(result, (tuple, list)) else [result]
        node = next((tensor.node for tensor in self.results if tensor.node is not None), None)
        if type(node) is OutputNode:
            node = node.edges[0]
        self.node = None if node is None else copy.copy(node)
        if kind == "rule" and op.name == "cross_entropy":  # its rule uses the gradient up
            self.node.gradient = copy.copy(node.gradient)
        values = dict(zip(self.names, [_array(value) for value in self.arguments]))
        inputs, statics = described(op, values)
        outputs = [tensor.array for tensor in self.results]
        self.call = Call("op", op.name, op, inputs, _new(outputs, inputs), statics, self._compute, launches, self.node)
        if kind == "rule":
            self.call = self._rule(op, node, random)

    def _compute(self) -> Any:
        result = registry[self.call.name].function(*self.arguments)
        return [tensor.array for tensor in (result if isinstance(result, (tuple, list)) else [result])]

    def _rule(self, op: Any, node: Any, random: Any) -> Call:
        incoming: Any = [
            random.standard_normal(tensor.shape).astype(tensor.array.dtype) if tensor.is_floating_point() else None
            for tensor in self.results
        ]
        if op.name in ("unbind", "split_with_sizes"):
            incoming = incoming[:-1]  # the last one has no gradient
        g = Partial(dict(enumerate(incoming))) if op.outputs is not None else incoming[0]
        with noting() as launches:
            gradients = node.apply(g)
        call = Call("rule", op.name, op, (*incoming, *_saved(self.node)), (), (), _Rule(g), launches, self.node)
        gradients = [part if type(part) is numpy.ndarray else None for part in gradients]
        call.outputs = _new(gradients, call.inputs)
        self.gradients = gradients
        return call

    def memory(self) -> list[Any]:
        """What the call reads, in order."""
        return [value for value in self.call.inputs if isinstance(value, numpy.ndarray)]

    def written(self) -> list[Any]:
        """What it writes: its outputs, and what the op's node keeps beside them."""
        written = [output for output in self.call.outputs if output is not None]
        if self.call.kind == "op" and self.node is not None:
            written += _floats([getattr(self.node, name) for name in self.call.op.extras])
        return written


def _floats(values: Any) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if isinstance(value, numpy.ndarray):
            kept += [value] if value.dtype.kind == "f" else []
        elif isinstance(value, (tuple, list)):
            kept += _floats(value)
    return kept


class _Rule:
    def __init__(self, g: Any) -> None:
        self.g = g


def _array(value: Any) -> Any:
    if isinstance(value, dynograd.Tensor):
        return value.array
    if isinstance(value, (list, tuple)) and any(isinstance(element, dynograd.Tensor) for element in value):
        return [_array(element) for element in value]
    return value


def _saved(node: Any) -> list[Any]:
    saved: list[Any] = []

    def note(value: Any) -> Any:
        if type(value) is numpy.ndarray:
            saved.append(value)
        return value

    for name in node.saved_names:
        map_saved(getattr(node, name), note)
    return saved


def _new(outputs: Any, inputs: Any) -> tuple[Any, ...]:
    """The outputs that are no memory of an input."""
    arrays = [value for value in inputs if isinstance(value, numpy.ndarray)]
    return tuple(
        [
            None if output is None or any([numpy.may_share_memory(output, array) for array in arrays]) else output
            for output in outputs
        ]
    )


def poison(array: Any) -> None:
    put(array, numpy.nan if array.dtype.kind in "fc" else 1)


def put(array: Any, values: Any) -> None:
    """Writes into an array whatever its flags say, each element once."""
    array.flags.writeable = True
    array[...] = values


def run(lowered: Lowered) -> None:
    """Runs the launches as a plan does, and asks for errors."""
    table = Table(lowered, threads.get_num_threads())
    assert all([lowered[number].count < 0 for number in table.called])  # no kernel over items is called from Python
    if lowered.check is not None:
        lowered.check()
    table.run()


def close(array: Any, expected: Any, exact: bool) -> None:
    if not exact and layouts.is_half(array.dtype):  # the last bit
        relative = 2.0**-10 if array.dtype.kind == "f" else 2.0**-7
        numpy.testing.assert_allclose(array.astype("f4"), expected.astype("f4"), rtol=relative, atol=1e-5)
        return
    if exact or array.dtype.kind not in "fc":
        numpy.testing.assert_array_equal(array, expected)
        return
    relative = 1e-6 if array.dtype.itemsize == 4 else 1e-12
    scale = float(numpy.abs(expected).max(initial=0)) if expected.size else 0.0
    numpy.testing.assert_allclose(array, expected, rtol=4 * relative, atol=relative * scale)


def check(row: Row, dtype: str, kind: str) -> None:
    """The launches of a row's call give what eager gives for other numbers, written where those of the call were."""
    here, other = Made(row, dtype, 1, kind), Made(row, dtype, 2, kind)
    lowered = lower(here.call)
    assert lowered is not None
    written = here.written()
    expected = [array.copy() for array in other.written()]
    for array in written:
        poison(array)
    for array, values in zip(here.memory(), other.memory(), strict=True):
        if array.flags.writeable or array.ndim:  # the others are numbers beside tensors
            put(array, values)
    run(lowered)
    for array, values in zip(written, expected, strict=True):
        close(array, values, lowered.exact)
