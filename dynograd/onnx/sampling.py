"""The sizes and values with which a program is recorded and verified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynograd.onnx.axes import Axes
from dynograd.onnx.constants import differing_line, rolled
from dynograd.onnx.records import Record, check_alike, record_of
from dynograd.onnx.refusals import refusal
from dynograd.onnx.traced import Program
from dynograd.plans.reporting.graphs import Value
from dynograd.tensor.tensor import Tensor

__all__ = ["further_record", "other_sizes", "recorded", "varied"]


def recorded(program: Program, axes: Axes) -> tuple[list[Record], list[dict[str, int]]]:
    """The graphs, and the sizes of their dynamic axes: far apart if the program runs there, else close ones, then multiples, for programs that divide
    sizes."""
    errors: list[Exception] = []
    tried: list[Any] = []
    for kind in ("far", "near", "multiples"):
        samples = axes.samples(kind)
        if samples in tried or (kind == "multiples" and min(axes.sizes.values()) < 2):
            continue
        tried.append(samples)
        try:
            return _graphs(program, axes, samples), samples
        except (RuntimeError, ValueError) as error:
            errors.append(error)
    raise errors[min(1, len(errors) - 1)]


def further_record(program: Program, axes: Axes, sizes: dict[str, int], first: Record) -> Record | None:
    """The record at other sizes; None where the program does not run, or goes another way."""
    if not axes.has(sizes):
        return None
    try:
        record = record_of(program, program.at(axes, sizes), program.name)
        check_alike([first, record], program.name)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    return record


def _graphs(program: Program, axes: Axes, samples: list[dict[str, int]]) -> list[Record]:
    first = record_of(program, program.at(axes, samples[0]), program.name)
    axes.lengths = dict(_lengths(first, axes, samples[0]))
    others = [record_of(program, program.at(axes, sample), program.name) for sample in samples[1:]]
    check_alike([first, *others], program.name)
    other = record_of(program, [rolled(tensor, 1) for tensor in program.at(axes, samples[0])], program.name)
    line = differing_line(first, other)
    if line is not None:
        raise refusal(
            f"what {program.name} computes with there depends on values that no op has made (NumPy's, an op's own, or random numbers)",
            line,
            "Compute it with tensor ops, or give it as an input.",
        )
    return [first, *others]


def varied(program: Program, axes: Axes, sample: dict[str, int], number: int) -> list[Tensor]:
    """The program's tensors at other sizes, with rows in another order."""
    tensors = program.at(axes, sample)
    return [tensor if place in axes.lengths else rolled(tensor, number) for place, tensor in enumerate(tensors)]


def _lengths(record: Record, axes: Axes, sample: dict[str, int]) -> Iterator[tuple[int, str]]:
    """Inputs that are lengths of rows, and the axis along which these lie: of the largest size, the longest row is as long as that."""
    copies = {node.results[0]: node.inputs[0] for node in record.nodes if node.name in ("clone", "to_copy")}
    for node in record.nodes:
        lengths = node.arguments.get("lengths")
        while lengths in copies:
            lengths = copies[lengths]
        if isinstance(lengths, Value) and lengths.kind == "argument":
            number = int(lengths.name.partition("[")[2].rstrip("]"))
            own, shape = axes.places.get((number, 0)), node.arguments["input"].shape
            along = [name for name, size in sample.items() if name != own and size in shape[:2]]
            if along:
                yield number, along[0]


def other_sizes(axes: Axes, samples: list[dict[str, int]]) -> list[dict[str, int]]:
    """Sizes at which nothing was recorded: by their last steps further on, or multiples."""
    if not axes.sizes:
        return [{}, {}, {}]
    steps = {name: samples[1][name] - samples[0][name] for name in axes.sizes}
    return [
        {name: axes.within(name, samples[1][name] + times * steps[name]) for name in axes.sizes} for times in (1, 2, 3)
    ]
