# fmt: off
# ruff: noqa
"""`dynograd.autograd.anomaly_mode`, which is `dynograd.autograd.modes`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

from dynograd.autograd.modes import detect_anomaly as detect_anomaly
from dynograd.autograd.modes import enable_grad as enable_grad
from dynograd.autograd.modes import inference_mode as inference_mode
from dynograd.autograd.modes import is_anomaly_enabled as is_anomaly_enabled
from dynograd.autograd.modes import is_grad_enabled as is_grad_enabled
from dynograd.autograd.modes import is_inference_mode_enabled as is_inference_mode_enabled
from dynograd.autograd.modes import no_grad as no_grad
from dynograd.autograd.modes import set_detect_anomaly as set_detect_anomaly
from dynograd.autograd.modes import set_grad_enabled as set_grad_enabled
from dynograd.autograd.modes import set_multithreading_enabled as set_multithreading_enabled
