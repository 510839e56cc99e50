"""Why a value is not a number: the way back to the op that first gave NaN or an infinity, and the elements that it was given."""

from __future__ import annotations

import numpy

from dynograd.autograd.writes import written_since
from dynograd.debug.explanations import Explanation, Step, explanation, step_of
from dynograd.debug.names import Names
from dynograd.debug.recording import Call, Value, array_of, current
from dynograd.debug.texts import as_float, at, described, first_bad, index_text, number, short
from dynograd.ops.op import registry

__all__ = ["explanation_of", "words_of_operands"]

_MOST_STEPS = 100_000


def explanation_of(value: Value, names: Names, depth: int) -> Explanation:
    """Goes back from a value that is not finite."""
    if value.is_finite():  # it was when it was made
        tensor = value.tensor()
        line = None if tensor is None else written_since(array_of(tensor), value.time)
        return explanation(
            _kind(value),
            f"It was finite when {at(value.call) if value.call else 'it came'} gave it; {short(line)} wrote into it since.",
            None,
            [step_of(value, names, 0, True)],
        )
    way = _way_back(value)
    readers = [step.call for step in way if step.call is not None]  # the last value may have come from outside
    steps = [step_of(step, names, level, step is way[-1]) for level, step in enumerate(way[: depth + 1])]
    if len(way) > depth + 1:
        steps += [Step(f"... {len(way) - depth - 2} ops", "", depth + 1)] if len(way) > depth + 2 else []
        steps.append(step_of(way[-1], names, depth + 1, True))
    last = way[-1]
    place = first_bad(last)
    where = "" if place is None or not place[0] else f" at {place[1]}"
    if last.call is None:
        name = names.of_value(last)
        user = f"; {at(readers[-1])} read it" if readers else ""
        return explanation(
            _kind(value),
            f"{name} holds {_bad_element(last, place)}{where} itself{_writer(last)}{user}.",
            readers[-1] if readers else None,
            steps,
        )
    words = words_of_operands(last.call, last, None if place is None else place[0], names)
    inside = f" (inside, {last.call.inside})" if last.call.inside else ""
    return explanation(
        _kind(value), f"{at(last.call)}{inside} first gave {_bad_element(last, place)}{where}{words}.", last.call, steps
    )


def bad_operand(call: Call) -> Value | None:
    """An operand that was not finite in forward, other than by a mask."""
    return next((operand for _, operand in call.operands if not operand.is_finite() and not _is_meant(operand)), None)


def _writer(value: Value) -> str:
    """Who wrote what came from outside, if it was read before without that."""
    tensor = value.tensor()
    if value.since is None or tensor is None:
        return ""
    line, scope = written_since(array_of(tensor), value.since), current()
    if line is None:
        return ""
    updates = [] if scope is None else [update for update in scope.updates if update.line == line]
    rates = ", ".join(dict.fromkeys(f"lr={number(float(rate))}" for update in updates[-1:] for rate in update.rates))
    step = f"a step of {updates[-1].kind} ({rates}) at " if updates else ""
    return f", since {step}{short(line)} wrote it"


def _way_back(value: Value) -> list[Value]:
    """The value, and what it has its NaN or infinity from, up to the first that had one."""
    way = [value]
    for _ in range(_MOST_STEPS):
        call = way[-1].call
        if call is None:
            break
        bad = [operand for _, operand in call.operands if not operand.is_finite()]
        with_nan = [operand for operand in bad if _has_nan(operand)]
        if with_nan and _has_nan(way[-1]):
            way.append(with_nan[0])
        elif bad and not all([_is_meant(operand) for operand in bad]):
            way.append(next(operand for operand in bad if not _is_meant(operand)))
        else:
            break
    return way


def _has_nan(value: Value) -> bool:
    numbers = value.numbers()
    return numbers is None or bool(numpy.isnan(as_float(numbers)).any())


def _is_meant(value: Value) -> bool:
    """Whether an infinity was written there: by a mask, or by the program itself."""
    if _has_nan(value):
        return False
    call = value.call
    if call is None:
        return True
    if any(["inf" in argument for argument in call.arguments]):
        return True
    bad = [operand for _, operand in call.operands if not operand.is_finite()]
    return bool(bad) and all([_is_meant(operand) for operand in bad])


def _kind(value: Value) -> str:
    return "nan" if _has_nan(value) else "inf"


def _bad_element(value: Value, place: tuple[tuple[int, ...], str] | None) -> str:
    numbers = value.numbers()
    if numbers is None or place is None:
        return "what is not a number"
    return number(as_float(numbers)[place[0]])


def words_of_operands(call: Call, result: Value, index: tuple[int, ...] | None, names: Names) -> str:
    """What the op was given: at this element, where operands have one for it, else from where to where."""
    parts = []
    for name, operand in call.operands:
        title = names.of_value(operand)
        title = name if not title or title == "a tensor from outside" else title
        numbers = operand.numbers()
        if numbers is None:
            continue
        matched = None if index is None else _matching(index, result, operand, numbers.shape)
        if matched is not None and _is_elementwise(call):
            there = index_text(operand, matched) if matched else ""
            between = "" if there.startswith("[") or not there else " at "
            parts.append(f"{title}{between}{there} = {number(as_float(numbers)[matched])}")
        else:
            row = _ragged_row(result, operand, index)
            if row is not None:
                title, numbers = f"{title} row {row}", numbers[operand.offsets[row] : operand.offsets[row + 1]]
            parts.append(f"{title} {described(numbers)}")
    parts += call.arguments
    return f", given {', '.join(parts)}" if parts else ""


def _ragged_row(result: Value, operand: Value, index: tuple[int, ...] | None) -> int | None:
    """The row of a ragged operand that went into an element of what has one for each row."""
    if operand.offsets is None or result.offsets is not None or not index:
        return None
    return index[0] if len(operand.offsets) == result.shape[0] + 1 else None


def _is_elementwise(call: Call) -> bool:
    row = registry.get(call.op)
    return row is not None and row.kind == "elementwise"


def _matching(index: tuple[int, ...], result: Value, operand: Value, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The element of an operand, of this shape, that goes into element `index` of the result."""
    if result.offsets is not None and operand.offsets is None:  # an element behind another, and one of a row
        row = int(numpy.searchsorted(result.offsets, index[0], side="right")) - 1
        index = (row, index[0] - int(result.offsets[row]), *index[1:])
    if len(shape) > len(index):
        return None
    tail = index[len(index) - len(shape) :]
    if any([size != 1 and position >= size for position, size in zip(tail, shape)]):
        return None
    return tuple([0 if size == 1 else position for position, size in zip(tail, shape)])
