"""In-place forms: writes, for `name_` methods, the Python function that computes straight into the tensor's own memory.

It does the usual case only: plain tensors on the CPU of one dtype, that nobody records, in memory of their own. It calls what it
stands for (`general`) wherever something is not so, before anything is written.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import FLOATING_WARNINGS, ndarray, storages
from dynograd.autograd.nodes import outside, place_of
from dynograd.autograd.writes import last_write, stamp, stamps
from dynograd.base.random_streams import default_generator, takers
from dynograd.interpreter.dispatch import names_for_all
from dynograd.interpreter.fusion import into_of, least_size
from dynograd.interpreter.promotion import scalar_of, scalars32, scalars64, whole_of
from dynograd.interpreter.shared import I64, TENSORS, wants_text
from dynograd.interpreter.shortcuts import parameters_of
from dynograd.kernels import kernel
from dynograd.kernels.build.sizes import LOOP_OF_ONE_PASS, UFUNC
from dynograd.kernels.elementwise.ufuncs import FLAT
from dynograd.kernels.small.few_cpu import entries
from dynograd.ops.op import Op, Writing

_WHOLE = frozenset({"add", "sub", "mul"})  # of int64 as they are
_FLOATS, _INTEGERS = "efd", "bBhHiIlLqQ"
# Letters of dtypes, from and to, that NumPy converts as PyTorch does when it assigns.
CASTS = frozenset(
    kinds + other
    for kinds in _FLOATS + _INTEGERS + "?"
    for other in _FLOATS + _INTEGERS + "?"
    if other in _FLOATS + "?" or kinds not in _FLOATS
)
_DEFAULTS = {"clamp": {"min": float("-inf"), "max": float("inf")}}  # what None stands for in functions with numbers


def write_elementwise_into(general: Callable[..., Any], op: Op, target: str = "", depth: int = 1) -> Writing:
    """Source of the in-place form of an elementwise op, for floats of one dtype and numbers; with `target`, of the form with `out=`.

    Args:
        depth: how many frames up the caller is.
    """
    parameters, call = parameters_of(general)
    give_up = [f"        return general({call})"]
    first, *others = op.array_names
    numbers = [*op.static_names, *(["weight"] if op.name == "lerp" else [])]
    others = [name for name in others if name not in numbers]
    operands = ", ".join(["array", *[f"{name}_array" for name in others]])
    if target:
        others.insert(0, first)
        operands = ", ".join([f"{name}_array" for name in others])
    tensor = target or first
    like = ndarray(0)
    fast, least, _ = into_of(op, like)
    flat = FLAT.get(op.name)
    native = fast is not None
    if not native:
        fast = kernel("elementwise", op.name, like)
        small = least_size(op, fast) or sys.maxsize
        least = max(small, LOOP_OF_ONE_PASS) if flat is not None else small
    names: dict[str, Any] = dict(
        fast=fast, flat=flat, scalar=scalar_of, scalars32=scalars32, scalars64=scalars64, whole=whole_of
    )
    taken = inspect.signature(general).parameters
    extras = [name for name in taken if name not in (tensor, *others, *numbers)]
    names |= {f"default_{name}": taken[name].default for name in extras}
    scaled = others[-1] if native and "alpha" in extras else ""
    if scaled:
        extras.remove("alpha")
        names["multiply"] = numpy.multiply
    whole = " or kind is I64" if op.name in _WHOLE else ""
    lines = [
        f"def {general.__name__}({parameters}):",
        f"    if {' or '.join([f'not {_is_plain(tensor)}', *[f'{name} is not default_{name}' for name in extras]])}:",
        *give_up,
        f"    array = {tensor}.array",
        f"    if type(array) is not ndarray or ({wants_text(tensor)} and MODES.grad):",
        *give_up,
        "    kind, base = array.dtype, array.base",
        f"    if not ((kind is F32 or kind is F64) and array.size < {least}{whole}) or (base is not None and 0 in array.strides):",
        *give_up,
    ]
    for name in others:
        raw = f"{name}_array"
        if target and name == first:
            lines += [f"    if {name} is {target}:", f"        {raw} = array"]
        lines += [
            f"    {'elif' if target and name == first else 'if'} {_is_plain(name)}:",
            f"        {raw} = {name}.array",
            f"        if {raw}.dtype is not kind or type({raw}) is not ndarray or ({wants_text(name)} and MODES.grad):",
            *_deeper(give_up),
            f"        if ({raw}.base is not None or base is not None) and overlap_partly(array, {raw}):",
            *_deeper(give_up),
        ]
        if target and name == first:
            lines += [f"        if {raw}.shape != array.shape:", *_deeper(give_up)]
        elif len(op.array_names) == 2 and native:
            lines += [
                f"    elif type({name}) is int or (type({name}) is float{' and kind is not I64' if whole else ''}):",
                "        try:",
                *(
                    ["            if kind is I64:", f"                {raw} = whole({name})", "            else:"]
                    if whole
                    else []
                ),
                *_scalar_lines(raw, name, "                " if whole else "            "),
                "        except OverflowError:",
                *_deeper(give_up),
            ]
        lines += ["    else:", *give_up]
    if scaled:
        lines += _scaled_lines(scaled, give_up)
    if native:
        lines += ["    try:", *_deeper(_run_lines(f"fast({operands}, out=array)")), f"    except {_NOT_WRITTEN}:"]
        lines += ["        pass", "    else:"]
    else:
        lines += _formula_lines(op, operands, others, numbers, names, small, give_up)
        lines += ["    if array is not None:"]
    # What the function stands for is called outside of the handler: its errors are no consequence of the first one.
    alone = f"ALONE + ({first}_array is array)" if target else "ALONE"
    lines += [
        *_deeper([*stamp_lines(tensor, depth, alone=alone), f"    return {tensor}"]),
        f"    return general({call})",
    ]
    text = "\n".join(lines) + "\n"
    return {"function": lambda: text}, names | _names() | dict(general=general)


def _scaled_lines(name: str, give_up: list[str]) -> list[str]:
    """Multiplies a tensor operand of floats by `alpha`, if that is a number."""
    return [
        "    if alpha is not default_alpha:",
        f"        if kind is I64 or not {_is_plain(name)} or (type(alpha) is not float and type(alpha) is not int):",
        *_deeper(give_up),
        "        try:",
        *_scalar_lines("number", "alpha", "            "),
        f"            {name}_array = multiply({name}_array, number)",
        "        except (OverflowError, *FLOATING_WARNINGS):",
        *_deeper(give_up),
    ]


def _formula_lines(
    op: Op, operands: str, others: list[str], numbers: list[str], names: dict[str, Any], small: int, give_up: list[str]
) -> list[str]:
    """Of an op that is no function of NumPy's: by the compiled one that writes, where arrays have one shape; else by way of a new array."""
    lines: list[str] = []
    if numbers:
        told = [f"(type({name}) is not float and type({name}) is not int and {name} is not None)" for name in numbers]
        lines += [f"    if {' or '.join(told)} or ({' is '.join([*numbers, 'None'])}):", *give_up]
    by_way = []
    if op.name in FLAT:
        known = _DEFAULTS.get(op.name, {})
        names |= {f"none_{name}": value for name, value in known.items()}
        values = {name: f"none_{name} if {name} is None else {name}" if name in known else name for name in numbers}
        same = " and ".join(
            [*[f"{name}_array.shape == shape" for name in others], *[f"{name} == {name}" for name in numbers]]
        )
        lines += ["    shape = array.shape"] if others else []
        lines += [f"    if {UFUNC} <= array.size < {LOOP_OF_ONE_PASS}{' and ' * bool(same)}{same}:"]
        for name in numbers:
            lines += [f"        number = {values[name]}", *_scalar_lines(f"{name}_array", "number", "        ")]
        operands_text = ", ".join([operands, *[f"{name}_array" for name in numbers]])
        run = [
            *_run_lines(f"flat[kind.char]({operands_text}, out=array)"),
            f"    except {_NOT_WRITTEN}:",
            "        array = None",
        ]
        lines += _deeper(run)
        by_way = [f"    elif array.size >= {small}:", *give_up, "    else:"]
    statics = ", ".join([operands, *op.static_names, *(["scalar(weight, kind)"] if op.name == "lerp" else [])])
    computed = [
        "    try:",
        f"        made = fast({statics})",
        "    except FLOATING_WARNINGS:",
        f"        made = quietly(fast, {statics})",
        f"    except {_NOT_WRITTEN}:",
        "        made = None",
        "    if made is None or made.shape != array.shape or made.dtype is not kind:",
        *give_up,
        "    array[...] = made",
    ]
    return [*lines, *by_way, *(_deeper(computed) if by_way else computed)]


def write_into(
    general: Callable[..., Any],
    write: Any,
    tensors: str,
    either: str = "",
    listed: str = "",
    when: str = "False",
    text: str = "pass",
) -> Writing:
    """Source of an in-place form by the kernel `write(array, ...)`, which says whether it has written, or only by `text` without one.

    Args:
        tensors: the parameters that are tensors besides the first, in memory of their own.
        either: those that are tensors or numbers.
        listed: the one that is a tuple of tensors.
        text: a statement that writes where `when`, an expression, is true, instead of `write`.
    """
    parameters, call = parameters_of(general)
    give_up = f"return general({call})"
    taken = inspect.signature(general).parameters
    known = {} if write is None else inspect.signature(write).parameters
    first = next(iter(taken))
    whole, both = tensors.split(), either.split()
    extras = [name for name in taken if name not in known and name != first and write is not None]
    names: dict[str, Any] = dict(write=write, kernels=inspect.getmodule(write)) | {
        f"default_{name}": value.default for name, value in taken.items()
    }
    named_dim = "dim" in taken and taken["dim"].default is inspect.Parameter.empty
    if named_dim:  # it may come as `axis`, as methods of PyTorch take it, so that it is missed only where there is none
        positional = [name for name, parameter in taken.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        given_up = {name: name for name in taken if name not in positional}
        parameters = ", ".join([first, *[f"{name}=default_{name}" for name in positional[1:]], "*"])
        parameters += ", " + ", ".join([*[f"{name}=default_{name}" for name in given_up], "axis=None"])
        keywords = "".join([f", {name}={name}" for name in given_up])
        give_up = f"return named(general, axis, [{', '.join(positional)}]{keywords})"
        names |= dict(named=_named, complete=True)
    raw = {name: f"{name}_array" for name in (*whole, *both)}
    usual = [_is_plain(name) for name in (first, *whole)]
    types = [f"type({operand}) is ndarray" for operand in ("array", *[raw[name] for name in whole])]
    wants = " or ".join([wants_text(name) for name in (first, *whole)])
    usual += [f"{name} is default_{name}" for name in extras]
    usual += ["axis is None"] if named_dim else []
    lines = [
        f"def {general.__name__}({parameters}):",
        f"    if not ({' and '.join(usual)}):",
        f"        {give_up}",
        f"    array = {first}.array",
        *[f"    {raw[name]} = {name}.array" for name in whole],
        f"    if not ({' and '.join(types)}) or (({wants}) and MODES.grad):",
        f"        {give_up}",
        "    base, key = array.base, id(array)",
    ]
    for name in both:
        lines += [
            f"    if {_is_plain(name)}:",
            f"        {raw[name]} = {name}.array",
            f"        if ({wants_text(name)} and MODES.grad) or not (apart(array, {raw[name]}) if base is not None or "
            f"{raw[name]}.base is not None else {raw[name]} is not array):",
            f"            {give_up}",
            f"    elif type({name}) in PLAIN:",
            f"        {raw[name]} = {name}",
            "    else:",
            f"        {give_up}",
        ]
    if whole:
        based = " or ".join(["base is not None", *[f"{raw[name]}.base is not None" for name in whole]])
        same = " and ".join([f"{raw[name]} is not array" for name in whole])
        lines += [f"    if not (apart(array, {', '.join([raw[name] for name in whole])}) if {based} else {same}):"]
        lines += [f"        {give_up}"]
    else:
        lines += ["    if base is not None and 0 in array.strides:", f"        {give_up}"]
    if listed:
        raw[listed] = f"{listed}_arrays"
        lines += [
            f"    {raw[listed]} = arrays_of({listed}, array)",
            f"    if {raw[listed]} is None:",
            f"        {give_up}",
        ]
    operands = []
    for name in list(known)[1:]:
        if name in taken:
            value = raw.get(name, name)
            operands.append(f"{name}={value}" if known[name].kind is known[name].KEYWORD_ONLY else value)
    lines += [
        "    try:",
        f"        if {when}:",
        f"            {text}",
        f"        elif not write({', '.join(['array', *operands])}):" if write is not None else "        else:",
        f"            {give_up}",
        "    except NOT_WRITTEN:  # the op says what is wrong",
        "        pass",
        "    else:",
        *_deeper([*stamp_lines(first, key="key"), f"    return {first}"]),
        f"    {give_up}",
    ]
    text = "\n".join(lines) + "\n"
    return {"function": lambda: text}, names | _names() | dict(general=general)


def _named(general: Callable[..., Any], axis: Any, args: list[Any], **kwargs: Any) -> Any:
    """`general` with `axis`, where it is given, for the dim, and without the arguments that were not given."""
    if axis is not None:
        args[1] = axis
    while args[-1] is inspect.Parameter.empty:
        args.pop()
    return general(*args, **kwargs)


def stamp_lines(tensor: str, depth: int = 1, key: str = "id(array)", alone: str = "ALONE") -> list[str]:
    """`stamp(array)`, written out for memory that belongs to `array` itself, and was stamped as a whole before.

    Where nobody but the tensor has the array, and so no node either, nobody can ask who wrote: it is only counted.
    """
    return [
        f"    meta = {tensor}._meta",
        "    if meta is None or type(meta) is tuple or not meta.silent:",
        f"        entry = stamps.get({key}) if base is None else None",
        f"        if entry is not None and getrefcount(array) == {alone}:",
        "            entry.count += 1",
        "        else:",
        f"            frame = getframe({depth})",
        "            code = frame.f_code",
        "            if entry is None or code is not outside[0] or entry.regions:",
        "                stamp(array, place_of(frame))",
        "            else:",
        "                now = last_write[0] = next_seq()",
        "                entry.count += 1",
        "                entry.whole = now, code, frame.f_lasti",
    ]


def _holders(tensor: Any) -> int:
    array = tensor.array
    return sys.getrefcount(array)


# What Python counts in written code for an array that the tensor alone has, which differs between its versions.
ALONE = _holders(SimpleNamespace(array=numpy.empty(0)))


_NOT_WRITTEN = "(ValueError, TypeError)"  # shapes, or memory that may not be written


def _run_lines(call: str) -> list[str]:
    return [
        "    try:",
        f"        {call}",
        "    except FLOATING_WARNINGS:  # raised when everything is written",
        "        pass",
    ]


def _scalar_lines(target: str, number: str, indent: str) -> list[str]:
    """`target` is the number as a remembered 0-d array of dtype `kind`."""
    return [
        f"{indent}{target} = (scalars32 if kind is F32 else scalars64).get({number})",
        f"{indent}if {target} is None:",
        f"{indent}    {target} = scalar({number}, kind)",
    ]


def _is_plain(name: str) -> str:
    return f"(type({name}) is Tensor or type({name}) in TENSORS)"


def _deeper(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def apart(array: Any, *others: Any) -> bool:
    """Whether `array` may be written while the others are read, which are no part of its memory."""
    if array.base is not None and 0 in array.strides:
        return False
    owner = arrays.base_of(array)
    return all([neighbour is not array and arrays.base_of(neighbour) is not owner for neighbour in others])


def arrays_of(listed: Any, array: Any) -> list[Any] | None:
    """The arrays of tensors in other memory than `array`; None where not all are such."""
    if type(listed) is not tuple and type(listed) is not list:
        return None
    arrays = []
    for element in listed:
        if type(element) not in TENSORS:
            return None
        raw = element.array
        if type(raw) is not ndarray or raw is array:
            return None
        if (raw.base is not None or array.base is not None) and not apart(array, raw):
            return None
        arrays.append(raw)
    return arrays


def _names() -> dict[str, Any]:
    return names_for_all() | dict(
        I64=I64,
        ALONE=ALONE,
        CASTS=CASTS,
        NOT_WRITTEN=(AttributeError, IndexError, OverflowError, TypeError, ValueError, *FLOATING_WARNINGS),
        PLAIN=frozenset({int, float, bool}),
        apart=apart,
        default_generator=default_generator,
        entries=entries,
        arrays_of=arrays_of,
        getframe=sys._getframe,
        getrefcount=sys.getrefcount,
        last_write=last_write,
        outside=outside,
        overlap_partly=storages.overlap_partly,
        place_of=place_of,
        stamp=stamp,
        stamps=stamps,
        takers=takers,
    )
