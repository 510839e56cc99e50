"""Files that a process leaves for the next one: compiled kernels, and the text of functions with its bytecode.

What is read is run, so a folder and the files in it must belong to the user alone (`ownership`), and every file carries a digest of its name
and contents: what is damaged, or another entry's, counts as not there. The folders are in `$DYNOGRAD_CACHE_DIR`, or `dynograd` in
`$XDG_CACHE_HOME` or `~/.cache`; `DYNOGRAD_CACHE=0` turns them off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from pathlib import Path

from dynograd.base import ownership
from dynograd.errors import user_level

__all__ = ["digest", "folder", "is_full", "read", "replace", "why_none", "write", "write_text"]

_DIGEST = 32  # bytes
_folders: dict[str, Path | None] = {}
_full: set[str] = set()  # folders where a file could not be left


def folder(kind: str) -> Path | None:
    """Where files of a kind ("kernels", "functions") lie, made if need be; None when they are off, or the folder is not fit.

    That of kernels says so in a warning, once; the other stands beside it and is not fit for the same reason.
    """
    place = _place_of(kind)
    if place not in _folders:
        why = _unfitness(Path(place)) if place else "is turned off"
        _folders[place] = None if why else Path(os.path.realpath(place))  # a link may lead elsewhere tomorrow
        if place and why and kind == "kernels":
            _warn(
                f"the folder for compiled kernels, {place}, {why}. Kernels are compiled anew in each process. Name a folder of your own "
                f"in DYNOGRAD_CACHE_DIR, or set DYNOGRAD_CACHE=0 to silence this."
            )
    return _folders[place]


def digest(data: bytes) -> bytes:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(data).digest()


def why_none(kind: str) -> str:
    """Why `folder(kind)` is None; empty where there is one."""
    place = _place_of(kind)
    if not place:
        return "DYNOGRAD_CACHE turns it off"
    why = _unfitness(Path(place))
    return f"{place} {why}" if why else ""


def is_full(folder: Path) -> bool:
    """Whether a file could not be left in the folder, because its disk is full, say."""
    return str(folder) in _full


def read(path: str | Path, magic: bytes, name: str) -> tuple[bytes | None, bool]:
    """(the contents of the file, whether it is there): None where there is none, or one that is damaged, not the user's own, or not `name`'s."""
    try:
        with ownership.open_own(path) as file:
            data = file.read()
    except ownership.NotOwn:
        return None, True
    except OSError:
        return None, False
    head = len(magic) + _DIGEST
    payload = data[head:]
    if data[: len(magic)] == magic and _digest_of(name, payload) == data[len(magic) : head]:
        return payload, True
    return None, True


def write(path: str | Path, magic: bytes, name: str, payload: bytes) -> None:
    """Leaves `payload`, whole or not at all. A full or read-only disk costs the file and, once, a warning, not the program."""
    _write(path, magic + _digest_of(name, payload) + payload)


def _digest_of(name: str, payload: bytes) -> bytes:
    return digest(name.encode() + b"\0" + payload)


def write_text(path: str | Path, text: str) -> None:
    """Leaves a text for people to open."""
    _write(path, text.encode())


def _write(path: str | Path, data: bytes) -> None:
    try:
        replace(path, data)
    except FileNotFoundError:  # another process clears the cache
        pass
    except OSError as error:
        folder, first = os.path.dirname(path), not _full
        _full.add(folder)
        if first:
            _warn(
                f"nothing can be kept in {folder} ({error.strerror or error}). What is compiled is compiled again in the next process. "
                f"Make room there, or name another folder in DYNOGRAD_CACHE_DIR."
            )


def replace(path: str | Path, data: bytes) -> None:
    """Writes a file, whole or not at all.

    Raises:
        OSError: the disk is full or read-only, say.
    """
    temporary = None
    folder, name = os.path.split(path)
    try:
        beside = os.path.join(folder, f"{name[:12]}{os.urandom(6).hex()}.part")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        temporary = beside
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise


def _place_of(kind: str) -> str:
    if os.environ.get("DYNOGRAD_CACHE", "1").lower() in ("0", "off", "false", "no"):
        return ""
    chosen = os.environ.get("DYNOGRAD_CACHE_DIR")
    if chosen:
        return os.path.join(chosen, kind)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "dynograd", kind)


def _warn(text: str) -> None:
    """Warns of the line of the program."""
    warnings.warn(f"dynograd: {text}", UserWarning, stacklevel=user_level())


def _unfitness(place: Path) -> str | None:
    """Why nothing may be read or written there; None where it may. The folder is made."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"cannot be made ({error.strerror or error})"
    why = ownership.why_not_alone(place, "chmod 700")
    return why or (None if os.access(place, os.W_OK | os.X_OK) else "cannot be written")
