"""Steps of sequences: an op, and what its arguments are, as the code of ops compares them."""

from __future__ import annotations

from typing import Any

from dynograd.interpreter import TENSORS
from dynograd.transforms.autobatch.record.buckets import Port
from dynograd.transforms.autobatch.record.forms import frozen
from dynograd.transforms.autobatch.record.pending import Kind, Lazy

MOST = 12  # arguments that the code of an op compares
FIELDS = tuple([f"a{place}" for place in range(MOST)])
UNSEEN = object()  # no argument is this
INSIDE, INPUT, AGAIN, FIXED, STATIC = "inside", "input", "again", "fixed", "static"


class Step:
    """An op of a sequence, as the code of ops compares it: `a0` and so on are its arguments by identity.

    `wants` says of each argument what it is: (INSIDE, number of a result), (INPUT, kind), (AGAIN, number of an input), (FIXED, tensor) or
    (STATIC, value as a key).
    """

    __slots__ = (
        *FIELDS,
        "args",
        "form",
        "grad",
        "next",
        "number",
        "of",
        "op",
        "pack",
        "result",
        "results",
        "sequence",
        "wants",
    )

    def __init__(self, sequence: Any = None, number: int = 0) -> None:
        self.sequence, self.number = sequence, number
        self.of: Any = None  # the op; with a list of tensors, (its name, how many, which parameter that is)
        self.op: Any = None
        self.form: Any = None  # of its call alone
        self.next: Any = None
        self.result: Any = None  # the tensor that it gives back, or the list of them that `pack` makes a tuple of
        self.pack: Any = None
        self.grad = -1
        self.wants: tuple[tuple[str, Any], ...] = ()
        self.args: tuple = ()  # how the arguments are nested: for each an index of `wants`, or a list of them
        self.results: list[int] = []  # their numbers


def flat(args: tuple, this: Any) -> list[Any]:
    """The arguments as the fields of a step have them: the tensors of an op's list one by one."""
    if type(this) is not tuple:
        return list(args)
    place = this[2]
    return [*args[:place], *args[place], *args[place + 1 :]]


def operand(recorder: Any, step: Step, place: int, value: Any) -> bool:
    """Whether `value` is what the step has at this place, where it is not the same object; an input is noted."""
    what, content = step.wants[place]
    if what == INPUT:
        if type(value) is Lazy:
            port = value.pending
            if type(port) is not Port or port.kind is not content or port.bucket.recorder is not recorder:
                return False
            recorder.operands.append((value, port, value.row))
            return True
        entry = row_of(recorder, value, content)
        if entry is None:
            return False
        recorder.operands.append((value, *entry))
        return True
    if what == AGAIN:
        return recorder.operands[content][0] is value
    return what == STATIC and is_value(value, content[0])


def row_of(recorder: Any, value: Any, kind: Kind) -> tuple[Any, int] | None:
    """(port, row) of a tensor of this kind that has its value; None for anything else."""
    if type(value) in TENSORS:
        entry = recorder.entry_of(value)
        if type(entry) is tuple and entry[0].kind is kind:
            return entry
    return None


def is_value(value: Any, key: Any) -> bool:
    """Whether an argument is the one with this key."""
    try:
        return bool(frozen(value) == key)
    except TypeError:
        return False


_CONSTANT = (int, float, bool, str, type(None))


def is_constant(value: Any) -> bool:
    """Whether an object is one value for ever."""
    return type(value) in _CONSTANT or (type(value) is tuple and all(map(is_constant, value)))
