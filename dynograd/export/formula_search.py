"""Which formula of the sizes a number is, from its values at some sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from dynograd.export.encoding import FLOATING
from dynograd.export.formulas import SizeFormula
from dynograd.plans.sized.sizes import NoFormula, Number, Sizes

__all__ = ["AmbiguousFormulas", "FormulaSearch"]

_LARGEST_SHARE = 64  # of a size that is cut off, as n // 2
_MIXED = (3, 8, 14)  # what is added to the sizes of all names together


class AmbiguousFormulas(Exception):
    """Several formulas fit a number: at `sizes` they give different ones."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__(f"several formulas fit; they differ at {sizes}")
        self.sizes = sizes


class FormulaSearch:
    """Finds formulas of numbers of a program that was run at some sizes.

    Args:
        samples: the sizes of each run.
        settled: sizes at which it needs no further run: it cannot run there. None: it is run no more, and the simplest formula is taken.
    """

    def __init__(
        self, samples: Sequence[Mapping[str, int]], settled: Collection[Mapping[str, int]] | None = None
    ) -> None:
        self.samples = samples
        self.settled = None if settled is None else [*samples, *settled]
        self.names = list(samples[0])
        self._known: dict[tuple[int, ...], SizeFormula | None] = {}
        try:
            self._sizes: Sizes | None = Sizes([tuple(sample.values()) for sample in samples])
        except NoFormula:
            self._sizes = None

    def number(self, values: Sequence[int]) -> SizeFormula | None:
        """The formula of a whole number that has these values in the runs; None: there is none.

        Raises:
            AmbiguousFormulas: a run at further sizes would tell which.
        """
        key = tuple([int(value) for value in values])
        if key not in self._known:
            self._known[key] = self._formula(key)
        return self._known[key]

    def real(self, values: Sequence[float]) -> tuple[SizeFormula, str] | None:
        """The same of a floating number: the formula of a whole one, and which of `FLOATING` it is of that."""
        for kind, (function, back) in FLOATING.items():
            try:
                whole = [round(back(value)) for value in values]
                fits = all([function(number) == value for number, value in zip(whole, values)])
            except (ArithmeticError, ValueError):  # no such number
                continue
            formula = self.number(whole) if fits else None
            if formula is not None:
                return formula, kind
        return None

    def _formula(self, values: tuple[int, ...]) -> SizeFormula | None:
        fitting = list(self._whole(values)) or list(self._cut(values))
        probe = self._probe(fitting) if self.settled is not None and len(fitting) > 1 else None
        if fitting and probe is None and self._is_one_step(fitting[0]):
            probe = self._behind(fitting[0])
            if probe is None:
                return None
        if probe is not None:
            raise AmbiguousFormulas(probe)
        return fitting[0] if fitting else None

    def _is_one_step(self, formula: SizeFormula) -> bool:
        """Whether the runs are at both sides of one step of a number that is cut off, which might be a bound as well."""
        return formula.over > 1 and len({formula.at(sample) for sample in self.samples}) < 3

    def _behind(self, formula: SizeFormula) -> dict[str, int] | None:
        """Sizes behind the next step, if a run at these is still to come."""
        name = formula.factors[0][0]
        probe = {**self.samples[0], name: max([sample[name] for sample in self.samples]) + formula.over}
        return None if self.settled is None or probe in self.settled else probe

    def _whole(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """c m + d, the simplest first."""
        if self._sizes is None:
            return
        try:
            number = self._sizes.number(values)
        except NoFormula:
            return
        assert isinstance(number, Number), "they differ"
        for factors, times, plus in self._sizes.formulas(number):
            yield SizeFormula(tuple([(self.names[place], by) for place, by in factors]), times, plus)

    def _cut(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """A share of one size, cut off: c ((n + a) // k) + d."""
        for name in self.names:
            column = [sample[name] for sample in self.samples]
            for over in range(2, _LARGEST_SHARE + 1):
                for by in range(over):
                    shares = [(size + by) // over for size in column]
                    pair = next(((place, share) for place, share in enumerate(shares) if share != shares[0]), None)
                    if pair is None:
                        continue
                    times, rest = divmod(values[pair[0]] - values[0], pair[1] - shares[0])
                    plus = values[0] - times * shares[0]
                    if (
                        times
                        and not rest
                        and all([times * share + plus == value for share, value in zip(shares, values)])
                    ):
                        yield SizeFormula(((name, by),), times, plus, over)

    def _probe(self, formulas: list[SizeFormula]) -> dict[str, int] | None:
        """The sizes at which most of the formulas differ from another."""
        counts = [(len({formula.at(sizes) for formula in formulas}), sizes) for sizes in self._probes()]
        most, sizes = max(counts, key=lambda pair: pair[0], default=(1, {}))
        return sizes if most > 1 else None

    def _probes(self) -> Iterator[dict[str, int]]:
        first = dict(self.samples[0])
        probes = [{name: size + added for name, size in first.items()} for added in _MIXED]
        for name in self.names:
            largest = max([sample[name] for sample in self.samples])
            probes += [{**first, name: size} for size in range(1, 2 * largest)]
        for probe in probes:
            if probe not in (self.settled or ()):
                yield probe
