"""Node: one step of a `Graph`."""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dynograd.base.dtypes import dtype as DType
from dynograd.overrides.fx.immutable_collections import immutable_dict, immutable_list
from dynograd.overrides.tables import module_of
from dynograd.tensor.assertions import _assert

if TYPE_CHECKING:
    from dynograd.overrides.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any
Target = Callable[..., Any] | str

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
_side_effectful_functions: set[Callable] = {print, _assert}


def has_side_effect(fn: Callable) -> Callable:
    """Marks a function of which calls stay though nobody uses their result; also a decorator.

    Args:
        fn: the function.
    Returns:
        The function.

    >>> dynograd.fx.has_side_effect(print) is print
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """The argument with every Node in it replaced by `fn(node)`.

    Args:
        a: an argument of a node.
        fn: a function of a node.
    Returns:
        The argument.

    >>> graph = dynograd.fx.symbolic_trace(lambda x: x + 1).graph
    >>> x, add, output = graph.nodes
    >>> dynograd.fx.node.map_arg(add.args, lambda node: node.name)
    ('x', 1)
    """
    if not callable(fn):
        raise TypeError("map_arg: fn must be a callable of one Node")
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """The argument with everything in its tuples, lists, dicts and slices replaced by `fn(value)`."""
    if isinstance(a, tuple):
        values = [map_aggregate(value, fn) for value in a]
        return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(value, fn) for value in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def _get_qualified_name(func: Any) -> str:
    """The name by which the written program calls a function."""
    name = getattr(func, "__name__", "")
    if getattr(builtins, name, None) is func:
        return name
    known = name_in_library(func)
    if known is not None:
        return known
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{func.__objclass__.__module__}.{func.__objclass__.__name__}.{name}"
    if name == "<lambda>":
        name = inspect.getsource(func).split("=")[0].strip()
    module = (inspect.getmodule(func) and func.__module__) or "builtins"
    return f"{'operator' if module == '_operator' else module}.{name}"


def name_in_library(func: Any) -> str | None:
    """`torch.relu`, `torch.nn.functional.linear`: where programs find a function of ours; None for others."""
    if not (getattr(func, "__module__", None) or "").startswith("dynograd"):
        return None
    from dynograd.overrides import resolve_name

    name = resolve_name(func) if isinstance(func, types.FunctionType) else getattr(func, "path_in_library", None)
    if name is None or name.endswith(("__get__", "__set__")):
        return None
    return "torch" + name.removeprefix("dynograd") if _reads(name) is func else None


def _reads(path: str) -> object:
    """What a program reads at this path of the library."""

    value: object = module_of("")
    for name in path.split(".")[1:]:
        value = getattr(value, name, None)
    return value


def _type_repr(kind: Any) -> str:
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    if isinstance(arg, (list, tuple)):
        items = [_format_arg(item) for number, item in enumerate(arg) if number < max_list_len]
        rest = f", ...[total_len={len(arg)}]" if len(arg) > len(items) else ""
        if isinstance(arg, list):
            return f"[{', '.join(items)}{rest}]"
        return f"({', '.join(items)}{rest}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join([f"{key}: {_format_arg(value)}" for key, value in arg.items()]) + "}"
    return f"%{arg.name}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step: `op` says of what kind, `target` what is called, `args` and `kwargs` with what; its `users` are the steps that read it.

    `op` is one of "placeholder", "get_attr", "call_function", "call_method", "call_module" and "output". Nodes stand in their graph in the
    order in which they run; `next` and `prev` are their neighbours.

    Args:
        graph: the graph it stands in.
        name: what its value is called.
        op, target, args, kwargs: see above.
        return_type: the type of its value, for readers.

    >>> graph = dynograd.fx.symbolic_trace(lambda x: dynograd.relu(x) + 1).graph
    >>> [(node.op, node.name) for node in graph.nodes]
    [('placeholder', 'x'), ('call_function', 'relu'), ('call_function', 'add'), ('output', 'output')]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        if op not in OPS:
            raise ValueError(f"Node: op must be one of {', '.join(OPS[:-1])}, got {op!r}.")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node {name}: the target of call_function must be callable, got {target!r}.")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"Node {name}: the target of {op} must be a str, got {target!r}.")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self._prev: Node = self
        self._next: Node = self
        self._erased = False
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self.meta: dict[str, Any] = {}
        self._set_arguments(args, kwargs)

    # --- arguments ------------------------------------------------------------------------------------------------------

    def _set_arguments(self, args: Iterable[Argument], kwargs: dict[str, Argument]) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        self._args = map_arg(tuple(args), note)
        self._kwargs = map_arg(dict(kwargs), note)

    @property
    def args(self) -> tuple[Argument, ...]:
        """What it is called with, nodes among it; a new tuple may be assigned."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """What it is called with by name, nodes among it; a new dict may be assigned."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Another argument in the place of one.

        Args:
            idx: its place.
            arg: the new one.
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """One argument more.

        Args:
            idx: its place.
            arg: the new one.
        """
        if not 0 <= idx <= len(self.args):
            raise ValueError(f"insert_arg: idx must lie in 0 ... {len(self.args)}, got {idx}.")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Another argument by name.

        Args:
            key: the name.
            arg: the new one.
        """
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Has all users read `replace_with`; returns those that did.

        Args:
            replace_with: another node.
            delete_user_cb: a function of a user; False leaves that one.
            propagate_meta: copy what `meta` holds.
        Returns:
            A list of nodes.
        """
        if propagate_meta:
            if replace_with.meta:
                raise ValueError("replace_all_uses_with: propagate_meta=True asks for a node without meta.")
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Reads another node in the place of one.

        Args:
            old_input, new_input: the nodes.
        """

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self.args, swap), map_arg(self.kwargs, swap))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the step must stay though nobody reads it.

        Args:
            impure_random: whether random functions must.
        Returns:
            True or False.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            if self.target in _side_effectful_functions or getattr(schema, "is_mutable", False):
                return True
            return impure_random and getattr(self.target, "__name__", "") in ("rand", "randn", "dropout", "randint")
        if self.op == "call_module":
            module = self.graph.owning_module
            assert isinstance(self.target, str)
            return bool(module is not None and getattr(module.get_submodule(self.target), "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> tuple | None:
        """(args, kwargs) with the defaults filled in; None for a target whose parameters are not known.

        Args:
            root: the module that the graph reads.
            arg_types, kwarg_types: kept for compatibility.
            normalize_to_only_use_kwargs: all by name.
        Returns:
            A named pair or None.
        """
        from dynograd.overrides.fx.operator_schemas import normalize_function, normalize_module

        assert isinstance(self.args, tuple)
        if self.op == "call_function":
            assert callable(self.target)
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            assert isinstance(self.target, str)
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    # --- places ---------------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node behind it."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves `x` before this node.

        Args:
            x: a node of the graph.
        """
        if x.graph is not self.graph:
            raise ValueError(f"prepend: {x.name} is of another graph than {self.name}.")
        if x is self:
            return
        x._take_out()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Moves `x` behind this node.

        Args:
            x: a node of the graph.
        """
        if x is not self._next:
            self._next.prepend(x)

    def _take_out(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    # --- text -----------------------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the program wrote it, as text, or None."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, self)

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "_operator":
            return f"operator.{target.__name__}"
        return _get_qualified_name(target)

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None
    ) -> str | None:
        """One line of `str(graph)`.

        Args:
            placeholder_names: a list of names to which those of further inputs are added; an input has a line of its own where it is empty.
            maybe_return_typename: a list to which the type of the result is added.
        Returns:
            A text, or None where it went into a list.
        """
        if self.op == "placeholder" and placeholder_names:
            placeholder_names.append(f"{self.target}: {_type_repr(self.type)}" if self.type else str(self.target))
            return None
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        shown = f"%{self.name} : {'' if not self.type else _type_repr(self.type) + ' '}[num_users={len(self.users)}]"
        if self.op == "placeholder":
            return f"{shown} = placeholder[target={self.target}]" + (f"(default={self.args[0]})" if self.args else "")
        target = f"{self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return f"{shown} = {target}"
        return f"{shown} = {target}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def __lt__(self, other: Node) -> bool:
        places = {node: place for place, node in enumerate(self.graph.nodes)}
        return places[self] < places[other]

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self


base_types = (str, int, float, bool, complex, DType, type(None), type(...))
"""Types of arguments that stand in a graph as they are; tensors, devices and their like too."""
