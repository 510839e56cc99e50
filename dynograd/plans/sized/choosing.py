"""Which of the recorded sizes formulas are found from: those at the ends of a range, those next to a size, and those whose steps are computed alike."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from dynograd.arrays import ndarray

__all__ = ["candidates"]

_MOST_SAMPLES, _MOST_ENDS = 6, 20
_MOST_NEAR = 4


def candidates(paths: dict[tuple[int, ...], Any], numbers: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Sets of samples that one program may be made of for these sizes, the widest first.

    An op may be computed otherwise from some size on (attention in tiles, say), and lay its results out otherwise: then only samples on
    one side of it are one program.
    """
    samples = list(paths)
    yield _ends(samples)
    kinds: dict[Any, list[tuple[int, ...]]] = {}
    for sample in samples:
        kinds.setdefault(_layout_of(paths[sample].program), []).append(sample)
    several = [*kinds.values()] if len(kinds) > 1 else []
    for alike in several:
        yield _ends(alike)
    for alike in (samples, *several):
        yield _nearest(alike, numbers)


def _ends(samples: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """A few of the samples: those with the least and most of each size, and of each product of them, and the latest."""
    chosen: dict[tuple[int, ...], None] = {}
    varying = [place for place, column in enumerate(zip(*samples)) if len(set(column)) > 1]
    for count in (1, 2, len(varying)):
        for places in itertools.islice(itertools.combinations(varying, count), _MOST_SAMPLES):
            products = {sample: math.prod([sample[place] for place in places]) for sample in samples}
            chosen[min(samples, key=products.__getitem__)] = chosen[max(samples, key=products.__getitem__)] = None
    for sample in reversed(samples):
        if len(chosen) >= _MOST_SAMPLES:
            break
        chosen[sample] = None
    return list(chosen)[:_MOST_ENDS]


def _nearest(samples: list[tuple[int, ...]], numbers: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The samples that are most like these sizes."""
    near = sorted(samples, key=lambda sample: sum([abs(size - other) for size, other in zip(sample, numbers)]))
    return near[:_MOST_NEAR]


def _layout_of(program: Any) -> tuple[Any, ...]:
    """The kernels of each call, and how its arrays lie in memory, whatever their sizes."""
    if program.layout is None:
        layout: list[Any] = []
        for call, form in zip(program.calls, program.forms):
            layout.append(None if form is None else tuple([launch.name for launch in form]))
            layout += [_order_of(array) for array in (*call.inputs, *call.outputs, *call.saved)]
        program.layout = tuple(layout)
    known: tuple[Any, ...] = program.layout
    return known


def _order_of(array: Any) -> tuple[int, ...] | None:
    if type(array) is not ndarray:
        return None
    dims = [place for place in range(array.ndim) if array.shape[place] > 1]
    return (array.dtype.num, *sorted(dims, key=lambda place: (-array.strides[place], place)))
