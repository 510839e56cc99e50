"""`torch.nn.modules.utils`: one number as a tuple of one, two, three or four; names of a wrapped model's state_dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

__all__ = ["_ntuple", "_pair", "_quadruple", "_single", "_triple", "consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def _reverse_repeat_tuple(t: Any, n: int) -> tuple:
    """(1, 2) and 2: (2, 2, 1, 1), as `F.pad` wants sizes."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Any) -> Any:
    """`out_size` with the last of `defaults` where it is None."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(
            f"_list_with_default: Input dimension should be at least {len(out_size) + 1}, got {len(defaults)}."
        )
    return [other if size is None else size for size, other in zip(out_size, list(defaults)[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: Any, prefix: str) -> None:
    """Strips `prefix` from the names that begin with it, in place, as those of a model wrapped in DataParallel do.

    Args:
        state_dict: a dict of names.
        prefix: with its dot, such as "module.".

    >>> state = {"module.weight": dynograd.ones(1), "step": 3}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> sorted(state)
    ['step', 'weight']
    """
    for names in (state_dict, getattr(state_dict, "_metadata", None) or {}):
        for name in list(names):
            if name.startswith(prefix):
                names[name.removeprefix(prefix)] = names.pop(name)
            elif names is not state_dict and name and name == prefix.replace(".", ""):
                names[""] = names.pop(name)
