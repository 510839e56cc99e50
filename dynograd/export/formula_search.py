"""Which formula of the sizes a number is, from its values at some sizes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from dynograd.export.encoding import FLOATING
from dynograd.export.formulas import Factor, SizeFormula, Term
from dynograd.export.size_expressions import AnyFormula, SizeExpression
from dynograd.plans.sized.sizes import NoFormula, Number, Sizes

__all__ = ["AmbiguousFormulas", "FormulaSearch"]

_LARGEST_SHARE = 64  # of a size that is cut off, as n // 2, or whose rest is taken, as n % 8
_MIXED = (3, 8, 14)  # what is added to the sizes of all names together
_FAR, _BEYOND_FAR, _LARGE = 10, 7, 256  # times a small size, and more, where that is not too much to run
_SURE = 6  # runs that a formula with many numbers of its own is to fit
_BEYOND = 2  # runs beyond a bound, by which it is seen
_LARGEST_TIMES = 4  # of a product in a sum
_MOST_OF_A_KIND = 16  # formulas that are told apart at a time


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
        expressions: numbers that the program computes from sizes, which are looked at before other formulas than c m + d.
    """

    def __init__(
        self,
        samples: Sequence[Mapping[str, int]],
        settled: Collection[Mapping[str, int]] | None = None,
        expressions: Sequence[SizeExpression] = (),
    ) -> None:
        self.samples, self.expressions = samples, expressions
        self.settled = None if settled is None else [*samples, *settled]
        self.names = list(samples[0])
        self.columns = {name: [sample[name] for sample in samples] for name in self.names}
        self._known: dict[tuple[int, ...], AnyFormula | None] = {}
        try:
            self._sizes: Sizes | None = Sizes([tuple(sample.values()) for sample in samples])
        except NoFormula:
            self._sizes = None

    def number(self, values: Sequence[int]) -> AnyFormula | None:
        """The formula of a whole number that has these values in the runs; None: there is none.

        Raises:
            AmbiguousFormulas: a run at further sizes would tell which.
        """
        key = tuple([int(value) for value in values])
        if key not in self._known:
            self._known[key] = self._formula(key)
        return self._known[key]

    def apart(self) -> list[dict[str, int]]:
        """Sizes far from those of the runs and 1, of each name in a formula that is not c m + d: there it is borne out, or another one is looked for."""
        formulas = [formula for formula in self._known.values() if formula is not None and not formula.is_product]
        plain = [formula for formula in formulas if isinstance(formula, SizeFormula)]
        names = {factor.name for formula in plain for term in formula.terms for factor in term.factors}
        first = dict(self.samples[0])
        far = {name: size * _FAR + _BEYOND_FAR for name, size in first.items()}
        probes = [{**first, name: far[name] if far[name] < _LARGE else 2 * first[name] + _BEYOND_FAR} for name in first]
        small = [{**first, name: 1} for name, size in first.items() if name in names and size > 1]
        return [*[probe for name, probe in zip(first, probes) if name in names], *small]

    def real(self, values: Sequence[float]) -> tuple[AnyFormula, str] | None:
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

    def _formula(self, values: tuple[int, ...]) -> AnyFormula | None:
        own = [
            each for each in self.expressions if all([each.at(sample) == n for sample, n in zip(self.samples, values)])
        ]
        fitting: list[AnyFormula] = [*self._whole(values), *own] or list(self._composed(values))
        if not fitting:
            return None
        fitting.sort(key=self._is_one_step)
        probe = self._probe(fitting) if self.settled is not None and len(fitting) > 1 else None
        if probe is None and isinstance(fitting[0], SizeFormula) and self._is_one_step(fitting[0]):
            probe = self._behind(fitting[0])
            if probe is None:
                return None
        if (
            probe is None
            and not (own or fitting[0].is_product)
            and len(self.samples) < _SURE
            and self.settled is not None
        ):
            probe = next(self._probes(), None)
        if probe is not None:
            raise AmbiguousFormulas(probe)
        return fitting[0]

    def _is_one_step(self, formula: AnyFormula) -> bool:
        """Whether the runs are at both sides of one step of a number that is cut off, which might be a bound as well."""
        if isinstance(formula, SizeExpression):
            return False
        is_cut = formula.least is formula.most is None and [term.modulo for term in formula.terms] == [0]
        is_cut = is_cut and formula.terms[0].factors[0].over > 1
        return is_cut and len({formula.at(sample) for sample in self.samples}) < 3

    def _behind(self, formula: SizeFormula) -> dict[str, int] | None:
        """Sizes behind the next step, if a run at these is still to come."""
        factor = formula.terms[0].factors[0]
        probe = {**self.samples[0], factor.name: max(self.columns[factor.name]) + factor.over}
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
            product = tuple([Factor(self.names[place], by) for place, by in factors])
            yield SizeFormula((Term(product, times),), plus)

    def _composed(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        places = range(len(values))
        kinds = self._cut(values, places), self._sums(values), self._rests(values), self._bounded(values)
        for formulas in (*kinds, self._less_a_share(values), self._products_of_cut(values)):
            yield from itertools.islice(formulas, _MOST_OF_A_KIND)

    def _cut(self, values: Sequence[int], places: Sequence[int]) -> Iterator[SizeFormula]:
        """A share of one size, cut off: c ((n + a) // k) + d, in some of the runs."""
        for name in self.names:
            column = [self.columns[name][place] for place in places]
            own = [values[place] for place in places]
            for over, by in _shares():
                yield from _linear(own, [(size + by) // over for size in column], Term((Factor(name, by, over),)))

    def _sums(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """c m + e k + d, of two sizes or products of two sizes."""
        products = [*[(name,) for name in self.names], *itertools.combinations_with_replacement(self.names, 2)]
        columns = {each: [self._product(each, place) for place in range(len(values))] for each in products}
        for first, second in itertools.combinations(products, 2):
            for times in range(-_LARGEST_TIMES, _LARGEST_TIMES + 1):
                rest = [value - times * m for value, m in zip(values, columns[first])]
                for formula in _linear(rest, columns[second], Term(tuple(map(Factor, second)))) if times else ():
                    if abs(formula.terms[0].times) <= _LARGEST_TIMES:
                        own = Term(tuple(map(Factor, first)), times)
                        yield SizeFormula((own, *formula.terms), formula.plus)

    def _less_a_share(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """c n + e ((n + a) // k) + d: what is left when a share is taken away."""
        for name, column in self.columns.items():
            for times in (1, 2, -1, -2):
                rest = [value - times * size for value, size in zip(values, column)]
                for over, by in _shares():
                    share = Term((Factor(name, by, over),))
                    for formula in _linear(rest, [(size + by) // over for size in column], share):
                        yield SizeFormula((Term((Factor(name),), times), *formula.terms), formula.plus)

    def _product(self, names: Sequence[str], place: int) -> int:
        product = 1
        for name in names:
            product *= self.columns[name][place]
        return product

    def _rests(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """What is left of a size: c ((n + a) % k) + d."""
        if max(values) - min(values) >= _LARGEST_SHARE * _LARGEST_TIMES:
            return
        for name, column in self.columns.items():
            for over, by in _shares():
                rests = [(size + by) % over for size in column]
                yield from _linear(values, rests, Term((Factor(name, by),), 1, over))

    def _bounded(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """c n + d or c ((n + a) // k) + d, at most or at least a number, or both; and the smaller or larger of two sizes."""
        low, high = min(values), max(values)
        for least, most in ((None, high), (low, None), (low, high)):
            places = [place for place, value in enumerate(values) if value not in (least, most)]
            is_few = len({values[place] for place in places}) < 2
            plain = [SizeFormula((Term((Factor(name),)),)) for name in self.names] if is_few else []
            ends = [None if end is None else SizeFormula((), end) for end in (least, most)]
            for formula in plain or (*self._multiples(values, places), *self._cut(values, places)):
                free = [formula.at(sample) for sample in self.samples]
                above = most is None or _is_seen(most, [number > most for number in free])
                below = least is None or _is_seen(least, [number < least for number in free])
                if above and below:
                    yield from self._if_it_fits(SizeFormula(formula.terms, formula.plus, *ends), values)
        for first, second in itertools.combinations(self.names, 2):
            own, other = [SizeFormula((Term((Factor(name),)),)) for name in (first, second)]
            yield from self._if_it_fits(SizeFormula(own.terms, 0, None, other), values)
            yield from self._if_it_fits(SizeFormula(own.terms, 0, other, None), values)

    def _multiples(self, values: Sequence[int], places: Sequence[int]) -> Iterator[SizeFormula]:
        own = [values[place] for place in places]
        for name in self.names:
            yield from _linear(own, [self.columns[name][place] for place in places], Term((Factor(name),)))

    def _products_of_cut(self, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        """A product of shares of two sizes, as the places that a convolution has, maybe times a third size."""
        others = [(), *[(name,) for name in self.names]]
        for first, second in itertools.combinations(self.names, 2):
            for over, by in _shares():
                pairs = zip(self.columns[first], self.columns[second])
                shares = [((height + by) // over) * ((width + by) // over) for height, width in pairs]
                for more in others if len(set(shares)) > 1 else ():
                    column = [share * self._product(more, place) for place, share in enumerate(shares)]
                    factors = (Factor(first, by, over), Factor(second, by, over), *map(Factor, more))
                    yield from _linear(values, column, Term(factors))

    def _if_it_fits(self, formula: SizeFormula, values: tuple[int, ...]) -> Iterator[SizeFormula]:
        if all([formula.at(sample) == value for sample, value in zip(self.samples, values)]):
            yield formula

    def _probe(self, formulas: list[AnyFormula]) -> dict[str, int] | None:
        """The sizes at which most of the formulas differ from another."""
        counts = [(len({formula.at(sizes) for formula in formulas}), sizes) for sizes in self._probes()]
        most, sizes = max(counts, key=lambda pair: pair[0], default=(1, {}))
        return sizes if most > 1 else None

    def _probes(self) -> Iterator[dict[str, int]]:
        first = dict(self.samples[0])
        probes = [{name: size + added for name, size in first.items()} for added in _MIXED]
        for name in self.names:
            probes += [{**first, name: size} for size in range(1, 2 * max(self.columns[name]))]
        for probe in probes:
            if probe not in (self.settled or ()):
                yield probe


def _is_seen(bound: int, beyond: Sequence[bool]) -> bool:
    """Whether enough runs lie beyond a bound: one where it is 0 or 1, which sizes often have."""
    return sum(beyond) >= (1 if bound in (0, 1) else _BEYOND)


def _shares() -> Iterator[tuple[int, int]]:
    """(k, a) of (n + a) // k and (n + a) % k."""
    return ((over, by) for over in range(2, _LARGEST_SHARE + 1) for by in range(over))


def _linear(values: Sequence[int], column: Sequence[int], term: Term) -> Iterator[SizeFormula]:
    """c t + d, where t has the values of the column, if there is such a formula."""
    pair = next((place for place, number in enumerate(column) if number != column[0]), None)
    if pair is None:
        return
    times, rest = divmod(values[pair] - values[0], column[pair] - column[0])
    plus = values[0] - times * column[0]
    if times and not rest and all([times * number + plus == value for number, value in zip(column, values)]):
        yield SizeFormula((Term(term.factors, times, term.modulo),), plus)
