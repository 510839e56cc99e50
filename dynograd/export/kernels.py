"""The compiled kernels that a process has used, as a pack that other machines of its level load."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dynograd.errors import ProgramError
from dynograd.kernels.build import kernel_cache, packs

__all__ = ["save_kernels"]


def save_kernels(folder: str | os.PathLike[str]) -> Path:
    """Writes the kernels that this process has asked for so far into a pack in a folder; gives its path. See `ExportedProgram.save_kernels`."""
    import numba

    from dynograd.kernels.build.processors import processor

    level = processor().name
    if level == "native":
        raise ProgramError(
            "save_kernels: kernels are compiled for this very processor, and packs are for levels. Set DYNOGRAD_PROCESSOR to a level "
            "(x86-64-v3), if this machine has one."
        )
    entries = {}
    for name in kernel_cache.used():
        payload = packs.read(name, level, numba.__version__) or kernel_cache.read(name)
        if payload is None:
            raise ProgramError(
                "save_kernels: a kernel that the process has used is not in its cache. DYNOGRAD_CACHE=0 turns the cache off, and a full or "
                "read-only disk does: DYNOGRAD_CACHE_DIR names another folder."
            )
        machine_code, _ = kernel_cache.parted(payload)
        entries[name] = kernel_cache.joined(machine_code, b"")
    path = Path(folder) / packs.file_name(level, numba.__version__)
    path.parent.mkdir(parents=True, exist_ok=True)
    packs.write(path, {"level": level, "numba": numba.__version__, "system": sys.platform}, entries)
    return path
