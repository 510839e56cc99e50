"""Records of a program at one or several sizes of its inputs: graphs that `compile` makes, read side by side, and structures among their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.errors import GradientError
from dynograd.kernels.attention.any_size import alike_at_any_size
from dynograd.onnx.noting import noted
from dynograd.onnx.refusals import refusal
from dynograd.plans.compiling import Compiled
from dynograd.plans.recording import Recording
from dynograd.plans.reporting.graphs import Graph, Node, Value
from dynograd.tensor.tensor import Tensor

__all__ = ["Body", "Record", "Structure", "check_alike", "record_of", "records_at"]


@dataclass
class Structure:
    """A part of a program that is more than ops: a branch or a loop.

    Args:
        kind: of the ONNX node.
        line: of the program.
        operands: its tensors, described as those of events are.
        bodies: the functions that it calls.
        results: what it gave.
        options: what else its writer is to know.
    """

    kind: str
    line: str
    operands: list[tuple[str, Any]]
    bodies: list[Body]
    results: list[Tensor]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Record:
    """A graph, and the structures whose results are among its inputs.

    Args:
        outside: the tensors that its inputs were.
        lengths: values that are lengths of padded rows, described, and the shape of these.
    """

    graph: Graph
    structures: list[Structure]
    outside: list[Tensor]
    lengths: list[tuple[Any, tuple[int, ...]]] = field(default_factory=list)

    def made(self) -> Iterator[tuple[Value, int, int]]:
        """Inputs that are results of structures, with the numbers of the structure and of the result."""
        places = {id(tensor): place for place, tensor in enumerate(self.outside)}
        for number, structure in enumerate(self.structures):
            for result, tensor in enumerate(structure.results):
                if id(tensor) in places:
                    yield self.graph.inputs[places[id(tensor)]], number, result

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.graph.nodes

    @property
    def results(self) -> list[Value]:
        """What the function gave, as a list."""
        result = self.graph.result
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def value(self, described: tuple[str, Any]) -> Value:
        """The value of a described tensor."""
        kind, number = described
        if kind == "outside":
            return self.graph.inputs[number]
        return next(value for node in self.nodes for value in node.results if value.name == str(number))


@dataclass
class Body:
    """A function within a structure: its record, and by place among the inputs of that what the program around it calls this tensor."""

    record: Record
    captured: dict[int, tuple[str, Any]]


class _Watched(Compiled):
    """A compiled function that keeps what its latest record leaves out."""

    latest: Recording | None = None

    def _end_recording(self) -> None:
        self.latest = self.recording
        super()._end_recording()


def records_at(functions: Sequence[Callable[..., Any]], samples: Sequence[Sequence[Tensor]], name: str) -> list[Record]:
    """The record of a function of tensors at each sample of them. It is given for each, as its other arguments may follow from the sizes.

    Raises:
        OnnxError: it reads values of its inputs, does something that is not recorded, or calls other ops at other sizes.
    """
    records = [record_of(function, sample, name) for function, sample in zip(functions, samples)]
    check_alike(records, name)
    return records


def check_alike(records: Sequence[Record], name: str) -> None:
    """That records of one function at several sizes have the same ops, and the same structures.

    Raises:
        OnnxError: they have not.
    """
    first = records[0]
    for graph in records[1:]:
        pairs = zip(first.nodes, graph.nodes)
        unlike = next(((a, b) for a, b in pairs if a.name != b.name or len(a.results) != len(b.results)), None)
        if len(first.nodes) != len(graph.nodes):
            counts = f"{len(first.nodes)} ops in one call, {len(graph.nodes)} in another"
            raise refusal(
                f"how many ops {name} calls depends on the sizes ({counts})",
                first.nodes[-1].line if unlike is None else unlike[0].line,
                "A Python loop over a dynamic axis is unrolled: leave that axis out of dynamic_axes, or use what takes it whole (nn.LSTM, scan).",
            )
        if unlike is not None:
            shapes = [[list(value.shape) for value in node.inputs] for node in unlike]
            raise refusal(
                f"the ops that {name} calls depend on the sizes: {unlike[0].name} of {shapes[0]}, but {unlike[1].name} of {shapes[1]}",
                unlike[0].line,
                "Leave that axis out of dynamic_axes, or write the program so that its ops are the same at any size.",
            )
        kinds = [[structure.kind for structure in each.structures] for each in (first, graph)]
        assert kinds[0] == kinds[1], f"{name}: equal ops with other structures, {kinds}"
        for structure, twin in zip(first.structures, graph.structures):
            for body, second in zip(structure.bodies, twin.bodies):
                check_alike([body.record, second.record], name)


def record_of(
    function: Callable[..., Any],
    tensors: Sequence[Tensor],
    name: str,
    is_body: bool = False,
    any_shape: frozenset[str] = frozenset(),
) -> Record:
    """The record of a function of these tensors; `any_shape` names ops that it has even where the shapes of their results depend on values.

    Raises:
        OnnxError: it reads values of its inputs, or does something that is not recorded.
    """
    compiled = _Watched(function, always=True, dynamic=False, name=name)
    compiled.any_shape = any_shape
    with no_grad(), alike_at_any_size(), noted() as notes:
        for _ in range(2):
            try:
                compiled(*tensors)
            except GradientError as error:
                raise refusal(
                    f"{name} takes gradients while it runs, and a model has none ({error})",
                    "",
                    "Write the derivative with ops, or export the part before it.",
                ) from error
    record = compiled.latest
    if record is not None and record.left_out:
        op, line = record.left_out[0]
        what = (
            f"the shape of what {op} gives depends on values"
            if op
            else f"{name} writes in place into a tensor that it has not made (a buffer, or a tensor of data)"
        )
        way_out = (
            "Keep the shape: multiply by the mask or use dynograd.where, and pick afterwards."
            if op
            else "Write into a copy (buffer.clone()), or make the whole with dynograd.cat, stack or where."
        )
        raise refusal(what, line, way_out)
    graphs = compiled.graphs()
    structures = [structure for plan, structure in notes.structures if plan is record]
    outside = [] if record is None else [outside.tensor for outside in record.outside]
    lengths = [(described, shape) for plan, described, shape in notes.lengths if plan is record]
    records = [Record(graph, structures, outside, lengths) for graph in graphs]
    followed = [
        reading for reading in notes.readings if is_body or len(records) != 1 or _depends(records[0], reading[2])
    ]
    if followed:
        method, line, _ = followed[0]
        raise refusal(
            f"{name} reads values that depend on its inputs ({method}), and one way through it would be written for all",
            line,
            "Say it with tensors: dynograd.where(condition, a, b) or dynograd.cond instead of `if`, dynograd.while_loop instead of `while`, or give the "
            "number as an argument of the model.",
        )
    if len(graphs) != 1:
        reason, line = next(iter(compiled.reasons), ("it calls no op", ""))
        raise refusal(f"{name} cannot be recorded: {reason}", line, "Change the program there.")
    return records[0]


def _depends(record: Record, number: int | None) -> bool:
    """Whether a value follows from the arguments. What a program makes of sizes alone (a causal mask) may be read."""
    arguments = {value for value in record.graph.inputs if value.kind == "argument"}
    depending = arguments | {value for value, _, _ in record.made()}
    for node in record.nodes:
        if depending.intersection(node.inputs):
            depending.update(node.results)
    return number is None or any([value.name == str(number) for value in depending - arguments])
