"""Lowering: the compiled kernels that compute a call of a plan, in the plan's memory.

`lower(call)` gives launches that write all outputs of the call; None: the call stays in its Python form. Written forms stand in the
families' files; an op whose row says `bound` is computed by the launches that were noted while it was recorded, and a rule without a form by the
ops that it calls. `fuse` makes one call of
neighbouring elementwise ones.
"""

from __future__ import annotations

from dynograd.plans.calls import Call
from dynograd.plans.lowering import families, layouts
from dynograd.plans.lowering.bound import lower_bound, moved, noted_form
from dynograd.plans.lowering.elementwise import launches_of, lower_elementwise
from dynograd.plans.lowering.forms import FORMS, Lowered, described
from dynograd.plans.lowering.fusion import Fused, fuse
from dynograd.plans.lowering.halves import lower_halves
from dynograd.plans.lowering.layouts import NoMemoryError
from dynograd.plans.lowering.parts import LOWERS, lower_rule

__all__ = ["Lowered", "described", "fuse", "layouts", "lower", "moved", "noted_form"]


def lower(call: Call) -> Lowered | None:
    """Launches that write `call.outputs` from `call.inputs`, in order; None where the call must stay in Python.

    Args:
        call: on the plan's memory.
    """
    try:
        return _form_of(call)
    except NoMemoryError:
        return None


def _form_of(call: Call) -> Lowered | None:
    lowered = _written(call)
    if lowered is None:
        lowered = lower_bound(call)
    return lower_rule(call) if lowered is None else lowered


def _written(call: Call) -> Lowered | None:
    """By a written form or formula."""
    if isinstance(call, Fused):
        return launches_of(call.computed)
    halves = lower_halves(call, _form_of)
    if halves is not None:
        return halves
    form = FORMS.get((call.kind, call.name))
    if form is not None:
        return form(call)
    if all([output is None for output in call.outputs]) and (call.kind == "rule" or call.op.view):
        return Lowered()  # views of what is there
    return lower_elementwise(call)


LOWERS.append(lambda calls, kept: [_written(call) for call in fuse(calls, kept)])
