"""Compiled kernels on disk, so that the second process compiles nothing.

An entry is named by a digest of everything its machine code depends on (source text, argument types, options, processor,
versions), and carries a digest of its contents: what is damaged is compiled again. Loading an entry runs what is in it, so the
folder must belong to the user alone; otherwise nothing is read or written, and one warning says so.

The folder is `$DYNOGRAD_CACHE_DIR`, or `dynograd` in `$XDG_CACHE_HOME` or `~/.cache`; `DYNOGRAD_CACHE=0` turns the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

__all__ = ["clear", "digest_of", "folder", "note_compiled", "read", "statistics", "write"]

_MAGIC = b"dynograd kernel 1\n"
_counts = {"compiled": 0, "loaded": 0, "damaged": 0}
_folders: dict[str, Path | None] = {}


def statistics() -> dict[str, int]:
    """Of this process: how many kernels were compiled, loaded from disk, and found damaged there.

    >>> sorted(dynograd.kernel_cache_statistics())
    ['compiled', 'damaged', 'loaded']
    """
    return dict(_counts)


def clear() -> int:
    """Deletes the kernels on disk; how many there were. Running programs keep those they have loaded."""
    where = folder()
    entries = list(where.glob("*.kernel")) if where is not None else []
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            entry.unlink()
    return len(entries)


def digest_of(*parts: str | bytes) -> str:
    """A name for an entry whose machine code depends on `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:40]


def folder() -> Path | None:
    """Where entries lie, made if need be; None when the cache is off."""
    chosen_folder = _wanted_folder()
    if chosen_folder not in _folders:
        _folders[chosen_folder] = _usable(Path(chosen_folder)) if chosen_folder else None
    return _folders[chosen_folder]


def read(name: str) -> bytes | None:
    """The contents of the entry `name`, or None where there is none, or a damaged one (which is deleted)."""
    where = folder()
    if where is None:
        return None
    entry = where / f"{name}.kernel"
    try:
        text = entry.read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + 32
    payload = text[head:]
    if text[: len(_MAGIC)] == _MAGIC and hashlib.sha256(payload).digest() == text[len(_MAGIC) : head]:
        _counts["loaded"] += 1
        return payload
    discard(name)
    return None


def discard(name: str) -> None:
    """Deletes an entry that turned out to be of no use."""
    _counts["damaged"] += 1
    where = folder()
    if where is not None:
        with contextlib.suppress(OSError):
            (where / f"{name}.kernel").unlink()


def write(name: str, payload: bytes) -> None:
    """Keeps an entry. A full or read-only disk costs the entry, not the program."""
    where = folder()
    if where is None:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=name[:12], suffix=".part", dir=where)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, where / f"{name}.kernel")
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def note_compiled() -> None:
    """Counts a kernel that had to be compiled."""
    _counts["compiled"] += 1


def _wanted_folder() -> str:
    if os.environ.get("DYNOGRAD_CACHE", "1").lower() in ("0", "off", "false", "no"):
        return ""
    chosen = os.environ.get("DYNOGRAD_CACHE_DIR")
    if chosen:
        return os.path.join(chosen, "kernels")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "dynograd", "kernels")


def _usable(where: Path) -> Path | None:
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = where.stat()
    except OSError as error:
        _warn(where, f"cannot be made ({error.strerror or error})")
        return None
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            _warn(where, f"belongs to user {status.st_uid}, not to you ({os.geteuid()})")
            return None
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            mode = stat.S_IMODE(status.st_mode)
            _warn(where, f"can be written by others (mode {mode:o}; chmod 700 mends it)")
            return None
    if not os.access(where, os.W_OK | os.X_OK):
        _warn(where, "cannot be written")
        return None
    return where


def _warn(where: Path, why: str) -> None:
    warnings.warn(
        f"dynograd: the folder for compiled kernels, {where}, {why}. Kernels are compiled anew in each process. "
        f"Name a folder of your own in DYNOGRAD_CACHE_DIR, or set DYNOGRAD_CACHE=0 to silence this.",
        RuntimeWarning,
        stacklevel=2,
    )
