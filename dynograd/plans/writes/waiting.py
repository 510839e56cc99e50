"""Which calls of a walk may wait while the program writes into a tensor from outside."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.plans.memory import bounds

__all__ = ["is_apart"]


def is_apart(array: Any, path: Any, done: int, number: int, memory: Any) -> bool:
    """Whether what is still to be computed reads nothing of an array that is about to be written, and cannot raise an error.

    Counters that a layer has (`num_batches_tracked`) are written so in the middle of a step. Tensors that are others in each step are the caller's
    business: those that share memory have one place in the plan.

    Args:
        array: of a tensor from outside.
        path: that is walked.
        done: so many of its calls are computed.
        number: the step of the record that comes next.
        memory: of the plan.
    """
    program = path.program
    stop = path.events[number - 1].calls if number else 0
    if stop <= done:
        return True
    if program.on_gpu or program.plain.next_stop[done] < stop:  # Python computes a call, or looks at values first
        return False
    if path.read is None:
        places = [outside.array for outside in path.outside if not outside.fresh or outside.address is not None]
        path.read = numpy.array([bounds(place) for place in places], numpy.int64).reshape(-1, 2)
    low, high = bounds(array)
    begin, end = bounds(memory)
    return not (begin < high and low < end) and not ((path.read[:, 0] < high) & (low < path.read[:, 1])).any()
