"""GraphModule: a module whose `forward` is the text of a graph."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynograd.base.generated_sources import run_source
from dynograd.nn.module import Module
from dynograd.overrides.fx.graph import CodeGen, Graph, PythonCode, _PyTreeCodeGen
from dynograd.overrides.fx.node import Argument, Node, map_aggregate, map_arg
from dynograd.tensor.tensor import Tensor

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Puts what lies at the path in one module at the same path in the other; modules on the way are made."""
    *path, name = target.split(".")
    for step in path:
        from_module_ = getattr(from_module, step)
        to_module_ = getattr(to_module, step, None)
        if from_module_ is to_module_:
            return
        if to_module_ is None:
            to_module_ = Module()
            setattr(to_module, step, to_module_)
        from_module, to_module = from_module_, to_module_
    value = getattr(from_module, name)
    if isinstance(value, Tensor) and name in from_module._buffers:
        to_module.register_buffer(name, value, persistent=name not in from_module._non_persistent_buffers_set)
    else:
        setattr(to_module, name, value)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Puts a value at the path."""
    *path, name = target.split(".")
    for step in path:
        below = getattr(to_module, step, None)
        if below is None:
            below = Module()
            setattr(to_module, step, below)
        to_module = below
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, _parameter_class()):
        to_module.register_buffer(name, from_obj)
    else:
        setattr(to_module, name, from_obj)


def _parameter_class() -> type:
    from dynograd.nn.parameter import Parameter

    return Parameter


def _get_attr(model: Module, attr_name: str) -> Argument:
    value: Any = model
    for name in attr_name.split("."):
        value = getattr(value, name)
    return value


def _has_attr(model: Module, attr_name: str) -> bool:
    value: Any = model
    for name in attr_name.split("."):
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def _del_attr(model: Module, attr_name: str) -> None:
    *path, name = attr_name.split(".")
    owner: Any = model
    for step in path:
        owner = getattr(owner, step)
    delattr(owner, name)


def _method_from_src(method_name: str, src: str, globals: dict[str, Any]) -> Callable:
    return run_source(src, f"fx graph {method_name}", dict(globals), {})[method_name]


class _CodeOnlyModule(Module):
    """The attributes of a GraphModule, without its graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


class GraphModule(Module):
    """A module made of a graph: `forward` is Python text written from it, which `code` shows and a debugger steps through.

    After the graph was changed, `recompile` writes the text anew.

    Args:
        root: the module whose layers, parameters and attributes the graph reads, or a dict of them by path. What the graph does not read
            is not taken over.
        graph: becomes this module's; a copy when another module owns it.
        class_name: what the class is called when it is shown.

    Raises:
        RuntimeError: a dict lacks what the graph reads.

    >>> traced = dynograd.fx.symbolic_trace(lambda x: x + 1)
    >>> for node in traced.graph.nodes:
    ...     if node.name == "add":
    ...         node.update_arg(1, 10)
    >>> code = traced.recompile()
    >>> traced(tensor([1.0]))
    tensor([11.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each has a class of its own, since `forward` lies in the class.
        for kind in cls.__mro__:
            if kind.__qualname__.split(".")[-1] != "GraphModuleImpl":
                cls = kind
                break
        own = type("GraphModuleImpl", (cls,), {"__module__": cls.__module__})
        return super().__new__(own)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
            for target in targets:
                assert isinstance(target, str)
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
            for target in sorted({str(target) for target in targets}, key=lambda path: path.count(".")):
                if target not in root:
                    raise RuntimeError(
                        f"GraphModule: the graph reads {target!r}, and the dict of attributes has {', '.join(root) or 'none'}. Add it."
                    )
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {type(root)} passed for root!")
        for name in _HOOKS:
            object.__setattr__(self, name, [])
        self._tracer_cls: type | None = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph; a new one may be assigned."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise TypeError(f"GraphModule.graph: expected a Graph, got {type(g).__name__}.")
        self.__dict__["_graph"] = copy.deepcopy(g) if g.owning_module not in (None, self) else g
        self.__dict__["_graph"].owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return self.__dict__["_code"]

    def recompile(self) -> PythonCode:
        """Writes `forward` from the graph as it is now.

        Returns:
            A `PythonCode`.
        """
        codegen = self.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        python_code = self.graph.python_code("self")
        self.__dict__["_code"] = python_code.src
        own: Any = type(self)
        own.forward = _method_from_src(codegen._func_name, python_code.src, python_code.globals)
        return python_code

    # --- modules in it --------------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at the path; False where something else is in the way.

        Args:
            target: the path.
            m: the module.
        Returns:
            True or False.
        """
        *path, name = target.split(".")
        owner: Module = self
        for step in path:
            below = getattr(owner, step, None)
            if below is None:
                below = Module()
                setattr(owner, step, below)
            if not isinstance(below, Module):
                return False
            owner = below
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Takes the module at the path out; False where there is none.

        Args:
            target: the path.
        Returns:
            True or False.
        """
        if not _has_attr(self, target) or not isinstance(_get_attr(self, target), Module):
            return False
        _del_attr(self, target)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Takes out the modules that the graph does not read."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                assert isinstance(node.target, str)
                steps = node.target.split(".")
                used |= {".".join(steps[:count]) for count in range(1, len(steps) + 1)}
                if node.op == "call_module" and _has_attr(self, node.target):
                    below = _get_attr(self, node.target)
                    used |= {f"{node.target}.{name}" for name, _ in below.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # --- copies, files, text --------------------------------------------------------------------------------------------

    def _body(self) -> dict[str, Any]:
        body = dict(self.__dict__)
        del body["_graph"]
        return body

    def __reduce__(self) -> tuple:
        rows = [
            (
                node.op,
                node.name,
                node.target,
                *[map_arg(part, _Place.of) for part in (node.args, node.kwargs)],
                node.type,
            )
            for node in self.graph.nodes
        ]
        return _from_rows, (self._body(), rows, self.graph._codegen, self._tracer_cls, self.__class__.__name__)

    def __deepcopy__(self, memo: dict) -> GraphModule:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        body = copy.deepcopy(_CodeOnlyModule(self._body()), memo)
        GraphModule.__init__(result, body, copy.deepcopy(self.graph), self.__class__.__name__)
        for name in (
            "_state_dict_pre_hooks",
            "_state_dict_hooks",
            "_load_state_dict_pre_hooks",
            "_forward_hooks",
            *_HOOKS,
        ):
            if name in self.__dict__:
                result.__dict__[name] = copy.deepcopy(self.__dict__[name], memo)
        result.meta = copy.deepcopy(self.meta, memo)
        for name in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}):
            setattr(result, name, self.meta[_USER_PRESERVED_ATTRIBUTES_KEY][name])
        for hook in self._deepcopy_hooks:
            hook(result)
        return result

    def __copy__(self) -> GraphModule:
        result = GraphModule(self, self.graph, self.__class__.__name__)
        result.meta = dict(self.meta)
        return result

    def to_folder(self, folder: str | os.PathLike, module_name: str = "FxModule") -> None:
        """Writes the program as a package: `module.py` with the text, and the weights as safetensors beside it.

        The package is read with `import`, and its class made with no arguments.

        Args:
            folder: its path.
            module_name: what the class is called.
        Raises:
            NotImplementedError: the graph reads what a file does not name, such as a layer that is not of dynograd.nn.
        """
        from dynograd.saving.serialization import save

        for name, module in self.named_children():
            if not type(module).__module__.startswith("dynograd."):
                raise NotImplementedError(
                    f"to_folder: {name} is a {type(module).__name__}, which a file cannot write down; keep the program and save "
                    f"state_dict() instead."
                )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save(self.state_dict(), folder / "state_dict.safetensors")
        lines = [
            "from pathlib import Path",
            "",
            "import dynograd as torch",
            "from dynograd import nn",
            "from dynograd import *",
            "",
            "",
        ]
        lines += [f"class {module_name}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [
            f"        self.{name} = nn.{module!r}".replace("\n", "\n        ") for name, module in self.named_children()
        ]
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None:
                empty = f"torch.empty({list(value.shape)}, dtype={str(value.dtype).replace('dynograd', 'torch')})"
                if name in self._buffers:
                    lines.append(f'        self.register_buffer("{name}", {empty})')
                else:
                    lines.append(f"        self.{name} = nn.Parameter({empty})")
        lines += ['        self.load_state_dict(torch.load(Path(__file__).parent / "state_dict.safetensors"))', ""]
        lines += [f"    {line}".rstrip() for line in self.code.strip("\n").splitlines()]
        (folder / "module.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "__init__.py").write_text("from .module import *\n", encoding="utf-8")

    def print_readable(self, print_output: bool = True, **shown: object) -> str:
        """The text of this module and of those graphs that lie in it; printed, too.

        Args:
            print_output: print it.
            shown: kept for compatibility.
        Returns:
            The text.
        """
        body = "\n".join([f"    {line}".rstrip() for line in self.code.strip("\n").splitlines()])
        text = f"class {self.__class__.__name__}(torch.nn.Module):\n{body}\n"
        for module in self.children():
            if isinstance(module, GraphModule):
                inner = module.print_readable(print_output=False)
                text += "\n" + "\n".join([f"    {line}".rstrip() for line in inner.splitlines()])
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"

    # --- hooks ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def _set_replace_hook(self, f: Callable[[Node, str, Node], object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


def _hook_methods(short: str, attribute: str) -> None:
    def register(self: GraphModule, f: Callable) -> None:
        getattr(self, attribute).append(f)

    def unregister(self: GraphModule, f: Callable) -> None:
        getattr(self, attribute).remove(f)

    setattr(GraphModule, f"_register_{short}_hook", register)
    setattr(GraphModule, f"_unregister_{short}_hook", unregister)


for _short, _attribute in zip(("replace_node", "create_node", "erase_node", "deepcopy"), _HOOKS):
    _hook_methods(_short, _attribute)


class _Place(str):
    """A node, by its name, in the arguments of rows of a pickle."""

    @classmethod
    def of(cls, node: Node) -> _Place:
        return cls(node.name)


def _from_rows(
    body: dict, rows: list[tuple], codegen: CodeGen, tracer_cls: type | None, class_name: str
) -> GraphModule:
    """What a pickle calls."""
    graph = Graph(tracer_cls=tracer_cls)
    nodes: dict[str, Node] = {}

    def node_at(value: Argument) -> Argument:
        return nodes[value] if isinstance(value, _Place) else value

    for op, name, target, args, kwargs, kind in rows:
        parts = map_aggregate(args, node_at), map_aggregate(kwargs, node_at)
        nodes[name] = graph.create_node(op, target, *parts, name, kind)
    graph.set_codegen(codegen)
    result = GraphModule(_CodeOnlyModule(body), graph, class_name)
    for name, value in body.items():
        if not hasattr(result, name):
            setattr(result, name, value)
    return result
