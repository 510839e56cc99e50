"""What the namespace can do: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

from dynograd.base import devices, dtypes
from dynograd.compat.array_api.types import KINDS
from dynograd.cuda import properties

__all__ = ["__array_namespace_info__"]


class Info:
    """Dtypes, devices and limits.

    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    dynograd.float32
    """

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes work; tensors have at most 64 dims."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> devices.device:
        """Where tensors are made that name no device."""
        return devices.as_device(None)

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.dtype]:
        """The dtypes of tensors made from Python numbers, and of indices."""
        return {
            "real floating": dtypes.get_default_dtype(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.dtype]:
        """The standard's dtypes by name; those of a kind, or of several."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        unknown = [name for name in kinds if name not in KINDS]
        if unknown:
            raise ValueError(f"dtypes: expected kinds among {', '.join(map(repr, KINDS))}, got {unknown[0]!r}.")
        return {dtype.name: dtype for name in kinds for dtype in KINDS[name]}

    def devices(self) -> list[devices.device]:
        """The CPU and each GPU."""
        return [devices.cpu, *[devices.device("cuda", index) for index in range(properties.device_count())]]


def __array_namespace_info__() -> Info:
    """The namespace's `Info`."""
    return Info()
