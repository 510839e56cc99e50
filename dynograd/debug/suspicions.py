"""What runs without an error and is a mistake all the same: rules about calls, and about the parameters that optimizers move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy

from dynograd import arrays
from dynograd.debug.recording import Call, Passage, Update, Value, array_of, provenance
from dynograd.debug.texts import as_float, at, described, shape_of, short
from dynograd.nn import Parameter
from dynograd.tensor.tensor import Tensor

__all__ = ["Suspicion", "of_leaf", "of_value", "without_gradient"]

_MOST_CALLS = 10_000
_SQUASHING = ("softmax", "sigmoid", "relu")


@dataclass
class Suspicion:
    """A sentence about a call that is likely a mistake."""

    text: str
    call: Call | None


# --- what a value was made by -----------------------------------------------------------------------------------------------


def of_value(value: Value) -> Suspicion | None:
    """The first suspicious call on the ways back from a value, the latest first."""
    rules = _RULES if value.requires_grad else (*_RULES, _trains)
    for call in calls_behind(value):
        for rule in rules:
            text = rule(call)
            if text:
                return Suspicion(text, call)
    return None


def without_gradient(value: Value) -> Suspicion | None:
    """Why backward cannot begin at a number, such as a loss."""
    if value.requires_grad or value.shape or value.call is None or not value.dtype.is_floating_point:
        return None
    for call in calls_behind(value):
        if any([operand.requires_grad for _, operand in call.operands]):
            why = f"{at(call)} ran without recording" if not call.recording else f"{at(call)} gives none on"
            return Suspicion(f"No gradient goes back from it: {why}.", call)
    return Suspicion(
        f"No gradient goes back from it: nothing that {at(value.call)} was made of requires one (numbers of .item() and tensor(...) have no history).",
        value.call,
    )


def calls_behind(value: Value) -> Iterable[Call]:
    """The calls that a value was made by, the latest first."""
    waiting, seen = [value], set()
    while waiting and len(seen) < _MOST_CALLS:
        waiting.sort(key=lambda entry: entry.time)
        call = waiting.pop().call
        if call is None or id(call) in seen:
            continue
        seen.add(id(call))
        yield call
        waiting += [operand for _, operand in call.operands]


def _squashed_twice(call: Call) -> str:
    """Probabilities, or what is cut at 0, where scores are expected."""
    maker = _maker(call)
    own = "sigmoid" if call.op == "binary_cross_entropy_with_logits" else "softmax"
    if maker is None or maker.op not in _SQUASHING:
        return ""
    scores = "cross_entropy" in call.op and call.op != "binary_cross_entropy"
    if not scores and not (maker.op == "softmax" and call.op.endswith("softmax")):
        return ""
    return f"{at(call)} takes scores of any size and applies {own} itself, but is given what {at(maker)} gave: leave {maker.op} out."


def _no_log_probabilities(call: Call) -> str:
    if call.op != "nll_loss":
        return ""
    numbers = call.operands[0][1].numbers()
    if numbers is None or not numbers.size or not (as_float(numbers) > 0).any():
        return ""
    return (
        f"{at(call)} takes log-probabilities, which are 0 at most, but is given values {described(numbers)}: "
        f"use log_softmax, or cross_entropy on the scores."
    )


def _spread_target(call: Call) -> str:
    """A prediction (n, 1) beside a target (n): broadcasting compares all with all."""
    if not (call.op == "sub" or call.op.endswith("_loss")) or len(call.operands) != 2:
        return ""
    first, second = (operand for _, operand in call.operands)
    if len(first.shape) == len(second.shape) or first.requires_grad == second.requires_grad:
        return ""
    if not all([operand.dtype.is_floating_point for operand in (first, second)]):
        return ""  # class numbers are not compared element by element
    sizes = [size for operand in (first, second) for size in operand.shape]
    target = second if first.requires_grad else first
    if target.call is not None or not all([isinstance(size, int) for size in sizes]):
        return ""
    spread = numpy.broadcast_shapes(tuple(first.shape), tuple(second.shape))
    if numpy.prod(spread) in (numpy.prod(first.shape), numpy.prod(second.shape)):
        return ""
    return (
        f"{at(call)} broadcasts {shape_of(first)} and {shape_of(second)} to {spread}, so each prediction is compared with all targets: "
        f"make the shapes the same by squeeze(-1) or unsqueeze(-1)."
    )


def _trains(call: Call) -> str:
    """Dropout, or statistics of the batch, in what is not trained."""
    module = call.module[-1]() if call.module else None
    tracks = getattr(module, "running_mean", None) is not None
    if call.recording or not ("dropout" in call.op or (tracks and "training=True" in call.arguments)):
        return ""
    return (
        f"{at(call)} ran as in training, while no gradients were recorded: call model.eval() before the model is used."
    )


_RULES: tuple[Callable[[Call], str], ...] = (_squashed_twice, _no_log_probabilities, _spread_target)


def _maker(call: Call) -> Call | None:
    """What made the first operand, views apart."""
    maker = call.operands[0][1].call if call.operands else None
    while maker is not None and maker.operands and _is_view(maker.results[0], maker.operands[0][1]):
        maker = maker.operands[0][1].call
    return maker


def _is_view(result: Value, operand: Value) -> bool:
    """Whether a result lies in the memory of an operand."""
    own, other = result.memory, operand.memory
    return arrays.is_array(own) and arrays.is_array(other) and arrays.base_of(own) is arrays.base_of(other)


# --- parameters that do not learn as they should ------------------------------------------------------------------------------


def of_leaf(leaf: Tensor, value: Value | None, way: list[Passage], scope: provenance | None) -> Suspicion | None:
    """Of a leaf whose gradient is healthy: what is wrong with its module, its optimizer, its gradient, or the way that this came."""
    if scope is None or value is None:
        return None
    return (
        _unlisted(leaf, value)
        or _not_optimized(leaf, scope)
        or _summed_up(leaf, way, scope)
        or next(
            (of_value(passage.call.results[0]) for passage in way[:1] if passage.call and passage.call.results), None
        )
    )


def _unlisted(leaf: Tensor, value: Value) -> Suspicion | None:
    if not isinstance(leaf, Parameter):
        return None
    for call in value.readers:
        model = call.module[0]() if call.module else None
        if model is not None and all([parameter is not leaf for parameter in model.parameters()]):
            name = type(model).__name__
            return Suspicion(
                f"{at(call)} reads it inside {name}, but {name}.parameters() does not list it, so no optimizer gets it: "
                f"keep layers in a ModuleList or ModuleDict and parameters in a ParameterList, not in a plain list or dict.",
                call,
            )
    return None


def _not_optimized(leaf: Tensor, scope: provenance) -> Suspicion | None:
    updates = [update for update in scope.updates if update.parameters()]
    if not updates or any([parameter is leaf for update in updates for parameter in update.parameters()]):
        return None
    listed = ", ".join(dict.fromkeys(f"{update.kind} at {short(update.line)}" for update in updates))
    return Suspicion(
        f"No optimizer that took a step has it among its parameters ({listed}), so it stays as it is: "
        f"build the optimizer when the model is whole, or add it with add_param_group.",
        _call_of(updates[-1]),
    )


def _summed_up(leaf: Tensor, way: list[Passage], scope: provenance) -> Suspicion | None:
    """Backward passes before and after an optimizer's step that are in one gradient."""
    updates = [update for update in scope.updates if any([parameter is leaf for parameter in update.parameters()])]
    if leaf.grad is None:
        return None
    gradient = numpy.asarray(arrays.to_numpy(array_of(leaf.grad)))
    total, count = numpy.zeros(gradient.shape), 0
    for number in range(len(updates), -1, -1):
        begin = updates[number - 1].time if number else 0
        end = updates[number].time if number < len(updates) else None
        parts = _parts_between(leaf, way, begin, end)
        if parts is None:
            return None
        if not parts:
            continue
        total, count = total + sum(parts), count + 1
        if numpy.allclose(gradient, total, rtol=1e-3, atol=1e-6 * float(abs(gradient).max())):
            break
    else:
        return None
    if count < 2:
        return None
    return Suspicion(
        f"It is the sum of backward passes before and after {count - 1} steps of {updates[-1].kind} at {short(updates[-1].line)}: "
        f"optimizer.zero_grad() is missing before backward.",
        _call_of(updates[-1]),
    )


def _parts_between(leaf: Tensor, way: list[Passage], begin: int, end: int | None) -> list[numpy.ndarray] | None:
    """The gradients that passages between two times gave to a leaf; None where they are not known."""
    parts = []
    for passage in way:
        if passage.time < begin or (end is not None and passage.time >= end):
            continue
        for edge, part in zip(passage.node.edges, passage.gave()):
            if edge is leaf:
                if part is None or part.shape != tuple(leaf.shape):
                    return None
                parts.append(part)
    return parts


def _call_of(update: Update) -> Call:
    """A step as a call, which explanations name."""
    return Call(f"{update.kind}.step", update.place, (), False)
