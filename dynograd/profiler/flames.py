"""A flame graph: where a program's time goes, by its lines; forward and backward on the lines that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynograd.profiler.events import Event

__all__ = ["flame_graph"]

_WIDTH, _HEIGHT, _LETTER, _LEAST = 1200, 18, 6.6, 0.4  # pixels
_COLOURS = {"op": "#f4a261", "backward": "#7aa6d8", "line": "#f6dfb4"}


@dataclass
class _Frame:
    """A line of the program, or an op called on it, with the time within."""

    name: str
    kind: str = "line"
    time: float = 0.0
    inner: dict[tuple[str, str], _Frame] = field(default_factory=dict)

    def within(self, name: str, kind: str) -> _Frame:
        return self.inner.setdefault((name, kind), _Frame(name, kind))


def flame_graph(events: list[Event]) -> str:
    """The events of a profile as an SVG picture: frames from the outermost line (at the top) to ops, as wide as they took time.

    Args:
        events: with their stacks.
    Returns:
        The text of the picture; a frame tells its name, time and share when the pointer is over it.
    """
    root = _Frame("all")
    for event in events:
        time = event.self_cpu_time_total
        if not event.stack or time <= 0:
            continue
        root.time += time
        frame = root
        for line in reversed(event.stack):
            frame = frame.within(_short(line), "line")
            frame.time += time
        frame = frame.within(event.name, event.kind)
        frame.time += time
    boxes: list[str] = []
    depth = _draw(root, 0.0, 0, _WIDTH / root.time if root.time else 0.0, root.time, boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{(depth + 1) * _HEIGHT}" font-family="monospace" font-size="11">'
        f"{''.join(boxes)}</svg>"
    )


def _draw(frame: _Frame, left: float, depth: int, scale: float, whole: float, boxes: list[str]) -> int:
    """Draws a frame and those within; gives how deep that goes."""
    width = frame.time * scale
    if width < _LEAST:
        return depth
    text = frame.name if len(frame.name) * _LETTER < width - 4 else frame.name[: max(0, int((width - 12) / _LETTER))]
    title = f"{frame.name}: {frame.time / 1000:.3f} ms, {frame.time / whole:.1%}"
    top = depth * _HEIGHT
    boxes.append(
        f'<g><title>{escape(title)}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_HEIGHT - 1}" '
        f'fill="{_COLOURS.get(frame.kind, _COLOURS["line"])}" stroke="#fff" stroke-width="0.5"/>'
        f'<text x="{left + 3:.1f}" y="{top + 13}">{escape(text)}</text></g>'
    )
    deepest = depth
    for inner in sorted(frame.inner.values(), key=lambda frame: -frame.time):
        deepest = max(deepest, _draw(inner, left, depth + 1, scale, whole, boxes))
        left += inner.time * scale
    return deepest


def _short(line: str) -> str:
    """`train.py(14): step` of a stack's line."""
    return line.rpartition("/")[2]
