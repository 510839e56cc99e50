"""Guards: whether all places that a program's Python looks at hold what they held, asked before each replay in one compiled call."""

from __future__ import annotations

import gc
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection
from operator import getitem
from types import CellType, FunctionType, MappingProxyType
from typing import Any

from dynograd.nn.hooks import any_global
from dynograd.ops.readers import CALLS
from dynograd.plans.replaying.places import Places, alike
from dynograd.plans.watches import Watch
from dynograd.tensor.tensor import Tensor

__all__ = ["Guards"]

_GONE = object()
_MOST_MOVES = 8
_DICTS = (dict, OrderedDict, defaultdict)


class _Look:
    """A place, how Python reads it, and what stood there when it was read last."""

    __slots__ = ("content", "key", "moves", "name", "owner", "read")

    def __init__(self, read: Callable[[Any, Any], Any], owner: Any, key: Any, content: Any, name: str) -> None:
        self.read, self.owner, self.key, self.content, self.name = read, owner, key, content, name
        self.moves = 0  # how often it stood elsewhere: dicts that grow move what they hold

    def is_other(self) -> bool:
        """Whether something else stands there now."""
        now = self.read(self.owner, self.key)
        if now is not self.content:
            if not alike(now, self.content):
                return True
            self.content, self.moves = now, _MOST_MOVES + 1  # Python compares it from now on
        return False

    def put_into(self, watch: Watch) -> None:
        """Has compiled code look there.

        Raises:
            LookupError: nobody knows where the content lies, or it is another object now.
        """
        owner, key = self.owner, self.key
        if self.read(owner, key) is not self.content or self.moves > _MOST_MOVES:
            raise LookupError("an equal object, or one that is put there in each step")
        if self.read is _length:
            watch.length(owner)
        elif self.read is _attribute:
            if isinstance(owner, (CellType, FunctionType)):
                watch.attribute(owner, key)
            elif isinstance(owner, Tensor) and key == "array":
                watch.field(owner, key, self.content)
            else:
                raise LookupError("an attribute that may be computed")
        elif type(owner) is list:
            watch.item(owner, key)
        elif type(owner) is MappingProxyType:  # of a class, whose dict it shows
            (mapping,) = gc.get_referents(owner)
            watch.entry(mapping, key)
        elif type(owner) in _DICTS:
            watch.entry(owner, key)
        elif type(owner) is not tuple:
            raise LookupError("a container of another class")


class Guards:
    """Whether all places that a program names are as they were."""

    def __init__(self, places: Places, names: Collection[str]) -> None:
        items = {
            (id(container), key): _Look(_item, container, key, value, name)
            for container, key, value, name, named in places.items
            if not named or key in names
        }
        looks = [
            *items.values(),
            *[_Look(_attribute, *attribute) for attribute in places.attributes],
            *[_Look(_length, container, None, length, name) for container, length, name in places.lengths],
        ]
        self.arrays = places.arrays
        self.hooks, self.change = places.hooks, CALLS.change
        self.watched: list[_Look] = looks
        self.by_python: list[_Look] = []
        self._watch()

    def _watch(self) -> None:
        """Has compiled code look where it can."""
        self.watch = Watch()
        watched: list[_Look] = []
        self.ends: list[int] = []  # of the rows of each of those
        for look in self.watched:
            try:
                look.put_into(self.watch)
            except LookupError:
                self.by_python.append(look)
            else:
                watched.append(look)
                self.ends.append(self.watch.close().count)
        self.watched = watched
        self.watch.close()

    def failed(self) -> str:
        """What is another thing now; "" if nothing."""
        if not self.watch.holds():
            for look in self.watched:
                if look.is_other():
                    return look.name
            self._look_otherwise()
        for look in self.by_python:
            if look.is_other():
                return look.name
        if self.change is not CALLS.change:  # somebody may have given a module a hook
            for hooks, name in self.hooks:
                if hooks:
                    return name
            if any_global:
                return "hooks of all modules"
            self.change = CALLS.change
        for array, content, name in self.arrays:
            if array.tobytes() != content:
                return name
        return ""

    def _look_otherwise(self) -> None:
        """All is as it was, but some stands elsewhere, or is an equal object, which Python compares from now on."""
        row, count = self.watch.first_other(), self.watch.count
        while row < count:
            place = next(place for place, end in enumerate(self.ends) if row < end)
            self.watched[place].moves += 1
            row = self.watch.first_other(self.ends[place])
        self._watch()


def _item(container: Any, key: Any) -> object:
    try:
        content: object = getitem(container, key)
        return content
    except LookupError:
        return _GONE


def _attribute(owner: Any, name: str) -> object:
    content: object = getattr(owner, name, _GONE)
    return content


def _length(container: Any, _: Any) -> int:
    return len(container)
