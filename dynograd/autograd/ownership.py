"""Whether the backward pass alone holds an array, so that it may become `.grad` without a copy, or a sum be written into it.

Asked of the reference count, which is calibrated once by real backward passes over a leaf that only counts.
"""

from __future__ import annotations

import sys
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd import engine
from dynograd.autograd.engine import run_backward
from dynograd.autograd.nodes import Node
from dynograd.base import dtypes

__all__ = ["is_private"]


class _Probe:
    """A leaf that only counts references, to learn what an array that nobody else holds looks like to `accumulate_grad`."""

    seq = 0
    edges = ()

    def adds_directly(self, part: Any) -> bool:
        return False

    def accumulate_grad(self, g: Any) -> None:
        global _unshared
        _unshared = sys.getrefcount(g)


class _ProbeNode(Node):
    __slots__ = ()

    def apply(self, g: Any) -> tuple[Array, ...]:
        return tuple([g + 1 for _ in self.edges])


_unshared = 0


def is_private(g: Any) -> bool:
    """Whether the engine alone holds the array `g`, so that it may become `.grad` without a copy."""
    # one more reference than the probe saw: this function's own parameter
    return type(g) in arrays.array_types and arrays.owns_memory(g) and sys.getrefcount(g) <= _unshared + _EXTRA


_EXTRA = 1


def _calibrate() -> None:
    probe, start = _Probe(), arrays.full((1,), 1.0, dtypes.float32)
    run_backward([(_node(1, probe), start)])
    real, engine._sum = engine._sum, _count_sum
    try:
        run_backward([(_node(3, _node(2, probe), _node(1, probe)), start)])
    finally:
        engine._sum = real


def _count_sum(total: Any, part: Any) -> Array:
    engine._private[0] = sys.getrefcount(total)
    return total


def _node(seq: int, *edges: Any) -> Node:
    node = _ProbeNode()
    node.edges, node.seq, node.hooks, node.attrs = edges, seq, None, None
    return node


_calibrate()
