"""The three global generators (Python's `random`, NumPy's, dynograd's), each with the same few verbs.

`seed` starts one at a number, `save` and `restore` bring it back to where it was, `mark` and `moved` tell whether anybody has drawn
from it. The last two are called for every sample, so they look at the Mersenne Twister's position and words where they lie in memory
(2.5 kB): 0.1 us, where `getstate` takes 10. Where that memory does not look as expected, the public functions are used.
"""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy
from numpy.random import mtrand

from dynograd.base.random_streams import default_generator

__all__ = ["SOURCES", "DynogradSource", "NumpySource", "PythonSource", "make_seedable", "mix"]

_MASK = (1 << 64) - 1
_WORDS = 624


def mix(seed: int, number: int) -> int:
    """64 bits that depend on both (one step of SplitMix64).

    >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
    (True, False)
    """
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class PythonSource:
    """Python's `random`. Its object holds a position and 624 words behind the header that every object has."""

    name = "python"

    def __init__(self) -> None:
        place = id(random._inst) + object.__basicsize__
        self._memory, self._peek = _memory_at(place)
        position, words = self._memory[0], self._memory[1:]
        state = random.getstate()[1]
        self.is_known = state[-1] == position and words.tolist() == list(state[:-1])

    def seed(self, seed: int) -> None:
        random.seed(seed)

    def save(self) -> Any:
        if not self.is_known:
            return random.getstate()
        return self._memory.copy(), random._inst.gauss_next  # type: ignore[attr-defined]

    def restore(self, state: Any) -> None:
        if not self.is_known:
            random.setstate(state)
            return
        self._memory[:], random._inst.gauss_next = state  # type: ignore[attr-defined]

    def mark(self) -> None:
        self._mark = (
            (self._peek[0], self._peek[1], random._inst.gauss_next)  # type: ignore[attr-defined]
            if self.is_known
            else random.getstate()
        )

    def moved(self) -> bool:
        if not self.is_known:
            return random.getstate() != self._mark
        position, first, normal = self._mark
        # After exactly 624 draws the position is the same again, but the words are new.
        return (
            self._peek[0] != position or self._peek[1] != first or random._inst.gauss_next is not normal  # type: ignore[attr-defined]
        )


class NumpySource:
    """NumPy's global generator: 624 words, then the position. It also keeps every second normal number, in a place of its own."""

    name = "numpy"

    def __init__(self) -> None:
        self._bits: Any = None
        self._look()

    def _look(self) -> bool:
        """Finds the memory of the generator that is there now; whether it looks as expected."""
        bits = mtrand.get_bit_generator()
        if bits is not self._bits:
            self._bits = bits
            self.is_known = type(bits) is numpy.random.MT19937
            if self.is_known:
                self._memory, self._peek = _memory_at(bits.ctypes.state_address)
                state = bits.state["state"]
                self.is_known = (
                    self._memory[_WORDS] == state["pos"] and self._memory[:_WORDS].tolist() == state["key"].tolist()
                )
        return self.is_known

    def seed(self, seed: int) -> None:
        if not self._look():
            make_seedable()
        numpy.random.seed(seed & 0xFFFFFFFF)

    def save(self) -> Any:
        """Leaves no normal number kept, so that whatever is drawn until `restore` moves the position."""
        if not self._look():
            bits, state = self._bits, numpy.random.get_state(legacy=False)
            make_seedable()
            return bits, state, None
        words = self._memory.copy()
        return self._bits, words, self._take_normal()

    def restore(self, state: Any) -> None:
        bits, words, normal = state
        if mtrand.get_bit_generator() is not bits:
            mtrand.set_bit_generator(bits)
        if isinstance(words, dict):
            numpy.random.set_state(words)
            return
        self._look()
        self._take_normal()
        self._memory[:] = words
        if normal is not None:
            whole = numpy.random.get_state(legacy=False)
            numpy.random.set_state({**whole, "has_gauss": 1, "gauss": normal})

    def mark(self) -> None:
        self._mark = (
            (self._bits, self._peek[_WORDS], self._peek[0]) if self._look() else numpy.random.get_state(legacy=False)
        )

    def moved(self) -> bool:
        if not self._look() or isinstance(self._mark, dict):
            return True  # no quick way to tell, so it counts as drawn from
        bits, position, first = self._mark
        return self._bits is not bits or self._peek[_WORDS] != position or self._peek[0] != first

    def _take_normal(self) -> float | None:
        """Forgets the kept normal number; returns it. Nothing in NumPy tells whether there is one but drawing it."""
        before = self._peek[_WORDS], self._peek[0]
        normal = numpy.random.standard_normal()
        if (self._peek[_WORDS], self._peek[0]) == before:
            return normal
        numpy.random.standard_normal()  # the second of the pair that was drawn just now
        return None


class DynogradSource:
    """dynograd's default generator: two integers are all of its state."""

    name = "dynograd"

    def seed(self, seed: int) -> None:
        """Of 63 bits, so that a data set may make a tensor of `initial_seed()`."""
        default_generator.set_plain_state((seed & (_MASK >> 1), 0))

    def save(self) -> Any:
        return default_generator.state()

    def restore(self, state: Any) -> None:
        default_generator.set_plain_state(state)

    def mark(self) -> None:
        self._mark = default_generator.state()

    def moved(self) -> bool:
        return default_generator.state() != self._mark


def make_seedable() -> None:
    """Makes NumPy's global generator a Mersenne Twister, if the program chose another kind: programs expect `numpy.random.seed` of it."""
    if type(mtrand.get_bit_generator()) is not numpy.random.MT19937:
        mtrand.set_bit_generator(numpy.random.MT19937(0))


def _memory_at(address: int) -> tuple[Any, Any]:
    """The 625 words at an address, for copying (an array) and for looking at one (a memoryview)."""
    words = (ctypes.c_uint32 * (_WORDS + 1)).from_address(address)
    return numpy.frombuffer(memoryview(words), numpy.uint32), memoryview(words).cast("B").cast("I")


Source = PythonSource | NumpySource | DynogradSource
SOURCES: tuple[Source, ...] = (PythonSource(), NumpySource(), DynogradSource())
