"""Files that are there whole or not at all: written beside their place, brought to the disk, and moved over the old one.

A name of a temporary file says which process of which machine writes it, so that the next writer removes what a killed one left.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import mmap
import os
import re
import stat
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from dynograd.errors import CheckpointError

__all__ = ["Output", "Source", "Stream", "binary", "open_ordinary", "remove_stale", "write_atomically"]

_PIECE = 1 << 26  # bytes in one write call; the kernel takes at most 2 GB
_MOST_LINKS = 40  # after each other, as in Linux
_LONGEST = 120  # characters of the target's name in the temporary one: a name has at most 255 bytes
_NOT_A_FOLDER_TO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF, errno.EISDIR, errno.EPERM}
_count = itertools.count()
_own: set[str] = set()  # temporary files that this process is writing now


def write_atomically(path: str, write: Callable[[Any], None], who: str = "save") -> None:
    """Puts a file at `path`; whatever happens on the way, what was there before stays there whole.

    Args:
        path: a link is followed, but not one that another user has left where all may write; a device or a pipe is written directly.
        write: writes the content to the open `Output` that it is given.
        who: begins the messages.
    Raises:
        CheckpointError: the system refused something; the message has its words and says what is at `path` now.
    """
    _check_links(path, who)
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        _write_to_special(path, write, who)
        return
    folder, name = os.path.split(path)
    temporary = _unused_name(folder, name)
    _own.add(temporary)
    try:
        try:
            _write_and_sync(temporary, path, write)
            os.replace(temporary, path)
        except OSError as error:
            raise CheckpointError(_failure(who, path, error)) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    finally:
        _own.discard(temporary)
    _sync_folder(folder, path, who)
    remove_stale(folder, name)


class Output:
    """A file that is being written: `write` takes all of a buffer, `write_at` puts bytes at a place where `can_go_back`."""

    def __init__(self, handle: int, can_go_back: bool = True) -> None:
        self.handle, self.can_go_back = handle, can_go_back

    def write(self, data: Any) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[os.write(self.handle, rest[:_PIECE]) :]

    def write_at(self, data: Any, offset: int) -> None:
        os.lseek(self.handle, offset, os.SEEK_SET)
        self.write(data)


class Stream(Output):
    """An `Output` on any object with `write`."""

    def __init__(self, file: Any) -> None:
        super().__init__(-1, can_go_back=False)
        self.file = file

    def write(self, data: Any) -> None:
        self.file.write(memoryview(data).cast("B"))

    def flush(self) -> None:
        """Hands on what the object keeps back: others see all that was written when `save` returns."""
        flush = getattr(self.file, "flush", None)
        if flush is not None:
            flush()


class Source:
    """A file's bytes: to look at (`view`), and to read into memory from several threads.

    Args:
        file: an open binary file, or its bytes.
        path: where the file lies; None for bytes.
    """

    def __init__(self, file: Any, path: str | None = None) -> None:
        self.map, self.handle = None, None
        self.file: Any = file
        self.path = path
        if isinstance(file, bytes) or not os.fstat(file.fileno()).st_size:
            content = file if isinstance(file, bytes) else b""
            self.file, self.view, self.path = io.BytesIO(content), memoryview(content), None
            return
        self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.view = memoryview(self.map)
        if hasattr(os, "preadv"):
            self.handle = file.fileno()

    def read_into(self, target: Any, offset: int) -> None:
        """Fills a buffer with the bytes from `offset` on.

        Raises:
            EOFError: there are not so many.
        """
        if self.handle is None:
            target[:] = self.view[offset : offset + len(target)]
            return
        done = 0
        while done < len(target):
            count = os.preadv(self.handle, [target[done:]], offset + done)
            if not count:
                raise EOFError
            done += count

    def pages(self) -> mmap.mmap | None:
        """The file's pages, which all processes share until they are written to; None: it has no file."""
        return None if self.map is None else mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)

    def close(self) -> None:
        """Gives the file back; where an error on its way still has a piece of it, when that is gone."""
        with contextlib.suppress(BufferError):
            self.view.release()
            if self.map is not None:
                self.map.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def remove_stale(folder: str, name: str) -> list[str]:
    """Removes the temporary files for `name` of processes that are no more; returns what it removed."""
    start = f".{name[:_LONGEST]}."
    ours = re.compile(re.escape(start) + rf"{_machine()}-(\d+)-\d+\.tmp")
    removed = []
    with contextlib.suppress(OSError):
        for file in os.listdir(folder):
            match = ours.fullmatch(file) if file.startswith(start) else None
            path = os.path.join(folder, file)
            if match is not None and path not in _own and not _is_another_alive(int(match[1])):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    removed.append(path)
    return removed


def _unused_name(folder: str, name: str) -> str:
    """A temporary name that is not there: others may have left files under those that can be guessed. (What comes later is not overwritten.)"""
    while os.path.lexists(temporary := os.path.join(folder, _temporary_name(name))):
        pass
    return temporary


def _check_links(path: str, who: str) -> None:
    """Refuses links that Linux refuses to follow: those of another user in a folder where all may write.

    `os.path.realpath` reads links by itself, so the system is not asked.
    """
    for _ in range(_MOST_LINKS if hasattr(os, "geteuid") else 0):
        if not os.path.islink(path):
            return
        above, owner = os.stat(os.path.dirname(path) or "."), os.lstat(path).st_uid
        if above.st_mode & stat.S_IWOTH and owner not in (os.geteuid(), above.st_uid):
            raise CheckpointError(
                f"{who}: {path!r} is a link to {os.readlink(path)!r} that user {owner} has left in a folder where all may write: it is not "
                f"followed. Remove it, or save into a folder of your own."
            )
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def open_ordinary(
    path: str | os.PathLike[str], who: str = "load", error: type[Exception] = CheckpointError
) -> BinaryIO:
    """Opens a file for reading, and no pipe (which would be waited for) and no device (which may have no end).

    Raises:
        OSError: there is none, or it cannot be read.
        error: it is something else than a file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | binary())
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return open(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise error(
        f"{who}: {os.fspath(path)} is {kind}, expected a file. Pass it opened, if it has an end: open(path, 'rb')."
    )


def _temporary_name(name: str) -> str:
    return f".{name[:_LONGEST]}.{_machine()}-{os.getpid()}-{next(_count)}.tmp"


def _machine() -> str:
    import socket

    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _is_another_alive(process: int) -> bool:
    """Whether a process other than this one has that number. (After a restart in a container it may be our own.)"""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def binary() -> int:
    """The flag by which Windows leaves line ends as they are; 0 elsewhere."""
    return getattr(os, "O_BINARY", 0)


def _write_and_sync(temporary: str, path: str, write: Callable[[Any], None]) -> None:
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | binary(), 0o666)
    try:
        with contextlib.suppress(OSError):
            _chmod(
                handle, temporary, stat.S_IMODE(os.stat(path).st_mode)
            )  # the new file is as open to others as the old one
        write(Output(handle))
        os.fsync(handle)
    finally:
        os.close(handle)


def _chmod(handle: int, path: str, mode: int) -> None:
    """Of the open file, whatever has its name now; of the name on Windows before Python 3.13."""
    os.chmod(handle if os.chmod in os.supports_fd else path, mode)


def _write_to_special(path: str, write: Callable[[Any], None], who: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | binary())
        try:
            write(Output(handle, can_go_back=False))
        finally:
            os.close(handle)
    except OSError as error:
        raise CheckpointError(
            f"{who}: could not write to {path!r}, which is no ordinary file: {error.strerror or error}. Give the path of a file."
        ) from error


def _sync_folder(folder: str, path: str, who: str) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in _NOT_A_FOLDER_TO_SYNC:  # some file systems cannot
            return
        raise CheckpointError(
            f"{who}: {path!r} is written, but its folder could not be brought to the disk: {error.strerror or error}. A loss of power "
            f"may bring the former file back. Check the disk, and save again."
        ) from error


def _failure(who: str, path: str, error: OSError) -> str:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return (
            f"{who}: could not write {path!r}: there is no folder {folder!r}. Make it first: os.makedirs({folder!r})."
        )
    was = "the file that was there is untouched" if os.path.exists(path) else "nothing was written"
    return f"{who}: could not write {path!r}: {error.strerror or error}; {was}. Check the folder's permissions and free space."
