"""Checkpoints for PyTorch, written without it: the zip archive that `torch.load(weights_only=True)` reads, also with `mmap=True`.

Its entries are those that PyTorch writes: data.pkl, byteorder, data/0, data/1, ..., version; uncompressed, with checksums, storages at
multiples of 64 bytes. The same value gives the same bytes.
"""

from __future__ import annotations

import sys
import zipfile
from typing import Any

from dynograd.base.files import Output
from dynograd.saving.torch_pickle_writer import pickled
from dynograd.saving.zip_archives import new_archive

__all__ = ["write"]

_ALIGNMENT = 64
_HEADER, _EXTRA, _ZIP64 = (
    30,
    4,
    20,
)  # bytes of a file's header without its name; of an extra field's own; of the one for large files
_LARGE = 1 << 30  # zipfile takes the header for large files from 2.04e9 bytes on
_MOMENT = (1980, 1, 1, 0, 0, 0)


def write(value: Any, output: Output) -> None:
    """Writes a value.

    Args:
        value: tensors, numbers, strings and containers of them.
        output: where to.
    Raises:
        TypeError: the value holds something that torch.load(weights_only=True) refuses; nothing has been written then.
    """
    text, storages = pickled(value)
    with new_archive(output) as archive:
        _add(archive, "data.pkl", text)
        _add(archive, "byteorder", sys.byteorder.encode())
        for key, memory in storages:
            _add(archive, f"data/{key}", memory)
        _add(archive, "version", b"3\n")


def _add(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    """An entry whose content begins at a multiple of 64 bytes: an extra field, `FB` as in PyTorch's files, fills the gap."""
    info = zipfile.ZipInfo(f"archive/{name}", _MOMENT)
    raw = memoryview(content).cast("B")
    info.file_size = raw.nbytes
    large = raw.nbytes > _LARGE
    assert archive.fp is not None
    header = _HEADER + len(info.filename) + _EXTRA + (_ZIP64 if large else 0)
    gap = -(archive.fp.tell() + header) % _ALIGNMENT
    info.extra = b"FB" + gap.to_bytes(2, "little") + b"Z" * gap
    with archive.open(info, "w", force_zip64=large) as entry:
        entry.write(raw)
