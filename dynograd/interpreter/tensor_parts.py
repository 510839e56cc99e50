"""What stands beside a tensor: its rarely used part, handles of hooks, and the record of what is a view of what."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import compress, repeat
from operator import call, is_not
from sys import getrefcount
from threading import RLock
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from weakref import ref

from dynograd.arrays import ndarray
from dynograd.autograd.nodes import Hooks, Node

constructors: dict[str, Callable[..., Any]] = {}
"""What makes the tensors of packages that lie above, by "Parameter", "sparse" and "nested": a checkpoint can hold some."""


class Meta:
    """What few tensors have: hooks, the record of what they are a view of, the views of them. Unset fields are the class's."""

    view: tuple | None = None
    views: list[Any] | None = None
    views_limit = 32
    hooks: Hooks | None = None
    after_accumulate: dict[int, Any] | None = None
    retained: RemovableHandle | None = None  # what fills `.grad` of a tensor that is no leaf
    silent = False
    name: str | None = None


class Silent(Meta):
    """The `Meta` of `x.data`: writes into it are not watched, nor those into its views. One for all of them, never changed."""

    silent = True


SILENT = Silent()


class RemovableHandle:
    """Returned by the `register_*hook` functions; `remove()` takes the hook away. Works as a context manager."""

    __slots__ = ("hooks", "id")
    _next = iter(range(1, 1 << 62))

    def __init__(self, hooks: dict, hook: Any) -> None:
        self.hooks, self.id = hooks, next(self._next)
        hooks[self.id] = hook

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


# --- views -------------------------------------------------------------------------------------------------------------------
#
# What made a view is said by a tuple: (base, before, op, statics, number). `base` is the tensor that is no view itself, `op` with
# `statics` made the view, as its output `number` if it has several, of the base or of the view whose record is `before`. Where
# nothing else is known of a view the record is its `_meta`, because a tuple is the quickest thing to make.
#
# A base does not know its views until it must: when a recorded write has changed its history (`living_views`). They are then searched
# for among all objects, and noted from then on, until noting those that nobody asked for has cost what a search does.

watching: list[bool] = []
"""Not empty while views are noted when they are made: `[False]` during the search for those there are already, `[True]` after it."""
_search = RLock()
_noted = 0  # views since a base was last asked for its own
_as_a_search = 0  # how many of them are as much work as the last search
_PER_SECOND = 2_000_000


def view_of(tensor: Any) -> tuple | None:
    """The record of what `tensor` is a view of; None where it is none."""
    meta = tensor._meta
    return meta if meta is None or type(meta) is tuple else meta.view


def base_of(tensor: Any) -> Any:
    """The tensor that `tensor` is a view of, or None."""
    record = view_of(tensor)
    return None if record is None else record[0]


def steps_of(record: tuple) -> tuple:
    """The ops of a record, from the base on: each with its static arguments and the number of its output."""
    steps = []
    before: tuple | None = record
    while before is not None:  # a chain may be longer than Python's stack
        _, before, op, statics, number = before
        steps.append((op, statics, number))
    return tuple(reversed(steps))


def is_silent(tensor: Any) -> bool:
    """Whether writes into the tensor are not watched."""
    meta = tensor._meta
    return meta is not None and type(meta) is not tuple and meta.silent


def link_view(result: Any, base: Any, op: Any, statics: tuple, number: int | None = None) -> None:
    """Remembers that `result` is a view of `base`, so that a write into one carries its history to the other."""
    meta = base._meta
    if type(meta) is Meta and meta.view is None and not meta.silent:  # the usual case of one that has a `Meta`
        result._meta = base, None, op, statics, number
        if watching:
            enlist(result)
        return
    before = view_of(base)
    set_meta(result, (base if before is None else before[0], before, op, statics, number))
    if is_silent(base):
        full_meta(result).silent = True


def set_meta(tensor: Any, meta: Any) -> None:
    """Gives `tensor` a record of what it is a view of, or what another tensor that it takes the place of has."""
    tensor._meta = meta
    if watching and view_of(tensor) is not None:
        enlist(tensor)


def move_view(view: Any, base: Any) -> None:
    """From now on it is a view of another base, with the same memory."""
    record = (base, *view_of(view)[1:])  # type: ignore[index]
    meta = view._meta
    if type(meta) is tuple:
        view._meta = record
    else:
        meta.view = record


def enlist(view: Any, *others: Any) -> None:
    """Lets the base of these views know of them."""
    global _noted
    _noted += 1
    if _noted > _as_a_search:
        watching.clear()
    meta = view._meta
    base = meta[0] if type(meta) is tuple else meta.view[0]
    owner = base._meta
    if type(owner) is not Meta:
        owner = full_meta(base)
    known = owner.views
    if known is None or len(known) >= owner.views_limit:
        known_views = known or ()
        known = owner.views = list(compress(known_views, map(is_not, map(call, known_views), repeat(None))))
        owner.views_limit = 32 + 2 * len(known)
    known.append(ref(view))
    if others:
        known.extend(map(ref, others))


def living_views(base: Any) -> list[Any]:
    """The views there are of `base`, which is no view itself."""
    global _noted
    if view_of(base) is not None:
        return []
    if not holders_of_memory(base) and type(base.array) is ndarray and base.array.base is None:
        return []  # a view's array would hold the base's
    _noted = 0
    if watching != [True]:
        _watch(next(cls for cls in reversed(type(base).__mro__) if "_meta" in cls.__dict__))
    meta = base._meta
    if meta is None or not meta.views:
        return []
    views = [view for view in [reference() for reference in meta.views] if view is not None and base_of(view) is base]
    return list({id(view): view for view in views}.values())  # several searches have found those that live long


def holders_of_memory(tensor: Any) -> int:
    """How many hold the array of a tensor besides itself: views of it, callers of `numpy()`, history that saved it."""
    return getrefcount(tensor.array) - _unheld[0]


_unheld = [0]  # what the interpreter itself counts, which differs between its versions
_unheld[0] = holders_of_memory(SimpleNamespace(array=ndarray(0)))


def _watch(cls: type) -> None:
    """Finds all views that there are, among all objects, which takes some tens of milliseconds; later ones are noted at once."""
    with _search:  # a second thread needs the whole list as well
        if watching != [True]:
            _find_all(cls)


def _find_all(cls: type) -> None:
    global _noted, _as_a_search
    begin = perf_counter()
    slot = cls.__dict__["_meta"]
    kinds: dict[type, bool] = {}
    if gc.get_freeze_count():
        gc.unfreeze()  # what is frozen is not among the objects, and there is no way to freeze only that again
    _as_a_search = sys.maxsize
    watching[:] = [False]  # before the search: other threads go on
    try:
        for candidate in gc.get_objects():
            kind = type(candidate)
            if kind not in kinds:
                kinds[kind] = issubclass(kind, cls)
            if kinds[kind]:
                try:
                    meta = slot.__get__(candidate)
                except AttributeError:  # just being made
                    continue
                if type(meta) is tuple or (
                    isinstance(meta, Meta) and meta.view is not None
                ):  # others wait for their value
                    enlist(candidate)
    except BaseException:
        watching.clear()  # some views are not known
        raise
    watching[:] = [True]
    _noted, _as_a_search = 0, max(1000, int((perf_counter() - begin) * _PER_SECOND))


def full_meta(tensor: Any) -> Meta:
    """The tensor's `Meta`, with room for every field."""
    meta = tensor._meta
    if meta is None or type(meta) is tuple or meta is SILENT:
        result = tensor._meta = Meta()
        if meta is SILENT:
            result.silent = True
        elif meta is not None:
            result.view = meta  # type: ignore[assignment]
        return result
    return meta


def node_hooks(node: Node) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks
