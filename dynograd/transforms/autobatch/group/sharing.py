"""Leaves that differ from call to call: where hardly a call shares its leaf with others, the leaves become rows of the group.

A parameter is one operand for all calls, which makes one product of many. But a leaf of each example's own (an input whose gradient is
wanted, weights of its own) would make a group of each call.
"""

from __future__ import annotations

from typing import Any

from dynograd.transforms.autobatch.record.forms import Form

_FEW = 2  # calls with the same leaf, up to which it is taken for one of the example's own
_LARGEST = 1 << 14  # elements of a leaf that is copied into a row


def few(kind: tuple[Form, tuple], calls: int) -> bool:
    """Whether a group of so many calls of this form with these shared operands may give its leaves up as rows."""
    form, shared = kind
    if calls > _FEW or type(form) is not Form or form.op.view:  # a view costs nothing
        return False
    return any([parameter is not None and parameter.kind.size <= _LARGEST for parameter in shared])


def with_rows(recorder: Any, kinds: list[tuple[Form, tuple]], buckets: list[Any]) -> bool:
    """Makes the shared operands in which `kinds` (of one form) differ rows of these buckets; False where they are too large."""
    form, first = kinds[0]
    differ = [place for place, first in enumerate(first) if any([other[place] is not first for _, other in kinds])]
    if any([entry[place] is not None and entry[place].kind.size > _LARGEST for _, entry in kinds for place in differ]):
        return False
    tensors = are_tensors(form)
    for bucket in buckets:
        count, shared, columns = bucket.count(), list(bucket.shared), list(bucket.columns)
        for place in differ:
            if shared[place] is None:  # a row already
                continue
            port, row = recorder.as_row(shared[place].tensor, shared[place].kind)
            before = sum([tensors[other] and shared[other] is None for other in range(place)])
            columns.insert(before, [recorder.base_of(port) + row] * count)
            shared[place] = None
        bucket.shared, bucket.columns = tuple(shared), columns
    return True


def are_tensors(form: Form) -> list[bool]:
    """For each entry of `shared` whether a tensor stands there: not a number, and not left out."""
    result: list[bool] = []
    for _, listed in form.places:
        result += [True] * listed if type(listed) is int else [listed is None]
    return result
