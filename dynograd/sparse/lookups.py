"""Rows of a table picked by index, with a sparse gradient: only the rows that were picked have entries in it.

What `embedding(sparse=True)` records. The node hands its leaf a `SparseTensor` where other nodes hand arrays: it never goes further
down the graph, because a table that was itself computed gets a dense gradient.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES, show
from dynograd.autograd.nodes import FREED, Node, next_seq
from dynograd.interpreter import with_history
from dynograd.kernels import kernel
from dynograd.ops.index.embeddings import lookup
from dynograd.ops.index.indexing import get_advanced
from dynograd.sparse.tensor import SparseTensor, of_coordinates
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["sparse_lookup"]


def sparse_lookup(weight: Any, indices: Any, padding_idx: int | None, by_frequency: bool) -> Tensor:
    """`weight[indices]`; the gradient of a leaf `weight` has an entry for each index but `padding_idx`.

    Whatever is no leaf of the tape (a table that was computed, another interpreter's tensor) is looked up as usual.
    """
    index = getattr(indices, "array", indices)
    recorded = _is_plain(weight) and MODES.grad and weight.requires_grad and weight.node is None
    if not recorded or not (indices is index or _is_plain(indices)):
        return lookup(weight, indices, padding_idx, by_frequency)
    node = SparseLookup()
    node.hooks, node.attrs, node.seq = None, (padding_idx, by_frequency), next_seq()
    node.edges, node.indices, node.shape = (weight,), index, tuple(weight.shape)
    if MODES.grad > 1:
        show(node)
    return with_history(kernel("embeddings", "embedding_forward", weight.array)(weight.array, index), node)


def _is_plain(value: Any) -> bool:
    return isinstance(value, Tensor) and not hasattr(type(value), "__dynograd_op__")


class SparseLookup(Node):
    __slots__ = ("indices", "shape")
    saved_names = ("indices",)
    indices: Any
    shape: tuple[int, ...]

    def apply(self, g: Any) -> Any:
        return (self.gradient(wrap(g)),)

    def apply_graph(self, g: Any) -> Any:
        return (self.gradient(g),)

    def gradient(self, g: Tensor) -> SparseTensor:
        """The rows of `g` at the rows of the table that they came from; rows of the padding are left out."""
        padding_idx, by_frequency = self.attrs
        index, rows = self.indices, self.shape[0]
        if by_frequency:
            g = g * wrap(kernel("bags", "inverse_frequencies", index)(index, rows, g.array.dtype))
        entries = g.reshape(index.size, self.shape[1])
        index = index.reshape((-1,))
        if padding_idx is None:
            index = arrays.copy(index)  # the program may write the next batch into its memory
        else:
            kept = kernel("bags", "kept_places", index)(index, padding_idx)
            entries, index = get_advanced(entries, [kept], (0,)), index[kept]
        return of_coordinates(wrap(index.reshape((1, -1))), entries, self.shape)

    def release(self) -> None:
        self.indices = None
        self.attrs = FREED

    def op_name(self) -> str:
        return "embedding"

    def name(self) -> str:
        return "EmbeddingBackward0"
