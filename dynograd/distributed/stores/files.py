"""FileStore: processes that see one file write what they set behind what is there, and read what others have written."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

from dynograd.distributed.stores.failures import QueueEmptyError
from dynograd.distributed.stores.tables import Answer, AskingStore, Table, late

__all__ = ["FileStore"]

_USERS = "users/"  # under which those who have it open are counted
_ENDED = "ended/"  # and those who had
_PAUSE = 0.01  # seconds between two looks


class FileStore(AskingStore):
    """A store in a file, which is made where it is not there.

    Args:
        file_name: the path.
        world_size: how many processes there will be: when so many have let their stores go, the last one removes the file. -1 never does.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "store")
    >>> store, other = [dynograd.distributed.FileStore(path, 2) for _ in range(2)]
    >>> store.set("name", "value")
    >>> other.get("name")
    b'value'
    """

    def __init__(self, file_name: str | os.PathLike, world_size: int = -1) -> None:
        super().__init__()
        self._path, self._size = os.fspath(file_name), world_size
        self._log = _Log(self._path)
        self._log.change("add", _USERS, 1)
        weakref.finalize(self, _let_go, self._log, world_size)

    @property
    def path(self) -> str:
        """The file's path."""
        return self._path

    def clone(self) -> FileStore:
        clone = FileStore(self._path, self._size)
        clone.set_timeout(self.timeout)
        return clone

    def list_keys(self) -> list[str]:
        return [key for key in super().list_keys() if key != _ENDED]

    def has_extended_api(self) -> bool:
        return False

    def _ask(self, name: str, *arguments: Any) -> Answer:
        if name in ("get", "wait", "multi_get"):
            return self._waiting(name, *arguments)
        if name == "queue_pop":
            key, block, waited = arguments
            return self._popped(key, block, waited)
        if name in ("check", "list_keys", "queue_len"):
            return self._log.asked(name, *arguments)
        return self._log.change(name, *arguments)

    def _waiting(self, name: str, keys: Any, waited: float) -> Answer:
        names = [keys] if isinstance(keys, str) else keys
        end = time.monotonic() + waited
        while not self._log.asked("check", names):
            if time.monotonic() >= end:
                raise late(waited, names)
            time.sleep(_PAUSE)
        return self._log.asked(name, keys, 0.0)

    def _popped(self, key: str, block: bool, waited: float) -> bytes:
        end = time.monotonic() + waited
        while True:
            try:
                return self._log.change("queue_pop", key, False, 0.0)
            except QueueEmptyError:
                if not block:
                    raise
            if time.monotonic() >= end:
                raise late(waited, [key])
            time.sleep(_PAUSE)


class _Log:
    """The file: a line for each call that changed something, in their order. All who read it have the same values."""

    def __init__(self, path: str) -> None:
        self.path, self.alone = path, threading.Lock()
        self.table, self.read = Table(), 0

    @contextlib.contextmanager
    def _file(self) -> Iterator[BinaryIO]:
        """The file, locked, when all of it has been read."""
        import fcntl

        with self.alone, open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.seek(0, os.SEEK_END) < self.read:  # another one, under the same name
                self.table, self.read = Table(), 0
            file.seek(self.read)
            for line in file:
                name, *arguments = json.loads(line, object_hook=lambda entry: entry["bytes"].encode("latin-1"))
                getattr(self.table, name)(*arguments)
            self.read = file.tell()
            yield file

    def asked(self, name: str, *arguments: Any) -> Answer:
        with self._file():
            return getattr(self.table, name)(*arguments)

    def change(self, name: str, *arguments: Any) -> Answer:
        with self._file() as file:
            result = getattr(self.table, name)(*arguments)
            line = json.dumps([name, *arguments], default=lambda value: {"bytes": value.decode("latin-1")})
            file.write(line.encode() + b"\n")
            self.read = file.tell()
            return result


def _let_go(log: _Log, size: int) -> None:
    with contextlib.suppress(OSError):
        ended, users = log.change("add", _ENDED, 1), log.change("add", _USERS, -1)
        if users == 0 and 0 <= size <= ended:
            os.unlink(log.path)
