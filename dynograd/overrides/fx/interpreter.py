"""Interpreter: runs a graph node by node. Transformer: one that writes a new graph."""

from __future__ import annotations

from typing import Any

from dynograd.nn.module import Module
from dynograd.overrides.fx._symbolic_trace import Tracer
from dynograd.overrides.fx.graph import Graph
from dynograd.overrides.fx.graph_module import GraphModule
from dynograd.overrides.fx.node import Argument, Node, Target, map_aggregate, map_arg
from dynograd.overrides.fx.proxy import Proxy, watching
from dynograd.overrides.fx.traceback import preserve_node_meta, set_current_meta

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module one node after the other. A class derived from it sees or changes each (`run_node`, `call_function`, ...).

    Args:
        module: a GraphModule, or a module that `graph` reads.
        garbage_collect_values: whether values are let go behind the last node that reads them.
        graph: run in place of the module's own.

    >>> class Printing(dynograd.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         print(target.__name__)
    ...         return super().call_function(target, args, kwargs)
    >>> Printing(dynograd.fx.symbolic_trace(lambda x: dynograd.relu(x) + 1)).run(tensor([-1.0]))
    relu
    add
    tensor([1.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = self.graph._last_reads() if garbage_collect_values else {}
        self.args_iter: Any = iter(())

    def run(
        self, *args: object, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Argument:
        """What the graph gives for these inputs.

        Args:
            initial_env: values of nodes that are not run.
            enable_io_processing: whether structures of inputs and outputs are taken apart, as `forward` does.
        Returns:
            What `forward` gives.
        """
        self.env = dict(initial_env) if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {node.format_node()}")
                raise
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
            for read in self.user_to_last_uses.get(node, ()):
                del self.env[read]
        return None

    def boxed_run(self, args_list: list[Any]) -> Argument:
        """As `run`, with the inputs in a list, which it empties.

        Args:
            args_list: a list of the inputs, which is emptied.
        Returns:
            What `forward` gives.
        """
        values = list(args_list)
        args_list.clear()
        return self.run(*values)

    def run_node(self, n: Node) -> Argument:
        """What one node gives: calls the method of its kind.

        Args:
            n: the node.
        Returns:
            Its value.
        """
        with set_current_meta(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """The next input.

        Args:
            target, args, kwargs: of the node.
        Returns:
            Its value, or the default.
        """
        assert isinstance(target, str)
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """A parameter, buffer or attribute of the module.

        Args:
            target, args, kwargs: of the node.
        Returns:
            Its value.
        """
        assert isinstance(target, str)
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """Calls the function.

        Args:
            target: the function.
            args, kwargs: with what.
        Returns:
            The result.
        """
        assert callable(target)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """Calls the method of the first argument.

        Args:
            target: its name.
            args, kwargs: with what.
        Returns:
            The result.
        """
        assert isinstance(target, str)
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """Calls the module that lies there.

        Args:
            target: its path.
            args, kwargs: with what.
        Returns:
            The result.
        """
        assert isinstance(target, str)
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """What the program returns.

        Args:
            target, args, kwargs: of the node.
        Returns:
            The first argument.
        """
        return args[0]

    def fetch_attr(self, target: str) -> Argument:
        """What lies at the path in the module.

        Args:
            target: the path.
        Returns:
            The attribute.
        Raises:
            RuntimeError: nothing.
        """
        value = self.module
        steps = target.split(".")
        for place, step in enumerate(steps):
            if not hasattr(value, step):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(steps[: place + 1])}")
            value = getattr(value, step)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The arguments of a node, with values in place of nodes.

        Args:
            n: the node.
        Returns:
            (args, kwargs) with values in the place of nodes.
        """
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """The argument with the value of every node in it.

        Args:
            args: an argument of a node.
            n: the node.
        Returns:
            The same with values.
        """

        def value_of(node: Node) -> Argument:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


class Transformer(Interpreter):
    """Writes a new module from a graph: what the methods for each kind of node return stands in the new graph.

    Args:
        module: a GraphModule.

    >>> class Gelu(dynograd.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         target = dynograd.nn.functional.gelu if target is dynograd.relu else target
    ...         return super().call_function(target, args, kwargs)
    >>> changed = Gelu(dynograd.fx.symbolic_trace(lambda x: dynograd.relu(x))).transform()
    >>> changed(tensor([1.0]))
    tensor([0.8413])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.tensor_attrs: dict[Any, str] = {}

            def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Writes an input of the new program.

        Args:
            target, args, kwargs: of the node.
        Returns:
            A proxy.
        """
        assert isinstance(target, str)
        default = next(iter(args)) if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Writes the reading of an attribute.

        Args:
            target, args, kwargs: of the node.
        Returns:
            A proxy.
        """
        assert isinstance(target, str)
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """Writes the call of a module.

        Args:
            target, args, kwargs: of the node.
        Returns:
            A proxy.
        """
        assert isinstance(target, str)
        return self.tracer.call_module(self.fetch_attr(target), lambda *args, **kwargs: None, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """Writes the call of a function.

        Args:
            target, args, kwargs: of the node.
        Returns:
            A proxy.
        """
        assert callable(target)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Argument:
        """Writes the call of a method.

        Args:
            target, args, kwargs: of the node.
        Returns:
            A proxy.
        """
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module.

        Returns:
            A `GraphModule`.
        """
        with watching(), preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def node_of(value: Any) -> Argument:
                return value.node if isinstance(value, Proxy) else value

            self.new_graph.output(map_aggregate(result, node_of))
        return GraphModule(self.module, self.new_graph)
