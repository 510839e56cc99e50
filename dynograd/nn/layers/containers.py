"""Modules that hold modules or parameters: Sequential, lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import islice
from typing import Any

from dynograd.interpreter.recorded_methods import recorded_whole
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _place(who: str, index: Any, length: int) -> int:
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"{who}: index {number} is out of range, it holds {length} modules.")
    return number % length


def _renumber(holder: Module, values: list[Any]) -> None:
    holder._modules.clear()
    holder._modules.update({str(place): module for place, module in enumerate(values)})


def _insert(holder: Module, index: int, module: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{type(holder).__name__}.insert: expected a Module, got {type(module).__name__}.")
    values = list(holder._modules.values())
    values.insert(index, module)
    _renumber(holder, values)


class Sequential(Module):
    """Calls its modules one after another.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 3), dynograd.nn.ReLU())
    >>> model(dynograd.ones(1, 2)).shape
    dynograd.Size([1, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Iterable[tuple[str, Module]] = args[0].items()
        else:
            named = ((str(place), module) for place, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    @recorded_whole
    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _key(self, index: Any) -> str:
        return next(islice(self._modules.keys(), _place("Sequential", index, len(self._modules)), None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        _renumber(self, list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)

    def __iadd__(self, other: Iterable[Module]) -> Sequential:  # type: ignore[misc]
        return self.extend(other)

    def append(self, module: Module) -> Sequential:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Puts a module before position `index`."""
        _insert(self, index, module)
        return self

    def pop(self, index: int = -1) -> Module:
        """Removes and returns a module."""
        module = self[index]
        del self[index]
        return module


class ModuleList(Module):
    """A list of modules whose parameters are registered; calling it is up to the model.

    >>> layers = dynograd.nn.ModuleList([dynograd.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            if not isinstance(modules, Iterable):
                raise TypeError(f"ModuleList: expected modules in a list or another iterable, got {modules!r}.")
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_place("ModuleList", index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_place("ModuleList", index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        values = list(self._modules.values())
        del values[index]
        _renumber(self, values)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is member for member in self._modules.values())

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds modules at the end."""
        if isinstance(modules, Module) and not isinstance(modules, (ModuleList, Sequential)):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}.")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before position `index`."""
        _insert(self, index, module)

    def pop(self, index: int = -1) -> Module:
        """Removes and returns a module."""
        module = self[index]
        del self[index]
        return module

    def __repr__(self) -> str:
        """Neighbours that print alike are shown once, with their count."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        lines = []
        start = 0
        for place in range(1, len(texts) + 1):
            if place == len(texts) or texts[place] != texts[start]:
                count = place - start
                head = f"({start})" if count == 1 else f"({start}-{place - 1})"
                text = texts[start] if count == 1 else f"{count} x {texts[start]}"
                lines.append(f"{head}: {text}".replace("\n", "\n  "))
                start = place
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules whose parameters are registered.

    >>> heads = dynograd.nn.ModuleDict({"mean": dynograd.nn.Linear(4, 1), "spread": dynograd.nn.Linear(4, 1)})
    >>> list(heads), heads["mean"](dynograd.ones(2, 4)).shape
    (['mean', 'spread'], dynograd.Size([2, 1]))
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    get, keys, items, values = Mapping.get, Mapping.keys, Mapping.items, Mapping.values

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Removes and returns a module."""
        return self._modules.pop(key)

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or (key, module) pairs, in their order."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(who: str, source: Any) -> Iterable[tuple[str, Any]]:
    if hasattr(source, "items"):
        return source.items()
    if not isinstance(source, Iterable):
        raise TypeError(
            f"{who}.update should be called with an iterable of key/value pairs, but got {type(source).__name__}."
        )
    pairs = list(source)
    for place, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"{who}.update: element {place} should be a (key, value) pair, got {pair!r}.")
    return pairs


def _described(value: Any, what: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{what} of size {'x'.join(map(str, value.shape))}]"


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list of parameters (tensors become parameters; other values are kept as they are).

    >>> len(list(dynograd.nn.ParameterList([dynograd.zeros(2), dynograd.zeros(3)]).parameters()))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[place] for place in range(*index.indices(len(self)))])
        return getattr(self, str(_place("ParameterList", index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_place("ParameterList", index, len(self))), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[place] for place in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}.")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = [f"  ({place}): {_described(value, getattr(value, 'dtype', None))}" for place, value in enumerate(self)]
        return "\n".join(lines)


class ParameterDict(Module):
    """A dict of parameters (tensors become parameters; other values are kept as they are)."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    get, keys, items, values = Mapping.get, Mapping.keys, Mapping.items, Mapping.values
    clear = MutableMapping.clear

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, which `default` becomes where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Removes and returns a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the last (key, value)."""
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty.")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """A new dict of the same parameters."""
        return type(self)(OrderedDict((key, self[key]) for key in self))

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping or (key, value) pairs; a plain dict in the order of its keys' names, as PyTorch does."""
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs, key=operator.itemgetter(0))
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        values = [(key, self[key]) for key in self]
        return "\n".join(
            [f"  ({key}): {_described(value, isinstance(value, Tensor) and value.type())}" for key, value in values]
        )
