"""Eager execution: writes, for each op in the table, the Python function that computes it and records it on the tape.

The functions are specialised (no `*args`, no generic apply), because at 0.3 us for a small NumPy call the wrapper is most of the
cost. What each one does: take the arrays out of the tensors, call the forward, wrap the result, and, when a gradient is wanted,
make a node with what the op declared to save. Anything that is not a plain Tensor goes to `other_types`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy

from dynograd import arrays, dtypes
from dynograd.arrays import FLOATING_WARNINGS, as_result, ndarray, quietly
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED, Node, OutputNode, Partial, next_seq, remember_line
from dynograd.errors import DtypeError
from dynograd.kernels import kernel
from dynograd.ops.broadcasting import convert, fit
from dynograd.ops.op import Op, registry
from dynograd.shapes import broadcast_error, broadcast_shapes

__all__ = ["TENSORS", "other_types", "write_function"]

TENSORS: set[type] = set()
NUMBERS = {int, float}
F32, F64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)
_FLOATS = (F32, F64)
_NUMERIC = (bool, int, float, complex, numpy.generic)
_node_classes: dict[str, type[Node]] = {}
tensor_class: list[Any] = [None]


def write_function(op: Op) -> tuple[str, dict[str, Any]]:
    """Source of the op's public function, and the names it uses."""
    if op.kind == "elementwise":
        return _write_elementwise(op)
    return _write_op(op)


# --- ordinary ops ----------------------------------------------------------------------------------------------------------


def _signature(op: Op) -> tuple[str, dict[str, Any], list[str]]:
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


def _write_op(op: Op) -> tuple[str, dict[str, Any]]:
    parameters, names, call = _signature(op)
    required = [name for name in op.array_names if name not in op.optional_names and name != op.list_name]
    optional = [name for name in op.array_names if name in op.optional_names]
    tests = [f"type({name}) in TENSORS" for name in required]
    tests += [f"({name} is None or type({name}) in TENSORS)" for name in optional]
    if op.list_name:
        tests.append(f"all_tensors({op.list_name})")
    lines = [f"def {op.name}({parameters}):"]
    raw_tests = [f"type({name}) is ndarray" for name in required] + [f"{name} is None" for name in optional]
    if not op.list_name:
        lines += [
            f"    if not ({' and '.join(tests) or 'True'}):",
            f"        if {' and '.join(raw_tests) or 'False'}:",
            f"            return plain(forward({', '.join(call)}))",
            f"        return other_types(op, {_arguments(op)})",
        ]
    else:
        lines += [f"    if not ({' and '.join(tests)}):", f"        return other_types(op, {_arguments(op)})"]
    inner = dict.fromkeys(op.array_names, "")
    for name in required:
        lines.append(f"    {name}_array = {name}.array")
        inner[name] = f"{name}_array"
    for name in optional:
        lines.append(f"    {name}_array = None if {name} is None else {name}.array")
        inner[name] = f"{name}_array"
    if op.list_name:
        lines.append(f"    {op.list_name}_array = [one.array for one in {op.list_name}]")
        inner[op.list_name] = f"{op.list_name}_array"
    inner_call = []
    for text in call:
        key, equals, value = text.partition("=")
        inner_call.append(f"{key}={inner.get(value, value)}" if equals else inner.get(key, key))
    lines += _quietly(f"out = forward({', '.join(inner_call)})", "    ")
    if op.extras:
        lines.append(f"    out, {', '.join('extra_' + extra for extra in op.extras)} = out")
    wants = [f"{name}._requires_grad" for name in required]
    wants += [f"({name} is not None and {name}._requires_grad)" for name in optional]
    if op.list_name:
        wants.append(f"any([one._requires_grad for one in {op.list_name}])")
    node_class = _make_node_class(op)
    record = _record_lines(op, required, optional) if op.differentiable and wants else []
    if op.outputs is None:
        lines += ["    if type(out) is not ndarray:", "        out = as_result(out)"]
        lines += _wrap_lines("out", "result")
        if op.view and required:
            lines += ["    if out.base is not None:", f"        link_view(result, {required[0]}, op, {_statics(op)})"]
        if record:
            lines += [f"    if ({' or '.join(wants)}) and (mode := MODES.grad) and out.dtype.kind in 'fcV':"]
            lines += ["        " + line for line in record]
            lines += ["        result.node = node", "        result._requires_grad = True"]
        lines.append("    return result")
    else:
        if record:
            lines += [f"    if ({' or '.join(wants)}) and (mode := MODES.grad):"]
            lines += ["        " + line for line in record]
            lines += ["    else:", "        node = None"]
        else:
            lines.append("    node = None")
        viewed = f"{required[0]}, op, {_statics(op)}" if op.view and required else "None, None, None"
        lines.append(f"    return outputs(out, node, {viewed})")
    names |= dict(
        op=op,
        forward=op.forward,
        NodeClass=node_class,
        all_tensors=_all_tensors,
        outputs=_outputs_of(op),
        plain=_plain_of(op),
        any=any,
        **_common(),
    )
    return "\n".join(lines) + "\n", names


def _quietly(statement: str, indent: str) -> list[str]:
    """`out = f(...)`; where the user has made NumPy's floating-point warnings errors, it is computed again without them."""
    target, _, call = statement.partition(" = ")
    function, _, arguments = call.partition("(")
    return [
        f"{indent}try:",
        f"{indent}    {statement}",
        f"{indent}except FLOATING_WARNINGS:",
        f"{indent}    {target} = quietly({function}, {arguments}",
    ]


def _common() -> dict[str, Any]:
    from_tensor = tensor_class[0]
    return dict(
        TENSORS=TENSORS,
        NUMBERS=NUMBERS,
        MODES=MODES,
        F32=F32,
        F64=F64,
        ndarray=ndarray,
        as_result=as_result,
        quietly=quietly,
        FLOATING_WARNINGS=FLOATING_WARNINGS,
        next_seq=next_seq,
        remember_line=remember_line,
        other_types=other_types,
        link_view=from_tensor.link_view,
        new_tensor=object.__new__,
        Tensor=from_tensor,
        new_node=object.__new__,
    )


def _arguments(op: Op) -> str:
    return "(" + "".join(f"{name}, " for name in op.signature.parameters) + ")"


def _statics(op: Op) -> str:
    return "(" + "".join(f"{name}, " for name in op.static_names) + ")"


def _wrap_lines(array: str, name: str) -> list[str]:
    return [
        f"    {name} = new_tensor(Tensor)",
        f"    {name}.array = {array}",
        f"    {name}.node = None",
        f"    {name}._requires_grad = False",
        f"    {name}._grad = None",
        f"    {name}._meta = None",
    ]


def _edge(name: str) -> str:
    return f"(({name}.node or {name}) if {name}._requires_grad else None)"


def _record_lines(op: Op, required: list[str], optional: list[str]) -> list[str]:
    edges = [_edge(name) for name in required]
    edges += [f"(None if {name} is None else {_edge(name)})" for name in optional]
    positions = {name: number for number, name in enumerate(op.array_names)}
    ordered = [edge for _, edge in sorted(zip([positions[n] for n in required + optional], edges, strict=True))]
    if op.list_name:
        listed = f"*[{_edge('one')} for one in {op.list_name}]"
        ordered.insert(positions[op.list_name], listed)
    lines = [
        "node = new_node(NodeClass)",
        "node.seq = next_seq()",
        f"node.edges = ({', '.join(ordered)},)",
        "node.hooks = None",
        f"node.attrs = {_statics(op)}",
    ]
    for save in op.saves:
        if save == "output":
            lines.append("node.output = out")
        elif "." in save:
            name, _, what = save.partition(".")
            if name == op.list_name:
                lines.append(f"node.{name}_{what} = [one.{what} for one in {name}_array]")
            elif name in op.optional_names:
                lines.append(f"node.{name}_{what} = None if {name} is None else {name}_array.{what}")
            else:
                lines.append(f"node.{name}_{what} = {name}_array.{what}")
        else:
            lines.append(f"node.{save} = {save}_array")
    if op.decomposition is not None:
        lines += [f"node.{name} = {name}_array" for name in op.array_names if name not in op.saves]
    for extra in op.extras:
        lines.append(f"node.{extra} = extra_{extra}")
    if op.outputs is not None:
        lines.append("node.outputs_like = [(one.shape, one.dtype) for one in out]")
    lines += ["if mode > 1:", "    remember_line(node)"]
    return lines


def _make_node_class(op: Op) -> type[Node]:
    if op.name in _node_classes:
        return _node_classes[op.name]
    arrays_saved = [save for save in op.saves if "." not in save]
    if op.decomposition is not None:
        arrays_saved += [name for name in op.array_names if name not in arrays_saved]
    arrays_saved += list(op.extras)
    described = [save.replace(".", "_") for save in op.saves if "." in save]
    slots = [*arrays_saved, *described] + (["outputs_like"] if op.outputs is not None else [])
    title = "".join(part.capitalize() for part in op.name.split("_")) + "Backward0"
    made = type(title, (Node,), {"__slots__": tuple(slots), "saved_names": tuple(arrays_saved), "op": op})
    made.apply, made.apply_graph = _apply_of(op), _apply_graph_of(op)  # type: ignore[method-assign]
    made.release = _release_of(arrays_saved)  # type: ignore[method-assign]
    _node_classes[op.name] = made
    return made


def _release_of(saved_names: list[str]) -> Any:
    """A node's `release`, written out for what this op saves."""
    if not saved_names:
        return None
    lines = ["def release(node):", *[f"    node.{name} = None" for name in saved_names], "    node.attrs = FREED"]
    space: dict[str, Any] = {"FREED": FREED}
    exec("\n".join(lines), space)
    return space["release"]


def _apply_of(op: Op) -> Any:
    rule = op.fast_backward_rule or op.backward_rule
    if rule is None:
        if op.decomposition is not None:
            return lambda node, g: _through_decomposition(node, g, False)
        if not op.differentiable:
            return None
        raise AssertionError(f"op {op.name} has no backward")
    if op.list_name:
        inner = rule
        place = op.array_names.index(op.list_name)

        def rule(g: Any, node: Any, *attrs: Any) -> tuple:  # type: ignore[no-redef]
            found = inner(g, node, *attrs)
            return (*found[:place], *found[place], *found[place + 1 :])

    if op.outputs is None:
        return lambda node, g: rule(g, node, *node.attrs)

    def apply(node: Any, g: Any) -> Any:
        parts = g.parts
        filled = [
            parts[number] if number in parts else arrays.zeros(shape, dtypes.BY_NUM[kind.num]) if kind.kind in "fcV" else None
            for number, (shape, kind) in enumerate(node.outputs_like)
        ]
        return rule(tuple(filled), node, *node.attrs)

    return apply


def _apply_graph_of(op: Op) -> Any:
    if op.decomposition is not None:
        return lambda node, g: _through_decomposition(node, g, True)
    rule = op.backward_rule
    if rule is None:
        return None

    def apply_graph(node: Any, g: Any) -> Any:
        wrap = tensor_class[0].wrap
        if op.outputs is not None:
            parts = g.parts
            g = tuple(
                parts[number] if number in parts else wrap(arrays.zeros(shape, dtypes.BY_NUM[kind.num])) if kind.kind in "fcV" else None
                for number, (shape, kind) in enumerate(node.outputs_like)
            )
        found = rule(g, GraphSaved(node), *node.attrs)
        if op.list_name:
            place = op.array_names.index(op.list_name)
            found = (*found[:place], *found[place], *found[place + 1 :])
        return found

    return apply_graph


saved_forms: list[Any] = []
"""Functions (node, name, value) -> value through which other readers of the table see what a node saved under `create_graph`."""


class GraphSaved:
    """What a node saved, as tensors with their history: what `backward` sees under `create_graph`."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def needs(self, position: int) -> bool:
        return self.node.edges[position] is not None

    def __getattr__(self, name: str) -> Any:
        value = self._with_history(name)
        for form in saved_forms:
            value = form(self.node, name, value)
        return value

    def _with_history(self, name: str) -> Any:
        node = self.node
        value = getattr(node, name)
        op = node.op
        if name in op.extras:
            raise AssertionError(f"{op.name}.backward reads the extra {name!r}, which only fast_backward may do")
        if name == "output":
            if op.outputs is None:
                return with_history(value, node)
            return tuple(
                with_history(one, OutputNode(node, number)) if one.dtype.kind in "fcV" else with_history(one, None)
                for number, one in enumerate(value)
            )
        if name not in op.array_names or value is None:
            return value
        position = op.array_names.index(name)
        if name == op.list_name:
            after = len(op.array_names) - position - 1
            edges = node.edges[position : len(node.edges) - after]
            return [with_history(one, edge) for one, edge in zip(value, edges, strict=True)]
        if op.list_name and op.array_names.index(op.list_name) < position:
            position -= len(op.array_names)
        return with_history(value, node.edges[position])


def with_history(value: Any, edge: Any) -> Any:
    """A tensor on the array `value` whose gradient goes along `edge`."""
    if not arrays.is_array(value):
        return value
    cls = tensor_class[0]
    if edge is not None and not isinstance(edge, Node):
        if edge.array is value:
            return edge
        alias = cls.wrap(value)
        alias.node = alias_of(edge)
        alias._requires_grad = True
        return alias
    made = cls.wrap(value)
    if edge is not None:
        made.node = edge
        made._requires_grad = True
    return made


class AliasBackward(Node):
    """Passes the gradient on unchanged."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        return (g,)

    apply_graph = apply


def alias_of(edge: Any) -> Node:
    node = AliasBackward()
    node.edges, node.seq, node.hooks, node.attrs = (edge,), next_seq(), None, None
    return node


def _through_decomposition(node: Any, g: Any, create_graph: bool) -> Any:
    """Gradients of a fused op through the same function written with other ops."""
    op = node.op
    cls = tensor_class[0]
    saved = GraphSaved(node)
    given: dict[str, Any] = {}
    sources: list[Any] = []
    for name in op.array_names:
        value = getattr(saved, name)
        if not create_graph:
            value = _fresh_leaves(value)
        given[name] = value
        sources += list(value) if isinstance(value, (list, tuple)) else [value]
    given |= dict(zip(op.static_names, node.attrs, strict=True))
    mode = MODES.grad
    MODES.grad = 1
    try:
        parts = op.decomposition(**given)
        parts = parts if isinstance(parts, (tuple, list)) else (parts,)
        wanted = [
            (one if isinstance(one, cls) else None) if edge is not None else None
            for one, edge in zip(sources, node.edges, strict=True)
        ]
        seeds = g.parts if isinstance(g, Partial) else {0: g}
        chosen = [parts[number] for number in seeds]
        grads = cls.gradients(
            chosen,
            [one for one in wanted if one is not None],
            [seed if isinstance(seed, cls) else cls.wrap(as_result(seed)) for seed in seeds.values()],
            create_graph,
        )
    finally:
        MODES.grad = mode
    found = iter(grads)
    result = [None if one is None else next(found) for one in wanted]
    return result if create_graph else [None if one is None else one.array for one in result]


def _fresh_leaves(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_fresh_leaves(one) for one in value]
    if value is None or not value._requires_grad:
        return value
    made = tensor_class[0].wrap(value.array)
    made._requires_grad = True
    return made


def _all_tensors(values: Any) -> bool:
    if type(values) not in (list, tuple):
        return False
    return all([type(value) in TENSORS for value in values])


def _outputs_of(op: Op) -> Any:
    if op.outputs is None:
        return None
    pack = tuple if op.outputs == "list" else named_outputs(op).__call__

    def outputs(out: Any, node: Any, base: Any, view_op: Any, statics: Any) -> Any:
        cls = tensor_class[0]
        made = []
        for number, array in enumerate(out):
            one = cls.wrap(as_result(array))
            if base is not None:
                cls.link_view(one, base, view_op, statics, number)
            if node is not None and one.array.dtype.kind in "fcV":
                one.node = OutputNode(node, number)
                one._requires_grad = True
            made.append(one)
        return pack(made) if op.outputs == "list" else pack(*made)

    return outputs


def named_outputs(op: Op) -> Any:
    from collections import namedtuple

    return namedtuple(op.name, op.outputs)  # type: ignore[misc,arg-type]


def _plain_of(op: Op) -> Any:
    """What the op gives for raw arrays: the forward's result without the extras."""
    if op.extras:
        return lambda out: out[0]
    if op.outputs is not None and op.outputs != "list":
        pack = named_outputs(op)
        return lambda out: pack(*out)
    if op.outputs == "list":
        return tuple
    return lambda out: out


# --- elementwise ops -------------------------------------------------------------------------------------------------------

_names = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def _write_elementwise(op: Op) -> tuple[str, dict[str, Any]]:
    parameters, names, _ = _signature(op)
    operands = list(op.array_names)
    statics = list(op.static_names)
    passed = "".join(f", {name}" for name in statics)
    lines = [f"def {op.name}({parameters}):"]
    allowed = _fast_dtype(op)
    wide = len(operands) > 1
    if not wide:
        only = operands[0]
        lines += [
            f"    if type({only}) not in TENSORS:",
            f"        if type({only}) is ndarray:",
            f"            {only}_array = {only}",
            f"            if {allowed.format(array=f'{only}_array')}:",
            *_quietly(f"out = fast({only}_array{passed})", "                "),
            "                return out",
            f"            return slow(({only}_array,), ({_tuple(statics)}))",
            f"        return other_types(op, {_arguments(op)})",
            f"    {only}_array = {only}.array",
            f"    if type({only}_array) is ndarray and {allowed.format(array=f'{only}_array')}:",
            *_quietly(f"out = fast({only}_array{passed})", "        "),
            "    else:",
            f"        out = slow(({only}_array,), ({_tuple(statics)}))",
            "    adapt = out.dtype.kind == 'c' or out.dtype.itemsize == 2" if op.differentiable else "",
            f"    wants = {only}._requires_grad" if op.differentiable else "",
        ]
    else:
        lines += _wide_lines(op, operands, statics, passed)
    lines += ["    if type(out) is not ndarray:", "        out = as_result(out)"]
    lines += _wrap_lines("out", "result")
    if op.differentiable:
        saves = _elementwise_saves(op)
        edges = ", ".join(
            (_edge(name) if not wide else f"(({name}.node or {name}) if {name}_wants else None)") for name in operands
        )
        lines += ["    if wants and (mode := MODES.grad):"]
        if wide:
            first = operands[0]
            same = " and ".join(f"{first}_array.shape == {name}_array.shape" for name in operands[1:])
            lines += ["        if adapt is None:", f"            adapt = not ({same})"]
        body = ["node = new_node(NodeClass)", "node.seq = next_seq()", f"node.edges = ({edges},)", "node.hooks = None"]
        body.append(f"node.attrs = {_statics(op)}" if statics else "node.attrs = None")
        body += [f"node.{name} = " + ("out" if name == "output" else f"{name}_array") for name in saves]
        described = ", ".join(f"describe({name}_array)" for name in operands)
        body += [f"node.adapt = ({described},) if adapt else None"]
        body += ["if mode > 1:", "    remember_line(node)"]
        lines += ["        " + line for line in body]
        lines += ["        result.node = node", "        result._requires_grad = True"]
        names["NodeClass"] = _make_elementwise_node(op, saves)
    lines.append("    return result")
    like = numpy.empty(())
    names |= dict(
        op=op,
        fast=kernel("elementwise", op.name, like),
        slow=_slow_of(op),
        describe=_describe,
        FLOATS=_FLOATS,
        scalar=_scalar,
        scalars32=_scalars32,
        scalars64=_scalars64,
        BOOL=numpy.dtype(bool),
        broadcast_failure=_broadcast_failure,
        **_common(),
    )
    return "\n".join(line for line in lines if line) + "\n", names


def _tuple(names: list[str]) -> str:
    return "".join(f"{name}, " for name in names)


def _fast_dtype(op: Op) -> str:
    if op.promote == "integer":
        return "{array}.dtype.kind in 'biu'"
    return "({array}.dtype is F32 or {array}.dtype is F64)"


def _wide_lines(op: Op, operands: list[str], statics: list[str], passed: str) -> list[str]:
    """Operands of a binary (or wider) elementwise op: tensors of one dtype, or a tensor and a number, go the fast way."""
    call = ", ".join(f"{name}_array" for name in operands)
    slow = f"out = slow(({call},), ({_tuple(statics)}))"
    values = operands[1:] if op.promote == "select" else operands
    same = " and ".join(f"{name}_array.dtype is kind" for name in values[1:])
    kinds = {
        "arithmetic": "(kind is F32 or kind is F64)",
        "float": "(kind is F32 or kind is F64)",
        "compare": "kind.num < 13",
        "integer": "kind.kind in 'biu'",
        "logical": "True",
        "select": f"{operands[0]}_array.dtype is BOOL",
    }[op.promote]
    tensor = {name: f"type({name}) in TENSORS" for name in operands}
    number = {name: f"type({name}) in NUMBERS" for name in values}

    lines = [f"    if {' and '.join(tensor.values())}:"]
    lines += [f"        {name}_array = {name}.array" for name in operands]
    lines += [f"        kind = {values[0]}_array.dtype"]
    lines += [f"        if {same} and {kinds} and type({values[0]}_array) is ndarray:"]
    lines += _quietly(f"out = fast({call}{passed})", "            ")
    lines += ["            except ValueError as error:", f"                raise broadcast_failure(op, ({call},), error) from None"]
    lines += ["            adapt = None", "        else:", f"            {slow}", "            adapt = True"]
    lines += [f"        {name}_wants = {name}._requires_grad" for name in operands]

    if len(operands) == 2 and op.promote != "integer":
        for one, two in (operands, operands[::-1]):
            lines += [
                f"    elif {tensor[one]} and {number[two]}:",
                f"        {one}_array = {one}.array",
                f"        kind = {one}_array.dtype",
                "        if kind is F32 or kind is F64:",
                f"            {two}_array = (scalars32 if kind is F32 else scalars64).get({two})",
                f"            if {two}_array is None:",
                f"                {two}_array = scalar({two}, kind)",
                *_quietly(f"out = fast({call}{passed})", "            "),
                "            adapt = False",
                "        else:",
                f"            {two}_array = {two}",
                f"            {slow}",
                "            adapt = True",
                f"        {one}_wants = {one}._requires_grad",
                f"        {two}_wants = False",
            ]
    else:
        either = [f"({tensor[name]} or {number[name]})" if name in number else tensor[name] for name in operands]
        lines += [f"    elif {' and '.join(either)} and ({' or '.join(tensor.values())}):"]
        for name in operands:
            lines += [f"        {name}_array = {name}.array if {tensor[name]} else {name}"]
            lines += [f"        {name}_wants = {tensor[name]} and {name}._requires_grad"]
        lines += [f"        {slow}", "        adapt = True"]

    raw = {name: f"type({name}) is ndarray" for name in operands}
    same = " and ".join(f"{name}.dtype is {values[0]}.dtype" for name in values[1:])
    ready = f"{operands[0]}.dtype is BOOL" if op.promote == "select" else f"({values[0]}.dtype is F32 or {values[0]}.dtype is F64)"
    if op.promote == "integer":
        ready = f"{values[0]}.dtype.kind in 'biu'"
    either = [f"({raw[name]} or {number[name]})" if name in number else raw[name] for name in operands]
    lines += [
        f"    elif {' and '.join(raw.values())}:",
        f"        if {same} and {ready}:",
        *_quietly(f"out = fast({', '.join(operands)}{passed})", "            "),
        "            return out",
        f"        return slow(({_tuple(operands)}), ({_tuple(statics)}))",
        f"    elif {' and '.join(either)} and ({' or '.join(raw.values())}):",
        f"        return slow(({_tuple(operands)}), ({_tuple(statics)}))",
        "    else:",
        f"        return other_types(op, {_arguments(op)})",
    ]
    if not op.differentiable:
        return [line for line in lines if "_wants = " not in line and " adapt = " not in line]
    return [*lines, f"    wants = {' or '.join(f'{name}_wants' for name in operands)}"]


_scalars32: dict[Any, Any] = {}
_scalars64: dict[Any, Any] = {}


def _scalar(number: Any, kind: Any) -> Any:
    """A Python number as a 0-d float array (NumPy adds those faster than numbers); repeated numbers are remembered."""
    try:
        made = numpy.array(number, kind)
    except OverflowError:
        made = numpy.array(float("inf") if number > 0 else float("-inf"), kind)
    made.flags.writeable = False
    known = _scalars32 if kind is F32 else _scalars64
    if number and len(known) < 256:  # 0.0 and -0.0 are one key
        known[number] = made
    return made


def _describe(operand: Any) -> Any:
    return (operand.shape, operand.dtype) if isinstance(operand, ndarray) or hasattr(operand, "shape") else ((), None)


def _broadcast_failure(op: Op, operands: tuple, error: Exception) -> Exception:
    shapes = [operand.shape for operand in operands]
    try:
        broadcast_shapes(op.name, *shapes)
    except ValueError:
        return broadcast_error(op.name, *shapes)
    return error


def _slow_of(op: Op) -> Any:
    """Forward with promotion: mixed dtypes, integers where floats come out, half types, numbers."""

    def slow(operands: tuple, statics: tuple) -> Any:
        shapes = [operand.shape for operand in operands if hasattr(operand, "shape")]
        shape = broadcast_shapes(op.name, *shapes)
        kind = dtypes.result_dtype(*(operands[1:] if op.promote == "select" else operands))
        if op.promote == "float" and kind.category < dtypes.FLOATING:
            kind = dtypes.get_default_dtype()
        if op.promote == "integer" and kind.category > dtypes.INTEGER:
            raise DtypeError(f"{op.name}: expected integer or bool tensors, got {kind}. Convert with .long() or .bool() first.")
        compute = dtypes.float32 if kind in (dtypes.float16, dtypes.bfloat16) and op.promote != "select" else kind
        if op.promote == "logical":
            ready = [_as_array(operand, None) for operand in operands]
        elif op.promote == "select":
            ready = [_as_condition(op, operands[0]), *[_as_array(operand, kind) for operand in operands[1:]]]
        else:
            ready = [_as_array(operand, compute) for operand in operands]
        try:
            out = as_result(quietly(kernel("elementwise", op.name, ready[0]), *ready, *statics))
        except TypeError as error:
            raise DtypeError(f"{op.name}: not defined for {kind} ({error}). Convert to a supported dtype first.") from None
        if op.promote in ("arithmetic", "float", "integer"):
            if compute is not kind:
                out = arrays.cast(out, kind)
        if out.shape != shape:
            raise AssertionError(f"{op.name} kernel returned shape {out.shape}, expected {shape}")
        return out

    return slow


def _as_array(operand: Any, kind: Any) -> Any:
    if arrays.is_array(operand):
        return operand if kind is None else arrays.cast(arrays.as_result(operand), kind)
    if kind is None:
        return arrays.from_python(operand, None)
    if kind.category == dtypes.INTEGER:
        return numpy.array(int(operand), dtype=numpy.int64).astype(kind.numpy)
    return arrays.from_python(operand, kind)


def _as_condition(op: Op, condition: Any) -> Any:
    if condition.dtype.kind == "b":
        return arrays.as_result(condition)
    if condition.dtype.num == dtypes.uint8.num:
        return arrays.cast(condition, dtypes.bool)
    raise DtypeError(
        f"{op.name}: expected condition to be a boolean tensor, but got a tensor with dtype {dtypes.of_array(condition)}. "
        f"Compare first, e.g. condition != 0, or use condition.bool()."
    )


def _elementwise_saves(op: Op) -> list[str]:
    texts = " ".join(text for text in op.derivative if text)  # type: ignore[union-attr]
    used = set(_names.findall(texts))
    return [name for name in (*op.array_names, "output") if name in used]


def _make_elementwise_node(op: Op, saves: list[str]) -> type[Node]:
    if op.name in _node_classes:
        return _node_classes[op.name]
    title = "".join(part.capitalize() for part in op.name.split("_")) + "Backward0"
    made = type(title, (Node,), {"__slots__": (*saves, "adapt"), "saved_names": tuple(saves), "op": op})
    made.release = _release_of(saves)  # type: ignore[method-assign]
    space: dict[str, Any] = {one.name: one.function for one in registry.values() if one.kind != "composed"}
    space |= dict(finish=_finish, GraphSaved=GraphSaved, is_complex=_is_complex, is_half=_is_half, widened=_widened)
    space["__name__"] = op.forward.__module__
    texts = op.derivative or ()
    for title, source in (("apply", "node"), ("apply_graph", "GraphSaved(node)")):
        lines = [f"def {title}(node, g):"]
        if len(texts) > 1:
            lines.append(f"    {', '.join(f'edge{number}' for number in range(len(texts)))} = node.edges")
        if title == "apply_graph" and saves:
            lines.append(f"    saved = {source}")
        holder = "saved" if title == "apply_graph" else "node"
        lines += [f"    {name} = {holder}.{name}" for name in saves]
        if op.static_names:
            lines.append(f"    {_tuple(list(op.static_names))} = node.attrs")
        lines += ["    adapt = node.adapt", "    if adapt is not None:", "        if is_complex(g):", "            g = conj(g)"]
        lines += ["        elif is_half(g):", "            g = widened(g)"]
        lines += [f"            {name} = widened({name})" for name in saves]
        parts = []
        for number, text in enumerate(texts):
            if text is None:
                parts.append("None")
            elif len(texts) > 1:
                parts.append(f"({text}) if edge{number} is not None else None")
            else:
                parts.append(f"({text})")
        lines += ["    if adapt is None:", f"        return ({', '.join(parts)},)"]
        lines += [f"    return finish(({', '.join(parts)},), adapt, node.edges)"]
        filename = f"<dynograd backward {op.name}>"
        exec(compile("\n".join(lines) + "\n", filename, "exec"), space)
        setattr(made, title, space[title])
    _node_classes[op.name] = made
    return made


def _is_complex(g: Any) -> bool:
    return getattr(g, "array", g).dtype.kind == "c"


def _is_half(g: Any) -> bool:
    return getattr(g, "array", g).dtype.num in _HALVES


def _widened(value: Any) -> Any:
    """Half types as float32: a derivative is computed in float32 and rounded once, as the forward is."""
    kind = getattr(getattr(value, "array", value), "dtype", None)
    return convert(value, dtypes.float32) if kind is not None and kind.num in _HALVES else value


_HALVES = (dtypes.float16.num, dtypes.bfloat16.num)


def _finish(parts: tuple, adapt: tuple, edges: tuple) -> tuple:
    """Gradients back in the shape and dtype of the operands: broadcast dims summed, complex ones conjugated back."""
    found = []
    for part, wanted, edge in zip(parts, adapt, edges, strict=True):
        if part is None or edge is None:
            found.append(None)
            continue
        found.append(fit(part, *wanted))
    return tuple(found)


# --- everything that is not a plain tensor -----------------------------------------------------------------------------------


def other_types(op: Op, args: tuple) -> Any:
    """An op called with something else than plain tensors.

    In this order: types with `__dynograd_op__` take over; raw arrays and numbers beside tensors become constant tensors;
    raw arrays alone are computed without a tape.
    """
    cls = tensor_class[0]
    names = list(op.signature.parameters)
    given = dict(zip(names, args, strict=True))
    values: list[Any] = []
    for name in op.array_names:
        value = given[name]
        if name == op.list_name and isinstance(value, (list, tuple)):
            values += value
        else:
            values.append(value)
    for value in values:
        handler = getattr(type(value), "__dynograd_op__", None)
        if handler is not None:
            return handler(op, given)
    has_tensor = any([isinstance(value, cls) for value in values])
    for name in op.array_names:
        value = given[name]
        if name == op.list_name:
            if not isinstance(value, (list, tuple)):
                if isinstance(value, cls) or not hasattr(value, "__iter__"):
                    raise TypeError(f"{op.name}(): argument '{name}' must be tuple of Tensors, not {type(value).__name__}.")
                value = list(value)
            given[name] = [_operand(op, name, one, has_tensor) for one in value]
        elif value is None and name in op.optional_names:
            continue
        else:
            given[name] = _operand(op, name, value, has_tensor)
    keywords = {name for name, parameter in op.signature.parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    if has_tensor:
        args = tuple(given[name] for name in names if name not in keywords)
        return op.function(*args, **{name: given[name] for name in keywords})
    if op.kind == "elementwise":
        return _slow_of(op)(tuple(given[name] for name in op.array_names), tuple(given[name] for name in op.static_names))
    return _plain_of(op)(op.forward(**given))


def _operand(op: Op, name: str, value: Any, has_tensor: bool) -> Any:
    cls = tensor_class[0]
    if isinstance(value, cls):
        if type(value) not in TENSORS:
            TENSORS.add(type(value))
        return value
    if op.kind == "elementwise" and isinstance(value, _NUMERIC) and not isinstance(value, numpy.generic):
        wanted = op.promote == "select" and name == op.array_names[0]
        if not wanted and len(op.array_names) > 1:
            return _number_tensor(value) if has_tensor and type(value) not in NUMBERS else value
    if arrays.is_array(value):
        if has_tensor and isinstance(value, numpy.generic):
            return _number_tensor(value.item()) if op.kind == "elementwise" else cls.wrap(as_result(value))
        return cls.wrap(value) if has_tensor else as_result(value)
    if isinstance(value, _NUMERIC):
        if op.kind != "elementwise" and not has_tensor:
            return arrays.from_python(value, None)
        raise TypeError(f"{op.name}(): argument '{name}' must be Tensor, not {type(value).__name__} ({value!r}).")
    raise TypeError(
        f"{op.name}(): argument '{name}' must be Tensor, not {type(value).__name__}. "
        f"Make one with dynograd.tensor(...) or dynograd.as_tensor(...)."
    )


def _number_tensor(value: Any) -> Any:
    return tensor_class[0].wrap(arrays.from_python(value, None))
