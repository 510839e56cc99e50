"""Graph: the steps of a traced program in their order, and the Python text that runs them."""

from __future__ import annotations

import builtins
import contextlib
import copy
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from dynograd.base.devices import device as Device
from dynograd.base.dtypes import dtype as DType
from dynograd.overrides.fx import _pytree as fx_pytree
from dynograd.overrides.fx.node import (
    Argument,
    Node,
    Target,
    _get_qualified_name,
    _type_repr,
    map_arg,
    name_in_library,
)
from dynograd.overrides.tables import module_of
from dynograd.utils import _pytree

if TYPE_CHECKING:
    from dynograd.overrides.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode", "inplace_methods", "magic_methods", "reflectable_magic_methods"]

_INFIX = (
    "add +, sub -, mul *, floordiv //, truediv /, mod %, pow **, lshift <<, rshift >>, and &, or |, xor ^, matmul @"
)
_COMPARED = "eq ==, ne !=, lt <, gt >, le <=, ge >="


def _forms(pairs: str) -> dict[str, str]:
    """Of "add +, ..." the name of each operator with the text of its call."""
    return {name: f"{{}} {sign} {{}}" for name, sign in (pair.split() for pair in pairs.split(","))}


reflectable_magic_methods = _forms(_INFIX)
magic_methods = {
    **_forms(_COMPARED),
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    "getitem": "{}[{}]",
    **reflectable_magic_methods,
}
inplace_methods = {f"i{name}": form.replace(" {}", "= {}", 1) for name, form in _forms(_INFIX).items()}
inplace_methods["setitem"] = "{}[{}] = {}"


@dataclass
class PythonCode:
    """The text of `forward`, and the globals that it reads."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


def _snake_case(name: str) -> str:
    """`ConvTranspose2d` -> `conv_transpose2d`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class _Namespace:
    """Gives each value a name that no other has and that is no word of Python's."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        ending = re.match(r"(.*)_(\d+)$", candidate)
        base, number = (ending.group(1), int(ending.group(2))) if ending else (candidate, 0)
        candidate = f"{base}_{number}" if ending else base
        number = number or self._base_count.get(base, 0)
        while candidate in self._used_names or self._is_illegal_name(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        self._obj_to_name.setdefault(obj, name)

    def _is_illegal_name(self, name: str, obj: Any) -> bool:
        if name in keyword.kwlist:
            return True
        if name in vars(builtins):
            return obj is not getattr(builtins, name)
        return name in _RESERVED and obj is not _RESERVED[name]

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)


_RESERVED: dict[str, object] = {
    "inf": math.inf,
    "nan": math.nan,
    "NoneType": type(None),
    "torch": None,
    "device": Device,
}


class CodeGen:
    """Writes the text of a graph. A class derived from it changes the signature (`gen_fn_def`) and what is returned (`generate_output`).

    >>> class Named(dynograd.fx.CodeGen):
    ...     def generate_output(self, output_args):
    ...         return f"return {{'result': {output_args!r}}}"
    >>> traced = dynograd.fx.symbolic_trace(lambda x: x + 1)
    >>> traced.graph.set_codegen(Named())
    >>> code = traced.recompile()
    >>> traced(tensor(1))
    {'result': tensor(2)}
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function.

        Args:
            free_vars: the names of its inputs.
            maybe_return_annotation: what stands behind the parentheses.
        Returns:
            A text.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument) -> str:
        """The line that returns.

        Args:
            output_args: what is returned, in nodes.
        Returns:
            A text.
        """
        return f"return {output_args!r}"

    def process_inputs(self, *args: object) -> Argument:
        """The values of the placeholders, from what `forward` is called with.

        Args:
            args: what it is called with.
        Returns:
            A value for each placeholder.
        """
        return args

    def process_outputs(self, outputs: object) -> Argument:
        """What `forward` gives, from the value of the output node.

        Args:
            outputs: the value.
        Returns:
            What it gives.
        """
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the text reads beside those of the graph.

        Returns:
            A list of (name, value).
        """
        return []


class _PyTreeInfo(NamedTuple):
    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """The program takes and gives structures; the graph has their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Argument:
        return _pytree.tree_flatten(tuple(inputs))[0]

    def process_outputs(self, outputs: object) -> Argument:
        values = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return _pytree.tree_unflatten(list(values), self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = [name for name in self.pytree_info.orig_args if name != "self"]
        text = super().gen_fn_def(["self", *names], maybe_return_annotation)
        if free_vars:
            inputs = ", ".join([name.lstrip("*") for name in names])
            leaves = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
            text += f"\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec(({inputs},), self._in_spec)"
        return text

    def generate_output(self, output_args: Argument) -> str:
        leaves = output_args if isinstance(output_args, (list, tuple)) else [output_args]
        return f"return _pytree.tree_unflatten({list(leaves)!r}, self._out_spec)"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("_pytree", _pytree), ("fx_pytree", fx_pytree)]


class _node_list:
    """The nodes in their order."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, node = self.graph._root, getattr(self.graph._root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


@dataclass
class _Body:
    """The text while it is written."""

    namespace: _Namespace
    root: str
    lines: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    globals: dict[str, Any] = field(default_factory=dict)

    def add_global(self, hint: str, value: Any) -> str:
        """The name under which the text reads `value`."""
        known = name_in_library(value)
        if known is not None:
            return known
        name = self.namespace.create_name(hint.replace(".", "_"), value if _hashable(value) else None)
        self.globals.setdefault(name, value)
        return name

    def type_repr(self, kind: Any) -> str:
        if kind == ():
            return "()"
        name = _type_repr(kind)
        if isinstance(kind, type) and kind.__module__ == "builtins":
            return name
        if hasattr(kind, "__origin__") or not isinstance(kind, type):
            for inner in getattr(kind, "__args__", ()):
                self.type_repr(inner)
            return self.add_global(_snake_case(re.sub(r"\W+", "_", name)), kind)
        return self.add_global(name, kind)

    def argument(self, value: Any) -> str:
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                kind = self.add_global(_type_repr(type(value)), type(value))
                return f"{kind}({', '.join([self.argument(item) for item in value])})"
            items = [self.argument(item) for item in value]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join([self.argument(item) for item in value])}]"
        if isinstance(value, dict):
            return (
                "{" + ", ".join([f"{self.argument(key)}: {self.argument(item)}" for key, item in value.items()]) + "}"
            )
        if isinstance(value, slice):
            return f"slice({self.argument(value.start)}, {self.argument(value.stop)}, {self.argument(value.step)})"
        if isinstance(value, float) and not math.isfinite(value):
            self.globals.update(inf=math.inf, nan=math.nan)
            return repr(value)
        if isinstance(value, DType) or (callable(value) and not isinstance(value, type)):
            return repr(value).replace("dynograd.", "torch.", 1) if isinstance(value, DType) else self.function(value)
        if isinstance(value, Enum):
            return f"{self.add_global(_type_repr(type(value)), type(value))}.{value.name}"
        if value is None or isinstance(value, (str, bool, int, float, complex, range, type(...))):
            return "..." if value is ... else repr(value)
        if isinstance(value, Device):
            self.globals["device"] = Device
            return repr(value)
        if isinstance(value, type):
            return self.type_repr(value)
        return self.add_global(_snake_case(type(value).__name__), value)

    def function(self, value: Callable) -> str:
        if getattr(builtins, getattr(value, "__name__", ""), None) is value:
            return value.__name__
        return self.add_global(
            _get_qualified_name(value) if hasattr(value, "__name__") else type(value).__name__, value
        )

    def call(self, name: str, node: Node, positional: Iterable[Any]) -> str:
        names = [self.argument(value) for value in positional]
        names += [f"{key} = {self.argument(value)}" for key, value in node.kwargs.items()]
        return f"{name}({', '.join(names)})"


def _hashable(value: Any) -> bool:
    return getattr(value, "__hash__", None) is not None and callable(value)


_SIMPLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def _format_target(base: str, target: str) -> str:
    for name in target.split("."):
        base = f"{base}.{name}" if name.isidentifier() else f'getattr({base}, "{name}")'
    return base


class Graph:
    """The steps of a program. `nodes` has them in their order; `create_node` and its short forms write new ones at the insert point.

    Args:
        owning_module: the module that has it.
        tracer_cls: the tracer that wrote it.
        tracer_extras: kept for compatibility.

    >>> graph = dynograd.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(dynograd.relu, (x,))
    >>> graph.output(y)
    output
    >>> print(graph.python_code("self").src)
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
    def forward(self, x):
        relu = torch.relu(x);  x = None
        return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that has it, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in their order; `reversed` goes from the end."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The last node, which says what the program returns.

        Returns:
            A `Node`.
        """
        node = self._root.prev
        if node.op != "output":
            raise RuntimeError("output_node: the graph has no output yet. Call graph.output(node) first.")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of this kind, and of this target where one is given.

        Args:
            op: a kind, such as "call_function".
            target: what is called.
            sort: kept for compatibility; they come in their order.
        Returns:
            A list of nodes.
        """
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Argument:
        """Copies the nodes of `g` to the insert point.

        Args:
            g: another graph.
            val_map: nodes of this graph by those of `g`, which are not copied; the copies are put into it.
            return_output_node: give the output node of `g`, too.
        Returns:
            What `g` gives, in nodes of this graph.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda value: val_map[value])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda value: val_map[value])
        return None

    def __deepcopy__(self, memo: dict | None = None) -> Graph:
        memo = {} if memo is None else memo
        graph = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        memo[id(self)] = graph
        copies: dict[Node, Node] = {}
        output = graph.graph_copy(self, copies, return_output_node=True)
        graph._codegen = copy.deepcopy(self._codegen)
        if output is not None:
            result, old = output
            new = graph.output(result, type_expr=old.type)
            new.meta = copy.copy(old.meta)
        return graph

    # --- writing nodes --------------------------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A new node at the insert point, which is the end unless `inserting_before` or `inserting_after` say otherwise.

        Args:
            op: the kind, such as "call_function".
            target: what is called.
            args, kwargs: with what; nodes among them.
            name: what it is called, with a number where that is taken.
            type_expr: the type of its value, for readers.
        Returns:
            A `Node`.
        """
        if args is not None and not isinstance(args, tuple):
            raise TypeError(f"create_node: args must be a tuple, got {type(args).__name__}.")
        if kwargs is not None and not isinstance(kwargs, dict):
            raise TypeError(f"create_node: kwargs must be a dict, got {type(kwargs).__name__}.")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, "", op, target, args or (), kwargs or {}, type_expr)
        node.name = self._graph_namespace.create_name(candidate, None)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        if self.owning_module is not None:
            for hook in self.owning_module._create_node_hooks:
                hook(node)
        self._insert(node)
        self._len += 1
        return node

    def process_inputs(self, *args: object) -> Argument:
        """The values of the placeholders, from what `forward` is called with.

        Args:
            args: what it is called with.
        Returns:
            A value for each placeholder.
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: object) -> Argument:
        """What `forward` gives, from the value of the output node.

        Args:
            out: the value.
        Returns:
            What it gives.
        """
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase: Node) -> None:
        """Takes a node out.

        Args:
            to_erase: the node.
        Raises:
            RuntimeError: somebody reads it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}! "
                f"Call {to_erase}.replace_all_uses_with(other) first."
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        if self.owning_module is not None:
            for hook in self.owning_module._erase_node_hooks:
                hook(to_erase)
        to_erase._take_out()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """A context in which new nodes stand before `n`; None: at the beginning.

        Args:
            n: a node.
        Returns:
            A context manager.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise ValueError(f"inserting_before: {n} is of another graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """A context in which new nodes stand behind `n`; None: at the end.

        Args:
            n: a node.
        Returns:
            A context manager.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise ValueError(f"inserting_after: {n} is of another graph.")
        last = n

        def insert(node: Node) -> None:
            nonlocal last
            last.append(node)
            last = node

        return _InsertPoint(self, insert)

    def placeholder(self, name: str, type_expr: Any | None = None, default_value: object = ...) -> Node:
        """An input of the program, with a default where one is given.

        Args:
            name: of the input.
            type_expr: its type, for readers.
            default_value: its default.
        Returns:
            A `Node`.
        """
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Reads a parameter, buffer or attribute of the module: `"layers.0.weight"`.

        Args:
            qualified_name: the path.
            type_expr: its type, for readers.
        Returns:
            A `Node`.
        """
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Calls a module that lies in the graph's module.

        Args:
            module_name: the path.
            args, kwargs: with what; nodes among them.
            type_expr: the type of the result, for readers.
        Returns:
            A `Node`.
        """
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Calls a method of `args[0]`.

        Args:
            method_name: the name.
            args, kwargs: with what; nodes among them.
            type_expr: the type of the result, for readers.
        Returns:
            A `Node`.
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Calls a function.

        Args:
            the_function: the function.
            args, kwargs: with what; nodes among them.
            type_expr: the type of the result, for readers.
            name: what the node is called.
        Returns:
            A `Node`.
        """
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """A copy of a node of another graph; `arg_transform` maps the nodes that it reads.

        Args:
            node: the node.
            arg_transform: a function from a node to one of this graph.
        Returns:
            A `Node`.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """The end: what the program returns.

        Args:
            result: a node, or tuples, lists and dicts of them.
            type_expr: its type, for readers.
        Returns:
            A `Node`.
        """
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    @staticmethod
    def _target_to_str(target: Target | None) -> str:
        if isinstance(target, str):
            name = target[2:-2] if target.startswith("__") and target.endswith("__") else target
        else:
            name = getattr(target, "__name__", type(target).__name__)
            if name.startswith("__") and name.endswith("__"):
                name = name[2:-2]
        return _snake_case(name)

    # --- text -----------------------------------------------------------------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False, **shown: object) -> PythonCode:
        """The program as text; `root_module` is the name of the module in it ("self").

        Args:
            root_module: that name.
            verbose, shown: kept for compatibility.
        Returns:
            A `PythonCode`; its `src` is the text.
        """
        for node in self.nodes:
            node._repr_fn = None
        body = _Body(_Namespace(), root_module)
        for node in self.nodes:
            body.namespace._used_names.add(node.name)
        annotation = [""]
        last_read = self._last_reads()
        for node in self.nodes:
            self._write(node, body, annotation)
            gone = last_read.get(node, [])
            if node.op not in ("placeholder", "output") and not node.users:
                gone = [*gone, node]
            if gone and node.op != "output" and body.lines:
                body.lines[-1] += ";  " + " = ".join([read.name for read in gone] + ["None"])
        if not body.lines:
            body.lines.append("pass")
        for name, value in self._codegen.additional_globals():
            body.globals[name] = value
        lines = [f"{line}\n" for line in body.lines]
        if self._codegen._body_transformer is not None:
            lines = self._codegen._body_transformer(lines)
        prologue = self._codegen.gen_fn_def(body.parameters, annotation[0])

        body.globals["torch"] = module_of("")
        code = "".join([f"    {line}" for line in "".join(lines).rstrip("\n").splitlines(True)])
        return PythonCode(f"\n\n\n{prologue}\n{code}\n", body.globals)

    def _last_reads(self) -> dict[Node, list[Node]]:
        """Behind each node, those that nobody reads any more."""
        seen: set[Node] = set()
        result: dict[Node, list[Node]] = {}
        for node in reversed(self.nodes):
            for read in node.all_input_nodes:
                if read not in seen:
                    seen.add(read)
                    result.setdefault(node, []).append(read)
        return result

    def _write(self, node: Node, body: _Body, annotation: list[str]) -> None:
        kind = "" if node.type is None else f" : {body.type_repr(node.type)}"
        if node.op == "placeholder":
            assert isinstance(node.target, str)
            default = f" = {body.argument(node.args[0])}" if node.args else ""
            body.parameters.append(f"{node.target}{kind}{default}")
            plain = node.target.replace("*", "")
            if plain != node.name:
                body.lines.append(f"{node.name} = {plain}")
            return
        if node.op == "output":
            if node.type is not None:
                annotation[0] = f" -> {body.type_repr(node.type)}"
            if (
                isinstance(self._codegen, _PyTreeCodeGen)
                or type(self._codegen).generate_output is not CodeGen.generate_output
            ):
                body.lines.append(self._codegen.generate_output(node.args[0]))
            else:
                body.lines.append(f"return {body.argument(node.args[0])}")
            return
        body.lines.append(self._expression(node, kind, body))

    def _expression(self, node: Node, kind: str, body: _Body) -> str:
        begin = f"{node.name}{kind} = "
        if node.op == "get_attr":
            assert isinstance(node.target, str)
            return begin + _format_target(body.root, node.target)
        if node.op == "call_module":
            assert isinstance(node.target, str)
            return begin + body.call(_format_target(body.root, node.target), node, node.args)
        if node.op == "call_method":
            assert isinstance(node.target, str)
            owner = body.argument(node.args[0])
            owner = owner if isinstance(node.args[0], Node) else f"({owner})"
            return begin + body.call(_format_target(owner, node.target), node, node.args[1:])
        function = node.target
        assert callable(function)
        name = getattr(function, "__name__", "").strip("_")
        if getattr(function, "__module__", "") == "_operator" and not node.kwargs:
            shown = [body.argument(value) for value in node.args]
            if name in magic_methods:
                return begin + magic_methods[name].format(*shown)
            if name in inplace_methods:
                changed = inplace_methods[name].format(*shown)
                return f"{changed};  {begin}{shown[0]}"
        if (
            function is getattr
            and len(node.args) == 2
            and isinstance(node.args[1], str)
            and _SIMPLE.match(node.args[1])
        ):
            return begin + _format_target(body.argument(node.args[0]), node.args[1])
        return begin + body.call(body.function(function), node, node.args)

    def __str__(self) -> str:
        return "graph():" + "".join([f"\n    {node.format_node()}" for node in self.nodes])

    def print_tabular(self) -> None:
        """Prints a table of the nodes."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [[node.op, node.name, str(node.target), str(node.args), str(dict(node.kwargs))] for node in self.nodes]
        widths = [max([len(row[place]) for row in rows[1:]] + [len(rows[0][place]) + 2]) for place in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip())

    # --- checks and clearing --------------------------------------------------------------------------------------------

    def lint(self) -> None:
        """Checks that the graph is well-formed: names, the order of nodes, and that what they read is there.

        Raises:
            RuntimeError: it is not; the message names the node.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node.name}' does not belong to this Graph!")
            for read in node.all_input_nodes:
                if read.graph is not self:
                    raise RuntimeError(f"Argument '{read}' of Node '{node}' does not belong to this Graph.")
                if read not in seen:
                    raise RuntimeError(
                        f"Argument '{read}' of Node '{node}' was used before it has been defined! Please check that Nodes in the graph are "
                        f"topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._lint_target(node)

    def _lint_target(self, node: Node) -> None:
        assert isinstance(node.target, str)
        value: Any = self.owning_module
        for name in node.target.split("."):
            if not hasattr(value, name):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {name} of {type(value).__name__}"
                )
            value = getattr(value, name)
        if node.op == "call_module" and not callable(value):
            raise RuntimeError(f"Node {node} target {node.target} does not reference an nn.Module")

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Takes out nodes that nobody reads and that do nothing else.

        Args:
            is_impure_node: a function of a node: whether it does something else.
        Returns:
            Whether there were any.
        """
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def set_codegen(self, codegen: CodeGen) -> None:
        """Another writer of the text.

        Args:
            codegen: a `CodeGen`.
        """
        self._codegen = codegen

    @contextlib.contextmanager
    def on_generate_code(
        self, make_transformer: Callable[[Callable | None], Callable[[list[str]], list[str]]]
    ) -> Iterator[None]:
        """A context in which the lines of the text go through a function first.

        Args:
            make_transformer: a function from the present function (or None) to the new one, from lines to lines.
        Returns:
            A context manager.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        try:
            yield
        finally:
            self._codegen._body_transformer = before
