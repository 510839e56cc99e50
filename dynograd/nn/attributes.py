"""Parameters, buffers and children read as attributes.

Python looks for an attribute in the object and in its class, and asks `__getattr__` when it has made an AttributeError of that. So a name
that has been read once is noted in the class: from then on it is found there, and looked up in the module's own dict as before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

__all__ = ["AttributeMethods", "Registered", "reading_through"]

_GROUPS = ("_parameters", "_modules", "_buffers")
_CLOSED = "_notes_no_reads"  # in a class that gets no further notes
_MOST = 200  # notes in a class; more names are made up by a program, not written in its code


class Registered:
    """The note: such an attribute lies in a module's `_parameters`, `_modules` or `_buffers`.

    Args:
        group: which of the three.
        name: of the attribute.

    >>> dynograd.nn.attributes.Registered("_parameters", "weight").name
    'weight'
    """

    __slots__ = ("group", "name")

    def __init__(self, group: str, name: str) -> None:
        self.group, self.name = group, name

    def __get__(self, module: Any, kind: Any = None) -> Any:
        if module is None:
            raise AttributeError(f"type object '{kind.__name__}' has no attribute '{self.name}'")
        try:
            return module.__dict__[self.group][self.name]
        except KeyError:  # Python asks `__getattr__` next
            raise AttributeError(self.name) from None


class AttributeMethods:
    """The part of Module that finds what is registered.

    >>> isinstance(dynograd.nn.Linear(2, 1), dynograd.nn.attributes.AttributeMethods)
    True
    """

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        kind = type(self)
        if "_parameters" not in attributes:
            raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}': {not_begun(self)}")
        for group in _GROUPS:
            if name in attributes[group]:
                if _CLOSED not in vars(kind):
                    _note(kind, group, name)
                return attributes[group][name]
        raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("dynograd."):
            _keep_functions_plain(cls)
        _withdraw(cls)

    def __dir__(self) -> list[str]:
        attributes = self.__dict__
        names = {*dir(type(self)), *attributes}
        names -= {name for base in type(self).__mro__ for name in _notes_of(base)} - attributes.keys()
        for group in _GROUPS:
            names.update(attributes.get(group, ()))
        return sorted(name for name in names if not name[0].isdigit())


def not_begun(module: Any) -> str:
    kind = type(module).__name__
    return f"Module.__init__() was not called. Call super().__init__() first in {kind}.__init__."


def _notes_of(kind: type) -> list[str]:
    return [
        name for name, value in list(vars(kind).items()) if type(value) is Registered
    ]  # a list: other threads may add notes


def _note(kind: Any, group: str, name: str) -> None:
    if (
        AttributeMethods in kind.__bases__
        or not name.isidentifier()
        or any([name in vars(base) for base in kind.__mro__])
    ):
        return  # Module itself, whose notes all classes would have; a name that the class answers for
    if _usual(kind) and len(_notes_of(kind)) < _MOST and not _hides(kind, kind, name):
        type.__setattr__(kind, name, Registered(group, name))
    else:
        type.__setattr__(kind, _CLOSED, True)


def _hides(base: type, kind: Any, name: str) -> bool:
    """Whether a note in `base` would hide what a class derived from `kind` finds under `name` in a base that comes after."""
    for derived in kind.__subclasses__():
        after = derived.__mro__[derived.__mro__.index(base) + 1 :]
        answers = [vars(other)[name] for other in after if name in vars(other)]
        if [value for value in answers if type(value) is not Registered] or _hides(base, derived, name):
            return True
    return False


def _usual(kind: Any) -> bool:
    """Whether modules of the class, and of all derived from it, find their attributes in the usual way."""
    return (
        kind.__getattr__ is AttributeMethods.__getattr__
        and kind.__getattribute__ is object.__getattribute__
        and type(kind).__setattr__ is type.__setattr__
        and all([_usual(derived) for derived in kind.__subclasses__()])
    )


def _keep_functions_plain(kind: type) -> None:
    """`act = dynograd.tanh` in a class is no method: `self.act(x)` has one argument, as PyTorch's functions, which are built-in, get it."""
    for name, value in list(vars(kind).items()):
        if (
            isinstance(value, FunctionType)
            and f"{value.__module__}.".startswith("dynograd.")
            and "." not in value.__qualname__
            and not value.__name__.startswith("_")  # methods that dynograd itself gives a class, as `parametrize` does
        ):
            type.__setattr__(kind, name, staticmethod(value))


def _withdraw(kind: type) -> None:
    """In a new class with an answer of its own, notes in its bases would hide that."""
    usual, after = _usual(kind), list(kind.__mro__)
    for base in kind.__mro__:
        del after[0]
        for name in _notes_of(base):
            others = [vars(other)[name] for other in after if name in vars(other)]
            if not usual or [value for value in others if type(value) is not Registered]:
                type.__delattr__(base, name)
                type.__setattr__(base, _CLOSED, True)


@contextmanager
def reading_through(change: Callable[[str, Any], Any]) -> Iterator[None]:
    """A context in which what is read from modules, in this thread, is what `change(name, value)` makes of it: a trace sees parameters.

    Args:
        change: a function of a name and what the module has under it; what it returns is read instead.

    >>> layer = dynograd.nn.Linear(2, 1)
    >>> with dynograd.nn.attributes.reading_through(lambda name, value: name):
    ...     layer.weight
    'weight'
    """
    find, get, thread = AttributeMethods.__getattr__, Registered.__get__, threading.get_ident()

    def find_and_change(self: AttributeMethods, name: str) -> object:
        value = find(self, name)
        return change(name, value) if threading.get_ident() == thread else value

    def get_and_change(self: Registered, module: Any, kind: Any = None) -> object:
        value = get(self, module, kind)
        return change(self.name, value) if threading.get_ident() == thread else value

    finder: Any = AttributeMethods
    note: Any = Registered
    finder.__getattr__, note.__get__ = find_and_change, get_and_change
    try:
        yield
    finally:
        finder.__getattr__, note.__get__ = find, get
