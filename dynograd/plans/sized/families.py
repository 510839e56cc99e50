"""A function's steps at many sizes: what is recorded at some of them is walked at those between, without a record of their own."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynograd.plans.sized.choosing import candidates
from dynograd.plans.sized.family import Family
from dynograd.plans.sized.fetched import fetched_sizes, free_places, kept
from dynograd.plans.sized.memory import Differs
from dynograd.plans.sized.sizes import FEWEST, LEAST, NoFormula, Sizes, flat_sizes
from dynograd.plans.sized.ways import Way
from dynograd.plans.steps import Path
from dynograd.plans.walking.gains import cost_of_a_record
from dynograd.plans.walking.pauses import Credit
from dynograd.plans.walks import Walk

__all__ = ["Families"]

_MOST_FAILURES = 8
_MOST_FAMILIES = 8
_MOST_MET = 4096  # sizes
_COST = 2  # of a family that is made, in programs, beside that of the look
_NEAR = 4  # the part of a size that another one differs by at most


class Families:
    """The families of one function: of its ways that computed the same calls in the same order.

    Args:
        make_walk: gives a walk without ways.
        note: is told why there is no family.
        credit: what may be spent on looking for one.
        exact: results have the bits of the program as it is written. Of few rows made-up numbers hardly tell whether they do: such sizes are
            recorded by themselves then.
    """

    def __init__(
        self, make_walk: Callable[[], Walk], note: Callable[[str], None], credit: Credit, exact: bool = False
    ) -> None:
        self.make_walk, self.note, self.credit = make_walk, note, credit
        self.least = sys.maxsize if exact else LEAST
        self.all: list[Family] = []
        self.changes = 0  # families and ways of them that were made
        self.met: dict[tuple[int, ...], int] = {}  # sizes that came, and how often they were left as they are written
        self.tried: dict[Any, list[Any]] = {}  # programs that a family was looked for among, by their calls
        self.failures: dict[Any, int] = {}
        self.waiting: dict[Any, int] = {}  # so many recorded steps must be there before one is looked for again
        self.looked: dict[
            tuple, int
        ] = {}  # how many ways were recorded at some sizes when a family was looked for last

    def concerns(self, sizes: tuple, ways: int) -> bool:
        """Whether there may be a family for sizes at which so many ways are recorded."""
        if ways >= FEWEST and self.looked.get(sizes) != ways:
            return True
        return not ways or (bool(self.all) and any([family.is_preferred() for family in self.all]))

    def find(
        self, sizes: tuple, recorded: Callable[[], Iterator[tuple[tuple, Path]]], ways: int, may_wait: bool = True
    ) -> tuple[Family | None, bool]:
        """The family that has these sizes now, or None; and whether this call is better left as it is written.

        Args:
            recorded: gives the ways that stand for others, with the sizes of their arguments.
            ways: how many are recorded at these sizes.
            may_wait: else sizes that come for the first time are taken up, whatever that costs.
        """
        looks = self.credit.has_any() or not may_wait
        may_wait = may_wait and not ways
        numbers, form = flat_sizes(sizes)
        for family in self.all[::-1]:
            if family.form != form or (ways and not family.is_preferred()):
                continue
            whole = family.complete(numbers)
            if whole is None:
                continue
            if looks and family.missed > family.looked:
                family.looked = family.missed
                larger = self._grown(family, form, numbers, recorded)
                if larger is not family:
                    family, whole = larger, larger.complete(numbers) or whole
            if may_wait and self._waits(family, whole):
                return None, True
            if family.resize(whole):
                if family is not self.all[-1]:
                    self.all.remove(family)
                    self.all.append(family)
                return family, False
            self.note(
                "the formulas of its numbers do not say what they are at these sizes, or its last backward is still to come"
            )
        if not looks or (ways and self.looked.get(sizes) == ways):
            return None, False
        if ways:
            self.looked[sizes] = ways
        for names, paths in self._alike(form, recorded).items():
            new = self._new(names, paths, form, numbers)
            whole = None if new is None else new.complete(numbers)
            if new is not None and whole is not None and (not ways or new.is_preferred()):
                waits = may_wait and self._waits(new, whole)
                return (new if not waits and new.resize(whole) else None), waits
        return None, False

    def _alike(
        self, form: tuple, recorded: Callable[[], Iterator[tuple[tuple, Path]]]
    ) -> dict[Any, dict[tuple[int, ...], Path]]:
        """The recorded ways, by their calls, and by all their sizes."""
        alike: dict[Any, dict[tuple[int, ...], Path]] = {}
        for own, path in recorded():
            flat, own_form = flat_sizes(own)
            if own_form == form:
                fetched, places = fetched_sizes(path)
                alike.setdefault((path.program.names, places), {})[(*flat, *fetched)] = path
        return alike

    def _waits(self, family: Family, numbers: tuple[int, ...]) -> bool:
        """Whether a size waits until it comes again: what is made for it then pays only if it comes more often."""
        if family.fetched or family.program.is_cheap() or numbers in family.program.states or numbers in self.met:
            return False
        self._note_met(numbers)
        return True

    def meet(self, sizes: tuple) -> bool:
        """Whether arguments of these sizes have come before; from now on they have."""
        numbers, _ = flat_sizes(sizes)
        if numbers in self.met:
            return True
        self._note_met(numbers)
        return False

    def _new(
        self, names: Any, paths: dict[tuple[int, ...], Path], form: tuple, numbers: tuple[int, ...]
    ) -> Family | None:
        """A family for these sizes, of the widest set of recorded steps that is one program."""
        programs = [path.program for path in paths.values()]
        several = {
            sample: path for sample, path in paths.items() if min(sample[len(numbers) :], default=LEAST) >= LEAST
        }
        # Kernels of one row, and of none, are often others.
        with_few, paths = (paths, several) if FEWEST <= len(several) < len(paths) else ({}, paths)
        if (
            len(paths) < max(FEWEST, self.waiting.get(names, 0))
            or self.tried.get(names) == programs
            or self.failures.get(names, 0) >= _MOST_FAILURES
        ):
            return None
        reason, count = "", len(numbers)
        latest = next(reversed(paths))
        whole = (*numbers, *latest[count:])
        for chosen in itertools.chain(candidates(with_few, whole) if with_few else (), candidates(paths, whole)):
            if len(chosen) < FEWEST:
                continue
            has_few = any([sample not in paths for sample in chosen])
            steps = [(with_few or paths)[sample] for sample in chosen]
            idle = sorted(set(steps[0].idle).intersection(*[path.idle for path in steps]))
            for excepted, is_wide in itertools.product([idle, []] if idle else [[]], (True, False)):
                try:  # shapes of idle arguments may be looked at, though no op reads them
                    free = free_places(chosen, count, excepted)
                    if is_wide and not free:
                        continue
                    samples = [kept(sample, count, free) for sample in chosen]
                    wide = range(count, len(samples[0])) if is_wide else ()
                    sizes = Sizes(samples, excepted, wide, self.least)
                    if not free and not sizes.fits(numbers):
                        continue
                    self.tried[names] = programs
                    self.credit.spend(cost_of_a_record(steps[0].program))
                    fetched = [names[1][place - count] for place in free]
                    way = Way(steps, sizes, fetched, self.make_walk())
                    if has_few and way.program.apart:
                        raise Differs("kernels of few rows")
                except (Differs, NoFormula) as error:
                    reason = str(error)
                    continue
                family = Family(way, names, form, fetched)
                family.built = len(paths)
                self.credit.spend(_COST * cost_of_a_record(steps[0].program))
                self._put(family)
                return family
        if reason:
            most = self.waiting[names] = len(paths) + max(len(paths) // 4, 1)
            self.note(f"each size is recorded by itself until {most} are there: {reason}")
        return None

    def _grown(self, family: Family, form: tuple, numbers: tuple[int, ...], recorded: Any) -> Family:
        """The family that was missed, made anew if more of its ways, and others, are recorded meanwhile."""
        alike = self._alike(form, recorded)
        total = sum([len(paths) for names, paths in alike.items() if names in family.names or len(paths) >= FEWEST])
        if total < family.built + max(family.built // 4, 1):
            return family
        first = family.names[0]
        larger = self._new(first, alike.get(first, {}), form, numbers) or family
        for names, paths in alike.items():
            if names not in larger.names:
                self._attach(larger, names, paths, len(numbers))
        larger.built = total
        return larger

    def _attach(self, family: Family, names: Any, paths: dict[tuple[int, ...], Path], count: int) -> None:
        """Recorded steps that went another way, as one of the family's."""
        programs = [path.program for path in paths.values()]
        if len(paths) < FEWEST or family.tried.get(names) == programs:
            return
        if any([place not in names[1] for place in family.fetched]):
            return
        family.tried[names] = programs
        free = [names[1].index(place) + count for place in family.fetched]
        fits, reason = family.program.sizes.fits, ""
        for chosen in candidates(paths, next(reversed(paths))):
            common = [sample for sample in chosen if fits(kept(sample, count, free))]
            if len(chosen) < FEWEST or not common:
                continue
            ordered = [common[0], *[sample for sample in chosen if sample is not common[0]]]
            try:
                samples = [kept(sample, count, free) for sample in ordered]
                sizes = Sizes(samples, family.program.sizes.idle, range(count, len(samples[0])), self.least)
                steps = [paths[sample] for sample in ordered]
                self.credit.spend((1 + _COST) * cost_of_a_record(steps[0].program))
                if family.attach(
                    functools.partial(Way, steps, sizes, family.fetched, family.walk), names, sizes.samples[0]
                ):
                    self.changes += 1
                    return
            except (Differs, NoFormula) as error:
                reason = str(error)
        if reason:
            self.note(f"another way is recorded at each size: {reason}")

    def _put(self, family: Family) -> None:
        """In the place of those that have no other sizes, and of the one that was used longest ago."""
        self.changes += 1
        fits = family.program.sizes.fits
        self.all = [
            other
            for other in self.all
            if other.names[0] != family.names[0]
            or other.fetched != family.fetched
            or not all([fits(sample) for sample in other.program.sizes.samples])
        ][1 - _MOST_FAMILIES :]
        self.all.append(family)

    def is_near(self, sizes: tuple, recorded: Sequence[tuple]) -> bool:
        """Whether sizes are a little beyond all recorded ones, and not worth a record of their own: where each is longer than the last, few are recorded.

        Those are that come for the first time, and for the second one where longer ones came as well: a record of these will do for all.
        """
        numbers, form = flat_sizes(sizes)
        times = self.met.get(numbers, 0)
        if len(recorded) < FEWEST or not numbers or times > 1 or (times and not self._is_exceeded(numbers)):
            return False
        known = [flat for flat, own_form in map(flat_sizes, recorded) if own_form == form]
        is_beyond = any([not min(column) <= size <= max(column) for size, column in zip(numbers, zip(*known))])
        near = [own for own in known if all([abs(size - other) <= other // _NEAR for size, other in zip(numbers, own)])]
        if len(known) < FEWEST or not is_beyond or not near:
            return False
        self._note_met(numbers)
        return True

    def _is_exceeded(self, numbers: tuple[int, ...]) -> bool:
        """Whether sizes came of which each is as large, and a little larger."""
        return any(
            [
                len(other) == len(numbers)
                and other != numbers
                and all([size <= more <= size + size // _NEAR for size, more in zip(numbers, other)])
                for other in self.met
            ]
        )

    def _note_met(self, numbers: tuple[int, ...]) -> None:
        while len(self.met) >= _MOST_MET:
            del self.met[next(iter(self.met))]
        self.met[numbers] = self.met.get(numbers, 0) + 1

    def missed(self, walk: Any) -> None:
        """The program went another way than the family's."""
        family = walk.family
        if family in self.all:
            family.missed += 1
            if family.missed >= _MOST_FAILURES and 4 * family.missed > family.taken:
                self.failures[family.names[0]] = _MOST_FAILURES
                self.all.remove(family)
