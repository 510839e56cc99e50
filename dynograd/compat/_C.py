"""The names of `torch._C` that programs use where they extend tensors; there is no C++ core here."""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterable
from operator import attrgetter
from types import ModuleType
from typing import Any, Self

from dynograd.amp import autocast
from dynograd.base import stubs
from dynograd.base.devices import device
from dynograd.compat import refused
from dynograd.compat.operators.registry import below_autograd as _AutoDispatchBelowAutograd
from dynograd.interpreter.override_protocol import DisableTorchFunction, DisableTorchFunctionSubclass
from dynograd.interpreter.override_protocol import disabled_torch_function as _disabled_torch_function_impl
from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "_ExcludeDispatchKeyGuard",
    "_AutoDispatchBelowAutograd",
    "_disabled_torch_function_impl",
    "_get_tracing_state",
    "_is_tracing",
    "_log_api_usage_once",
]


class DispatchKey(enum.Enum):
    """Keys under which kernels of operators are registered."""

    CPU, CUDA, Meta, XPU, MPS = "CPU", "CUDA", "Meta", "XPU", "MPS"
    Autograd, AutogradCPU, AutogradCUDA = "Autograd", "AutogradCPU", "AutogradCUDA"
    AutocastCPU, AutocastCUDA, AutocastXPU = "AutocastCPU", "AutocastCUDA", "AutocastXPU"
    CompositeExplicitAutograd, CompositeImplicitAutograd = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
    BackendSelect, Python, PythonTLSSnapshot, Functionalize = (
        "BackendSelect",
        "Python",
        "PythonTLSSnapshot",
        "Functionalize",
    )
    ADInplaceOrView, FuncTorchBatched = "ADInplaceOrView", "FuncTorchBatched"


class DispatchKeySet:
    """A set of keys.

    Args:
        key, more: the keys.

    >>> from dynograd._C import DispatchKey, DispatchKeySet
    >>> (DispatchKeySet(DispatchKey.CPU) | DispatchKeySet(DispatchKey.CUDA)).has(DispatchKey.CUDA)
    True
    """

    def __init__(self, key: DispatchKey, *more: DispatchKey) -> None:
        self.keys = frozenset((key, *more))

    def has(self, key: DispatchKey) -> bool:
        """Whether the key is in the set.

        Args:
            key: a key.
        Returns:
            True or False.
        """
        return key in self.keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys | other.keys))

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with one key more.

        Args:
            key: a key.
        Returns:
            A new set.
        """
        return DispatchKeySet(*self.keys, key)


class _ExcludeDispatchKeyGuard(contextlib.ExitStack):
    """A context in which operators pass over their kernels of these keys: those of autocast and of autograd.

    >>> from dynograd._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
    >>> with dynograd.autocast("cpu"), _ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutocastCPU)):
    ...     dynograd.is_autocast_enabled("cpu")
    False
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        super().__init__()
        self.excluded = [key.name for key in keys.keys]

    def __enter__(self) -> Self:
        entered = super().__enter__()
        for context in _without(self.excluded):
            self.enter_context(context)
        return entered


def _without(keys: Iterable[str]) -> Iterable[Any]:
    for key in keys:
        if key in ("AutocastCPU", "AutocastCUDA"):
            yield autocast(key.removeprefix("Autocast").lower(), enabled=False)
        elif key.startswith("Autograd"):
            yield _AutoDispatchBelowAutograd()


globals().update(stubs.names("_C"))


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _get_default_device() -> str:
    return str(dynograd.get_default_device())


def _get_accelerator() -> device:
    """The kind of device that computes: CUDA where there is a GPU."""
    return dynograd.device("cuda" if dynograd.cuda.is_available() else "cpu")


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _are_functorch_transforms_active() -> bool:
    """Whether `vmap`, `grad` and their like are on."""
    return False


def _set_math_sdp_allow_fp16_bf16_reduction(enabled: bool) -> None:
    """Nothing: attention adds up in float32."""


class _Nn(ModuleType):
    """`torch._C._nn`: the part that modules parse `to(...)` with."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """(device, dtype, non_blocking, memory_format) of the arguments of `to`.

        >>> dynograd._C._nn._parse_to("cpu", dynograd.float64)
        (device(type='cpu'), dynograd.float64, False, None)
        """
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        for value in args:
            if isinstance(value, Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, dynograd.dtype):
                dtype = value
            elif value is not None and not isinstance(value, bool):
                device = value
        flags = [value for value in args if isinstance(value, bool)]
        non_blocking = kwargs.get("non_blocking", flags[0] if flags else False)
        return None if device is None else dynograd.device(device), dtype, non_blocking, kwargs.get("memory_format")


_nn = _Nn("dynograd._C._nn")
_TensorMeta = type(Tensor)


def _is_tracing() -> bool:
    """False."""
    return False


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted."""


_PUBLIC = {name: name for name in "Event Generator Size Stream default_generator dtype layout memory_format".split()}
_PUBLIC |= {"_LinAlgError": "linalg.LinAlgError", "_TensorBase": "Tensor"}
"""What PyTorch's core defines and its public names are: what they are called there, and here."""


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return attrgetter(_PUBLIC[name])(dynograd)
    value = refused.addition("_C", name)
    if value is not None:
        return value
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: there is no C++ core; what PyTorch keeps there has public names elsewhere, or none."
    )


assert (_disabled_torch_function_impl, _AutoDispatchBelowAutograd) is not None
