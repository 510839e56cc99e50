"""The base classes of PyTorch's data pipes, for programs that subclass them: data sets to which functions can be registered as methods.

None of PyTorch's own pipes (map, filter, batch, shuffle, ...) is here: PyTorch has given them up; a generator function does the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.data.dataset import Dataset, IterableDataset

__all__ = [
    "DFIterDataPipe",
    "DataChunk",
    "IterDataPipe",
    "MapDataPipe",
    "argument_validation",
    "functional_datapipe",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]


class _Functions:
    """Lookup of registered pipes as methods: `pipe.name(...)` is `Pipe(pipe, ...)`."""

    functions: dict[str, Callable]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}. Registered functions: {sorted(type(self).functions)}; PyTorch's "
            f"own pipes are not here: write a generator function, or register yours by @functional_datapipe({name!r})."
        )

    @classmethod
    def register_function(cls, name: str, function: Callable) -> None:
        """Makes `function(pipe, ...)` a method of every pipe of this style."""
        cls.functions[name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Makes a class a method of every pipe of this style.

        Raises:
            ValueError: the name is taken.
        """
        if function_name in cls.functions:
            raise ValueError(
                f"Unable to add DataPipe function name {function_name}: it is already taken by {cls.functions[function_name]}. "
                f"Choose another."
            )
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Functions, IterableDataset):
    """A stream of samples with registered methods.

    >>> from dynograd.data.datapipes import IterDataPipe, functional_datapipe
    >>> @functional_datapipe("doubled")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...
    ...     def __iter__(self):
    ...         return (2 * one for one in self.source)
    >>> list(Doubled([1, 2]).doubled())
    [4, 8]
    """

    functions: dict[str, Callable] = {}

    def reset(self) -> None:
        """Called by programs before an epoch; nothing has to be done."""


class MapDataPipe(_Functions, Dataset):
    """A map from indices to samples with registered methods."""

    functions: dict[str, Callable] = {}


class DFIterDataPipe(IterDataPipe):
    """A stream of data frames."""


class DataChunk(list):
    """A list of samples that came together.

    >>> from dynograd.data.datapipes import DataChunk
    >>> list(DataChunk([1, 2]).raw_iterator())
    [1, 2]
    """

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.items = items

    def raw_iterator(self) -> Iterator:
        """The samples one by one."""
        yield from self.items


class functional_datapipe:
    """Decorator: registers a pipe under a name, by which other pipes have it as a method."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        if not issubclass(cls, (IterDataPipe, MapDataPipe)):
            raise TypeError(f"functional_datapipe can only decorate IterDataPipe or MapDataPipe, got {cls}.")
        base = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        base.register_datapipe_as_function(self.name, cls)
        return cls


class guaranteed_datapipes_determinism(contextlib.AbstractContextManager):
    """Accepted; nothing here is left to chance."""

    def __init__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        return None


def non_deterministic(what: Any) -> Any:
    """Decorator that changes nothing: every sample has its own seed here."""
    return what if isinstance(what, type) else (lambda cls: cls)


def argument_validation(function: Callable) -> Callable:
    """Decorator that changes nothing: hints are not checked."""
    return function


def runtime_validation(function: Callable) -> Callable:
    """Decorator that changes nothing: hints are not checked."""
    return function


class runtime_validation_disabled(contextlib.AbstractContextManager):
    """Accepted; hints are not checked anyway."""

    def __exit__(self, *error: Any) -> None:
        return None
