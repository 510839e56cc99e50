"""The code that ops' functions have while a scope is open: look the call up, note its operands, give a Lazy back.

The recorder is a reader (`ops/readers.py`) from the first scope of the process that opens to the last one that closes. Its code is written
for each op; other threads pass through to what lies below.
"""

from __future__ import annotations

import gc
import re
import threading
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.generated_sources import run_source
from dynograd.interpreter import TENSORS
from dynograd.interpreter.shared import argument_lines, arguments_text, signature_of
from dynograd.ops.op import Op
from dynograd.ops.readers import CALLS, Entry, Reader, entry_of
from dynograd.transforms.autobatch.record.forms import frozen
from dynograd.transforms.autobatch.record.pending import Lazy, note_view
from dynograd.transforms.autobatch.record.recorder import OFTEN
from dynograd.transforms.autobatch.record.recording import MISS, extend, record
from dynograd.transforms.autobatch.record.sequence_steps import MOST, operand
from dynograd.transforms.autobatch.record.sequences import MISS as MISS_SEQUENCE
from dynograd.transforms.autobatch.record.sequences import other

_lock = threading.Lock()


class _Recording(Reader):
    name = "recorder"
    sets_aside = ("",)

    def sees(self, entry: Entry) -> bool:
        return entry.op is not None and entry.op.kind != "composed" and bool(entry.op.array_names)

    def write(self, entry: Entry, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
        return _recording_code(entry.op, below, names)


_recording = _Recording()


def open_(scope: Any) -> None:
    """From now on ops called on a thread with a recorder are recorded. `scope.is_open` says that the scope counts among those."""
    with _lock:
        CALLS.scopes += 1
        scope.is_open = True
        if CALLS.scopes == 1:
            _collect_rarely()
        _recording.turn_on(scope)


def close(scope: Any) -> None:
    """May begin anew wherever it was interrupted."""
    with _lock:
        if scope.is_open:
            CALLS.scopes -= 1
            scope.is_open = False
        if CALLS.scopes == 0:
            _collect_as_before()
        _recording.turn_off(scope)


# Python's collector looks at all young objects after so many new ones; while calls are recorded most of them are Lazies, which are no
# garbage and in no cycle.
_YOUNG = 50_000
_thresholds: list[tuple[int, int, int]] = []


def _collect_rarely() -> None:
    threshold = gc.get_threshold()
    if 0 < threshold[0] < _YOUNG:
        _thresholds[:] = [threshold]
        gc.set_threshold(_YOUNG, *threshold[1:])


def _collect_as_before() -> None:
    if _thresholds:
        threshold = _thresholds[0]
        if gc.get_threshold() == (_YOUNG, *threshold[1:]):  # else the program has set its own meanwhile
            gc.set_threshold(*threshold)
        _thresholds.clear()


def records(op: Op) -> bool:
    """Whether calls of the op's function are recorded while a scope is open: it has been called before."""
    entry = entry_of(op.function)
    return entry is not None and entry.written and _recording.times > 0


def _recording_code(op: Op, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
    parameters, _, call = signature_of(op)
    lines = [
        "recorder = $MODES.recorder",
        f"if recorder is None{' or inplace' * op.has_inplace_argument}:",
        f"    return $below({', '.join(call)})",
        *[line[4:] for line in argument_lines(op)],
        *(
            [f"if type({op.array_names[0]}) in $TENSORS:", f"    return $below({', '.join(call)})"]
            if op.view and not op.list_name  # no work, and it must share the memory
            else []
        ),
    ]
    names |= dict(
        op=op,
        below=below,
        record=record,
        extend=extend,
        new=object.__new__,
        simple=frozenset({int, str, type(None)}),
        true=frozen(True),
        false=frozen(False),
        frozen=_frozen,
        operand=_operand,
        note_view=note_view,
        outputs=_outputs,
        MODES=MODES,
        Lazy=Lazy,
        TENSORS=TENSORS,
        this=op,
        compare=operand,
        other=other,
        miss=MISS_SEQUENCE,
    )
    if op.list_name:
        names["lengths"] = _Lengths(op, dict(names))
        lines += [
            f"if type({op.list_name}) is list or type({op.list_name}) is tuple:",
            f"    return $lengths[len({op.list_name})](recorder, {', '.join(op.signature.parameters)})",
            f"return $record(recorder, $op, {arguments_text(op)})",
        ]
    else:
        lines += _lines(op, 0)
    # The defaults are those of the function object.
    return re.sub(r"=default_\w+", "=None", parameters), lines


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
            *[f"    {line.replace('$', '')}" for line in _lines(op, length)],
        ]
        text = "\n".join(lines) + "\n"
        place = list(op.signature.parameters).index(op.list_name or "")
        space = self.space | {"this": (op.name, length, place), "__name__": __name__}
        function = self[length] = run_source(text, f"recorder of {op.name} with {length}", space, {})[op.name]
        return function


_MOST_WRITTEN = 16  # tensors in a list that code is written for


def _listed(op: Op, length: int) -> list[str]:
    return [f"ab_{op.list_name}_{place}" for place in range(length)]


def _lines(op: Op, length: int) -> list[str]:
    """Lines that record a call on `recorder`; with a list, it is of `length` tensors, which have names of their own."""
    arrays_found, keys, unpacked, last, notes = [], [], [], [], []
    compared: list[str] = []
    for name in op.signature.parameters:
        if name in op.array_names:
            for name_of_element in _listed(op, length) if name == op.list_name else [name]:
                compared.append(name_of_element)
                number = len(unpacked) // 2
                part, row, add, base = f"ab_p{number}", f"ab_r{number}", f"ab_a{number}", f"ab_b{number}"
                arrays_found += [
                    f"if type({name_of_element}) is $Lazy:",
                    f"    {part} = {name_of_element}.pending",
                    f"    {row} = {name_of_element}.row",
                    "else:",
                    f"    {part} = shared.get(id({name_of_element}))",
                    f"    if {part} is None:",
                    f"        {part}, {row} = $operand(recorder, {name_of_element})",
                ]
                keys.append(part)
                unpacked += [add, base]
                notes += [f"if {add} is not None:", f"    {add}({base} + {row})"]
            continue
        compared.append(name)
        if name == op.row["by_row"] == "key":
            last.append("ab_own")
            notes.append(f"ab_own({name})")
        elif op.signature.parameters[name].annotation in ("bool", bool):
            keys.append(f"$true if {name} is True else $false if {name} is False else $frozen({name})")
        else:
            keys.append(f"{name} if type({name}) in $simple else $frozen({name})")
    lines = [
        *_comparing_lines(op, compared),
        "shared = recorder.shared",
        *arrays_found,
        f"ab_key = $op, $MODES.grad, {', '.join(f'({key})' for key in keys)}",
        "entry = recorder.table.get(ab_key) or $extend(recorder, ab_key, "
        f"{tuple([key.startswith('ab_p') for key in keys])})",
        "if entry is None:",
        f"    return $record(recorder, $op, {arguments_text(op)})",
        f"{', '.join([*unpacked, *last])}, next_row, out = entry",
        *notes,
    ]
    if op.outputs is None:
        lines += [
            "made = $new($Lazy)",
            "made.pending = out",
            "made.row = row = next_row()",
            f"if row & {OFTEN} == {OFTEN}:",
            "    recorder.check_size()",
        ]
        if op.view:
            lines.append(f"$note_view(made, {op.array_names[0]})")
        lines.append("return made")
    else:
        viewed = op.array_names[0] if op.view else "None"
        lines.append(f"return $outputs(out, next_row(), {viewed})")
    return lines


def _comparing_lines(op: Op, names: list[str]) -> list[str]:
    """Lines for a call while sequences are gone through: it may be the next op of one."""
    same = [
        f"({name} is ab_step.a{place} or $compare(recorder, ab_step, {place}, {name}))"
        for place, name in enumerate(names)
    ]
    single = op.outputs is None
    return [
        "ab_step = recorder.at",
        "if ab_step is not None:",
        *(
            [
                f"    if {' and '.join(['ab_step.of is $this', 'ab_step.grad == $MODES.grad', *same])}:",
                "        recorder.at = ab_step.next",
                f"        return {'ab_step.result' if single else 'ab_step.pack(ab_step.result)'}",
            ]
            if len(names) <= MOST and not op.row["by_row"]
            else []
        ),
        f"    ab_result = $other(recorder, $op, $this, {arguments_text(op)})",
        "    if ab_result is not $miss:",
        "        return ab_result",
    ]


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
    outputs = []
    for port in ports:
        result = object.__new__(Lazy)
        result.pending, result.row = port, row
        if base is not None:
            note_view(result, base)
        outputs.append(result)
    return ports[0].bucket.form.pack(outputs)
