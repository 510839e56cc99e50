"""PassBase: a pass over a graph, with checks before and behind."""

from __future__ import annotations

from typing import NamedTuple

from dynograd.overrides.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The graph behind a pass, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase:
    """A pass: `call(graph_module)` of a derived class changes it and gives a PassResult, or None."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module: GraphModule) -> PassResult | None:
        raise NotImplementedError(f"{type(self).__name__}: a pass defines call(graph_module).")

    def requires(self, graph_module: GraphModule) -> None:
        """What must hold before; raises where it does not."""

    def ensures(self, graph_module: GraphModule) -> None:
        """What must hold behind it; raises where it does not."""
