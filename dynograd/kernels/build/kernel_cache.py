"""Compiled kernels on disk: those that came with the library (`packs`), and those that earlier processes have compiled.

An entry is named by a digest of everything its machine code depends on (source text, argument types, options, processor,
versions), and carries a digest of its contents: what is damaged is compiled again. Loading an entry runs what is in it, so the
folder must belong to the user alone; otherwise nothing is read or written, and one warning says so.

The folder is `$DYNOGRAD_CACHE_DIR`, or `dynograd` in `$XDG_CACHE_HOME` or `~/.cache`; `DYNOGRAD_CACHE=0` turns it off, `DYNOGRAD_PACK=0`
the packs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynograd.base import cache_files
from dynograd.kernels.build import packs
from dynograd.kernels.build.notices import notices

_MAGIC = b"dynograd kernel 3\n"
_LENGTH = 8  # bytes
_counting = threading.Lock()  # kernels are compiled and loaded by several threads
_counts = {"loaded": 0, "packed": 0, "damaged": 0}
_names: list[str] = []
_used: list[str] = []


def statistics() -> dict[str, Any]:
    """How many kernels this process compiled, loaded from the cache folder, loaded from a pack, and found damaged.

    Returns:
        A dict of these counts, with `seconds` that compiling took, and the `names` of what was compiled, in order: one name for each list
        of argument types.

    >>> sorted(dynograd.kernel_cache_statistics())
    ['compiled', 'damaged', 'loaded', 'names', 'packed', 'seconds']
    """
    # A tuple of the list itself reads memory that is gone where another thread makes the list longer meanwhile (CPython 3.11 collects garbage in between).
    names = tuple(_names.copy())
    return {"compiled": len(names), **_counts, "seconds": round(notices.total, 3), "names": names}


def clear() -> int:
    """Deletes the kernels on disk. Running programs keep those they have loaded.

    Returns:
        How many there were.

    >>> count = dynograd.clear_kernel_cache()  # doctest: +SKIP
    """
    where = folder()
    entries = list(where.glob("*.kernel")) if where is not None else []
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            entry.unlink()
    return len(entries)


def digest_of(*parts: str | bytes) -> str:
    """A name for an entry whose machine code depends on `parts`."""
    pieces = [part.encode() if isinstance(part, str) else part for part in parts]
    return cache_files.digest(b"".join([len(data).to_bytes(8, "little") + data for data in pieces])).hex()[:40]


def folder() -> Path | None:
    """Where entries lie, made if need be; None when the cache is off."""
    return cache_files.folder("kernels")


def keeps() -> bool:
    """Whether what is compiled is kept for the next process."""
    where = folder()
    return where is not None and not cache_files.is_full(where)


def read(name: str) -> bytes | None:
    """The contents of the entry `name`, or None where there is none, or a damaged one (which is deleted)."""
    where = folder()
    if where is None:
        return None
    payload, is_there = cache_files.read(where / f"{name}.kernel", _MAGIC, name)
    if payload is not None:
        _count("loaded")
    elif is_there:
        discard(name)
    return payload


def read_from(other: Path, name: str) -> bytes | None:
    """The contents of an entry in another process's folder, or None."""
    return cache_files.read(other / f"{name}.kernel", _MAGIC, name)[0]


def read_packed(name: str, level: str, numba_version: str) -> bytes | None:
    """The contents of the entry `name` of a pack for this level, or else of the folder's entry, or None."""
    payload = packs.read(name, level, numba_version)
    if payload is None:
        return read(name)
    _count("packed")
    return payload


def discard(name: str) -> None:
    """Deletes an entry that turned out to be of no use; one of a pack is not read again."""
    _count("damaged")
    where = None if packs.refuse(name) else folder()
    if where is not None:
        with contextlib.suppress(OSError):
            (where / f"{name}.kernel").unlink()


def _count(what: str) -> None:
    with _counting:
        _counts[what] += 1


def joined(machine_code: bytes, bitcode: bytes) -> bytes:
    """One payload of both; that of a pack has no bitcode."""
    return len(machine_code).to_bytes(_LENGTH, "little") + machine_code + bitcode


def parted(payload: bytes) -> tuple[bytes, bytes]:
    """(machine code, bitcode) of a payload."""
    end = _LENGTH + int.from_bytes(payload[:_LENGTH], "little")
    return payload[_LENGTH:end], payload[end:]


def write(name: str, payload: bytes) -> None:
    """Keeps an entry. A full or read-only disk costs the entry, not the program."""
    where = folder()
    if where is None:
        return
    cache_files.write(where / f"{name}.kernel", _MAGIC, name, payload)


def note_compiled(name: str) -> None:
    """Counts a kernel that had to be compiled."""
    _names.append(name)
    notices.count()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Around a compilation: its time is counted, and what takes long is said on stderr."""
    notices.begin(keeps())
    try:
        yield
    finally:
        notices.end()


def note_used(name: str, by_another: bool) -> None:
    """Remembers that a program has asked for this kernel; one that is a part of another one is not asked for when that is on disk."""
    if not by_another:
        _used.append(name)


def used() -> list[str]:
    """The entries that this process has asked for, each once, in order."""
    return list(dict.fromkeys(_used))


# --- without compiling ----------------------------------------------------------------------------------------------------------


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
