"""Nodes of elementwise ops, whose backward is written from the texts of their derivatives."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dynograd.arrays import Array, CudaArray, ndarray
from dynograd.autograd.nodes import Node
from dynograd.base import dtypes
from dynograd.base.generated_sources import run_written
from dynograd.interpreter.fusion import backward_of, least_backward
from dynograd.interpreter.history import GraphSaved
from dynograd.interpreter.shared import node_classes, tuple_text
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.layout.broadcasting import convert, stretch, sum_to
from dynograd.ops.op import Op, registry

_names = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_HALVES = (dtypes.float16.num, dtypes.bfloat16.num)


def elementwise_saves(op: Op) -> list[str]:
    texts = " ".join(text for text in op.derivative or () if text)
    used = set(_names.findall(texts))
    return [name for name in (*op.array_names, "output") if name in used]


def rule_texts(op: Op, masked: bool = False) -> dict[str, Callable[[], str]]:
    """What gives the texts of the node's rules."""
    if not op.differentiable:
        return {}
    return {rule: partial(_rule_source, op, rule, masked) for rule in ("apply", "apply_graph")}


def make_elementwise_node(op: Op, texts: dict[str, Callable[[], str]]) -> type[Node]:
    """The node's class; the rules are among `texts`."""
    if op.name in node_classes:
        return node_classes[op.name]
    saves = tuple(elementwise_saves(op))
    title = "".join(part.capitalize() for part in op.name.split("_")) + "Backward0"
    body: dict[str, Any] = {"__slots__": (*saves, "adapt"), "saved_names": saves, "drops": saves, "op": op}
    body["apply"] = _rule(op, f"op/{op.name}", texts, "apply", fused=backward_of(op))
    body["apply_graph"] = _rule(op, f"op/{op.name}", texts, "apply_graph")
    node_classes[op.name] = node_class = type(title, (Node,), body)
    return node_class


def masked_rules(op: Op, masked: Any) -> tuple[Any, Any]:
    """The node's `apply` and `apply_graph` with `masked(part, g)` in place of each gradient, before it is summed to its operand."""
    texts = rule_texts(op, True)
    title = f"masked/{op.name}"
    return _rule(op, title, texts, "apply", masked=masked), _rule(op, title, texts, "apply_graph", masked=masked)


def _rule(op: Op, title: str, texts: dict[str, Callable[[], str]], rule: str, **names: Any) -> Callable[..., Any]:
    """A rule of the node as Python, written from the texts of the derivatives."""
    space: dict[str, Any] = {entry.name: entry.function for entry in registry.values() if entry.kind != "composed"}
    space |= dict(
        finish=_finish,
        GraphSaved=GraphSaved,
        is_complex=_is_complex,
        is_half=_is_half,
        widened=_widened,
        CudaArray=CudaArray,
        ndarray=ndarray,
        **names,
    )
    if rule == "apply":
        called = [_op_called(op, text) for text in op.derivative or ()]
        space |= {f"kernel_{name}": kernel("elementwise", name, ndarray(0)) for name in called if name is not None}
    space["__name__"] = op.forward.__module__
    return run_written(title, texts, rule, space, kept=op.is_of_the_library)[rule]


def _rule_source(op: Op, title: str, masked: bool) -> str:
    saves = elementwise_saves(op)
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
    kernels = [_op_called(op, text) for text in texts]
    if title == "apply" and not masked and any(kernels) and least_backward(op) < sys.maxsize:
        calls = [f"kernel_{text}" if name else text for text, name in zip(texts, kernels, strict=True)]
        lines += ["    if adapt is None and type(g) is ndarray:", f"        return ({_parts(calls)},)"]
    parts = _parts([f"masked({text}, g)" if masked and text is not None else text for text in texts])
    lines += [
        "    if adapt is None:",
        f"        return ({parts},)",
        f"    return finish(({parts},), adapt, node.edges)",
    ]
    return "\n".join(lines) + "\n"


def _parts(texts: Sequence[str | None]) -> str:
    """The gradients, without those that nobody needs."""
    if len(texts) == 1:
        return str(texts[0])
    return ", ".join(
        [
            "None" if text is None else f"({text}) if edge{number} is not None else None"
            for number, text in enumerate(texts)
        ]
    )


def _op_called(op: Op, text: str | None) -> str | None:
    """The op that a derivative is on what was saved and `g`, all of one dtype here: rules on arrays call its kernel at once."""
    tree = ast.parse(text, mode="eval").body if text is not None else None
    if not isinstance(tree, ast.Call) or not all([isinstance(argument, ast.Name) for argument in tree.args]):
        return None
    arguments = {argument.id for argument in tree.args if isinstance(argument, ast.Name)}
    name = tree.func.id if isinstance(tree.func, ast.Name) else ""
    called = registry.get(name)
    if called is None or called.kind != "elementwise" or called.promote != "arithmetic" or called.static_names:
        return None
    return None if arguments & set(op.static_names) else name


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
    pairs = zip(parts, adapt, edges, strict=True)
    return tuple([None if part is None or edge is None else _fit(part, *like) for part, like, edge in pairs])


def _fit(value: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """A gradient, brought to the shape and dtype of the operand that it belongs to."""
    conjugate = getattr(value, "array", value).dtype.kind == "c"
    if conjugate:
        value = conj(value)
    if value.shape != shape:
        value = sum_to(value, shape) if len(value.shape) >= len(shape) else stretch(value, shape)
        if value.shape != shape:
            value = stretch(value, shape)
    if dtype is not None and getattr(value, "array", value).dtype != dtype:
        value = convert(value, dtypes.BY_NUM[dtype.num])
    return value
