"""Files of data sets, read within bounds: lines of text or bytes, compressed or not, and errors that name file, line, expected and got."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from typing import Any

from dynograd.base.files import open_ordinary
from dynograd.errors import DataFileError

__all__ = ["LARGEST", "Lines", "bad_line", "name_of", "read_bytes", "read_text"]

LARGEST = 1 << 30
"""Bytes that a file may have by default, after decompression."""
_LONGEST_LINE = 1 << 24
_PIECE = 1 << 20
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


def name_of(file: Any) -> str:
    """What messages call a path or an open file."""
    if isinstance(file, (str, bytes, os.PathLike)):
        return os.fsdecode(file)
    return str(getattr(file, "name", "the given file"))


def bad_line(file: Any, line: int, expected: str, got: str, hint: str = "Correct the file.") -> DataFileError:
    """The error for a line (counted from 1) that is not as it should be."""
    shown = got if len(got) <= 80 else got[:77] + "..."
    return DataFileError(f"{name_of(file)}, line {line}: expected {expected}, got {shown}. {hint}")


def read_bytes(file: Any, at_most: int = LARGEST) -> Any:
    """The whole content, decompressed where the file is gzip.

    Raises:
        DataFileError: damaged, or longer than `at_most` bytes.
    """
    with _Opened(file) as opened:
        pieces, size = [], 0
        try:
            while piece := opened.read(min(_PIECE, at_most + 1 - size)):
                size += len(piece)
                if size > at_most:
                    raise _too_large(file, at_most)
                pieces.append(piece)
        except _DAMAGED as error:
            raise DataFileError(
                f"{name_of(file)}: expected a whole gzip file, got one that is damaged after {size} bytes ({error}). Fetch it again."
            ) from None
        return "".join(pieces) if pieces and isinstance(pieces[0], str) else b"".join(pieces)


def read_text(file: Any, at_most: int = LARGEST) -> str:
    """The whole text; lines end in "\\n"."""
    raw: Any = read_bytes(file, at_most)
    if isinstance(raw, bytes):
        try:
            raw = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _not_utf8(file, raw.count(b"\n", 0, error.start) + 1, raw[error.start], error.start) from None
    return raw.replace("\r\n", "\n")


class Lines:
    r"""The lines of a text, without their ends; `number` is that of the last one, counted from 1.

    Args:
        file: path, compressed by gzip or not, or an open text file.
        at_most: bytes that the file may have after decompression.
    Raises:
        DataFileError: while reading: a damaged or too large file, or a line that is too long.

    >>> import io
    >>> list(Lines(io.StringIO("one\ntwo\n")))
    ['one', 'two']
    """

    def __init__(self, file: Any, at_most: int = LARGEST) -> None:
        self.file, self.at_most = file, at_most
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        self.number = size = 0
        with _Opened(self.file) as opened:
            while True:
                try:
                    raw = opened.readline(_LONGEST_LINE + 1)
                except _DAMAGED as error:
                    raise bad_line(
                        self.file, self.number + 1, "more of a gzip file", f"damage ({error})", "Fetch it again."
                    ) from None
                if not raw:
                    return
                self.number += 1
                size += len(raw)
                if len(raw) > _LONGEST_LINE:
                    raise bad_line(self.file, self.number, f"at most {_LONGEST_LINE} bytes in a line", "more")
                if size > self.at_most:
                    raise _too_large(self.file, self.at_most)
                yield self._text(raw)

    def _text(self, raw: Any) -> str:
        if isinstance(raw, str):
            return raw.rstrip("\r\n")
        if self.number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            return raw.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise _not_utf8(self.file, self.number, raw[error.start], error.start) from None


class _Opened:
    """A path opened for reading, decompressed if it is gzip; an open file is read as it is and stays open."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.ours: list[Any] = []

    def __enter__(self) -> Any:
        if hasattr(self.file, "read"):
            return self.file
        raw = open_ordinary(self.file, "dynograd.data.datasets", DataFileError)
        self.ours.append(raw)
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            return raw
        unpacked = gzip.GzipFile(fileobj=raw)
        buffered = io.BufferedReader(unpacked)
        self.ours.append(buffered)
        return buffered

    def __exit__(self, *error: Any) -> None:
        for file in reversed(self.ours):
            file.close()


def _not_utf8(file: Any, line: int, byte: int, position: int) -> DataFileError:
    got = f"the byte 0x{byte:02x} at position {position}"
    return bad_line(file, line, "UTF-8", got, "Convert the file to UTF-8.")


def _too_large(file: Any, at_most: int) -> DataFileError:
    return DataFileError(
        f"{name_of(file)}: expected at most {at_most} bytes of content, got more. If that is right, pass a larger at_most."
    )
