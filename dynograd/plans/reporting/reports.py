"""What became of the calls of a compiled function: its ways, what computes them, and why calls went as they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from dynograd.autograd.nodes import line_text
from dynograd.plans.calls import Call
from dynograd.plans.lowering.reasons import why_in_python
from dynograd.plans.reporting.graphs import Value, counted, inputs_of, shown_line, walks_of
from dynograd.plans.steps import Path

__all__ = ["Break", "Group", "InPython", "Report", "Segment", "Sequence", "Way", "report_of"]

_MOST_LISTED = 12  # groups, calls in Python and segments of a way, in the text


class Break(NamedTuple):
    """Why calls left the record, or could not be recorded."""

    reason: str
    line: str
    """Of the program."""
    times: int


class InPython(NamedTuple):
    """Calls of a way that Python computes."""

    name: str
    line: str
    why: str
    times: int


class Group(NamedTuple):
    """Calls of a way that one loop computes."""

    members: tuple[str, ...]
    lines: tuple[str, ...]
    """Of the program, of each member."""


class Segment(NamedTuple):
    """Calls of a way that were computed in one go when it was last walked."""

    calls: int
    end: str
    """What the program did behind it."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a compiled function.

    Args:
        inputs: the tensors that are others in each call, by name, with dtype and shape.
        sizes: of a way that is walked at several sizes of the arguments, the least and the most of each size that differs.
        walked: how many calls went along it.
        seconds: that these took together, with the program's own Python.
        replayed: in mode "replay", how many calls went along it without the program's Python.
        replay_seconds: that these took together.
        steps: what the program does on it: ops, backward passes and steps of optimizers.
        calls: what is computed in these: ops, backward rules, sums and copies of gradients.
        in_kernels: so many of them are computed by kernels alone; the rest are views, which need no computing, or stand in `groups` or `in_python`.
        groups: calls that one loop computes.
        in_python: calls that Python computes, and why.
        segments: pieces that were computed in one go: they end where the program read a value, or an optimizer took its step.
        launches: of kernels.
        bytes: of memory that it computes in.
        replaced: calls whose kernels gave something else than the recorded step, and which are computed otherwise since.
    """

    inputs: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[int, int], ...]
    walked: int
    seconds: float
    replayed: int
    replay_seconds: float
    steps: int
    calls: int
    in_kernels: int
    groups: tuple[Group, ...]
    in_python: tuple[InPython, ...]
    segments: tuple[Segment, ...]
    launches: int
    bytes: int
    replaced: tuple[str, ...]

    @property
    def views(self) -> int:
        """Calls that need no computing."""
        grouped = sum([len(group.members) for group in self.groups])
        return self.calls - self.in_kernels - grouped - sum([row.times for row in self.in_python])

    @property
    def microseconds(self) -> float:
        """Of a call along it, the mean; 0 where there was none."""
        return 1e6 * self.seconds / self.walked if self.walked else 0.0

    def __str__(self) -> str:
        return "\n".join([*self.head(), *self.details()])

    def head(self) -> Iterator[str]:
        """The first two lines of the text."""
        inputs = ", ".join([f"{name} {kind}" for name, kind in self.inputs])
        time = f", {self.microseconds:,.1f} us each" if self.walked else ""
        spans = ", ".join([f"{least} to {most}" for least, most in self.sizes])
        sizes = f" and its like, sizes {spans}" if spans else ""
        if self.replayed:
            time += (
                f"; {counted(self.replayed, 'call')} replayed, {1e6 * self.replay_seconds / self.replayed:,.1f} us each"
            )
        yield f"way of {inputs or 'no tensors that change'}{sizes}: {counted(self.walked, 'call')} along it{time}"
        in_python = sum([row.times for row in self.in_python])
        grouped = sum([len(group.members) for group in self.groups])
        parts = [f"{self.in_kernels} in kernels"]
        parts += [f"{grouped} in {counted(len(self.groups), 'group')}"] * bool(grouped)
        parts += [counted(self.views, "view")] * bool(self.views) + [f"{in_python} in Python"] * bool(in_python)
        steps, calls = counted(self.steps, "step"), counted(self.calls, "call")
        yield f"  {steps} of the program, {calls}: {', '.join(parts)}; {counted(self.launches, 'launch')}, {_bytes(self.bytes)}"

    def details(self) -> Iterator[str]:
        """The other lines."""
        for group in self.groups[:_MOST_LISTED]:
            yield f"  one loop: {', '.join(group.members)}{_span(group.lines)}"
        yield from _more(self.groups, "group")
        for name in self.replaced:
            if name.startswith("group "):
                yield f"  no loop for the {name}: it gave something else than its calls"
            elif name.startswith("step "):
                yield f"  no graph has the {name}: it could not be captured, or gave something else"
        for row in self.in_python[:_MOST_LISTED]:
            yield f"  in Python: {row.times} x {row.name}{_at(row.line)}: {row.why}"
        yield from _more(self.in_python, "row")
        if len(self.segments) > 1:
            for segment in self.segments[:_MOST_LISTED]:
                yield f"  segment of {counted(segment.calls, 'call')}, up to {segment.end}"
            yield from _more(self.segments, "segment")


class Sequence(NamedTuple):
    """Ops that follow one another in scopes of `autobatch`, and are one call of their record."""

    ops: int
    first: str
    """Its name."""
    line: str
    """Of the program, where it begins."""
    times: int


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the calls of a compiled function; `str(report)` is a text, and notebooks show a table.

    Args:
        name: of the function.
        calls: of the function.
        walked: so many of them went along the record; the others ran as they are written.
        replayed: so many of those went along it without the program's Python (mode "replay").
        ways: that are on record.
        breaks: why calls left the record or were not recorded, with the line of the program.
        pauses: whether most calls run as they are written, since each goes a way of its own.
        stopped: whether all calls run as they are written from now on; the last of `breaks` says why.
        learns_as_written: the same of all calls in which gradients are recorded.
        arena: bytes of the memory that the ways share.
        scoped: calls with a scope of `autobatch`, which run as they are written.
        sequences: of ops in these scopes.
        closures: calls of optimizers with a closure that is compiled by itself, and its report.

    >>> shifted = dynograd.compile(lambda x: 2 * x + 1)
    >>> weights = dynograd.ones(3, requires_grad=True)  # few ops without gradients are left as they are written
    >>> results = [shifted(weights).tolist() for _ in range(5)]
    >>> report = shifted.report()
    >>> report.calls, report.walked, [way.groups[0].members for way in report.ways], report.breaks
    (5, 3, [('mul', 'add')], ())
    """

    name: str
    calls: int
    walked: int
    replayed: int
    ways: tuple[Way, ...]
    breaks: tuple[Break, ...]
    pauses: bool
    stopped: bool
    arena: int
    scoped: int = 0
    sequences: tuple[Sequence, ...] = ()
    closures: tuple[Report, ...] = ()
    learns_as_written: bool = False

    def __str__(self) -> str:
        lines = [self._first_line()]
        lines += [f"  {row.times} x {row.reason}{_at(row.line)}" for row in self.breaks]
        lines += [f"  {told}" for told in self._states()]
        told: list[list[str]] = []
        for way in self.ways:  # of several sizes, say, that differ in their numbers alone
            details = list(way.details())
            lines += [*way.head(), *(["  all else as of a way above"] if details and details in told else details)]
            told.append(details)
        return "\n".join([*lines, *[str(report) for report in self.closures]])

    def _first_line(self) -> str:
        memory = f", {_bytes(self.arena)} of memory" if self.ways else ""
        replayed = f" ({self.replayed} replayed)" if self.replayed else ""
        return f"{self.name}: {counted(self.calls, 'call')}, {self.walked} along the record{replayed}, {counted(len(self.ways), 'way')}{memory}"

    def _states(self) -> list[str]:
        states = [f"{counted(self.scoped, 'call')} with scopes of autobatch"] * bool(self.scoped)
        states += [
            f"in scopes: {row.times} times {row.ops} ops from {row.first} on{_at(row.line)}"
            for row in self.sequences[:_MOST_LISTED]
        ]
        states += _more(self.sequences, "sequence")
        states += ["runs mostly as it is written: each call goes another way"] * self.pauses
        states += ["runs as it is written from now on where gradients are recorded"] * self.learns_as_written
        return [*states, *["runs as it is written from now on"] * self.stopped]

    def _repr_html_(self) -> str:
        tables = [
            _table(("calls", "why they were left", "line"), [(row.times, row.reason, row.line) for row in self.breaks])
        ]
        for way in self.ways:
            first, *others = str(way).splitlines()
            text = escape("\n".join(others))
            tables.append(f"<details><summary>{escape(first)}</summary><pre>{text}</pre></details>")
        states = "".join([f"<div>{escape(told)}</div>" for told in self._states()])
        closures = "".join([closure._repr_html_() for closure in self.closures])
        return f"<div>{escape(self._first_line())}</div>{states}{''.join(tables)}{closures}"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return ""
    cells = [f"<tr>{''.join([f'<td>{escape(str(cell))}</td>' for cell in row])}</tr>" for row in rows]
    titles = "".join([f"<th>{title}</th>" for title in head])
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(cells)}</tbody></table>"


def report_of(compiled: Any) -> Report:
    """The report of a compiled function."""
    walks = walks_of(compiled)
    ways = tuple([_way(path, inputs_of(path, {})) for walk in walks for path in walk.paths])
    breaks = tuple([Break(reason, line, count) for (reason, line), count in compiled.reasons.items()])
    if compiled.replays is not None and (reason := compiled.replays.why_not()):
        breaks += (Break(reason, "its end", compiled.calls),)
    arenas = {id(walk.arena): walk.arena.whole.nbytes for walk in walks}
    return Report(
        compiled.name,
        compiled.calls,
        compiled.walked,
        0 if compiled.replays is None else compiled.replays.times,
        ways,
        breaks,
        compiled.pauses.go_on(),
        compiled.stopped,
        sum(arenas.values()),
        compiled.scopes.calls,
        tuple([Sequence(*row) for row in compiled.scopes.listed()]),
        tuple([report_of(closure) for closure in compiled.closures.all.values()]),
        compiled.learns_as_written,
    )


def _way(path: Path, inputs: list[Value]) -> Way:
    program = path.program
    grouped = {number for group in program.groups for number in group.members}
    rows = Counter(
        [
            (_shown_name(call), call.line, program.refused.get(number) or why_in_python(call))
            for number, (call, form) in enumerate(zip(program.calls, program.forms))
            if form is None
        ]
    )
    return Way(
        tuple([(value.name, value.type) for value in inputs if not value.stays]),
        program.spans(),
        path.walked,
        path.seconds,
        path.replayed,
        path.replay_seconds,
        len(path.events),
        len(program.calls),
        len([number for number, form in enumerate(program.forms) if form and number not in grouped]),
        tuple([_group(group, program.calls) for group in program.groups]),
        tuple([InPython(*row, count) for row, count in rows.items()]),
        tuple(_segments(path)),
        program.launches,
        program.memory.bytes,
        tuple(program.replaced),
    )


def _group(group: Any, calls: list[Call]) -> Group:
    members = [calls[number] for number in group.members]
    return Group(tuple([_shown_name(call) for call in members]), tuple([call.line for call in members]))


def _shown_name(call: Call) -> str:
    if call.kind == "rule":
        return f"backward of {call.name}"
    return {"sum": "sum of gradients", "copy": "copy of a gradient"}.get(call.kind, call.name)


def _segments(path: Path) -> Iterator[Segment]:
    """The pieces that the latest call along the way was computed in."""
    before = 0
    for stop in path.program.pieces:
        if stop > before:
            yield Segment(stop - before, _end(path, stop))
        before = stop


def _end(path: Path, stop: int) -> str:
    for event in path.events:
        if event.kind == "step" and event.calls == stop:
            return f"{type(event.subject).__name__}.step{_at(line_text(event.line))}"
    if stop >= path.forward:
        return "the end" if stop == path.forward else "the end of the backward pass"
    last = path.program.calls[stop - 1]
    return f"a value that was read or kept, behind {_shown_name(last)}{_at(last.line)}"


def _span(lines: tuple[str, ...]) -> str:
    shown = list(dict.fromkeys([shown_line(line) for line in lines if line]))
    return f" ({shown[0]}{f' to {shown[-1]}' * (len(shown) > 1)})" if shown else ""


def _at(line: str) -> str:
    return f" ({shown_line(line)})" if line else ""


def _more(rows: tuple[Any, ...], name: str) -> list[str]:
    count = len(rows) - _MOST_LISTED
    return [f"  and {counted(count, f'more {name}')}"] if count > 0 else []


def _bytes(count: int) -> str:
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
