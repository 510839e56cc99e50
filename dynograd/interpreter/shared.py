"""What the writers of functions share: the types that go the fast way, and pieces of the text they write."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy

from dynograd.autograd.nodes import FREED, Node
from dynograd.base.generated_sources import run_written
from dynograd.ops.op import Op

TENSORS: set[type] = set()
NUMBERS = {int, float}
C64, C128 = numpy.dtype(numpy.complex64), numpy.dtype(numpy.complex128)
F32, F64, I64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64), numpy.dtype(numpy.int64)
node_classes: dict[str, type[Node]] = {}
tensor_class: list[Any] = [None]


def signature_of(op: Op) -> tuple[str, dict[str, Any], list[str]]:
    """The parameter list as text, its default values, and the call `a, b, c=c` that passes every parameter on."""
    parts, defaults, call, keyword_only = [], {}, [], False
    for parameter in op.signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        text = parameter.name
        if parameter.default is not parameter.empty:
            defaults[f"default_{parameter.name}"] = parameter.default
            text += f"=default_{parameter.name}"
        parts.append(text)
        call.append(f"{parameter.name}={parameter.name}" if keyword_only else parameter.name)
    return ", ".join(parts), defaults, call


def quietly_lines(statement: str, indent: str) -> list[str]:
    """`out = f(...)`; where the user has made NumPy's floating-point warnings errors, it is computed again without them."""
    target, _, call = statement.partition(" = ")
    function, _, arguments = call.partition("(")
    return [
        f"{indent}try:",
        f"{indent}    {statement}",
        f"{indent}except FLOATING_WARNINGS:",
        f"{indent}    {target} = quietly({function}, {arguments}",
    ]


def arguments_text(op: Op) -> str:
    return "(" + "".join(f"{name}, " for name in op.signature.parameters) + ")"


def statics_text(op: Op) -> str:
    return "(" + "".join(f"{name}, " for name in op.static_names) + ")"


def tuple_text(names: list[str]) -> str:
    return "".join(f"{name}, " for name in names)


USUAL = {"bool": "{0} is False or {0} is True", "int": "type({0}) is int"}
_CHECKED = {"bool": "truth_value", "int": "whole_number"}


def static_lines(op: Op) -> list[str]:
    """Arguments that are said to be whole numbers or truth values are that, whoever calls."""
    lines = []
    for name in op.static_names:
        kind, _, optional = str(op.signature.parameters[name].annotation).replace(" ", "").partition("|")
        if kind in USUAL and optional in ("", "None"):
            none = f"{name} is not None and " if optional else ""
            lines += [
                f"    if {none}not ({USUAL[kind].format(name)}):",
                f"        {name} = {_CHECKED[kind]}(op.name, '{name}', {name})",
            ]
    return lines


def wrap_lines(array: str, name: str) -> list[str]:
    return [
        f"    {name} = new_tensor(Tensor)",
        f"    {name}.array = {array}",
        f"    {name}.node = None",
        f"    {name}._requires_grad = False",
        f"    {name}._grad = None",
        f"    {name}._meta = None",
    ]


def edge_text(name: str) -> str:
    return f"(({name}.node or {name}) if {name}._requires_grad else None)"


def release_of(op: Op, saved_names: list[str]) -> Any:
    """A node's `release`, written out for what this op saves."""
    if not saved_names:
        return None
    lines = ["def release(node):", *[f"    node.{name} = None" for name in saved_names], "    node.attrs = FREED"]
    text = "\n".join(lines) + "\n"
    return run_written(f"release/{op.name}", lambda: text, {"FREED": FREED}, kept=op.is_of_the_library)["release"]


@cache
def named_outputs(op: Op) -> Any:
    """The class of the tuples that the op gives."""
    return namedtuple(op.name, op.outputs)  # type: ignore[misc,arg-type]


def plain_of(op: Op) -> Any:
    """What the op gives for raw arrays: the forward's result without the extras."""
    if op.extras:
        return lambda out: out[0]
    if op.outputs is not None and op.outputs != "list":
        pack = named_outputs(op)
        return lambda out: pack(*out)
    if op.outputs == "list":
        return tuple
    return lambda out: out
