"""Ops without a written form: the launches that were noted while the call was recorded, where these are the whole of it.

That is found out for each call, on its own shapes: on other numbers, in memory apart, the launches must give the bits that eager gives. What
Python has read from an array, or NumPy has computed between kernels, would be that of the recorded numbers. What whole numbers mean is not
known here, so calls that read some are taken only where the op's row says `bound`; a test exchanges them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.autograd.nodes import Partial
from dynograd.autograd.packing import map_saved
from dynograd.kernels.build.launches import Launch, data_address
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.forms import Lowered, arguments_of
from dynograd.plans.python_forms import flat

__all__ = [
    "ASSISTANCE",
    "arrays_of",
    "assistance",
    "computes_apart",
    "fill_within",
    "lower_bound",
    "moved",
    "noted_form",
    "relocate",
    "run_launches",
]

Assistance = Callable[[Call], "list[Launch] | None"]
ASSISTANCE: dict[tuple[str, str], Assistance] = {}
"""(kind, name) -> the noted launches, with others between them for what NumPy computes there; None where that is not known.

`Lowered`: what the whole numbers mean is known, too, where it has `places`; the launches read them, and a check says which do not fit.
"""


def assistance(kind: str, *names: str) -> Callable[[Assistance], Assistance]:
    """Enters what NumPy computes beside the noted launches of such calls."""

    def enter(function: Assistance) -> Assistance:
        for name in names:
            ASSISTANCE[kind, name] = function
        return function

    return enter


def lower_bound(call: Call) -> Lowered | None:
    """The launches that were noted; None where they are not all that there is to the call."""
    form = noted_form(call)
    if form is None:
        return None
    try:
        proven = computes_apart(call, form, form.exact, form.places)
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):  # the op refuses such numbers
        return None
    return form if proven else None


def noted_form(call: Call) -> Lowered | None:
    """The noted launches, with what NumPy computes beside them; whether they are all that there is to the call is not proven."""
    if call.kind not in ("op", "rule") or not call.launches or getattr(call, "in_place", False):
        return None
    if any([launch.returns for launch in call.launches]):
        return None
    assist = ASSISTANCE.get((call.kind, call.name))
    launches = call.launches if assist is None else assist(call)
    if launches is None:
        return None
    is_lowered = type(launches) is Lowered
    places, draw = (launches.places, launches.draw) if is_lowered else (None, None)
    if draw is None and _draws(call):
        return None
    reads = [value for value in call.inputs if isinstance(value, numpy.ndarray)]
    if any([value.dtype.kind not in "fcb" for value in reads]) and not call.op.row["bound"] and places is None:
        return None
    exact = [id(launch) for launch in launches] == [id(launch) for launch in call.launches]
    if is_lowered and places is None:
        exact = launches.exact
    whole = [*_copies_in_order(call), *launches]
    drawn = draw if _draws(call) else None
    scratch = getattr(launches, "scratch", ())
    return Lowered(whole, exact, getattr(launches, "check", None), drawn, places, scratch=scratch)


def _copies_in_order(call: Call) -> list[Launch]:
    """Copies of operands into the arrays that kernels have read in their place, which lie in one piece."""
    apart = [value for value in call.inputs if isinstance(value, numpy.ndarray) and not value.flags.c_contiguous]
    if not apart:
        return []
    known = [value for value in (*call.inputs, *call.outputs) if isinstance(value, numpy.ndarray)]
    copies: list[Launch] = []
    for launch in call.launches:
        for array in launch.arguments:
            if not isinstance(array, numpy.ndarray) or any([layouts.overlaps(array, other) for other in known]):
                continue
            alike = [value for value in apart if value.shape == array.shape and value.dtype == array.dtype]
            if len(alike) == 1:
                copies += layouts.copy(array, alike[0]) or ()
                known.append(array)
    return copies


def _draws(call: Call) -> bool:
    """Whether a place in the random stream is among the statics: it is another one in each step."""
    key = call.op.row["by_row"]
    if key is None:
        return False
    statics = _statics(call)
    return statics.get(key) is not None and statics.get("p") != 0


def _statics(call: Call) -> dict[str, Any]:
    """By name, as the op's own function got them where the call has a node."""
    values = call.statics if call.node is None else call.node.attrs or ()
    return dict(zip(call.op.static_names, values))


def run_launches(launches: Sequence[Launch]) -> None:
    """Runs them from Python."""
    for launch in launches:
        if launch.count < 0:
            launch.kernel(*launch.arguments)
        else:
            launch.kernel(*launch.arguments, count=launch.count, work=0, parts=launch.parts)


def computes_apart(
    call: Call, launches: Sequence[Launch], exact: bool, places: Sequence[tuple[Any, Any]] | None = None
) -> bool:
    """Whether the launches compute the call, on numbers of our own in memory apart. What the call's memory holds does not matter.

    Args:
        call: of an op or a rule.
        launches: on its memory.
        exact: to the bit; else up to rounding.
        places: pairs of an array of whole numbers that the call reads, and numbers that fit.
    """
    outputs = [output for output in call.outputs if output is not None]
    extras = _extras(call)
    reads = [value for value in call.inputs if isinstance(value, numpy.ndarray)]
    try:
        apart = _Apart([*reads, *outputs, *extras])
        launches = [moved(launch, apart.at) for launch in launches]
    except _Elsewhere:
        return False
    results = [apart.writeable(output) for output in (*outputs, *extras)]
    for turn in range(2):  # what was added to zeros in the first turn would be there in the second
        for number, value in enumerate(reads):
            fill_within(apart.writeable(value), len(reads) * turn + number)
        for value, numbers in places or ():
            apart.writeable(value)[...] = numbers
        with numpy.errstate(all="ignore"):
            expected = [None if array is None else array.copy() for array in _computed(call, apart.at)]
        if len(expected) != len(results) or any([array is None for array in expected]):
            return False
        for result in results:
            result[...] = numpy.nan if result.dtype.kind in "fc" else 1
        run_launches(launches)
        if not all([_same(result, array, exact) for result, array in zip(results, expected)]):
            return False
    return True


def _extras(call: Call) -> list[Any]:
    """What the op's node keeps beside operands and results."""
    if call.kind != "op" or call.node is None:
        return []
    return _floats_in([getattr(call.node, name) for name in call.op.extras])


def _floats_in(values: Sequence[Any]) -> list[Any]:
    """The floating arrays among them, and in tuples."""
    kept: list[Any] = []
    for value in values:
        if isinstance(value, numpy.ndarray):
            kept += [value] if value.dtype.kind in "fc" else []
        elif isinstance(value, (tuple, list)):
            kept += _floats_in(value)
    return kept


def _computed(call: Call, at: Callable[[Any], Any]) -> list[Any]:
    """What eager computes of the arrays that `at` gives: the outputs that the call writes, and what its node keeps."""
    op = call.op
    if call.kind == "op":
        arguments = {
            name: [at(array) for array in value] if isinstance(value, list) else at(value)
            for name, value in (arguments_of(call) | _statics(call)).items()
        }
        result = op.forward(**arguments)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if isinstance(results[0], (tuple, list)):  # several outputs, and extras
            results[:1] = results[0]
        count = len(call.outputs)
        written = [array for array, output in zip(results[:count], call.outputs) if output is not None]
        return [*written, *(_floats_in(results[count:]) if call.node is not None else ())]
    node = copy.copy(call.node)
    for name in node.saved_names:
        setattr(node, name, map_saved(getattr(node, name), at))
    g = getattr(call.compute, "g", None)
    g = Partial({number: at(part) for number, part in g.parts.items()}) if type(g) is Partial else at(call.inputs[0])
    return [array for array, output in zip(node.apply(g), call.outputs) if output is not None]


def fill_within(array: Any, seed: int) -> None:
    """Numbers that are in the domain of nearly everything: from 0.5 to 1.5. Places are 0, which is a place wherever there is one."""
    random = numpy.random.default_rng(seed)
    for (part,) in layouts.pieces(array):
        if array.dtype.kind == "b":
            part[...] = random.random(part.shape) < 0.5
        elif array.dtype.kind in "fc":
            part[...] = random.uniform(0.5, 1.5, part.shape)
        else:
            part[...] = 0


def _same(array: Any, other: Any, exact: bool) -> bool:
    if array.shape != other.shape or array.dtype != other.dtype:
        return False
    if exact or array.dtype.kind not in "fc":
        equal_nan = array.dtype.kind in "fc"
        return all([numpy.array_equal(part, its, equal_nan=equal_nan) for part, its in layouts.pieces(array, other)])
    bound = 4e-6 if array.dtype.itemsize == 4 else 1e-12
    scale = float(numpy.max([numpy.abs(part).max(initial=0) for (part,) in layouts.pieces(other)]))
    if not numpy.isfinite(scale):
        return bool(numpy.array_equal(array, other, equal_nan=True))
    within = {"rtol": bound, "atol": bound * scale}
    return all([numpy.allclose(part, its, equal_nan=True, **within) for part, its in layouts.pieces(array, other)])


# --- memory apart -------------------------------------------------------------------------------------------------------------


class _Elsewhere(Exception):
    """An argument lies partly in memory of the call and partly outside."""


class _Apart:
    """A copy of the memory that some arrays lie in. Other memory is shared: what kernels write for one another, and constants."""

    def __init__(self, whole: Sequence[Any]) -> None:
        intervals = sorted([numpy.lib.array_utils.byte_bounds(array) for array in whole if array.size])
        self.regions: list[tuple[int, int, Any]] = []
        merged: list[list[int]] = []
        for start, stop in intervals:
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([start, stop])
        for start, stop in merged:
            self.regions.append((start, stop, _copied_bytes(start, stop)))

    def at(self, array: Any) -> Any:
        """The same part of the copy; what is no array, or lies elsewhere, as it is."""
        if not isinstance(array, numpy.ndarray) or not array.size:
            return array
        low, high = numpy.lib.array_utils.byte_bounds(array)
        for start, stop, memory in self.regions:
            if low < stop and start < high:
                if low < start or high > stop:
                    raise _Elsewhere
                offset = array.__array_interface__["data"][0] - start
                result = numpy.ndarray(array.shape, array.dtype, memory, offset, array.strides)
                if not array.flags.writeable:
                    result.flags.writeable = False
                return result
        return array

    def writeable(self, array: Any) -> Any:
        part = self.at(array)
        if part is not array:
            part.flags.writeable = True
        return part


def _copied_bytes(start: int, stop: int) -> numpy.ndarray:
    """A copy of memory, at the same place of a cache line."""
    whole = layouts.aligned((stop - start + 64,), numpy.uint8)
    part = whole[start % 64 : start % 64 + stop - start]
    part[...] = layouts.memory_at(start, stop - start)
    return part


def arrays_of(launch: Launch) -> list[Any]:
    """The arrays that it reads and writes."""
    return [*launch.kept, *[argument for argument in flat(launch.arguments) if type(argument) is numpy.ndarray]]


def moved(launch: Launch, at: Callable[[Any], Any]) -> Launch:
    """The launch on other memory.

    Args:
        launch: arrays may stand among its arguments by handle and by address, too.
        at: gives for an array the one in its place.
    """
    from dynograd.kernels.build.addresses_numba import handle

    kept = tuple([at(array) for array in launch.kept])
    handles = {handle(array): handle(other) for array, other in zip(launch.kept, kept)}
    handles |= {data_address(array): data_address(other) for array, other in zip(launch.kept, kept)}

    arguments = _moved_arguments(launch.arguments, at, handles)
    return Launch(launch.kernel, arguments, launch.count, launch.parts, kept, launch.returns)


def relocate(call: Call, at: Callable[[Any], Any]) -> None:
    """The call reads and writes other memory from now on: `at` gives for an array the one in its place, and None for None."""
    call.inputs, call.outputs, call.saved = [
        tuple([at(array) for array in arrays]) for arrays in (call.inputs, call.outputs, call.saved)
    ]
    call.launches = [moved(launch, at) for launch in call.launches]
    call.compute.relocated(at)  # type: ignore[attr-defined]


def _moved_arguments(values: tuple[Any, ...], at: Callable[[Any], Any], handles: dict[int, int]) -> tuple[Any, ...]:
    """A function within `moved` that called itself would keep all that `at` knows until Python looks for cycles."""
    return tuple(
        [
            at(value)
            if isinstance(value, numpy.ndarray)
            else _moved_arguments(value, at, handles)
            if type(value) is tuple
            else handles.get(value, value)
            if type(value) is int
            else value
            for value in values
        ]
    )
