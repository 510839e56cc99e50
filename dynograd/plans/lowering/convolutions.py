"""What NumPy computes beside the kernels of convolutions: sums that begin from zero, and the gradient of a bias."""

from __future__ import annotations

from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, reductions
from dynograd.plans.lowering.bound import assistance

__all__: list[str] = []

# They add to their first argument.
_ADDING = ("correlate_weights", "correlate_weight_points")


@assistance("rule", "convolution")
def _convolution_rule(call: Call) -> list[Launch] | None:
    """The gradient of a bias is summed anew: NumPy adds up the blocks of its kernel."""
    bias = call.outputs[2] if len(call.outputs) > 2 else None
    launches: list[Launch] = []
    for launch in call.launches:
        if launch.name.rpartition(".")[2] in _ADDING:
            zeros = layouts.fill(launch.arguments[0], 0)
            if zeros is None:
                return None
            launches += zeros
        if bias is None or not launch.name.startswith("sum_"):
            launches.append(launch)
    if bias is None:
        return launches
    g = call.inputs[0]
    summed = reductions.summed(g, (0, *range(2, g.ndim)), bias)
    return None if summed is None else [*launches, *summed]
