"""Control flow on functions that subgraphs are written as; sequences, which are lists, and optionals, which may be None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, Results, dynograd, ints, number
from dynograd.tensor.tensor import Tensor


def _results(values: Any) -> tuple:
    return values if isinstance(values, tuple) else (values,)


def _alone(values: list, n_outputs: int) -> Results:
    return values[0] if n_outputs == 1 else tuple(values)


@operator("If", outputs=0)
def branch(
    condition: Numbers, *, then_branch: Callable[..., Any], else_branch: Callable[..., Any], n_outputs: int
) -> Results:
    return then_branch() if number(condition) else else_branch()


@operator("Loop", outputs=0)
def loop(limit: Numbers, condition: Numbers, *states: Tensor, body: Callable[..., Any], n_outputs: int) -> Results:
    turns, go_on = 0, condition is None or bool(number(condition))
    values, scans = list(states), [[] for _ in range(n_outputs - len(states))]
    while go_on and (limit is None or turns < number(limit)):
        flag = dynograd.tensor(True)
        again, *results = _results(body(dynograd.tensor(turns, dtype=dynograd.int64), flag, *values))
        values = results[: len(states)]
        for scan, result in zip(scans, results[len(states) :]):
            scan.append(result)
        turns, go_on = turns + 1, bool(number(again))
    stacked = [dynograd.stack(scan) if scan else dynograd.zeros(0) for scan in scans]
    return _alone([*values, *stacked], n_outputs)


@operator("Scan", since=9, outputs=0)
def scan(
    *inputs: Tensor, body: Callable[..., Any], num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
    n_outputs: int,
) -> Results:  # fmt: skip
    count = len(inputs) - num_scan_inputs
    values, sources = list(inputs[:count]), []
    for place, source in enumerate(inputs[count:]):
        source = source.movedim(scan_input_axes[place] if scan_input_axes else 0, 0)
        backwards = scan_input_directions and scan_input_directions[place]
        sources.append(dynograd.flip(source, [0]) if backwards else source)
    collected: list[list] = [[] for _ in range(n_outputs - count)]
    for turn in range(sources[0].shape[0]):
        results = _results(body(*values, *(source[turn] for source in sources)))
        values = list(results[:count])
        for rows, result in zip(collected, results[count:]):
            rows.append(result)
    outputs = []
    for place, rows in enumerate(collected):
        rows = rows[::-1] if scan_output_directions and scan_output_directions[place] else rows
        outputs.append(dynograd.stack(rows, scan_output_axes[place] if scan_output_axes else 0))
    return _alone([*values, *outputs], n_outputs)


@operator("Scan", since=8, outputs=0)
def scan_8(
    lengths: Tensor | None, *inputs: Tensor, body: Callable[..., Any], num_scan_inputs: int, directions: Any = None,
    n_outputs: int,
) -> Results:  # fmt: skip
    rows = []
    for batch in range(inputs[0].shape[0]):
        parts = [x[batch] for x in inputs]
        if lengths is not None:
            count = len(parts) - num_scan_inputs
            parts[count:] = [part[: ints(lengths)[batch]] for part in parts[count:]]
        options = {"scan_input_directions": directions, "n_outputs": n_outputs, "num_scan_inputs": num_scan_inputs}
        rows.append(_results(scan(*parts, body=body, **options)))
    return _alone([dynograd.stack(results) for results in zip(*rows)], n_outputs)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list:
    return []


@operator("SequenceConstruct")
def sequence_construct(*xs: Tensor) -> list:
    return list(xs)


@operator("SequenceInsert")
def sequence_insert(xs: list, x: Tensor, position: Numbers | None = None) -> list:
    xs = list(xs)
    xs.insert(len(xs) if position is None else int(number(position)), x)
    return xs


@operator("SequenceErase")
def sequence_erase(xs: list, position: Numbers | None = None) -> list:
    xs = list(xs)
    xs.pop(-1 if position is None else int(number(position)))
    return xs


@operator("SequenceAt")
def sequence_at(xs: list, position: Numbers) -> Tensor:
    return xs[int(number(position))]


@operator("SequenceLength")
def sequence_length(xs: list) -> Tensor:
    return dynograd.tensor(len(xs), dtype=dynograd.int64)


@operator("SplitToSequence")
def split_to_sequence(x: Tensor, split: Numbers | None = None, *, axis: int = 0, keepdims: int = 1) -> list:
    if split is None:
        return [part if keepdims else part.squeeze(axis) for part in dynograd.split(x, 1, axis)]
    sizes = ints(split)
    return list(
        dynograd.split(
            x, sizes[0] if isinstance(split, int) or (isinstance(split, Tensor) and not split.ndim) else sizes, axis
        )
    )


@operator("ConcatFromSequence")
def concat_from_sequence(xs: list, *, axis: int, new_axis: int = 0) -> Tensor:
    return dynograd.stack(xs, axis) if new_axis else dynograd.cat(xs, axis)


@operator("Optional")
def optional(x: Tensor | None = None, *, type: Any = None) -> Tensor | None:
    return x


@operator("OptionalHasElement")
def optional_has_element(x: Tensor | None = None) -> Tensor:
    return dynograd.tensor(x is not None)


@operator("OptionalGetElement")
def optional_get_element(x: Tensor) -> Tensor:
    return x
