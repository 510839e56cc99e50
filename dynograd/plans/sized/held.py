"""The sizes of tensors that objects among the arguments hold: caches of keys and values that a language model adds to in each call."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from dynograd.nn.module import Module
from dynograd.optim.optimizer import Optimizer
from dynograd.plans.changing import Changing
from dynograd.tensor.tensor import Tensor

__all__ = ["HeldSizes"]

_DEEPEST, _MOST_OBJECTS, _LONGEST = 6, 256, 128  # objects within each other; looked at in a call; of a list or dict
_MOST_PLACES = 256
_NOT_LOOKED_INTO = (Tensor, Module, Optimizer, type, types.ModuleType, types.FunctionType, types.MethodType)

Place = tuple[Any, ...]  # the name or number of an argument, and those of attributes and elements from there on


class HeldSizes:
    """Of one function: where in its arguments' objects ops have found tensors that are others in each call."""

    def __init__(self) -> None:
        self.places: dict[Place, None] = {}
        self.changing: set[Place] = (
            set()
        )  # the kin of places where another tensor came than ops had got in several calls before
        self._stayed: dict[Place, Any] = {}  # tensors that records expect to stay, weakly
        self._before: dict[int, tuple[Place, Any]] = {}  # by id: tensors of the call that is recorded, as it began

    def sizes(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
        """The shapes of what is there now; () where nothing is."""
        return tuple([_shape_at(place, args, kwargs) for place in self.places])

    def begin(self, args: tuple, kwargs: dict[str, Any], changing: Changing) -> dict[int, str]:
        """A call is to be recorded. Gives the names of those that are others in each call, by id.

        Args:
            changing: tensors in whose place others have come.
        """
        self._before = {}
        left = [_MOST_OBJECTS]
        for name, value in (*enumerate(args), *kwargs.items()):
            for place, tensor in _tensors_in(value, (name,), left):
                self._before.setdefault(id(tensor), (place, tensor))
                if place in self._stayed and self._stayed[place]() is not tensor:
                    other = self._stayed.pop(place)()
                    changing.add(tensor)
                    if other is not None:
                        changing.add(other)
                if changing.has(tensor):
                    self.changing.add(_kin_of(place))
        return {key: _name_of(place) for key, (place, _) in self._before.items() if _kin_of(place) in self.changing}

    def learn(self, outside: Sequence[Any]) -> bool:
        """The call is recorded. Gives whether ops have got tensors of other places than known so far."""
        count = len(self.places)
        for other in outside:
            place, tensor = self._before.get(id(other.tensor), (None, None))
            if place is None or other.tensor is not tensor:
                continue
            if not other.fresh:
                self._stayed[place] = weakref.ref(tensor)
            elif len(self.places) < _MOST_PLACES:
                self.places[place] = None
        self._before = {}
        return len(self.places) > count


def _kin_of(place: Place) -> Place:
    """What is common to the places of one cache: the keys and values of all its layers come together."""
    return place if len(place) < 3 else tuple([None if type(part) is int else part for part in place[:-1]])


def _name_of(place: Place) -> str:
    first = f"args[{place[0]}]" if type(place[0]) is int else place[0]
    return "".join([first, *[f".{part}" if type(part) is str else f"[{part!r}]" for part in place[1:]]])


def _content_of(value: Any) -> dict[Any, Any] | None:
    """What an object holds, by name; None: it is none that is looked into."""
    if isinstance(value, dict):
        return value if len(value) <= _LONGEST else None
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value)) if len(value) <= _LONGEST else None
    return None if isinstance(value, _NOT_LOOKED_INTO) else getattr(value, "__dict__", None)


def _tensors_in(value: Any, place: Place, left: list[int], inside: bool = False) -> Iterator[tuple[Place, Any]]:
    """Those that objects hold; what lies in lists and dicts alone is an argument itself."""
    content = _content_of(value) if len(place) <= _DEEPEST and left[0] else None
    if content is None:
        return
    left[0] -= 1
    inside = inside or not isinstance(value, (list, tuple, dict))
    for name, inner in content.items():
        if not isinstance(inner, Tensor):
            yield from _tensors_in(inner, (*place, name), left, inside)
        elif inside:
            yield (*place, name), inner


def _shape_at(place: Place, args: tuple, kwargs: dict[str, Any]) -> tuple[int, ...]:
    name = place[0]
    try:
        value: Any = args[name] if type(name) is int else kwargs[name]
        for part in place[1:]:
            value = value[part] if isinstance(value, (list, tuple, dict)) else value.__dict__[part]
    except (AttributeError, IndexError, KeyError, TypeError):
        return ()
    return tuple(value.shape) if isinstance(value, Tensor) else ()
