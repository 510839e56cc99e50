"""What is in a model, as text: `python -m dynograd.onnx show`, and `print` of a program."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dynograd.onnx.packages import ModelProto, onnx_package

__all__ = ["listing"]

_SHOWN = 8  # numbers of a constant that fit a line


def listing(model: ModelProto) -> str:
    """What is in a model: its inputs, outputs, weights and nodes, a line each."""
    graph = model.graph
    opsets = ", ".join([f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import])
    weights = sum([math.prod(tensor.dims) for tensor in graph.initializer])
    kinds = ", ".join(
        [f"{count} {kind}" for kind, count in Counter([node.op_type for node in graph.node]).most_common()]
    )
    lines = [
        f"{graph.name}: opset {opsets}, IR {model.ir_version}, by {model.producer_name or 'unknown'} {model.producer_version}".rstrip(),
        f"{len(graph.node)} nodes ({kinds}), {weights:,} numbers in {len(graph.initializer)} weights",
    ]
    for title, values in (("inputs", graph.input), ("outputs", graph.output)):
        lines += [f"{title}:", *[f"  {value.name}: {_type(value.type)}" for value in values]]
    lines += [
        "weights:",
        *[f"  {tensor.name}: {_dtype(tensor.data_type)}{_dims(tensor.dims)}" for tensor in graph.initializer],
    ]
    return "\n".join([*lines, "nodes:", *_nodes(graph)])


def _nodes(graph: Any) -> Iterator[str]:
    for node in graph.node:
        call = f"{node.op_type}({(', '.join(node.input) + _attributes(node)).removeprefix('; ')})"
        line = node.doc_string.rpartition(" in ")[0] or node.doc_string
        yield f"  {', '.join(node.output)} = {call}" + f"   # {os.path.basename(line)}" * bool(line)


def _attributes(node: Any) -> str:
    return "".join([f"; {_attribute(attribute)}" for attribute in node.attribute])


def _attribute(attribute: Any) -> str:
    """Tensors with their shape, and their numbers where these are few."""
    onnx = onnx_package("onnx", "listing")
    if attribute.type != onnx.AttributeProto.TENSOR:
        text: str = onnx.helper.printable_attribute(attribute)
        return text
    tensor = attribute.t
    numbers = f" {onnx.numpy_helper.to_array(tensor).tolist()}" if math.prod(tensor.dims) <= _SHOWN else ""
    return f"{attribute.name} = {_dtype(tensor.data_type)}{_dims(tensor.dims)}{numbers}"


def _type(kind: Any) -> str:
    tensor = kind.tensor_type
    return f"{_dtype(tensor.elem_type)}{_dims([dim.dim_param or dim.dim_value for dim in tensor.shape.dim])}"


def _dtype(number: int) -> str:
    name: str = onnx_package("onnx", "listing").TensorProto.DataType.Name(number)
    return name.lower()


def _dims(dims: Any) -> str:
    return f"[{', '.join(map(str, dims))}]"
