"""Functions and nodes of ops that have a forward of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from dynograd import arrays
from dynograd.arrays import FLOATING_WARNINGS, Array, as_result, ndarray
from dynograd.arrays.cuda_arrays import HostReadError, mixed_devices
from dynograd.arrays.meta_arrays import MetaArray, NoValuesError
from dynograd.autograd.nodes import Node, OutputNode, next_seq
from dynograd.base import dtypes
from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.history import GraphSaved, through_decomposition
from dynograd.interpreter.shared import (
    ARRAY_LINES,
    TENSORS,
    argument_lines,
    arguments_text,
    edge_text,
    follow_lines,
    named_outputs,
    node_classes,
    plain_of,
    quietly_lines,
    signature_of,
    static_lines,
    statics_text,
    tensor_class,
    wrap_lines,
)
from dynograd.interpreter.tensor_parts import record_of, tell_watchers, watchers
from dynograd.kernels import kernel
from dynograd.ops.op import Op


def op_source(op: Op) -> str:
    """The text of the op's public function."""
    parameters, _, call = signature_of(op)
    call = [text for text in call if text.partition("=")[0] in op.signature.parameters]
    required = [name for name in op.array_names if name not in op.optional_names and name != op.list_name]
    optional = [name for name in op.array_names if name in op.optional_names]
    arguments = argument_lines(op)
    at_hand = required[:1] if arguments else []
    tests = [f"{name}_array is not {name}" if name in at_hand else f"type({name}) in TENSORS" for name in required]
    tests += [f"({name} is None or type({name}) in TENSORS)" for name in optional]
    if op.list_name:
        list_name = op.list_name
        tests.append(
            f"((type({list_name}) is list and len({list_name}) == 1 and type({list_name}[0]) in TENSORS) or all_tensors({list_name}))"
        )
    lines = [f"def {op.name}({parameters}):", *arguments]
    raw_tests = [f"type({name}) is ndarray" for name in required] + [f"{name} is None" for name in optional]
    if not op.list_name:
        lines += [
            f"    if not ({' and '.join(tests) or 'True'}):",
            f"        if {' and '.join(raw_tests) or 'False'}:",
            f"            return {_plain(op, call)}",
            f"        return other_types(op, {arguments_text(op)})",
        ]
    else:
        lines += [f"    if not ({' and '.join(tests)}):", f"        return other_types(op, {arguments_text(op)})"]
    lines += static_lines(op)
    inner = dict.fromkeys(op.array_names, "")
    for name in required:
        lines += [f"    {name}_array = {name}.array"] * (name not in at_hand)
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
    if isinstance(op.view, str):  # the view is made here, without a call; forward explains what is no view
        text = re.sub(rf"\b{required[0]}\b", f"{required[0]}_array", op.view)
        lines.append(f"    out = {text}")
    else:
        indent = "    "
        if op.few is not None:
            of_cpu = [f"type({inner[name]}) is ndarray" for name in required]
            of_cpu += [f"{inner[required[0]]}.dtype.char in {op.few_dtypes!r}"] * bool(op.few_dtypes)
            lines += ["    out = None", f"    if {' and '.join(of_cpu)}:"]
            lines += ["        try:", f"            out = few({', '.join(inner_call)})", "        except WRONG:"]
            lines += ["            pass", "    if out is None:"]
            indent = "        "
        lines += _place_lines(op, [inner[name] for name in required + optional], indent)
        lines += quietly_lines(f"out = forward({', '.join(inner_call)})", indent)
        lines += [
            f"{indent}except HostReadError as error:",
            f"{indent}    raise device_failure(op, {arguments_text(op)}, error) from None",
        ]
    if op.extras:
        lines.append(f"    out, {', '.join('extra_' + extra for extra in op.extras)} = out")
    give_up = f"return other_types(op, {arguments_text(op)})"
    if op.differentiable:
        for name in required:
            lines += follow_lines(name, give_up)
        for name in optional:
            lines += [f"    if {name} is not None:", *follow_lines(name, give_up, "        ")]
        if op.list_name and not op.list_of_indices:
            lines += [f"    for one in {op.list_name}:", *follow_lines("one", give_up, "        ")]
    wants = [f"{name}._requires_grad" for name in required]
    wants += [f"({name} is not None and {name}._requires_grad)" for name in optional]
    if op.list_name and not op.list_of_indices:
        wants.append(f"any([one._requires_grad for one in {op.list_name}])")
    record = record_lines(op, required, optional, statics_text(op)) if op.differentiable and wants else []
    if op.outputs is None:
        if not isinstance(op.view, str):
            lines += ARRAY_LINES
        lines += wrap_lines("out", "result")
        if op.view and required:
            lines += [
                "    base = out.base",
                f"    if base is not None and (type(out) is ndarray or base is {required[0]}_array.base):",
                *["    " + line for line in view_lines(op, required[0], statics_text(op))],
            ]
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
        viewed = f"{required[0]}, op, {statics_text(op)}" if op.view and required else "None, None, None"
        lines.append(f"    return outputs(out, node, {viewed})")
    return "\n".join(lines) + "\n"


def op_names(op: Op) -> dict[str, Any]:
    """The names that the text uses."""
    _, names, _ = signature_of(op)
    if op.few is not None:
        family, _, function = op.few.partition(".")
        names["few"] = kernel(family, function, ndarray(0))
    return names | dict(
        op=op,
        forward=op.forward,
        NodeClass=node_class_of(op),
        all_tensors=_all_tensors,
        outputs=outputs_of(op),
        plain=plain_of(op),
        any=any,
        HostReadError=HostReadError,
        MetaArray=MetaArray,
        refuse_meta=_refuse_meta,
        WRONG=(TypeError, ValueError, LookupError, *FLOATING_WARNINGS),
        device_failure=_device_failure,
        **names_for_all(),
    )


def _place_lines(op: Op, operands: list[str], indent: str) -> list[str]:
    """The kernel is that of the first operand's device: one of the CPU would read the memory that an operand on "meta" has not got."""
    first, *others = operands or [""]
    lists = [f"*{op.list_name}_array"] if op.list_name and first else []
    if not others and not lists:
        return []
    kinds = [f"type({other})" for other in others]
    on_meta = f"{kinds[0]} is MetaArray" if kinds else "False"
    if len(kinds) > 1:
        on_meta = f"MetaArray in ({', '.join(kinds)})"
    if lists:
        on_meta = (
            f"{on_meta} or MetaArray in map(type, {op.list_name}_array)"
            if kinds
            else f"MetaArray in map(type, {op.list_name}_array)"
        )
        on_meta = f"({on_meta})" if kinds else on_meta
    return [
        f"{indent}if {on_meta} and type({first}) is ndarray:",
        f"{indent}    refuse_meta(op, {', '.join([*operands, *lists])})",
    ]


def _refuse_meta(op: Op, first: Any, *others: Any) -> None:
    if first.ndim:  # numbers may lie anywhere
        at = [other for other in others if other is not None]
        shapes = [tuple(other.shape) for other in at if type(other) is MetaArray]
        raise NoValuesError(
            f"{op.name}: an operand of shape {shapes[0]} lies on device 'meta', which has no values, and the first, of shape {tuple(first.shape)}, "
            f"on 'cpu'. Put both on one device: x.to('meta') for shapes alone, or give the model memory with model.to_empty(device='cpu')."
        )


def _plain(op: Op, call: list[str]) -> str:
    """The op on raw arrays."""
    text = f"forward({', '.join(call)})"
    return text if op.outputs is None and not op.extras else f"plain({text})"


def view_lines(op: Op, base: str, statics: str) -> list[str]:
    """`link_view(result, base, op, statics)`, written out for the usual case."""
    return [
        f"    before = {base}._meta",
        "    if before is None:",
        f"        result._meta = {base}, None, op, {statics}, None, 0",
        "        if watchers:",
        "            tell_watchers(result)",
        "    elif type(before) is tuple:",
        f"        result._meta = before[0], before, op, {statics}, None, before[5]",
        "        if watchers:",
        "            tell_watchers(result)",
        "    else:",
        f"        link_view(result, {base}, op, {statics})",
    ]


def record_lines(op: Op, required: list[str], optional: list[str], statics: str) -> list[str]:
    edges = dict.fromkeys(op.array_names, "None")  # what the caller does not have is a constant
    edges |= {name: edge_text(name) for name in required}
    edges |= {name: f"(None if {name} is None else {edge_text(name)})" for name in optional}
    if op.list_name:
        listed = f"*[{edge_text('one')} for one in {op.list_name}]"
        if op.list_of_indices:
            listed = f"*[None] * len({op.list_name}_array)"
        edges[op.list_name] = listed
    lines = [
        "node = new_node(NodeClass)",
        "node.seq = next_seq()",
        f"node.edges = ({', '.join(edges.values())},)",
        "node.hooks = None",
        f"node.attrs = {statics}",
    ]
    for save in op.saves:
        if save == "output":
            lines.append("node.output = out")
        elif save.startswith("output."):  # one of several; the others may be written in place
            parts = [
                f"out[{number}]" if f"output.{name}" == save else "None" for number, name in enumerate(op.outputs or ())
            ]
            lines.append(f"node.output = ({', '.join(parts)})")
        elif "." in save:
            name, _, what = save.partition(".")
            if name == op.list_name:
                lines.append(f"node.{name}_{what} = [one.{what} for one in {name}_array]")
            elif name in optional:
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
        lines.append("node.outputs_like = list(map(outline, out))")
    lines += ["if mode > 1:", "    show(node)"]
    return lines


def node_class_of(op: Op) -> type[Node]:
    if op.name in node_classes:
        return node_classes[op.name]
    arrays_saved = [save.partition(".")[0] for save in op.saves if "." not in save or save.startswith("output.")]
    if op.decomposition is not None:
        arrays_saved += [name for name in op.array_names if name not in arrays_saved]
    arrays_saved += list(op.extras)
    described = [save.replace(".", "_") for save in op.saves if "." in save and not save.startswith("output.")]
    slots = [*arrays_saved, *described] + (["outputs_like"] if op.outputs is not None else [])
    title = "".join(part.capitalize() for part in op.name.split("_")) + "Backward0"
    names = tuple(arrays_saved)
    body: dict[str, Any] = {"__slots__": tuple(slots), "saved_names": names, "drops": names, "op": op}
    body |= {"apply": _apply_of(op), "apply_graph": _apply_graph_of(op)}
    node_class: type[Node] = type(title, (Node,), body)
    rule = op.fast_backward_rule or op.backward_rule
    if rule is not None and not op.list_name and op.outputs is None:
        node_class.rule = staticmethod(rule)
    node_classes[op.name] = node_class
    return node_class


def _apply_of(op: Op) -> Callable[..., Any] | None:
    rule = op.fast_backward_rule or op.backward_rule
    if rule is None:
        if op.decomposition is not None:
            return lambda node, g: through_decomposition(node, g, False)
        if not op.differentiable:
            return None
        raise AssertionError(f"op {op.name} has no backward")
    if op.list_name:
        inner = rule
        place = op.array_names.index(op.list_name)

        def rule(g: Any, node: Any, *attrs: Any) -> tuple:
            result = inner(g, node, *attrs)
            return (*result[:place], *result[place], *result[place + 1 :])

    if op.outputs is None:
        return lambda node, g: rule(g, node, *node.attrs)

    def apply(node: Any, g: Any) -> Any:
        parts = g.parts
        filled = [
            parts[number] if number in parts else _zeros_beside(parts, shape, kind) if kind.kind in "fcV" else None
            for number, (shape, kind) in enumerate(node.outputs_like)
        ]
        return rule(tuple(filled), node, *node.attrs)

    return apply


def _zeros_beside(parts: dict[int, Any], shape: Any, kind: Any) -> Array:
    """Zeros on the device of the gradients that are there."""
    like = next(iter(parts.values()))
    return arrays.zeros(shape, dtypes.BY_NUM[kind.num], arrays.device_of(getattr(like, "array", like)))


def _apply_graph_of(op: Op) -> Callable[..., Any] | None:
    if op.decomposition is not None:
        return lambda node, g: through_decomposition(node, g, True)
    rule = op.backward_rule
    if rule is None:
        return None

    def apply_graph(node: Any, g: Any) -> Any:
        wrap = tensor_class[0].wrap
        if op.outputs is not None:
            parts = g.parts
            g = tuple(
                parts[number]
                if number in parts
                else wrap(_zeros_beside(parts, shape, kind))
                if kind.kind in "fcV"
                else None
                for number, (shape, kind) in enumerate(node.outputs_like)
            )
        result = rule(g, GraphSaved(node), *node.attrs)
        if op.list_name:
            place = op.array_names.index(op.list_name)
            result = (*result[:place], *result[place], *result[place + 1 :])
        return result

    return apply_graph


def _device_failure(op: Op, arguments: Any, error: Exception) -> Exception:
    """What to raise where a kernel of the CPU met an array of a GPU."""
    arrays_listed: list[Any] = []
    for argument in arguments:
        listed = argument if isinstance(argument, (list, tuple)) else (argument,)
        arrays_listed += [each.array for each in listed if type(each) in TENSORS]
    if len({arrays.device_of(array) for array in arrays_listed}) > 1:
        return mixed_devices(op.name, *arrays_listed)
    return error


def _all_tensors(values: Any) -> bool:
    if type(values) not in (list, tuple):
        return False
    return all([type(value) in TENSORS for value in values])


def outputs_of(op: Op) -> Callable[..., Any] | None:
    if op.outputs is None:
        return None
    pack = tuple if op.outputs == "list" else partial(tuple.__new__, named_outputs(op))

    new = object.__new__

    def outputs(out: Any, node: Any, base: Any, view_op: Any, statics: Any) -> Any:
        cls = tensor_class[0]
        results = []
        if base is None:
            for array in out:
                output = new(cls)
                output.array = array if type(array) is ndarray else as_result(array)
                output.node = output._grad = output._meta = None
                output._requires_grad = False
                results.append(output)
        else:
            silent, before = False, base._meta
            if before is None:
                root, since = base, 0
            elif type(before) is tuple:
                root, since = before[0], before[5]
            else:
                silent = before.silent
                root, before, _, _, _, since = record_of(base, view_op, statics, None)
            if node is not None and node.edges[0] is not (base.node or base):
                since = -1  # the base was written meanwhile: it is to follow
            wants = node is not None and bool(out) and out[0].dtype.kind in "fcV"
            if wants:
                edges, seq = (node,), next_seq()
            for number, array in enumerate(out):
                output = new(cls)
                output.array = array
                output._grad = None
                output._requires_grad = wants
                output._meta = root, before, view_op, statics, number, since
                if wants:
                    part = output.node = new(OutputNode)
                    part.edges = edges
                    part.attrs = number
                    part.seq = seq
                    part.hooks = None
                else:
                    output.node = None
                results.append(output)
            if silent:
                for output in results:
                    output.meta().silent = True
            if watchers:
                tell_watchers(*results)
        if node is not None and base is None:
            edges, seq = (node,), next_seq()
            for number, output in enumerate(results):
                if output.array.dtype.kind in "fcV":
                    part = new(OutputNode)
                    part.edges = edges
                    part.attrs = number
                    part.seq = seq
                    part.hooks = None
                    output.node = part
                    output._requires_grad = True
        return pack(results)

    return outputs
