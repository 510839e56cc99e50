"""Shortcuts: the public face of an op computes in the usual case what the op would give, and calls what it stands for otherwise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from dynograd.arrays import FLOATING_WARNINGS, ndarray
from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.ordinary import node_class_of, outputs_of, record_lines, view_lines
from dynograd.interpreter.shared import wrap_lines
from dynograd.kernels import kernel
from dynograd.ops.op import Op

__all__ = ["parameters_of", "write_shortcut"]


def write_shortcut(
    face: Callable[..., Any],
    op: Op | None,
    text: str,
    when: str,
    beside: str,
    compute: str | None,
    raw_result: bool,
    renamed: dict[str, str],
) -> tuple[str, dict[str, Any]]:
    """Source of `face` with the statements `text`: they make `out`, and `statics`, the other arguments of `op` that describe it.

    Without an op, only where nothing is recorded. It counts where nothing was raised and, if `op` makes views, `out` shares the memory
    of the input; else `face` itself is called.
    """
    parameters, call = parameters_of(face)
    taken = inspect.signature(face).parameters
    with_axis = "axis" not in taken and "dim" in taken and taken["dim"].default is not inspect.Parameter.empty
    if with_axis:  # NumPy's name, as methods of PyTorch take it
        parameters += ", axis=None" if "*" in parameters else ", *, axis=None"
    names = () if op is None else op.array_names
    singles = [name for name in names if op is not None and name != op.list_name]
    given = [name for name in singles if renamed.get(name, name) in taken]
    tensors = [*given, *beside.split()]
    listed = None if op is None or op.list_of_indices else op.list_name
    raw = {name: f"{name}_array" for name in (*names, *tensors)}
    statements = _with_arrays(text, raw).strip().split("\n")
    indent = " " * 20
    several = op is not None and op.outputs is not None  # views by construction if they are views
    viewed = op is not None and op.view and not several
    name = tensors[0] if tensors else ""
    plain = [f"(type({one}) is Tensor or type({one}) in TENSORS)" for one in tensors]
    of_cpu = [f"type({raw[one]}) is ndarray" for one in tensors]
    if listed:
        plain.append(f"(type({listed}) is list or type({listed}) is tuple)")
        of_cpu.append(f"len({raw[listed]}) == len({listed})")
    if op is None and not raw_result:
        of_cpu.append(f"not (({' or '.join([f'{one}._requires_grad' for one in tensors])}) and MODES.grad)")
    lines = [
        f"def {face.__name__}({parameters}):",
        *(["    if axis is not None:", "        dim = axis"] if with_axis else []),
        *[f"    {one} = {other}" for one, other in renamed.items()],
        f"    if {' and '.join(plain)}:",
        *[f"        {raw[one]} = {one}.array" for one in tensors],
        *(_gather_lines(listed, raw[listed]) if listed else []),
        f"        if {' and '.join(of_cpu)}:",
        "            made = None",
        "            try:",
        f"                if {_with_arrays(when, raw)}:",
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
    if raw_result:
        inner = ["    return out"]
    elif several:
        of_view = f"{name}, op, statics" if op is not None and op.view else "None, None, None"
        inner = ["    node = None", *record, f"    return outputs(out, node, {of_view})"]
    else:
        inner = wrap_lines("out", "result")
        inner += view_lines(op, name, "statics") if viewed and op is not None else []
        inner += record
        inner += ["        result.node = node", "        result._requires_grad = True"] if record else []
        inner += ["    return result"]
    lines += ["            " + line for line in inner]
    lines.append(f"    return general({call})")
    space = dict(inspect.unwrap(face).__globals__)  # type: ignore[attr-defined]
    if compute is not None:
        family, _, function = compute.partition(".")
        space["compute"] = kernel(family, function, ndarray(0))
    space |= dict(op=op, general=face, CAUGHT=_CAUGHT, **names_for_all())
    if op is not None:
        space |= dict(NodeClass=node_class_of(op), outputs=outputs_of(op))
    return "\n".join(lines) + "\n", space


_CAUGHT = (TypeError, ValueError, LookupError, BufferError, AttributeError, *FLOATING_WARNINGS)


def _gather_lines(listed: str, raw: str) -> list[str]:
    """The arrays of the tensors in a list (fewer where some are none, or not on the CPU), and whether one requires grad."""
    return [
        f"        {raw} = []",
        "        wants = False",
        f"        for one in {listed}:",
        "            if (type(one) is Tensor or type(one) in TENSORS) and type(array := one.array) is ndarray:",
        f"                {raw}.append(array)",
        "                wants = wants or one._requires_grad",
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
        if one.kind is one.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(one.name if one.default is one.empty else f"{one.name}=None")
        call.append(f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else one.name)
    return ", ".join(parts), ", ".join(call)
