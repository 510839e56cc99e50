"""What waiting for each other has gained: an estimate from what ran in groups.

It counts and takes no time, so that a program computes the same bits on each run. Microseconds are those of one core, of rows of 32 to
128 float32 numbers: small calls are the ones that may lose by it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["gained"]

# By the sort of call: what a call in a group costs less than one at once, and what a group costs; with gradients, the way back included.
_PLAIN = {"elementwise": (-0.5, 35.0), "product": (4.0, 40.0), "other": (3.0, 40.0), "cell": (20.0, 150.0)}
_WITH_GRADIENTS = {
    "elementwise": (2.0, 90.0),
    "product": (25.0, 150.0),
    "other": (10.0, 130.0),
    "cell": (65.0, 330.0),
}
_PRODUCTS = {"linear", "matmul", "scaled_dot_product_attention", "convolution"}


def gained(groups: list[tuple[Any, int, Any]], turns: int) -> float:
    """About how many microseconds a run of these groups (form, size, sources) has saved, with so many turns of examples."""
    total = -3.0 * turns
    for form, size, _ in groups:
        form = getattr(form, "first", form)  # of a family
        kind = form.kinds[0]
        costs = _WITH_GRADIENTS if kind.grad or kind.device.type != "cpu" else _PLAIN
        call, group = costs[_sort(form)]
        total += call * size - group
    return total


def _sort(form: Any) -> str:
    if form.run_chained is not None:
        return "cell"
    if form.op.name in _PRODUCTS:
        return "product"
    return "elementwise" if form.op.kind == "elementwise" else "other"
