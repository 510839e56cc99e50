"""What stands beside a tensor: its rarely used part, handles of hooks, and the record of what is a view of what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

from dynograd.arrays import ndarray
from dynograd.autograd.nodes import Hooks, Node, OutputNode

constructors: dict[str, Callable[..., Any]] = {}
"""What makes the tensors of packages that lie above, by "Parameter", "sparse" and "nested": a checkpoint can hold some."""


class Meta:
    """What few tensors have: hooks, the record of what they are a view of, when they were written. Unset fields are the class's."""

    view: tuple | None = None
    written = 0  # the place in time of the last recorded write into a tensor that others may be views of
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
    """Returned by the `register_*hook` functions; `remove()` takes the hook away. Works as a context manager.

    Without a hook it is a number for programs that keep hooks of their own: `hooks[handle.id] = hook`. What stands under it in `extra_dict`,
    one dict or several, goes too.

    Args:
        hooks: the dict that holds the hook.
        hook: the function, or None.
        extra_dict: see above.

    >>> layer = dynograd.nn.Linear(1, 1)
    >>> handle = layer.register_forward_hook(lambda module, args, output: print("called"))
    >>> _ = layer(dynograd.ones(1))
    called
    >>> handle.remove()
    """

    __slots__ = ("extra", "hooks", "id")
    _next = iter(range(1, 1 << 62))

    def __init__(
        self, hooks: dict, hook: Callable[..., Any] | None = None, *, extra_dict: dict | Sequence[dict] | None = None
    ) -> None:
        self.hooks, self.id = hooks, next(self._next)
        self.extra = () if extra_dict is None else (extra_dict,) if isinstance(extra_dict, dict) else tuple(extra_dict)
        if hook is not None:
            hooks[self.id] = hook

    def remove(self) -> None:
        """Takes the hook away; a second time it does nothing."""
        for hooks in (self.hooks, *self.extra):
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


# --- views -------------------------------------------------------------------------------------------------------------------
#
# What made a view is said by a tuple: (base, before, op, statics, number, since). `base` is the tensor that is no view itself, `op` with
# `statics` made the view, as its output `number` if it has several, of the base or of the view whose record is `before`. Where
# nothing else is known of a view the record is its `_meta`, because a tuple is the quickest thing to make.
#
# A base does not know its views. `since` is the write into the base (`Meta.written`) that the view's history begins with: whoever
# asks a view for its history first lets it follow its base (`view_history.follow_base`), which may have been written since.


watchers: list[Callable[[Any], None]] = []
"""Told of each view that is made: open `autobatch` scopes, in which views wait with their base for what is written."""


def tell_watchers(*views: Any) -> None:
    for watcher in list(watchers):
        for view in views:
            watcher(view)


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
        _, before, op, statics, number, _ = before
        steps.append((op, statics, number))
    return tuple(reversed(steps))


def is_silent(tensor: Any) -> bool:
    """Whether writes into the tensor are not watched."""
    meta = tensor._meta
    return meta is not None and type(meta) is not tuple and meta.silent


def link_view(result: Any, base: Any, op: Any, statics: tuple, number: int | None = None) -> None:
    """Remembers that `result` is a view of `base`, so that a write into one carries its history to the other."""
    result._meta = record_of(base, op, statics, number)
    if is_silent(base):
        full_meta(result).silent = True
    if watchers:
        tell_watchers(result)


def record_of(base: Any, op: Any, statics: tuple, number: int | None) -> tuple:
    """The record of a view that `op` makes of `base`. It is made before the view's history, which a write may change meanwhile."""
    meta = base._meta
    before = meta if meta is None or type(meta) is tuple else meta.view
    if before is not None:
        return before[0], before, op, statics, number, before[5]
    return base, None, op, statics, number, 0 if meta is None else meta.written


def set_record(view: Any, record: tuple) -> None:
    """From now on it is a view as the record says."""
    meta = view._meta
    if meta is None or type(meta) is tuple:
        view._meta = record
    else:
        meta.view = record


def is_shared(base: Any) -> bool:
    """Whether there may be views of `base`, whose arrays would hold its array."""
    return holders_of_memory(base) > 0 or type(base.array) is not ndarray or base.array.base is not None


def holders_of_memory(tensor: Any) -> int:
    """How many hold the array of a tensor besides itself: views of it, callers of `numpy()`, history that saved it."""
    return getrefcount(tensor.array) - _unheld[0]


_unheld = [0]  # what the interpreter itself counts, which differs between its versions
_unheld[0] = holders_of_memory(SimpleNamespace(array=ndarray(0)))


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
    if type(node) is OutputNode:
        node = node.edges[0].edge_of_output(node)
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks
