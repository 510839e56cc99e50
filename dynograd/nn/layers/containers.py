"""Modules that hold modules or parameters: Sequential, lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
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


def _check_count(count: Any) -> None:
    if not isinstance(count, int):
        raise TypeError(
            f"unsupported operand type(s) for *: Sequential and {type(count).__name__}. Multiply with an int."
        )
    if count <= 0:
        raise ValueError(f"Sequential: expected a factor of 1 or more, got {count}.")


class Sequential(Module):
    """Calls its modules one after another, each with the result of the one before.

    Args:
        args: modules; or one OrderedDict of names and modules.
    Shape: input of the first module; gives the output of the last.
    Raises:
        TypeError: an argument is no Module.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 3), dynograd.nn.ReLU())
    >>> model(dynograd.ones(1, 2)).shape, model[1]
    (dynograd.Size([1, 3]), ReLU())
    """

    def __init__(self, *args: Module | OrderedDict[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Iterable[tuple[str, Any]] = args[0].items()
        else:
            named = ((str(place), module) for place, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    @recorded_whole
    def forward(self, input: Any) -> Tensor:
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

    def __mul__(self, other: int) -> Sequential:
        _check_count(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        _check_count(other)
        return self.extend(list(self) * (other - 1))

    def append(self, module: Module) -> Sequential:
        """Adds a module at the end.

        Args:
            module: a Module.
        Returns:
            this Sequential.
        Raises:
            TypeError: it is no Module.

        >>> layers = dynograd.nn.Sequential(dynograd.nn.ReLU())
        >>> len(layers.append(dynograd.nn.Tanh()))
        2
        """
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Adds modules at the end.

        Args:
            sequential: Modules in a list, another Sequential, or another iterable.
        Returns:
            this Sequential.

        >>> layers = dynograd.nn.Sequential(dynograd.nn.ReLU())
        >>> len(layers.extend([dynograd.nn.Tanh(), dynograd.nn.Sigmoid()]))
        3
        """
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Puts a module before position `index`.

        Args:
            index: the position; negative counts from the end.
            module: a Module.
        Returns:
            this Sequential.
        Raises:
            TypeError: it is no Module.
            IndexError: `index` is out of range.

        >>> layers = dynograd.nn.Sequential(dynograd.nn.ReLU())
        >>> _ = layers.insert(0, dynograd.nn.Tanh())
        >>> layers[0], layers[1]
        (Tanh(), ReLU())
        """
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Sequential.insert: Index out of range: {index}, with {len(self)} modules.")
        _insert(self, index, module)
        return self

    def pop(self, key: int = -1) -> Module:
        """Removes and returns a module; those behind it move up.

        Args:
            key: the position; negative counts from the end.
        Returns:
            the module.
        Raises:
            IndexError: `key` is out of range.

        >>> layers = dynograd.nn.Sequential(dynograd.nn.ReLU())
        >>> layers.pop(), len(layers)
        (ReLU(), 0)
        """
        module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """A list of modules whose parameters are registered; calling them is up to the model.

    Args:
        modules: Modules, in a list or another iterable.
    Raises:
        TypeError: no iterable, or an element that is no Module.

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
        """Adds a module at the end.

        Args:
            module: a Module.
        Returns:
            this ModuleList.
        Raises:
            TypeError: it is no Module.

        >>> layers = dynograd.nn.ModuleList([dynograd.nn.ReLU()])
        >>> len(layers.append(dynograd.nn.Tanh()))
        2
        """
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds modules at the end.

        Args:
            modules: Modules in a list, another ModuleList, or another iterable.
        Returns:
            this ModuleList.
        Raises:
            TypeError: a single Module instead.

        >>> layers = dynograd.nn.ModuleList([dynograd.nn.ReLU()])
        >>> len(layers.extend([dynograd.nn.Tanh(), dynograd.nn.Sigmoid()]))
        3
        """
        if isinstance(modules, Module) and not isinstance(modules, (ModuleList, Sequential)):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}.")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before position `index`.

        Args:
            index: the position; negative counts from the end.
            module: a Module.
        Raises:
            TypeError: it is no Module.

        >>> layers = dynograd.nn.ModuleList([dynograd.nn.ReLU()])
        >>> layers.insert(0, dynograd.nn.Tanh())
        >>> layers[0], layers[1]
        (Tanh(), ReLU())
        """
        _insert(self, index, module)

    def pop(self, key: int = -1) -> Module:
        """Removes and returns a module; those behind it move up.

        Args:
            key: the position; negative counts from the end.
        Returns:
            the module.
        Raises:
            IndexError: `key` is out of range.

        >>> layers = dynograd.nn.ModuleList([dynograd.nn.ReLU()])
        >>> layers.pop(), len(layers)
        (ReLU(), 0)
        """
        module = self[key]
        del self[key]
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


class _Named(Module):
    """What holders of named values share with dicts."""

    def _as_dict(self) -> dict[str, Any]:
        """The values by their names."""
        raise NotImplementedError

    def get(self, key: str, default: object = None) -> Any:
        """The value of a name.

        Args:
            key: the name.
            default: what there is instead, where nothing has that name.
        Returns:
            the value, or `default`.

        >>> dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()}).get("a")
        ReLU()
        """
        named: Any = self
        try:
            return named[key]
        except KeyError:
            return default

    def keys(self) -> KeysView[str]:
        """The names, in order.

        Returns:
            a view, as that of a dict.

        >>> list(dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()}).keys())
        ['a']
        """
        return self._as_dict().keys()

    def items(self) -> ItemsView[str, Any]:
        """The names with their values, in order.

        Returns:
            a view, as that of a dict.

        >>> list(dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()}).items())
        [('a', ReLU())]
        """
        return self._as_dict().items()

    def values(self) -> ValuesView[Any]:
        """The values, in order.

        Returns:
            a view, as that of a dict.

        >>> list(dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()}).values())
        [ReLU()]
        """
        return self._as_dict().values()


class ModuleDict(_Named):
    """A dict of modules whose parameters are registered.

    Args:
        modules: a mapping of names to Modules, or (name, Module) pairs.
    Raises:
        TypeError: no mapping and no iterable, or a value that is no Module.

    >>> heads = dynograd.nn.ModuleDict({"mean": dynograd.nn.Linear(4, 1), "spread": dynograd.nn.Linear(4, 1)})
    >>> list(heads), heads["mean"](dynograd.ones(2, 4)).shape
    (['mean', 'spread'], dynograd.Size([2, 1]))
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def _as_dict(self) -> dict[str, Any]:
        return self._modules

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
        """Removes all modules.

        >>> layers = dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()})
        >>> layers.clear()
        >>> len(layers)
        0
        """
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes and returns a module.

        Args:
            key: its name.
        Returns:
            the module.
        Raises:
            KeyError: there is none of that name.

        >>> layers = dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()})
        >>> layers.pop("a"), len(layers)
        (ReLU(), 0)
        """
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules, in their order; those of a known name are replaced.

        Args:
            modules: a mapping of names to Modules, or (name, Module) pairs.
        Raises:
            TypeError: no mapping and no iterable, or an element that is none.
            ValueError: an element that is no pair.

        >>> layers = dynograd.nn.ModuleDict({"a": dynograd.nn.ReLU()})
        >>> layers.update({"b": dynograd.nn.Tanh()})
        >>> list(layers)
        ['a', 'b']
        """
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
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{who}.update: element {place} should be Iterable, a (key, value) pair; is {type(pair).__name__}."
            )
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

    Args:
        values: tensors or other values, in a list or another iterable.
    Raises:
        TypeError: no iterable.

    >>> weights = dynograd.nn.ParameterList([dynograd.zeros(2), dynograd.zeros(3)])
    >>> len(list(weights.parameters()))
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

    def append(self, value: Tensor) -> ParameterList:
        """Adds a value at the end; a tensor becomes a parameter.

        Args:
            value: a tensor or another value.
        Returns:
            this ParameterList.

        >>> weights = dynograd.nn.ParameterList([dynograd.zeros(2)])
        >>> len(weights.append(dynograd.ones(3)))
        2
        """
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds values at the end; tensors become parameters.

        Args:
            values: tensors or other values, in an iterable that is no tensor itself.
        Returns:
            this ParameterList.
        Raises:
            TypeError: no iterable.

        >>> weights = dynograd.nn.ParameterList([dynograd.zeros(2)])
        >>> len(weights.extend([dynograd.ones(3), dynograd.ones(4)]))
        3
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}.")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = [f"  ({place}): {_described(value, getattr(value, 'dtype', None))}" for place, value in enumerate(self)]
        return "\n".join(lines)


class ParameterDict(_Named):
    """A dict of parameters (tensors become parameters; other values are kept as they are).

    Args:
        parameters: a mapping of names to tensors or other values, or (name, value) pairs.
    Raises:
        TypeError: no mapping and no iterable.

    >>> weights = dynograd.nn.ParameterDict({"scale": dynograd.ones(2), "shift": dynograd.zeros(2)})
    >>> list(weights), len(list(weights.parameters()))
    (['scale', 'shift'], 2)
    """

    def __init__(self, parameters: Mapping[str, object] | Iterable[tuple[str, object]] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._keys}

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

    def clear(self) -> None:
        """Removes all values."""
        for key in list(self._keys):
            del self[key]

    def setdefault(self, key: str, default: object = None) -> Any:
        """The value of `key`, which `default` becomes where there is none.

        Args:
            key: a name.
            default: a tensor, which becomes a parameter, or another value.
        Returns:
            the value that the dict holds now.

        >>> weights = dynograd.nn.ParameterDict({"a": dynograd.zeros(2)})
        >>> weights.setdefault("b", dynograd.ones(3)).shape
        dynograd.Size([3])
        """
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Removes and returns a value.

        Args:
            key: its name.
        Returns:
            the value.
        Raises:
            KeyError: there is none of that name.

        >>> weights = dynograd.nn.ParameterDict({"a": dynograd.zeros(2)})
        >>> weights.pop("a").shape, len(weights)
        (dynograd.Size([2]), 0)
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the last (key, value).

        Returns:
            (key, value).
        Raises:
            KeyError: the dict is empty.

        >>> weights = dynograd.nn.ParameterDict({"a": dynograd.zeros(2)})
        >>> weights.popitem()[0]
        'a'
        """
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty.")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """A new dict that has one value under all names.

        Args:
            keys: names.
            default: a tensor, which becomes a parameter, or another value.
        Returns:
            the new ParameterDict.

        >>> weights = dynograd.nn.ParameterDict().fromkeys(["a", "b"], dynograd.zeros(2))
        >>> weights["b"].shape
        dynograd.Size([2])
        """
        return ParameterDict([(key, default) for key in keys])

    def __or__(self, other: ParameterDict) -> ParameterDict:
        return self.copy().__ior__(other)

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        if not isinstance(other, ParameterDict):
            return NotImplemented
        self.update(OrderedDict(other.items()))
        return self

    def copy(self) -> ParameterDict:
        """A new dict of the same parameters.

        Returns:
            ParameterDict.

        >>> weights = dynograd.nn.ParameterDict({"a": dynograd.zeros(2)})
        >>> weights.copy()["a"] is weights["a"]
        True
        """
        return type(self)(OrderedDict((key, self[key]) for key in self))

    def update(self, parameters: Mapping[str, object] | Iterable[tuple[str, object]]) -> None:
        """Adds values, tensors as parameters; a plain dict in the order of its keys' names, as PyTorch does.

        Args:
            parameters: a mapping of names to values, or (name, value) pairs.
        Raises:
            TypeError: no mapping and no iterable, or an element that is none.
            ValueError: an element that is no pair.

        >>> weights = dynograd.nn.ParameterDict({"a": dynograd.zeros(2)})
        >>> weights.update({"c": dynograd.ones(1), "b": dynograd.ones(1)})
        >>> list(weights)
        ['a', 'b', 'c']
        """
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
