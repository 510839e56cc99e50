"""What stands beside a tensor: its rarely used part, handles of hooks, and the record of what is a view of what."""

from __future__ import annotations

from itertools import compress, repeat
from operator import call, is_not
from typing import Any
from weakref import ref

from dynograd.autograd.nodes import Hooks, Node

__all__ = [
    "InnerViewMeta",
    "Meta",
    "OutputMeta",
    "RemovableHandle",
    "SilentMeta",
    "ViewMeta",
    "full_meta",
    "link_view",
    "link_views",
    "node_hooks",
]

make_parameter: Any = None
"""`nn.Parameter`, filled from above: a checkpoint can hold some."""


class Meta:
    """What few tensors have: hooks, the tensor they are a view of, and the views of them. Unset fields are the class's."""

    base: Any = None
    steps: tuple = ()
    views: list[Any] | None = None
    views_limit = 32
    hooks: Hooks | None = None
    after_accumulate: dict[int, Any] | None = None
    retains = False
    silent = False
    name: str | None = None


class SilentMeta(Meta):
    """Writes into the tensor are not watched, nor those into its views."""

    silent = True
    views_limit = 0


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


class _Unset:
    """What `Meta`'s fields are where nothing sets them."""

    __slots__ = ()
    hooks: Any = None
    after_accumulate: Any = None
    name: Any = None
    views: Any = None
    before: Any = None
    number: Any = None
    retains = silent = False


class ViewMeta(_Unset):
    """The `Meta` of a view that nothing else is known of, quicker to make: `op` with `statics` made it of `base`."""

    __slots__ = ("base", "op", "statics")

    @property
    def steps(self) -> tuple:
        """The ops, from the base on: each with its static arguments and the number of its output."""
        return (*(() if self.before is None else self.before.steps), (self.op, self.statics, self.number))


class InnerViewMeta(ViewMeta):
    """The `ViewMeta` of a view of a view, whose `Meta` is `before`, or of output `number` of its op."""

    __slots__ = ("before", "number")


class OutputMeta(_Unset):
    """The `Meta` of output `number` of an op that gives several views; what they have in common is said once, in `common`."""

    __slots__ = ("common", "number")

    @property
    def base(self) -> Any:
        return self.common.base

    @property
    def steps(self) -> tuple:
        common = self.common
        return (*(() if common.before is None else common.before.steps), (common.op, common.statics, self.number))


def link_view(result: Any, base: Any, op: Any, statics: tuple, number: int | None = None) -> None:
    """Remembers that `result` is a view of `base`, so that a write into one carries its history to the other."""
    owner = base._meta
    if owner is None:
        owner = base._meta = Meta()
    root = owner.base
    if root is None:
        before, root, holder = None, base, owner
    else:
        before, holder = owner, root._meta
    meta: Any = ViewMeta() if before is None and number is None else InnerViewMeta()
    if type(meta) is InnerViewMeta:
        meta.before = before
        meta.number = number
    meta.base = root
    meta.op = op
    meta.statics = statics
    result._meta = meta
    if owner.silent:
        full_meta(result).silent = True
    views = holder.views
    if views is None or len(views) >= holder.views_limit:
        views = _living(holder)
    views.append(ref(result))


def link_views(base: Any, op: Any, statics: tuple) -> tuple[InnerViewMeta, list[Any], bool]:
    """`link_view` for the outputs of an op that gives several: what they have in common, the list of views, whether it is silent.

    Each output gets an `OutputMeta`, and a weak reference in the list.
    """
    owner = base._meta
    if owner is None:
        owner = base._meta = Meta()
    common = InnerViewMeta()
    common.op, common.statics = op, statics
    common.before = None if owner.base is None else owner
    root = common.base = base if owner.base is None else owner.base
    silent, owner = owner.silent, root._meta
    views = owner.views
    if views is None or len(views) >= owner.views_limit:
        views = _living(owner)
    return common, views, silent


def full_meta(tensor: Any) -> Meta:
    """The tensor's `Meta` with room for every field; what a `ViewMeta` says is taken over."""
    held = tensor._meta
    if not isinstance(held, Meta):
        made = tensor._meta = Meta()
        if held is not None:
            made.base, made.steps = held.base, held.steps
        return made
    return held


def _living(owner: Meta) -> list[Any]:
    """The views that are still there; the list is looked through again when it has doubled."""
    held = owner.views or ()
    views = owner.views = list(compress(held, map(is_not, map(call, held), repeat(None))))
    owner.views_limit = 0 if owner.silent else 32 + 2 * len(views)
    return views


def node_hooks(node: Node) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks
