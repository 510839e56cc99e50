"""Packs: files of compiled kernels that are shipped with the library, one for each level of processors.

A pack lies in `dynograd/kernels/packs/` (made when the wheel was built), in `packs/` of the user's cache (`make_pack`), or in a folder that a
program names (`add_folder`), under a name that says for which level, system and Numba it is. Loading an entry runs what is in it, so the file
and its folder must be such as the library's own files are: nobody else may write them. `DYNOGRAD_PACK=0` turns packs off.

The format: a line of magic, the digest of the head, the length of the head, the head, the entries. The head is a line of JSON that says
what the pack is for, and the index: for each entry, in the order of names, its name, place, size and digest. Entries are compressed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import sys
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynograd.base import cache_files, ownership

__all__ = ["Pack", "add_folder", "file_name", "folder_of_the_library", "read", "refuse", "reset", "write"]

_MAGIC = b"dynograd pack 1\n"
_ENTRY = struct.Struct("<20sQI32s")  # name, place behind the head, size, digest
_LENGTH = struct.Struct("<Q")
_START = len(_MAGIC) + 32 + _LENGTH.size


class Unfit(ValueError):
    """A pack that must not be used, and why."""


@dataclass(frozen=True)
class Pack:
    """A pack whose head has been read."""

    path: str
    made_for: dict[str, str]
    index: bytes
    start: int

    @classmethod
    def open(cls, path: str | Path, file: Any = None) -> Pack:
        """Reads and checks the head.

        Args:
            file: the open file, where its owner has been looked at.
        Raises:
            OSError: the file cannot be read.
            Unfit: it is no pack, or a damaged one.
        """
        with file or open(path, "rb") as file:
            start, size = file.read(_START), os.fstat(file.fileno()).st_size
            if start[: len(_MAGIC)] != _MAGIC or len(start) < _START:
                raise Unfit("is no pack")
            head = file.read(min(size, _LENGTH.unpack_from(start, _START - _LENGTH.size)[0]))
        if hashlib.sha256(head).digest() != start[len(_MAGIC) : -_LENGTH.size]:
            raise Unfit("is damaged")
        line, _, index = head.partition(b"\n")
        try:
            made_for = json.loads(line)
        except ValueError:
            raise Unfit("is damaged") from None
        if not isinstance(made_for, dict) or len(index) % _ENTRY.size:
            raise Unfit("is damaged")
        return cls(str(path), made_for, index, _START + len(head))

    def names(self) -> list[str]:
        """Those of all entries."""
        return [self.index[at : at + 20].hex() for at in range(0, len(self.index), _ENTRY.size)]

    def read(self, name: str) -> bytes | None:
        """The contents of an entry; None where there is none of this name.

        Raises:
            OSError: the file cannot be read any more.
            Unfit: the entry is damaged.
        """
        sought, low, high = bytes.fromhex(name), 0, len(self.index) // _ENTRY.size
        while low < high:
            middle = (low + high) // 2
            key, place, size, digest = _ENTRY.unpack_from(self.index, middle * _ENTRY.size)
            if key == sought:
                with open(self.path, "rb") as file:
                    end = os.fstat(file.fileno()).st_size
                    file.seek(min(self.start + place, end))
                    data = file.read(min(size, end))
                if hashlib.sha256(data).digest() != digest:  # the head's, whose file was looked at
                    raise Unfit(f"has a damaged entry ({name[:8]})")
                try:
                    return zlib.decompress(data)
                except zlib.error:
                    raise Unfit(f"has a damaged entry ({name[:8]})") from None
            low, high = (middle + 1, high) if key < sought else (low, middle)
        return None


def write(path: str | Path, made_for: Mapping[str, str], entries: Mapping[str, bytes]) -> None:
    """Writes a pack of `entries` (40 hexadecimal digits -> contents); the same ones give the same bytes.

    Raises:
        OSError: the disk is full, say. What is there stays as it was.
    """
    index, blobs, place = b"", [], 0
    for name, payload in sorted(entries.items()):
        blob = zlib.compress(payload, 9)
        index += _ENTRY.pack(bytes.fromhex(name), place, len(blob), hashlib.sha256(blob).digest())
        blobs.append(blob)
        place += len(blob)
    head = json.dumps(dict(sorted(made_for.items()))).encode() + b"\n" + index
    start = _MAGIC + hashlib.sha256(head).digest() + _LENGTH.pack(len(head))
    cache_files.replace(path, b"".join((start, head, *blobs)))
    os.chmod(path, 0o644)  # root may install it for others


def file_name(level: str, numba_version: str) -> str:
    """Of the pack of this level, on this system.

    >>> file_name("x86-64-v3", "0.68.1").endswith("-numba0.68.1.pack")
    True
    """
    return f"{level}-{sys.platform}-numba{numba_version}.pack"


def folder_of_the_library() -> Path:
    """Where the packs lie that came with the library."""
    return Path(__file__).parents[1] / "packs"


# --- those of this process ---------------------------------------------------------------------------------------------------

_opened: dict[tuple[str, str], list[Pack]] = {}
_refused: set[str] = set()
_others: list[Path] = []  # folders that the program has named


def reset() -> None:
    """Forgets what has been opened, as a new process would."""
    _opened.clear()
    _refused.clear()
    _others.clear()


def add_folder(folder: str | os.PathLike[str]) -> None:
    """Packs in this folder are read too. Loading runs what is in them: the folder must be such as the library's own."""
    path = Path(folder)
    if path not in _others:
        _others.append(path)
        _opened.clear()


def read(name: str, level: str, numba_version: str) -> bytes | None:
    """The contents of the entry `name` of this process's packs, or None. What is wrong with a pack is said in a warning, once."""
    if name in _refused:
        return None
    for pack in list(_packs_of(level, numba_version)):
        try:
            payload = pack.read(name)
        except (OSError, Unfit) as error:
            _opened[level, numba_version].remove(pack)
            _warn(pack.path, _reason(error))
            continue
        if payload is not None:
            return payload
    return None


def in_use(level: str, numba_version: str) -> list[tuple[str, int]]:
    """The packs of this process, the first that is asked first: path, and number of kernels."""
    return [(str(pack.path), len(pack.names())) for pack in _packs_of(level, numba_version)]


def refuse(name: str) -> bool:
    """The entry turned out to be of no use; whether it came from here."""
    here = name not in _refused and any(name in pack.names() for packs in _opened.values() for pack in packs)
    if here:
        _refused.add(name)
    return here


def _packs_of(level: str, numba_version: str) -> list[Pack]:
    if (level, numba_version) not in _opened:
        _opened[level, numba_version] = _open_all(level, numba_version)
    return _opened[level, numba_version]


def _open_all(level: str, numba_version: str) -> list[Pack]:
    if level == "native" or os.environ.get("DYNOGRAD_PACK", "1").lower() in ("0", "off", "false", "no"):
        return []
    packs = []
    shipped = folder_of_the_library()
    for folder in (shipped, *_others, cache_files.folder("packs")):
        path = None if folder is None else folder / file_name(level, numba_version)
        if path is None or not path.exists():
            continue
        try:
            pack = _opened_own(path)
            _check_purpose(pack, level, numba_version)
        except (OSError, Unfit) as error:
            _warn(str(path), _reason(error))
        else:
            packs.append(pack)
    if not packs and shipped.is_dir():
        _tell_of_others(shipped, level, numba_version)
    return packs


def _check_purpose(pack: Pack, level: str, numba_version: str) -> None:
    purpose = {"level": level, "numba": numba_version, "system": sys.platform}
    for key, value in purpose.items():
        if pack.made_for.get(key) != value:
            raise Unfit(f"was made for {key} {pack.made_for.get(key)}, and this is {value}")


def _opened_own(path: Path) -> Pack:
    """The pack, when nobody can write it or its folder who cannot write the library's own files beside it. Links are followed first.

    Raises:
        OSError: the file cannot be read.
        Unfit: others could have written it; or it is no pack, or a damaged one.
    """
    code = Path(__file__).stat()
    owners = (0, code.st_uid)
    group = code.st_gid if code.st_mode & stat.S_IWGRP else None
    real = os.path.realpath(path)
    try:
        file = ownership.open_own(real, owners, group)
    except ownership.NotOwn as error:
        raise Unfit(str(error)) from None
    with file:
        why = ownership.why_not_alone(os.path.dirname(real), "chmod go-w", owners, group)
        if why is not None:
            raise Unfit(why)
        return Pack.open(real, file)


def _tell_of_others(folder: Path, level: str, numba_version: str) -> None:
    """Says so where the library came with packs, but with none for this process."""
    others = sorted(path.name for path in folder.glob("*.pack"))
    if others and not (folder / file_name(level, numba_version)).exists():
        _warn(str(folder / others[0]), f"is not for this process ({level}, {sys.platform}, Numba {numba_version})")


def _reason(error: Exception) -> str:
    return f"cannot be read ({error.strerror or error})" if isinstance(error, OSError) else str(error)


def _warn(path: str, reason: str) -> None:
    warnings.warn(
        f"dynograd: the pack of compiled kernels {path} {reason}. It is not used; kernels are compiled when they are "
        f"first called. DYNOGRAD_PACK=0 silences this.",
        UserWarning,  # a `RuntimeWarning` of dynograd's is not shown
        stacklevel=2,
    )
