"""An ONNX graph while it is written: nodes, initialisers, and numbers that are computed from the sizes of the inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.export.derived_dims import DerivedSize
from dynograd.export.formula_search import FormulaSearch
from dynograd.export.formulas import Factor, Term
from dynograd.export.size_expressions import AnyFormula, SizeExpression
from dynograd.onnx.axes import Axes
from dynograd.onnx.patterns import pattern_of
from dynograd.onnx.records import Record, Structure
from dynograd.onnx.refusals import refusal
from dynograd.onnx.row_patterns import longest_of_rows, number_of_rows, part_of_rows
from dynograd.plans.reporting.graphs import DRAWN, Graph, Node, Value

__all__ = ["Builder", "onnx_type"]

_EXPRESSIONS = {"+": "Add", "-": "Sub", "*": "Mul", "%": "Mod", "abs": "Abs", "min": "Min", "max": "Max"}
_MOST_NUMBERS = 16  # of a tensor each of which is a formula of its own
_NODES_OF = {  # by the kinds of `FLOATING`
    "real": (),
    "share": ("Reciprocal",),
    "root": ("Sqrt",),
    "root_share": ("Sqrt", "Reciprocal"),
    "power": ("Sqrt", "Reciprocal"),
    "log": ("Log",),
}


def onnx_type(dtype: Any) -> int:
    """The number of ONNX for a dtype of NumPy."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)))


class Builder:
    """Writes graphs of a program at several sizes as one ONNX graph.

    Args:
        opset: the version of ONNX's operators.
        axes: the dynamic axes, and `search`: finds formulas of numbers, which are known at the sizes of each record.
        inputs, outputs: names of the graph's inputs and of its results.
        weights: names of parameters and buffers, by id of the tensor; the model holds these.
        write_call: writes the nodes of one op, and `write_structure`: those of a structure.
    """

    def __init__(
        self,
        opset: int,
        axes: Axes,
        search: FormulaSearch | None,
        inputs: Sequence[str],
        outputs: Sequence[str],
        weights: dict[int, str],
        write_call: Callable[[Builder, Sequence[Node]], list[str]],
        write_structure: Callable[[Builder, Sequence[Structure], list[str]], list[str]],
    ) -> None:
        self.opset, self.axes, self.search, self.inputs = opset, axes, search, inputs
        self.write_call, self.write_structure = write_call, write_structure
        self.nodes: list[Any] = []  # of the graph, or of the part of it, that is being written
        self._graph = self.nodes
        self.initializers: dict[str, ndarray] = {}
        self.names: dict[Value, str] = {}
        self.others: dict[Value, tuple[Value, ...]] = {}  # a value of the first record in all of them
        self.line = ""
        self.module = ""  # the module whose weights the op has
        self.rows: dict[str, list[ndarray]] = {}  # offsets of ragged inputs, at each size
        self.longest: dict[str, str] = {}  # sizes that are lengths of longest rows, and the offsets of these
        self.picks: dict[str, tuple[Value, int]] = {}  # what has a size that follows from values, and along which axis
        self.within = 0  # ops that are being written by their parts
        self._known: dict[Any, str] = {}
        self._parts: dict[str, tuple[str, str]] = {}  # of complex values
        self._counts: dict[str, int] = {}
        self._taken = {*inputs, *outputs, *weights.values()}
        self.weights = {
            number: self.fresh(name) if name in inputs or name in outputs else name for number, name in weights.items()
        }
        self._held: list[Any] = []  # tensors whose ids are keys
        # By a value that a structure has made: the records around it, and the numbers of the structure and of the result.
        self._results: dict[tuple[Graph, int], list[str]] = {}  # of structures that are written
        self._structures: dict[Value, tuple[Sequence[Record], int, int]] = {}

    # --- graphs -----------------------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[Record], names: Sequence[str]) -> None:
        """Writes the nodes of a record, given at each size, whose arguments have these names."""
        for value, number, result in records[0].made():
            self._structures[value] = records, number, result
            self.names.pop(value, None)  # what is written a second time is so with other arguments
            self._results.pop((records[0].graph, number), None)
        for values in zip(*[record.graph.inputs for record in records]):
            self.others[values[0]] = values
            if values[0].kind == "argument":
                self.names[values[0]] = names[self.place_of(values[0])]
        for nodes in zip(*[record.nodes for record in records]):
            self._write_node(nodes)

    def place_of(self, value: Value) -> int:
        """The number of an argument among those of its record."""
        return int(value.name.partition("[")[2].rstrip("]"))

    def _of_structure(self, value: Value) -> str:
        """The name of a value that a structure has made, which is written for the first of them."""
        records, number, result = self._structures[value]
        structures = [record.structures[number] for record in records]
        key = records[0].graph, number
        if key not in self._results:
            self._results[key] = self._write_structure(records, structures)
        return self._results[key][result]

    def _write_structure(self, records: Sequence[Record], structures: list[Structure]) -> list[str]:
        """Writes a structure, after what its bodies take from around it; gives the names of its results."""
        first, line = structures[0], self.line
        self.line = first.line
        for bodies in zip(*[structure.bodies for structure in structures]):
            for place in bodies[0].captured:
                outer = [record.value(body.captured[place]) for record, body in zip(records, bodies)]
                self.names[bodies[0].record.graph.inputs[place]] = self.name(outer[0])
        operands = [self.name(records[0].value(described)) for described in first.operands]
        names = self.write_structure(self, structures, operands)
        self.line = line
        return names

    def _write_node(self, nodes: Sequence[Node]) -> None:
        node = nodes[0]
        for values in zip(*[other.results for other in nodes]):
            self.others[values[0]] = values
        if not self.within:
            self.line = node.line
        if node.kind == "detach":
            self.names[node.results[0]] = self.name(node.arguments["input"])
            return
        if node.kind == "write":  # what the tensor is from here on is a value of its own
            return
        if node.kind != "op":
            raise refusal(f"{node.name} is no op of inference", node.line, "Export the forward pass alone.")
        draws = any([value is DRAWN for value in node.arguments.values()])
        if draws and node.arguments.get("p") != 0:
            raise refusal(
                f"{node.name} draws random numbers",
                node.line,
                "Call model.eval() before, or draw outside and give the numbers as an input.",
            )
        if not self.within:
            self.module = self._module_of(node)
        for value, name in zip(node.results, self.write_call(self, nodes)):
            self.names[value] = name

    def _module_of(self, node: Node) -> str:
        """The path of the module whose parameters or buffers the op takes."""
        names = [self.weights.get(id(value.tensor), "") for value in node.inputs if value.tensor is not None]
        return next((name.rpartition(".")[0] for name in names if name), "")

    # --- names ------------------------------------------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """A name that is new."""
        while True:
            number = self._counts[stem] = self._counts.get(stem, -1) + 1
            name = f"{stem}_{number}"
            if name not in self._taken:
                return name

    def name(self, value: Value) -> str:
        """The name of a value of the first record; of one from outside, its initialiser or constant is added."""
        if value not in self.names:
            self.names[value] = self._outside(value)
        return self.names[value]

    def _outside(self, value: Value) -> str:
        tensors = [other.tensor for other in self.others.get(value, (value,))]
        if value.tensor is not None and all([tensor is value.tensor for tensor in tensors]):
            return self._weight(value.tensor)
        if value in self._structures:
            return self._of_structure(value)
        others = [other.example if other.tensor is None else other.tensor for other in self.others[value]]
        examples = [example for example in others if example is not None]
        return self.array([example.detach().cpu().array for example in examples], "a tensor that the program makes")

    def _weight(self, tensor: Any) -> str:
        """A tensor of the model is an initialiser of its name, and any other a constant."""
        known = self._known.get(("weight", id(tensor)))
        if known is None:
            self._held.append(tensor)
            array = numpy.ascontiguousarray(tensor.detach().cpu().array).reshape(tensor.shape)
            known = self.weights.get(id(tensor))
            if known is None:
                known = self.constant(array)
            else:
                self.initializers[known] = array
            self._known["weight", id(tensor)] = known
        return known

    def joined(self, real: str, imag: str) -> str:
        """What stands for a complex value with these parts."""
        name = self.fresh("Complex")
        self._parts[name] = real, imag
        return name

    def parts(self, value: Value) -> tuple[str, str]:
        """The names of the real and the imaginary part of a complex value."""
        if value in self.names or value in self._structures:
            return self._parts[self.name(value)]
        others = [other.example if other.tensor is None else other.tensor for other in self.others[value]]
        arrays = [other.detach().cpu().array for other in others if other is not None]
        what = "a complex tensor that the program makes"
        return self.array([array.real for array in arrays], what), self.array([array.imag for array in arrays], what)

    # --- nodes ------------------------------------------------------------------------------------------------------------------

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node of one output; gives its name."""
        return self.nodes_of(kind, inputs, 1, **attributes)[0]

    def nodes_of(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Adds a node of several outputs; gives their names."""
        from onnx import helper

        names = [self.fresh(f"{self.module}{'/' * bool(self.module)}{kind}") for _ in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, name=f"node_{names[0]}", doc_string=self.line, **attributes)
        if self.opset >= 21:
            node.metadata_props.add(key="line", value=self.line)
            if self.module:
                node.metadata_props.add(key="module", value=self.module)
        self.nodes.append(node)
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a Constant with these numbers: one node of the outermost graph, which all can read."""
        from onnx import helper, numpy_helper

        array = numpy.ascontiguousarray(numpy.asarray(value, dtype)).reshape(numpy.shape(value))
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            name = self._known[key] = self.fresh("Constant")
            tensor = numpy_helper.from_array(array, name)
            self._graph.append(helper.make_node("Constant", [], [name], name=f"node_{name}", value=tensor))
        return self._known[key]

    def ints(self, *numbers: int) -> str:
        """A one-dimensional int64 constant."""
        return self.constant(numbers, numpy.int64)

    def cast(self, name: str, dtype: Any) -> str:
        """The tensor in another dtype."""
        return self.node("Cast", [name], to=onnx_type(dtype))

    # --- numbers ----------------------------------------------------------------------------------------------------------------

    def number(self, values: Sequence[int]) -> str:
        """An int64 tensor of one element: a number that has these values at the recorded sizes."""
        if all([value == values[0] for value in values]):
            return self.ints(values[0])
        assert self.search is not None
        formula = self.search.number(values)
        if formula is None:
            for name, offsets in self.rows.items():
                if number := number_of_rows(self, name, offsets, values):
                    return number
            names = " and ".join(self.search.names)
            at = ", ".join([str(tuple(sample.values())) for sample in self.search.samples])
            raise refusal(
                f"a number that is {', '.join(map(str, values))} at sizes {at} of {names} is no formula of them",
                self.line,
                "Leave that axis out of dynamic_axes, bound it (dynamic_shapes, Dim('n', min=4)), or write the shape with -1.",
            )
        return self.sized(formula)

    def columns(self) -> dict[str, list[int]]:
        """The sizes of each name in the records."""
        samples = self.search.samples if self.search is not None else [{}]
        return {name: [sample[name] for sample in samples] for name in samples[0]}

    def sized(self, formula: AnyFormula) -> str:
        """An int64 tensor of one element: a number that follows from the sizes."""
        if isinstance(formula, SizeExpression):
            return self._expression(formula.function, [self.sized(part) for part in formula.parts])
        names = [self._term(term) for term in formula.terms]
        names += [self.ints(formula.plus)] * (bool(formula.plus) or not names)
        name = self._folded("Add", names)
        for kind, bound in (("Min", formula.most), ("Max", formula.least)):
            name = name if bound is None else self._computed(kind, name, self.sized(bound))
        return name

    def _expression(self, function: str, parts: list[str]) -> str:
        if function == "//":  # ONNX rounds towards 0
            rest = self._computed("Mod", *parts)
            return self._computed("Div", self._computed("Sub", parts[0], rest), parts[1])
        return self._computed(_EXPRESSIONS[function], *parts)

    def _term(self, term: Term) -> str:
        name = self._folded("Mul", [self._factor(factor) for factor in term.factors])
        for kind, number, idle in (("Mod", term.modulo, 0), ("Mul", term.times, 1)):
            name = name if number == idle else self._computed(kind, name, self.ints(number))
        return name

    def _factor(self, factor: Factor) -> str:
        name = self._size(factor.name, factor.plus)
        return name if factor.over == 1 else self._computed("Div", name, self.ints(factor.over))

    def _folded(self, kind: str, names: Sequence[str]) -> str:
        return functools.reduce(functools.partial(self._computed, kind), names)

    def real(self, values: Sequence[float], dtype: Any) -> str | None:
        """A number without dims that has these values at the recorded sizes: a whole one, its root and their like; None: it is none of these."""
        real = None if self.search is None else self.search.real(values)
        if real is None:
            return None
        name = self.cast(self.node("Squeeze", [self.sized(real[0])]), dtype)
        for kind in _NODES_OF[real[1]]:
            name = self.node(kind, [name])
        return name

    def _size(self, size: str, by: int) -> str:
        key = ("size", size)
        if key not in self._known:
            form = DerivedSize(size)
            if size in self.longest:
                self._known[key] = self._at_the_top(longest_of_rows, self.longest[size])
                return self._size(size, by)
            if size in self.picks:
                value, axis = self.picks[size]
                name = self.name(value)
            else:
                (place, axis), form = self.axes.place_of(size)
                name = self.inputs[place]
            self._known[key] = self._outermost("Shape", [name], start=axis, end=axis + 1)
            for kind, idle, number in (("Sub", 0, form.plus), ("Div", 1, form.times)):
                if number != idle:
                    self._known[key] = self._computed(kind, self._known[key], self.ints(number))
        return self._known[key] if not by else self._computed("Add", self._known[key], self.ints(by))

    def _computed(self, kind: str, *names: str) -> str:
        if (kind, names) not in self._known:
            attributes = {"axis": 0} if kind == "Concat" else {}
            self._known[kind, names] = self._outermost(kind, names, **attributes)
        return self._known[kind, names]

    def _at_the_top(self, write: Callable[..., str], *names: str) -> str:
        part, self.nodes = self.nodes, self._graph
        try:
            return write(self, *names)
        finally:
            self.nodes = part

    def _outermost(self, kind: str, names: Sequence[str], **attributes: Any) -> str:
        """Adds a node to the graph, not to the part that is being written, so that all can read it."""
        part, self.nodes = self.nodes, self._graph
        try:
            return self.node(kind, names, **attributes)
        finally:
            self.nodes = part

    def numbers(self, samples: Sequence[Sequence[int]]) -> str:
        """A one-dimensional int64 tensor that has these numbers at the recorded sizes."""
        if all([list(sample) == list(samples[0]) for sample in samples]):
            return self.ints(*samples[0])
        return self._computed("Concat", *[self.number(values) for values in zip(*samples)])

    def scalar(self, values: Sequence[int]) -> str:
        """As `number`, without dims."""
        if all([value == values[0] for value in values]):
            return self.constant(values[0], numpy.int64)
        return self.node("Squeeze", [self.number(values)])

    def _few(self, samples: Sequence[ndarray]) -> str:
        """A few numbers that follow from the sizes, each by itself; "": these are others."""
        first = samples[0]
        is_whole = all([bool((numpy.isfinite(sample) & (sample == numpy.rint(sample))).all()) for sample in samples])
        if any([sample.shape != first.shape for sample in samples]) or not 0 < first.size <= _MOST_NUMBERS:
            return ""
        if first.dtype.kind not in "iuf" or not is_whole:
            return ""
        numbers = self.numbers([[int(value) for value in sample.reshape(-1)] for sample in samples])
        return self.cast(self.node("Reshape", [numbers, self.constant(first.shape, numpy.int64)]), first.dtype)

    def array(self, samples: Sequence[ndarray], what: str) -> str:
        """A tensor that has these numbers at the recorded sizes: a constant, or what makes it at any size."""
        first = samples[0]
        if all([other.shape == first.shape and other.tobytes() == first.tobytes() for other in samples]):
            return self.constant(first)
        for name, offsets in self.rows.items():
            part = part_of_rows(self, name, offsets, samples)
            if part:
                return part
        pattern = pattern_of(samples)
        few = self._few(samples) if pattern is None else ""
        if few:
            return few
        if pattern is None:
            shapes = " and ".join([str(list(sample.shape)) for sample in samples[:2]])
            raise refusal(
                f"{what} (of shape {shapes}) depends on the sizes, and is neither filled, nor a range, nor a band of a matrix",
                self.line,
                "Make it of those with tensor ops, leave that axis out of dynamic_axes, or give it as an input.",
            )
        return pattern.write(self)
