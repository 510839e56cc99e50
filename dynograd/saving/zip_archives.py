"""Zip archives that are put in their place like all other files, whole or not at all: `zipfile` writes them to an `Output`."""

from __future__ import annotations

import io
import zipfile
from typing import IO, Any, cast

from dynograd.base.files import Output

__all__ = ["new_archive"]


def new_archive(output: Output) -> zipfile.ZipFile:
    """An archive, still empty, that is written to `output`; nothing in it is compressed."""
    return zipfile.ZipFile(cast("IO[bytes]", _Archive(output)), "w", zipfile.ZIP_STORED)


class _Archive(io.RawIOBase):
    """An `Output` as the file object that `zipfile` writes to; it goes back for checksums where the output can."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output, self.place, self.end = output, 0, 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.output.can_go_back

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = 0) -> int:
        if not self.output.can_go_back:
            raise io.UnsupportedOperation("a stream cannot go back")
        self.place = offset + (0, self.place, self.end)[whence]
        return self.place

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        if self.output.can_go_back:
            self.output.write_at(data, self.place)
        else:
            self.output.write(data)
        self.place += count
        self.end = max(self.end, self.place)
        return count
