"""Ops on segments of rows, which ragged tensors are made of: where segments lie is read by the kernels in each step.

What NumPy does beside them is to begin with zeros where some rows belong to no segment.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.segment.segments_cpu import may_be_cut
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.forms import Lowered, arguments_of

__all__: list[str] = []

_STARTS, _ENDS, _ROWS, _GROUPS = range(4)  # arguments of the kernel that shares segments out


@assistance(
    "op",
    "segment_sum", "segment_spread", "segment_extreme", "segment_softmax", "segment_combine", "segment_logsumexp", "segment_cumsum",
    "segment_cumprod", "segment_move", "segment_behind_one", "segment_recurrence", "segment_logcumsumexp", "segment_gather",
    "segment_scatter", "segment_product", "segment_squares",
)  # fmt: skip
def _of_segments(call: Call) -> list[Launch] | None:
    arguments = arguments_of(call)
    return _read_anew(call, arguments["starts"], arguments["ends"])


@assistance("op", "segment_places")
def _extremes(call: Call) -> list[Launch] | None:
    """Those of sorted rows have shapes that follow from the lengths."""
    return _of_segments(call) if arguments_of(call)["how"] in ("max", "min", "cummax", "cummin") else None


@assistance(
    "rule",
    "segment_sum", "segment_spread", "segment_extreme", "segment_softmax", "segment_combine", "segment_logsumexp", "segment_cumsum",
    "segment_cumprod", "segment_move", "segment_behind_one", "segment_recurrence", "segment_logcumsumexp", "segment_gather",
    "segment_scatter",
)  # fmt: skip
def _of_segments_rule(call: Call) -> list[Launch] | None:
    return _read_anew(call, call.node.starts, call.node.ends)


def _read_anew(call: Call, starts: Any, ends: Any) -> Lowered | None:
    """The noted launches, if they are those of all lengths."""
    launches: list[Launch] = []
    rows: list[int] = []
    groups: Any = None
    scratch: list[Any] = []
    for launch in call.launches:
        arguments = launch.arguments
        if launch.name.endswith(".lay_out_groups"):
            groups = arguments[_GROUPS]
            scratch.append(groups)
            rows.append(arguments[_ROWS])
            if not (layouts.overlaps(arguments[_STARTS], starts) and layouts.overlaps(arguments[_ENDS], ends)):
                return None  # converted, or those of pieces
        elif groups is not None and any([_is_part(value, groups) for value in arguments]):
            if launch.name.endswith(".reduce_segments") and may_be_cut(arguments[0]):
                return None
            if arguments[-1].shape[0] == rows[-1]:
                launches.append(_cleared(groups, arguments[-1]))
        launches.append(launch)
    if not rows:
        return None
    # Segments behind one another, with rows of none in front and behind: those of ragged tensors are never so.
    length = min(rows) // (starts.size + 2)
    first = 1 + numpy.arange(starts.size) * length
    return Lowered(launches, places=[(starts, first), (ends, first + length)], scratch=scratch)


def _is_part(value: Any, groups: Any) -> bool:
    return isinstance(value, numpy.ndarray) and layouts.overlaps(value, groups)


def _cleared(groups: Any, result: Any) -> Launch:
    from dynograd.kernels.segment.segments_numba import clear_uncovered

    return Launch(clear_uncovered, (groups, result), 1, 1)
