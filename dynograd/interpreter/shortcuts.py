"""Shortcuts: the public face of an op computes in the usual case what the op would give, and calls what it stands for otherwise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from dynograd.arrays import FLOATING_WARNINGS, ndarray
from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.ordinary import node_class_of, outputs_of, record_lines, view_lines
from dynograd.interpreter.shared import ARRAY_LINES, USUAL, tensor_class, wrap_lines
from dynograd.interpreter.tensor_fields import tensor_fields
from dynograd.kernels import kernel
from dynograd.ops.op import Shortcut, Writing

__all__ = ["parameters_of", "write_shortcut"]


def write_shortcut(face: Callable[..., Any], cuts: tuple[Shortcut, ...]) -> Writing:
    """What gives the source of `face`, and its names."""
    space = dict(inspect.unwrap(face).__globals__)  # type: ignore[attr-defined]
    space |= dict(several=_several, general=face, CAUGHT=_CAUGHT, **names_for_all())
    for number, cut in enumerate(cuts):
        space |= {f"{name}_{number}" if number else name: value for name, value in _names_of(cut).items()}
    return {"function": lambda: shortcut_source(face, cuts)}, space


def shortcut_source(face: Callable[..., Any], cuts: tuple[Shortcut, ...]) -> str:
    """Source of `face` with the statements of its shortcuts, of which the first that does what it is for gives the result.

    Their statements make `out`, and `statics`, the other arguments of their op that describe it. Without an op, only where nothing is
    recorded. One counts where nothing was raised and, if the op makes views, `out` shares the memory of the input. Where none does,
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
        head, own = _piece(cut, taken)
        if number:  # the names that each has of its own
            names = "|".join(_names_of(cut))
            head, own = [[re.sub(rf"\b({names})\b", rf"\1_{number}", line) for line in lines] for lines in (head, own)]
        if cut.at_once or head != before:  # the same arrays are at hand already
            lines += head
        before = head
        lines += own
    lines.append(f"    return general({call})")
    return "\n".join(lines) + "\n"


def _piece(cut: Shortcut, taken: Any) -> tuple[list[str], list[str]]:
    """The lines of one shortcut of a function with the parameters `taken`: those that lead to its arrays, and the others."""
    op, when, renamed = cut.op, cut.when, cut.renamed
    names = () if op is None else op.array_names
    singles = [name for name in names if op is not None and name != op.list_name]
    given = [name for name in singles if renamed.get(name, name) in taken]
    tensors = [*given, *cut.beside.split()]
    listed = None if op is None or op.list_of_indices else op.list_name
    raw = {name: f"{name}_array" for name in (*names, *tensors)}
    statements = _with_arrays(cut.text, raw).strip().split("\n")
    indent = " " * 20
    several = op is not None and op.outputs is not None  # views by construction if they are views
    viewed = op is not None and op.view and not several
    name = tensors[0] if tensors else ""
    plain = [f"(type({one}) is Tensor or type({one}) in TENSORS)" for one in tensors]
    of_cpu = [f"type({raw[one]}) is ndarray" for one in tensors]
    if listed:
        plain.append(f"(type({listed}) is list or type({listed}) is tuple)")
        of_cpu.append(f"len({raw[listed]}) == len({listed})")
    usual = [
        f"({USUAL[str(one.annotation)].format(one.name)})" for one in taken.values() if str(one.annotation) in USUAL
    ]
    if op is None and not cut.raw:
        of_cpu.append(f"not (({' or '.join([f'{one}._requires_grad' for one in tensors])}) and MODES.grad)")
    head = [
        *[f"    {one} = {other}" for one, other in renamed.items()],
        *(_at_once_lines(cut.at_once, listed, when) if cut.at_once and listed else []),
        f"    if {' and '.join(plain)}:",
        *[f"        {raw[one]} = {one}.array" for one in tensors],
        *(_gather_lines(listed, raw[listed]) if listed else []),
        f"        if {' and '.join(of_cpu)}:",
    ]
    lines = [
        "            made = None",
        "            try:",
        f"                if {' and '.join([*usual, _with_arrays(when, raw)])}:",
        *[indent + line.strip() for line in statements],
        f"{indent}made = {'out.base' if viewed else 'out'}",
        "            except CAUGHT:",
        "                pass",
        f"            if made is not None{f' and (made is {raw[name]} or made is {raw[name]}.base)' if viewed else ''}:",
    ]
    record = []
    if op is not None and op.differentiable:
        kind = "" if several else " and out.dtype.kind in 'fcV'"
        wants = [f"{one}._requires_grad" for one in given]
        wants += ["wants"] if listed else []
        wanted = wants[0] if len(wants) == 1 else f"({' or '.join(wants)})"
        record += [f"    if {wanted} and (mode := MODES.grad){kind}:"]
        record += ["        " + line for line in record_lines(op, given, [], "statics")]
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


def _names_of(cut: Shortcut) -> dict[str, Any]:
    """What the lines of a shortcut call `op`, `compute` and so on."""
    op = cut.op
    used: dict[str, Any] = dict(op=op)
    if cut.compute is not None:
        used["compute"] = _kernel_named(cut.compute)
    if cut.at_once:
        used |= dict(at_once=_kernel_named(cut.at_once.partition("(")[0]), fields=tensor_fields())
    if op is not None:
        used |= dict(NodeClass=node_class_of(op), outputs=outputs_of(op))
    return used


def _kernel_named(text: str) -> Any:
    family, _, function = text.partition(".")
    return kernel(family, function, ndarray(0))


_CAUGHT = (TypeError, ValueError, LookupError, OverflowError, BufferError, AttributeError, *FLOATING_WARNINGS)


def _several(arrays: list[Any]) -> tuple[Any, ...]:
    return tuple(map(tensor_class[0].wrap, arrays))


def _gather_lines(listed: str, raw: str) -> list[str]:
    """The arrays of the tensors in a list (fewer where some are none, or not on the CPU), and whether one requires grad."""
    return [
        f"        {raw} = []",
        "        wants = False",
        f"        for one in {listed}:",
        "            if (type(one) is Tensor or type(one) in TENSORS) and type(array := one.array) is ndarray:",
        f"                {raw}.append(array)",
        "                if one._requires_grad:",
        "                    wants = True",
    ]


def _at_once_lines(at_once: str, listed: str, when: str) -> list[str]:
    """The result of the tensors in a list at once, where nothing is recorded."""
    _, _, arguments = at_once.partition("(")
    when_of_list = when.replace(f"{listed}[0].", f"{listed}[0].array.")
    return [
        f"    if fields and (type({listed}) is list or type({listed}) is tuple):",
        "        try:",
        f"            out = at_once({arguments} if {when_of_list} else None",
        "        except CAUGHT:",
        "            out = None",
        "        if out is not None:",
        *["        " + line for line in wrap_lines("out", "result")],
        "            return result",
    ]


def _with_arrays(text: str, raw: dict[str, str]) -> str:
    for name, array in raw.items():
        text = re.sub(rf"(?<![.\w]){name}\b", array, text)
    return text


def parameters_of(face: Callable[..., Any]) -> tuple[str, str]:
    """The parameter list as text, where defaults are `None` until the function's own take their place, and the call."""
    parts, call, starred = [], [], False
    for one in inspect.signature(face).parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            parts.append(f"*{one.name}")
            call.append(f"*{one.name}")
            starred = True
            continue
        if one.kind is one.VAR_KEYWORD:
            parts.append(f"**{one.name}")
            call.append(f"**{one.name}")
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(one.name if one.default is one.empty else f"{one.name}=None")
        call.append(f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else one.name)
    return ", ".join(parts), ", ".join(call)
