"""Row programs: what a fused kernel over rows computes, as a short text that names no backend.

A program reads and writes arrays of rows (R, C), numbers for each row (R), vectors (C) and plain numbers, and reads columns for
each row (R, int64) and plain whole numbers:

    row x, g                  # inputs, in the order of the arguments
    each mean
    vector weight
    number eps
    label column
    whole ignored
    middle = sum(x) / columns # steps; a step's kind follows from what it is made of
    y = (x - middle) * weight
    write y, middle           # outputs, in order; then `write gw` of a column sum is a vector (C)

Expressions are those of `formulas.py`, and the reductions `sum(x)` and `max(x)` over a row and `column_sum(x)` over all rows;
`columns` is C, and `minus(x, y)` a difference that no optimiser may reorder. `max` may pass over a NaN, so use the elements again.
`pick(x, label)` is the input x's value in the row's column `label`, and `less(x, label, y)` a row of x that has y, a number of each
row, taken from that column, known only when it is written; a label that is no column picks 0 and takes nothing.
Every row is computed alone, so its bits do not depend on its neighbours; column sums are taken in blocks of rows whose number
depends on sizes only. `row_programs_numba.py` makes CPU kernels of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree

_REDUCTIONS = {"sum": 1, "max": 1, "column_sum": 1, "pick": 2}  # and how many arguments they have
# Names that the texts made of programs use for themselves.
_RESERVED = frozenset(
    "columns rows size start stop r j c o begin end width block blocks block_rows item outer part kind zero keys key empty".split()
)
FUNCTION_WORK = 4  # an exponential takes as long as so many additions
CHEAP = frozenset(
    {"abs", "max", "min", "minus", "neg", "select", "&&", "||", "!", "+", "-", "*", "<", "<=", ">", ">=", "==", "!="}
)
# Kinds of values. Together, an `each` and a vector make a row.
NUMBER, EACH, VECTOR, ROW, COLUMN_SUM = "number", "each", "vector", "row", "column_sum"
_WHOLE = {"label": EACH, "whole": NUMBER}


@dataclass
class Step:
    """`name = expression`, or `name = reduction(expression)`; its `kind`; the pass over the row in which it is known.

    `label` is the column of a `pick` or a `less`, `taken` what that takes.
    """

    name: str
    expression: Tree
    reduction: str | None
    kind: str
    uses: list[str]
    known: int = 0
    costly: bool = False
    label: str = ""
    taken: str = ""


@dataclass
class RowProgram:
    """A checked program. `passes` is how many times a row is gone through; `kept` the row values that a later pass takes from
    memory instead of computing them again; `whole` the inputs that are int64.

    Raises:
        ValueError: the text is not a program; the message says which line and why.
    """

    name: str
    text: str
    inputs: dict[str, str] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)
    passes: int = 0
    kept: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, line in enumerate(self.text.splitlines(), 1):
            line = line.partition("#")[0].strip()
            if line:
                self._number = number
                self._read(line)
        if not self.outputs:
            raise self._error("no `write` line")
        self.passes = 1 + max(self.pass_of(name) for name in self.steps)
        self._keep()

    # --- reading -------------------------------------------------------------------------------------------------------------

    def _read(self, line: str) -> None:
        first, _, rest = line.partition(" ")
        names = [name.strip() for name in rest.split(",")]
        if first in (ROW, EACH, VECTOR, NUMBER, *_WHOLE) and not rest.startswith("="):
            for name in names:
                self._check_new(name)
                self.inputs[name] = _WHOLE.get(first, first)
            self.whole.update(names if first in _WHOLE else ())
        elif first == "write":
            for name in names:
                if name not in self.steps:
                    raise self._error(f"`write {name}`: no step makes {name}")
                if self.steps[name].kind in (NUMBER, VECTOR):
                    raise self._error(f"`write {name}`: {name} is a {self.steps[name].kind}, the same for all rows")
                self.outputs.append(name)
        else:
            name, equals, right = line.partition("=")
            if not equals:
                raise self._error(f"expected `name = expression`, a declaration or `write`, got {line!r}")
            try:
                expression = formulas.parse(right.strip())
            except ValueError as error:
                raise self._error(str(error).rstrip(".")) from None
            self._add(name.strip(), expression)

    def _add(self, name: str, expression: Tree) -> None:
        self._check_new(name)
        reduction = _reduction_of(expression)
        label, taken = "", ""
        if reduction is not None:
            label = self._label(expression.parts[1]) if reduction == "pick" else ""
            expression = expression.parts[0]
            if label and self.inputs.get(formulas.to_text(expression)) not in (ROW, VECTOR):
                raise self._error(
                    f"{name}: pick of {formulas.to_text(expression)}, which is no row or vector among the inputs"
                )
        elif expression.head == "less" and len(expression.parts) == 3:
            expression, label, taken = expression.parts[0], self._label(expression.parts[1]), str(expression.parts[2])
        expression = self._without_inner_reductions(name, expression)
        if "less" in formulas.functions_in(expression):
            raise self._error(f"{name}: less(x, label, y) is a step of its own")
        uses = sorted((formulas.names_in(expression) | {label, taken}) - {"columns", ""})
        for used in uses:
            if used not in self.inputs and used not in self.steps:
                raise self._error(f"{used} is not known yet")
            if self.kind_of(used) == COLUMN_SUM:
                raise self._error(f"{used} is a column sum, known only when all rows are done: write it")
            if used in self.steps and self.steps[used].taken:
                raise self._error(f"{used} has something taken from it when its row is done: write it")
        if taken and self.kind_of(taken) != EACH:
            raise self._error(f"{name}: less takes {taken}, a {self.kind_of(taken)}, expected a number of each row")
        kind = ROW if taken else self._kind(name, reduction, uses)
        known = max([self._known(used) for used in uses], default=0) + (reduction in ("sum", "max"))
        costly = not formulas.functions_in(expression) <= CHEAP
        self.steps[name] = Step(name, expression, reduction, kind, uses, known, costly, label, taken)

    def _without_inner_reductions(self, name: str, expression: Tree) -> Tree:
        """Gives each reduction inside an expression a step of its own."""
        if expression.head in ("name", "number"):
            return expression
        if _reduction_of(expression) is not None:
            result = f"{name}_{_reduction_of(expression)}{len(self.steps)}"
            self._add(result, expression)
            return formulas.name(result)
        return Tree(expression.head, tuple(self._without_inner_reductions(name, part) for part in expression.parts))

    def _label(self, tree: Tree) -> str:
        label = formulas.to_text(tree)
        if label not in self.whole or self.inputs[label] != EACH:
            raise self._error(f"{label} is no label")
        return label

    def _kind(self, name: str, reduction: str | None, uses: list[str]) -> str:
        kinds = {self.kind_of(used) for used in uses}
        kind = (
            ROW
            if ROW in kinds or kinds >= {EACH, VECTOR}
            else EACH
            if EACH in kinds
            else VECTOR
            if VECTOR in kinds
            else NUMBER
        )
        if reduction is None:
            return kind
        if kind == NUMBER or (reduction == "column_sum" and kind == VECTOR):
            raise self._error(f"{name}: {reduction} of a {kind}")
        return COLUMN_SUM if reduction == "column_sum" else EACH

    def _check_new(self, name: str) -> None:
        if not name.isidentifier() or name.startswith("_") or name in (*_REDUCTIONS, "less") or name in _RESERVED:
            raise self._error(f"{name!r} cannot be a name")
        if name in self.inputs or name in self.steps:
            raise self._error(f"{name} is there already: names are given once")

    def _error(self, what: str) -> ValueError:
        return ValueError(f"row program {self.name}, line {getattr(self, '_number', 0)}: {what}.")

    # --- passes --------------------------------------------------------------------------------------------------------------

    def kind_of(self, name: str) -> str:
        return self.inputs[name] if name in self.inputs else self.steps[name].kind

    def _known(self, name: str) -> int:
        return 0 if name in self.inputs else self.steps[name].known

    def pass_of(self, name: str) -> int:
        """The pass over the row that makes a reduction or an output."""
        step = self.steps[name]
        return step.known - 1 if step.reduction in ("sum", "max") else step.known

    def made_in(self, number: int) -> list[Step]:
        """The steps that a pass is there for: its reductions, column sums and row outputs."""
        return [
            step
            for step in self.steps.values()
            if self.pass_of(step.name) == number
            and (
                step.reduction not in (None, "pick")
                or (step.name in self.outputs and step.kind == ROW)
                or step.name in self.kept
            )
        ]

    def needed_in(self, number: int) -> list[Step]:
        """The row and vector values of a pass, in order; those that are `kept` from before are in it and not what they need."""
        result: set[str] = set()

        def need(name: str) -> None:
            if name in result or name in self.inputs or self.kind_of(name) not in (ROW, VECTOR):
                return
            result.add(name)
            if not self.is_loaded(name, number):
                for used in self.steps[name].uses:
                    need(used)

        for step in self.made_in(number):
            for name in step.uses if step.reduction is not None else [step.name]:
                need(name)
        return [step for step in self.steps.values() if step.name in result]

    def is_loaded(self, name: str, number: int) -> bool:
        """Whether a pass reads a row value that an earlier one has stored."""
        stored = name in self.kept or (name in self.outputs and self.kind_of(name) == ROW)
        return stored and self.steps[name].known < number

    def _keep(self) -> None:
        """Costly row values are stored by the first pass that has them when a later one needs them."""
        users: dict[str, set[int]] = {}
        for number in range(self.passes):
            for step in self.needed_in(number):
                users.setdefault(step.name, set()).add(number)
        for step in self.steps.values():
            used = users.get(step.name, set())
            if step.costly and step.kind == ROW and len(used) > 1 and step.name not in self.outputs:
                self.kept[step.name] = min(used)


def _reduction_of(expression: Tree) -> str | None:
    """`max(x, y)` of two is the scalar function."""
    return expression.head if len(expression.parts) == _REDUCTIONS.get(expression.head) else None
