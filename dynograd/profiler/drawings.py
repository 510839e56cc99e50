"""`dynograd.visualize`: the recorded graph of a loss, as text, as a picture (SVG) and in Graphviz's language.

A box is an op that was recorded; what it read that has no history (parameters, inputs that need a gradient) stands in its box, so that
pictures stay small. `GraphPicture` reads the graph once, and holds no tensor.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynograd.autograd.nodes import AccumulateGrad
from dynograd.errors import GradientError

if TYPE_CHECKING:
    from dynograd.nn import Module
    from dynograd.tensor.tensor import Tensor

__all__ = ["GraphNode", "GraphPicture", "visualize"]

_LINE, _PAD, _GAP, _BETWEEN, _LETTER = 14, 7, 22, 34, 6.6  # pixels
_FORMATS = (".svg", ".dot", ".gv", ".txt", ".png", ".pdf")


def visualize(
    loss: Tensor | list[Tensor] | tuple[Tensor, ...], model: Module | None = None, *, most: int = 300
) -> GraphPicture:
    """The graph that was recorded for `loss`: a picture in notebooks, a table as text.

    Args:
        loss: a tensor with a history, of any shape, or several; `backward()` may have run.
        model: gives parameters their names (`encoder.0.weight`), and ops that read them the module they belong to.
        most: ops that are drawn, the nearest to the loss first; the others are counted.
    Returns:
        a `GraphPicture`: `str(picture)`, `picture.svg()`, `picture.dot()`, `picture.save("graph.svg")`. With the Python package `graphviz`
        and its program `dot` (`pip install dynograd[graphviz]`) the layout is Graphviz's, else a simpler one.
    Raises:
        GradientError: `loss` has no history.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 3), dynograd.nn.ReLU(), dynograd.nn.Linear(3, 1))
    >>> print(dynograd.visualize(model(dynograd.ones(4, 2)).sum(), model))
    4 ops, 4 tensors without history
    1  linear  0  <- 0.weight (3, 2), 0.bias (3,)
    2  relu       <- 1
    3  linear  2  <- 2, 2.weight (1, 3), 2.bias (1,)
    4  sum        <- 3
    """
    results = list(loss) if isinstance(loss, (list, tuple)) else [loss]
    roots = []
    for result in results:
        node = getattr(result, "grad_fn", None)
        if node is None:
            what = (
                f"a tensor of shape {tuple(result.shape)}" if hasattr(result, "shape") else f"{type(result).__name__}"
            )
            raise GradientError(
                f"visualize: expected a tensor with a history, got {what} without. Pass what was computed from parameters, outside of "
                f"no_grad() and before detach()."
            )
        roots.append(node)
    if not roots:
        raise GradientError("visualize: expected a tensor with a history, got an empty list. Pass the loss.")
    return GraphPicture(roots, {} if model is None else _names(model), most)


def _names(model: Any) -> dict[int, str]:
    """id of a tensor of the model -> its name."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {id(tensor): name for name, tensor in reversed(tensors)}


@dataclass
class GraphNode:
    """An op of a recorded graph.

    Attributes:
        number: from 1, in the order in which the ops ran.
        op: its name.
        module: the module whose parameters it reads; "" where that is unknown or the model itself.
        leaves: what it reads that has no history, as texts.
        inputs: the numbers of the ops whose results it reads; None for ops that are not drawn.
    """

    number: int
    op: str
    module: str = ""
    leaves: list[str] = field(default_factory=list)
    inputs: list[int | None] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """What stands in its box: names in the module without the module's."""
        start = f"{self.module}."
        leaves = [leaf.removeprefix(start) if self.module else leaf for leaf in self.leaves]
        return [self.op, *([self.module] if self.module else []), *leaves]


class GraphPicture:
    """What `visualize` returns.

    Attributes:
        nodes: a `GraphNode` for each op that is drawn, in the order in which they ran.
        leaves: how many tensors without history they read.
        left_out: how many ops are not drawn.
    """

    def __init__(self, roots: list[Any], names: dict[int, str], most: int) -> None:
        ops, seen, waiting = [], set(), list(roots)
        while waiting:  # breadth first: the nearest to the loss
            following = []
            for node in waiting:
                if node is None or isinstance(node, AccumulateGrad) or id(node) in seen:
                    continue
                seen.add(id(node))
                ops.append(node)
                following += [source for source, _ in node.next_functions]
            waiting = following
        self.left_out = max(0, len(ops) - most)
        ops = sorted(ops[:most], key=lambda node: node.seq)
        numbers = {id(node): number for number, node in enumerate(ops, 1)}
        leaves: dict[int, str] = {}
        self.nodes = [_read(node, numbers, names, leaves) for node in ops]
        self.leaves = len(leaves)

    def __str__(self) -> str:
        widths = [
            max([len(text) for text in column], default=0)
            for column in zip(*[self._columns(node) for node in self.nodes])
        ]
        ops = len(self.nodes) + self.left_out
        lines = [f"{ops:,} op{'s' * (ops != 1)}, {self.leaves:,} tensor{'s' * (self.leaves != 1)} without history"]
        if self.left_out:
            lines.append(f"the {self.left_out:,} farthest from the loss are left out")
        for node in self.nodes:
            number, op, module = [text.ljust(width) for text, width in zip(self._columns(node), widths)]
            read = ["..." if source is None else str(source) for source in node.inputs] + node.leaves
            middle = f"  {module}" if widths[2] else ""
            lines.append(f"{number}  {op}{middle}  <- {', '.join(read)}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<GraphPicture of {len(self.nodes) + self.left_out} ops>"

    @staticmethod
    def _columns(node: GraphNode) -> tuple[str, str, str]:
        return str(node.number), node.op, node.module

    def dot(self) -> str:
        """The graph in Graphviz's language; ops of one module stand in a frame.

        >>> x = dynograd.ones(2, requires_grad=True)
        >>> print(dynograd.visualize((x * x).sum()).dot())
        digraph graph_of_loss {
          node [shape=box, style="rounded,filled", fillcolor="#eef3f8", fontname="sans-serif", fontsize=10];
          n1 [label="mul\\ntensor (2,)\\ntensor (2,)"];
          n2 [label="sum"];
          n1 -> n2;
        }
        <BLANKLINE>
        """
        lines = [
            "digraph graph_of_loss {",
            '  node [shape=box, style="rounded,filled", fillcolor="#eef3f8", fontname="sans-serif", fontsize=10];',
        ]
        for module in dict.fromkeys([node.module for node in self.nodes]):
            inside = [node for node in self.nodes if node.module == module]
            indent = "  "
            if module:
                lines.append(f'  subgraph "cluster_{_quoted(module)}" {{')
                lines.append(f'    label="{_quoted(module)}"; color="#999999"; fontname="sans-serif"; fontsize=10;')
                indent = "    "
            for node in inside:
                label = "\\n".join([_quoted(line) for line in node.lines if line != module])
                lines.append(f'{indent}n{node.number} [label="{label}"];')
            if module:
                lines.append("  }")
        for node in self.nodes:
            lines.extend([f"  n{source} -> n{node.number};" for source in node.inputs if source is not None])
        return "\n".join([*lines, "}"]) + "\n"

    def svg(self) -> str:
        """The picture: Graphviz's layout where `graphviz` and `dot` are installed, else ops in rows, each below those it reads.

        >>> x = dynograd.ones(2, requires_grad=True)
        >>> dynograd.visualize((x * x).sum()).svg()[:4]
        '<svg'
        """
        if has_graphviz():
            text = _by_graphviz(self.dot(), "svg").decode("utf-8")
            return text[text.index("<svg") :]
        return _plain_svg(self.nodes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture; the name's end says how: .svg, .dot or .gv, .txt, and with Graphviz .png and .pdf.

        Raises:
            ValueError: another ending, or one that needs Graphviz where it is not installed.
        """
        place = Path(path)
        ending = place.suffix.lower()
        if ending not in _FORMATS:
            raise ValueError(f"save: expected a name that ends in {', '.join(_FORMATS)}, got {place.name!r}.")
        if ending in (".png", ".pdf"):
            if not has_graphviz():
                raise ValueError(
                    f"save: {ending} needs Graphviz: the program `dot` and `pip install dynograd[graphviz]`. Save {place.stem}.svg, "
                    f"which needs neither."
                )
            place.write_bytes(_by_graphviz(self.dot(), ending[1:]))
            return
        texts = {".svg": self.svg, ".dot": self.dot, ".gv": self.dot, ".txt": self.__str__}
        place.write_text(texts[ending](), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg()


def _read(node: Any, numbers: dict[int, int], names: dict[int, str], leaves: dict[int, str]) -> GraphNode:
    read = GraphNode(numbers[id(node)], node.op_name())
    modules = []
    for source, _ in node.next_functions:
        if source is None:
            continue
        if isinstance(source, AccumulateGrad):
            variable = source.variable
            name = names.get(id(variable), "")
            if name:
                modules.append(name.rpartition(".")[0])
            leaves[id(variable)] = f"{name or 'tensor'} {tuple(variable.shape)}"
            read.leaves.append(leaves[id(variable)])
        else:
            read.inputs.append(numbers.get(id(source)))
    read.module = _around(modules)
    return read


def _around(modules: list[str]) -> str:
    """The innermost module that all of them are, or lie in."""
    common: list[str] = []
    for steps in zip(*[module.split(".") for module in modules]):
        if len(set(steps)) > 1:
            break
        common.append(steps[0])
    return ".".join(common)


def has_graphviz() -> bool:
    """Whether Graphviz can be used: its Python package and its program `dot` are there."""
    return shutil.which("dot") is not None and importlib.util.find_spec("graphviz") is not None


def _by_graphviz(text: str, format: str) -> bytes:
    graphviz = importlib.import_module("graphviz")
    return graphviz.Source(text).pipe(format=format)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# --- a layout without Graphviz -----------------------------------------------------------------------------------------------


def _plain_svg(nodes: list[GraphNode]) -> str:
    """Boxes in rows: each below all that it reads, in the middle of them where there is room."""
    rows: list[list[GraphNode]] = []
    row_of: dict[int, int] = {}
    for node in nodes:  # sources come first
        row = 1 + max([row_of[source] for source in node.inputs if source is not None], default=-1)
        row_of[node.number] = row
        rows.extend([[] for _ in range(row + 1 - len(rows))])
        rows[row].append(node)
    wide = {node.number: 2 * _PAD + _LETTER * max([len(line) for line in node.lines]) for node in nodes}
    tall = {node.number: 2 * _PAD + _LINE * len(node.lines) for node in nodes}
    widths = [sum([wide[node.number] + _GAP for node in row]) + _GAP for row in rows]
    full = max(widths, default=0)
    middles: dict[int, float] = {}
    tops: dict[int, float] = {}
    top: float = _GAP
    for members, width in zip(rows, widths):
        members.sort(key=lambda node: _wish(node, middles, full))
        left = (full - width) / 2 + _GAP
        for node in members:
            middles[node.number], tops[node.number] = left + wide[node.number] / 2, top
            left += wide[node.number] + _GAP
        top += max([tall[node.number] for node in members]) + _BETWEEN
    high = top - _BETWEEN + _GAP
    right = [max([middles[node.number] + wide[node.number] / 2 for node in row]) for row in rows]
    wires, farthest = [], full
    for node in nodes:
        for source in node.inputs:
            if source is None:
                continue
            start, end, x, y = tops[source] + tall[source], tops[node.number], middles[source], middles[node.number]
            passed = right[row_of[source] + 1 : row_of[node.number]]
            if passed:  # around the boxes between
                around = max(passed) + _GAP / 2
                bend = (8 * around - x - y) / 6
                farthest = max(farthest, around + _GAP)
                wires.append(f"M{x:.1f} {start:.1f}C{bend:.1f} {start:.1f} {bend:.1f} {end:.1f} {y:.1f} {end:.1f}")
            else:
                middle = (start + end) / 2
                wires.append(f"M{x:.1f} {start:.1f}C{x:.1f} {middle:.1f} {y:.1f} {middle:.1f} {y:.1f} {end:.1f}")
    full = farthest
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{full:.0f}" height="{high:.0f}" viewBox="0 0 {full:.0f} {high:.0f}" '
        'font-family="sans-serif" font-size="11" role="img" aria-label="graph of ops">'
    ]
    lines += [f'<path d="{wire}" fill="none" stroke="#888888"/>' for wire in wires]
    for node in nodes:
        x, y, width = middles[node.number] - wide[node.number] / 2, tops[node.number], wide[node.number]
        lines.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{tall[node.number]}" rx="4" fill="#eef3f8" stroke="#3b6ea5"/>'
        )
        for place, line in enumerate(node.lines):
            look = 'fill="#111111" font-weight="bold"' if place == 0 else 'fill="#444444" font-size="10"'
            if place == 1 and node.module:
                look = 'fill="#a04000" font-size="10"'
            lines.append(
                f'<text x="{middles[node.number]:.1f}" y="{y + _PAD + _LINE * (place + 0.75):.1f}" text-anchor="middle" {look}>'
                f"{escape(line)}</text>"
            )
    return "".join([*lines, "</svg>"])


def _wish(node: GraphNode, middles: dict[int, float], full: float) -> float:
    """Where its middle would best be: that of what it reads."""
    read = [middles[source] for source in node.inputs if source is not None]
    return sum(read) / len(read) if read else full / 2
