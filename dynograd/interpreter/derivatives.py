"""Nodes of elementwise ops, whose backward is written from the texts of their derivatives."""

from __future__ import annotations

import re
from typing import Any

from dynograd.arrays import CudaArray
from dynograd.autograd.nodes import Node
from dynograd.base import dtypes
from dynograd.base.generated_sources import run_written
from dynograd.interpreter.fusion import backward_of, least_backward
from dynograd.interpreter.history import GraphSaved
from dynograd.interpreter.shared import node_classes, release_of, tuple_text
from dynograd.ops.layout.broadcasting import convert, fit
from dynograd.ops.op import Op, registry

_names = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_HALVES = (dtypes.float16.num, dtypes.bfloat16.num)


def elementwise_saves(op: Op) -> list[str]:
    texts = " ".join(text for text in op.derivative if text)  # type: ignore[union-attr]
    used = set(_names.findall(texts))
    return [name for name in (*op.array_names, "output") if name in used]


def make_elementwise_node(op: Op) -> type[Node]:
    if op.name in node_classes:
        return node_classes[op.name]
    saves = elementwise_saves(op)
    title = "".join(part.capitalize() for part in op.name.split("_")) + "Backward0"
    made = type(title, (Node,), {"__slots__": (*saves, "adapt"), "saved_names": tuple(saves), "op": op})
    made.release = release_of(op, saves)  # type: ignore[method-assign]
    made.apply = _rule(op, saves, "apply", backward_of(op))  # type: ignore[method-assign]
    made.apply_graph = _rule(op, saves, "apply_graph")  # type: ignore[method-assign]
    node_classes[op.name] = made
    return made


def masked_rules(op: Op, masked: Any) -> tuple[Any, Any]:
    """The node's `apply` and `apply_graph` with `masked(part, g)` in place of each gradient, before it is summed to its operand."""
    saves = elementwise_saves(op)
    return tuple(_rule(op, saves, title, masked=masked) for title in ("apply", "apply_graph"))  # type: ignore[return-value]


def _rule(op: Op, saves: list[str], title: str, fused: Any = None, masked: Any = None) -> Any:
    """A rule of the node as Python, written from the texts of the derivatives."""
    space: dict[str, Any] = {one.name: one.function for one in registry.values() if one.kind != "composed"}
    space |= dict(
        finish=_finish,
        GraphSaved=GraphSaved,
        is_complex=_is_complex,
        is_half=_is_half,
        widened=_widened,
        CudaArray=CudaArray,
        fused=fused,
        masked=masked,
    )
    space["__name__"] = op.forward.__module__
    kind = title if masked is None else f"masked_{title}"
    return run_written(
        f"{kind}/{op.name}",
        lambda: _rule_source(op, saves, title, masked is not None),
        space,
        kept=op.is_of_the_library,
    )[title]


def _rule_source(op: Op, saves: list[str], title: str, masked: bool) -> str:
    texts = op.derivative or ()
    lines = [f"def {title}(node, g):"]
    if title == "apply" and not masked:
        lines += [
            f"    if type(g) is CudaArray or g.size >= {least_backward(op)}:",
            "        parts = fused(node, g)",
            "        if parts is not None:",
            "            adapt = node.adapt",
            "            return parts if adapt is None else finish(parts, adapt, node.edges)",
        ]
    if len(texts) > 1:
        lines.append(f"    {', '.join(f'edge{number}' for number in range(len(texts)))} = node.edges")
    if title == "apply_graph" and saves:
        lines.append("    saved = GraphSaved(node)")
    holder = "saved" if title == "apply_graph" else "node"
    lines += [f"    {name} = {holder}.{name}" for name in saves]
    if op.static_names:
        lines.append(f"    {tuple_text(list(op.static_names))} = node.attrs")
    lines += [
        "    adapt = node.adapt",
        "    if adapt is not None:",
        "        if is_complex(g):",
        "            g = conj(g)",
    ]
    lines += ["        elif is_half(g):", "            g = widened(g)"]
    lines += [f"            {name} = widened({name})" for name in saves]
    parts = []
    for number, text in enumerate(texts):
        if text is None:
            parts.append("None")
            continue
        part = f"masked({text}, g)" if masked else f"({text})"
        parts.append(f"{part} if edge{number} is not None else None" if len(texts) > 1 else part)
    lines += ["    if adapt is None:", f"        return ({', '.join(parts)},)"]
    lines += [f"    return finish(({', '.join(parts)},), adapt, node.edges)"]
    return "\n".join(lines) + "\n"


def _is_complex(g: Any) -> bool:
    return getattr(g, "array", g).dtype.kind == "c"


def _is_half(g: Any) -> bool:
    return getattr(g, "array", g).dtype.num in _HALVES


def _widened(value: Any) -> Any:
    """Half types as float32: a derivative is computed in float32 and rounded once, as the forward is."""
    kind = getattr(getattr(value, "array", value), "dtype", None)
    return convert(value, dtypes.float32) if kind is not None and kind.num in _HALVES else value


def _finish(parts: Any, adapt: tuple, edges: tuple) -> tuple:
    """Gradients back in the shape and dtype of the operands: broadcast dims summed, complex ones conjugated back."""
    found = []
    for part, wanted, edge in zip(parts, adapt, edges, strict=True):
        if part is None or edge is None:
            found.append(None)
            continue
        found.append(fit(part, *wanted))
    return tuple(found)
