"""Types of arguments that many functions share, for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dynograd.base.devices import device
from dynograd.base.dtypes import dtype

__all__ = ["DeviceLike", "DtypeLike", "Sizes"]

DeviceLike: TypeAlias = device | str | int | None
"""A device, its name, or the number of a GPU; None is the default device."""

DtypeLike: TypeAlias = dtype | None
"""A dtype; None is the default one."""

Sizes: TypeAlias = int | Sequence[int]
"""One number for all dims, or one for each."""
