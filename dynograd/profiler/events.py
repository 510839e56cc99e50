"""What a profile holds: events with their times, and their averages as a table, a Chrome trace or a list of stacks."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from dynograd.profiler.flames import flame_graph

__all__ = ["Event", "EventAverage", "EventList"]


class Event:
    """One range: times in microseconds since the profile began, what ran inside it, and what was asked to be noted.

    Args:
        kind: "op", "backward", "user" or "module".
        name: of the op, or what the program called it.
        thread: the number of the thread.

    >>> with dynograd.profiler.profile() as taken:
    ...     _ = dynograd.ones(3).exp()
    >>> [event.name for event in taken.events()]
    ['exp']
    """

    def __init__(self, kind: str, name: str, thread: int) -> None:
        self.kind, self.name, self.key, self.thread = kind, name, name, thread
        self.start = self.end = 0.0
        self.cpu_parent: Event | None = None
        self.cpu_children: list[Event] = []
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        self.memory = 0
        self.operands: list[Any] = []  # what owns their memory, until the range ends
        self.flops = 0
        self.device_marks: Any = None
        self.device_time_total = 0.0
        self.count = 1

    @property
    def is_user_annotation(self) -> bool:
        """Whether the program named it, by `record_function`."""
        return self.kind == "user"

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from begin to end."""
        return self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        """Without the time of the ranges inside."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds on the device, without the ranges inside."""
        return max(0.0, self.device_time_total - sum(child.device_time_total for child in self.cpu_children))

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of the results made inside."""
        return self.memory + sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes of the results made in it, without the ranges inside."""
        return self.memory

    def __repr__(self) -> str:
        return f"<Event {self.name} {_time(self.cpu_time_total)}>"


class EventAverage:
    """All events of one name (and shapes, and place) together.

    Args:
        key: the name.
        events: the events.

    >>> with dynograd.profiler.profile() as taken:
    ...     _ = dynograd.ones(3).exp().exp()
    >>> (row,) = taken.key_averages()
    >>> row.key, row.count
    ('exp', 2)
    """

    def __init__(self, key: str, events: list[Event]) -> None:
        self.key, self.count = key, sum(event.count for event in events)
        first = events[0]
        self.input_shapes, self.stack, self.is_user_annotation = (
            first.input_shapes,
            first.stack,
            first.is_user_annotation,
        )
        outermost = [event for event in events if not _inside_same(event)]
        self.cpu_time_total = sum(event.cpu_time_total for event in outermost)
        self.self_cpu_time_total = sum(event.self_cpu_time_total for event in events)
        self.device_time_total = sum(event.device_time_total for event in outermost)
        self.self_device_time_total = sum(event.self_device_time_total for event in events)
        self.cpu_memory_usage = sum(event.cpu_memory_usage for event in outermost)
        self.self_cpu_memory_usage = sum(event.self_cpu_memory_usage for event in events)
        self.flops = sum(event.flops for event in events)

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Microseconds of one call on the device."""
        return self.device_time_total / self.count

    cuda_time = device_time
    cuda_time_total = property(lambda self: self.device_time_total, doc="`device_time_total` (old).")
    self_cuda_time_total = property(lambda self: self.self_device_time_total, doc="`self_device_time_total` (old).")
    cpu_time_str = property(lambda self: _time(self.cpu_time), doc="`cpu_time` with its unit.")
    cpu_time_total_str = property(lambda self: _time(self.cpu_time_total), doc="`cpu_time_total` with its unit.")
    self_cpu_time_total_str = property(
        lambda self: _time(self.self_cpu_time_total), doc="`self_cpu_time_total` with its unit."
    )

    def __repr__(self) -> str:
        return f"<EventAverage {self.key}: {self.count} calls, {_time(self.cpu_time_total)}>"


def _inside_same(event: Any) -> bool:
    parent = getattr(event, "cpu_parent", None)
    while parent is not None:
        if parent.key == event.key:
            return True
        parent = parent.cpu_parent
    return False


class EventList(list):
    """Events or their averages: a list with a table.

    Args:
        iterable: the events.

    >>> with dynograd.profiler.profile() as taken:
    ...     _ = dynograd.ones(3).exp()
    >>> "exp" in taken.events().table()
    True
    """

    noted: frozenset[str] = frozenset()

    def _like(self, listed: Iterable[Any]) -> EventList:
        events = EventList(listed)
        events.noted = self.noted
        return events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together; of each name and shapes, or of each name and `group_by_stack_n` lines of its stack.

        Args:
            group_by_input_shape: one row for each list of shapes.
            group_by_stack_n: so many lines of the stack tell rows apart.
        Returns:
            An `EventList` of averages.
        """
        groups: dict[Any, list[Event]] = {}
        for event in self:
            key: tuple = (event.key,)
            if group_by_input_shape:
                key += (str(event.input_shapes),)
            if group_by_stack_n:
                key += tuple(event.stack[:group_by_stack_n])
            groups.setdefault(key, []).append(event)
        averages = self._like(EventAverage(key[0], listed) for key, listed in groups.items())
        for average in averages:  # what its events have in common
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shape:
                average.input_shapes = ""
        return averages

    def total_average(self) -> EventAverage:
        """All events as one row."""
        return EventAverage("Total", list(self))

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each without the ranges inside."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The averages as a table, as PyTorch prints it.

        Args:
            sort_by: "cpu_time_total", "self_cpu_time_total", "cpu_time", "count", "cpu_memory_usage", "device_time_total" and so on.
            row_limit: how many rows; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: characters.
            header: a line above.
            top_level_events_only: leave out what ran inside others.
            time_unit: "s", "ms" or "us"; what fits by default.
        Returns:
            A text.
        """
        rows = [event for event in self if not top_level_events_only or getattr(event, "cpu_parent", None) is None]
        if sort_by is not None:
            name = sort_by.replace("cuda_", "device_")
            if rows and not hasattr(rows[0], name):
                raise ValueError(
                    f"table: cannot sort by {sort_by!r}. Use one of cpu_time, cpu_time_total, self_cpu_time_total, cpu_memory_usage, "
                    f"self_cpu_memory_usage, device_time, device_time_total, self_device_time_total, count."
                )
            rows.sort(key=lambda event: getattr(event, name), reverse=True)
        whole = sum(event.self_cpu_time_total for event in self) or 1.0
        device = sum(event.self_device_time_total for event in self)
        columns: list[tuple[str, int, Callable[[Any], str]]] = [
            ("Name", max_name_column_width, lambda event: event.key),
            ("Self CPU %", 12, lambda event: f"{100 * event.self_cpu_time_total / whole:.2f}%"),
            ("Self CPU", 12, lambda event: _time(event.self_cpu_time_total, time_unit)),
            ("CPU total %", 12, lambda event: f"{100 * event.cpu_time_total / whole:.2f}%"),
            ("CPU total", 12, lambda event: _time(event.cpu_time_total, time_unit)),
            ("CPU time avg", 12, lambda event: _time(event.cpu_time_total / event.count, time_unit)),
        ]
        if device:
            columns += [
                ("Self CUDA", 12, lambda event: _time(event.self_device_time_total, time_unit)),
                ("Self CUDA %", 12, lambda event: f"{100 * event.self_device_time_total / device:.2f}%"),
                ("CUDA total", 12, lambda event: _time(event.device_time_total, time_unit)),
                ("CUDA time avg", 13, lambda event: _time(event.device_time_total / event.count, time_unit)),
            ]
        if "memory" in self.noted:
            columns += [
                ("CPU Mem", 12, lambda event: _bytes(event.cpu_memory_usage)),
                ("Self CPU Mem", 12, lambda event: _bytes(event.self_cpu_memory_usage)),
            ]
        columns.append(("# of Calls", 12, lambda event: str(event.count)))
        if any([event.input_shapes for event in self]):
            columns.append(("Input Shapes", max_shapes_column_width, lambda event: str(event.input_shapes)))
        if "flops" in self.noted:
            columns.append(("Total FLOPs", 12, lambda event: str(event.flops) if event.flops else "--"))
        if any([event.stack for event in self]):
            columns.append(
                ("Source Location", max_src_column_width, lambda event: event.stack[0] if event.stack else "")
            )
        shown = rows if row_limit < 0 else rows[:row_limit]
        return (
            _table(columns, shown, header)
            + f"\nSelf CPU time total: {_time(whole if self else 0.0)}\n"
            + (f"Self CUDA time total: {_time(device)}\n" if device else "")
        )

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Writes what chrome://tracing and Perfetto read (compressed, if `path` ends in .gz).

        Args:
            path: the file.
        """
        process = os.getpid()
        records = [
            {
                "ph": "X",
                "cat": _CATEGORIES[event.kind],
                "name": event.name,
                "pid": process,
                "tid": event.thread,
                "ts": round(event.start, 3),
                "dur": round(event.cpu_time_total, 3),
                "args": {
                    key: value
                    for key, value in (
                        ("Input Dims", event.input_shapes),
                        ("Call stack", ";".join(event.stack)),
                        ("Bytes", event.memory),
                        ("Device us", event.device_time_total),
                    )
                    if value
                },
            }
            for event in self
        ]
        whole = {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": records}
        text = json.dumps(whole)
        if str(path).endswith(".gz"):
            with gzip.open(path, "wt") as file:
                file.write(text)
        else:
            Path(path).write_text(text)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes one line for each stack, `frame;frame;frame microseconds`: what flame graph tools read.

        Args:
            path: the file.
            metric: "self_cpu_time_total" or "self_cuda_time_total".
        """
        if metric not in ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
            raise ValueError(
                f"export_stacks: metric should be one of self_cpu_time_total, self_cuda_time_total, got {metric!r}."
            )
        totals: dict[str, float] = {}
        for event in self:
            if event.stack:
                line = ";".join([*reversed(event.stack), event.name])
                totals[line] = totals.get(line, 0.0) + getattr(event, metric.replace("cuda", "device"))
        Path(path).write_text("".join(f"{line} {int(total)}\n" for line, total in totals.items() if int(total)))

    def export_flame_graph(self, path: str | PathLike[str]) -> None:
        """Draws where the time went, by the program's lines: an SVG picture; the backward of an op stands on the op's line.

        Args:
            path: the file.
        Raises:
            ValueError: no stacks were noted.
        """
        if "stack" not in self.noted:
            raise ValueError(
                "export_flame_graph: the profile has no lines of the program. Take it with profile(with_stack=True)."
            )
        Path(path).write_text(flame_graph(self))


_CATEGORIES = {"op": "cpu_op", "backward": "cpu_op", "user": "user_annotation", "module": "python_function"}


def _table(columns: list[tuple[str, int, Callable[[Any], str]]], rows: list[Any], header: str | None) -> str:
    cells = [[text(entry) for _, _, text in columns] for entry in rows]
    widths = []
    for place, (title, most, _) in enumerate(columns):
        longest = max([len(title), *[len(row[place]) for row in cells]])
        widths.append(min(longest, most) if place == 0 or most > 20 else max(longest, most))
    line = "  ".join("-" * width for width in widths)

    def written(texts: list[str]) -> str:
        return "  ".join(_short(text, width).rjust(width) for text, width in zip(texts, widths, strict=True))

    parts = [line, written([title for title, _, _ in columns]), line, *[written(row) for row in cells], line]
    return "\n".join(([header] if header else []) + parts)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def _time(microseconds: float, unit: str | None = None) -> str:
    if unit == "s" or (unit is None and microseconds >= 1e6):
        return f"{microseconds / 1e6:.3f}s"
    if unit == "ms" or (unit is None and microseconds >= 1e3):
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def _bytes(count: int) -> str:
    for size, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {name}"
    return f"{count} B"
