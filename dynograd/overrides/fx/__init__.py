"""Programs as graphs (`torch.fx`): a trace writes down what a module calls, and the graph can be read, changed and run.

`symbolic_trace` runs a program once with proxies in place of its inputs (types with `__torch_function__`, so every public function is
seen). The result is a `GraphModule`: its `graph` is a list of nodes, its `code` the Python text that `forward` is.

The design is that of Reed, DeVito, He, Ussery and Ansel, "torch.fx: Practical Program Capture and Transformation for Deep Learning in
Python" (2021).

>>> traced = dynograd.fx.symbolic_trace(dynograd.nn.Sequential(dynograd.nn.Linear(2, 3), dynograd.nn.ReLU()))
>>> for node in traced.graph.nodes:
...     print(node.op, node.target)
placeholder input
call_module 0
call_module 1
output output
"""

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.overrides.fx import (
    _compatibility,
    _pytree,
    _symbolic_trace,
    config,
    experimental,
    graph,
    graph_module,
    immutable_collections,
    interpreter,
    node,
    operator_schemas,
    passes,
    proxy,
    records,
    subgraph_rewriter,
    traceback,
)
from dynograd.overrides.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from dynograd.overrides.fx.graph import CodeGen, Graph
from dynograd.overrides.fx.graph_module import GraphModule
from dynograd.overrides.fx.interpreter import Interpreter, Transformer
from dynograd.overrides.fx.node import Node, has_side_effect, map_arg
from dynograd.overrides.fx.proxy import Proxy
from dynograd.overrides.fx.records import from_record
from dynograd.overrides.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "PH",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "from_record",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

_show_plainly(globals())
