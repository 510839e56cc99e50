"""Graphs of a program at one or several sizes of its inputs: the record that `compile` makes, read side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.kernels.build.any_size import alike_at_any_size
from dynograd.onnx.readings import noted_readings
from dynograd.onnx.refusals import refusal
from dynograd.plans.compiling import Compiled
from dynograd.plans.recording import Recording
from dynograd.plans.reporting.graphs import Graph
from dynograd.tensor.tensor import Tensor

__all__ = ["graphs_at"]


class _Watched(Compiled):
    """A compiled function that keeps what its latest record leaves out."""

    latest: Recording | None = None

    def _end_recording(self) -> None:
        self.latest = self.recording
        super()._end_recording()


def graphs_at(functions: Sequence[Callable[..., Any]], samples: Sequence[Sequence[Tensor]], name: str) -> list[Graph]:
    """The graph of a function of tensors at each sample of them. It is given for each, as its other arguments may follow from the sizes.

    Raises:
        OnnxError: it reads values of its inputs, does something that is not recorded, or calls other ops at other sizes.
    """
    graphs = [_graph_at(function, sample, name) for function, sample in zip(functions, samples)]
    first = graphs[0]
    for graph in graphs[1:]:
        for node, other in zip(first.nodes, graph.nodes):
            if node.name != other.name or len(node.results) != len(other.results):
                shapes = [[list(value.shape) for value in each.inputs] for each in (node, other)]
                raise refusal(
                    f"the ops that {name} calls depend on the sizes: {node.name} of {shapes[0]}, but {other.name} of {shapes[1]}",
                    node.line,
                    "Leave that axis out of dynamic_axes, or write the program so that its ops are the same at any size.",
                )
        if len(first.nodes) != len(graph.nodes):
            counts = f"{len(first.nodes)} ops in one call, {len(graph.nodes)} in another"
            raise refusal(
                f"how many ops {name} calls depends on the sizes ({counts})",
                first.nodes[-1].line,
                "A Python loop over a dynamic axis is unrolled: leave that axis out of dynamic_axes, or use a layer (nn.LSTM) that takes it whole.",
            )
    return graphs


def _graph_at(function: Callable[..., Any], tensors: Sequence[Tensor], name: str) -> Graph:
    compiled = _Watched(function, always=True, dynamic=False, name=name)
    with no_grad(), alike_at_any_size(), noted_readings() as readings:
        for _ in range(2):
            compiled(*tensors)
    if readings:
        method, line = readings[0]
        raise refusal(
            f"{name} reads values that depend on its inputs ({method}), and one way through it would be written for all",
            line,
            "Say it with tensors: dynograd.where(condition, a, b) instead of `if`, or give the number as an argument of the model.",
        )
    record = compiled.latest
    if record is not None and record.left_out:
        op, line = record.left_out[0]
        what = (
            f"the shape of what {op} gives depends on values"
            if op
            else f"{name} writes in place into a tensor that no op has made (a buffer, or zeros())"
        )
        way_out = (
            "Keep the shape: multiply by the mask or use dynograd.where, and pick afterwards."
            if op
            else "Write into a copy (zeros(n).clone()), or make the whole with dynograd.cat, stack or where."
        )
        raise refusal(what, line, way_out)
    graphs = compiled.graphs()
    if len(graphs) != 1:
        reason, line = next(iter(compiled.reasons), ("it calls no op", ""))
        raise refusal(f"{name} cannot be recorded: {reason}", line, "Change the program there.")
    return graphs[0]
