"""Constants of a model, and how values stand in its code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy

from dynograd.errors import OnnxError
from dynograd.onnx.files import array_of

__all__ = ["Constant", "constant_of", "is_listed", "literal", "plain"]

_LISTED = 64  # numbers of a constant that stand in the code; more are held by the module


@dataclass(eq=False)
class Constant:
    """A tensor that is not trained: numbers in the code, and held by the module where it is read as a tensor.

    `kind` is "buffer" of an initialiser, and "constant" of a node's.
    """

    name: str
    array: numpy.ndarray
    kind: str = "buffer"
    expression: str = ""


def constant_of(node: Any, who: str) -> Constant:
    """What a Constant node says."""
    import onnx

    if len(node.attribute) != 1 or not node.output:
        raise OnnxError(f"onnx.load: {who} has {len(node.attribute)} values. Expected one.")
    attribute = node.attribute[0]
    value: Any = onnx.helper.get_attribute_value(attribute)
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type).lower()
    if attribute.name != ("value" if kind == "tensor" else f"value_{kind}"):
        raise OnnxError(f"onnx.load: {who} has a {attribute.name} of the kind {kind}. Expected a dense value.")
    if attribute.name == "value":
        array = array_of(value)
    elif attribute.name in ("value_float", "value_floats"):
        array = numpy.array(value, numpy.float32)
    elif attribute.name in ("value_int", "value_ints"):
        array = numpy.array(value, numpy.int64)
    else:
        texts = [text.decode() for text in (value if attribute.name == "value_strings" else [value])]
        array = numpy.array(texts if attribute.name == "value_strings" else texts[0], object)
    return Constant(node.output[0], array, "constant")


def is_listed(value: Any) -> TypeGuard[Constant]:
    """Whether it is a constant that can stand in the code as numbers."""
    if not isinstance(value, Constant) or value.array.size > _LISTED or value.array.ndim > 1:
        return False
    return value.array.dtype.kind in "biuf" and bool(numpy.isfinite(value.array).all())


def plain(value: Constant) -> str:
    """The numbers without their dtype: as short as they are in it."""
    numbers = value.array.tolist()
    if value.array.dtype.name == "float32":
        return literal(numbers)
    return repr(numbers)


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"float({str(value)!r})"
        return repr(float(str(numpy.float32(value))))
    if isinstance(value, int):
        return repr(value)
    return f"[{', '.join(literal(item) for item in value)}]"
