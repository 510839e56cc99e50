"""`torch.cpu.amp.autocast`, the old name of `autocast("cpu")`."""

from __future__ import annotations

from typing import Any

from dynograd import amp

__path__: list[str] = []  # PyTorch has modules below it (`compat.faces`)
__all__ = ["autocast"]


class autocast(amp.autocast):
    """`amp.autocast("cpu", ...)`.

    >>> with dynograd.cpu.amp.autocast():
    ...     (dynograd.ones(2, 2) @ dynograd.ones(2, 2)).dtype
    dynograd.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
