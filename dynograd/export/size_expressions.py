"""Numbers that a program computes from sizes, as it computes them: `(3 * t) // 10`, `abs(b - t)`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynograd.errors import ProgramError
from dynograd.export.formulas import SizeFormula

__all__ = ["FUNCTIONS", "AnyFormula", "SizeExpression", "SizeTree", "expressions_of", "formula_of_json", "size_of_tree"]

FUNCTIONS: dict[str, Callable[..., int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "abs": abs,
    "min": min, "max": max,
}  # fmt: skip
_DEEPEST = 8
_MOST = 256  # expressions of one program

SizeTree: TypeAlias = Any
"""What a number is computed by, while a program runs: a number, ("size", which one it read), or (a name of `FUNCTIONS`, trees)."""


@dataclass(frozen=True, slots=True)
class SizeExpression:
    """A function of formulas.

    Args:
        function: a name of `FUNCTIONS`.
        parts: its arguments.
    """

    function: str
    parts: tuple[AnyFormula, ...]

    is_product = False

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number at these sizes.

        Raises:
            ProgramError: it is divided by 0.
        """
        try:
            return FUNCTIONS[self.function](*[part.at(sizes) for part in self.parts])
        except ZeroDivisionError:
            raise ProgramError(f"{self} is divided by 0 at sizes {dict(sizes)}.") from None

    def __str__(self) -> str:
        if self.function.isalpha():
            return f"{self.function}({', '.join(map(str, self.parts))})"
        return f" {self.function} ".join([_in_brackets(part) for part in self.parts])

    def as_json(self) -> list[Any]:
        """Its JSON value."""
        return [self.function, *[part.as_json() for part in self.parts]]


AnyFormula: TypeAlias = SizeFormula | SizeExpression


def _in_brackets(part: AnyFormula) -> str:
    text = str(part)
    is_call = isinstance(part, SizeExpression) and part.function.isalpha()
    return f"({text})" if " " in text and not is_call else text


def formula_of_json(value: Any, names: Collection[str], depth: int = 0) -> AnyFormula:
    """Reads one.

    Args:
        value: what `as_json` gave.
        names: the sizes that there are.
    Raises:
        ProgramError: it is none.
    """
    if type(value) is not list or not value or type(value[0]) is not str:
        return SizeFormula.of_json(value, names)
    count = 1 if value[0] == "abs" else 2
    if value[0] not in FUNCTIONS or len(value) != count + 1 or depth > 2 * _DEEPEST:
        raise ProgramError(
            f"load_program: expected a formula of sizes, got {str(value)[:80]}. The file is damaged, or of another dynograd: export it anew."
        )
    return SizeExpression(value[0], tuple([formula_of_json(part, names, depth + 1) for part in value[1:]]))


def size_of_tree(tree: SizeTree) -> int:
    """How deep a tree is."""
    return (
        1 + max([size_of_tree(part) for part in tree[1:]], default=0)
        if type(tree) is tuple and tree[0] != "size"
        else 0
    )


def expressions_of(
    trees: Sequence[SizeTree],
    compared: Sequence[tuple[SizeTree, SizeTree]],
    sizes_read: Sequence[Sequence[int]],
    formula_of: Callable[[Sequence[int]], AnyFormula | None],
) -> list[SizeExpression]:
    """The expressions of these trees.

    Args:
        trees: what the program has computed.
        compared: trees of numbers that it has compared, as `min` and `max` do: each may stand for the smaller or larger one, too.
        sizes_read: the sizes that it has read in each run; if it has read fewer in some there is nothing to tell.
        formula_of: gives the formula of a number with these values in the runs.
    """
    if len({len(sizes) for sizes in sizes_read}) != 1:
        return []
    leaves: dict[int, AnyFormula | None] = {}

    def built(tree: SizeTree) -> AnyFormula | None:
        if type(tree) is int:
            return SizeFormula((), tree)
        if tree[0] == "size":
            if tree[1] not in leaves:
                leaves[tree[1]] = formula_of([sizes[tree[1]] for sizes in sizes_read])
            return leaves[tree[1]]
        parts = [built(part) for part in tree[1:]]
        known = [part for part in parts if part is not None]
        return SizeExpression(tree[0], tuple(known)) if len(known) == len(parts) else None

    expressions: dict[SizeExpression, None] = {}
    for tree in [*trees, *_with_extremes(trees, compared)][:_MOST]:
        if size_of_tree(tree) <= _DEEPEST:
            expressions |= dict.fromkeys([each for each in [built(tree)] if isinstance(each, SizeExpression)])
    return list(expressions)


def _with_extremes(trees: Sequence[SizeTree], compared: Sequence[tuple[SizeTree, SizeTree]]) -> Iterator[SizeTree]:
    """The smaller and the larger of each pair, and trees with these in the place of one of the pair."""
    for pair in compared:
        for function in ("min", "max"):
            extreme = (function, *pair)
            yield extreme
            for tree in trees:
                for part in pair:
                    changed = _exchanged(tree, part, extreme)
                    if changed != tree:
                        yield changed


def _exchanged(tree: SizeTree, part: SizeTree, other: SizeTree) -> SizeTree:
    if tree == part and type(part) is tuple:
        return other
    if type(tree) is not tuple or tree[0] == "size":
        return tree
    return (tree[0], *[_exchanged(inner, part, other) for inner in tree[1:]])
