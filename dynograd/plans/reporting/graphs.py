"""The record of a compiled function as a graph that can be read: its ops, backward passes and optimizer steps in their order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from dynograd.arrays import ndarray
from dynograd.autograd.nodes import line_text
from dynograd.base import dtypes
from dynograd.base.shapes import Size
from dynograd.ops.op import Op
from dynograd.plans.reporting.naming import names_within
from dynograd.plans.steps import Path
from dynograd.tensor.tensor import Tensor

__all__ = [
    "DRAWN",
    "Graph",
    "Node",
    "Value",
    "counted",
    "described_result",
    "graph_of",
    "graphs_of",
    "inputs_of",
    "shown_line",
    "walks_of",
]

_OF_GRAD = ("outputs", "inputs", "grad_outputs")
# Of the arguments of what is no op.
_NAMES = {
    "detach": ("input",),
    "write": ("tensor", "value"),
    "store": ("tensor", "value"),
    "place": ("input",),
    "flag": ("input",),
    "toggle": ("input",),
    "grad": _OF_GRAD,
    "differentiate": _OF_GRAD,
    "function": ("inputs", *[f"output_{number}" for number in range(64)]),
    "enter": ("outputs", "retain_graph", "grad_outputs"),
    "exit": ("gradients",),
}
_SHOWN = {
    "differentiate": "grad",
    "flag": "requires_grad_",
    "toggle": "requires_grad_",
    "place": "alias",
    "enter": "backward of autograd.Function",
    "exit": "gradients of autograd.Function",
}  # what is called otherwise in a line
_MOST_SHOWN = 3  # tensors of a backward pass or an optimizer, in its line


class _Drawn:
    """Stands for the place in the random stream where an op draws, which is another one in each call."""

    def __repr__(self) -> str:
        return "drawn"


DRAWN = _Drawn()


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor of a graph: it comes from outside, or a node makes it.

    Args:
        name: of an argument as the function calls it ("x", "batch[0]"), of a parameter as its module does ("0.weight"), of a gradient that of its
            tensor with ".grad" behind it, else a number.
        kind: "argument", "parameter" (stays the same tensor, and has gradients), "constant" (stays the same, without gradients: a buffer, say),
            "new" (no argument, but another tensor in each call: made by `randn` within the function, say), "result" (of an op) or "gradient".
        shape, dtype, requires_grad: of the tensor.
        tensor: the tensor itself, of a parameter or constant; else None.
        example: of a new one, that of the recorded call: a causal mask, say, is the same numbers in each.
    """

    name: str
    kind: str
    shape: Size
    dtype: dtypes.dtype
    requires_grad: bool
    tensor: Tensor | None = None
    example: Tensor | None = None

    @property
    def stays(self) -> bool:
        """Whether it is the same tensor in each call."""
        return self.tensor is not None

    def __repr__(self) -> str:
        return self.name if self.stays else f"%{self.name}"

    @property
    def type(self) -> str:
        """Its dtype and shape, as "float32(8, 16)"."""
        return f"{self.dtype.name}({', '.join(map(str, self.shape))})"


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One step of a graph: what the program did there.

    Args:
        kind: "op", "detach", "write" (from here on the program's tensor `tensor` is `value`), "store" (`value` is written into a tensor
            from outside), "flag" (a result that becomes a leaf), "place" (the same value in a place of its own on the tape), "grad" (gradients as
            values), "differentiate" (the same with `create_graph`: the ops behind it compute them), "backward" (a whole backward pass), "step"
            (of an optimizer), "function" (an `autograd.Function`: its results stand in the place of `output_0`, ...), "enter" or "exit" (its backward
            begins with these gradients, and gives those).
        name: of the op; "AdamW.step" of an optimizer.
        op: the row of the table of ops; None of what is no op.
        arguments: by name: a `Value` for a tensor, lists of them, and all else as it is. A place in the random stream is `DRAWN`.
        results: what it makes; of a backward pass the gradients of `leaves`.
        line: of the program, as "train.py:12 in step".
        leaves: of a backward pass the tensors that get gradients, of an optimizer those that it changes.
        added: of a backward pass the leaves that had a gradient, which the new one is added to.
        rules: of a backward pass the names of the ops whose rules it runs, in order.
        gives_several: the op gives a tuple or list of `results`.
    """

    kind: str
    name: str
    op: Op | None
    arguments: dict[str, Any]
    results: tuple[Value, ...]
    line: str
    leaves: tuple[Value, ...] = ()
    added: tuple[Value, ...] = ()
    rules: tuple[str, ...] = ()
    gives_several: bool = False

    @property
    def inputs(self) -> list[Value]:
        """The tensors among its arguments, in order."""
        return list(_values_in(self.arguments))

    def __repr__(self) -> str:
        results = _listed([f"{value!r}: {value.type}" for value in self.results])
        arguments = ", ".join(self._shown_arguments())
        return f"{results}{' = ' * bool(results)}{self.name}({arguments})   # {shown_line(self.line)}"

    def _shown_arguments(self) -> Iterator[str]:
        if self.kind == "step":
            yield _listed([repr(leaf) for leaf in self.leaves])
        usual = {} if self.op is None else self.op.signature.parameters
        for name, value in self.arguments.items():
            if self.op is not None and name in self.op.array_names:
                yield repr(value)
            elif self.op is None or not _is_usual(value, usual[name].default):
                yield f"{name}={value!r}" if self.op is not None else repr(value)


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MOST_SHOWN
    return ", ".join([*texts[:_MOST_SHOWN], *[f"{more} more"] * (more > 0)])


def _is_usual(value: Any, default: Any) -> bool:
    return type(value) is type(default) and type(value) is not ndarray and bool(value == default)


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """The record of one way through a compiled function: what `graph()` of it gives. `print(graph)` shows a line for each node.

    Composed ops stand as the ops that they are made of. What is no op is not in it: writes in place into tensors from outside, and functions that
    make tensors of numbers.

    Args:
        name: of the function.
        inputs: the tensors from outside, in the order in which the program came to them.
        nodes: in the order of the program.
        result: what the function gave, with a `Value` for each tensor that the record has; other objects than tensors, numbers, texts, lists, tuples
            and dicts of them are None.

    >>> @dynograd.compile
    ... def shifted(x):
    ...     return 2 * x + 1
    >>> results = [shifted(dynograd.ones(3)) for _ in range(3)]
    >>> graph = shifted.graph()
    >>> [(node.name, node.inputs, node.results[0].shape) for node in graph.nodes]
    [('mul', [%x], dynograd.Size([3])), ('add', [%0], dynograd.Size([3]))]
    """

    name: str
    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    result: Any

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tensors that stay the same ones in each call, by name: parameters, buffers, constants."""
        return {value.name: value.tensor for value in self.inputs if value.tensor is not None}

    def __str__(self) -> str:
        inputs, nodes = counted(len(self.inputs), "tensor"), counted(len(self.nodes), "node")
        lines = [f"graph of {self.name}: {inputs} from outside, {nodes}"]
        lines += [f"  {value!r}: {value.type}   # {value.kind}" for value in self.inputs]
        lines += [f"  {node!r}" for node in self.nodes]
        return "\n".join([*lines, f"  return {self.result!r}"])

    __repr__ = __str__


def described_result(result: Any, recording: Any) -> tuple[str, Any]:
    """What a function gave, described as the operands of an event are."""
    if isinstance(result, Tensor):
        for kind, numbers in (("value", recording.numbers), ("outside", recording.places)):
            if id(result) in numbers:
                return kind, numbers[id(result)]
    elif isinstance(result, dict):
        return "dict", {key: described_result(element, recording) for key, element in result.items()}
    elif isinstance(result, (list, tuple)):
        make = getattr(result, "_make", list if isinstance(result, list) else tuple)
        return "list", (make, [described_result(element, recording) for element in result])
    return "same", result if isinstance(result, (bool, int, float, complex, str)) else None


def walks_of(compiled: Any) -> list[Any]:
    """The trees of a compiled function's record."""
    return [walk for walk in compiled.walks.values() if walk.paths] + [family.walk for family in compiled.families.all]


def graph_of(compiled: Any) -> Graph:
    """The graph of a compiled function with one way."""
    graphs = graphs_of(compiled)
    if len(graphs) != 1:
        advice = "call it twice or more; report() says why it is not recorded" if not graphs else "graphs() gives all"
        raise RuntimeError(
            f"graph: expected {compiled.name} to have one way through it on record, got {len(graphs)}: {advice}."
        )
    return graphs[0]


def graphs_of(compiled: Any) -> tuple[Graph, ...]:
    """The graph of each way, the first ones first."""
    names = names_within(compiled.function)
    return tuple(
        [_Reader(walk, path, names).graph(compiled.name) for walk in walks_of(compiled) for path in walk.paths]
    )


def inputs_of(path: Path, names: dict[int, str]) -> list[Value]:
    """The tensors from outside."""
    taken: dict[str, int] = {}
    values: list[Value] = []
    for outside in path.outside:
        tensor = None if outside.fresh else outside.tensor
        if outside.name:
            name, kind = outside.name, "argument"
        elif tensor is not None:
            name, kind = names.get(id(tensor), ""), "parameter" if outside.grad else "constant"
        else:
            name, kind = "", "new"
        name = _unique(name or f"{kind}_{outside.number}", taken)
        example = outside.tensor if kind == "new" else None
        values.append(Value(name, kind, *_looks(outside.array), outside.grad, tensor, example))
    return values


def _unique(name: str, taken: dict[str, int]) -> str:
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _looks(array: Any) -> tuple[Size, dtypes.dtype]:
    return Size(array.shape), dtypes.BY_NUM[array.dtype.num]


class _Reader:
    """Reads one way."""

    def __init__(self, walk: Any, path: Path, names: dict[int, str]) -> None:
        self.walk, self.path = walk, path
        self.outside = inputs_of(path, names)
        self.values: list[Value] = []
        self.names: dict[str, int] = {}  # of gradients
        self.calls = 0  # that earlier events have noted
        self.rules: list[str] = []  # of a backward pass that goes on behind Functions

    def graph(self, name: str) -> Graph:
        nodes = [self.node(event) for event in self.path.events if event.kind not in ("ask", "rename")]
        return Graph(name, tuple(self.outside), tuple(nodes), self.actual(self.path.result or ("same", None)))

    def node(self, event: Any) -> Node:
        line = line_text(event.line)
        calls = self.path.program.calls[self.calls : event.calls]
        self.calls = event.calls
        if event.kind in ("enter", "backward", "grad"):
            self.rules += [call.name for call in calls if call.kind == "rule"]
        if event.kind in ("backward", "grad"):
            rules, self.rules = tuple(self.rules), []
        if event.kind == "backward":
            return self.backward(event, line, rules)
        if event.kind == "step":
            return self.step(event, line)
        results = tuple([self.new_value(number, str(number), "result") for number in event.results])
        if event.entry is None:
            arguments = dict(zip(_NAMES[event.kind], [self.actual(described) for described in event.args]))
            name = event.subject[0].__name__ if event.kind == "function" else _SHOWN.get(event.kind, event.kind)
            return Node(event.kind, name, None, arguments, results, line)
        op, several = event.entry.op, event.shape is not None
        return Node("op", op.name, op, self.arguments(event), results, line, gives_several=several)

    def new_value(self, number: int, name: str, kind: str) -> Value:
        grad = self.walk.values[self.path.numbers[number]].grad
        value = Value(name, kind, *_looks(self.path.program.arrays[number]), grad)
        assert number == len(self.values), "values come in the order of their numbers"
        self.values.append(value)
        return value

    def arguments(self, event: Any) -> dict[str, Any]:
        """By the names of the op's own function."""
        op = event.entry.op
        arguments = {name: self.actual(described) for name, described in zip(op.parameter_names, event.args)}
        for alias, name in (("axis", "dim"), ("keepdims", "keepdim")):
            if arguments.get(alias) is not None:
                arguments[name] = arguments[alias]
        return {name: arguments[name] for name in op.signature.parameters if name in arguments}

    def actual(self, described: tuple[str, Any]) -> object:
        kind, content = described
        if kind == "value":
            return self.values[content]
        if kind == "outside":
            return self.outside[content]
        if kind == "list":
            return content[0]([self.actual(part) for part in content[1]])
        if kind == "dict":
            return {key: self.actual(part) for key, part in content.items()}
        return DRAWN if kind == "key" else content

    def backward(self, event: Any, line: str, rules: tuple[str, ...]) -> Node:
        leaves, added, results = [], [], []
        for (place, _, had), number in zip(event.subject, event.results):
            leaf = self.outside[place]
            leaves.append(leaf)
            added += [leaf] * (had is True)
            results.append(self.new_value(number, _unique(f"{leaf.name}.grad", self.names), "gradient"))
        outputs, _, seeds = [cast("tuple[Any, ...]", self.actual(described)) for described in event.args]
        arguments = {"tensor": outputs[0]} if len(outputs) == 1 else {"tensors": outputs}
        if seeds is not None:
            arguments["gradient"] = seeds[0] if len(outputs) == 1 else seeds
        return Node("backward", "backward", None, arguments, tuple(results), line, tuple(leaves), tuple(added), rules)

    def step(self, event: Any, line: str) -> Node:
        optimizer = event.subject
        members = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        leaves = tuple([value for value in self.outside if id(value.tensor) in members])
        return Node("step", f"{type(optimizer).__name__}.step", None, {}, (), line, leaves)


def _values_in(value: Any) -> Iterator[Value]:
    if isinstance(value, Value):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _values_in(element)


def counted(count: int, name: str) -> str:
    """ "1 call", "2 calls"."""
    return f"{count:,} {name}{'' if count == 1 else 'es' if name.endswith('ch') else 's'}"


def shown_line(line: str) -> str:
    """ "train.py:12" of "/home/me/train.py:12 in step"."""
    return os.path.basename(line.rpartition(" in ")[0] or line)
