"""What NumPy computes beside the kernels of recurrent layers: states copied, biases added, gradients that nobody sent."""

from __future__ import annotations

from typing import Any

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.forms import arguments_of, gradients_of

__all__: list[str] = []

_SUM = formulas.parse("x + y")
# Arguments of the kernels of steps, by place.
_BIAS, _HIDDEN, _CELLS = 2, 3, 4
_INITIAL, _INITIAL_CELLS = 7, 8


def _arguments(call: Call, name: str) -> tuple[Any, ...] | None:
    """Of the noted launch whose kernel's name begins so."""
    for launch in call.launches:
        if launch.name.rpartition(".")[2].startswith(name):
            return launch.arguments
    return None


def _joined(*parts: list[Launch] | None) -> list[Launch] | None:
    launches: list[Launch] = []
    for part in parts:
        if part is None:
            return None
        launches += part
    return launches


def _sum(target: Any, first: Any, second: Any) -> list[Launch] | None:
    return loops.launches_of("add", [_SUM], [target], {"x": first, "y": second})


@assistance("op", "lstm_layer", "gru_layer", "rnn_layer")
def _layer(call: Call) -> list[Launch] | None:
    arguments, steps = arguments_of(call), _arguments(call, "steps")
    if steps is None or arguments.get("lengths") is not None:
        return None
    before = [layouts.copy(steps[_HIDDEN], arguments["h_0"])]
    if call.name == "lstm_layer":
        before.append(layouts.copy(steps[_CELLS], arguments["c_0"]))
    first, second, bias = arguments["bias_ih"], arguments["bias_hh"], steps[_BIAS]
    if first is None or second is None:
        return _joined(*before, call.launches) if first is second else None
    if bias.size == first.size:
        return _joined(*before, _sum(bias, first, second), call.launches)
    joined = first.size // 3 * 2  # the recurrent part of a GRU's new gate has a bias of its own
    return _joined(
        *before,
        _sum(bias[:joined], first[:joined], second[:joined]),
        layouts.copy(bias[joined : first.size], first[joined:]),
        layouts.copy(bias[first.size :], second[joined:]),
        call.launches,
    )


@assistance("rule", "lstm_layer", "gru_layer", "rnn_layer")
def _layer_rule(call: Call) -> list[Launch] | None:
    steps, weights, parts = _arguments(call, "steps_backward"), _arguments(call, "weight_gradients"), gradients_of(call)
    if steps is None or weights is None or parts is None:
        return None
    before = [_state(steps[_INITIAL], parts.get(1))]
    if call.name == "lstm_layer":
        before.append(_state(steps[_INITIAL_CELLS], parts.get(2)))
    *_, first, rest = weights
    second = call.outputs[6 if call.name == "lstm_layer" else 5]
    if second is None:
        return _joined(*before, call.launches)
    split = first.size - rest.size
    behind = [layouts.copy(second[:split], first[:split])]
    if rest.size:
        behind.append(layouts.copy(second[split:], rest))
    return _joined(*before, call.launches, *behind)


def _state(target: Any, g: Any) -> list[Launch] | None:
    return layouts.fill(target, 0) if g is None else layouts.copy(target, g)
