"""`torch.cuda.nccl`: NCCL is not used, and programs that ask for its version are told so."""

from __future__ import annotations

from typing import Any

__all__ = ["is_available", "version"]


def is_available(tensors: Any = ()) -> bool:
    """False."""
    return False


def version() -> tuple[int, int, int]:
    """(0, 0, 0): below every version that a program may want."""
    return 0, 0, 0
