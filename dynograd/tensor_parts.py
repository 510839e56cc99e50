"""What stands beside a tensor: its rarely used part, handles of hooks, and the record of what is a view of what."""

from __future__ import annotations

from typing import Any
from weakref import ref

from dynograd.autograd.nodes import Hooks, Node

__all__ = ["Meta", "RemovableHandle", "ViewMeta", "link_view", "link_views", "node_hooks"]

make_parameter: Any = None
"""`nn.Parameter`, filled from above: a checkpoint can hold some."""


class Meta:
    """What few tensors have: hooks, the tensor they are a view of, and the views of them. Unset fields are the class's."""

    base: Any = None
    steps: tuple = ()
    views: list[Any] | None = None
    views_limit = 16
    hooks: Hooks | None = None
    after_accumulate: dict[int, Any] | None = None
    retains = False
    silent = False
    name: str | None = None


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


class ViewMeta:
    """A view's `Meta`, quicker to make: views are made often. Fields that were not set read as in `Meta`."""

    __slots__ = ("after_accumulate", "base", "hooks", "name", "retains", "silent", "steps", "views", "views_limit")

    def __getattr__(self, name: str) -> Any:
        if name in ViewMeta.__slots__:
            return getattr(Meta, name)
        raise AttributeError(f"'ViewMeta' object has no attribute {name!r}")


def link_view(result: Any, base: Any, op: Any, statics: tuple, number: int | None = None) -> None:
    """Remembers that `result` is a view of `base`, so that a write into one carries its history to the other."""
    meta = result._meta = ViewMeta()
    meta.hooks, meta.retains = None, False
    owner = base._meta
    if owner is None:
        owner = base._meta = Meta()
        meta.base, meta.steps, meta.silent = base, ((op, statics, number),), False
    else:
        meta.silent = owner.silent
        if owner.base is None:
            meta.base, meta.steps = base, ((op, statics, number),)
        else:
            root = meta.base = owner.base
            meta.steps, owner = (*owner.steps, (op, statics, number)), root._meta
    views = owner.views
    if views is None:
        owner.views = [ref(result)]
    elif len(views) < owner.views_limit:
        views.append(ref(result))
    else:
        _living(owner).append(ref(result))


def link_views(results: list[Any], base: Any, op: Any, statics: tuple) -> None:
    """`link_view` for the outputs of an op that gives several."""
    owner = base._meta
    if owner is None:
        owner = base._meta = Meta()
    root, before, silent = (base, (), owner.silent) if owner.base is None else (owner.base, owner.steps, owner.silent)
    owner = root._meta
    views = _living(owner) if owner.views is None or len(owner.views) >= owner.views_limit else owner.views
    for number, result in enumerate(results):
        meta = result._meta = ViewMeta()
        meta.hooks, meta.retains, meta.silent = None, False, silent
        meta.base, meta.steps = root, (*before, (op, statics, number))
        views.append(ref(result))


def _living(owner: Meta) -> list[Any]:
    """The views that are still there; the list is looked through again when it has doubled."""
    views = owner.views = [view for view in owner.views or () if view() is not None]
    owner.views_limit = 16 + 2 * len(views)
    return views


def node_hooks(node: Node) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks
