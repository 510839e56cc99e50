"""What the tables of lowering say of an op: by which way a compiled step computes it, and why a call of it is computed in Python."""

from __future__ import annotations

import numpy

from dynograd.interpreter import fusion
from dynograd.ops.op import Op
from dynograd.plans.calls import Call
from dynograd.plans.lowering import loops
from dynograd.plans.lowering.bound import ASSISTANCE
from dynograd.plans.lowering.elementwise import pointwise
from dynograd.plans.lowering.forms import FORMS

__all__ = ["way_of", "way_of_rule", "why_in_python"]


def why_in_python(call: Call) -> str:
    """Why a call of a plan has no launches."""
    op = call.op
    if call.in_place:
        return "it writes into what it reads"
    if op is not None and op.row["by_row"] is not None:
        return "it draws random numbers, others in each call"
    if any([isinstance(value, numpy.generic) for value in call.inputs]):
        return "NumPy's numbers among its operands have no memory that a plan could read"
    if (call.kind, call.name) in FORMS:
        return "its written form does not take these dtypes, layouts or arguments"
    if op is None:
        return "there is no written form of it"
    if op.kind == "elementwise" and op.formula is not None:
        known = pointwise(call) is not None
        return "there is no loop of its function" if known else "its formula does not take these dtypes or arguments"
    if not call.launches:
        return "there is no written form of it, and NumPy computes it"
    if any([array.dtype.kind not in "fcb" for array in call.inputs if type(array) is numpy.ndarray]):
        if not op.row["bound"]:
            return "there is no written form of it, and its kernels read whole numbers, which Python may have read, too"
    return "there is no written form of it, and the kernels that ran in it are not all that computes it"


def way_of(op: Op) -> str:
    """How a compiled step computes an op, as the tables say; calls with unusual dtypes, layouts or arguments may still be computed in Python.

    Returns:
        "parts": as the ops that it is made of; "–": it is not recorded, and runs as it is written; "view": there is nothing to compute; "form": by
        a written form; "formula": by a loop of its formula; "bound": by the compiled kernels that ran in it, of which the tables know that they can
        be run again; "trial": by those kernels (or of a rule the ops that it calls), where a trial proves them, else in Python; "Python".
    """
    if op.kind == "composed":
        return "parts"
    if not op.array_names or "depends on values" in (op.row["at_once"] or ""):
        return "–"
    return "view" if op.view else _way("op", op, (op.formula,))


def way_of_rule(op: Op) -> str:
    """The same of the op's backward rule; "" where it has none of its own."""
    has_rule = op.fast_backward_rule or op.backward_rule or op.derivative
    if op.kind == "composed" or not op.differentiable or not has_rule or way_of(op) == "–":
        return ""
    return _way("rule", op, op.derivative or ())


def _way(kind: str, op: Op, formulas: tuple[str | None, ...]) -> str:
    if (kind, op.name) in FORMS:
        return "form"
    if op.kind == "elementwise" and op.formula is not None:
        return "formula" if all([_has_loop(op, text) for text in formulas if text is not None]) else "Python"
    if op.row["by_row"] is not None:
        return "Python"
    return "bound" if (kind, op.name) in ASSISTANCE or op.row["bound"] else "trial"


def _has_loop(op: Op, text: str) -> bool:
    """Whether there is compiled code of a formula, for float32 or whole numbers."""
    names, truths = (*op.array_names, "g", "result"), frozenset[str]()
    if op.promote == "logical":
        truths = frozenset(op.array_names)
    elif op.promote == "select":
        truths = frozenset(op.array_names[:1])
    loop = loops.loop_of(op.name, names, op.static_names, (fusion.expression(text),), truths)
    return any([loop.supports(numpy.dtype(kind)) for kind in (numpy.float32, numpy.int32)])
