"""What waiting for each other has gained: an estimate from what ran in groups.

It counts and takes no time, so that a program computes the same bits on each run. Microseconds are those of one core, of rows of 32 to
128 float32 numbers: small calls are the ones that may lose by it.
"""

from __future__ import annotations

from typing import Any

# By the sort of call: what a call in a group costs less than one at once, and what a group costs; with gradients, the way back included.
_PLAIN = {
    "elementwise": (-0.5, 30.0),
    "view": (1.0, 15.0),
    "product": (4.0, 35.0),
    "other": (2.5, 35.0),
    "cell": (24.0, 120.0),
    "fused": (30.0, 30.0),
}
_WITH_GRADIENTS = {
    "elementwise": (2.0, 80.0),
    "view": (4.0, 40.0),
    "product": (15.0, 100.0),
    "other": (6.0, 70.0),
    "cell": (65.0, 230.0),
    "fused": (85.0, 30.0),
}
_TURN = 3.0
_WEIGHT = 0.15  # for each number that a product gives: the gradient of a weight costs as much as the weight is large
_LARGEST = 1024


def gained(report: Any, since: int = 0, turns: int = 0) -> float:
    """About how many microseconds the groups of a report, from the number `since` on, and as many turns of examples have saved."""
    total = -_TURN * turns
    for form, size, _ in report.order[since:]:
        form = getattr(form, "first", form)  # of a family
        fused = form in report.fused
        for part in [form] if form.run_ops is None else [step.form for step in form.sequence.steps]:
            total += _gain_of(part, size, fused)
    return total


def _gain_of(form: Any, size: int, fused: bool) -> float:
    kind = form.kinds[0]
    sort = "fused" if fused else _sort(form)
    on_way_back = kind.grad or kind.device.type != "cpu"
    call, group = (_WITH_GRADIENTS if on_way_back else _PLAIN)[sort]
    if on_way_back and sort == "product":
        call += _WEIGHT * min(kind.size, _LARGEST)
    return call * size - group


def _sort(form: Any) -> str:
    if form.run_chained is not None:
        return "cell"
    if form.op.row["work"] in ("product", "convolution", "attention"):
        return "product"
    if form.op.view:
        return "view"
    return "elementwise" if form.op.kind == "elementwise" else "other"
