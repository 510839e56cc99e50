"""Values in the memory of one process: HashStore, and what a TCPStore's server keeps."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from dynograd.distributed.stores.base import Store, _pairs, as_bytes, as_key, seconds
from dynograd.distributed.stores.failures import DistStoreError, QueueEmptyError

__all__ = ["Answer", "AskingStore", "HashStore", "Table", "late"]

_Result = TypeVar("_Result")
Answer = Any  # what a method of a store gives: bytes, a number, a list of texts or nothing


def late(waited: float, keys: Sequence[str]) -> DistStoreError:
    """The error of a wait that was too long."""
    names = ", ".join([f"/{key}" for key in keys])
    return DistStoreError(
        f"wait timeout after {round(waited * 1000)}ms, keys: {names}. Another process has to set them; set_timeout() waits longer."
    )


class Table:
    """Values and queues, for threads. The methods are those of a store, with the time to wait in seconds."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}
        self.changed = threading.Condition()

    def _until(self, ready: Callable[[], _Result | None], waited: float, keys: Sequence[str]) -> _Result:
        """What `ready` gives as soon as it is not None; the condition is held."""
        end = time.monotonic() + waited
        while (result := ready()) is None:
            if (left := end - time.monotonic()) <= 0:
                raise late(waited, keys)
            self.changed.wait(left)
        return result

    def _all(self, keys: Sequence[str]) -> bool | None:
        return True if all([key in self.values for key in keys]) else None

    def set(self, key: str, value: bytes) -> None:
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key: str, waited: float) -> bytes:
        with self.changed:
            return self._until(lambda: self.values.get(key), waited, [key])

    def add(self, key: str, amount: int) -> int:
        with self.changed:
            text = self.values.get(key, b"0")
            try:
                result = int(text) + amount
            except ValueError:
                raise ValueError(f"add: {key!r} holds {text!r}, which is no whole number.") from None
            self.values[key] = str(result).encode()
            self.changed.notify_all()
            return result

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        with self.changed:
            there = self.values.get(key)
            if there is None and expected:
                return expected
            if there is None or there == expected:
                self.values[key] = there = desired
                self.changed.notify_all()
            return there

    def check(self, keys: Sequence[str]) -> bool:
        with self.changed:
            return self._all(keys) is not None

    def wait(self, keys: Sequence[str], waited: float) -> None:
        with self.changed:
            self._until(lambda: self._all(keys), waited, keys)

    def delete_key(self, key: str) -> bool:
        with self.changed:
            return self.values.pop(key, None) is not None

    def list_keys(self) -> list[str]:
        with self.changed:
            return list(self.values)

    def append(self, key: str, value: bytes) -> None:
        with self.changed:
            self.values[key] = self.values.get(key, b"") + value
            self.changed.notify_all()

    def multi_get(self, keys: Sequence[str], waited: float) -> list[bytes]:
        with self.changed:
            self._until(lambda: self._all(keys), waited, keys)
            return [self.values[key] for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes]) -> None:
        with self.changed:
            self.values.update(zip(keys, values))
            self.changed.notify_all()

    def queue_push(self, key: str, value: bytes) -> None:
        with self.changed:
            self.queues.setdefault(key, deque()).append(value)
            self.changed.notify_all()

    def queue_pop(self, key: str, block: bool, waited: float) -> bytes:
        with self.changed:
            if not block and not self.queues.get(key):
                raise QueueEmptyError(f"queue_pop: queue is empty: {key!r}. With block=True it is waited for.")
            queue = self._until(lambda: self.queues.get(key) or None, waited, [key])
            value = queue.popleft()
            if not queue:
                del self.queues[key]
            return value

    def queue_len(self, key: str) -> int:
        with self.changed:
            return len(self.queues.get(key, ()))


class AskingStore(Store):
    """A store that hands its calls, checked, to `_ask(name, *arguments)`."""

    def _ask(self, name: str, *arguments: Any) -> Answer:
        raise NotImplementedError

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", as_key("set", key), as_bytes("set", value))

    def get(self, key: str) -> bytes:
        return self._ask("get", as_key("get", key), seconds(self.timeout))

    def add(self, key: str, amount: int) -> int:
        return self._ask("add", as_key("add", key), amount.__index__())

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        values = [as_bytes("compare_set", value) for value in (expected_value, desired_value)]
        return self._ask("compare_set", as_key("compare_set", key), *values)

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", [as_key("check", key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        names = [as_key("wait", key) for key in keys]
        self._ask("wait", names, seconds(self.timeout if timeout is None else timeout))

    def delete_key(self, key: str) -> bool:
        return self._ask("delete_key", as_key("delete_key", key))

    def num_keys(self) -> int:
        return len(self.list_keys())

    def list_keys(self) -> list[str]:
        return self._ask("list_keys")

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", as_key("append", key), as_bytes("append", value))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._ask("multi_get", [as_key("multi_get", key) for key in keys], seconds(self.timeout))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        pairs = _pairs(keys, values)
        self._ask("multi_set", [key for key, _ in pairs], [value for _, value in pairs])

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask("queue_push", as_key("queue_push", key), as_bytes("queue_push", value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._ask("queue_pop", as_key("queue_pop", key), bool(block), seconds(self.timeout))

    def queue_len(self, key: str) -> int:
        return self._ask("queue_len", as_key("queue_len", key))

    def has_extended_api(self) -> bool:
        return True


class HashStore(AskingStore):
    """A store in the memory of this process, for its threads.

    >>> store = dynograd.distributed.HashStore()
    >>> store.add("count", 2), store.add("count", 3), store.get("count")
    (2, 5, b'5')
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()

    def _ask(self, name: str, *arguments: Any) -> Answer:
        return getattr(self._table, name)(*arguments)

    def clone(self) -> HashStore:
        return self
