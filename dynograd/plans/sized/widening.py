"""Sizes beyond the recorded ones: how many rows values pick follows no rule, so that each step would have some number that none before had.

So a program for several sizes is tried at sizes that were not recorded, fewer and more: each call's kernels, with the numbers that the formulas give,
must compute what the call computes in its Python form, of numbers made up for it, in overwritten memory. What holds there holds between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.plans.lowering.bound import fill_within
from dynograd.plans.memory import bounds, write
from dynograd.plans.passes import saved_of
from dynograd.plans.programs import gives
from dynograd.plans.sized.calls import SizedCall
from dynograd.plans.sized.memory import Differs

__all__ = ["trials_of", "widen"]

_KINDS = ("op", "rule", "sum", "copy")  # calls that write nothing but their results
_REFUSALS = ArithmeticError, AttributeError, LookupError, TypeError, ValueError


def trials_of(programs: Sequence[Any], common: Any, apart: set[int]) -> list[SizedCall | None] | None:
    """The calls of the tables, to be made at other sizes; None: some cannot be."""
    first = programs[0]
    trials: list[SizedCall | None] = []
    for number, call in enumerate(first.calls):
        if number in apart or not first.forms[number]:
            trials.append(None)
            continue
        if call.kind not in _KINDS or number in first.drawing or getattr(first.forms[number], "draw", None) is not None:
            return None
        try:
            trials.append(SizedCall([program.calls[number] for program in programs], number, common, True))
        except Differs:
            return None
    return trials


def widen(program: Any) -> None:
    """The program may have all sizes between the corners of what its memory has room for, if its kernels compute there what the calls do."""
    sizes, trials = program.sizes, program.trials
    corners = sizes.corners()
    if trials is None or not corners:
        return
    numbers = [sizes.numbers(corner) for corner in corners]
    if any([row is None for row in numbers]):
        return
    grad, program.trials = MODES.grad, None
    try:
        calls = [[None if trial is None else trial.call_at(row, {}) for trial in trials] for row in numbers]
        varying = [number for number, pair in enumerate(zip(*calls)) if pair[0] is not None and _differ(*pair)]
        if all([_computes(program, *at, varying) for at in zip(corners, calls)]):
            sizes.reach(corners)
    except _REFUSALS:  # an op refuses such sizes
        pass
    finally:
        MODES.grad = grad
        program.states.clear()
        program.splices = None
        program.at = ()


def _differ(call: Any, other: Any) -> bool:
    """Whether a call has other numbers at other sizes."""
    arrays, others = [(*of.inputs, *of.outputs, *of.saved) for of in (call, other)]
    return call.statics != other.statics or [_layout_of(array) for array in arrays] != [
        _layout_of(array) for array in others
    ]


def _layout_of(array: Any) -> tuple[Any, ...] | None:
    return (array.shape, array.strides, bounds(array)) if type(array) is ndarray else None


def _computes(program: Any, sizes: tuple[int, ...], calls: list[Any], varying: list[int]) -> bool:
    """Whether the kernels of these calls do at some sizes, and the loops that compute several of them."""
    if not program.resize(sizes):
        return False
    groups = [group for group in program.groups if not set(varying).isdisjoint(group.members)]
    return all([_gives_same(program, [number], calls) for number in varying]) and all(
        [_gives_same(program, group.members, calls, group) for group in groups]
    )


def _gives_same(program: Any, members: list[int], calls: Sequence[Any], group: Any = None) -> bool:
    """Whether kernels compute what the calls do: those of a call, or the one loop of a group."""
    computed = [calls[number] for number in members if calls[number] is not None]
    results = [array for call in computed for array in (*call.outputs, *call.saved) if type(array) is ndarray]
    inner = [_layout_of(result) for result in results]
    reads = [array for call in computed for array in _read_by(call) if _layout_of(array) not in inner]
    reads = [array for array in reads if array.size and _is_own(program, array)]
    for seed, array in enumerate(reads):
        values = numpy.empty(array.shape, array.dtype)
        fill_within(values, seed)
        write(array, values)
    copies = [array.copy(order="K") for array in reads]
    with numpy.errstate(all="ignore"):
        for call in computed:
            for result, output in zip(call.compute(), call.outputs):
                if output is not None:
                    if type(result) is not ndarray or result.shape != output.shape:
                        return False
                    write(output, result)
    written = results if group is None else _written_by(program, group, calls)
    expected = [array.copy(order="K") for array in written]
    for result in results:
        write(result, numpy.full(result.shape, numpy.nan if result.dtype.kind in "fc" else 1, result.dtype))
    for array, values in zip(reads, copies):
        write(array, values)
    bound = program.plain if group is None else program.mixed
    bound.launch(members[0], members[0] + 1)
    exact = bool(getattr(program.forms[members[0]] if group is None else group.form, "exact", False))
    return gives(written, expected, exact, max([array.size for array in reads], default=1))


def _written_by(program: Any, group: Any, calls: Sequence[Any]) -> list[Any]:
    """What the loop of a group writes, as recorded, at the sizes of the calls."""
    places = {bounds(array) for array in group.outputs()}
    return [
        array
        for number in group.members
        if calls[number] is not None
        for array, recorded in zip(calls[number].outputs, program.calls[number].outputs)
        if recorded is not None and bounds(recorded) in places
    ]


def _read_by(call: Any) -> list[Any]:
    saved = saved_of(call.node) if call.kind == "rule" and call.node is not None else []
    return [array for array in (*call.inputs, *saved) if type(array) is ndarray]


def _is_own(program: Any, array: Any) -> bool:
    """Whether it lies in the program's memory for several sizes: nobody's numbers are overwritten."""
    low, high = bounds(array)
    return any(
        [
            start <= low and high <= start + len(buffer)
            for start, buffer in zip(program.memory.bases, program.memory.buffers)
        ]
    )
