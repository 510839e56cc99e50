"""Why the gradient of a leaf is missing, zero, or not a number: the ways from the leaf to where backward began, and what stands in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from dynograd import arrays
from dynograd.autograd.nodes import OutputNode
from dynograd.debug import nonfinite, suspicions
from dynograd.debug.explanations import SUSPECT, Explanation, Step, explanation
from dynograd.debug.names import Names
from dynograd.debug.nonfinite import words_of_operands
from dynograd.debug.recording import Call, Passage, Value, array_of, provenance
from dynograd.debug.texts import as_float, at, described, number, range_of, shape_of, short
from dynograd.tensor.tensor import Tensor

__all__ = ["explanation_of", "of_gradient_at"]

_CUTS = ("detach", "data")
_SHOWN = 12  # nodes at either end of a way


def explanation_of(leaf: Tensor, value: Value | None, scope: provenance | None, names: Names) -> Explanation:
    """Of a leaf that requires a gradient, or a parameter that does not."""
    name = names.of(leaf) or f"the leaf of shape {tuple(leaf.shape)}"
    way = _way_to(leaf, [] if scope is None else list(scope.passages))
    grad = leaf.grad
    if grad is None and not leaf.requires_grad:
        return _of_frozen(name, value)
    if grad is None:
        return _of_missing(name, value, way, names)
    numbers = numpy.asarray(arrays.to_numpy(array_of(grad)))
    steps = _steps_of(way)
    if not arrays.is_finite(numbers):
        return _of_nonfinite(name, leaf, numbers, way, names, steps)
    if not numbers.any():
        return _of_zero(name, leaf, way, names, steps)
    suspicion = suspicions.of_leaf(leaf, value, way, scope)
    if suspicion is not None:
        text = f"{name} has a gradient, norm {number(float(numpy.linalg.norm(numbers)))}. {suspicion.text}"
        return explanation(SUSPECT, text, suspicion.call, steps)
    largest = f"The gradient of {name} {described(numbers)}, norm {number(float(numpy.linalg.norm(numbers)))}."
    return explanation("", largest + _growth(way, leaf), way[-1].call if way else None, steps)


def of_gradient_at(node: Any, grad: Tensor, passages: list[Passage]) -> Explanation:
    """Of the gradient that comes to a node while backward runs."""
    way = _way_to(node, passages)
    numbers = numpy.asarray(arrays.to_numpy(array_of(grad)))
    norm = number(float(numpy.linalg.norm(as_float(numbers))))
    reason = f"The gradient that comes to {node.name()} {described(numbers)}, norm {norm}."
    return explanation("", reason + _growth(way, node), way[-1].call if way else None, _steps_of(way))


def _way_to(leaf: Any, passages: list[Passage]) -> list[Passage]:
    """The nodes of the last backward passes that lead to the leaf, the loss first."""
    reaches: set[Any] = {leaf}
    way = []
    for passage in reversed(passages):
        if any([edge in reaches for edge in passage.node.edges if edge is not None]):
            reaches.add(passage.node)
            way.append(passage)
    return way[::-1]


def _towards(way: list[Passage], position: int, leaf: Any) -> list[numpy.ndarray]:
    """The gradients that a node of a way gave along it."""
    nodes = {passage.node for passage in way[position + 1 :]} | {leaf}
    passage = way[position]
    return [
        part
        for edge, part in zip(passage.node.edges, passage.gave())
        if isinstance(part, numpy.ndarray) and edge in nodes
    ]


def _steps_of(way: list[Passage]) -> list[Step]:
    """The norm of the gradient at each node, from the loss to the leaf; of a long way both ends, and where the reason lies."""
    steps = []
    way = [passage for passage in way if type(passage.node) is not OutputNode]
    for position, passage in enumerate(way):
        title = passage.name if passage.call is None else f"{passage.name} of {at(passage.call)}"
        came, gave = passage.came(), [part for part in passage.gave() if part is not None]
        shown = "no longer held" if came is None else described(came)
        went = f"gave {', '.join(described(part) for part in gave)}" if gave else ""
        bad = _is_turn(came, gave)
        if bad or min(position, len(way) - 1 - position) < _SHOWN:
            steps.append(Step(title, f"gradient {shown}; {went}".rstrip("; "), 0, bad))
    if len(steps) < len(way):
        steps.insert(_SHOWN, Step(f"... {len(way) - len(steps)} nodes", "", 0))
    return steps


def _is_turn(came: numpy.ndarray | None, gave: list[numpy.ndarray]) -> bool:
    """Whether a gradient became zero, or no number, here."""
    if came is None or not gave:
        return False
    spoiled = arrays.is_finite(came) and not all([arrays.is_finite(part) for part in gave])
    return spoiled or (bool(came.any()) and not any([part.any() for part in gave]))


def _of_nonfinite(
    name: str, leaf: Tensor, numbers: numpy.ndarray, way: list[Passage], names: Names, steps: list[Step]
) -> Explanation:
    problem = "nan gradient" if numpy.isnan(numbers).any() else "inf gradient"
    for position, passage in enumerate(way):
        came = passage.came()
        if came is not None and not arrays.is_finite(came):
            reason = f"The gradient of {name} has {described(numbers)}: what came to {_title(passage)} in backward was not finite already."
            return explanation(problem, reason, passage.call, steps)
        bad = [part for part in _towards(way, position, leaf) if not arrays.is_finite(part)]
        if bad:
            source = None if passage.call is None else nonfinite.bad_operand(passage.call)
            if source is not None:
                before = nonfinite.explanation_of(source, names, 6)
                reason = (
                    f"The gradient of {name} has {described(numbers)}: forward had it before backward. {before.reason}"
                )
                return Explanation(problem, reason, before.op, before.line, before.module, steps)
            words = _operands_at(passage, bad[0], names)
            reason = (
                f"The gradient of {name} has {described(numbers)}: backward of {_title(passage)} gave it first{words}."
            )
            return explanation(problem, reason, passage.call, steps)
    reason = f"The gradient of {name} has {described(numbers)}; no backward pass that was noted gave that: a hook, or code that wrote into it."
    return Explanation(problem, reason, steps=steps)


def _operands_at(passage: Passage, part: numpy.ndarray, names: Names) -> str:
    """What the op had been given at the first element whose gradient is not a number."""
    call = passage.call
    if call is None or not call.results:
        return ""
    result = call.results[0]
    index = tuple(int(position) for position in numpy.argwhere(~numpy.isfinite(as_float(part)))[0])
    place = f" at {list(index)}" if index else ""
    own = index if part.shape == tuple(result.shape) else None
    grad = passage.came()
    came = "" if grad is None else f", and its gradient was {described(grad)}"
    return f"{place}; the op was{words_of_operands(call, result, own, names).removeprefix(',')}{came}"


def _of_zero(name: str, leaf: Tensor, way: list[Passage], names: Names, steps: list[Step]) -> Explanation:
    problem = "zero gradient"
    if not way:
        return Explanation(problem, f"The gradient of {name} is zero, and no backward pass that was noted went there.")
    for position, passage in enumerate(way):
        towards = _towards(way, position, leaf)
        grad = passage.came()
        if grad is not None and not grad.any():
            return explanation(
                problem,
                f"The gradient of {name} is zero: the gradient that came to {_title(passage)} was zero already.",
                passage.call,
                steps,
            )
        if towards and not any([part.any() for part in towards]):
            words = ""
            if passage.call is not None and passage.call.results:
                words = words_of_operands(passage.call, passage.call.results[0], None, names)
                words = f" It was{words.removeprefix(',')}." if words else ""
            came = "" if grad is None else f" of a gradient {described(grad)}"
            return explanation(
                problem,
                f"The gradient of {name} is zero: backward of {_title(passage)} made zeros{came}.{words}",
                passage.call,
                steps,
            )
    return explanation(
        problem,
        f"The gradient of {name} is zero, though no op on the way made zeros: several that cancel each other were added, or it was set to zero "
        f"since (zero_grad).",
        way[-1].call,
        steps,
    )


def _title(passage: Passage) -> str:
    return passage.name if passage.call is None else at(passage.call)


def _growth(way: list[Passage], leaf: Any) -> str:
    """Where a gradient shrank or grew most, if it did much."""
    worst, sentence = 100.0, ""
    for position, passage in enumerate(way):
        towards = _towards(way, position, leaf)
        came = passage.came()
        if came is None or not towards or not all([arrays.is_finite(part) for part in (came, towards[0])]):
            continue
        before, after = (
            float(numpy.sqrt(numpy.mean(numpy.square(part, dtype=numpy.float64)))) for part in (came, towards[0])
        )
        if before and after and max(before / after, after / before) > worst:
            worst = max(before / after, after / before)
            word = "smaller" if before > after else "larger"
            sentence = f" {_title(passage)} made it {number(worst)} times {word}, more than any other op."
    return sentence


def _of_frozen(name: str, value: Value | None) -> Explanation:
    reader = value.readers[0] if value is not None and value.readers else None
    read = f"; {at(reader)} read it" if reader is not None else ""
    reason = f"{name} has no gradient: its requires_grad is False, so backward passes it by{read}. requires_grad_() lets it learn."
    return explanation("no gradient", reason, reader, [])


# --- no gradient at all ---------------------------------------------------------------------------------------------------


@dataclass
class _End:
    """Where a way from the leaf on ends: at `call`, because of `why`; `leads_on` if what it gave was read by others."""

    call: Call
    why: str
    rank: int


def _of_missing(name: str, value: Value | None, way: list[Passage], names: Names) -> Explanation:
    problem = "no gradient"
    if way:
        return explanation(
            problem,
            f"{name} has no gradient now, but {_title(way[-1])} gave it one in backward: it was set to None since (zero_grad).",
            way[-1].call,
            _steps_of(way),
        )
    if value is None or not value.readers:
        return Explanation(
            problem,
            f"{name} has no gradient: no op has read it inside `dynograd.debug.provenance()`, so it is unused there.",
        )
    ends = _ends_of(value)
    if not ends:
        return Explanation(problem, f"{name} has no gradient, and no backward pass was noted.")
    end = min(ends, key=lambda end: end.rank)
    steps = [
        Step(
            at(other.call),
            f"{' '.join(f'{shape_of(result)} {range_of(result)}' for result in other.call.results)}; {other.why}",
            0,
            other is end,
        )
        for other in sorted(ends, key=lambda other: other.rank)[:8]
    ]
    return explanation(problem, f"{name} has no gradient: {end.why}.", end.call, steps)


def _ends_of(value: Value) -> list[_End]:
    """All places where ways from the value on stop carrying gradients, those first that others went on from."""
    ends: list[_End] = []
    seen: set[int] = set()
    waiting = list(value.readers)
    while waiting:
        call = waiting.pop()
        key = call.results[0].time if call.results else id(call)
        if key in seen:
            continue
        seen.add(key)
        if call.op in _CUTS:
            word = "detach()" if call.op == "detach" else ".data"
            ends.append(
                _End(call, f"{word} at {short(call.line)} cuts the way to it{_module(call)}", 0 + _unread(call))
            )
        elif not call.recording:
            ends.append(
                _End(
                    call,
                    f"{at(call)} ran without recording (no_grad, inference_mode, or set_grad_enabled(False))",
                    1 + _unread(call),
                )
            )
        elif not any([result.requires_grad for result in call.results]):
            kinds = ", ".join(shape_of(result) for result in call.results)
            ends.append(_End(call, f"{at(call)} gives {kinds}, through which no gradient goes", 2 + _unread(call)))
        else:
            readers = [reader for result in call.results for reader in result.readers]
            if readers:
                waiting += readers
            else:
                ends.append(_End(call, f"nothing that backward() began at was made of what {at(call)} gave", 20))
    return ends


def _unread(call: Call) -> int:
    """0 where others read what the call gave, so that the way would have gone on."""
    return 0 if any([result.readers for result in call.results]) else 10


def _module(call: Call) -> str:
    return f" (in module {call.path})" if call.path else ""
