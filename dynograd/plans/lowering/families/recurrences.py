"""What NumPy computes beside the kernels of recurrent layers: states copied, biases added, gradients that nobody sent.

Layers with lengths are those of tokens, packed or ragged. Where these lie, a kernel finds out from the lengths in each step.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.forms import Check, Lowered, arguments_of, gradients_of

__all__: list[str] = []

_SUM = formulas.parse("x + y")
# Arguments of the kernels of steps, by place.
_BIAS, _HIDDEN, _CELLS = 2, 3, 4
_OUTER, _INITIAL, _INITIAL_CELLS = 4, 7, 8
_ORDER = 4  # of the kernel that lays ragged tokens out
_TOKENS = 2  # of the kernel that makes the weights' gradients


def _launch(call: Call, name: str) -> Launch | None:
    """The noted launch whose kernel's name begins so."""
    return next((launch for launch in call.launches if launch.name.rpartition(".")[2].startswith(name)), None)


def _arguments(call: Call, name: str) -> tuple[Any, ...] | None:
    launch = _launch(call, name)
    return None if launch is None else launch.arguments


def _joined(*parts: list[Launch] | None) -> list[Launch] | None:
    launches: list[Launch] = []
    for part in parts:
        if part is None:
            return None
        launches += part
    return launches


def _sum(target: Any, first: Any, second: Any) -> list[Launch] | None:
    return loops.launches_of("add", [_SUM], [target], {"x": first, "y": second})


# --- states in the order of their rows ----------------------------------------------------------------------------------------


def _sorted(target: Any, state: Any, order: Any) -> list[Launch] | None:
    """target = state[order], rows of (B, H); all of it where there is no order."""
    if order is None:
        return layouts.copy(target, state)
    from dynograd.kernels.index.picks_numba import pick_rows

    if not state.flags.c_contiguous or state.dtype != target.dtype:
        return None
    if not target.size:
        return []
    kind, (count, width) = numpy.dtype(f"u{state.itemsize}"), state.shape
    outside = numpy.zeros(1, numpy.int64)
    arguments = (layouts.flat(state, kind), count, width, order, 0, layouts.flat(target, kind), outside)
    return [Launch(pick_rows, arguments, count, layouts.parts_of(target.size, count))]


def _unsorted(target: Any, state: Any, order: Any) -> list[Launch] | None:
    """target[order] = state; nothing to do where there is no order, or nobody wants it."""
    if order is None or target is None:
        return []
    from dynograd.kernels.index.scatters_numba import write_slices

    if not target.flags.c_contiguous or state.dtype != target.dtype:
        return None
    if not target.size:
        return []
    kind, (count, width) = numpy.dtype(f"u{state.itemsize}"), state.shape
    into, of = [layouts.flat(array, kind).reshape(1, count, width) for array in (target, state)]
    return [Launch(write_slices, (into, order, of, 0, numpy.zeros(1, numpy.int64)), 1, 1)]


def _in_order(tokens: Any, x: Any, kind: str) -> list[Launch] | None:
    """tokens (N, D) = those of x, in a copy; nothing to do where they are x's own memory."""
    if layouts.overlaps(tokens, x):
        return []
    if kind == "rows":
        x = x.transpose(1, 0, 2)
    return layouts.copy(tokens.reshape(x.shape), x) if tokens.size == x.size else None


# --- forward ------------------------------------------------------------------------------------------------------------------


@assistance("op", "lstm_layer", "gru_layer", "rnn_layer")
def _layer(call: Call) -> list[Launch] | None:
    arguments, steps, products = arguments_of(call), _launch(call, "steps"), _arguments(call, "row_blocks")
    if steps is None or products is None:
        return None
    lengths, order, layout = arguments["lengths"], None, _arguments(call, "lay_out")
    if lengths is not None:
        if layout is None or not numpy.may_share_memory(layout[0], lengths):
            return None  # padded, or lengths that were converted
        order = layout[_ORDER] if arguments["ragged"] else None
    hidden, cells, has_cells = steps.arguments[_HIDDEN], steps.arguments[_CELLS], call.name == "lstm_layer"
    bias = _bias(steps.arguments[_BIAS], arguments["bias_ih"], arguments["bias_hh"])
    place = next(place for place, launch in enumerate(call.launches) if launch is steps)
    launches = _joined(
        _in_order(products[0], arguments["input"], "steps"),
        call.launches[:place],
        _sorted(hidden, arguments["h_0"], order),
        _sorted(cells, arguments["c_0"], order) if has_cells else [],
        bias,
        call.launches[place:],
        _unsorted(call.outputs[1], hidden, order),
        _unsorted(call.outputs[2], cells, order) if has_cells else [],
    )
    if launches is None or layout is None:
        return launches
    tokens, batch = arguments["input"].shape[0], lengths.size
    even = -(-(tokens - numpy.arange(batch)) // max(batch, 1))
    check = _Check(call, lengths, tokens, not arguments["ragged"])
    return Lowered(launches, check=check, places=[(lengths, even)], scratch=layout[1:])


def _bias(bias: Any, first: Any, second: Any) -> list[Launch] | None:
    if first is None or second is None:
        return [] if first is second else None
    if bias.size == first.size:
        return _sum(bias, first, second)
    joined = first.size // 3 * 2  # the recurrent part of a GRU's new gate has a bias of its own
    return _joined(
        _sum(bias[:joined], first[:joined], second[:joined]),
        layouts.copy(bias[joined : first.size], first[joined:]),
        layouts.copy(bias[first.size :], second[joined:]),
    )


class _Check(Check):
    """Of lengths, which must fit the tokens; the kernels take no steps where they do not."""

    def fits(self, *values: Any) -> bool:
        from dynograd.kernels.recurrent.recurrent_layouts_numba import fit

        return bool(fit(*values))


# --- backward -----------------------------------------------------------------------------------------------------------------


@assistance("rule", "lstm_layer", "gru_layer", "rnn_layer")
def _layer_rule(call: Call) -> list[Launch] | None:
    steps, weights, parts = _arguments(call, "steps_backward"), _arguments(call, "weight_gradients"), gradients_of(call)
    layout = call.node.reserve[1]
    if steps is None or weights is None or parts is None or layout.kind == "padded":
        return None
    has_cells, order = call.name == "lstm_layer", layout.order
    states = [(steps[_INITIAL], parts.get(1), call.outputs[1])]
    if has_cells:
        states.append((steps[_INITIAL_CELLS], parts.get(2), call.outputs[2]))
    before = [layouts.fill(state, 0) if g is None else _sorted(state, g, order) for state, g, _ in states]
    if parts.get(0) is not None:
        before.append(_in_order(steps[_OUTER], parts[0], layout.kind))
    before.append(_in_order(weights[_TOKENS], call.node.input, layout.kind))
    behind = [_unsorted(output, state, order) for state, _, output in states]
    *_, first, rest = weights
    second = call.outputs[6 if has_cells else 5]
    if second is not None:
        split = first.size - rest.size
        behind.append(layouts.copy(second[:split], first[:split]))
        if rest.size:
            behind.append(layouts.copy(second[split:], rest))
    launches = _joined(*before, call.launches, *behind)
    return Lowered(launches, places=()) if launches is not None and layout.kind in ("packed", "ragged") else launches


# --- cells ----------------------------------------------------------------------------------------------------------------------


@assistance("op", "lstm_step", "gru_step")
def _cell(call: Call) -> Lowered | None:
    """The kernel activates gates where they lie, in a copy."""
    if len(call.launches) != 1:
        return None
    copied = layouts.copy(call.launches[0].arguments[0], call.inputs[0])
    return None if copied is None else Lowered([*copied, *call.launches])
