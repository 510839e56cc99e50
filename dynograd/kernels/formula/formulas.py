"""The formula language: scalar expressions that say what an elementwise op computes, and trees made of them.

A formula is the meaning of an op, not code of one backend: the same tree becomes Numba source (`formulas_numba`) and Triton source. A
derivative is one too, in terms of the operands, `output` and the incoming gradient `g`.

Syntax (one for formulas and derivatives; `parse` reads both):

    number         2   0.5   1e-3   inf   pi
    name           an operand, a static argument, `g`, `output`
    x + y   x - y   x * y   x / y   x ** y   -x
    x < y   <=   >   >=   ==   !=                        a truth
    p && q   p || q   !p     (or p and q, p or q)         on truths; a number is true when it is not 0
    x & y   x | y   x ^ y   ~x   x << y   x >> y         bits of integers; on truths && || != !
    p ? x : y   (or  x if p else y,  where(p, x, y))     a choice: `x` where `p`. Both sides may be computed
    f(x, ...)                                             a function of the vocabulary, or another op by its formula

`-x ** 2` is `-(x ** 2)`; `& ^ |` bind tighter than comparisons, as in Python. A truth used as a number is 1 or 0.

Vocabulary (what a backend must offer, with these meanings):

    exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
    sigmoid(x)               1 / (1 + exp(-x))
    log1pexp(x)              log(1 + exp(x)), x itself for large x
    normal_cdf(x)            erfc(-x / sqrt(2)) / 2, with a relative error that stays small for x far below 0
    normal_pdf(x)            exp(-x * x / 2) / sqrt(2 pi)
    normal_gate(x)           x * normal_cdf(x); in float32 the error of the cdf may be a rounding of 0.5, as of (1 + erf) / 2
    normal_gate_slope(x)     normal_cdf(x) + x * normal_pdf(x), its derivative, with an error like that
    zeta(x, q)               the sum of (q + k) ** -x over k = 0, 1, ...
    igamma(a, x) igammac(a, x)   the regularized incomplete gamma functions, lower and upper
    chebyshev(x, n, slope, offset)   p(0) = 1, p(1) = slope x + offset, p(k + 1) = 2 x p(k) - p(k - 1); the n-th one, as these:
    hermite(x, n, scale) laguerre(x, n, alpha) gegenbauer(x, n, alpha)
    spherical_bessel(x, n)   j(n)(x) / x ** n
    erfinv lgamma digamma polygamma(x, n) atan2(y, x) hypot(x, y) copysign(x, y) floor ceil trunc
    round(x)                 to the nearest whole number, halves to even
    abs(x)  sign(x)          sign is 0 for NaN
    max(x, y)  min(x, y)     NaN when either is NaN
    fmax(x, y)  fmin(x, y)   the other one when one is NaN
    mod(x, y)  fmod(x, y)    rest of the division rounded down, rounded towards 0
    floor_divide(x, y)       the division rounded down, from the rest, so that it is exact
    isnan isinf isfinite signbit      truths
    gcd lcm conj             (kept for NumPy: no scalar code is made of them)

Everything is a pure function of numbers, NaN and infinities included; nothing raises. Trees are immutable, compare by value and
can be keys of dicts.

>>> to_text(parse("x > 0 ? x : expm1(x) * alpha"))
'((x > 0) ? x : (expm1(x) * alpha))'
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple


class Tree(NamedTuple):
    """A node: a `head` ("number", "name", an operator or a function) and its parts (trees; of a number its value and text)."""

    head: str
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        return to_text(self)


class Definition(NamedTuple):
    """A function by its formula: `tree` in terms of `parameters`."""

    parameters: tuple[str, ...]
    tree: Tree


def number(value: float) -> Tree:
    """A constant."""
    return Tree("number", (value, repr(value)))  # 1, 1.0 and True, or 0.0 and -0.0, are not one constant


def name(text: str) -> Tree:
    """An operand or another argument by its name."""
    return Tree("name", (text,))


def call(head: str, *parts: Tree) -> Tree:
    """An operator or function applied to trees: `call("+", a, b)`, `call("select", condition, a, b)`, `call("neg", a)`."""
    return Tree(head, parts)


_CONSTANTS = {"inf": math.inf, "pi": math.pi, "True": True, "False": False}
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_TRUTHS = _COMPARISONS | {"&&", "||", "!", "isnan", "isinf", "isfinite", "signbit"}
_RENAMED = {"where": "select", "pow": "**", "remainder": "mod", "maximum": "max", "minimum": "min"}
_BITS_OF_TRUTHS = {"&": "&&", "|": "||", "^": "!=", "~": "!"}


# --- reading -------------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/<>!?:(),&|^~]))"
)
_BINARY = {
    "||": 2,
    "or": 2,
    "&&": 3,
    "and": 3,
    **dict.fromkeys(_COMPARISONS, 5),
    "|": 6,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "*": 11,
    "/": 11,
    "**": 13,
}
_NOT, _UNARY = 4, 12
_WORDS = {"and": "&&", "or": "||"}


@cache
def parse(text: str) -> Tree:
    """The tree of a formula's or a derivative's text.

    Raises:
        ValueError: the text is not a formula; it says where.
    """
    reader = _Reader(text)
    tree = reader.choice()
    if reader.now:
        raise reader.error(f"expected the end, got {reader.now!r}")
    return tree


class _Reader:
    """Precedence climbing over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.place = text, [], 0
        at = 0
        while text[at:].strip():
            token = _TOKEN.match(text, at)
            if token is None:
                raise ValueError(f"formula {text!r}: cannot read {text[at:].strip()[:12]!r}.")
            self.tokens.append(token.group().strip())
            at = token.end()
        self.tokens.append("")
        self.now = self.tokens[0]

    def take(self, expected: str = "") -> str:
        token = self.now
        if expected and token != expected:
            raise self.error(f"expected {expected!r}, got {token or 'the end'!r}")
        self.place += 1
        self.now = self.tokens[self.place] if token else ""
        return token

    def error(self, what: str) -> ValueError:
        return ValueError(f"formula {self.text!r}: {what} (token {self.place + 1}).")

    def choice(self) -> Tree:
        value = self.binary(0)
        if self.now == "?":
            self.take()
            then = self.choice()
            self.take(":")
            return _applied("select", value, then, self.choice())
        if self.now == "if":
            self.take()
            condition = self.binary(0)
            self.take("else")
            return _applied("select", condition, value, self.choice())
        return value

    def binary(self, least: int) -> Tree:
        left = self.unary()
        while _BINARY.get(self.now, -1) >= least:
            operator = self.take()
            strength = _BINARY[operator]
            right = self.binary(strength if operator == "**" else strength + 1)
            left = _applied(_WORDS.get(operator, operator), left, right)
        return left

    def unary(self) -> Tree:
        token = self.now
        if token in ("-", "+", "~"):
            self.take()
            inner = self.binary(_UNARY)
            return inner if token == "+" else _applied("neg" if token == "-" else "~", inner)
        if token in ("!", "not"):
            self.take()
            return _applied("!", self.binary(_UNARY if token == "!" else _NOT))
        return self.atom()

    def atom(self) -> Tree:
        token = self.take()
        if token == "(":
            inner = self.choice()
            self.take(")")
            return inner
        if token[:1].isdigit() or token[:1] == ".":
            return number(int(token) if token.isdigit() else float(token))
        if not (token[:1].isalpha() or token[:1] == "_") or token in ("if", "else", "and", "or", "not"):
            raise self.error(f"expected a value, got {token or 'the end'!r}")
        if self.now != "(":
            return number(_CONSTANTS[token]) if token in _CONSTANTS else name(token)
        self.take("(")
        parts = []
        while self.now != ")":
            parts.append(self.choice())
            if self.now != ")":
                self.take(",")
        self.take(")")
        return _applied(_RENAMED.get(token, token), *parts)


def _applied(head: str, *parts: Tree) -> Tree:
    """`call`, with one form for each meaning: bits of truths are `&&` and its like, `-2` is a number."""
    if head in _BITS_OF_TRUTHS and all(is_truth(part) for part in parts):
        head = _BITS_OF_TRUTHS[head]
    if head == "neg" and parts[0].head == "number" and not isinstance(parts[0].parts[0], bool):
        return number(-parts[0].parts[0])
    return Tree(head, parts)


# --- looking and changing ------------------------------------------------------------------------------------------------------


def is_truth(tree: Tree, truths: Iterable[str] = ()) -> bool:
    """Whether the tree's value is a truth; `truths` are the names that are."""
    if tree.head == "number":
        return isinstance(tree.parts[0], bool)
    if tree.head == "name":
        return tree.parts[0] in truths
    if tree.head == "select":
        return is_truth(tree.parts[1], truths) and is_truth(tree.parts[2], truths)
    return tree.head in _TRUTHS


def names_in(*trees: Tree) -> set[str]:
    """The names that occur."""
    return {node.parts[0] for tree in trees for node in _nodes(tree) if node.head == "name"}


def functions_in(*trees: Tree) -> set[str]:
    """The operators and functions that occur."""
    return {node.head for tree in trees for node in _nodes(tree) if node.head not in ("name", "number")}


def operations(*trees: Tree) -> int:
    """How many operations the trees have, equal ones counted once."""
    return len({node for tree in trees for node in _nodes(tree) if node.head not in ("name", "number")})


def _nodes(tree: Tree) -> set[Tree]:
    """The tree and its parts, equal ones once."""
    nodes: set[Tree] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node not in nodes:
            nodes.add(node)
            if node.head not in ("name", "number"):
                waiting += node.parts
    return nodes


def _rebuilt(tree: Tree, change: Callable[[Tree], Tree], done: dict[Tree, Tree]) -> Tree:
    """The tree with `change` applied to each node, from the leaves up; equal subtrees are done once."""
    changed = done.get(tree)
    if changed is None:
        if tree.head in ("name", "number"):
            changed = change(tree)
        else:
            changed = change(_applied(tree.head, *[_rebuilt(part, change, done) for part in tree.parts]))
        done[tree] = changed
    return changed


def substitute(tree: Tree, values: Mapping[str, Tree]) -> Tree:
    """The tree with names replaced by trees."""
    return _rebuilt(tree, lambda node: values.get(node.parts[0], node) if node.head == "name" else node, {})


def inline(tree: Tree, definition_of: Callable[[str], Definition | None]) -> Tree:
    """The tree with calls of defined functions replaced by their formulas, until only the vocabulary is left.

    `definition_of` gives None for what stays a call.

    Raises:
        ValueError: a call has another number of arguments than the definition.
    """

    def change(node: Tree) -> Tree:
        definition = None if node.head in ("name", "number") else definition_of(node.head)
        if definition is None:
            return node
        if len(definition.parameters) != len(node.parts):
            raise ValueError(
                f"formula {to_text(node)}: {node.head} takes {len(definition.parameters)} arguments "
                f"({', '.join(definition.parameters)}), got {len(node.parts)}."
            )
        inner = inline(definition.tree, definition_of)
        return substitute(inner, dict(zip(definition.parameters, node.parts, strict=True)))

    return _rebuilt(tree, change, {})


_FOLDED: dict[str, Callable[..., Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "**": lambda x, y: x**y,
    "neg": lambda x: -x,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "!": lambda x: not x,
    "sqrt": math.sqrt,
}


def simplify(tree: Tree) -> Tree:
    """The tree with arithmetic on constants done, choices on constants made, and `x * 1`, `x + 0`, `max(x, -inf)` dropped.

    It changes no result but the sign of a zero (`x + 0`).
    """

    def change(node: Tree) -> Tree:
        head, parts = node
        if head == "select":
            condition, then, other = parts
            if condition.head == "number":
                return then if condition.parts[0] else other
            return then if then == other else node
        if head in _FOLDED and parts and all(part.head == "number" for part in parts):
            try:
                value = _FOLDED[head](*[part.parts[0] for part in parts])
            except (ArithmeticError, ValueError):
                return node
            return number(value) if isinstance(value, (bool, int, float)) else node
        if len(parts) == 2:
            left, right = parts
            if head in ("*", "/", "**") and _is(right, 1):
                return left
            if head == "*" and _is(left, 1):
                return right
            if head in ("+", "-") and _is(right, 0):
                return left
            if head == "+" and _is(left, 0):
                return right
            if (head, right) in (("max", number(-math.inf)), ("min", number(math.inf))):
                return left
        if head == "neg" and parts[0].head == "neg":
            return parts[0].parts[0]
        return node

    return _rebuilt(tree, change, {})


def _is(tree: Tree, value: float) -> bool:
    return tree.head == "number" and not isinstance(tree.parts[0], bool) and tree.parts[0] == value


def shared(trees: Iterable[Tree], prefix: str = "t") -> tuple[list[tuple[str, Tree]], list[Tree]]:
    """Names for what occurs more than once, and for what is long inside a choice: (assignments in order, the trees with the names).

    With both sides of every choice computed before it, compilers turn loops over choices into vector code without branches.
    """
    trees = list(trees)
    uses: dict[Tree, int] = {}
    inside_choice: set[Tree] = set()
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        uses[node] = uses.get(node, 0) + 1
        if uses[node] == 1 and node.head not in ("name", "number"):
            waiting += node.parts
            if node.head == "select":
                inside_choice.update(part for part in node.parts[1:] if part.head not in ("name", "number"))
    assignments: list[tuple[str, Tree]] = []

    done: dict[Tree, Tree] = {}

    def named(node: Tree) -> Tree:
        if node in done:
            return done[node]
        if node.head in ("name", "number"):
            replaced = node
        else:
            replaced = Tree(node.head, tuple(named(part) for part in node.parts))
            if uses.get(node, 0) > 1 or node in inside_choice:
                assignments.append((f"{prefix}{len(assignments)}", replaced))
                replaced = name(assignments[-1][0])
        done[node] = replaced
        return done[node]

    results = [named(tree) for tree in trees]
    return assignments, results


# --- writing -------------------------------------------------------------------------------------------------------------------

INFIX = frozenset({"+", "-", "*", "/", "**", "&&", "||", "&", "|", "^", "<<", ">>"}) | _COMPARISONS


def to_text(tree: Tree) -> str:
    """The tree in the formula language, with all parentheses; `parse` gives the tree back."""
    head, parts = tree
    if head == "number":
        value = parts[0]
        return "inf" if value == math.inf else "(-inf)" if value == -math.inf else _signed(repr(value))
    if head == "name":
        return str(parts[0])
    texts = [to_text(part) for part in parts]
    if head in INFIX:
        return f"({texts[0]} {head} {texts[1]})"
    if head == "select":
        return f"({texts[0]} ? {texts[1]} : {texts[2]})"
    if head in ("neg", "!", "~"):
        return f"({'-' if head == 'neg' else head}{texts[0]})"
    return f"{head}({', '.join(texts)})"


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
