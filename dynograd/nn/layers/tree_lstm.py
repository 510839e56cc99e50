"""Tree-LSTMs: cells that compose the states of a tree's children, and a module that runs them over a forest.

The equations are those of Tai, Socher and Manning, "Improved Semantic Representations From Tree-Structured Long Short-Term Memory
Networks" (ACL 2015): the child-sum cell for any number of children (3.1), the binary one for constituency trees (3.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.interpreter.recorded_methods import recorded_whole
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["BinaryTreeLSTMCell", "ChildSumTreeLSTMCell", "TreeLSTM"]

State = tuple[Tensor, Tensor]  # (h, c)
_ops = public_functions()


class _TreeLSTMCell(Module):
    """What both cells share: sizes, weights of `gates` blocks, their initial values."""

    def __init__(self, input_size: int, hidden_size: int, weights: dict[str, tuple[int, ...]], place: dict) -> None:
        super().__init__()
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        for name, shape in weights.items():
            self.register_parameter(name, Parameter(creation.empty(shape, **place)) if 0 not in shape else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, uniform within 1 / sqrt(hidden_size), for all weights and biases.

        >>> cell = dynograd.nn.BinaryTreeLSTMCell(3, 4)
        >>> cell.reset_parameters()
        >>> bool(cell.bias.abs().max() <= 0.5)
        True
        """
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check(self, input: Any, states: Any) -> None:
        who = type(self).__name__
        if input is not None and (not input.ndim or input.shape[-1] != self.input_size):
            raise ShapeError(
                f"{who}: expected input of {self.input_size} features, got shape {tuple(input.shape)}. Build "
                f"{who}({input.shape[-1] if input.ndim else 1}, {self.hidden_size}), or pass None where a node has no input."
            )
        for state in states:
            if not isinstance(state, (tuple, list)) or len(state) != 2:
                raise ShapeError(
                    f"{who}: expected each child to be a pair (h, c), got {type(state).__name__}. Pass what the cell "
                    f"gave for the child."
                )
            for part in state:
                if not part.ndim or part.shape[-1] != self.hidden_size:
                    raise ShapeError(
                        f"{who}: expected states of {self.hidden_size} features, got shape {tuple(part.shape)}. The children's cell "
                        f"must have the same hidden_size."
                    )

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class BinaryTreeLSTMCell(_TreeLSTMCell):
    """One node of a binary tree: (h, c) from its input and the states of its two children.

    Leaves have an input and no children, inner nodes children and, where the tree has one, an input. With the gates
    i, f_l, f_r, o, u as affine maps of the input and of both children's h (sigmoids, and tanh for u):
    c = i * u + f_l * c_l + f_r * c_r and h = o * tanh(c).

    Args:
        input_size: features of the inputs; 0 when no node has one.
        hidden_size: features of h and c.
        device, dtype: of the parameters.
    Shape: input (*, input_size) or None; left and right pairs of (*, hidden_size), or None; gives a pair of (*, hidden_size).
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative; in a call, one child, or neither input nor children.
    Source: Tai, Socher and Manning, Improved semantic representations from tree-structured long short-term memory networks, 2015
        (arXiv:1503.00075), section 3.2.

    >>> cell = dynograd.nn.BinaryTreeLSTMCell(3, 5)
    >>> leaf = cell(dynograd.ones(3))
    >>> h, c = cell(None, leaf, leaf)
    >>> h.shape
    dynograd.Size([5])
    """

    def __init__(self, input_size: int, hidden_size: int, device: DeviceLike = None, dtype: DtypeLike = None) -> None:
        rows = 5 * hidden_size
        weights = {"weight_ih": (rows, input_size), "weight_hh": (rows, 2 * hidden_size), "bias": (rows,)}
        super().__init__(input_size, hidden_size, weights, dict(device=device, dtype=dtype))

    @recorded_whole
    def forward(
        self, input: Tensor | None = None, left: State | None = None, right: State | None = None
    ) -> tuple[Tensor, Tensor]:
        if (left is None) != (right is None):
            raise ShapeError(
                "BinaryTreeLSTMCell: expected two children or none, got one. Give a missing child the state (zeros, zeros)."
            )
        if input is None and left is None:
            raise ShapeError("BinaryTreeLSTMCell: expected an input, two children, or both, got neither.")
        self._check(input, () if left is None else (left, right))
        if left is None or right is None:
            assert input is not None
            width = self.hidden_size
            gates = F.linear(input, self.weight_ih, self.bias)
            i, _, o, u = gates.split([width, 2 * width, width, width], -1)
            c = i.sigmoid() * u.tanh()
            return o.sigmoid() * c.tanh(), c
        (h_left, c_left), (h_right, c_right) = left, right
        gates = F.linear(_ops["cat"]([h_left, h_right], -1), self.weight_hh, self.bias)
        if input is not None:
            gates = gates + F.linear(input, self.weight_ih)
        i, f_left, f_right, o, u = gates.chunk(5, -1)
        c = i.sigmoid() * u.tanh() + f_left.sigmoid() * c_left + f_right.sigmoid() * c_right
        return o.sigmoid() * c.tanh(), c


class ChildSumTreeLSTMCell(_TreeLSTMCell):
    """One node of a tree with any number of children: (h, c) from its input and their states.

    With s the sum of the children's h: i, o (sigmoids) and u (tanh) are affine maps of the input and s, and each child has a gate
    f_k, the sigmoid of an affine map of the input and its own h. c = i * u + sum of f_k * c_k and h = o * tanh(c).

    Args:
        input_size: features of the inputs.
        hidden_size: features of h and c.
        device, dtype: of the parameters.
    Shape: input (*, input_size); children a list or tuple of pairs of (*, hidden_size); gives a pair of (*, hidden_size).
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative; in a call, no input.
    Source: Tai, Socher and Manning, Improved semantic representations from tree-structured long short-term memory networks, 2015
        (arXiv:1503.00075), section 3.1.

    >>> cell = dynograd.nn.ChildSumTreeLSTMCell(3, 5)
    >>> leaf = cell(dynograd.ones(3))
    >>> h, c = cell(dynograd.ones(3), [leaf, leaf, leaf])
    >>> h.shape
    dynograd.Size([5])
    """

    def __init__(self, input_size: int, hidden_size: int, device: DeviceLike = None, dtype: DtypeLike = None) -> None:
        weights = {
            "weight_ih": (4 * hidden_size, input_size),
            "weight_hh": (3 * hidden_size, hidden_size),
            "weight_fh": (hidden_size, hidden_size),
            "bias": (4 * hidden_size,),
        }
        super().__init__(input_size, hidden_size, weights, dict(device=device, dtype=dtype))

    @recorded_whole
    def forward(self, input: Tensor, children: Sequence[State] = ()) -> tuple[Tensor, Tensor]:
        if input is None:
            raise ShapeError(
                "ChildSumTreeLSTMCell: expected an input for every node, got None. Pass zeros for a node without one."
            )
        self._check(input, children)
        i, o, u, f = F.linear(input, self.weight_ih, self.bias).chunk(4, -1)
        if not children:
            c = i.sigmoid() * u.tanh()
            return o.sigmoid() * c.tanh(), c
        total = children[0][0]
        for h, _ in children[1:]:
            total = total + h
        from_i, from_o, from_u = F.linear(total, self.weight_hh).chunk(3, -1)
        c = (i + from_i).sigmoid() * (u + from_u).tanh()
        for h, kept in children:
            c = c + (f + F.linear(h, self.weight_fh)).sigmoid() * kept
        return (o + from_o).sigmoid() * c.tanh(), c


class TreeLSTM(Module):
    """A Tree-LSTM over a forest, all trees at once: nodes that are alike run as one group.

    Args:
        input_size: features of the inputs.
        hidden_size: features of h and c.
        kind: "binary": a tree is a tensor (a leaf's input) or a pair (left, right) of trees; "child_sum": a tree is a pair
            (input, children) with a list of trees.
        device, dtype: of the parameters.
    Shape: a list of trees with inputs (input_size,); gives (h, c), each (trees, hidden_size): the states of the roots.
    Raises:
        ValueError: another kind.
        ShapeError: in a call: a node that is no tree of this kind.
    Source: Tai, Socher and Manning, Improved semantic representations from tree-structured long short-term memory networks, 2015
        (arXiv:1503.00075).

    >>> forest = dynograd.nn.TreeLSTM(3, 5)
    >>> word = dynograd.ones(3)
    >>> h, c = forest([word, (word, word), ((word, word), word)])
    >>> h.shape
    dynograd.Size([3, 5])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        kind: str = "binary",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        if kind not in ("binary", "child_sum"):
            raise ValueError(f"TreeLSTM: expected kind to be 'binary' or 'child_sum', got {kind!r}.")
        self.kind = kind
        cell_class = BinaryTreeLSTMCell if kind == "binary" else ChildSumTreeLSTMCell
        self.cell = cell_class(input_size, hidden_size, device=device, dtype=dtype)

    def forward(self, trees: Sequence[object]) -> tuple[Tensor, Tensor]:
        if not trees:
            empty = creation.zeros(0, self.cell.hidden_size, dtype=self.cell.bias.dtype, device=self.cell.bias.device)
            return empty, empty.clone()
        autobatch = import_module("dynograd.transforms.autobatch").autobatch
        with autobatch():
            states = [self._state(tree) for tree in trees]
            return _ops["stack"]([h for h, _ in states]), _ops["stack"]([c for _, c in states])

    def _state(self, tree: Any) -> tuple[Tensor, ...]:
        """The state of a tree's root. Trees may be deep, so without recursion."""
        cell: Any = self.cell  # of either kind
        done: list[Any] = []  # states of subtrees that wait for their parent
        agenda: list[tuple[Any, int]] = [(tree, -1)]  # (tree, its number of children once they are done)
        while agenda:
            node, count = agenda.pop()
            if count >= 0:
                children = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(cell(None, *children) if self.kind == "binary" else cell(node[0], children))
            elif self.kind == "binary" and not isinstance(node, (tuple, list)):
                done.append(self.cell(node))
            else:
                if len(node) != 2:
                    expected = (
                        "a tensor or a pair (left, right)" if self.kind == "binary" else "a pair (input, children)"
                    )
                    raise ShapeError(
                        f"TreeLSTM: expected a tree to be {expected}, got {type(node).__name__} of {len(node)}."
                    )
                children = node if self.kind == "binary" else node[1]
                agenda.append((node, len(children)))
                agenda += [(child, -1) for child in reversed(children)]
        return done[0]

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}"
