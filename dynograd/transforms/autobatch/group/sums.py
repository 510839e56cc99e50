"""Running sums: `total = total + loss` over many examples is one group, not one after the other.

A chain of additions of numbers becomes, after a few links, one bucket whose rows are the prefix sums of its terms. It stays open until
something else uses one of its rows.
"""

from __future__ import annotations

from typing import Any

from dynograd.ops.op import Op, registry
from dynograd.transforms.autobatch.record.forms import Form
from dynograd.transforms.autobatch.record.pending import Kind, Lazy

_LINKS = 8  # shorter chains are ordinary additions, which may run beside those of other examples


class RunningSum(Form):
    """The prefix sums of the terms in a bucket's only column: each row is the one before plus a term."""

    __slots__ = ("open",)

    def __init__(self, kind: Kind, grad: int) -> None:
        super().__init__(registry["add"], {}, grad)
        self.kinds, self.open, self.label = (kind,), True, "running sum"

    def prefix_sums(self, terms: Any) -> Any:
        """From (n,) terms to n - 1 sums: of the first two, of the first three, ..."""
        whole = registry["cumsum"].function(terms, 0)
        return registry["basic_index"].function(whole, (slice(1, None),))


def chained(recorder: Any, op: Op, args: tuple, grad: int) -> Any:
    """The Lazy of an addition that continues (or begins) a running sum; None for any other."""
    total, term = args[0], args[1]
    if type(total) is not Lazy or type(term) is not Lazy:
        return None
    port = total.pending
    bucket, kind = port.bucket, port.kind
    if (
        term.pending.kind is not kind
        or bucket.done
        or bucket.recorder is not recorder
        or kind.shape
        or port.whole is not port
    ):
        return None
    form = bucket.form
    if type(form) is RunningSum:
        if (
            not form.open
            or form.grad != grad
            or total.row != len(bucket.columns[0]) - 2
            or term.pending.bucket is bucket
        ):
            return None
    elif bucket.links < _LINKS or kind.dtype.kind != "f" or term.pending.bucket.recorder is not recorder:
        return None
    else:
        bucket = recorder.bucket_of(RunningSum(kind, grad), (), [bucket], 1)
        bucket.links = _LINKS
        _add_term(recorder, bucket, total)
    _add_term(recorder, bucket, term)
    result = object.__new__(Lazy)
    result.pending, result.row = bucket.ports[0], bucket.next_row()
    return result


def _add_term(recorder: Any, bucket: Any, term: Any) -> None:
    port = term.pending
    bucket.columns[0].append(recorder.base_of(port) + term.row)
    if not port.bucket.done:
        bucket.need(port.bucket)
