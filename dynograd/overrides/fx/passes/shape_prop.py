"""ShapeProp: runs a graph and notes the shape and dtype of every value in its nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd.base.dtypes import dtype as DType
from dynograd.overrides.fx.interpreter import Interpreter
from dynograd.overrides.fx.node import Argument, Node, map_aggregate
from dynograd.tensor.tensor import Tensor

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a node notes of a tensor (`node.meta["tensor_meta"]`)."""

    shape: Any
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), None, False, {})


class ShapeProp(Interpreter):
    """Runs the graph and notes what each node gives: `tensor_meta` (TensorMetadata) and `type` in its meta.

    >>> from dynograd.fx.passes.shape_prop import ShapeProp
    >>> traced = dynograd.fx.symbolic_trace(lambda x: x @ x.T)
    >>> out = ShapeProp(traced).propagate(dynograd.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (3, 2), (2, 2), (2, 2)]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp: fake_mode must be None; give inputs on device='meta' to compute shapes alone."
            )

    def run_node(self, n: Node) -> Argument:
        result = super().run_node(n)
        met = False

        def describe(value: Any) -> Argument:
            nonlocal met
            if isinstance(value, Tensor):
                met = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, describe)
        if met:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Argument:
        """Runs the graph; returns what it gives."""
        return super().run(*args)
