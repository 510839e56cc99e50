"""The base classes of PyTorch's data pipes, for programs that subclass them: data sets to which functions can be registered as methods.

Of PyTorch's own pipes only `shuffle` is here, which other libraries ask for: PyTorch has given them up; a generator function does the same.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynograd.base.dtypes import int64
from dynograd.data.dataset import Dataset, IterableDataset
from dynograd.tensor.creation import empty

__all__ = [
    "DFIterDataPipe",
    "DataChunk",
    "IterDataPipe",
    "MapDataPipe",
    "ShufflerIterDataPipe",
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
            f"other pipes are not here: write a generator function, or register yours by @functional_datapipe({name!r})."
        )

    @classmethod
    def register_function(cls, function_name: str, function: Callable) -> None:
        """Makes `function(pipe, ...)` a method of every pipe of this style.

        Args:
            function_name: of the method.
            function: takes a pipe first.

        >>> from dynograd.data.datapipes import MapDataPipe
        >>> MapDataPipe.register_function("twice", lambda pipe: [pipe, pipe])
        >>> len(MapDataPipe().twice())
        2
        >>> _ = MapDataPipe.functions.pop("twice")
        """
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: object = False
    ) -> None:
        """Makes a class a method of every pipe of this style.

        Args:
            function_name: of the method.
            cls_to_register: a class whose constructor takes a pipe first.
            enable_df_api_tracing: kept for compatibility.
        Raises:
            ValueError: the name is taken.

        >>> from dynograd.data.datapipes import IterDataPipe
        >>> class Reversed(IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        >>> IterDataPipe.register_datapipe_as_function("reversed_for_example", Reversed)
        >>> type(IterDataPipe().reversed_for_example()).__name__
        'Reversed'
        >>> _ = IterDataPipe.functions.pop("reversed_for_example")
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
    ...         return (2 * number for number in self.source)
    >>> list(Doubled([1, 2]).doubled())
    [4, 8]
    >>> _ = IterDataPipe.functions.pop("doubled")
    """

    functions: dict[str, Callable] = {}

    def reset(self) -> None:
        """Does nothing: programs call it before an epoch, and there is nothing to set back.

        >>> from dynograd.data.datapipes import IterDataPipe
        >>> IterDataPipe().reset()
        """


class MapDataPipe(_Functions, Dataset):
    """A map from indices to samples with registered methods.

    >>> from dynograd.data.datapipes import MapDataPipe
    >>> class Squares(MapDataPipe):
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> Squares()[3]
    9
    """

    functions: dict[str, Callable] = {}


class DFIterDataPipe(IterDataPipe):
    """A stream of data frames: an IterDataPipe under PyTorch's name.

    >>> from dynograd.data.datapipes import DFIterDataPipe, IterDataPipe
    >>> issubclass(DFIterDataPipe, IterDataPipe)
    True
    """


class DataChunk(list):
    """A list of samples that came together.

    Args:
        items: the samples.

    >>> from dynograd.data.datapipes import DataChunk
    >>> list(DataChunk([1, 2]).raw_iterator())
    [1, 2]
    """

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.items = items

    def raw_iterator(self) -> Iterator:
        """The samples one by one.

        Returns:
            an iterator.

        >>> from dynograd.data.datapipes import DataChunk
        >>> next(DataChunk([1, 2]).raw_iterator())
        1
        """
        yield from self.items


class functional_datapipe:
    """Decorator: registers a pipe under a name, by which other pipes have it as a method.

    Args:
        name: of the method.
        enable_df_api_tracing: accepted.
    Raises:
        TypeError: what is decorated is no pipe.
        ValueError: the name is taken.

    >>> from dynograd.data.datapipes import MapDataPipe, functional_datapipe
    >>> @functional_datapipe("first_for_example")
    ... class First(MapDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    >>> hasattr(MapDataPipe(), "first_for_example")
    True
    >>> _ = MapDataPipe.functions.pop("first_for_example")
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        if not issubclass(cls, (IterDataPipe, MapDataPipe)):
            raise TypeError(f"functional_datapipe can only decorate IterDataPipe or MapDataPipe, got {cls}.")
        base = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        base.register_datapipe_as_function(self.name, cls)
        return cls


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """The samples of a stream in another order: each is drawn from the next `buffer_size` ones.

    Args:
        datapipe: the stream.
        buffer_size: how many samples wait to be drawn.
        unbatch_level: as many levels of lists are taken apart first, by a registered function `unbatch`; 0: none.
    Raises:
        ValueError: `buffer_size` is not positive.
        TypeError: its length is asked for, and the stream has none.

    >>> from dynograd.data.datapipes import ShufflerIterDataPipe
    >>> list(ShufflerIterDataPipe(range(5), buffer_size=3).set_seed(1))
    [0, 2, 3, 4, 1]
    """

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__()
        if buffer_size <= 0:
            raise ValueError(f"shuffle: buffer_size must be larger than 0, got {buffer_size}.")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size
        self._random, self._enabled = random.Random(), True
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Whether the order changes.

        Args:
            shuffle: True or False.
        Returns:
            the pipe itself.

        >>> from dynograd.data.datapipes import ShufflerIterDataPipe
        >>> list(ShufflerIterDataPipe(range(3)).set_shuffle(False))
        [0, 1, 2]
        """
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Seeds the next pass alone; others draw their seeds from the default generator.

        Args:
            seed: an integer.
        Returns:
            the pipe itself.

        >>> from dynograd.data.datapipes import ShufflerIterDataPipe
        >>> pipe = ShufflerIterDataPipe(range(9))
        >>> list(pipe.set_seed(3)) == list(pipe.set_seed(3))
        True
        """
        self._seed = seed
        return self

    def reset(self) -> None:
        """Seeds the next pass, which does it by itself.

        >>> from dynograd.data.datapipes import ShufflerIterDataPipe
        >>> ShufflerIterDataPipe(range(9)).reset()
        """
        if self._enabled:
            seed = int(empty((), dtype=int64).random_().item()) if self._seed is None else self._seed
            self._random.seed(seed)
            self._seed = None

    def __iter__(self) -> Iterator[Any]:
        self.reset()
        return self._shuffled() if self._enabled else iter(self.datapipe)

    def _shuffled(self) -> Iterator[Any]:
        waiting: list[Any] = []
        for sample in self.datapipe:
            if len(waiting) < self.buffer_size:
                waiting.append(sample)
            else:
                place = self._random.randrange(len(waiting))
                drawn, waiting[place] = waiting[place], sample
                yield drawn
        while waiting:
            yield waiting.pop(self._random.randrange(len(waiting)))

    def __len__(self) -> int:
        return len(self.datapipe)


class guaranteed_datapipes_determinism(contextlib.AbstractContextManager):
    """A context that is accepted; nothing here is left to chance.

    >>> from dynograd.data.datapipes import guaranteed_datapipes_determinism
    >>> with guaranteed_datapipes_determinism():
    ...     pass
    """

    def __init__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        return None


def non_deterministic(what: Any) -> Any:
    """Decorator that changes nothing: every sample has its own seed here.

    Args:
        what: a class, or a function that says whether a pipe is random.
    Returns:
        a class as it is; for a function, a decorator.

    >>> from dynograd.data.datapipes import IterDataPipe, non_deterministic
    >>> @non_deterministic
    ... class Noise(IterDataPipe):
    ...     pass
    >>> Noise.__name__
    'Noise'
    """
    return what if isinstance(what, type) else (lambda cls: cls)


def argument_validation(function: Callable) -> Callable:
    """Decorator that changes nothing: hints are not checked.

    Args:
        function: what is decorated.
    Returns:
        `function`.

    >>> from dynograd.data.datapipes import argument_validation
    >>> argument_validation(len) is len
    True
    """
    return function


def runtime_validation(function: Callable) -> Callable:
    """Decorator that changes nothing: hints are not checked.

    Args:
        function: what is decorated.
    Returns:
        `function`.

    >>> from dynograd.data.datapipes import runtime_validation
    >>> runtime_validation(len) is len
    True
    """
    return function


class runtime_validation_disabled(contextlib.AbstractContextManager):
    """A context that is accepted; hints are not checked anyway.

    >>> from dynograd.data.datapipes import runtime_validation_disabled
    >>> with runtime_validation_disabled():
    ...     pass
    """

    def __exit__(self, *error: Any) -> None:
        return None
