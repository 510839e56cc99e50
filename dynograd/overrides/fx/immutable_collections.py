"""Lists and dicts that do not change: what the arguments of a `Node` are kept in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from dynograd.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    kind = type(self).__name__
    raise NotImplementedError(
        f"'{kind}' object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node object, "
        f"instead create a new copy of it and assign the copy to the node: new_args = ... # copy and mutate args; node.args = new_args"
    )


class immutable_list(list):
    """A list that does not change."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[type, tuple[tuple]]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict that does not change."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[tuple]]:
        return immutable_dict, (tuple(self.items()),)


def _keys(value: dict) -> tuple[list, list]:
    return list(value.values()), list(value.keys())


def _register(kind: type, flatten: Callable, unflatten: Callable) -> None:
    _pytree.register_pytree_node(kind, flatten, unflatten)


def _of_items(values: Iterable, keys: Iterable) -> immutable_dict:
    return immutable_dict(zip(keys, values, strict=True))


_register(immutable_list, lambda value: (list(value), None), lambda values, context: immutable_list(values))
_register(immutable_dict, _keys, _of_items)
