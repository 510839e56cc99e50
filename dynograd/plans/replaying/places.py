"""Places: where a step's Python looks for what decides what it does, and what stood there: attributes, globals, cells of closures, elements of lists.

They are noted when a function of the program is entered, before it can change them; `changed` says afterwards what the step itself has changed.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any
from weakref import ref

from dynograd.arrays import ndarray
from dynograd.nn.module import Module
from dynograd.optim.optimizer import Optimizer
from dynograd.plans.handed import Handed
from dynograd.plans.programs import Program
from dynograd.plans.reporting.naming import is_filled
from dynograd.plans.walks import Walk
from dynograd.tensor.tensor import Tensor

__all__ = ["Places", "alike", "is_library"]

PLAIN = (int, float, complex, str, bytes, bool, type(None))
_DEEPEST = 4  # objects within objects
_MOST_ELEMENTS = 64  # of a list or dict that is compared element by element
_MOST_BYTES = 1 << 16  # of a NumPy array that is compared in each call
_MOST_PLACES = 1 << 15
_LIBRARIES = {"dynograd", "numpy", "numba", *sys.stdlib_module_names} - {"__main__"}
_CLOSED = ("dynograd", "numpy", "numba")  # whose objects are not looked into
_OWN = (Program, Walk)  # parts of compiled functions, which look after themselves
_CHILDREN = ("_parameters", "_modules", "_buffers")
_OTHER_HOOKS = ("_hooks", "_kwargs", "_always_called")  # of state dicts, or what is said of hooks of calls
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_library(name: str) -> bool:
    """Whether a module of this name is no part of the user's program."""
    return name.partition(".")[0] in _LIBRARIES


def alike(now: object, before: object) -> bool:
    """Whether two things that were looked up are the same for a program: one object, or equal numbers and texts of one type."""
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if type(now) in (float, complex):
        return repr(now) == repr(before)
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(map(alike, now, before))
    return isinstance(now, PLAIN) and now == before


class Places:
    """What stood where when the step came to it."""

    def __init__(self) -> None:
        # (container, key, what stood there, how people call it, whether only what the program names counts)
        self.items: list[tuple[Any, Any, Any, str, bool]] = []
        self.attributes: list[tuple[Any, str, Any, str]] = []
        self.lengths: list[tuple[Any, int, str]] = []
        self.arrays: list[tuple[Any, bytes, str]] = []
        self.volatile: list[
            tuple[dict, Any, Any, str]
        ] = []  # numbers of optimizers: they may change, but not within the step
        self.hooks: list[tuple[Any, str]] = []  # where modules have none
        self.gradients: list[tuple[Any, Any]] = []  # leaves, and the gradients that they had, weakly
        self.seen: dict[int, Any] = {}
        self.codes: set[types.CodeType] = set()  # of functions whose closures are known
        self.reason = ""  # what cannot be watched

    # --- noting -----------------------------------------------------------------------------------------------------------------

    def note_names(self, namespace: dict[str, Any], names: Iterable[str], attributes: Iterable[str]) -> None:
        """Global names that a function reads, and the names of attributes that it knows."""
        for name in names:
            if name in namespace:
                self._item(namespace, name, name, 0, names=attributes)

    def note(self, value: Any, name: str, depth: int = 0, names: Iterable[str] = ()) -> None:
        """What a value holds; `names` are those that the function which reads it knows."""
        kind = type(value)
        if kind in PLAIN or isinstance(value, (Handed, *_OWN)):
            return
        if isinstance(value, types.ModuleType):
            if depth < _DEEPEST:
                for known in [known for known in names if known in vars(value)]:
                    self._item(vars(value), known, f"{name}.{known}", depth + 1, names=names)
            return
        if id(value) in self.seen:
            return
        if len(self.items) > _MOST_PLACES:
            self.reason = self.reason or f"it reaches more than {_MOST_PLACES} things"
            return
        self.seen[id(value)] = value
        if isinstance(value, Tensor):
            if attributes := vars(value):
                self._elements(attributes, name, depth)
            if value.node is None:  # one that is frozen may have a gradient as well
                self.gradients.append((value, None if value._grad is None else ref(value._grad)))
        elif isinstance(value, Module):
            self._module(value, name)
        elif isinstance(value, Optimizer):
            self._optimizer(value, name)
        elif kind is types.FunctionType:
            self._function(value, name, depth)
        elif kind is types.MethodType:
            self.note(value.__self__, f"{name}.__self__", depth, names)
            self.note(value.__func__, name, depth, names)
        elif kind is functools.partial:
            for part in (value.func, *value.args, *value.keywords.values()):
                self.note(part, name, depth, names)
        elif isinstance(value, type):
            self._class(value, name)
        elif kind is ndarray:
            self._array(value, name)
        elif isinstance(value, (list, tuple, dict)):
            self._elements(value, name, depth)
        elif isinstance(value, (set, frozenset, deque)):
            self.lengths.append((value, len(value), name))
        elif depth < _DEEPEST and (
            kind.__module__.startswith("dynograd.optim.") or kind.__module__.partition(".")[0] not in _CLOSED
        ):
            self._object(value, name, depth)

    def _item(
        self, container: Any, key: Any, name: str, depth: int, named: bool = False, names: Iterable[str] = ()
    ) -> None:
        value = container[key]
        if not isinstance(value, Handed):
            self.items.append((container, key, value, name, named))
            self.note(value, name, depth, names)

    def _elements(self, value: Any, name: str, depth: int) -> None:
        self.lengths.append((value, len(value), name))
        if len(value) <= _MOST_ELEMENTS and depth < _DEEPEST:
            for key in value if isinstance(value, dict) else range(len(value)):
                self._item(value, key, f"{name}[{key!r}]", depth + 1)

    def _module(self, module: Module, name: str) -> None:
        attributes = vars(module)
        self.lengths.append((attributes, len(attributes), name))
        for key in list(attributes):
            if key in _CHILDREN:
                children = attributes[key]
                self.lengths.append((children, len(children), f"{name}.{key}"))
                for child in children:
                    self._item(children, child, f"{name}.{child}", 0)
            elif key in _HOOKS:
                if attributes[key]:
                    self._elements(attributes[key], f"{name}.{key}", 0)
                else:
                    self.hooks.append((attributes[key], f"{name}.{key}"))
            elif not key.startswith("_dynograd") and not key.endswith(_OTHER_HOOKS):
                self._item(attributes, key, f"{name}.{key}", 1, named=True)
        self.note(type(module), f"{name}.__class__")

    def _optimizer(self, optimizer: Optimizer, name: str) -> None:
        self.items.append((vars(optimizer), "param_groups", optimizer.param_groups, f"{name}.param_groups", False))
        self.lengths.append((optimizer.param_groups, len(optimizer.param_groups), f"{name}.param_groups"))
        for group in optimizer.param_groups:
            self.lengths.append((group["params"], len(group["params"]), f"{name}.param_groups"))
            self.volatile += [(group, key, value, f"{name}: {key}") for key, value in group.items()]
            for parameter in group["params"]:
                self.note(parameter, name)

    def _function(self, function: types.FunctionType, name: str, depth: int) -> None:
        library = is_library(function.__module__ or "")
        if not library:
            self.codes.add(function.__code__)
            for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
                self.attributes.append((function, attribute, getattr(function, attribute), f"{name}.{attribute}"))
            for part in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                self.note(part, f"{name}'s defaults", depth)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if not is_filled(cell) or isinstance(cell.cell_contents, Handed) or (library and not _is_of_user(cell)):
                continue
            self.attributes.append((cell, "cell_contents", cell.cell_contents, variable))
            self.note(cell.cell_contents, variable, depth, function.__code__.co_names)

    def _class(self, kind: type, name: str) -> None:
        for base in kind.__mro__:
            if is_library(base.__module__):
                if "forward" in vars(base):  # which somebody may put another one in the place of
                    self.items.append((vars(base), "forward", base.forward, f"{base.__name__}.forward", False))
                continue
            for key, value in list(vars(base).items()):
                if key.startswith("__") and key != "__call__":
                    continue
                self.items.append((vars(base), key, value, f"{base.__name__}.{key}", True))
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if type(function) is types.FunctionType or isinstance(value, (list, tuple, dict)):
                    self.note(function, f"{base.__name__}.{key}")

    def _array(self, array: Any, name: str) -> None:
        if array.nbytes <= _MOST_BYTES and array.dtype.kind != "O":
            self.arrays.append((array, array.tobytes(), name))
        else:
            self.reason = (
                self.reason or f"it reaches {name}, a NumPy array that is too large to be compared in each call"
            )

    def _object(self, value: Any, name: str, depth: int) -> None:
        self.note(type(value), f"{name}.__class__")
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            self.lengths.append((attributes, len(attributes), name))
            for key in list(attributes):
                self._item(attributes, key, f"{name}.{key}", depth + 1, named=True)
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                content = getattr(value, slot, None)
                if slot not in ("__dict__", "__weakref__") and not isinstance(content, Handed) and hasattr(value, slot):
                    self.attributes.append((value, slot, content, f"{name}.{slot}"))
                    self.note(content, f"{name}.{slot}", depth + 1)

    # --- the end ----------------------------------------------------------------------------------------------------------------

    def changed(self, names: Collection[str]) -> str:
        """What the step itself has changed, "" if nothing: of attributes those that the program names."""
        for container, key, value, name, named in self.items:
            if not named or key in names:
                try:
                    if not alike(container[key], value):
                        return name
                except LookupError:
                    return name
        for owner, attribute, value, name in self.attributes:
            if not alike(getattr(owner, attribute, self), value):
                return name
        for group, key, value, name in self.volatile:
            if not alike(group.get(key), value):
                return name
        for container, length, name in self.lengths:
            if len(container) != length:
                return name
        return next((name for array, content, name in self.arrays if array.tobytes() != content), "")


def _is_of_user(cell: types.CellType) -> bool:
    if not is_filled(cell):
        return False
    content = getattr(cell.cell_contents, "__func__", cell.cell_contents)
    return type(content) is types.FunctionType and not is_library(content.__module__ or "")
