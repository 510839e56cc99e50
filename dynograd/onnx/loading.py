"""`load`: a module whose `forward` is the model's graph as Python."""

from __future__ import annotations

import types
from typing import Any

import numpy

from dynograd import nn
from dynograd.base.generated_sources import run_source
from dynograd.errors import CheckpointError, ShapeError
from dynograd.onnx import files
from dynograd.onnx.reading.values import tensor_of
from dynograd.onnx.writing import CodeWriter, domain_of, is_known

__all__ = ["OnnxModule", "load"]


class _Group(nn.Module):
    """Holds the tensors whose names begin alike."""


class OnnxModule(nn.Module):
    """An ONNX model as a module: `load` makes it.

    Float initialisers are parameters, under their names in the model; other tensors are buffers, except strings, which are arrays of
    objects. `code` is the text of `forward`.
    """

    def __init__(self, writer: CodeWriter, code: str, title: str) -> None:
        super().__init__()
        self.code = code
        self.input_names = [name for name, _ in writer.inputs]
        self._sizes = [sizes for _, sizes in writer.inputs]
        self._texts: dict[str, numpy.ndarray] = {}
        for name, (array, trained) in writer.tensors.items():
            self._enter(name, tensor_of(array), trained)
        forward = run_source(code, title, {"__name__": "dynograd.onnx.model"})["forward"]
        self._forward = types.MethodType(forward, self)

    def _enter(self, name: str, value: Any, trained: bool) -> None:
        *groups, last = name.split(".")
        place: nn.Module = self
        for group in groups:
            if group not in place._modules:
                place.add_module(group, _Group())
            place = place._modules[group]
        if isinstance(value, numpy.ndarray):
            self._texts[name] = value
        elif trained:
            place.register_parameter(last, nn.Parameter(value))
        else:
            place.register_buffer(last, value)

    def held(self, name: str) -> Any:
        """The tensor of this name, which is no Python name."""
        if name in self._texts:
            return self._texts[name]
        *groups, last = name.split(".")
        place: nn.Module = self
        for group in groups:
            place = place._modules[group]
        return place._parameters[last] if last in place._parameters else place._buffers[last]

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) != len(self.input_names):
            raise TypeError(
                f"OnnxModule: {len(inputs)} inputs are given. Expected {len(self.input_names)}: "
                f"{', '.join(self.input_names)}."
            )
        for name, x, sizes in zip(self.input_names, inputs, self._sizes):
            shape = getattr(x, "shape", None)
            if sizes is None or shape is None:
                continue
            if len(sizes) != len(shape) or any(size not in (None, length) for size, length in zip(sizes, shape)):
                wanted = ", ".join("any" if size is None else str(size) for size in sizes)
                raise ShapeError(
                    f"OnnxModule: input {name} has shape {tuple(shape)}. Expected ({wanted}), as the model declares; "
                    "reshape it, or export the model with dynamic axes."
                )
        return self._forward(*inputs)


def load(model: Any) -> OnnxModule:
    """A module that computes what an ONNX model computes, made of calls of dynograd, so that it can be trained, changed and stepped through.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto.
    Returns:
        An `OnnxModule` with the model's initialisers as parameters and buffers; `module.code` is its `forward`.
    Raises:
        CheckpointError: the file is damaged, names data outside its folder, or has an operator or type that is not known here.
        ImportError: the extra `onnx` is not installed.

    >>> dynograd.onnx.load(b"no model")
    Traceback (most recent call last):
    dynograd.errors.CheckpointError: onnx.load: the 8 bytes are no ONNX model ...
    """
    proto = files.model_of(model)
    proto = _opened(proto)
    try:
        writer = CodeWriter(proto)
        code = writer.write(proto.graph)
    except (UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"onnx.load: the model is damaged ({error}). Export it anew.") from None
    files.check(proto)
    return OnnxModule(writer, code, f"onnx model {proto.graph.name}")


def _opened(proto: Any) -> Any:
    """The model with its own functions, and operators that only have a body of other operators, put in place."""
    import onnx.inliner
    import onnx.shape_inference

    opsets = {"" if row.domain == "ai.onnx" else row.domain: row.version for row in proto.opset_import}
    own = {(function.domain, function.name) for function in proto.functions}
    bodies: set[tuple[str, str]] = set()
    for node in _nodes(proto.graph):
        domain = domain_of(node)
        if (node.domain, node.op_type) in own or is_known(node, opsets.get(domain, 0)):
            continue
        if onnx.defs.has(node.op_type, domain):
            schema = onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
            if schema.has_function or schema.has_context_dependent_function:
                bodies.add((node.domain, node.op_type))
    try:
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto)
        if bodies:
            proto = onnx.shape_inference.infer_shapes(proto)
            proto = onnx.inliner.inline_selected_functions(proto, sorted(bodies), inline_schema_functions=True)
    except (RuntimeError, ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise CheckpointError(f"onnx.load: the functions of the model cannot be put in place ({error}).") from None
    return proto


def _nodes(graph: Any) -> list:
    """The nodes of a graph and of those within it, whose names are text."""
    nodes = []
    words = [graph.name, *(value.name for part in (graph.input, graph.output, graph.initializer) for value in part)]
    for node in graph.node:
        words += [
            node.name,
            node.op_type,
            node.domain,
            *node.input,
            *node.output,
            *(part.name for part in node.attribute),
        ]
    for word in words:
        if not isinstance(word, str):  # protobuf gives bytes that are no UTF-8 as bytes
            raise CheckpointError(
                f"onnx.load: {word!r} is a name in the model. Expected UTF-8; the file is damaged, export it anew."
            )
    for node in graph.node:
        nodes.append(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                nodes += _nodes(attribute.g)
    return nodes
