"""How many microseconds a step is likely to be faster along its record than as it is written: counted from what it calls, never timed.

The numbers are means over ops on small tensors, one thread. With a graph of gradients an op costs eager mode some 6 us, forward and
backward; without one 1 or 2, and a view less than 1. A walk costs 9 us whatever it has, and more where its arguments have to be looked
into, or where somebody keeps what it gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.plans.lowering.forms import arguments_of

__all__ = ["Balance", "cost_of_a_record", "gain", "gain_of_a_walk", "gain_without_gradients"]

_SAVED, _LOST = 6.0, 10.0  # of a call's Python
_WALKED = 8.0  # of a walk, whatever it has
_COPIED = 4e3  # bytes a microsecond
_TAKEN = 2e4  # the same of what goes into the plan's memory and out of it

# Without gradients:
_WALKED_ALONE = 9.0
_SAVED_BY_KIND = {"elementwise": 0.8}  # of an op's Python, by its kind
_SAVED_ALONE = 1.8  # of other kinds
_LISTED = 2.0  # of an op that takes a list: its tensors are compared one by one
_CHECKED = 7.5  # of one whose indices are looked at
_SHORTENED = (
    3.0  # of one whose result eager mode computes by a shortcut: a walk compares all that the shortcut leaves out
)
_FRESH, _KEPT = 1.0, 3.0  # a tensor that is another one in each step; one that the program has in the end
_RESIZED = 0.2  # a call that is computed at another size than before
_UNWRITTEN = 1.6e4  # bytes a microsecond of what a loop of several calls does not write

# Of a call along its record that has been gone through:
_BEGUN = 6.0
# Where something is kept that has a history, each of these, and their backward pass from outside.
_OPENED, _OPEN, _PASSED = 13.0, 3.5, 20.0
_FORWARD, _BACKWARD = (1.0, 3.0), (1.5, 12.0)  # saved by an elementwise op, and by another one
_CHECKED_BACK = 4.0  # of a backward rule whose indices are looked at
_EXCHANGED = 3.0  # a function that gets other code, and its first calls with it
_ANEW = 15.0  # a step that is run anew
_BESIDE = 25.0  # a call beside one that is still to be differentiated
_STEPPED = 15.0  # saved by the step of an optimizer
# A tensor that stands for another value behind a write in place; what is put into a part of one.
_RENAMED, _PUT = 8.0, 12.0
# A tensor that is another one in each call: an argument; one that the step has made, or a number.
_ARGUMENT, _NUMBER = 1.0, 6.0
# A piece more; a value that was copied out; a write into what comes from outside.
_CUT, _READ, _WRITTEN = 1.0, 10.0, 10.0
_STORED = 4.0  # such a write that the record has
_LET_GO = 5.0  # what the program has of the step before, and once more where others share its memory
_MULTIPLIED = 1.5e4  # products a microsecond that are added up
_UNNOTICED = 0.02  # of the time that a step takes
_UNCERTAIN = 4.0  # as much may be wrong with these numbers
_RECORDED, _CALLED = 400.0, 8.0  # a call that is recorded and made into one of a program, and as it is written
_CHECKED_AGAIN = 3.0  # times that a program computes its step, and is compared
_MOST = 500.0  # microseconds that may be lost before it is decided, and gained that count


def gain(program: Any) -> float:
    """Of a program that has been compared with its step; less than 0: slower.

    A call that kernels compute saves what its Python costs. A call in its Python form costs more than as it is written, and what it saves for
    backward is copied. What is another tensor in each step, and what the program keeps, is copied, too; where the step writes much more than
    that, its kernels take so long that it does not matter.
    """
    written = sum(
        [array.nbytes for call in program.calls for array in (*call.outputs, *call.saved) if array is not None]
    )
    gained = -_WALKED - (program.taken / _TAKEN if 2 * program.taken > written else 0.0)
    for call, form in zip(program.calls, program.forms):
        outputs = [output for output in call.outputs if output is not None]
        if form is not None:
            gained += _SAVED * bool(outputs)
            continue
        copied = sum([array.nbytes for array in call.saved]) + sum([output.nbytes for output in outputs]) // 2
        gained -= _LOST + copied / _COPIED
    return gained


def gain_without_gradients(program: Any, events: Sequence[Any], sizes_change: bool) -> float:
    """The same of a program of a step that differentiates nothing: calls save less, and what a loop leaves out counts."""
    gained = (
        -_RESIZED * len(program.calls) * sizes_change
        - _WALKED_ALONE
        - _FRESH * program.fresh
        - _KEPT * len(program.keeps)
    )
    gained += sum([program.arrays[number].nbytes for group in program.groups for number in group.gone]) / _UNWRITTEN
    gained -= _spent_on_writes(program, events)
    return gained + sum([_saved_alone(call, form) for call, form in zip(program.calls, program.forms)])


def _saved_alone(call: Any, form: Any) -> float:
    """By a call that gets no gradients."""
    if form is None:
        return -_LOST
    if all([output is None for output in call.outputs]):
        return 0.0
    saved = _SAVED_BY_KIND.get(getattr(call.op, "kind", ""), _SAVED_ALONE)
    saved -= _LISTED * bool(getattr(call.op, "list_name", None)) + _SHORTENED * getattr(call.op, "has_shortcut", False)
    return saved - _CHECKED * _is_checked(form)


def _is_checked(form: Any) -> bool:
    """Whether the numbers that a call reads are looked at before it."""
    return getattr(form, "check", None) is not None


def _spent_on_writes(program: Any, events: Sequence[Any]) -> float:
    """By writes in place into what the step has made."""
    renamed = sum([event.kind == "rename" for event in events])
    return _RENAMED * renamed + _PUT * sum([call.name == "basic_put" for call in program.calls])


def _of_stores(events: Sequence[Any]) -> float:
    """What those cost less than other writes into what comes from outside, as which they count."""
    return (_WRITTEN - _STORED) * sum([event.kind == "store" for event in events])


def gain_of_a_walk(path: Any) -> float:
    """Of a call along a path, but for what the program reads and writes in it.

    It is without end where nothing is differentiated though that could be. Where kernels take long, some hundredths of their time are no
    matter, and what a loop of several calls does not write counts. What somebody keeps with a gradient to come gets a history, and a
    backward pass from outside goes into the plan and out of it.
    """
    program = path.program
    if not any([event.grad for event in path.events]):
        return gain_without_gradients(program, path.events, False) + _of_stores(path.events)
    if not any([path.tree.values[n].grad for n in path.numbers]):
        return math.inf
    kept = len({path.numbers[number] for number in program.keeps}.intersection(path.open))
    gained = _of_large_values(program) + _STEPPED * sum([event.kind == "step" for event in path.events]) - _BEGUN
    gained -= sum([_ARGUMENT if outside.name else _NUMBER for outside in path.outside if outside.fresh])
    gained += _of_stores(path.events) - _spent_on_writes(program, path.events)
    gained -= _OPENED * bool(kept) + _OPEN * kept + _PASSED * (path.parts is not None)
    for call, form in zip(program.calls, program.forms):
        if form is None or (call.kind == "op" and call.node is None):
            gained += _saved_alone(call, form)
        elif any([output is not None for output in call.outputs]):
            saved = _FORWARD if call.kind == "op" else _BACKWARD
            gained += saved[getattr(call.op, "kind", "elementwise") != "elementwise"]
            gained -= (_CHECKED if call.kind == "op" else _CHECKED_BACK) * _is_checked(form)
    return gained


def cost_of_a_record(program: Any) -> float:
    """What it takes to make a program, in calls of the step as it is written."""
    python = len(program.calls)
    return _CHECKED_AGAIN + _RECORDED * python / max(_CALLED * python + _taken_by_kernels(program), 1.0)


def _of_large_values(program: Any) -> float:
    """What loops of several calls do not write, and a part of the time that kernels take which nobody misses."""
    unwritten = sum([program.arrays[number].nbytes for group in program.groups for number in group.gone])
    return unwritten / _UNWRITTEN + _UNNOTICED * _taken_by_kernels(program)


def _taken_by_kernels(program: Any) -> float:
    """Microseconds, of large values."""
    values = sum([array.nbytes for array in program.arrays])
    products = sum([_multiplied(call) for call in program.calls if call.kind == "op"])
    return values / _COPIED + products / _MULTIPLIED


def _multiplied(call: Any) -> int:
    """How many products of numbers a matrix product, a convolution or a recurrent layer adds up."""
    outputs = sum([output.size for output in call.outputs if output is not None])
    if call.name in ("convolution", "linear"):
        weight = call.inputs[1]
        return outputs * weight.size // max(len(weight), 1)
    if call.name == "matmul":
        return outputs * call.inputs[0].shape[-1]
    if "weight_hh" in getattr(call.op, "array_names", ()) and call.inputs[0].size:
        arguments = arguments_of(call)
        tokens = arguments["input"].size // arguments["input"].shape[-1]
        return tokens * (arguments["weight_ih"].size + arguments["weight_hh"].size)
    return 0


class Balance:
    """What walks of one function have gained, counted from what they did: by the grad modes in which they went."""

    def __init__(self) -> None:
        self._gained: dict[int, float] = {}

    def lost(self, walk: Any, grad: int, exchanged: int) -> float:
        """What a call loses, once walks in this grad mode have lost so much that it is known; else 0."""
        path = walk.path
        if path.gain is None:
            path.gain = gain_of_a_walk(path)
        pieces = len(path.program.pieces) - 1
        copies = len([copied for copied in walk.read_numbers.values() if copied is not None])
        gained = path.gain - _CUT * pieces - _READ * copies - _WRITTEN * len(walk.written) - _EXCHANGED * exchanged
        gained -= _LET_GO * walk.shared.let_go_of
        if gained < 0:
            gained = min(gained + _UNCERTAIN, 0.0)
        total = self._gained[grad] = min(self._gained.get(grad, 0.0) + gained, _MOST)
        return max(-gained, 1.0) if total < -_MOST else 0.0

    def charge_anew(self, steps: int, grad: int) -> None:
        """So many steps of a call were run anew, since it is differentiated with a graph of gradients that the program has outside."""
        self._gained[grad] = self._gained.get(grad, 0.0) - _ANEW * steps

    def charge_beside(self, grad: int) -> None:
        """A call ran as it is written while another one along its record is still to be differentiated: eager mode adds up gradients of both at once."""
        self._gained[grad] = self._gained.get(grad, 0.0) - _BESIDE
