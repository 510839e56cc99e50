"""The code that ops' functions have while a scope is open: look the call up, note its operands, give a Lazy back.

As everywhere the functions keep their identity and only their code is exchanged, so names imported long ago record too. Code is
written once for each op and exchanged when the first scope of the process opens and the last one closes; other threads pass through
to the ordinary code.
"""

from __future__ import annotations

import gc
import itertools
import threading
import types
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.generated_sources import run_source
from dynograd.interpreter import TENSORS
from dynograd.interpreter.recorded_methods import STATE, note_change
from dynograd.interpreter.shared import arguments_text, signature_of
from dynograd.ops import op as table_of_ops
from dynograd.ops.op import Op, code_below, registry
from dynograd.transforms.autobatch.record.forms import BY_ROW, frozen
from dynograd.transforms.autobatch.record.pending import Lazy, note_view
from dynograd.transforms.autobatch.record.recorder import OFTEN
from dynograd.transforms.autobatch.record.recording import MISS, extend, record

__all__ = ["close", "open_", "records"]

_lock = threading.Lock()
_open = [0]
_exchanged: dict[str, tuple[Any, Any]] = {}  # op -> (function, the code that it had)
_codes: dict[str, tuple[Any, Any]] = {}  # op -> (the code that the written one passes through to, the recording code)


def open_() -> None:
    """From now on ops called on a thread with a recorder are recorded."""
    with _lock:
        _open[0] = STATE.scopes = _open[0] + 1
        if _open[0] == 1:
            note_change()
            _collect_rarely()
            table_of_ops.set_shortcuts_aside(+1)
            table_of_ops.when_written.append(_exchange)
            for op in registry.values():
                if op.kind != "composed" and op.written is None:
                    _exchange(op)


def close() -> None:
    with _lock:
        _open[0] = STATE.scopes = _open[0] - 1
        if _open[0] == 0:
            _collect_as_before()
            table_of_ops.when_written.remove(_exchange)
            table_of_ops.set_shortcuts_aside(-1)
            for function, code in _exchanged.values():
                function.__code__ = code
            _exchanged.clear()


# Python's collector looks at all young objects after so many new ones; while calls are recorded most of them are Lazies, which are no
# garbage and in no cycle.
_YOUNG = 50_000
_thresholds: list[tuple[int, int, int]] = []


def _collect_rarely() -> None:
    found = gc.get_threshold()
    if 0 < found[0] < _YOUNG:
        _thresholds[:] = [found]
        gc.set_threshold(_YOUNG, *found[1:])


def _collect_as_before() -> None:
    if _thresholds:
        found = _thresholds.pop()
        if gc.get_threshold() == (_YOUNG, *found[1:]):  # else the program has set its own meanwhile
            gc.set_threshold(*found)


def _exchange(op: Op) -> None:
    if not op.array_names:
        return
    function: Any = op.function
    code = function.__code__
    if records(op):  # put back by somebody who had found it here (autocast, a profiler)
        return
    known = _codes.get(op.name)
    if known is None or known[0] is not code:
        known = _codes[op.name] = code, _recording_code(op, function)
        code_below[known[1]] = code
    _exchanged[op.name] = function, code
    function.__code__ = known[1]


def records(op: Op) -> bool:
    """Whether calls of the op's function come here first."""
    return op.function.__code__.co_filename.startswith(f"<dynograd {_TITLE}")


_TITLE = "autobatch "
_number = itertools.count().__next__


def _recording_code(op: Op, function: Any) -> Any:
    plain_name = f"ab_plain_{_number()}"  # of this code alone: others may have put theirs over it and under it
    plain = types.FunctionType(function.__code__, function.__globals__, op.name, function.__defaults__)
    plain.__kwdefaults__ = function.__kwdefaults__
    parameters, defaults, call = signature_of(op)
    lines = [
        f"def {op.name}({parameters}):",
        "    recorder = MODES.recorder",
        "    if recorder is None:",
        f"        return {plain_name}({', '.join(call)})",
        *(
            [f"    if type({op.array_names[0]}) in TENSORS:", f"        return {plain_name}({', '.join(call)})"]
            if op.view and not op.list_name  # no work, and it must share the memory
            else []
        ),
    ]
    space = function.__globals__
    if op.list_name:
        space["ab_lengths"] = _Lengths(op, space)
        lines += [
            f"    if type({op.list_name}) is list or type({op.list_name}) is tuple:",
            f"        return ab_lengths[len({op.list_name})](recorder, {', '.join(op.signature.parameters)})",
            f"    return ab_record(recorder, ab_op, {arguments_text(op)})",
        ]
    else:
        lines += _lines(op, 0)
    space.update(
        ab_op=op,
        ab_record=record,
        ab_extend=extend,
        ab_new=object.__new__,
        ab_simple=frozenset({int, str, type(None)}),
        ab_true=frozen(True),
        ab_false=frozen(False),
        ab_frozen=_frozen,
        ab_operand=_operand,
        ab_note_view=note_view,
        ab_outputs=_outputs,
        MODES=MODES,
        Lazy=Lazy,
        TENSORS=TENSORS,
    )
    space[plain_name] = plain
    return _function(op, lines, defaults).__code__


def _function(op: Op, lines: list[str], space: dict[str, Any]) -> Any:
    return run_source("\n".join(lines) + "\n", f"{_TITLE}{op.name}", space)[op.name]


class _Lengths(dict):
    """For an op of a list of tensors: length -> what records a call with so many, given the recorder and the arguments in order."""

    def __init__(self, op: Op, space: dict[str, Any]) -> None:
        self.op, self.space = op, space

    def __missing__(self, length: int) -> Any:
        op = self.op
        if not 0 < length <= _MOST_WRITTEN:
            return lambda recorder, *args: record(recorder, op, args)
        lines = [
            f"def {op.name}(recorder, {', '.join(op.signature.parameters)}):",
            f"    {', '.join(_listed(op, length))}, = {op.list_name}",
            *_lines(op, length),
        ]
        space: dict[str, Any] = {}
        code = _function(op, lines, space).__code__
        made = self[length] = types.FunctionType(code, self.space, op.name)
        return made


_MOST_WRITTEN = 16  # tensors in a list that code is written for


def _listed(op: Op, length: int) -> list[str]:
    return [f"ab_{op.list_name}_{place}" for place in range(length)]


def _lines(op: Op, length: int) -> list[str]:
    """Lines that record a call on `recorder`; with a list, it is of `length` tensors, which have names of their own."""
    found, keys, unpacked, last, notes = [], [], [], [], []
    for name in op.signature.parameters:
        if name in op.array_names:
            for one in _listed(op, length) if name == op.list_name else [name]:
                number = len(unpacked) // 2
                part, row, add, base = f"ab_p{number}", f"ab_r{number}", f"ab_a{number}", f"ab_b{number}"
                found += [
                    f"if type({one}) is Lazy:",
                    f"    {part} = {one}.pending",
                    f"    {row} = {one}.row",
                    "else:",
                    f"    {part} = shared.get(id({one}))",
                    f"    if {part} is None:",
                    f"        {part}, {row} = ab_operand(recorder, {one})",
                ]
                keys.append(part)
                unpacked += [add, base]
                notes += [f"if {add} is not None:", f"    {add}({base} + {row})"]
        elif name == BY_ROW.get(op.name) == "key":
            last.append("ab_own")
            notes.append(f"ab_own({name})")
        elif op.signature.parameters[name].annotation in ("bool", bool):
            keys.append(f"ab_true if {name} is True else ab_false if {name} is False else ab_frozen({name})")
        else:
            keys.append(f"{name} if type({name}) in ab_simple else ab_frozen({name})")
    lines = [
        "    shared = recorder.shared",
        *[f"    {line}" for line in found],
        f"    ab_key = ab_op, MODES.grad, {', '.join(f'({key})' for key in keys)}",
        "    entry = recorder.table.get(ab_key) or ab_extend(recorder, ab_key, "
        f"{tuple([key.startswith('ab_p') for key in keys])})",
        "    if entry is None:",
        f"        return ab_record(recorder, ab_op, {arguments_text(op)})",
        f"    {', '.join([*unpacked, *last])}, next_row, out = entry",
        *[f"    {line}" for line in notes],
    ]
    if op.outputs is None:
        lines += [
            "    made = ab_new(Lazy)",
            "    made.pending = out",
            "    made.row = row = next_row()",
            f"    if row & {OFTEN} == {OFTEN}:",
            "        recorder.check_size()",
        ]
        if op.view:
            lines.append(f"    ab_note_view(made, {op.array_names[0]})")
        lines.append("    return made")
    else:
        viewed = op.array_names[0] if op.view else "None"
        lines.append(f"    return ab_outputs(out, next_row(), {viewed})")
    return lines


def _frozen(value: Any) -> Any:
    try:
        return frozen(value)
    except TypeError:
        return MISS


def _operand(recorder: Any, value: Any) -> tuple[Any, Any]:
    """(what stands in a key for what is no Lazy, its row if it is a row of a port)."""
    kind = type(value)
    if kind in TENSORS:
        entry = recorder.entry_of(value)
        return entry if type(entry) is tuple else (entry, None)
    if value is None or (kind is float and value):
        return value, None
    return ((int, value) if kind is int else MISS), None


def _outputs(ports: Any, row: int, base: Any) -> Any:
    found = []
    for port in ports:
        made = object.__new__(Lazy)
        made.pending, made.row = port, row
        if base is not None:
            note_view(made, base)
        found.append(made)
    return ports[0].bucket.form.pack(found)
