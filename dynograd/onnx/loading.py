"""`load`: a module whose `forward` is the model's graph as Python."""

from __future__ import annotations

import inspect
import re
import types
from typing import Any

import numpy

from dynograd import nn
from dynograd.base.generated_sources import run_source
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import OnnxError, ShapeError
from dynograd.onnx import files
from dynograd.onnx.inlining import inlined
from dynograd.onnx.reading.values import value_of
from dynograd.onnx.writing import CodeWriter
from dynograd.tensor.tensor import Tensor

__all__ = ["OnnxModule", "load"]


class _Group(nn.Module):
    """Holds the tensors whose names begin alike."""


class OnnxModule(nn.Module):
    """An ONNX model as a module: `load` makes it.

    Float initialisers are parameters, under their names in the model; other tensors are buffers (those of Constant nodes are not in
    `state_dict()`), except strings, which are arrays of objects. `code` is the text of `forward`, `input_names` are the names of its arguments in the model.

    Args:
        writer: has written the code.
        code: the text of `forward`.
        title: what tracebacks and debuggers call the text.

    >>> from onnx import TensorProto, helper
    >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    >>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [x], [y])
    >>> module = dynograd.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    >>> print(module.code)
    import dynograd
    <BLANKLINE>
    <BLANKLINE>
    def forward(self, x):
        y = dynograd.relu(x)
        return y
    <BLANKLINE>
    >>> module(tensor([1.0, -1.0]))
    tensor([1., 0.])
    """

    def __init__(self, writer: CodeWriter, code: str, title: str) -> None:
        super().__init__()
        self.code = code
        self.input_names = [name for name, _ in writer.inputs]
        self._sizes = [sizes for _, sizes in writer.inputs]
        self._texts: dict[str, numpy.ndarray] = {}
        for name, (array, kind) in writer.tensors.items():
            self._enter(name, value_of(array), kind)
        forward = run_source(code, title, {"__name__": "dynograd.onnx.model", **writer.functions}, users=True)[
            "forward"
        ]
        self._forward = types.MethodType(forward, self)
        self.__signature__ = inspect.signature(self._forward)

    def _enter(self, name: str, value: Any, kind: str) -> None:
        *groups, last = name.split(".")
        place: nn.Module = self
        for group in groups:
            if group not in place._modules:
                place.add_module(group, _Group())
            place = place._modules[group]
        if isinstance(value, numpy.ndarray):
            self._texts[name] = value
        elif kind == "parameter":
            place.register_parameter(last, nn.Parameter(value))
        else:
            place.register_buffer(last, value, persistent=kind == "buffer")

    def initializer(self, name: str) -> Tensor | numpy.ndarray:
        """The tensor of this name.

        Args:
            name: of an initialiser, also one that is no Python name ("onnx::MatMul_7").
        Returns:
            The parameter or buffer, or the array of strings.
        """
        if name in self._texts:
            return self._texts[name]
        *groups, last = name.split(".")
        place: nn.Module = self
        for group in groups:
            place = place._modules[group]
        return place._parameters[last] if last in place._parameters else place._buffers[last]

    def forward(self, *inputs: Any) -> object:
        """What the model computes.

        Args:
            *inputs: in the order of `input_names`.
        Returns:
            The model's output, a tuple where there are several.
        """
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
                expected = ", ".join("any" if size is None else str(size) for size in sizes)
                raise ShapeError(
                    f"OnnxModule: input {name} has shape {tuple(shape)}. Expected ({expected}), as the model declares; "
                    "reshape it, or export the model with dynamic axes."
                )
        return self._forward(*inputs)


def load(model: Any) -> OnnxModule:
    """A module that computes what an ONNX model computes, made of calls of dynograd, so that it can be trained, changed and stepped through.

    Args:
        model: a path, a file opened for reading bytes, the bytes of one, or an onnx.ModelProto.
    Returns:
        An `OnnxModule` with the model's initialisers as parameters and buffers; `module.code` is its `forward`.
    Raises:
        OnnxError: the file is damaged, names data outside its folder, or has an operator or type that is not known here.
        ImportError: the extra `onnx` is not installed.

    >>> dynograd.onnx.load(b"no model")
    Traceback (most recent call last):
    dynograd.errors.OnnxError: onnx.load: the 8 bytes are no ONNX model ...
    """
    proto = files.model_of(model)
    _check_names(proto.graph)
    proto = inlined(proto)
    try:
        writer = CodeWriter(proto)
        code = writer.write(proto.graph)
    except (UnicodeDecodeError, RecursionError) as error:
        raise OnnxError(f"onnx.load: the model is damaged ({error}). Export it anew.") from None
    files.check(proto)
    module = OnnxModule(writer, code, "onnx model " + re.sub(r"[^\w.-]", "_", proto.graph.name)[:80])
    module.eval()  # models that leave are in that mode; what they compute does not depend on it
    return module


def _check_names(graph: Any) -> None:
    """Refuses names that are no text: protobuf gives bytes that are no UTF-8 as bytes."""
    words = [graph.name, *(value.name for part in (graph.input, graph.output, graph.initializer) for value in part)]
    for node in graph.node:
        words += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            words.append(attribute.name)
            if attribute.HasField("g"):
                _check_names(attribute.g)
    for word in words:
        if not isinstance(word, str):
            raise OnnxError(
                f"onnx.load: {word!r} is a name in the model. Expected UTF-8; the file is damaged, export it anew."
            )


_show_plainly(globals())
