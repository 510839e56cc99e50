"""The tape: modes, nodes, the backward pass and the record of in-place writes. It knows nodes and arrays, and no op."""

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
