"""What the writers of functions share: the types that go the fast way, and pieces of the text they write."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy

from dynograd.autograd.nodes import Node
from dynograd.base.shown_names import show_in_lines
from dynograd.base.values import TENSORS as TENSORS
from dynograd.ops.op import Op

NUMBERS = {int, float}
C64, C128 = numpy.dtype(numpy.complex64), numpy.dtype(numpy.complex128)
F32, F64, I64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64), numpy.dtype(numpy.int64)
node_classes: dict[str, type[Node]] = {}
tensor_class: list[Any] = [None]


def signature_of(op: Op) -> tuple[str, dict[str, Any], list[str]]:
    """The parameter list as text, its default values, and the call `a, b, c=c` that passes every parameter on."""
    parts, defaults, call, keyword_only = [], {}, [], False
    for name, parameter in op.public_signature.parameters.items():
        if not keyword_only and parameter.kind is parameter.KEYWORD_ONLY:
            parts.append("*")
            keyword_only = True
        text, default = name, parameter.default
        if default is not parameter.empty:
            defaults[f"default_{name}"] = default
            text += f"=default_{name}"
        parts.append(text)
        call.append(f"{name}={name}" if keyword_only else name)
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


def argument_lines(op: Op) -> list[str]:
    """What the kinds of arguments ask for before readers and the forward see them: `input_array` is then the array of the first operand,
    `input`, or what else came in its place."""
    kinds = {
        name: str(parameter.annotation).replace(" ", "") for name, parameter in op.public_signature.parameters.items()
    }
    dims = [name for name, kind in kinds.items() if kind in _DIMS]
    lines, first = [], op.array_names[0] if op.array_names else ""
    for name, kind in kinds.items():
        if kind == "Axis" and kinds["dim"] == "Dim":
            lines += ["    if dim is None:", "        if axis is None:", "            raise no_dim(op.name)"]
            lines.append("        dim = axis")
        elif kind in ("Axis", "Keepdims"):
            lines += [f"    if {name} is not None:", f"        {_OTHER_NAMES[kind]} = {name}"]
    for name, kind in kinds.items():
        if kind == "Dtype":
            number = f"type({name}) is not int and " if op.public_signature.parameters[name].default is not None else ""
            lines += [
                f"    if {number}{name} is not None:",
                f"        if as_dtype({name}).category < FLOATING:",
                f"            return in_whole_dtype(op, {name}, {', '.join(op.signature.parameters)})",
                f"        {first} = convert({first}, as_dtype({name}))",
            ]
    if dims:
        lines.append(f"    {first}_array = {first}.array if type({first}) in TENSORS else {first}")
    for name in dims:
        kind = kinds[name]
        inside = f"type({name}) is int and -(ndim := {first}_array.ndim) <= {name} < ndim"
        lines += [f"    if {inside}:", f"        if {name} < 0:", f"            {name} += ndim"]
        if kind == "ClassDim":
            lines += [f"    elif {first}_array.shape == ():", f"        return of_a_row(op, {first}, {name})"]
        lines += [
            f"    elif {name} is not None:" if kind in ("Dim|None", "Dims", "SomeDims") else "    else:",
            f"        {name} = {_DIMS[kind]}(op.name, {name}, len({first}_array.shape))",
        ]
    return lines


_DIMS = {
    "ClassDim": "class_dim",
    "Dim": "normalize_dim",
    "Dim|None": "one_dim",
    "Dims": "reduced_dims",
    "SomeDims": "some_dims",
}
_OTHER_NAMES = {"Axis": "dim", "Keepdims": "keepdim"}
USUAL = {"bool": "{0} is False or {0} is True", "int": "type({0}) is int"}
_CHECKED = {"bool": "truth_value", "int": "whole_number"}


def static_lines(op: Op) -> list[str]:
    """What the kinds of arguments ask for (see `ops/argument_kinds.py`): those that are no operands are what they are said to be."""
    lines = []
    if op.has_inplace_argument:
        lines += ["    if inplace:", f"        return in_place(op, {op.array_names[0]}, {statics_text(op)})"]
    for name in op.static_names:
        kind, _, optional = str(op.signature.parameters[name].annotation).replace(" ", "").partition("|")
        if kind in USUAL and optional in ("", "None"):
            none = f"{name} is not None and " if optional else ""
            lines += [
                f"    if {none}not ({USUAL[kind].format(name)}):",
                f"        {name} = {_CHECKED[kind]}(op.name, '{name}', {name})",
            ]
        elif kind == "Real":
            lines += [f"    if type({name}) is not float:", f"        {name} = float({name})"]
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


# NumPy gives numbers where a result has no dims.
ARRAY_LINES = ["    if type(out) is not ndarray and isinstance(out, SCALARS):", "        out = asarray(out)"]


def follow_lines(name: str, give_up: str, indent: str = "    ") -> list[str]:
    """A view follows its base, where that may have been written; `give_up` where it is a plain tensor no more."""
    followed = f"not ({_up_to_date(name)}) and follow_base({name})"
    return [f"{indent}if {followed}:", f"{indent}    {give_up}"]


def wants_text(name: str) -> str:
    """Whether an operand requires grad now, or is a plain tensor no more: a view follows its base."""
    return f"({name}._requires_grad if {_up_to_date(name)} else follow_base({name}) or {name}._requires_grad)"


def _up_to_date(name: str) -> str:
    """Whether a tensor is no view, or one of a base that has no `_meta`, so that it was never written."""
    base = f"(seen[0]._meta if type(seen := {name}._meta) is tuple else seen.view)"
    return f"{name}._meta is None or {base} is None"


def edge_text(name: str) -> str:
    return f"(({name}.node or {name}) if {name}._requires_grad else None)"


@cache
def named_outputs(op: Op) -> Any:
    """The class of the tuples that the op gives."""
    return show_in_lines(namedtuple(op.name, op.outputs))  # type: ignore[arg-type]


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
