"""Functions of elementwise ops: the kernel is called at once where dtypes agree, promotion goes the slow way."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
from numpy import array as array_of_number

from dynograd.arrays import Array
from dynograd.arrays.cuda_arrays import CudaArray, HostReadError
from dynograd.base.dtypes import OF_NUMBERS, get_default_dtype
from dynograd.interpreter.derivatives import elementwise_saves, make_elementwise_node, rule_texts
from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.fusion import large_of, least_size
from dynograd.interpreter.promotion import (
    broadcast_failure,
    complex_of,
    computes_on,
    describe,
    scalar_of,
    scalars32,
    scalars64,
    slow_of,
    whole_of,
)
from dynograd.interpreter.shared import (
    ARRAY_LINES,
    C64,
    I64,
    arguments_text,
    edge_text,
    follow_lines,
    quietly_lines,
    signature_of,
    static_lines,
    statics_text,
    tuple_text,
    wrap_lines,
)
from dynograd.kernels import kernel
from dynograd.ops.op import Op


def elementwise_texts(op: Op) -> dict[str, Callable[[], str]]:
    """What gives the texts of the op's public function and of its node."""
    return {"function": partial(elementwise_source, op), **rule_texts(op)}


def elementwise_source(op: Op) -> str:
    """The text of the op's public function."""
    parameters, _, _ = signature_of(op)
    operands = list(op.array_names)
    statics = list(op.static_names)
    passed = "".join(f", {name}" for name in statics)
    lines = [f"def {op.name}({parameters}):", *static_lines(op)]
    fast = kernel("elementwise", op.name, numpy.empty(()))
    with_complex = computes_on(op, fast, C64)
    least = least_size(op, fast)
    wide = len(operands) > 1
    if not wide:
        only = operands[0]
        allowed = _fast_dtype(op, with_complex, not statics and computes_on(op, fast, I64))
        lines += [
            f"    if type({only}) not in TENSORS:",
            f"        if type({only}) is ndarray:",
            f"            {only}_array = {only}",
            f"            if {allowed.format(array=f'{only}_array')}:",
            *_call_lines(f"{only}_array", passed, least, "                "),
            "                return out",
            f"            return slow(({only}_array,), ({tuple_text(statics)}))",
            f"        return other_types(op, {arguments_text(op)})",
            f"    {only}_array = {only}.array",
            f"    if type({only}_array) is ndarray and {allowed.format(array=f'{only}_array')}:",
            *_call_lines(f"{only}_array", passed, least, "        "),
            "    else:",
            f"        out = gpu({only}_array{passed}) if type({only}_array) is CudaArray else "
            f"slow(({only}_array,), ({tuple_text(statics)}))",
            "    adapt = out.dtype.kind == 'c' or out.dtype.itemsize == 2" if op.differentiable else "",
            *(follow_lines(only, f"return other_types(op, {arguments_text(op)})") if op.differentiable else ()),
            f"    wants = {only}._requires_grad" if op.differentiable else "",
        ]
    else:
        lines += _wide_lines(op, operands, statics, passed, least, with_complex)
    lines += ARRAY_LINES
    lines += wrap_lines("out", "result")
    if op.differentiable:
        saves = elementwise_saves(op)
        edges = ", ".join(
            (edge_text(name) if not wide else f"(({name}.node or {name}) if {name}_wants else None)")
            for name in operands
        )
        lines += ["    if wants and (mode := MODES.grad):"]
        if wide:
            first = operands[0]
            same = " and ".join(f"{first}_array.shape == {name}_array.shape" for name in operands[1:])
            real = " and kind.kind != 'c'" if with_complex else ""
            lines += ["        if adapt is None:", f"            adapt = not ({same}{real})"]
        body = ["node = new_node(NodeClass)", "node.seq = next_seq()", f"node.edges = ({edges},)", "node.hooks = None"]
        body.append(f"node.attrs = {statics_text(op)}" if statics else "node.attrs = None")
        body += [f"node.{name} = {_kept(op, name, wide)}" for name in saves]
        described = ", ".join(f"describe({name}_array)" for name in operands)
        body += [f"node.adapt = ({described},) if adapt else None"]
        body += ["if mode > 1:", "    show(node)"]
        lines += ["        " + line for line in body]
        lines += ["        result.node = node", "        result._requires_grad = True"]
    lines.append("    return result")
    return "\n".join(line for line in lines if line) + "\n"


def elementwise_names(op: Op) -> dict[str, Any]:
    """The names that the text uses."""
    _, names, _ = signature_of(op)
    if op.differentiable:
        names["NodeClass"] = make_elementwise_node(op, elementwise_texts(op))
    fast = kernel("elementwise", op.name, numpy.empty(()))
    return names | dict(
        op=op,
        fast=fast,
        large=_large_stub(op, fast),
        slow=slow_of(op),
        gpu=_gpu_stub(op),
        CudaArray=CudaArray,
        describe=describe,
        scalar=scalar_of,
        scalars32=scalars32,
        scalars64=scalars64,
        BOOL=numpy.dtype(bool),
        I64=I64,
        whole=whole_of,
        complex=complex,
        complex_of=complex_of,
        default_dtype=get_default_dtype,
        number_array=array_of_number,
        MIXED=frozenset({"fF", "Ff", "dD", "Dd"}),
        broadcast_failure=broadcast_failure,
        HostReadError=HostReadError,
        **names_for_all(),
    )


def _large_stub(op: Op, fast: Any) -> Callable[..., Any]:
    """The op on large arrays; at its first call it takes its own place in the op's function."""

    def load(*arguments: Any) -> Array:
        large = op.function.__globals__["large"] = large_of(op, fast)
        return large(*arguments)

    return load


def _gpu_stub(op: Op) -> Callable[..., Any]:
    """The op's kernel on a GPU; at its first call it takes its own place in the op's function."""

    def load(*arguments: Any) -> Any:
        like = next(argument for argument in arguments if type(argument) is CudaArray)
        result = kernel("elementwise", op.name, like)
        op.function.__globals__["gpu"] = result
        return result(*arguments)

    return load


def _kept(op: Op, name: str, wide: bool) -> str:
    """What the node keeps of `name`: nothing when no operand that wants a gradient has it in its derivative."""
    value = "out" if name == "output" else f"{name}_array"
    if not wide:
        return value
    users = [
        operand
        for operand, text in zip(op.array_names, op.derivative or (), strict=True)
        if text and re.search(rf"\b{name}\b", text)
    ]
    if len(users) == len(op.array_names):
        return value
    return f"{value} if {' or '.join(f'{operand}_wants' for operand in users)} else None"


def _whole_kinds(op: Op) -> str:
    return "iu" if op.name in OF_NUMBERS else "biu"


def _fast_dtype(op: Op, with_complex: bool, with_int: bool = False) -> str:
    if op.promote == "integer":
        return f"{{array}}.dtype.kind in {_whole_kinds(op)!r}"
    more = " or {array}.dtype is I64" if with_int else ""
    more += " or {array}.dtype is C64 or {array}.dtype is C128" if with_complex else ""
    return f"({{array}}.dtype is F32 or {{array}}.dtype is F64{more})"


def _wide_lines(
    op: Op, operands: list[str], statics: list[str], passed: str, least: int, with_complex: bool
) -> list[str]:
    """Operands of a binary (or wider) elementwise op: tensors of one dtype, or a tensor and a number, go the fast way."""
    call = ", ".join(f"{name}_array" for name in operands)
    slow = f"out = slow(({call},), ({tuple_text(statics)}))"
    on_gpu = f"gpu({call}{passed}) if {' or '.join(f'type({name}_array) is CudaArray' for name in operands)} else "
    slow = f"out = {on_gpu}{slow.removeprefix('out = ')}"
    values = operands[1:] if op.promote == "select" else operands
    same = " and ".join(f"{name}_array.dtype is kind" for name in values[1:])
    more = " or kind is C64 or kind is C128" if with_complex else ""
    kinds = {
        "arithmetic": f"(kind is F32 or kind is F64 or kind is I64{more})",
        "float": f"(kind is F32 or kind is F64{more})",
        "compare": f"(kind.num < 13{more})",
        "integer": f"kind.kind in {_whole_kinds(op)!r}",
        "logical": "True",
        "select": f"{operands[0]}_array.dtype is BOOL",
    }[op.promote or "arithmetic"]
    tensor = {name: f"type({name}) in TENSORS" for name in operands}
    number = {name: f"type({name}) in NUMBERS" for name in values}

    lines = [f"    if {' and '.join(tensor.values())}:"]
    lines += [f"        {name}_array = {name}.array" for name in operands]
    lines += [f"        kind = {values[0]}_array.dtype"]
    lines += [f"        if {same} and {kinds} and type({values[0]}_array) is ndarray:"]
    lines += _call_lines(call, passed, least, "            ")
    lines += _failure_lines(call)
    mixed = _mixed_lines(values, call) if with_complex and len(operands) == 2 else []
    alike = f"type({values[0]}_array) is CudaArray and {same} and kind.kind == 'f'"
    lines += ["            adapt = None", *mixed, "        else:", f"            {slow}"]
    lines += [f"            adapt = None if {alike} else True"]
    for name in operands:
        lines += _wants_lines(op, name)

    # One number among tensors: as a 0-d array of their dtype.
    condition = f" and {operands[0]}_array.dtype is BOOL" if op.promote == "select" else ""
    for two in values if op.promote != "integer" else ():
        others = [name for name in operands if name != two]
        tensor_name, *rest = [name for name in values if name != two]
        same = "".join(f" and {name}_array.dtype is kind" for name in rest)
        lines += [f"    elif {number[two]} and {' and '.join(tensor[name] for name in others)}:"]
        lines += [f"        {name}_array = {name}.array" for name in others]
        lines += [
            f"        kind = {tensor_name}_array.dtype",
            f"        if (kind is F32 or kind is F64) and type({tensor_name}_array) is ndarray{same}{condition}:",
            *_scalar_lines(f"{two}_array", two),
            *_call_lines(call, passed, least, "            ", without=f"{two}_array"),
            *(_failure_lines(call) if len(others) > 1 else []),
            f"            adapt = {len(others) > 1}",
            *(_whole_lines(op, two, tensor_name, call) if len(operands) == 2 else []),
            *(_complex_lines(two, tensor_name, call) if with_complex and len(operands) == 2 else []),
            "        else:",
            f"            {two}_array = {two}",
            f"            {slow}",
            "            adapt = True",
            *[line for name in others for line in _wants_lines(op, name)],
            f"        {two}_wants = False",
        ]
    if op.promote == "select" and len(values) == 2 and not statics:
        lines += _two_number_lines(operands, tensor[operands[0]], call, slow)
    if len(operands) > 2 or op.promote == "integer":
        either = [f"({tensor[name]} or {number[name]})" if name in number else tensor[name] for name in operands]
        lines += [f"    elif {' and '.join(either)} and ({' or '.join(tensor.values())}):"]
        for name in operands:
            lines += [f"        {name}_array = {name}.array if {tensor[name]} else {name}"]
            if op.differentiable:
                lines += [f"        {name}_wants = False", f"        if {tensor[name]}:"]
                lines += ["    " + line for line in _wants_lines(op, name)]
        lines += [f"        {slow}", "        adapt = True"]

    # Arrays: what backward rules compute on.
    raw = {name: f"type({name}) is ndarray" for name in operands}
    same = " and ".join(f"{name}.dtype is {values[0]}.dtype" for name in values[1:])
    floats = _fast_dtype(op, with_complex).format(array=values[0])
    ready = f"{operands[0]}.dtype is BOOL" if op.promote == "select" else floats
    lines += [
        f"    elif {' and '.join(raw.values())}:",
        f"        if {same} and {ready}:",
        *_call_lines(", ".join(operands), passed, least, "            "),
        "            return out",
        f"        return slow(({tuple_text(operands)}), ({tuple_text(statics)}))",
    ]
    for two in values if len(values) == 2 and op.promote != "integer" else ():  # where(mask, g, 0.0)
        (tensor_name,) = [name for name in values if name != two]
        condition = f" and {operands[0]}.dtype is BOOL" if op.promote == "select" else ""
        passed_on = ", ".join("found" if name == two else name for name in operands)
        lines += [
            f"    elif {number[two]} and {' and '.join(raw[name] for name in operands if name != two)}:",
            f"        kind = {tensor_name}.dtype",
            f"        if (kind is F32 or kind is F64){condition}:",
            *_scalar_lines("found", two),
            *_call_lines(passed_on, passed, least, "            ", without="found"),
            "            return out",
            f"        return slow(({tuple_text(operands)}), ({tuple_text(statics)}))",
        ]
    if with_complex and len(operands) == 2:
        for two, tensor_name in ((operands[1], operands[0]), (operands[0], operands[1])):
            lines += _complex_number_lines(op, two, tensor_name, tensor[tensor_name], call, slow)
    lines += ["    else:", f"        return other_types(op, {arguments_text(op)})"]
    if not op.differentiable:
        return [line for line in lines if "_wants = " not in line and " adapt = " not in line]
    return [*lines, f"    wants = {' or '.join(f'{name}_wants' for name in operands)}"]


def _wants_lines(op: Op, name: str) -> list[str]:
    """Whether an operand requires grad, after it has followed its base."""
    if not op.differentiable:
        return []
    give_up = f"return other_types(op, {arguments_text(op)})"
    return [*follow_lines(name, give_up, "        "), f"        {name}_wants = {name}._requires_grad"]


def _call_lines(operands: str, passed: str, least: int, indent: str, without: str = "") -> list[str]:
    """`out` by the kernel `fast`, or by `large` when an operand (not the number `without`) has `least` elements."""
    call = f"{operands}{passed}"
    operands_text = f"({operands},), ({passed[2:]},)" if passed else f"({operands},), ()"
    elsewhere = [f"{indent}except HostReadError:", f"{indent}    out = slow({operands_text})"]  # an operand on a GPU
    if not least:
        return [*quietly_lines(f"out = fast({call})", indent), *elsewhere]
    small = " and ".join(f"{name}.size < {least}" for name in operands.split(", ") if name != without)
    return [
        f"{indent}try:",
        f"{indent}    out = fast({call}) if {small} else large({call})",
        f"{indent}except FLOATING_WARNINGS:",
        f"{indent}    out = quietly(fast, {call})",
        *elsewhere,
    ]


def _whole_lines(op: Op, two: str, tensor_name: str, call: str) -> list[str]:
    """An int beside a tensor of int64."""
    if op.promote not in ("arithmetic", "compare") or op.static_names:
        return []
    return [
        f"        elif kind is I64 and type({two}) is int and type({tensor_name}_array) is ndarray:",
        f"            {two}_array = whole({two})",
        *quietly_lines(f"out = fast({call})", "            "),
        "            adapt = False",
    ]


def _two_number_lines(operands: list[str], is_tensor: str, call: str, slow: str) -> list[str]:
    """A choice between two ints, or two floats."""
    condition, first, second = operands
    return [
        f"    elif type({first}) in NUMBERS and type({second}) is type({first}) and {is_tensor}:",
        f"        {condition}_array = {condition}.array",
        f"        if type({condition}_array) is ndarray and {condition}_array.dtype is BOOL:",
        f"            kind = I64 if type({first}) is int else default_dtype().numpy",
        *[f"            {name}_array = number_array({name}, kind)" for name in (first, second)],
        f"            out = fast({call})",
        "        else:",
        *[f"            {name}_array = {name}" for name in (first, second)],
        f"            {slow}",
        "        adapt = True",
        *[f"        {name}_wants = False" for name in operands],
    ]


def _mixed_lines(values: list[str], call: str) -> list[str]:
    """Real beside complex tensors of the same precision, as NumPy takes them too."""
    two = values[1]
    arrays_of_dims = " and ".join([f"type({name}_array) is ndarray and {name}_array.ndim" for name in values])
    return [
        f"        elif kind.char + {two}_array.dtype.char in MIXED and {arrays_of_dims}:",
        *quietly_lines(f"out = fast({call})", "            "),
        *_failure_lines(call),
        "            adapt = True",
    ]


def _complex_lines(two: str, tensor_name: str, call: str) -> list[str]:
    """A number beside a complex tensor."""
    return [
        f"        elif (kind is C64 or kind is C128) and type({tensor_name}_array) is ndarray:",
        f"            {two}_array = complex_of({two}, kind)",
        *quietly_lines(f"out = fast({call})", "            "),
        "            adapt = True",
    ]


def _complex_number_lines(op: Op, two: str, tensor_name: str, is_tensor: str, call: str, slow: str) -> list[str]:
    """A complex number beside a float or complex tensor."""
    return [
        f"    elif type({two}) is complex and {is_tensor}:",
        f"        {tensor_name}_array = {tensor_name}.array",
        f"        {two}_array = complex_of({two}, {tensor_name}_array.dtype)",
        f"        if {two}_array is not None and type({tensor_name}_array) is ndarray:",
        *quietly_lines(f"out = fast({call})", "            "),
        "        else:",
        f"            {two}_array = {two}",
        f"            {slow}",
        "        adapt = True",
        *_wants_lines(op, tensor_name),
        f"        {two}_wants = False",
    ]


def _scalar_lines(target: str, number: str) -> list[str]:
    """`target` is the number as a remembered 0-d array of dtype `kind`."""
    return [
        f"            {target} = (scalars32 if kind is F32 else scalars64).get({number})",
        f"            if {target} is None:",
        f"                {target} = scalar({number}, kind)",
    ]


def _failure_lines(call: str) -> list[str]:
    """After `quietly_lines`: NumPy's error for shapes that do not broadcast, as ours."""
    return [
        "            except ValueError as error:",
        f"                raise broadcast_failure(op, ({call},), error) from None",
    ]
