"""Proxy: what stands for a value while a program is traced. What is done with it becomes a node of the graph."""

from __future__ import annotations

import contextlib
import copy
import dis
import inspect
import operator
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NoReturn

from dynograd.base.devices import device as Device
from dynograd.base.layouts import layout as Layout
from dynograd.base.memory_formats import memory_format as MemoryFormat
from dynograd.errors import user_level
from dynograd.interpreter.override_protocol import OVERRIDING
from dynograd.overrides.fx.graph import Graph, magic_methods, reflectable_magic_methods
from dynograd.overrides.fx.node import Argument, Node, Target, base_types, map_aggregate
from dynograd.overrides.fx.traceback import get_current_meta, has_preserved_node_meta
from dynograd.overrides.guards import types_reader, watch_types
from dynograd.tensor.tensor import Tensor

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """The program asks of a value what only a run knows."""


_TAKEN_OVER = "nn_module_stack torch_fn source_fn_stack original_aten recompute custom stack_trace".split()


class Scope:
    """Where a trace is: the path of the module and its type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class TracerBase:
    """What proxies ask to write nodes; `Tracer` is the whole of it."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope = Scope("", None)

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple,
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A new node at the end of the graph; it takes over what is known of the one that stands for it in another graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if has_preserved_node_meta():
            before = get_current_meta()
            node.meta |= {name: copy.copy(before[name]) for name in _TAKEN_OVER if name in before}
        elif self.record_stack_traces:
            node.stack_trace = _lines_of_the_program()
        return node

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple,
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A new node, and the proxy that stands for its value; the arguments may have proxies in them."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """What stands in the graph for a value that a program passes on.

        Raises:
            NotImplementedError: a value of another type than a graph holds.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            values = [self.create_arg(value) for value in a]
            return type(a)(*values) if hasattr(a, "_fields") else type(a)(values) if type(a) is tuple else tuple(values)
        if isinstance(a, list):
            return [self.create_arg(value) for value in a]
        if isinstance(a, dict):
            return {self._constant_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if is_dataclass(a) and not isinstance(a, type):
            parts = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), parts)
        if isinstance(a, (*base_types, Enum, Tensor, Device, Layout, MemoryFormat)) or callable(a):
            return a
        raise NotImplementedError(
            f"argument of type: {type(a)}: the traced program passes {a!r} on, which a graph does not hold. Make it an attribute of the "
            f"module, or have the function that takes it called as a whole (fx.wrap)."
        )

    def _constant_key(self, key: Any) -> Argument:
        key = self.create_arg(key)
        map_aggregate(key, self._refuse_node)
        return key

    @staticmethod
    def _refuse_node(value: Any) -> Argument:
        if isinstance(value, Node):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {value}")
        return value

    def to_bool(self, obj: Proxy) -> bool:
        raise TraceError(
            f"symbolically traced variables cannot be used as inputs to control flow: bool({obj}) is known when the graph runs, not while "
            f"it is traced. Pass the value that decides as concrete_args, or have the function called as a whole (fx.wrap)."
        )

    def iter(self, obj: Proxy) -> Iterator[Proxy]:
        raise TraceError(
            f"Proxy object cannot be iterated: how many values {obj} has is known when the graph runs. It may be unpacked into names "
            f"(a, b = x), or indexed; or have the function called as a whole (fx.wrap)."
        )

    def keys(self, obj: Proxy) -> Proxy:
        return Attribute(obj, "keys")()

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(what)


class GraphAppendingTracer(TracerBase):
    """Writes at the end of a graph that there is: `fx.Proxy(node)` uses one.

    >>> graph = dynograd.fx.Graph()
    >>> x = dynograd.fx.Proxy(graph.placeholder("x"))
    >>> graph.output((x + 1).relu().node)
    output
    >>> dynograd.fx.GraphModule({}, graph)(tensor([-2.0, 3.0]))
    tensor([0., 4.])
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.module_stack: dict[str, Any] = {}


class Proxy:
    """Stands for a value in a trace: operators, methods, attributes and functions of it are written down as nodes.

    Args:
        node: the node whose value it stands for.
        tracer: what writes nodes; None writes at the end of the node's graph.
    Raises:
        TraceError: what decides over the program's way (`if x`, `for y in x`, `len(x)`).

    >>> graph = dynograd.fx.Graph()
    >>> x = dynograd.fx.Proxy(graph.placeholder("x"))
    >>> (x + 1).node.target.__name__
    'add'
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        if not types_reader.times:
            watch_types()  # made by hand, outside a trace: functions look for proxies from now on
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Argument:
        if k.startswith("__") and k.endswith("__") and k not in ("__wrapped__",):
            raise AttributeError(f"'Proxy' object has no attribute '{k}'")
        if k in ("node", "tracer"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        count = _unpacked_into(_caller())
        if count is not None:
            return iter([self.__getitem__(number) for number in range(count)])
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        frame = _caller()
        if self.tracer.trace_asserts and _is_assertion(frame):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Proxy:
        """The keys of a dict, which `**x` asks for.

        Returns:
            A proxy.
        Raises:
            TraceError: they are not known.
        """
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __deepcopy__(self, memo: dict) -> Proxy:
        import copy

        return Proxy(copy.deepcopy(self.node, memo), self.tracer)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Argument:
        tracers: dict[TracerBase, None] = {}

        def note(value: Any) -> Argument:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None
            return value

        map_aggregate(args, note)
        map_aggregate(kwargs or {}, note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {func}"
            )
        (tracer,) = tracers
        if func.__name__ == "einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])  # PyTorch reports the operands one by one
        if _is_method(func):
            return tracer.create_proxy("call_method", func.__name__, args, kwargs or {})
        return tracer.create_proxy("call_function", func, args, kwargs or {}, name=Graph._target_to_str(func.__name__))


OVERRIDING.add(Proxy)


def _is_method(func: Any) -> bool:
    from dynograd.overrides import is_tensor_method_or_property
    from dynograd.overrides.fx.node import name_in_library

    name = name_in_library(func)
    return is_tensor_method_or_property(func) and (name is None or name.startswith("torch.Tensor."))


def _lines_of_the_program() -> str:
    """Where the program is, without the library's own lines."""
    depth = user_level()
    frames = traceback.extract_stack()
    return "".join(traceback.format_list(frames[: len(frames) - depth + 1]))


def _caller() -> Argument:
    """The frame that calls a proxy's method."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_back


def _unpacked_into(frame: Any) -> int | None:
    """Into how many names the frame unpacks what it iterates over now; None where it does something else."""
    instructions = {each.offset: each for each in dis.get_instructions(frame.f_code)}
    here = instructions.get(frame.f_lasti)
    if here is None or here.opname != "UNPACK_SEQUENCE":
        return None
    return here.argval


def _is_assertion(frame: Any) -> bool:
    """Whether the frame branches over the raising of an AssertionError."""
    instructions = list(dis.get_instructions(frame.f_code))
    places = [number for number, each in enumerate(instructions) if each.offset == frame.f_lasti]
    after = instructions[places[0] + 1 : places[0] + 3] if places else []
    return any([each.opname == "LOAD_ASSERTION_ERROR" for each in after])


def assert_fn(x: Any) -> None:
    assert x


class Attribute(Proxy):
    """An attribute of a value; called, it is a call of the method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer

    def __getattr__(self, k: str) -> Argument:
        if k != "node":
            return super().__getattr__(k)
        # Written when it is read, for most attributes are methods that are called.
        self.node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self.node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


OVERRIDING.add(Attribute)


class ParameterProxy(Proxy):
    """Stands for a parameter of which shape, dtype and their like are known while the program is traced."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Argument:
        return self.param.shape

    def size(self, *args: Any) -> Argument:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.numel()


OVERRIDING.add(ParameterProxy)


def _operator_method(name: str, function: Callable) -> Callable[..., Proxy]:
    def method(*args: Any, **kwargs: Any) -> Proxy:
        tracers = [value.tracer for value in args if isinstance(value, Proxy)]
        return tracers[0].create_proxy("call_function", function, args, kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _reflected_method(name: str, function: Callable) -> Callable[[Proxy, Any], Proxy]:
    def method(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (rhs, self), {})

    method.__name__ = method.__qualname__ = name
    return method


for _name in magic_methods:
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Proxy, f"__{_name}__", _operator_method(f"__{_name}__", _function))
for _name in reflectable_magic_methods:
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Proxy, f"__r{_name}__", _reflected_method(f"__r{_name}__", _function))


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """A context in which functions look for proxies among their arguments."""
    watch_types()
    try:
        yield
    finally:
        types_reader.turn_off()
