"""The tape: modes, nodes, the backward pass and the record of in-place writes. It knows nodes and arrays, and no op."""

from typing import TYPE_CHECKING

from dynograd.autograd.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from dynograd.base.listing import lists

if TYPE_CHECKING:  # `dynograd/__init__.py` puts these here: they are made higher up
    from dynograd.interpreter.differentiation import backward as backward
    from dynograd.interpreter.differentiation import grad as grad
    from dynograd.tensor.custom_function import Function as Function
    from dynograd.transforms.gradcheck import gradcheck as gradcheck
    from dynograd.transforms.gradcheck import gradgradcheck as gradgradcheck

__all__ = [
    "detect_anomaly",
    "enable_grad",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
__dir__ = lists(__name__, (*__all__, "honest_where", "is_honest_where_enabled", "set_honest_where"))
