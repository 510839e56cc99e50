"""Where a NaN or infinity came from: every op of a step is watched, and the way back from the loss is followed.

An op whose result is not finite is remembered with those among its inputs that were not finite either. Going back from the loss along
these ends at the op that made the first such value on the way to it; masks of -inf that a softmax has used up lie on no such way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy

from dynograd import arrays
from dynograd.autograd import engine, set_detect_anomaly
from dynograd.autograd.nodes import traces, user_line
from dynograd.profiler.ranges import listen, stop_listening
from dynograd.runs.snapshots import array_of
from dynograd.tensor.tensor import Tensor

__all__ = ["Origin", "Tracer", "kinds_of"]

_MOST_STEPS = 100_000


@dataclass
class Origin:
    """The op that made the first value that was not finite, and what went into it."""

    op: str
    line: str | None
    story: str


@dataclass
class _Event:
    """A call of an op whose result is not finite."""

    names: list[str]
    line: str
    output: Any  # kept, so that its id is nobody else's
    kinds: frozenset[str]
    from_events: list[_Event] = field(default_factory=list)
    from_outside: list[tuple[int, Any]] = field(default_factory=list)
    """Inputs that were not finite and came from no op that was seen: (position, the tensor)."""
    shapes: list[tuple[int, ...]] = field(default_factory=list)


class Tracer:
    """Watches ops and backward passes between `start` and `stop`."""

    def __init__(self) -> None:
        self.events: dict[int, _Event] = {}
        self.backward: Origin | None = None
        """The first node of this step whose gradient was not finite."""
        self.open: list[str] = []
        self.anomaly: Any = None

    def start(self) -> None:
        self.anomaly = set_detect_anomaly(True, check_nan=False)
        listen(self)
        engine.observers.append(self._observe)

    def stop(self) -> None:
        if self.anomaly is not None:
            engine.observers.remove(self._observe)
            stop_listening(self)
            self.anomaly.__exit__()
            self.anomaly = None

    def forget(self) -> None:
        """A step was finite after all."""
        self.events.clear()
        self.backward = None

    # --- what the ops tell ---------------------------------------------------------------------------------------------------

    def begin(self, kind: str, name: str, args: tuple) -> Any:
        if kind != "op":
            return None
        self.open.append(name)
        return args, [self._input(tensor, number) for number, tensor in enumerate(_tensors(args))]

    def end(self, mark: Any, result: Any) -> None:
        if mark is None:
            return
        args, inputs = mark
        names = [self.open.pop()]
        for output in _tensors((result,)):
            kinds = kinds_of(output)
            if not kinds:
                self.events.pop(id(output), None)
                continue
            inner = self.events.get(id(output))
            if inner is not None and inner.output is output and not any(output is tensor for tensor in _tensors(args)):
                inner.names.append(names[0])  # the op that the user called is made of the one that was seen
                continue
            event = _Event(names, user_line(), output, kinds, shapes=[tuple(tensor.shape) for tensor in _tensors(args)])
            for number, tensor, source, bad in inputs:
                if source is not None:
                    event.from_events.append(source)
                elif bad:
                    event.from_outside.append((number, tensor))
            self.events[id(output)] = event

    def _input(self, tensor: Tensor, number: int) -> tuple[int, Tensor, _Event | None, bool]:
        kinds = kinds_of(tensor)
        known = self.events.get(id(tensor)) if kinds else None
        return number, tensor, known, bool(kinds)

    def _observe(self, node: Any, g: Any, rule: Any) -> Any:
        results = rule(g)
        if self.backward is None:
            for part in results:
                array = getattr(part, "array", part)
                if arrays.is_array(array) and not arrays.is_finite(array):
                    self.backward = Origin(
                        f"backward of {node.op_name()}",
                        traces.get(node),
                        f"the backward of {node.op_name()} gave the first gradient that is not finite; its forward was at {traces.get(node)}",
                    )
                    break
        return results

    # --- the answer -----------------------------------------------------------------------------------------------------------

    def origin_of(self, value: Any, name_of: Any) -> Origin | None:
        """Where what is not finite in `value` came from; None when no op was seen that made it.

        Args:
            value: a tensor, or a number that was read from one.
            name_of: gives the words for a tensor that came from no op: a parameter, the batch.
        """
        event = self._last_event(value)
        if event is None:
            return None
        way = [event]
        for _ in range(_MOST_STEPS):
            nan = "nan" in event.kinds
            sources = [source for source in event.from_events if not nan or "nan" in source.kinds]
            if not sources:
                break
            event = sources[0]
            way.append(event)
        return Origin(event.names[0], event.line, _story(event, way, name_of))

    def _last_event(self, value: Any) -> _Event | None:
        if isinstance(value, Tensor):
            known = self.events.get(id(value))
            if known is not None:
                return known
            for event in reversed(
                list(self.events.values())
            ):  # `loss.detach()`, `.data`: another tensor on the same memory
                if arrays.may_overlap(array_of(event.output), array_of(value)):
                    return event
        scalars = [past for past in self.events.values() if array_of(past.output).size == 1]
        return scalars[-1] if scalars else None


def kinds_of(tensor: Any) -> frozenset[str]:
    """Which of "nan" and "inf" are among the elements."""
    array = array_of(tensor)
    if array is None or arrays.is_finite(array):
        return frozenset()
    plain = numpy.asarray(arrays.to_numpy(array))
    kinds = [name for name, test in (("nan", numpy.isnan), ("inf", numpy.isinf)) if test(plain).any()]
    return frozenset(kinds)


def _tensors(values: Any) -> list[Tensor]:
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += _tensors(value)
    return tensors


def _story(event: _Event, way: list[_Event], name_of: Any) -> str:
    kinds = " and ".join(sorted(event.kinds))
    inside = f" (inside {event.names[-1]})" if event.names[-1] != event.names[0] else ""
    where = _where(event.output)
    text = f"{event.names[0]}{inside} at {event.line} gave {kinds}{where}"
    if event.from_outside:
        sources = ", ".join(
            f"{name_of(tensor)} holds {' and '.join(sorted(kinds_of(tensor)))}" for _, tensor in event.from_outside
        )
        text += f"; it was given such values: {sources}"
    elif event.from_events:
        source = event.from_events[0]
        text += (
            f"; its input already held {' and '.join(sorted(source.kinds))}, from {source.names[-1]} at {source.line}"
        )
    else:
        text += "; all that went into it was finite"
    if len(way) > 1:
        names = [step.names[-1] for step in reversed(way)]
        shown = names if len(names) <= 8 else [*names[:4], "...", *names[-3:]]
        text += f"; on the way to the loss: {' -> '.join(shown)}"
    return text


def _where(tensor: Any) -> str:
    """The first element that is not finite, and how many there are."""
    plain = numpy.asarray(arrays.to_numpy(array_of(tensor)))
    bad = ~numpy.isfinite(plain)
    if not plain.ndim:
        return ""
    first = tuple(int(number) for number in numpy.argwhere(bad)[0])
    return f" at index {list(first)} ({int(bad.sum())} of {plain.size} elements, shape {tuple(plain.shape)})"
