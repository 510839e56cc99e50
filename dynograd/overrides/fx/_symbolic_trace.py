"""Tracer: runs a program once with proxies in place of its inputs and writes down what it does."""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import inspect
import math
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.errors import user_level
from dynograd.nn.attributes import reading_through
from dynograd.nn.module import Module, calling_through
from dynograd.nn.parameter import Parameter
from dynograd.overrides.fx._compatibility import compatibility  # noqa: F401
from dynograd.overrides.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from dynograd.overrides.fx.graph_module import GraphModule
from dynograd.overrides.fx.node import Argument, Node
from dynograd.overrides.fx.proxy import ParameterProxy, Proxy, Scope, TracerBase, watching
from dynograd.tensor.assertions import _assert
from dynograd.tensor.tensor import Tensor
from dynograd.utils import _pytree

__all__ = [
    "PH",
    "PHBase",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]


class PHBase:
    """An input of `concrete_args` that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()
_wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods: list[tuple[type, str]] = []
_tracing = 0


def is_fx_tracing() -> bool:
    """Whether a program is being traced.

    Returns:
        True or False.
    """
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Has a function of the calling module recorded as one call, instead of what it does; also a decorator.

    Args:
        fn_or_name: the function, or the name that the module calls it by (`fx.wrap("len")`). Called at the module's top level.
    Returns:
        What it got.

    >>> @dynograd.fx.wrap
    ... def clipped(x, most):
    ...     return x if x.max() < most else x.clamp(max=most)
    >>> graph = dynograd.fx.symbolic_trace(lambda x: clipped(x, 2.0)).graph
    >>> [node.name for node in graph.nodes]
    ['x', 'clipped', 'output']
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function {fn_or_name!r}: a function or its name is wrapped. Methods are not."
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    frame = frame.f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _first_proxy(*values: Any) -> Proxy | None:
    for value in _pytree.tree_leaves(list(values)):
        if isinstance(value, Proxy):
            return value
        if isinstance(value, slice):
            inner = _first_proxy(value.start, value.stop, value.step)
            if inner is not None:
                return inner
    return None


def _recorded(function: Callable) -> Callable:
    """The function, of which a call with proxies is one node."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Argument:
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return call


def _recorded_method(kind: type, name: str) -> Callable:
    method = getattr(kind, name)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Argument:
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return call


class _Patcher:
    """A context in which names of modules and methods of classes mean something else."""

    def __init__(self) -> None:
        self.before: list[Callable[[], None]] = []
        self.visited: set[int] = set()

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        for take_back in reversed(self.before):
            take_back()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Callable, deduplicate: bool = True) -> None:
        """A name of a module's."""
        if name in frame_dict:
            own = frame_dict[name]
            self.before.append(lambda: frame_dict.__setitem__(name, own))
        else:
            self.before.append(lambda: frame_dict.__delitem__(name))
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Callable, deduplicate: bool = True) -> None:
        """A method of a class."""
        if name in vars(cls):
            own = vars(cls)[name]
            self.before.append(lambda: setattr(cls, name, own))
        else:
            self.before.append(lambda: delattr(cls, name))
        setattr(cls, name, new_fn)


def _wrapped_ids() -> set[int]:
    """Of the functions that `wrap` has named: the text of a graph reads them under names of its own."""
    return {id(names[name]) for (_, name), names in _wrapped_functions.items() if name in names}


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """What `wrap` has named is recorded as calls."""
    for (_, name), names in list(_wrapped_functions.items()):
        function = names.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(names, name, _recorded(function))
    for kind, name in _wrapped_methods:
        patcher.patch_method(kind, name, _recorded_method(kind, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """In one module's globals, the functions that are always recorded as calls."""
    if id(frame_dict) in patcher.visited:
        return
    patcher.visited.add(id(frame_dict))
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _recorded(value))


class ScriptObject:
    """What PyTorch holds of C++ objects; there are none."""


_orig_module_call: Callable = Module.__call__
_orig_module_getattr: Callable = Module.__getattr__
FunctionType = types.FunctionType


class ProxyableClassMeta(type):
    """The type of classes that can be made of proxies: then making an instance is a node of the graph.

    Args:
        name, bases, attrs: of the class, as for `type`.

    >>> class Pair(metaclass=dynograd.fx.ProxyableClassMeta):
    ...     def __init__(self, one, two):
    ...         self.one, self.two = one, two
    >>> dynograd.fx.symbolic_trace(lambda x: Pair(x, x + 1).two)(tensor(1))
    tensor(2)
    """

    def __init__(cls, name: str, bases: tuple, attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Argument:
        instance: Any = cls.__new__(cls)
        proxy = _first_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        instance.__init__(*args, **kwargs)
        return instance


class Tracer(TracerBase):
    """Writes the graph of a module or function. A class derived from it says what is a leaf, and makes nodes and arguments of its own.

    Layers of `dynograd.nn` are leaves: a call of one is one node. What the program itself asks of a value (`if x.sum() > 0`) cannot be
    traced, and raises TraceError.

    Args:
        autowrap_modules: modules whose functions are recorded as calls when they get proxies.
        autowrap_functions: more such functions.
        param_shapes_constant: whether shapes of parameters are those that they have now.

    Raises:
        TraceError: see above.

    >>> class Whole(dynograd.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return isinstance(m, dynograd.nn.Sequential)
    >>> model = dynograd.nn.Sequential(dynograd.nn.Sequential(dynograd.nn.Linear(2, 3)), dynograd.nn.ReLU())
    >>> model[0](dynograd.ones(1, 2)).shape
    dynograd.Size([1, 3])
    >>> [node.target for node in dynograd.fx.Tracer().trace(model).nodes]
    ['input', '0.0', '1', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root: Any = Module()
        self.module_stack: dict[str, Any] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.scope = Scope("", None)
        self._qualname_counter: dict[str, int] = {}

    def __deepcopy__(self, memo: dict) -> Tracer:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        for name, value in vars(self).items():  # modules of functions are what they are
            setattr(result, name, list(value) if name == "_autowrap_search" else copy.deepcopy(value, memo))
        return result

    # --- what a derived class may change --------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of the module is one node: layers of dynograd.nn, but for Sequential.

        Args:
            m: the module.
            module_qualified_name: where it lies in the root.
        Returns:
            True or False.
        """
        from dynograd.nn import Sequential

        return type(m).__module__.startswith("dynograd.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where a module lies in the root.

        Args:
            mod: the module.
        Returns:
            A path such as "layers.0".
        Raises:
            NameError: it does not lie there.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError(f"module is not installed as a submodule: {type(mod).__name__}")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError(f"module is not installed as a submodule: {type(mod).__name__}")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Argument:
        """A call of a module: one node for a leaf, else what it does.

        Args:
            m: the module.
            forward: what calls it.
            args, kwargs: of the call, with proxies in them.
        Returns:
            A proxy, or what `forward` gives.
        """
        path = self.path_of_module(m)
        before, self.scope = self.scope, Scope(path, type(m))
        self.module_stack[path] = (path, type(m))
        try:
            if not self.is_leaf_module(m, path):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", path, args, kwargs)
        finally:
            self.scope = before
            self.module_stack.pop(path, None)

    def getattr(self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, Proxy]) -> Argument:
        """An attribute of a module: parameters (and buffers, with `proxy_buffer_attributes`) are nodes.

        Args:
            attr: the name.
            attr_val: the value.
            parameter_proxy_cache: the proxies of parameters, by path.
        Returns:
            A proxy or the value.
        """
        if isinstance(attr_val, Parameter):
            return self._of_registered(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._of_registered(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _of_registered(self, value: Tensor, names: Iterator[tuple[str, Tensor]], cache: dict[str, Proxy]) -> Argument:
        for name, registered in names:
            if registered is value:
                if name not in cache:
                    make: Any = None
                    if self.param_shapes_constant:
                        make = functools.partial(self._parameter_proxy, name=name, param=value)
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
                return cache[name]
        return value

    def _parameter_proxy(self, node: Node, name: str, param: Tensor) -> ParameterProxy:
        return ParameterProxy(self, node, name, param)

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple,
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def create_arg(self, a: object) -> Argument:
        """As in TracerBase; parameters, buffers and modules of the root are read from it, other tensors become attributes of it.

        Args:
            a: the value.
        Returns:
            What a graph holds.
        """
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._attribute_of_constant(a), (), {})
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(type(a), ProxyableClassMeta):
            return self.create_node(
                "get_attr", self._attribute_of_constant(a, f"_{type(a).__name__}_constant_"), (), {}
            )
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that begins with `prefix` and that the root has not.

        Args:
            prefix: how it begins.
        Returns:
            A name.
        """
        number = self._qualname_counter.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number
        return f"{prefix}{number}"

    def _attribute_of_constant(self, value: Any, prefix: str = "_tensor_constant") -> str:
        if value in self.tensor_attrs:
            return self.tensor_attrs[value]
        name = self.tensor_attrs[value] = self.get_fresh_qualname(prefix)
        setattr(self.root, name, value)
        return name

    # --- the trace ------------------------------------------------------------------------------------------------------

    def trace(self, root: Any, concrete_args: dict[str, Any] | tuple | None = None) -> Graph:
        """The graph of a module's forward, or of a function.

        Args:
            root: a module or a function.
            concrete_args: values of inputs by name; those inputs are constants of the graph (with a check that later calls give the
                same), and structures in them are taken apart, each `fx.PH` in them staying an input.
        Returns:
            A `Graph`.
        Raises:
            TraceError: the way of the program depends on values.

        >>> graph = dynograd.fx.Tracer().trace(lambda x, twice: x * 2 if twice else x, {"twice": True})
        >>> dynograd.fx.GraphModule(dynograd.nn.Module(), graph)(tensor([1.0]), True)
        tensor([2.])
        """
        global _tracing
        is_module = isinstance(root, Module)
        if is_module:
            self.root = root
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = type(root).__name__
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            function = root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs: dict[Any, str] = {}
        if is_module:
            for prefix, module in root.named_modules():
                for name, value in vars(module).items():
                    if isinstance(value, Tensor):
                        self.tensor_attrs[value] = f"{prefix}.{name}" if prefix else name
        assert isinstance(function, (types.FunctionType, types.MethodType, functools.partial)) or callable(function)
        patcher = _Patcher()
        parameters: dict[str, Proxy] = {}
        always = self._autowrap_function_ids | _wrapped_ids()

        def call(module: Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Argument:
            _autowrap_check(patcher, getattr(type(module).forward, "__globals__", {}), always)
            return self.call_module(module, forward, args, kwargs)

        def read(name: str, value: Any) -> Argument:
            return self.getattr(name, value, parameters)

        with watching(), contextlib.ExitStack() as stack:
            arguments_of, arguments = self.create_args_for_root(function, is_module, concrete_args)
            stack.enter_context(calling_through(call))
            stack.enter_context(reading_through(read))
            stack.enter_context(patcher)
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, getattr(function, "__globals__", {}), always)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), always)
            _tracing += 1
            try:
                result = arguments_of(*arguments)
            finally:
                _tracing -= 1
            annotations = getattr(function, "__annotations__", {})
            kind = annotations.get("return")
            returned = (self.create_arg(result),)
            self.create_node("output", "output", returned, {}, type_expr=None if isinstance(kind, str) else kind)
        self.submodule_paths = None
        return self.graph

    def create_args_for_root(
        self, root_fn: Callable, is_module: bool, concrete_args: dict[str, Any] | tuple | None = None
    ) -> tuple[Callable, list[Any]]:
        """(the function to run, the proxies of its inputs).

        Args:
            root_fn: the function.
            is_module: whether its first argument is the module.
            concrete_args: as in `trace`.
        Returns:
            A pair.
        """
        function = inspect.unwrap(root_fn)
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        args: list[Any] = []
        if is_module:
            if not parameters or parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
                raise RuntimeError("`self` argument cannot be part of *args expansion!")
            args.append(self.root)
            parameters = parameters[1:]
        if isinstance(concrete_args, tuple):
            positional = [parameter.name for parameter in parameters]
            if len(concrete_args) != len(positional):
                raise RuntimeError(
                    f"Tracing expected {len(positional)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(positional, concrete_args))
        usual = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = ["self"] if is_module else []
        kinds = []
        for parameter in parameters:
            star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            names.append(star + parameter.name)
            kinds.append(parameter.kind if parameter.kind not in usual else None)
            args.append(self._proxy_placeholder(star + parameter.name, concrete_args, parameter))

        def run(*values: Any) -> Argument:
            own = values[:1] if is_module else ()
            positional, keywords = list(own), {}
            for parameter, kind, value in zip(parameters, kinds, values[len(own) :]):
                if kind is None:
                    positional.append(value)
                elif kind is inspect.Parameter.VAR_POSITIONAL:
                    # The tuple of the rest is itself a proxy: the function gets it whole.
                    return _with_whole_rest(function)(*values)
                elif kind is inspect.Parameter.VAR_KEYWORD:
                    return _with_whole_rest(function)(*values)
                else:
                    keywords[parameter.name] = value
            return root_fn(*positional, **keywords)

        leaves, spec = _pytree.tree_flatten(tuple(args))
        if concrete_args is None or all([child.is_leaf() for child in spec.children_specs]):
            return run, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def flat(*values: Any) -> Argument:
            outputs, out_spec = _pytree.tree_flatten(run(*_pytree.tree_unflatten(list(values), spec)))
            codegen = self.graph._codegen
            assert isinstance(codegen, _PyTreeCodeGen)
            if is_module:
                inputs = _pytree.tree_flatten(tuple(args[1:]))[1]
                codegen.pytree_info = codegen.pytree_info._replace(in_spec=inputs)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return outputs

        return flat, leaves

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, parameter: inspect.Parameter
    ) -> Argument:
        default: tuple = ()
        if not name.startswith("*") and parameter.default is not inspect.Parameter.empty:
            default = (parameter.default,)
        if concrete_args is not None and name in concrete_args:
            return self._of_concrete(name, concrete_args[name], default)
        kind = None if parameter.annotation is inspect.Parameter.empty else parameter.annotation
        return self.create_proxy(
            "placeholder", name, default, {}, type_expr=None if isinstance(kind, str) or name.startswith("*") else kind
        )

    def _of_concrete(self, name: str, value: Any, default: tuple) -> Argument:
        count = 0

        def replace(leaf: Any) -> Argument:
            nonlocal count
            count += 1
            result = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(leaf, PHBase):
                return result
            if type(leaf) in (bool, int, float, str):
                message = f"{name} has been specialized to have value {leaf} but got another value"

                self.create_proxy("call_function", _assert, (result == leaf, message), {})
                return leaf
            if leaf is None:
                message = f"{name} has been specialized to have value None but got another value"
                self.create_proxy("call_function", _assert_is_none, (result, message), {})
                return None
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the user to make "
                f"sure that your inputs match the inputs you specialized the function with.",
                stacklevel=user_level(),
            )
            return leaf

        return _pytree.tree_map(replace, value)


def _with_whole_rest(function: Any) -> Callable:
    """The function with `*args`, `**kwargs` and keyword-only parameters as plain ones, in their order."""
    code = function.__code__
    flags = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    count = (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & inspect.CO_VARARGS)
        + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    )
    order = [parameter.name for parameter in inspect.signature(function).parameters.values()]
    plain = code.replace(co_flags=code.co_flags & ~flags, co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0)
    all_plain = types.FunctionType(plain, function.__globals__, closure=function.__closure__)
    # Python keeps the names of keyword-only parameters before that of *args; values come in the order of the signature.
    places = [order.index(name) for name in code.co_varnames[:count]]
    return lambda *values: all_plain(*[values[place] for place in places])


def _assert_is_none(value: Any, message: str) -> None:
    if value is not None:
        raise AssertionError(message)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple | None = None
) -> GraphModule:
    """A module with the graph of `root`, and with the layers of `root` in it.

    Args:
        root: a module or a function.
        concrete_args: as in `Tracer.trace`.
    Returns:
        A `GraphModule`.
    Raises:
        TraceError: the way of the program depends on values (see `Tracer`).

    >>> class Model(dynograd.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = dynograd.nn.Linear(3, 2)
    ...     def forward(self, x):
    ...         return self.layer(x).relu() + 1
    >>> traced = dynograd.fx.symbolic_trace(Model())
    >>> print(traced.code.strip())
    def forward(self, x):
        layer = self.layer(x);  x = None
        relu = layer.relu();  layer = None
        add = relu + 1;  relu = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)
