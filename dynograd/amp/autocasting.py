"""`autocast`: inside it, ops take their operands in the dtype that `policies` says.

Outside it costs nothing. While some thread is inside, a reader (`ops/readers.py`) sees the calls of listed ops: it looks at the thread's
state, casts, and goes on.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.amp.policies import BANNED, POLICIES
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import version
from dynograd.base import dtypes
from dynograd.base.devices import ELSEWHERE
from dynograd.base.dtypes import dtype
from dynograd.base.hints import DtypeLike
from dynograd.base.interrupts import InterruptSafe
from dynograd.cuda import driver
from dynograd.errors import user_level
from dynograd.ops.readers import Entry, Reader
from dynograd.tensor.tensor import Tensor

__all__ = [
    "autocast",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]

_HALF = (dtypes.bfloat16, dtypes.float16)
_DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}


class _State(threading.local):
    """Of one thread: the device types that are autocast (True), their dtypes, how deep, and the weights cast so far."""

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtypes = dict(_DEFAULTS)
        self.any = self.is_reading = False  # any of them; whether the reader is on for this thread
        self.inside_op = False
        self.depth = 0
        self.caches = True
        self.cache: dict[Any, tuple[Any, Any, int]] = {}


STATE = _State()


class autocast(InterruptSafe["autocast"]):
    """Ops inside run in a half type where that is safe, and in float32 where digits matter; parameters stay as they are.

    A context manager and a decorator. Matrix products, convolutions, attention and recurrent layers take half operands; losses, sums
    and exponentials on a GPU float32 ones; other ops what they are given. Cast parameters are kept until the outermost region ends.
    Backward belongs outside the region.

    Args:
        device_type: "cuda" or "cpu"; tensors of the other are left alone.
        dtype: bfloat16 or float16; by default float16 on "cuda" and bfloat16 on "cpu".
        enabled: False makes a region without casts inside another.
        cache_enabled: keep the casts of parameters.

    >>> layer = dynograd.nn.Linear(4, 2)
    >>> with dynograd.autocast("cpu"):
    ...     layer(dynograd.ones(3, 4)).dtype
    dynograd.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: DtypeLike = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'. Use 'cuda' or 'cpu'."
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cuda" and driver.known() is None:
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                UserWarning,
                stacklevel=user_level(),
            )
            enabled = False
        if enabled and self.fast_dtype not in _HALF:
            warnings.warn(
                f"In {device_type.upper()} autocast, but the target dtype {self.fast_dtype} is not supported. Disabling autocast. "
                f"{device_type.upper()} Autocast only supports dtype of dynograd.bfloat16, dynograd.float16 currently.",
                UserWarning,
                stacklevel=user_level(),
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = cache_enabled
        self._previous: list[Any] = []

    def _enter(self) -> autocast:
        state = STATE
        self._previous.append((state.enabled[self.device], state.dtypes[self.device], state.caches, state.depth))
        state.depth += 1
        state.dtypes[self.device] = self.fast_dtype
        if self._cache_enabled is not None:
            state.caches = self._cache_enabled
        set_autocast_enabled(self.device, self._enabled)
        return self

    def _leave(self) -> None:
        if self._previous:
            state = STATE
            enabled, state.dtypes[self.device], state.caches, state.depth = self._previous[-1]
            if state.depth == 0:
                state.cache.clear()
            set_autocast_enabled(self.device, enabled)
            del self._previous[-1]

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


# --- the state, as PyTorch names it ----------------------------------------------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` knows the device type.

    Args:
        device_type: "cuda" or "cpu".
    Returns:
        True or False.

    >>> dynograd.amp.is_autocast_available("cpu"), dynograd.amp.is_autocast_available("xpu")
    (True, False)
    """
    return device_type in POLICIES


def _checked(who: str, device_type: str) -> str:
    if not is_autocast_available(device_type):
        raise RuntimeError(f"{who}: unsupported device type '{device_type}'. Use 'cuda' or 'cpu'.")
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether ops on that device type are autocast on this thread.

    Args:
        device_type: "cuda" or "cpu".
    Returns:
        True or False.

    >>> with dynograd.autocast("cpu"):
    ...     dynograd.is_autocast_enabled("cpu")
    True
    """
    if device_type in ELSEWHERE:
        return False
    return STATE.enabled[_checked("is_autocast_enabled", device_type)]


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switches autocast of the device type on this thread.

    Args:
        device_type: "cuda" or "cpu".
        enabled: on or off. Prefer `with autocast(device_type):`, which puts the old state back.

    >>> dynograd.set_autocast_enabled("cpu", True)
    >>> dynograd.ones(2, 2).mm(dynograd.ones(2, 2)).dtype
    dynograd.bfloat16
    >>> dynograd.set_autocast_enabled("cpu", False)
    """
    state = STATE
    _checked("set_autocast_enabled", device_type)
    state.enabled[device_type] = bool(enabled)
    state.any = state.enabled["cpu"] or state.enabled["cuda"]
    (_casting.turn_on if state.any else _casting.turn_off)(state)
    if MODES.recorder is not None:
        MODES.recorder.check_casting()


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that autocast of the device type computes in.

    Args:
        device_type: "cuda" or "cpu".
    Returns:
        A dtype: float16 for "cuda" and bfloat16 for "cpu" unless it was changed.

    >>> dynograd.get_autocast_dtype("cpu")
    dynograd.bfloat16
    """
    return STATE.dtypes[_checked("get_autocast_dtype", device_type)]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Sets the dtype that autocast of the device type computes in, on this thread.

    Args:
        device_type: "cuda" or "cpu".
        dtype: bfloat16 or float16.

    >>> dynograd.set_autocast_dtype("cpu", dynograd.bfloat16)
    """
    STATE.dtypes[_checked("set_autocast_dtype", device_type)] = dtype
    if MODES.recorder is not None:
        MODES.recorder.check_casting()


def get_autocast_gpu_dtype() -> dtype:
    """`get_autocast_dtype("cuda")` (old).

    Returns:
        A dtype.

    >>> dynograd.get_autocast_gpu_dtype()
    dynograd.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype("cuda", dtype)` (old).

    Args:
        dtype: bfloat16 or float16.

    >>> dynograd.set_autocast_gpu_dtype(dynograd.float16)
    """
    set_autocast_dtype("cuda", dtype)


def get_autocast_cpu_dtype() -> dtype:
    """`get_autocast_dtype("cpu")` (old).

    Returns:
        A dtype.

    >>> dynograd.get_autocast_cpu_dtype()
    dynograd.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype("cpu", dtype)` (old).

    Args:
        dtype: bfloat16 or float16.

    >>> dynograd.set_autocast_cpu_dtype(dynograd.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")` (old).

    Returns:
        True or False.

    >>> dynograd.is_autocast_cpu_enabled()
    False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)` (old).

    Args:
        enabled: on or off.

    >>> dynograd.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept.

    Returns:
        True or False.

    >>> dynograd.is_autocast_cache_enabled()
    True
    """
    return STATE.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether casts of parameters are kept from now on, on this thread.

    Args:
        enabled: True keeps them until the outermost region ends.

    >>> dynograd.set_autocast_cache_enabled(True)
    """
    STATE.caches = bool(enabled)


def clear_autocast_cache() -> None:
    """Forgets the casts of parameters that were kept.

    >>> dynograd.clear_autocast_cache()
    """
    STATE.cache.clear()


# --- ops -------------------------------------------------------------------------------------------------------------------------


class _Casting(Reader):
    """Casts the operands of listed ops, while a thread is inside."""

    name = "autocast"
    sets_aside = tuple(POLICIES["cpu"])
    _names = frozenset([name for listed in (*POLICIES.values(), BANNED) for name in listed])

    def sees(self, entry: Entry) -> bool:
        return entry.op is not None and entry.op.name in self._names

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        name = entry.op.name
        state = STATE
        if not state.any or state.inside_op:
            return below(*args, **kwargs)
        first = _first_tensor([*args, *kwargs.values()])
        if first is None:
            return below(*args, **kwargs)
        device = arrays.device_of(first.array).type
        policy = POLICIES[device].get(name) if state.enabled[device] else None
        if policy is None:
            if name in BANNED and device == "cuda" and state.enabled["cuda"]:
                raise RuntimeError(BANNED[name])
            return below(*args, **kwargs)
        state.inside_op = True
        try:
            if policy == "lower":
                dtype = state.dtypes[device]
            elif policy == "widest":
                dtype = _widest(_tensors([*args, *kwargs.values()]), device, state.dtypes[device])
            else:
                dtype = dtypes.float32
                if policy == "around" and first.dtype in _HALF:
                    out = below(*_cast(args, dtype, device), **_cast(kwargs, dtype, device))
                    return _back(out, first.dtype)
            return below(*_cast(args, dtype, device), **_cast(kwargs, dtype, device))
        finally:
            state.inside_op = False


_casting = _Casting()


def _tensors(values: list[Any]) -> list[Tensor]:
    tensors = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += [tensor for tensor in value if isinstance(tensor, Tensor)]
    return tensors


def _first_tensor(values: list[Any]) -> Tensor | None:
    for value in values:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
            return value[0]
    return None


def _eligible(value: Any, device: str) -> bool:
    """Floating tensors of the device; float64 is left alone, as in PyTorch."""
    return (
        value.is_floating_point() and value.dtype is not dtypes.float64 and arrays.device_of(value.array).type == device
    )


def _widest(tensors: list[Tensor], device: str, lower: Any) -> Any:
    kinds = [tensor.dtype for tensor in tensors if _eligible(tensor, device)]
    return dtypes.float32 if any([kind is not lower for kind in kinds]) else lower


def _cast(value: Any, dtype: Any, device: str) -> Any:
    """The value, and what lies in it, in the wanted dtype."""
    if isinstance(value, Tensor):
        return _cast_tensor(value, dtype, device)
    if type(value) is dict:
        return {key: _cast(element, dtype, device) for key, element in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(element, dtype, device) for element in value)
    return value


def _cast_tensor(value: Tensor, dtype: Any, device: str) -> Tensor:
    if not _eligible(value, device) or value.dtype is dtype:
        return value
    keeps = STATE.caches and dtype in _HALF and value.dtype is dtypes.float32 and value.requires_grad and value.is_leaf
    if not keeps:
        return value.to(dtype)
    key = (id(value), dtype, bool(MODES.grad))
    now = version(value.array)
    result = STATE.cache.get(key)
    if result is None or result[0] is not value or result[2] != now:
        result = STATE.cache[key] = (value, value.to(dtype), now)
    return result[1]


def _back(out: Any, dtype: Any) -> Any:
    if isinstance(out, Tensor):
        return out.to(dtype) if out.dtype is dtypes.float32 else out
    if isinstance(out, tuple):
        results = [_back(element, dtype) for element in out]
        return type(out)(*results) if hasattr(out, "_fields") else tuple(results)
    return out
