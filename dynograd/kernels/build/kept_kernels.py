"""Whether kernels may be compiled: a program that is served may run what packs and the cache have, and nothing else."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["USES", "only_kept", "use_only_kept"]


class _Uses:
    """Nobody pays for what nobody has asked for: kernels that are called most look at `USES.only_kept` first."""

    only_kept = False


USES = _Uses()


class _OfThread(threading.local):
    depth = 0


_of_thread = _OfThread()


def only_kept() -> bool:
    """Whether the calling thread must not compile."""
    return USES.only_kept and _of_thread.depth > 0


class use_only_kept:
    """Inside, in this thread, a kernel that neither a pack nor the cache has is an error, and what gives the bits of NumPy is NumPy's."""

    def __enter__(self) -> None:
        USES.only_kept = True
        _of_thread.depth += 1

    def __exit__(self, *error: Any) -> None:
        _of_thread.depth -= 1
