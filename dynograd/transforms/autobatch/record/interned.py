"""Objects that exist once for each key, for as long as anybody holds them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

Value = TypeVar("Value")


class Interned(Generic[Value]):
    """Objects by their keys, one for each. The last ones stay; of the others, those that somebody holds.

    Kinds and forms are compared by `is`: if one that a record still holds were made anew, calls that are alike would stand in two
    groups, and a sum over two groups has other last bits than one over both.
    """

    __slots__ = ("_in_use", "_lock", "_most", "recent")

    def __init__(self, most: int) -> None:
        self.recent: dict[Hashable, Value] = {}
        self._in_use: WeakValueDictionary[Hashable, Value] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._most = most

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The object of `key`; `make()` where there is none."""
        value = self.recent.get(key)
        if value is None:
            value = self._in_use.get(key) or make()
            with self._lock:
                value = self._in_use.setdefault(key, value)
                if len(self.recent) > self._most:
                    self.recent.clear()
                self.recent[key] = value
        return value
