"""Which sizes a program compares with what, as `min(n, 20)` and `if n > 512` do: at the sizes where such a comparison turns over it may be another one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from dynograd.autograd.modes import no_grad
from dynograd.autograd.nodes import user_line
from dynograd.base.random_streams import apart, default_generator
from dynograd.base.shapes import Size
from dynograd.export.encoding import Tree
from dynograd.export.formula_search import FormulaSearch
from dynograd.export.formulas import SizeFormula
from dynograd.export.size_expressions import FUNCTIONS, AnyFormula, SizeExpression, SizeTree, expressions_of
from dynograd.export.structures import STRUCTURES, entering
from dynograd.export.tracing import is_size
from dynograd.overrides import TorchFunctionMode
from dynograd.overrides.guards import modes

__all__ = ["FAILED", "FAILURES", "Turn", "calls_at", "turns_of"]

# Of a program at sizes that it does not take.
FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip

FAILED = "failed"  # the last call of a run that did not come to its end
_ALL_UP_TO = 64  # sizes that are looked at one by one; behind them powers of two, up to 2 ** _DOUBLINGS
_DOUBLINGS = 12
_MOST_TURNS = 16
_CUTTING = ("__floordiv__", "__mod__")  # which are another thing from a whole one on
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turn:
    """Sizes next to a turn of a comparison, or behind it, and the line of that comparison."""

    sizes: dict[str, int]
    line: str


Example: TypeAlias = Callable[[], object]
"""A program with an example of some sizes, to be run; tensors are made before."""


def turns_of(
    example_at: Callable[[dict[str, int]], Example],
    samples: Sequence[dict[str, int]],
    has: Callable[[dict[str, int]], bool],
) -> tuple[list[Turn], list[SizeExpression]]:
    """Sizes at both sides of the turns of the comparisons of sizes that a program makes, without those of the samples; and the numbers that it
    computes from sizes.

    Args:
        example_at: gives the program at some sizes.
        samples: sizes at which it runs.
        has: whether the dims may have some sizes.
    """
    watches = [_watched(example_at, sample) for sample in samples]
    if not watches:
        return [], []
    search, logs = FormulaSearch(samples), [watch.log for watch in watches]
    expressions = expressions_of(
        list(watches[0].trees),
        list(watches[0].compared),
        [watch.sizes_read for watch in watches],
        partial(_formula, search),
    )
    search = FormulaSearch(samples, expressions=expressions)
    turns: dict[tuple[int, ...], Turn] = {}
    for (line, _, _), comparison in _comparisons(logs, search).items():
        for sizes in _beside_turns(comparison, samples[0]):
            if sizes not in samples and has(sizes):
                turns.setdefault(tuple(sizes.values()), Turn(sizes, line))
    return list(turns.values())[:_MOST_TURNS], expressions


def calls_at(example_at: Callable[[dict[str, int]], Example], sizes: dict[str, int]) -> list[str]:
    """The functions of tensors that a program calls at some sizes, then `FAILED` where it does not come to its end."""
    return _watched(example_at, sizes).calls


# --- what is compared ------------------------------------------------------------------------------------------------------------

_Key = tuple[str, str, int]  # line, comparison, and which one of that line
_Log = dict[_Key, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Comparison:
    compare: Callable[[int, int], bool]
    left: AnyFormula
    right: AnyFormula

    def at(self, sizes: Mapping[str, int]) -> bool:
        return self.compare(self.left.at(sizes), self.right.at(sizes))


def _comparisons(logs: Sequence[_Log], search: FormulaSearch) -> dict[_Key, _Comparison]:
    """The comparisons that each run makes, of numbers that are formulas of the sizes."""
    comparisons = {}
    for key in logs[0]:
        if all([key in log for log in logs]):
            left, right = [_formula(search, values) for values in zip(*[log[key] for log in logs])]
            if left is not None and right is not None and left != right:
                comparisons[key] = _Comparison(_COMPARISONS[key[1]], left, right)
    return comparisons


def _formula(search: FormulaSearch, values: Sequence[int]) -> AnyFormula | None:
    return SizeFormula((), values[0]) if len(set(values)) == 1 else search.number(values)


def _beside_turns(comparison: _Comparison, example: dict[str, int]) -> Iterator[dict[str, int]]:
    """Sizes on both sides of each turn along each dim, next to it and further away."""
    ladder = [*range(1, _ALL_UP_TO), *[2**power for power in range(6, _DOUBLINGS + 1)]]
    for name, own in example.items():
        outcomes = [comparison.at({**example, name: size}) for size in ladder]
        places = [place for place in range(1, len(ladder)) if outcomes[place] != outcomes[place - 1]]
        nearest = sorted(places, key=lambda place: abs(ladder[place] - own))
        for place in nearest[:2]:
            turn = _first_other(comparison, example, name, ladder[place - 1], ladder[place])
            for size in (turn - 1, turn, max(turn // 2, 1), 2 * turn + 1):
                yield {**example, name: size}


def _first_other(comparison: _Comparison, example: dict[str, int], name: str, low: int, high: int) -> int:
    """The first size behind `low` at which the comparison has the outcome that it has at `high`."""
    outcome = comparison.at({**example, name: high})
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if comparison.at({**example, name: middle}) == outcome else (middle, high)
    return high


# --- noting --------------------------------------------------------------------------------------------------------------------------


def _watched(example_at: Callable[[dict[str, int]], Example], sizes: dict[str, int]) -> _Watch:
    """What a run compares and calls, as far as it comes."""
    watch = _Watch()
    run = example_at(sizes)
    try:
        modes.report([(function, function) for function in STRUCTURES])
        with no_grad(), apart(default_generator.state()), watch:
            run()
    except FAILURES:  # the runs that are recorded tell of what is wrong with the program
        watch.calls.append(FAILED)
    return watch


class _Watch(TorchFunctionMode):
    """Hands out sizes that note what they are compared with."""

    def __init__(self) -> None:
        self.log: _Log = {}
        self.calls: list[str] = []
        self._counts: dict[tuple[str, str], int] = {}
        self._inside = 0
        self.sizes_read: list[int] = []
        self.trees: dict[SizeTree, None] = {}  # of what is computed from sizes, in order
        self.compared: dict[tuple[SizeTree, SizeTree], None] = {}

    @contextmanager
    def within(self) -> Iterator[None]:
        """Of what a loop calls comparisons are noted, and no calls: how often it goes round is up to values."""
        self._inside += 1
        try:
            with self:
                yield
        finally:
            self._inside -= 1

    def note(self, kind: str, left: int, right: int) -> None:
        line = user_line()
        number = self._counts[line, kind] = self._counts.get((line, kind), -1) + 1
        self.log[line, kind, number] = int(left), int(right)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        args, kwargs = _plain(args), _plain(kwargs or {})
        if func in STRUCTURES:
            args, kwargs = entering(func, args, kwargs, self.within)
        result = func(*args, **kwargs)
        if not is_size(func):
            self.calls += [getattr(func, "__name__", "")] * (not self._inside)
            return result
        if type(result) is Size:
            return Size([self._read(size) for size in result])
        return self._read(result) if type(result) is int else result

    def _read(self, size: int) -> _Watched:
        self.sizes_read.append(size)
        return _Watched(size, self, ("size", len(self.sizes_read) - 1))

    def computed(self, number: int, function: str, parts: list[SizeTree]) -> _Watched:
        """What a function of sizes gave."""
        tree = (function, *parts)
        self.trees[tree] = None
        return _Watched(number, self, tree)


def _plain(value: Tree) -> Tree:
    """The value, with plain integers in the place of those that note."""
    if type(value) is _Watched:
        return int(value)
    if type(value) in (list, tuple, Size):
        return type(value)([_plain(part) for part in value])
    if type(value) is dict:
        return {key: _plain(part) for key, part in value.items()}
    if type(value) is slice:
        return slice(_plain(value.start), _plain(value.stop), _plain(value.step))
    return value


class _Watched(int):
    """A size, or what is computed from sizes."""

    watch: _Watch
    tree: SizeTree

    def __new__(cls, value: int, watch: _Watch, tree: SizeTree) -> _Watched:
        size = int.__new__(cls, value)
        size.watch, size.tree = watch, tree
        return size

    def __bool__(self) -> bool:
        self.watch.note("!=", self, 0)
        return int(self) != 0

    def __hash__(self) -> int:
        return hash(int(self))


def _comparing(kind: str) -> Callable[[_Watched, Any], object]:
    compare = _COMPARISONS[kind]

    def method(self: _Watched, other: Any) -> object:
        if isinstance(other, int):
            self.watch.note(kind, self, other)
            if type(other) is _Watched:
                self.watch.compared[self.tree, other.tree] = None
        return compare(int(self), int(other) if type(other) is _Watched else other)

    return method


def _computing(name: str, function: str) -> Callable[..., object]:
    compute = getattr(int, name)

    def method(self: _Watched, *others: Any) -> object:
        if name in _CUTTING and isinstance(others[0], int):
            self.watch.note("<", self, others[0])
        result = compute(self, *others)
        if type(result) is not int:
            return result
        parts = [number.tree if type(number) is _Watched else int(number) for number in (self, *others)]
        return self.watch.computed(result, function, parts[::-1] if name.startswith("__r") else parts)

    return method


def _negative(self: _Watched) -> _Watched:
    return self.watch.computed(-int(self), "-", [0, self.tree])


for _kind, _compare in _COMPARISONS.items():
    setattr(_Watched, f"__{_compare.__name__}__", _comparing(_kind))
for _name, _function in zip("add sub mul floordiv mod".split(), FUNCTIONS):
    setattr(_Watched, f"__{_name}__", _computing(f"__{_name}__", _function))
    setattr(_Watched, f"__r{_name}__", _computing(f"__r{_name}__", _function))
_OF_ONE = {"abs": _computing("__abs__", "abs"), "neg": _negative, "pos": lambda self: self}
for _name, _method in _OF_ONE.items():
    setattr(_Watched, f"__{_name}__", _method)
