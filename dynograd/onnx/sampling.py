"""The sizes and values with which a program is recorded and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dynograd.errors import OnnxError
from dynograd.export.size_comparisons import FAILED, FAILURES, calls_at, turns_of
from dynograd.onnx.axes import Axes
from dynograd.onnx.constants import differing_line, rolled
from dynograd.onnx.picking import changed, picking_ops, picks_in, picks_of, unmoved
from dynograd.onnx.records import Record, check_alike, record_of
from dynograd.onnx.refusals import refusal
from dynograd.onnx.traced import Program
from dynograd.plans.reporting.graphs import Value
from dynograd.tensor.tensor import Tensor

__all__ = ["further_record", "other_inputs", "recorded", "varied"]

_VERIFIED = 3  # sizes at which a model is compared with the program
_RUNS = 4  # whose sizes differ in all dims
_LONG_ROWS = (40, 20, 10)  # on average; of places in rows the largest that is looked for is 8
_CHANGES = 8  # records of other values, where sizes depend on values


def recorded(program: Program, axes: Axes) -> tuple[list[Record], list[dict[str, int]]]:
    """The graphs, and the sizes of their dynamic axes: far apart if the program runs there, else close ones, then multiples, for programs that divide
    sizes."""
    errors: dict[str, Exception] = {}
    tried: list[Any] = []
    for kind in ("far", "near", "multiples"):
        samples = axes.samples(kind)
        if samples in tried or (kind == "multiples" and min(axes.sizes.values()) < 2):
            continue
        tried.append(list(samples))
        try:
            graphs = _graphs(program, axes, samples)
            return _at_turns(program, axes, samples, graphs)
        except FAILURES as error:
            errors[kind] = error
    cause = errors.get("near") or errors["far"]  # of the sizes that are most like the example's
    if isinstance(cause, OnnxError) or not _runs(program, program.at(axes, axes.sizes)):
        raise cause
    raise refusal(
        f"{program.name} runs at the example's sizes {axes.sizes}, and not at others: {type(cause).__name__}: {cause}",
        "",
        "Bound the axes, Dim('n', min=1, max=64), say what they are multiples of, 16 * Dim('n'), or leave them out of dynamic_axes.",
    ) from cause


def _at_turns(
    program: Program, axes: Axes, samples: list[dict[str, int]], graphs: list[Record]
) -> tuple[list[Record], list[dict[str, int]]]:
    """The records and their sizes, with more at which comparisons of sizes turn over.

    Raises:
        OnnxError: the program goes another way there.
    """
    first = samples[0]
    of_rows = axes.roots_of_rows()

    def has(sizes: dict[str, int]) -> bool:
        return axes.has(sizes) and all([sizes[name] == first[name] for name in of_rows])

    def example_at(sizes: dict[str, int]) -> Callable[[], list[Tensor]]:
        return partial(program, *program.at(axes, sizes))

    if axes.sizes:
        _check_ranks(example_at, program.name, first, has)
    calls = calls_at(example_at, first) if axes.sizes else []
    turns, axes.expressions = turns_of(example_at, samples[:_RUNS] if axes.sizes else [], has)
    for turn in turns:
        others = calls_at(example_at, turn.sizes)
        if others[-1:] == [FAILED]:
            continue  # it says so at that size, too, when it is called as it is
        if others != calls:
            raise refusal(
                f"{program.name} compares sizes, and goes another way at {turn.sizes} than at {first}",
                turn.line,
                "Bound the axis, dynamic_shapes={...: {0: Dim('n', min=2, max=64)}}, or leave it out.",
            )
        record = further_record(program, axes, turn.sizes, graphs)
        if record is not None:
            graphs.append(record)
            samples.append(turn.sizes)
    _add_long_rows(program, axes, samples, graphs)
    _add_one_row(program, axes, samples, graphs)
    return graphs, samples


def _add_one_row(program: Program, axes: Axes, samples: list[dict[str, int]], graphs: list[Record]) -> None:
    """Adds a record of one row, if the program takes it as it takes others: of `x[:2]` there is one then."""
    sizes = {**samples[0], **{root: size for number in axes.rows for root, size in axes.sizes_where(number, 2)}}
    if axes.rows and sizes != samples[0] and axes.has(sizes):
        record = further_record(program, axes, sizes, graphs)
        if record is not None:
            graphs.append(record)
            samples.append(sizes)


def _add_long_rows(program: Program, axes: Axes, samples: list[dict[str, int]], graphs: list[Record]) -> None:
    """Adds a record of rows that are longer than what may be cut off them, if the program takes rows of such lengths.

    Raises:
        OnnxError: the program goes another way there.
    """
    for length in _LONG_ROWS if axes.rows else ():
        sizes = dict(samples[0])
        for root in axes.roots_of_rows():
            sizes[root] += 1  # by which the rows are others than the example's
        for offsets, values in axes.rows.items():
            sizes[axes.places[values, 0]] = length * axes.first_size(offsets, sizes)
        try:
            record = _record_at(program, axes, sizes, 0)
            check_alike([graphs[0], record], program.name)
        except OnnxError as error:
            raise refusal(
                f"{program.name} goes another way for rows of some {length} values than for those of the example ({error})",
                "",
                "Give an example of longer rows.",
            ) from error
        except FAILURES:  # it says so of such rows, too, when it is called as it is
            continue
        graphs.append(record)
        samples.append(sizes)
        return


def _check_ranks(example_at: Callable[..., Any], name: str, first: dict[str, int], has: Callable[..., bool]) -> None:
    """That results have as many dims where a size is 1: `x.squeeze()` has not.

    Raises:
        OnnxError: they have not.
    """
    ranks = [result.ndim for result in example_at(first)()]
    for each in first:
        sizes = {**first, each: 1}
        try:
            others = [result.ndim for result in example_at(sizes)()] if has(sizes) else ranks
        except FAILURES:  # it says so at that size, too, when it is called as it is
            continue
        if others != ranks:
            raise refusal(
                f"results of {name} have {ranks} dims at {first} and {others} at {sizes}",
                "",
                "Name the dim that is squeezed, or bound the axis, dynamic_shapes={...: {0: Dim('n', min=2)}}.",
            )


def further_record(program: Program, axes: Axes, sizes: dict[str, int], graphs: list[Record]) -> Record | None:
    """The record at other sizes; None where the program does not run, or goes another way."""
    if not axes.has(sizes):
        return None
    try:
        record = _record_at(program, axes, sizes, len(graphs) if axes.picks else 0)
        check_alike([graphs[0], record], program.name)
    except FAILURES:
        return None
    return record


def _record_at(program: Program, axes: Axes, sizes: dict[str, int], turn: int) -> Record:
    """The record at these sizes, of the example's values, or of others from turn 1 on."""
    tensors = program.at(axes, sizes)
    if turn:
        fixed = {*axes.lengths, *axes.rows}
        tensors = [tensor if place in fixed else changed(tensor, turn) for place, tensor in enumerate(tensors)]
    return record_of(program, tensors, program.name, any_shape=picking_ops())


def _graphs(program: Program, axes: Axes, samples: list[dict[str, int]]) -> list[Record]:
    first = _record_at(program, axes, samples[0], 0)
    axes.lengths = dict(_lengths(first, axes, samples[0]))
    picking = picks_in(first)
    others = [_record_at(program, axes, sample, turn * bool(picking)) for turn, sample in enumerate(samples[1:], 1)]
    if picking:
        again = _with_other_values(program, axes, samples[0], first)
        others += again
        samples += [samples[0]] * len(again)
    check_alike([first, *others], program.name)
    rolled_tensors = [rolled(tensor, 1) for tensor in program.at(axes, samples[0])]
    other = record_of(program, rolled_tensors, program.name, any_shape=picking_ops())
    line = differing_line(first, other, sizes_too=not picking)
    if line is not None:
        if assigned := program.state.assigned():
            raise refusal(
                f"{program.name} assigns other tensors to {', '.join(assigned)} while it runs, and a model keeps nothing between its calls",
                line,
                "Take what was there as an input, and return what it becomes.",
            )
        raise refusal(
            f"what {program.name} computes with there depends on values that no op has made (NumPy's, an op's own, or random numbers)",
            line,
            "Compute it with tensor ops, or give it as an input.",
        )
    return [first, *others]


def _with_other_values(program: Program, axes: Axes, sizes: dict[str, int], first: Record) -> list[Record]:
    """Records at the same sizes, until all that picks by values has picked another number.

    Raises:
        OnnxError: something has not.
    """
    again: list[Record] = []
    for turn in range(1, _CHANGES):
        again.append(_record_at(program, axes, sizes, turn))
        check_alike([first, again[-1]], program.name)
        axes.picks = picks_of(first, again)
        same = unmoved(first, axes.picks)
        if not same:
            return again
    node = same[0]
    raise refusal(
        f"{node.name} gives {list(node.results[0].shape)} also for other values like the example's, and in the model as many as values say",
        node.line,
        "Give an example of which it picks a part.",
    )


def varied(program: Program, axes: Axes, sample: dict[str, int], number: int) -> list[Tensor]:
    """The program's tensors at other sizes, with rows in another order."""
    tensors = program.at(axes, sample)
    return [tensor if place in axes.lengths else rolled(tensor, number) for place, tensor in enumerate(tensors)]


def _lengths(record: Record, axes: Axes, sample: dict[str, int]) -> Iterator[tuple[int, str]]:
    """Inputs that are lengths of rows, and the axis along which these lie: of the largest size, the longest row is as long as that."""
    copies = {node.results[0]: node.inputs[0] for node in record.nodes if node.name in ("clone", "to_copy")}
    known: list[tuple[Any, Any]] = [(record.value(described), shape) for described, shape in record.lengths]
    for lengths, shape in (*known, *_lengths_of_layers(record)):
        while lengths in copies:
            lengths = copies[lengths]
        if isinstance(lengths, Value) and lengths.kind == "argument":
            number = int(lengths.name.partition("[")[2].rstrip("]"))
            own = axes.places.get((number, 0))
            along = [name for name, size in sample.items() if name != own and size in shape[:2]]
            if along:
                yield number, along[0]


def _lengths_of_layers(record: Record) -> list[tuple[Any, Any]]:
    rows = [(node.arguments.get("lengths"), node.arguments.get("input")) for node in record.nodes]
    return [(lengths, values.shape) for lengths, values in rows if lengths is not None and values is not None]


def other_inputs(program: Program, axes: Axes, samples: list[dict[str, int]]) -> list[list[Tensor]]:
    """Three examples of sizes at which nothing was recorded, with rows in another order.

    By the samples' last steps further on, or multiples; where the program does not run there, closer to the example.
    """
    if not axes.sizes:
        return [varied(program, axes, {}, number) for number in range(_VERIFIED)]
    first, second = samples[:2]
    steps = {name: second[name] - first[name] for name in axes.sizes}
    further = [{name: second[name] + times * step for name, step in steps.items()} for times in range(1, _VERIFIED + 1)]
    closer = [{name: size + by for name, size in first.items() if name in steps} for by in (2, 1, -1, 3, -2)]
    examples: list[list[Tensor]] = []
    for number, sizes in enumerate((*further, *closer)):
        sample = {name: axes.within(name, size) for name, size in sizes.items()}
        if len(examples) < _VERIFIED and (number < _VERIFIED or sample not in samples):
            tensors = varied(program, axes, sample, number % _VERIFIED)
            if _runs(program, tensors):
                examples.append(tensors)
    return examples or [varied(program, axes, samples[1], 1)]


def _runs(program: Program, tensors: list[Tensor]) -> bool:
    try:
        program(*tensors)
    except FAILURES:
        return False
    return True
