"""Modules that hold modules or parameters: Sequential, lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _place(who: str, index: Any, length: int) -> int:
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"{who}: index {number} is out of range, it holds {length} modules.")
    return number % length


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
        self._renumber()

    def _renumber(self) -> None:
        values = list(self._modules.values())
        self._modules.clear()
        self._modules.update({str(place): module for place, module in enumerate(values)})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)

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
        values = list(self._modules.values())
        values.insert(index, module)
        self._modules.clear()
        self._modules.update({str(place): one for place, one in enumerate(values)})
        return self

    def pop(self, index: int = -1) -> Module:
        """Removes and returns a module."""
        found = self[index]
        del self[index]
        return found


class ModuleList(Module):
    """A list of modules whose parameters are registered; calling it is up to the model.

    >>> layers = dynograd.nn.ModuleList([dynograd.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
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
        self._fill(values)

    def _fill(self, values: list[Any]) -> None:
        self._modules.clear()
        self._modules.update({str(place): module for place, module in enumerate(values)})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is one for one in self._modules.values())

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
        values = list(self._modules.values())
        values.insert(index, module)
        self._fill(values)

    def pop(self, index: int = -1) -> Module:
        """Removes and returns a module."""
        found = self[index]
        del self[index]
        return found


class ModuleDict(Module):
    """A dict of modules whose parameters are registered."""

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

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        return self._modules.pop(key)

    def keys(self) -> Any:
        return self._modules.keys()

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or (key, module) pairs."""
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters (tensors become parameters; other values are kept as they are)."""

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
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(_place("ParameterList", index, len(self))), value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[place] for place in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds values at the end."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"({place}): {type(value).__name__} of size {tuple(value.shape)}" for place, value in enumerate(self))


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
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        self._keys[key] = None
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def keys(self) -> Any:
        return self._keys.keys()

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        return [self[key] for key in self]

    def pop(self, key: str) -> Any:
        value = self[key]
        del self[key]
        return value

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping or (key, value) pairs."""
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"({key}): {type(value).__name__} of size {tuple(value.shape)}" for key, value in self.items())
