"""Formulas as functions on whole NumPy arrays: the reading of the trees of `formulas.py` for arrays that are too small for a loop.

Numbers enter as arrays without dims, of the operands' dtype: NumPy takes those in half of the time that a Python number costs.
What depends on static arguments alone is computed by Python, and decides in Python.

>>> print(numpy_source("hard", ("input",), ("lambd",), formulas.parse("abs(input) <= lambd ? 0 : input")), end="")
def hard(input, lambd):
    kind = input.dtype.char
    c0, = constants[kind]
    return select(absolute(input) <= compared(lambd, kind), c0, input)
"""

from __future__ import annotations

from collections import Counter

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree

# NumPy's function of each operator and function of the language that is one.
FUNCTIONS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "true_divide", "neg": "negative", "abs": "absolute",
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal",
    "&&": "logical_and", "||": "logical_or", "!": "logical_not",
    "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "~": "invert", "<<": "left_shift", ">>": "right_shift",
    "max": "maximum", "min": "minimum", "fmax": "fmax", "fmin": "fmin", "gcd": "gcd", "lcm": "lcm",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "hypot": "hypot", "copysign": "copysign", "isnan": "isnan", "trunc": "trunc",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
# Functions of the language that a kernel's module has for NumPy arrays, by the same names.
OWN = frozenset("normal_gate normal_gate_slope sigmoid".split())
_COMPARISONS = frozenset("< <= > >= == !=".split())
_INFIX = _COMPARISONS | frozenset("+ - * /".split())
# Operations from which one compiled pass is worth loading Numba for; each of NumPy's costs 0.3 us and a pass over memory.
_MOST = 24


def plain_function(tree: Tree, operands: tuple[str, ...]) -> str | None:
    """The name of NumPy's function that the tree is, applied to the operands in order; None for more than that."""
    if tree.parts == tuple(map(formulas.name, operands)):
        return FUNCTIONS.get(tree.head)
    return None


def numpy_source(
    name: str, operands: tuple[str, ...], statics: tuple[str, ...], tree: Tree, first: str = ""
) -> str | None:
    """The text of a function of the operands and statics; None where the tree is long, or has functions that NumPy lacks.

    It wants these globals: the functions by NumPy's names and those of `OWN`, `select(condition, x, y)`, `between(x, low, high)`,
    `number(value, kind)`, which gives an array for the letter of a dtype, `compared(value, kind)`, the same for what is compared, and
    `constants`, by that letter, with the arrays of `constants_of`.

    Args:
        first: lines to begin with.
    """
    writer = _Writer(f"{operands[0]}.dtype.char", statics, constants_of(tree, statics))
    if formulas.operations(tree) > _MOST or not writer.knows(tree):
        return None
    return f"def {name}({', '.join((*operands, *statics))}):\n{first}{''.join(writer.block(tree, '    '))}"


def constants_of(tree: Tree, statics: tuple[str, ...]) -> tuple[float, ...]:
    """The numbers of the tree that meet arrays, in the order in which the function's text calls them c0, c1, ..."""
    if tree.head == "number":
        return (tree.parts[0],)
    if tree.head == "name" or _is_static(tree, statics):
        return ()
    return tuple({str(value): value for part in tree.parts for value in constants_of(part, statics)}.values())


def _is_static(tree: Tree, statics: tuple[str, ...]) -> bool:
    return tree.head != "number" and formulas.names_in(tree) <= set(statics)


class _Writer:
    """Lines of blocks that return trees; parts that occur twice are variables."""

    def __init__(self, kind: str, statics: tuple[str, ...], constants: tuple[float, ...]) -> None:
        self.kind, self.statics, self.constants = kind, statics, [str(value) for value in constants]

    def knows(self, tree: Tree) -> bool:
        """Whether NumPy has all that the tree computes with arrays."""
        if tree.head in ("name", "number") or _is_static(tree, self.statics):
            return True
        return tree.head in {"select", *OWN, *FUNCTIONS} and all(map(self.knows, tree.parts))

    def block(self, tree: Tree, indent: str) -> list[str]:
        """Lines that return the tree's value; a choice that a static makes is an `if`."""
        if tree.head == "select":
            condition, then, other = tree.parts
            inner = indent + "    "
            if _is_static(condition, self.statics):
                return [f"{indent}if {_python(condition)}:\n", *self.block(then, inner), *self.block(other, indent)]
            factor = self._factor(other)
            if factor is not None and tree == formulas.substitute(_SLOPE, {"x": then, "factor": factor}):
                larger = self._returned(formulas.call("max", then, other), inner)  # in one pass instead of two
                return [f"{indent}if 0 < {_python(factor)} <= 1:\n", *larger, *self._returned(tree, indent)]
        return self._returned(tree, indent)

    def _returned(self, tree: Tree, indent: str) -> list[str]:
        self.lines: list[str] = []
        self.names: dict[Tree, str] = {}
        self.uses: Counter[Tree] = Counter()
        self.loads = False
        self._count(tree)
        result = self._text(tree)
        lines = [*self.lines, f"return {result}\n"]
        if self.loads:
            names = ", ".join([f"c{index}" for index in range(len(self.constants))])
            lines.insert(0, f"{names}{',' * (len(self.constants) == 1)} = constants[kind]\n")
        if sum(line.count("kind") for line in lines) > 1:
            lines.insert(0, f"kind = {self.kind}\n")
        else:
            lines = [line.replace("kind", self.kind) for line in lines]
        return [f"{indent}{line}" for line in lines]

    def _count(self, tree: Tree) -> None:
        self.uses[tree] += 1
        if self.uses[tree] == 1 and tree.head not in ("name", "number"):
            for part in tree.parts:
                self._count(part)

    def _factor(self, tree: Tree) -> Tree | None:
        """The static factor of a product."""
        statics = [part for part in tree.parts if tree.head == "*" and _is_static(part, self.statics)]
        return statics[0] if statics else None

    def _text(self, tree: Tree) -> str:
        if tree.head == "name" and tree.parts[0] not in self.statics:
            return tree.parts[0]
        if tree.head == "number":
            self.loads = True
            return f"c{self.constants.index(str(tree.parts[0]))}"
        if _is_static(tree, self.statics):
            return f"number({_python(tree)}, kind)"
        return self._named(tree) if self.uses[tree] > 1 or self._factor(tree) else self._operation(tree)

    def _named(self, tree: Tree) -> str:
        if tree not in self.names:
            text = self._operation(tree)
            self.names[tree] = f"t{len(self.names)}"
            self.lines.append(f"{self.names[tree]} = {text}\n")
        return self.names[tree]

    def _operation(self, tree: Tree) -> str:
        head, parts = tree
        factor = self._factor(tree)
        if factor is not None:  # a pass less where it is 1
            (x,) = [
                self._text(part) if part.head == "name" else self._named(part) for part in parts if part is not factor
            ]
            return f"{x} if {_python(factor)} == 1 else {self._text(factor)} * {x}"
        if head == "min" and parts[0].head == "max" and self.uses[parts[0]] == 1:
            (x, low), high = parts[0].parts, parts[1]
            if all(bound.head == "number" or _is_static(bound, self.statics) for bound in (low, high)):
                return f"between({self._text(x)}, {self._text(low)}, {self._text(high)})"
        if head == "select":
            return f"select({', '.join(map(self._text, parts))})"
        if head in _INFIX:
            x, y = [self._operand(part, head) for part in parts]
            return f"{x} {head} {y}"
        if head == "neg":
            return f"-{self._operand(parts[0], head)}"
        return f"{head if head in OWN else FUNCTIONS[head]}({', '.join(map(self._text, parts))})"

    def _operand(self, tree: Tree, operator: str) -> str:
        if operator in _COMPARISONS and _is_static(tree, self.statics):
            return f"compared({_python(tree)}, kind)"
        text = self._text(tree)
        return f"({text})" if " " in text and tree.head in {*_INFIX, "neg"} else text


_SLOPE = formulas.parse("x > 0 ? x : x * factor")


def _python(tree: Tree) -> str:
    """What Python makes of static numbers."""
    head, parts = tree
    if head == "number":
        return repr(parts[0])
    if head == "name":
        return str(parts[0])
    if head == "neg":
        return f"-{_python(parts[0])}"
    texts = [_python(part) for part in parts]
    assert head in _INFIX, f"{formulas.to_text(tree)}: Python does not know {head}"
    return " ".join([text if " " not in text else f"({text})" for text in (texts[0], head, texts[1])])
