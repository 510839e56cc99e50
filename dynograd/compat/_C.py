"""The names of `torch._C` that programs use where they extend tensors; there is no C++ core here."""

from __future__ import annotations

from typing import Any

from dynograd.compat.operators.registry import below_autograd as _AutoDispatchBelowAutograd
from dynograd.interpreter.override_protocol import DisableTorchFunction, DisableTorchFunctionSubclass
from dynograd.interpreter.override_protocol import disabled_torch_function as _disabled_torch_function_impl

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_AutoDispatchBelowAutograd",
    "_disabled_torch_function_impl",
    "_get_tracing_state",
    "_is_tracing",
    "_log_api_usage_once",
]


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_tracing() -> bool:
    """False."""
    return False


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted."""


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: there is no C++ core; what PyTorch keeps there has public names elsewhere, or none."
    )


assert (_disabled_torch_function_impl, _AutoDispatchBelowAutograd) is not None
