"""Where random numbers come from: a `Generator` hands out places in a counter-based stream, it holds no numbers.

The whole state is two integers, (seed, offset). A draw asks `key(blocks)` for the next free place, and a kernel computes the numbers of
that place (`kernels/random/random_cpu.py` defines them), so a value depends on (seed, offset, position in the draw) and on nothing else.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import operator
import os
import threading
from collections.abc import Iterator
from typing import Any

from dynograd.base import devices
from dynograd.base.habits import forget_habits
from dynograd.base.hints import DeviceLike

__all__ = ["Generator", "apart", "default_generator", "drawn", "initial_seed", "manual_seed", "seed", "takers"]

DEFAULT_SEED = 67280421310721
_SPAN = 1 << 64


class Generator:
    """A place in a stream of random numbers; every random function takes one as `generator`.

    Args:
        device: recorded for PyTorch's sake. The same (seed, offset) gives the same numbers on every device.

    >>> generator = dynograd.Generator().manual_seed(3)
    >>> generator.key(10), generator.key(1)
    ((3, 0), (3, 10))
    """

    __slots__ = ("_lock", "_offset", "_seed", "device")

    def __init__(self, device: DeviceLike = "cpu") -> None:
        self.device = devices.as_device(device)
        self._seed = DEFAULT_SEED
        self._offset = 0
        self._lock = threading.Lock()

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream of `seed` (any integer, taken modulo 2**64) at its beginning; returns the generator.

        Args:
            seed: any integer.
        Returns:
            The generator.

        >>> dynograd.Generator().manual_seed(3).initial_seed()
        3
        """
        number = _as_seed("Generator.manual_seed", seed)
        with self._lock:
            self._seed, self._offset = number, 0
        return self

    def seed(self) -> int:
        """Starts a stream that nobody can foresee, and returns its seed.

        Returns:
            An int.
        """
        number = int.from_bytes(os.urandom(7)) >> 3
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed of this stream, as it was last set.

        Returns:
            An int.

        >>> dynograd.Generator().manual_seed(3).initial_seed()
        3
        """
        return self._seed

    def key(self, count: int) -> tuple[int, int]:
        """Reserves `count` blocks of 128 bits for the caller alone and returns (seed, offset of the first one).

        Args:
            count: 0 or more.
        Returns:
            (seed, offset).
        Raises:
            ValueError: `count` is negative.
        """
        if count < 0:
            raise ValueError(f"Generator.key: expected a number of blocks >= 0, got {count}.")
        with self._lock:
            offset = self._offset
            self._offset = (offset + count) % _SPAN
            return self._seed, offset

    def state(self) -> tuple[int, int]:
        """(seed, offset): all there is to save.

        Returns:
            Two ints.

        >>> dynograd.Generator().manual_seed(3).state()
        (3, 0)
        """
        with self._lock:
            return self._seed, self._offset

    def set_plain_state(self, state: tuple[int, int]) -> None:
        """Continues at a place that `state()` returned.

        Args:
            state: (seed, offset).
        Raises:
            ValueError: `state` is not a pair of integers from 0 to 2**64 - 1.
        """
        try:
            seed, offset = (operator.index(number) for number in state)
        except (TypeError, ValueError):
            raise ValueError(
                f"Generator.set_plain_state: expected (seed, offset), got {state!r}. Use state() of a generator."
            ) from None
        if not (0 <= seed < _SPAN and 0 <= offset < _SPAN):
            raise ValueError(
                f"Generator.set_plain_state: expected integers from 0 to 2**64 - 1, got ({seed}, {offset}). "
                f"Use state() of a generator, or manual_seed(seed)."
            )
        with self._lock:
            self._seed, self._offset = seed, offset

    def __getstate__(self) -> tuple[str, int, int]:
        return (str(self.device), *self.state())

    def __setstate__(self, saved: tuple[str, int, int]) -> None:
        device, seed, offset = saved
        self.device = devices.as_device(device)
        self._seed, self._offset = seed, offset
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        seed, offset = self.state()
        return f"Generator(device='{self.device}', seed={seed}, offset={offset})"


class _Places(threading.local):
    """The place in the default stream of a thread that has one of its own."""

    place: tuple[int, int] | None = None


_places = _Places()
_seed_slot: Any = Generator.__dict__["_seed"]
_offset_slot: Any = Generator.__dict__["_offset"]


class _DefaultGenerator(Generator):
    """The generator of draws that are given none. A thread that stands for a process of its own has its own place in it."""

    __slots__ = ()

    @property
    def _seed(self) -> int:
        place = _places.place
        return _seed_slot.__get__(self) if place is None else place[0]

    @_seed.setter
    def _seed(self, seed: int) -> None:
        if _places.place is None:
            _seed_slot.__set__(self, seed)
        else:
            _places.place = (seed, _places.place[1])

    @property
    def _offset(self) -> int:
        place = _places.place
        return _offset_slot.__get__(self) if place is None else place[1]

    @_offset.setter
    def _offset(self, offset: int) -> None:
        if _places.place is None:
            _offset_slot.__set__(self, offset)
        else:
            _places.place = (_places.place[0], offset)

    def exchange(self, state: tuple[int, int]) -> tuple[int, int]:
        """Goes on at `state`, and returns where it was: for turns of programs on one thread, each with a place of its own."""
        own = _places.place
        if own is not None:
            _places.place = state
            return own
        before = _seed_slot.__get__(self), _offset_slot.__get__(self)
        _seed_slot.__set__(self, state[0])
        _offset_slot.__set__(self, state[1])
        return before

    def __reduce__(self) -> tuple[object, ...]:
        return copyreg.__newobj__, (Generator,), self.__getstate__()


default_generator = _DefaultGenerator()


@contextlib.contextmanager
def apart(place: tuple[int, int]) -> Iterator[None]:
    """A context in which this thread has its own place in the default stream: other threads' draws and seeds do not move it.

    Args:
        place: (seed, offset) to begin with.
    """
    before, _places.place = _places.place, place
    try:
        yield
    finally:
        _places.place = before


def manual_seed(seed: int) -> Generator:
    """Seeds the generator that is used where none is given, and returns it.

    What else decides last bits begins anew, too: which scopes of `autobatch` have gained too little to be recorded.

    Args:
        seed: any integer, taken modulo 2**64.
    Returns:
        The default `Generator`.

    >>> _ = dynograd.manual_seed(0)
    >>> x = dynograd.rand(2)
    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.equal(dynograd.rand(2), x)
    True
    """
    forget_habits()
    return default_generator.manual_seed(_as_seed("manual_seed", seed))


def seed() -> int:
    """Seeds the default generator unforeseeably; returns the seed.

    Returns:
        An int from 0 to 2**64 - 1.

    >>> dynograd.seed() == dynograd.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator.

    Returns:
        An int.

    >>> _ = dynograd.manual_seed(7)
    >>> dynograd.initial_seed()
    7
    """
    return default_generator.initial_seed()


def _as_seed(who: str, seed: Any) -> int:
    try:
        return int(seed) % _SPAN
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{who}: expected an integer seed, got {seed!r}. Pass an int, e.g. {who}(0).") from None


takers: list[Any] = []  # what runs random functions in place of themselves: `vmap` while it is at work


def drawn(function: Any) -> Any:
    """A random function, run by the last of `takers` if there is one."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if takers:
            return takers[-1](function, args, kwargs)
        return function(*args, **kwargs)

    return run
