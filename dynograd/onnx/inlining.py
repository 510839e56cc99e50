"""Functions of a model, and operators that have a body of other operators, put in place where they are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dynograd.errors import OnnxError
from dynograd.onnx.writing import domain_of, is_known

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto
    from onnx.defs import OpSchema

__all__ = ["inlined"]

_DOMAIN = "dynograd.bodies"  # of the functions that bodies of operators become, until they are put in place
_DEPTH = 8  # bodies within bodies; ONNX's own go three deep


def inlined(model: ModelProto) -> ModelProto:
    """The model with its functions put in place, and with the bodies of those operators that are only known by their bodies."""
    import onnx.inliner
    import onnx.shape_inference

    try:
        for _ in range(_DEPTH):
            if model.functions:
                model = onnx.inliner.inline_local_functions(model)
            nodes = [(node, schema) for node in _nodes_of(model.graph) if (schema := _schema_with_body(node, model))]
            if not nodes:
                return model
            # Shapes are needed for the bodies, and types are found for the nodes of this model only.
            types = _types(onnx.shape_inference.infer_shapes(model).graph)
            for number, (node, schema) in enumerate(nodes):
                model.functions.append(_function(node, schema, f"{node.op_type}_{number}", types, model))
            if all(row.domain != _DOMAIN for row in model.opset_import):
                model.opset_import.add(domain=_DOMAIN, version=1)
    except (RuntimeError, ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise OnnxError(
            f"onnx.load: the functions of the model cannot be put in place ({error}). Mend the program that wrote it."
        ) from None
    raise OnnxError(f"onnx.load: the functions of the model are more than {_DEPTH} deep. They call themselves.")


def _opset(domain: str, model: ModelProto) -> int:
    return max((row.version for row in model.opset_import if row.domain in (domain, domain or "ai.onnx")), default=0)


def _schema_with_body(node: NodeProto, model: ModelProto) -> OpSchema | None:
    import onnx

    domain = domain_of(node)
    version = _opset(domain, model)
    if is_known(node, version) or not onnx.defs.has(node.op_type, version, domain):
        return None
    schema = onnx.defs.get_schema(node.op_type, version, domain)
    return schema if schema.has_function or schema.has_context_dependent_function else None


def _types(graph: GraphProto) -> dict[str, bytes]:
    """The type of each value of the graph and of those within it, as bytes."""
    import onnx

    types = {value.name: value.type.SerializeToString() for value in (*graph.input, *graph.output, *graph.value_info)}
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims).SerializeToString()
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                types |= _types(attribute.g)
    return types


def _function(
    node: NodeProto, schema: OpSchema, name: str, types: dict[str, bytes], model: ModelProto
) -> FunctionProto:
    """The body of the node's operator as a function of this name, which the node calls from now on."""
    import onnx.checker

    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = (
        model.ir_version,
        {row.domain: row.version for row in model.opset_import},
    )
    onnx.checker.check_node(node, context)  # the functions of C++ that write bodies trust the node
    present = {attribute.name for attribute in node.attribute}
    for key, attribute in schema.attributes.items():
        if key not in present and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
    version, function = _opset(domain_of(node), model), onnx.FunctionProto()
    if schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        version = max((v for v in versions if v <= version), default=min(versions))
        for value in node.input:
            if value and not types.get(value):  # which the functions of C++ do not ask
                raise OnnxError(
                    f"onnx.load: {value!r} has no type, and the body of {node.name or node.op_type!r} ({node.op_type}) "
                    "depends on it. Mend the program that wrote the model (onnx.shape_inference.infer_shapes)."
                )
        arguments = [types.get(value, b"") for value in node.input]
        text = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), arguments)
        function.ParseFromString(text)
    else:
        versions = schema.function_opset_versions
        version = max((v for v in versions if v <= version), default=min(versions))
        function.ParseFromString(schema.get_function_with_opset_version(version))
    function.domain, function.name = _DOMAIN, name
    for row in function.opset_import:
        row.version = _opset(row.domain, model) or row.version
    node.domain, node.op_type = _DOMAIN, name
    return function


def _nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of those within it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes_of(attribute.g)
