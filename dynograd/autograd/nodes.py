"""A node is one recorded op: what it saved, the edges to what it was computed from, and its place in time (`seq`).

An edge is None (no gradient wanted), a node, or a leaf tensor. Nodes hold arrays, never the tensors they came from, so a graph
has no reference cycles and is freed with the last tensor that needs it.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from types import FrameType
from typing import Any

__all__ = ["FREED", "Hooks", "Node", "OutputNode", "Partial", "next_seq"]

next_seq = itertools.count(1).__next__
FREED = ("freed",)
traces: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class _Asked(threading.local):
    """The edges that the running pass is to send gradients along; None: all there are."""

    edges: Any = None


asked = _Asked()
_metadata: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


class Hooks:
    """Functions run on a node: `before` on the gradient of its output, `after` on (gradients of its inputs, of its output).

    `last` is run when all of `before` have been, on what they have made of the gradient: `retain_grad`. `prehooks` are the node's own and
    come behind both, where its rule runs. A leaf has those of its tensor in `before`, and in `prehooks` and `after` those of AccumulateGrad.
    """

    __slots__ = ("after", "before", "last", "prehooks")

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.last: dict[int, Any] = {}
        self.prehooks: dict[int, Any] = {}
        self.after: dict[int, Any] = {}


class Node:
    """A step of the recorded computation, as `tensor.grad_fn` shows it: its classes are named after their ops.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> y = x.exp().sum()
    >>> y.grad_fn.name(), y.grad_fn.next_functions[0][0].name()
    ('SumBackward0', 'ExpBackward0')
    """

    __slots__ = ("__weakref__", "attrs", "edges", "hooks", "seq")
    saved_names: tuple[str, ...] = ()
    op: Any = None
    asked = asked

    edges: tuple[Any, ...]
    seq: int
    hooks: Hooks | None
    attrs: Any

    def __init_subclass__(cls) -> None:
        if "apply" in vars(cls):
            cls.rule = None

    def apply(self, g: Any) -> Any:
        """Gradients of the inputs, as arrays, from the gradient `g` of the output.

        Args:
            g: an array, or `Partial` for several outputs.
        Returns:
            A tuple with an array or None for each input.
        """
        raise NotImplementedError

    def apply_graph(self, g: Any) -> Any:
        """The same on tensors, recording the tape.

        Args:
            g: a tensor.
        Returns:
            A tuple with a tensor or None for each input.
        """
        raise NotImplementedError

    rule: Any = None
    """What `apply` calls as `rule(g, node, *attrs)`, if it does no more than that; a class with another `apply` has none."""
    drops: tuple[str, ...] = ()
    """The names of what was saved and is dropped after the first backward, so that a second one through here is an error."""
    release: Any = None
    """A method that drops it, for nodes that do more than that."""

    def edge_of_output(self, output: Node) -> Node:
        """Where all of an output's gradient arrives: at its node, unless the outputs are computed from one another.

        Args:
            output: the node of one of this node's outputs.
        Returns:
            A node.
        """
        return output

    def needs(self, position: int) -> bool:
        """Whether the array argument at `position` needs a gradient in the running pass.

        Args:
            position: from 0.
        Returns:
            True or False.
        """
        edge = self.edges[position]
        return edge is not None and (asked.edges is None or edge in asked.edges)

    def name(self) -> str:
        """The name of the node's class, as PyTorch has it.

        Returns:
            A string such as "ExpBackward0".
        """
        return type(self).__name__

    def name_of_output(self, number: int) -> str:
        """The name that one of its outputs has as a node.

        Args:
            number: of the output.
        Returns:
            A string such as "UnbindBackward0".
        """
        return self.name()

    def op_name(self) -> str:
        """The op's own name, for messages."""
        return self.op.name if self.op is not None else type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes this one sends gradients to, as PyTorch shows them: (node, output number)."""
        return tuple(_as_function(edge) for edge in self.edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of the user's own; anomaly mode has put the user's line in it, as `traceback`."""
        entries = _metadata.get(self)
        if entries is None:
            entries = _metadata[self] = {"traceback": traces.get(self)}
        return entries

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class AccumulateGrad:
    """How a leaf appears in `next_functions`; `variable` is the leaf. Two of the same leaf are equal."""

    __slots__ = ("__weakref__", "variable")
    next_functions = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash((AccumulateGrad, id(self.variable)))

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _as_function(edge: Any) -> tuple[Any, int]:
    if isinstance(edge, OutputNode):
        return inspected(edge.edges[0]), edge.attrs
    if edge is None:
        return None, 0
    return inspected(edge) if isinstance(edge, Node) else AccumulateGrad(edge), 0


# Called with each class of nodes when a user first looks at a node of it.
inspectors: list[Any] = []


def inspected(node: Any) -> Any:
    """`node`, ready to be shown to a user."""
    cls = type(node)
    if "inspected" not in cls.__dict__:
        cls.inspected = True
        for inspector in inspectors:
            inspector(cls)
    return node


class Partial:
    """Gradients of some outputs of a multi-output op, by output number; `+` merges."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: Partial) -> Partial:
        parts = self.parts  # merged in place: the engine alone holds the sum, and a copy each time would be quadratic
        for number, g in other.parts.items():
            parts[number] = parts[number] + g if number in parts else g
        return self


class OutputNode(Node):
    """One output of a multi-output op: hands its gradient to the op's node under its number (`attrs`)."""

    __slots__ = ()

    def __init__(self, parent: Node, number: int) -> None:
        self.edges, self.attrs, self.seq, self.hooks = (parent,), number, next_seq(), None

    def apply(self, g: Any) -> tuple[Partial]:
        return (Partial({self.attrs: g}),)

    apply_graph = apply

    def name(self) -> str:
        return self.edges[0].name_of_output(self.attrs)

    def op_name(self) -> str:
        return self.edges[0].op_name()

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return self.edges[0].next_functions


def caller(level: int = 2) -> tuple[Any, int] | None:
    """(code, place in it) of the nearest caller outside dynograd, `level` frames up or further; `line_text` puts it in words."""
    return place_of(frame_at(level + 1))


def frame_at(level: int) -> FrameType:
    """The frame `level` frames up from here.

    Raises:
        ValueError: there are not as many.
    """
    return sys._getframe(level)


def place_of(frame: Any) -> tuple[Any, int] | None:
    """The same from `frame` on upwards. The line is worked out when it is asked for, which takes a microsecond."""
    frame = frame_outside(frame)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def frame_outside(frame: Any) -> FrameType | None:
    """The nearest frame of a caller outside dynograd, from `frame` on upwards."""
    while frame is not None:
        code = frame.f_code
        if code is outside[0]:
            return frame
        name = frame.f_globals.get("__name__") or ""
        if name != "dynograd" and not name.startswith("dynograd."):
            outside[0] = code
            return frame
        frame = frame.f_back
    return None


outside: list[Any] = [None]  # the code that was last found to be a caller's own


def line_text(place: Any) -> str:
    """`file:line in function` of what `caller` gave (a text stays as it is)."""
    if place is None:
        return "an unknown line"
    if isinstance(place, str):
        return place
    code, reached = place
    lines = [line for start, stop, line in code.co_lines() if start <= reached < stop and line is not None]
    return f"{code.co_filename}:{lines[0] if lines else code.co_firstlineno} in {code.co_name}"


def user_line() -> str:
    """`file:line in function` of the nearest caller outside dynograd."""
    return line_text(caller())


def remember_line(node: Node) -> None:
    """Anomaly mode: keeps the user's line for this node."""
    traces[node] = user_line()
