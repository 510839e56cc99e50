"""What a scope did: groups and their sizes, what was run at once and why, what made the waiting calls run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dynograd.autograd.nodes import caller, line_text
from dynograd.transforms.autobatch.pictures import picture

_MANY_TURNS = 200  # of threads, in a scope: worth a word


class Report:
    """What one `autobatch` scope did; `str(report)` is a table; `svg()` and `dot()` are pictures.

    Attributes:
        groups: for each kind of call, the sizes of its groups.
        refused: (op, why, the user's line) of calls that were run at once, with their number.
        flushes: (why, the user's line) of what made waiting calls run, with their number.
        fused: for each kind of call, in how many groups its body was one fused kernel.
        turns_of_threads: how often threads took turns at the examples of `batched`.
    """

    def __init__(self) -> None:
        self.skipped = False  # nothing was recorded: the scopes before at that line gained nothing
        self.ended: str | None = None  # why the rest of the scope was not recorded
        self.order: list[
            tuple[Any, int, set[Any]]
        ] = []  # of each group its form, its size, and where its operands came from
        self.refused: Counter[tuple[str, str, str]] = Counter()
        self.flushes: Counter[tuple[str, str]] = Counter()
        self.fused: Counter[Any] = Counter()
        self.turns_of_threads = 0

    def note_group(self, form: Any, size: int, sources: Any = frozenset()) -> None:
        """A group of `size` calls of `form` has run; its operands came from groups of the forms `sources`."""
        self.order.append((form, size, sources))

    @property
    def groups(self) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for form, size, _ in self.order:
            groups.setdefault(repr(form), []).append(size)
        return groups

    @property
    def links(self) -> Counter[tuple[str, str]]:
        """How many groups of the second kind took operands from the first."""
        return Counter((repr(source), repr(form)) for form, _, sources in self.order for source in sources)

    def note_refused(self, name: str, why: str) -> None:
        """A call of the op `name` was run at once."""
        self.refused[name, why, line_text(caller())] += 1

    def note_flush(self, why: str, buckets: int) -> None:
        self.flushes[why, line_text(caller())] += 1

    @property
    def calls(self) -> int:
        """How many calls were recorded and run."""
        return sum([size for _, size, _ in self.order])

    @property
    def launches(self) -> int:
        """In how many groups."""
        return len(self.order)

    def dot(self) -> str:
        """A picture of the groups in Graphviz's language: `dot -Tsvg` makes an SVG of it."""
        kinds = self.groups
        names = {label: f"g{number}" for number, label in enumerate(kinds)}
        lines = ["digraph autobatch {", '  node [shape=box, fontname="sans-serif"];']
        for label, sizes in kinds.items():
            text = label.replace("\\", "\\\\").replace('"', '\\"')
            groups = "1 group" if len(sizes) == 1 else f"{len(sizes)} groups"
            lines.append(f'  {names[label]} [label="{text}\\n{sum(sizes)} calls in {groups}"];')
        for (source, label), count in self.links.items():
            if source in names:
                lines.append(f'  {names[source]} -> {names[label]} [label="{count}"];')
        return "\n".join([*lines, "}"]) + "\n"

    def svg(self) -> str:
        """A picture of the groups in the order in which they ran, as SVG: a lane for each kind of call, a bar for each group.

        >>> with dynograd.autobatch() as report:
        ...     found = [(tensor([1.0, 2.0]) * k).exp() for k in range(4)]
        >>> report.svg()[:4]
        '<svg'
        """
        return picture([(repr(form), size, [repr(source) for source in sources]) for form, size, sources in self.order])

    def _repr_svg_(self) -> str | None:
        """For notebooks; without groups there is nothing to draw, and they show the text."""
        return self.svg() if self.order else None

    def __str__(self) -> str:
        if self.skipped:
            return "autobatch: not recorded, since too few calls of the scope before at that line had partners to gain anything (always=True records)"
        calls, launches = self.calls, self.launches
        lines = [
            f"autobatch: {calls} calls in {launches} groups" + (f" ({calls / launches:.1f} each)" if launches else "")
        ]
        fused = {repr(form) for form in self.fused}
        for label, sizes in sorted(self.groups.items(), key=lambda entry: -sum(entry[1])):
            mark = "  (fused)" if label in fused else ""
            lines.append(f"  {sum(sizes):>8} calls  {len(sizes):>5} groups  largest {max(sizes):>6}  {label}{mark}")
        if self.ended is not None:
            lines.append(
                f"recording ended within the scope: {self.ended} (always=True records all; dynograd.batched waits for other examples)"
            )
        if self.refused:
            lines.append("run at once:")
            for (name, why, line), count in self.refused.most_common():
                lines.append(f"  {count:>8} {name}: {why} ({line})")
        if self.flushes:
            lines.append("made waiting calls run:")
            for (why, line), count in self.flushes.most_common():
                lines.append(f"  {count:>8} {why} ({line})")
        if self.turns_of_threads >= _MANY_TURNS:
            lines.append(
                f"threads took {self.turns_of_threads} turns, of 5 to 80 us each; with `pip install dynograd[greenlet]` a turn takes 1.5 us"
            )
        return "\n".join(lines)

    __repr__ = __str__
