"""Seeds for data loading: one for every (epoch, sample), so that random augmentation does not depend on who loads the sample.

Seeding the three global generators takes some microseconds, as long as reading many a sample, and most data sets draw nothing. So a
`Seeder` watches: which generators the first samples drew from is seeded for the later ones, and the others are only looked at.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.base.random_streams import Generator, default_generator
from dynograd.data.generators import SOURCES, Source, make_seedable, mix

__all__ = ["SeedFor", "Seeder", "Undisturbed", "draw_seed", "make_seedable", "mix", "sample_seed", "seed_all"]


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
    for source in SOURCES:
        source.seed(seed)


SeedFor = Callable[[Any, int], None]
"""Called before a sample is read, with its index and its place in the batch."""


class Seeder:
    """Reads batches of samples with the generators seeded, as far as the data set draws from them.

    The first `TRIALS` samples have all three seeded; from then on those that were never drawn from are only watched. A batch in which one
    of those is drawn from for the first time is read again with it seeded, so that every sample comes out as if always seeded.
    """

    TRIALS = 2

    def __init__(self) -> None:
        self.trials = self.TRIALS
        self.drawn: list[Source] = []
        self.watched: list[Source] = list(SOURCES)
        self._tries = False  # whether the sample that is read now is one of those tried

    def run(self, read: Callable[[SeedFor | None], list], seed: int, position: int | None) -> list:
        """What `read` returns, which reads one batch; the random numbers of a sample are made of `seed`, index and position."""
        while True:
            self._mark()
            self._tries = False
            seed_for = _seeding(self.drawn, seed, position) if self.drawn else None
            try:
                samples = read(self._trying(seed, position) if self.trials else seed_for)
            except Exception:
                if self._has_new_draws() and not self._tries:
                    continue
                raise
            if not self._has_new_draws() or self._tries:
                return samples

    def _trying(self, seed: int, position: int | None) -> SeedFor:
        """Seeds all generators for the samples that are tried: what these draw from is known without reading again."""
        seed_all_for, seed_drawn_for = _seeding(SOURCES, seed, position), _seeding(self.drawn, seed, position)

        def seed_for(index: Any, offset: int) -> None:
            if self._tries:
                self._has_new_draws()  # by the sample before
            self._tries = self.trials > 0
            if self._tries:
                self.trials -= 1
                seed_all_for(index, offset)
                self._mark()
            elif self.drawn:
                seed_drawn_for(index, offset)

        return seed_for

    def _mark(self) -> None:
        for source in self.watched:
            source.mark()

    def _has_new_draws(self) -> bool:
        new = [source for source in self.watched if source.moved()]
        for source in new:
            self.watched.remove(source)
            self.drawn.append(source)
        return bool(new)


def _seeding(sources: Iterable[Source], seed: int, position: int | None) -> SeedFor:
    def seed_for(index: Any, offset: int) -> None:
        number = sample_seed(seed, index, None if position is None else position + offset)
        for source in sources:
            source.seed(number)

    return seed_for


class Undisturbed:
    """A block that leaves the three global generators as it found them.

    >>> import random
    >>> state = random.getstate()
    >>> with Undisturbed():
    ...     seed_all(1)
    >>> random.getstate() == state
    True
    """

    __slots__ = ("_states",)

    def __enter__(self) -> None:
        self._states = [source.save() for source in SOURCES]

    def __exit__(self, *error: Any) -> None:
        for source, state in zip(SOURCES, self._states):
            source.restore(state)
