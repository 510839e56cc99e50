"""A picture of what a scope did: its groups as bars, in the order in which they ran."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

_LABELS, _BARS = 250, 700  # widths
_LANE, _TOP = 44, 30
_WIDEST, _NARROWEST = 28, 1


def picture(groups: Sequence[tuple[str, int, Sequence[str]]]) -> str:
    """An SVG of groups, each (kind of call, how many, kinds that it takes rows of), in the order in which they ran.

    Each kind has a lane; a bar is as high as the logarithm of its group's size says, and shows the size where it fits. Lines lead from
    the bar to the latest ones before it in the lanes that it takes rows of.
    """
    lanes = {label: number for number, label in enumerate(dict.fromkeys([label for label, _, _ in groups]))}
    width = max(_NARROWEST, min(_WIDEST, _BARS / max(1, len(groups))))
    height, largest = _TOP + _LANE * len(lanes) + 8, max([size for _, size, _ in groups], default=1)
    wide = round(_LABELS + width * len(groups) + 12)
    calls = sum([size for _, size, _ in groups])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {height}" width="{wide}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{wide}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18" fill="#333333">{calls} calls in {len(groups)} groups, in the order in which they ran</text>',
    ]
    for label, lane in lanes.items():
        middle = _middle(lane)
        name, _, shape = label.partition(" -> ")
        lines.append(f'<path d="M{_LABELS} {middle}H{wide - 8}" stroke="#dddddd"/>')
        lines.append(f'<text x="8" y="{middle - 2}" fill="#333333">{escape(_short(name))}</text>')
        lines.append(f'<text x="8" y="{middle + 11}" fill="#888888" font-size="9">{escape(_short(shape, 44))}</text>')
    bars: list[str] = []
    latest: dict[str, float] = {}
    for number, (label, size, sources) in enumerate(groups):
        left, middle = _LABELS + width * number, _middle(lanes[label])
        at = left + width / 2
        for source in sorted(sources):
            if source in latest and source != label:
                start, bend = latest[source], (latest[source] + at) / 2
                path = f"M{start:.1f} {_middle(lanes[source])}C{bend:.1f} {_middle(lanes[source])} {bend:.1f} {middle} {at:.1f} {middle}"
                lines.append(f'<path d="{path}" fill="none" stroke="#e08214" stroke-opacity="0.35"/>')
        tall = 8 + 26 * math.log2(size + 1) / math.log2(largest + 1)
        bars.append(
            f'<rect x="{left + width * 0.06:.1f}" y="{middle - tall / 2:.1f}" width="{width * 0.88:.1f}" height="{tall:.1f}" rx="1.5" '
            f'fill="#3b6ea5"><title>{escape(label)}: {size} calls</title></rect>'
        )
        if width >= 7 * len(str(size)):
            bars.append(f'<text x="{at:.1f}" y="{middle + 4}" text-anchor="middle" fill="#ffffff">{size}</text>')
        latest[label] = at
    return "\n".join([*lines, *bars, "</svg>"]) + "\n"


def _middle(lane: int) -> int:
    return _TOP + _LANE * lane + _LANE // 2


def _short(text: str, most: int = 36) -> str:
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
