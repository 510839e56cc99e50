"""Seeds for data loading: one for every (epoch, sample), so that random augmentation does not depend on who loads the sample.

`seed_all` seeds Python's `random`, NumPy's global generator and dynograd's default one. `Undisturbed` gives all three back as
they were, which is what loading in the program's own process needs.
"""

from __future__ import annotations

import ctypes
import operator
import random
import zlib
from typing import Any

import numpy

from dynograd.random_streams import Generator, default_generator

__all__ = ["Undisturbed", "draw_seed", "mix", "sample_seed", "seed_all"]

_MASK = (1 << 64) - 1
_WORDS = 625 * 4  # MT19937 as NumPy keeps it: 624 words and the position, 32 bits each
_layout_is_known: bool | None = None


def mix(seed: int, number: int) -> int:
    """64 bits that depend on both (one step of SplitMix64).

    >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
    (True, False)
    """
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def draw_seed(generator: Generator | None = None) -> int:
    """A new seed of 62 bits out of `generator` (the default one by default), which moves on."""
    return mix(*(generator or default_generator).key(1)) >> 2


def sample_seed(seed: int, index: Any, position: int | None = None) -> int:
    """The seed of one sample: of its index, and of its position in the epoch where an index may come twice."""
    if type(index) is not int:
        try:
            index = operator.index(index)
        except TypeError:
            index = zlib.crc32(repr(index).encode())
    seed = mix(seed, index)
    return seed if position is None else mix(seed, position)


def seed_all(seed: int) -> None:
    """Starts the three global generators at `seed`."""
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)
    default_generator.manual_seed(seed)


def make_seedable() -> None:
    """Lets `numpy.random.seed` work: only MT19937 takes it."""
    if type(numpy.random.get_bit_generator()) is not numpy.random.MT19937:
        numpy.random.set_bit_generator(numpy.random.MT19937(0))


class Undisturbed:
    """A block that leaves the three global generators as it found them.

    >>> import random
    >>> state = random.getstate()
    >>> with Undisturbed():
    ...     seed_all(1)
    >>> random.getstate() == state
    True
    """

    __slots__ = ("_dynograd", "_numpy", "_python")

    def __enter__(self) -> None:
        self._python = random.getstate()
        self._numpy = _numpy_state()
        self._dynograd = default_generator.state()

    def __exit__(self, *error: Any) -> None:
        random.setstate(self._python)
        _restore_numpy(*self._numpy)
        default_generator.set_plain_state(self._dynograd)


def _numpy_state() -> tuple[Any, Any, float | None]:
    """(bit generator, its state, the normal number kept for the next draw); get_state takes 20 times as long as this."""
    global _layout_is_known
    bits = numpy.random.get_bit_generator()
    if type(bits) is not numpy.random.MT19937:
        state = numpy.random.get_state(legacy=False)
        make_seedable()
        return bits, state, None
    address = bits.ctypes.state_address
    words = ctypes.string_at(address, _WORDS)
    if _layout_is_known is None:
        held = bits.state["state"]
        _layout_is_known = words == held["key"].tobytes() + int(held["pos"]).to_bytes(4, "little")
    if not _layout_is_known:
        return bits, numpy.random.get_state(legacy=False), None
    normal = numpy.random.standard_normal()
    kept = ctypes.string_at(address, _WORDS) == words  # nothing was drawn for it, so it had been kept
    return bits, words, normal if kept else None


def _restore_numpy(bits: Any, state: Any, normal: float | None) -> None:
    if numpy.random.get_bit_generator() is not bits:
        numpy.random.set_bit_generator(bits)
    if isinstance(state, dict):
        numpy.random.set_state(state)
        return
    numpy.random.seed(0)  # forgets a normal number kept by the block
    ctypes.memmove(bits.ctypes.state_address, state, _WORDS)
    if normal is not None:
        whole = numpy.random.get_state(legacy=False)
        numpy.random.set_state({**whole, "has_gauss": 1, "gauss": normal})
