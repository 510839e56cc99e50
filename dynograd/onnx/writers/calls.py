"""A call of an op that is to be written, and the table of writers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.errors import OnnxError
from dynograd.onnx.building import Builder
from dynograd.onnx.refusals import refusal
from dynograd.ops.op import registry
from dynograd.plans.reporting.graphs import Node, Value

__all__ = ["WRITERS", "Call", "writer"]

Writer = Callable[..., "str | list[str] | None"]
WRITERS: dict[str, Writer] = {}


def writer(*names: str, **options: Any) -> Callable[[Writer], Writer]:
    """Registers what writes ops as ONNX nodes: from a `Call` (and these options) to the name of the result, or a list of names.

    None: this call is written by the parts that the op is made of.
    """

    def register(function: Writer) -> Writer:
        for name in names:
            assert name in registry, f"onnx writer: there is no op {name!r} in the table of ops"
            WRITERS[name] = functools.partial(function, **options) if options else function
        return function

    return register


class Call:
    """One op of a graph, at each recorded size.

    Args:
        builder: what it is written into.
        nodes: of each record.
    """

    def __init__(self, builder: Builder, nodes: Sequence[Node]) -> None:
        self.builder, self.nodes = builder, nodes
        self.op_name, self.arguments = nodes[0].name, nodes[0].arguments
        self.node, self.nodes_of, self.constant, self.ints = (
            builder.node,
            builder.nodes_of,
            builder.constant,
            builder.ints,
        )

    # --- arguments --------------------------------------------------------------------------------------------------------------

    def value(self, name: str) -> Value:
        """A tensor among the arguments, as in the first record."""
        value = self.arguments[name]
        if not isinstance(value, Value):
            raise self.refused(f"of {type(value).__name__} as {name}")
        return value

    def input(self, name: str) -> str:
        """The name of a tensor."""
        return self.named(self.arguments[name], [node.arguments[name] for node in self.nodes])

    def inputs(self, name: str) -> list[str]:
        """The names of a list of tensors."""
        lists = [node.arguments[name] for node in self.nodes]
        return [self.named(values[0], values) for values in zip(*lists)]

    def named(self, value: Any, values: Sequence[Any]) -> str:
        """The name of a tensor or array that is `values` at the recorded sizes."""
        if isinstance(value, Value):
            return self.builder.name(value)
        if isinstance(value, ndarray):
            return self.builder.array(values, f"an array that {self.op_name} gets")
        raise self.refused(f"of {type(value).__name__}")

    def has(self, name: str) -> bool:
        """Whether an argument is there."""
        return self.arguments.get(name) is not None

    def rank(self, name: str = "input") -> int:
        """How many dims a tensor or array has."""
        return len(self.shapes(name)[0])

    def static(self, name: str) -> Any:
        """An argument that must be the same at any size."""
        value = self.arguments[name]
        for node in self.nodes[1:]:
            if node.arguments[name] != value:
                raise self.refused(f"whose {name} depends on the sizes ({value!r}, {node.arguments[name]!r})")
        return value

    def each(self, name: str) -> list[Any]:
        """An argument in each record."""
        return [node.arguments[name] for node in self.nodes]

    def axis(self, name: str = "dim", of: str = "input") -> int:
        """A dim, counted from the front."""
        return int(self.static(name)) % max(self.rank(of), 1)

    def axes(self, name: str = "dim", of: str = "input") -> list[int]:
        """Several dims; None or () means all."""
        dim, rank = self.static(name), self.rank(of)
        if dim is None or dim == ():
            return list(range(rank))
        return [each % rank for each in ([dim] if isinstance(dim, int) else dim)]

    def shapes(self, name: str = "input") -> list[Any]:
        """The shape of an argument in each record."""
        return [node.arguments[name].shape for node in self.nodes]

    def dims(self, axis: int, name: str = "input") -> list[int]:
        """The size of an argument along an axis, in each record."""
        return [shape[axis] for shape in self.shapes(name)]

    def fixed(self, axis: int, name: str = "input") -> int:
        """A size that must be the same in each record."""
        dims = self.dims(axis, name)
        if len(set(dims)) > 1:
            raise self.refused(f"over an axis of dynamic size ({dims[0]}, {dims[1]})")
        return dims[0]

    # --- results ----------------------------------------------------------------------------------------------------------------

    def result_shapes(self, number: int = 0) -> list[Any]:
        """The shape of a result in each record."""
        return [node.results[number].shape for node in self.nodes]

    @property
    def count(self) -> int:
        """How many results there are."""
        return len(self.nodes[0].results)

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """NumPy's dtype of the first result."""
        return self.nodes[0].results[0].dtype.numpy

    def dtype_of(self, name: str) -> numpy.dtype[Any]:
        """NumPy's dtype of an argument."""
        dtype: numpy.dtype[Any] = getattr(self.arguments[name].dtype, "numpy", self.arguments[name].dtype)
        return dtype

    # --- nodes ------------------------------------------------------------------------------------------------------------------

    def cast(self, name: str, dtype: Any) -> str:
        """The tensor in another dtype."""
        return self.builder.cast(name, dtype)

    def in_result_type(self, name: str) -> str:
        """An argument in the dtype of the result."""
        own = self.input(name)
        return own if self.dtype_of(name) == self.dtype else self.cast(own, self.dtype)

    def inputs_in_result_type(self, name: str) -> list[str]:
        """The names of a list of tensors in the dtype of the result."""
        kinds = [getattr(value.dtype, "numpy", value.dtype) for value in self.arguments[name]]
        return [
            own if kind == self.dtype else self.cast(own, self.dtype) for own, kind in zip(self.inputs(name), kinds)
        ]

    def number(self, value: Any, dtype: Any = None) -> str:
        """A number without dims, in the dtype of the result unless another is named."""
        return self.constant(value, dtype or self.dtype)

    def reshape(self, name: str, shapes: Sequence[Sequence[int]]) -> str:
        """The tensor in a shape that is `shapes` at the recorded sizes."""
        varying = [axis for axis, sizes in enumerate(zip(*shapes)) if len(set(sizes)) > 1]
        if len(varying) == 1 and 0 not in shapes[0]:
            shape = self.ints(*[-1 if axis in varying else size for axis, size in enumerate(shapes[0])])
        else:
            shape = self.builder.numbers(shapes)
        return self.node("Reshape", [name, shape])

    def unsqueeze(self, name: str, *axes: int) -> str:
        """Dims of size 1 more."""
        return self.node("Unsqueeze", [name, self.ints(*axes)]) if axes else name

    def squeeze(self, name: str, *axes: int) -> str:
        """Without these dims of size 1."""
        return self.node("Squeeze", [name, self.ints(*axes)]) if axes else name

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """The dims in another order."""
        return self.node("Transpose", [name], perm=list(order))

    def reduce(self, kind: str, name: str, axes: Sequence[int], keepdim: bool) -> str:
        """A reduction; before opset 18 the axes of most are an attribute."""
        if self.builder.opset < 18 and kind != "ReduceSum":
            return self.node(kind, [name], axes=list(axes), keepdims=int(keepdim))
        return self.node(kind, [name, self.ints(*axes)], keepdims=int(keepdim))

    def refused(self, why: str) -> OnnxError:
        """The error of a call that ONNX has no words for."""
        return refusal(
            f"{self.op_name} {why} has no form in ONNX here" if why else f"{self.op_name} has no form in ONNX here",
            self.builder.line,
            "Write that step of ops with a form (docs/support.md, column onnx), or export the part of the model before it.",
        )
