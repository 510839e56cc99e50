# fmt: off
# ruff: noqa
"""`dynograd.fx`, which is `dynograd.overrides.fx`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.overrides.fx import CodeGen as CodeGen
from dynograd.overrides.fx import Graph as Graph
from dynograd.overrides.fx import GraphModule as GraphModule
from dynograd.overrides.fx import Interpreter as Interpreter
from dynograd.overrides.fx import Node as Node
from dynograd.overrides.fx import PH as PH
from dynograd.overrides.fx import Proxy as Proxy
from dynograd.overrides.fx import ProxyableClassMeta as ProxyableClassMeta
from dynograd.overrides.fx import Tracer as Tracer
from dynograd.overrides.fx import Transformer as Transformer
from dynograd.overrides.fx import from_record as from_record
from dynograd.overrides.fx import has_side_effect as has_side_effect
from dynograd.overrides.fx import map_arg as map_arg
from dynograd.overrides.fx import replace_pattern as replace_pattern
from dynograd.overrides.fx import symbolic_trace as symbolic_trace
from dynograd.overrides.fx import wrap as wrap
