"""What `explain` gives: a sentence, the op it names, and the steps that led there."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from dynograd.debug.names import Names
from dynograd.debug.recording import Call, Value
from dynograd.debug.texts import at, range_of, shape_of

__all__ = ["SUSPECT", "Explanation", "Step", "explanation", "history", "step_of"]

SUSPECT = "suspect"
"""The problem of what gives numbers, and is likely a mistake all the same."""
_LINE, _PAD, _LETTER = 16, 8, 6.7  # pixels


@dataclass
class Step:
    """A line of an explanation.

    Attributes:
        text: what was called, where, in which module; or the name of a tensor.
        values: shape and values of what it gave, in words.
        depth: how far it lies behind what is explained.
        bad: whether the reason lies here.
    """

    text: str
    values: str
    depth: int
    bad: bool = False

    def __str__(self) -> str:
        values = f": {self.values}" if self.values else ""
        return f"{'  ' * self.depth}{self.text}{values}{'  <--' if self.bad else ''}"


@dataclass
class Explanation:
    """What `explain` has learnt; printed, it is a text, and notebooks show a table.

    Attributes:
        problem: "nan", "inf", "no gradient", "zero gradient", "nan gradient", "inf gradient", "dim"; "suspect" where all
            are numbers, and something is likely a mistake; "" where nothing is wrong.
        reason: what happened, in a sentence or two.
        op, line, module: where that happened; None where it is not known.
        steps: what led there, the explained tensor first.
    """

    problem: str
    reason: str
    op: str | None = None
    line: str | None = None
    module: str | None = None
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([self.reason, *[f"  {step}" for step in self.steps]])

    __repr__ = __str__

    def svg(self) -> str:
        """The steps as boxes, each below what it was given to.

        Returns:
            The text of an SVG picture.
        """
        lines = [
            (self.reason, 0, False),
            *[(f"{step.text}: {step.values}", step.depth, step.bad) for step in self.steps],
        ]
        indent = 2 * _PAD
        width = max(indent * depth + _LETTER * len(text) + 4 * _PAD for text, depth, _ in lines)
        height = _LINE + 2 * _PAD
        parts = []
        for row, (text, depth, bad) in enumerate(lines):
            left, top = _PAD + indent * depth, row * (height + _PAD) + _PAD
            colour = "#fdd" if bad else ("#eef" if row == 0 else "#fff")
            parts.append(
                f'<rect x="{left}" y="{top}" width="{_LETTER * len(text) + 2 * _PAD:.0f}" height="{height}" rx="3" '
                f'fill="{colour}" stroke="#666"/><text x="{left + _PAD}" y="{top + _PAD + 12}">{escape(text)}</text>'
            )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{len(lines) * (height + _PAD) + _PAD}" '
            f'font-family="monospace" font-size="11">{"".join(parts)}</svg>'
        )

    def _repr_html_(self) -> str:
        marked = {True: ' style="background:#fdd"', False: ""}
        rows = [
            f'<tr{marked[step.bad]}><td style="padding-left:{step.depth}em;text-align:left">'
            f'{escape(step.text)}</td><td style="text-align:left">{escape(step.values)}</td></tr>'
            for step in self.steps
        ]
        return f"<p>{escape(self.reason)}</p><table>{''.join(rows)}</table>"


def explanation(problem: str, reason: str, call: Call | None, steps: list[Step]) -> Explanation:
    """One that names `call`."""
    if call is None:
        return Explanation(problem, reason, steps=steps)
    return Explanation(problem, reason, call.op, call.line, call.path or None, steps)


def step_of(value: Value, names: Names, depth: int, bad: bool = False) -> Step:
    """The line for a value: its op, or its name."""
    name = names.of_value(value)
    text = name if value.call is None else at(value.call)
    if name and value.call is not None:
        text = f"{name} = {text}"
    return Step(text, f"{shape_of(value)} {range_of(value)}", depth, bad)


def history(value: Value, names: Names, depth: int) -> list[Step]:
    """The value, what it was made of, and so on, `depth` ops back; what was shown above is not opened again."""
    steps: list[Step] = []
    shown: set[int] = set()
    waiting = [(value, 0)]
    while waiting:
        value, level = waiting.pop()
        steps.append(step_of(value, names, level, not value.is_finite()))
        if value.call is None or level == depth:
            continue
        if value.time in shown:
            steps[-1].values += " (see above)"
            continue
        shown.add(value.time)
        waiting += [(operand, level + 1) for _, operand in reversed(value.call.operands)]
    return steps
