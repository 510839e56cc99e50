"""Ops on rows of ragged tensors, whose values lie behind one another."""

from __future__ import annotations

import math

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("segment_sum")
def segment_sum(call: Call) -> str:
    """A product with the matrix (rows, values) that is 1 where a value is in a row."""
    flat = call.node("Flatten", [call.in_result_type("values")], axis=1)
    return call.reshape(call.node("MatMul", [call.cast(_within(call), call.dtype), flat]), call.result_shapes())


@writer("segment_spread")
def segment_spread(call: Call) -> str:
    """The row's value for each place, 0 for places in no row."""
    within = _rows(call, call.builder.scalar([shape[0] for shape in call.result_shapes()]), *_bounds(call))
    is_in_row = call.cast(call.reduce("ReduceMax", call.cast(within, numpy.int32), [0], False), bool)
    mask = call.unsqueeze(is_in_row, *range(1, call.rank("g")))
    return call.node("Where", [mask, _spread(call, within), call.number(0)])


@writer("segment_combine")
def segment_combine(call: Call) -> str:
    kind = {"add": "Add", "mul": "Mul", "div": "Div"}[call.static("how")]
    return call.node(kind, [call.input("values"), _spread(call, _within(call))])


def _spread(call: Call, within: str) -> str:
    row_of = call.node("ArgMax", [call.cast(within, numpy.int32)], axis=0, keepdims=0)
    return call.node("Gather", [call.input("g"), row_of], axis=0)


@writer("segment_extreme")
def segment_extreme(call: Call) -> str:
    """The largest or smallest value of each row, with infinities in the place of those of other rows."""
    is_largest = call.static("which") == "max"
    mask = call.unsqueeze(_within(call), *range(2, call.rank("values") + 1))
    others = call.number(-math.inf if is_largest else math.inf)
    values = call.node("Where", [mask, call.unsqueeze(call.input("values"), 0), others])
    return call.reduce("ReduceMax" if is_largest else "ReduceMin", values, [1], False)


@writer("segment_product")
def segment_product(call: Call) -> str:
    return call.reduce("ReduceProd", _of_rows(call, 1), [1], False)


@writer("segment_logsumexp")
def segment_logsumexp(call: Call) -> str:
    """By the largest of each row, which is the result where it is infinite, as in rows of nothing."""
    values = _of_rows(call, -math.inf)
    largest = call.reduce("ReduceMax", values, [1], True)
    total = call.reduce("ReduceSum", call.node("Exp", [call.node("Sub", [values, largest])]), [1], True)
    result = call.node("Add", [largest, call.node("Log", [total])])
    return call.squeeze(call.node("Where", [call.node("IsInf", [largest]), largest, result]), 1)


@writer("segment_squares")
def segment_squares(call: Call) -> str:
    """Sums of squares, or of those of distances from the mean of the row."""
    values = _of_rows(call, 0)
    if call.static("centered"):
        mask = call.unsqueeze(_within(call), *range(2, call.rank("values") + 1))
        count = call.reduce("ReduceSum", call.cast(mask, call.dtype), [1], True)
        count = call.node("Max", [count, call.number(1)])
        mean = call.node("Div", [call.reduce("ReduceSum", values, [1], True), count])
        values = call.node("Where", [mask, call.node("Sub", [values, mean]), call.number(0)])
    return call.reduce("ReduceSum", call.node("Mul", [values, values]), [1], False)


def _of_rows(call: Call, other: float) -> str:
    """(rows, values, ...): the values of each row, and a number in the place of those of other rows."""
    mask = call.unsqueeze(_within(call), *range(2, call.rank("values") + 1))
    return call.node("Where", [mask, call.unsqueeze(call.in_result_type("values"), 0), call.number(other)])


@writer("segment_softmax")
def segment_softmax(call: Call) -> str:
    """A softmax over all values for each row, which sees its own alone; of these, each value takes its row's."""
    mask = call.unsqueeze(_within(call), *range(2, call.rank("values") + 1))
    values = call.node("Where", [mask, call.unsqueeze(call.input("values"), 0), call.number(-math.inf)])
    weights = call.node("Softmax", [values], axis=1)  # NaN in empty rows, of which no value is
    return call.reduce("ReduceSum", call.node("Where", [mask, weights, call.number(0)]), [0], False)


@writer("segment_cumsum")
def segment_cumsum(call: Call) -> str:
    """A product with the matrix (values, values) that is 1 where the second is in the first one's row, and not behind it."""
    within = call.cast(_within(call), call.dtype)
    same = call.node("MatMul", [call.transpose(within, (1, 0)), within])
    summed = call.node("Trilu", [same], upper=int(call.static("backwards")))
    return call.reshape(
        call.node("MatMul", [summed, call.node("Flatten", [call.input("values")], axis=1)]), call.result_shapes()
    )


@writer("varlen_attention")
def attention(call: Call) -> list[str]:
    """softmax(query @ key.T * scale) @ value, in which a query sees the keys of its own row; one that sees none gives 0."""
    if call.static("p"):
        raise call.refused("with dropout")
    heads = call.fixed(1, "query")

    def of_heads(name: str, order: tuple[int, ...]) -> str:
        turned, count = call.transpose(call.input(name), order), call.fixed(1, name)
        shared = numpy.repeat(numpy.arange(count), heads // count)
        return turned if count == heads else call.node("Gather", [turned, call.constant(shared)], axis=0)

    query, key, value = of_heads("query", (1, 0, 2)), of_heads("key", (1, 2, 0)), of_heads("value", (1, 0, 2))
    scores = call.node("MatMul", [call.node("Mul", [query, call.number(call.static("scale"))]), key])
    lowest, allowed = call.number(-math.inf), _seen(call)
    if call.has("mask"):
        if call.rank("mask") != 1:
            raise call.refused(f"with a mask of {call.rank('mask')} dims")
        mask = call.input("mask")
        if call.dtype_of("mask").kind != "b":
            scores, mask = call.node("Add", [scores, mask]), call.node("Greater", [mask, lowest])
        allowed = call.node("And", [allowed, mask])
    weights = call.node("Softmax", [call.node("Where", [allowed, scores, lowest])], axis=-1)
    weights = call.node("Where", [allowed, weights, call.number(0)])
    return [call.transpose(call.node("MatMul", [weights, value]), (1, 0, 2))] * call.count


def _seen(call: Call) -> str:
    """(queries, keys): which keys are in the row of a query, and in its window."""
    offsets = [call.cast(call.input(name), numpy.int64) for name in ("offsets_q", "offsets_k")]
    first, last, behind = call.ints(0), call.ints(-1), call.ints(2**62)
    starts = [call.node("Slice", [name, first, last]) for name in offsets]
    ends = [call.node("Slice", [name, call.ints(1), behind]) for name in offsets]
    counts = [_count(call, name) for name in ("query", "key")]
    rows = [_rows(call, *each) for each in zip(counts, starts, ends)]
    within = [call.cast(each, numpy.float32) for each in rows]
    same = call.cast(call.node("MatMul", [call.transpose(within[0], (1, 0)), within[1]]), bool)
    left, right = call.static("window")
    if (left, right) == (-1, -1):
        return same
    # Where the rows of keys begin (or end) as seen from those of the queries, for each query.
    shift = call.node("Sub", [ends[1], ends[0]] if call.static("ends") else [starts[1], starts[0]])
    row_of = call.node("ArgMax", [within[0]], axis=0, keepdims=0)
    own = call.node("Add", [_range(call, counts[0]), call.node("Gather", [shift, row_of], axis=0)])
    away = call.node("Sub", [_range(call, counts[1]), call.unsqueeze(own, 1)])
    if left >= 0:
        same = call.node("And", [same, call.node("GreaterOrEqual", [away, call.constant(-left, numpy.int64)])])
    if right >= 0:
        same = call.node("And", [same, call.node("LessOrEqual", [away, call.constant(right, numpy.int64)])])
    return same


def _within(call: Call) -> str:
    """(rows, values): which value is in which row."""
    return _rows(call, _count(call, "values"), *_bounds(call))


def _bounds(call: Call) -> list[str]:
    return [call.cast(call.input(name), numpy.int64) for name in ("starts", "ends")]


def _count(call: Call, name: str) -> str:
    return call.squeeze(call.node("Shape", [call.input(name)], start=0, end=1), 0)


def _range(call: Call, count: str) -> str:
    return call.node("Range", [call.constant(0, numpy.int64), count, call.constant(1, numpy.int64)])


def _rows(call: Call, count: str, starts: str, ends: str) -> str:
    """(rows, count): which of `count` places are in which row."""
    places = _range(call, count)
    behind = call.node("GreaterOrEqual", [places, call.unsqueeze(starts, 1)])
    return call.node("And", [behind, call.node("Less", [places, call.unsqueeze(ends, 1)])])
