"""Shortcuts: the public face of a view op makes the view itself in the usual case, and calls what it stands for otherwise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.ordinary import node_class_of, outputs_of, record_lines, view_lines
from dynograd.interpreter.shared import wrap_lines
from dynograd.ops.op import Op

__all__ = ["write_shortcut"]


def write_shortcut(face: Callable[..., Any], op: Op, text: str, when: str) -> tuple[str, dict[str, Any]]:
    """Source of `face` with the statements `text`: they make the view `out` and `statics`, the arguments of `op` that describe it.

    The view counts where nothing was raised and `out` shares the memory of the input; else `face` itself is called.
    """
    parameters, call = _parameters(face)
    (name,) = op.array_names
    raw = f"{name}_array"
    statements = re.sub(rf"\b{name}\b", raw, text).strip().split("\n")
    condition = re.sub(rf"\b{name}\b", raw, when)
    indent = " " * 20
    several = op.outputs is not None  # views by construction, in a list
    lines = [
        f"def {face.__name__}({parameters}):",
        f"    if type({name}) is Tensor or type({name}) in TENSORS:",
        f"        {raw} = {name}.array",
        f"        if type({raw}) is ndarray:",
        "            base = None",
        "            try:",
        f"                if {condition}:",
        *[indent + line.strip() for line in statements],
        f"{indent}base = {'out' if several else 'out.base'}",
        "            except (TypeError, ValueError, LookupError, BufferError):",
        "                pass",
        f"            if base is not None{'' if several else f' and (base is {raw} or base is {raw}.base)'}:",
    ]
    record = []
    if op.differentiable:
        kind = "" if several else " and out.dtype.kind in 'fcV'"
        record += [f"    if {name}._requires_grad and (mode := MODES.grad){kind}:"]
        record += ["        " + line for line in record_lines(op, [name], [], "statics")]
    if several:
        inner = ["    node = None", *record, f"    return outputs(out, node, {name}, op, statics)"]
    else:
        inner = [*wrap_lines("out", "result"), *view_lines(op, name, "statics"), *record]
        inner += ["        result.node = node", "        result._requires_grad = True"] if record else []
        inner += ["    return result"]
    lines += ["            " + line for line in inner]
    lines.append(f"    return general({call})")
    names = dict(face.__globals__)
    names |= dict(op=op, NodeClass=node_class_of(op), general=face, outputs=outputs_of(op), **names_for_all())
    return "\n".join(lines) + "\n", names


def _parameters(face: Callable[..., Any]) -> tuple[str, str]:
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
