"""Shortcuts: the public face of an op computes in the usual case what the op would give, and calls what it stands for otherwise."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from dynograd.arrays import FLOATING_WARNINGS, ndarray
from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.ordinary import node_class_of, outputs_of, record_lines, view_lines
from dynograd.interpreter.shared import ARRAY_LINES, USUAL, follow_lines, tensor_class, wants_text, wrap_lines
from dynograd.interpreter.tensor_fields import tensor_fields
from dynograd.kernels import kernel
from dynograd.ops.op import Shortcut, Writing


def write_shortcut(face: Callable[..., Any], cuts: tuple[Shortcut, ...]) -> Writing:
    """What gives the source of `face`, and its names."""
    space = dict(inspect.unwrap(face).__globals__)
    space |= dict(several=_several, general=face, **names_for_all())
    for number, cut in enumerate(cuts):
        space |= {f"{name}_{number}" if number else name: value for name, value in _names_of(cut).items()}
    return {"function": lambda: shortcut_source(face, cuts)}, space


def shortcut_source(face: Callable[..., Any], cuts: tuple[Shortcut, ...]) -> str:
    """Source of `face` with the statements of its shortcuts, of which the first that does what it is for gives the result.

    Their lines make `out`, and `statics`, the other arguments of their op that describe it. Without an op, only where nothing is
    recorded. One counts where it gives a result and, if the op makes views, that shares the memory of the input. Where none does,
    `face` itself is called.
    """
    parameters, call = parameters_of(face)
    taken = inspect.signature(face).parameters
    with_axis = "axis" not in taken and "dim" in taken and taken["dim"].default is not inspect.Parameter.empty
    if with_axis:  # NumPy's name, as methods of PyTorch take it
        parameters += ", axis=None" if "*" in parameters else ", *, axis=None"
    lines = [
        f"def {face.__name__}({parameters}):",
        *(["    if axis is not None:", "        dim = axis"] if with_axis else []),
    ]
    before: list[str] = []
    for number, cut in enumerate(cuts):
        head, own = _piece(cut, taken, f"return general({call})")
        if number:  # the names that each has of its own
            names = "|".join(_names_of(cut))
            head, own = [[re.sub(rf"\b({names})\b", rf"\1_{number}", line) for line in lines] for lines in (head, own)]
        if cut.at_once or head != before:  # the same arrays are at hand already
            lines += head
        before = head
        lines += own
    lines.append(f"    return general({call})")
    return "\n".join(lines) + "\n"


def _piece(cut: Shortcut, taken: Any, give_up: str) -> tuple[list[str], list[str]]:
    """The lines of one shortcut of a function with the parameters `taken`: those that lead to its arrays, and the others."""
    op, renamed = cut.op, cut.renamed
    names = () if op is None else op.array_names
    singles = [name for name in names if op is not None and name != op.list_name]
    operands = [name for name in singles if renamed.get(name, name) in taken]
    tensors = [*operands, *cut.beside.split()]
    listed = None if op is None or op.list_of_indices else op.list_name
    raw = {name: f"{name}_array" for name in (*names, *tensors)}
    several = op is not None and op.outputs is not None  # views by construction if they are views
    viewed = op is not None and op.view and not several
    name = tensors[0] if tensors else ""
    plain = [f"(type({tensor}) is Tensor or type({tensor}) in TENSORS)" for tensor in tensors]
    of_cpu = [f"type({raw[tensor]}) is ndarray" for tensor in tensors]
    if listed:
        plain.append(f"(type({listed}) is list or type({listed}) is tuple)")
        of_cpu.append(f"len({raw[listed]}) == len({listed})")
    usual = [
        f"({USUAL[str(parameter.annotation)].format(parameter.name)})"
        for parameter in taken.values()
        if str(parameter.annotation) in USUAL
    ]
    if op is None and not cut.raw:
        of_cpu.append(f"not (({' or '.join([wants_text(tensor) for tensor in tensors])}) and MODES.grad)")
    followed = op is not None and bool(op.differentiable)
    head = [
        *[f"    {taken_name} = {other}" for taken_name, other in renamed.items()],
        *(_at_once_lines(cut, listed) if cut.at_once and listed else []),
        f"    if {' and '.join(plain)}:",
        *[f"        {raw[tensor]} = {tensor}.array" for tensor in tensors],
        *[line for tensor in operands * followed for line in follow_lines(tensor, give_up, "        ")],
        *(_gather_lines(listed, raw[listed]) if listed else []),
        f"        if {' and '.join(of_cpu)}:",
    ]
    indent = " " * (20 if usual else 16)
    lines = [
        "            out = None",
        "            try:",
        *([f"                if {' and '.join(usual)}:"] if usual else []),
        *[indent + line for line in inlined(cut.way, raw, op is not None)],
        "            except MISSES:",
        "                out = None",
        f"            if out is not None{_is_view(raw[name]) if viewed else ''}:",
    ]
    record = []
    if op is not None and op.differentiable:
        kind = "" if several else " and out.dtype.kind in 'fcV'"
        wants = [f"{name}._requires_grad" for name in operands]
        wants += ["wants"] if listed else []
        condition = wants[0] if len(wants) == 1 else f"({' or '.join(wants)})"
        record += [f"    if {condition} and (mode := MODES.grad){kind}:"]
        record += ["        " + line for line in record_lines(op, operands, [], "statics")]
    if cut.raw:
        inner = ["    return out"]
    elif several:
        of_view = f"{name}, op, statics" if op is not None and op.view else "None, None, None"
        inner = ["    node = None", *record, f"    return outputs(out, node, {of_view})"]
    else:
        inner = []
        if not viewed:
            inner += ["    if type(out) is list:", "        return several(out)"] if op is None else []
            inner += ARRAY_LINES
        inner += wrap_lines("out", "result")
        inner += view_lines(op, name, "statics") if viewed and op is not None else []
        inner += record
        inner += ["        result.node = node", "        result._requires_grad = True"] if record else []
        inner += ["    return result"]
    lines += ["            " + line for line in inner]
    return head, lines


def _is_view(array: str) -> str:
    return f" and (base := out.base) is not None and (base is {array} or base is {array}.base)"


def inlined(way: Callable[..., Any], raw: dict[str, str], with_statics: bool) -> list[str]:
    """The lines of a quick way on the arrays `raw`, which set `out` and `statics` where it returns.

    Raises:
        AssertionError: it returns from the middle, or gives a parameter another value.
    """
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(way))).body
    assert isinstance(function, ast.FunctionDef)
    body = [line for line in function.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
    if isinstance(body[-1], ast.Return) and getattr(body[-1].value, "value", 0) is None:
        del body[-1]  # nothing was computed
    if not body:
        return ["pass"]
    parameters = {parameter.arg for parameter in function.args.args}
    for node in ast.walk(ast.Module(body, [])):
        assert not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in parameters), way
    assert _returns_at_the_end(body), f"{way.__name__}: a return stands in the middle"
    changed = _Inlining(raw, with_statics).visit(ast.Module(body, []))
    return ast.unparse(ast.fix_missing_locations(changed)).split("\n")


def _returns_at_the_end(body: list[ast.stmt]) -> bool:
    for line in body[:-1]:
        if any([isinstance(node, ast.Return) for node in ast.walk(line)]):
            return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _returns_at_the_end(last.body) and (not last.orelse or _returns_at_the_end(last.orelse))
    return isinstance(last, ast.Return) or not any([isinstance(node, ast.Return) for node in ast.walk(last)])


class _Inlining(ast.NodeTransformer):
    """Arrays for the tensors' names, and assignments for returns."""

    def __init__(self, raw: dict[str, str], with_statics: bool) -> None:
        self.raw, self.with_statics = raw, with_statics

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.raw.get(node.id, node.id)
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = self.visit(node.value) if node.value is not None else ast.Constant(None)
        if not self.with_statics or not isinstance(value, ast.Tuple):
            return [ast.Assign([ast.Name("out", ast.Store())], value)]
        out, statics, *others = value.elts
        pair = ast.Tuple([ast.Name("out", ast.Store()), ast.Name("statics", ast.Store())], ast.Store())
        lines: list[ast.stmt] = [ast.Assign([pair], ast.Tuple([out, statics], ast.Load()))]
        for operands in others:
            assert isinstance(operands, ast.Dict)
            for name, operand in zip(operands.keys, operands.values, strict=True):
                assert isinstance(name, ast.Constant) and isinstance(name.value, str)
                lines.append(ast.Assign([ast.Name(self.raw[name.value], ast.Store())], operand))
        return lines


def _names_of(cut: Shortcut) -> dict[str, Any]:
    """What the lines of a shortcut call `op`, `compute` and so on."""
    op = cut.op
    used: dict[str, Any] = dict(op=op, MISSES=(*cut.misses, *FLOATING_WARNINGS))
    if cut.compute is not None:
        used["compute"] = _kernel_named(cut.compute)
    if cut.at_once:
        used |= dict(at_once=_kernel_named(cut.at_once.partition("(")[0]), fields=tensor_fields())
    if op is not None:
        used |= dict(NodeClass=node_class_of(op), outputs=outputs_of(op))
    return used


def _kernel_named(text: str) -> Callable[..., Any]:
    family, _, function = text.partition(".")
    return kernel(family, function, ndarray(0))


def _several(arrays: list[Any]) -> tuple[Any, ...]:
    return tuple(map(tensor_class[0].wrap, arrays))


def _gather_lines(listed: str, raw: str) -> list[str]:
    """The arrays of the tensors in a list (fewer where some are none, or not on the CPU), and whether one requires grad."""
    return [
        f"        {raw} = []",
        "        wants = False",
        f"        for one in {listed}:",
        "            if (type(one) is Tensor or type(one) in TENSORS) and type(array := one.array) is ndarray and (",
        "                one._meta is None or not follow_base(one)",
        "            ):",
        f"                {raw}.append(array)",
        "                if one._requires_grad:",
        "                    wants = True",
    ]


def _at_once_lines(cut: Shortcut, listed: str) -> list[str]:
    """The result of the tensors in a list at once, where nothing is recorded."""
    _, _, arguments = cut.at_once.partition("(")
    return [
        f"    if fields and (type({listed}) is list or type({listed}) is tuple):",
        "        try:",
        f"            out = at_once({arguments} if {cut.at_once_when} else None",
        "        except MISSES:",
        "            out = None",
        "        if out is not None:",
        *["        " + line for line in wrap_lines("out", "result")],
        "            return result",
    ]


def parameters_of(face: Callable[..., Any]) -> tuple[str, str]:
    """The parameter list as text, where defaults are `None` until the function's own take their place, and the call."""
    parts, call, starred = [], [], False
    for parameter in inspect.signature(face).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            parts.append(f"*{parameter.name}")
            call.append(f"*{parameter.name}")
            starred = True
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            parts.append(f"**{parameter.name}")
            call.append(f"**{parameter.name}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(parameter.name if parameter.default is parameter.empty else f"{parameter.name}=None")
        call.append(
            f"{parameter.name}={parameter.name}" if parameter.kind is parameter.KEYWORD_ONLY else parameter.name
        )
    return ", ".join(parts), ", ".join(call)
