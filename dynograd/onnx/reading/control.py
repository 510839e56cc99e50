"""Control flow on functions that subgraphs are written as; sequences, which are lists, and optionals, which may be None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.onnx.noting import recording_of_thread
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, Results, dynograd, ints, number, tensor_of
from dynograd.tensor.tensor import Tensor


def _results(values: Any) -> tuple:
    return values if isinstance(values, tuple) else (values,)


def _alone(values: list, n_outputs: int) -> Results:
    return values[0] if n_outputs == 1 else tuple(values)


@operator("If", outputs=0)
def branch(
    condition: Numbers, *, then_branch: Callable[..., Any], else_branch: Callable[..., Any], n_outputs: int
) -> Results:
    if isinstance(condition, Tensor) and recording_of_thread() is not None:
        return dynograd.cond(condition.reshape(()), then_branch, else_branch, ())
    return then_branch() if number(condition) else else_branch()


@operator("Loop", outputs=0)
def loop(limit: Numbers, condition: Numbers, *states: Tensor, body: Callable[..., Any], n_outputs: int) -> Results:
    if len(states) == n_outputs and recording_of_thread() is not None:
        return _alone(_recorded_loop(limit, condition, states, body), n_outputs)
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


def _recorded_loop(limit: Any, condition: Any, states: Sequence[Any], body: Callable[..., Any]) -> list[Tensor]:
    """The loop as `while_loop`, which stays one where it is written down again."""
    values = [_as_tensor(state) for state in states]

    def goes_on(turn: Tensor, holds: Tensor, *values: Tensor) -> Tensor:
        return holds if limit is None else holds & (turn < _as_tensor(limit).reshape(()))

    def run(turn: Tensor, holds: Tensor, *values: Tensor) -> list[Tensor]:
        again, *results = _results(body(turn, holds, *values))
        return [turn + 1, _as_tensor(again).bool().reshape(()), *map(_as_tensor, results)]

    holds = dynograd.tensor(True) if condition is None else _as_tensor(condition).bool().reshape(())
    return list(dynograd.while_loop(goes_on, run, (dynograd.tensor(0), holds, *values))[2:])


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else tensor_of(numpy.asarray(value))


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
    values, rows = (_recorded_steps if recording_of_thread() is not None else _steps)(body, values, sources)
    outputs = []
    for place, result in enumerate(rows):
        backwards = scan_output_directions and scan_output_directions[place]
        outputs.append(
            (dynograd.flip(result, [0]) if backwards else result).movedim(0, (scan_output_axes or {place: 0})[place])
        )
    return _alone([*values, *outputs], n_outputs)


def _steps(body: Callable[..., Any], values: list[Any], sources: list[Tensor]) -> tuple[list[Any], list[Tensor]]:
    """The last states, and what all steps gave beside them."""
    collected = []
    for turn in range(sources[0].shape[0]):
        results = _results(body(*values, *[source[turn] for source in sources]))
        values = list(results[: len(values)])
        collected.append(results[len(values) :])
    return values, [dynograd.stack(rows) for rows in zip(*collected)]


def _recorded_steps(
    body: Callable[..., Any], values: list[Any], sources: list[Tensor]
) -> tuple[list[Any], list[Tensor]]:
    """The same by `scan`, which stays one where it is written down again."""

    def step(state: list[Tensor], parts: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        results = [_as_tensor(result) for result in _results(body(*state, *parts))]
        return results[: len(state)], results[len(state) :]

    return dynograd._higher_order_ops.scan(step, [_as_tensor(value) for value in values], sources)


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
