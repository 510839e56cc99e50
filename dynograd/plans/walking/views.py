"""Views by the functions that a program calls (`permute`, `x[:, 0]`): a step remembers the call that has led to it.

Such a function puts its arguments in order and calls one op, which costs more than the op. The same call of it leads to the same step again
as long as the operand has the shape and strides that it had.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.shapes import Size
from dynograd.ops.readers import Entry
from dynograd.plans.comparing import same
from dynograd.plans.handed import Handed

__all__ = ["VIEW_LINES", "view_names"]

VIEW_LINES = [
    "_walk = $MODES.plan",
    "if type(_walk) is not $Walk:",
    "    $pass_by()",
    "    return $below(*args, **kwargs)",
    "_step = _walk.at",
    "_call = _step.call",
    "if _call is not None and args and _step.a0 is (_input := args[0]) and type(_input) is $Handed and not kwargs:",
    "    _this, _rest, _count, _args, _value, _shape = _call",
    "    if _args is _step.args and _value is _input.value and _value.shown is _shape and _this is $this:",
    "        if (len(args) == _count and $all($map($is_, _rest, args[1:]))) or $same(_rest, args[1:]):",
    "            if _step.grad == $MODES.grad:",
    "                _walk.at = _step.next",
    "                return _step.result if type(_step.result) is $Handed else _step.outcome()",
    "return $first_call($this, $below, args, kwargs)",
]
_PLAIN = frozenset({int, slice, type(None), type(Ellipsis)})


def view_names(entry: Entry, below: Callable, walk_class: type, pass_by: Callable[[], None]) -> dict[str, Any]:
    """What `VIEW_LINES` name."""
    names = dict(below=below, this=entry, MODES=MODES, Walk=walk_class, same=same, pass_by=pass_by, Handed=Handed)
    return names | dict(first_call=_first_call, is_=is_, all=all, map=map)


def _first_call(entry: Entry, below: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The call as it is; the step remembers it where it has led over this step to its result and nowhere else."""
    walk = MODES.plan
    step = walk.at
    result = below(*args, **kwargs)
    if MODES.plan is walk and walk.at is step.next and step.of is not None and _is_of(step, result):
        if step.of.op.view and args and step.a0 is args[0] and type(args[0]) is Handed and _is_plain(args[1:]):
            value = args[0].value
            step.call = None if kwargs else (entry, args[1:], len(args), step.args, value, value.shown)
    return result


def _is_of(step: Any, result: Any) -> bool:
    """Whether this is what the step gives."""
    own = step.result
    if type(own) is Handed:
        return result is own
    return type(result) is type(own) and len(result) == len(own) and all(map(is_, result, own))


def _is_plain(values: Any) -> bool:
    """Whether they are numbers and slices of numbers: nothing that a step would keep alive."""
    for value in values:
        kind = type(value)
        if kind is slice:
            if not _is_plain((value.start, value.stop, value.step)):
                return False
        elif kind is tuple or kind is list or kind is Size:
            if kind is list or not _is_plain(value):
                return False
        elif kind not in _PLAIN:
            return False
    return True
