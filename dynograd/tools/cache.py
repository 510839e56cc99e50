"""`python -m dynograd cache info`, `python -m dynograd cache clear`: what processes leave for the next one, compiled kernels above all."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dynograd.base import cache_files
from dynograd.kernels.build import kernel_cache
from dynograd.utils import programs

__all__ = ["describe", "main", "readable_size"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0, or 2 when the folder cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m dynograd cache", description=(__doc__ or "").partition("\n")[0])
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("info", help="where the cache is, what is in it, and its size")
    actions.add_parser("clear", help="delete what is in it")
    options = parser.parse_args(arguments)
    return programs.run({"info": _show, "clear": _clear}[options.action], "cache")


def describe() -> dict[str, str]:
    """The folder of the cache and what is in it, in words."""
    why = cache_files.why_none("kernels")
    kernels = None if why else kernel_cache.folder()
    if kernels is None:
        return {"folder": f"none: {why}"}
    texts = cache_files.folder("functions")
    return {
        "folder": str(kernels.parent),
        "kernels": _number_and_size(kernels, "*.kernel"),
        "functions": "none" if texts is None else _number_and_size(texts, "**/*.py"),
    }


def readable_size(size: int) -> str:
    """
    >>> from dynograd.tools.cache import readable_size
    >>> readable_size(523), readable_size(3_400_000)
    ('523 bytes', '3.2 MiB')
    """
    return f"{size} bytes" if size < 1024 else f"{size / 2**10:.1f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"


def _number_and_size(folder: Path, pattern: str) -> str:
    sizes = []
    for path in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # another process deletes it
            sizes.append(path.stat().st_size)
    return f"{len(sizes)}, {readable_size(sum(sizes))}"


def _show() -> None:
    for name, value in describe().items():
        print(f"{name:9}  {value}")


def _clear() -> None:
    why = cache_files.why_none("kernels")
    folder = None if why else kernel_cache.folder()
    if folder is None:
        raise programs.UsageError(why)
    number = kernel_cache.clear()
    texts = cache_files.folder("functions")
    if texts is not None:
        for generation in os.listdir(texts):
            shutil.rmtree(texts / generation, ignore_errors=True)
    print(f"{number} kernels deleted from {folder.parent}")


if __name__ == "__main__":
    sys.exit(main())
