"""The mutations of a text of Python: each is one small mistake, written in the place of an expression or a statement.

Lines keep their numbers, so that functions of the mutated text can stand for those of the file. Annotations, docstrings, texts of errors,
what is in `if TYPE_CHECKING` and what is asserted (`strict=True` too) are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutation", "mutated", "mutations"]

_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.MatMult: ast.Add,
}
_DIMS = {"dim", "dims", "axis"}
_SAYING = {"warn", "cast", "TypeVar", "namedtuple"}  # calls that say something to people and tools


@dataclass(frozen=True)
class Mutation:
    """One mistake: in the text from `start` to `end`, pairs of a line (from 1) and a byte in it, stands `text`."""

    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    @property
    def line(self) -> int:
        return self.start[0]


def mutated(source: str, mutation: Mutation) -> str:
    """The text with the mistake in it, of as many lines."""
    lines = source.encode().split(b"\n")
    (first, begin), (last, stop) = mutation.start, mutation.end
    head, tail = lines[first - 1][:begin], lines[last - 1][stop:]
    changed = head + mutation.text.encode() + tail
    return b"\n".join([*lines[: first - 1], *changed.split(b"\n"), *lines[last:]]).decode()


def mutations(source: str) -> list[Mutation]:
    """All mutations of the text, in the order of their places."""
    tree = ast.parse(source)
    return sorted(_of_body(tree.body, frozenset()), key=lambda each: (each.start, each.kind, each.text))


def _of_body(body: list[ast.stmt], again: frozenset[str]) -> Iterator[Mutation]:
    for place, statement in enumerate(body):
        if place == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        yield from _of_statement(statement, again)


def _of_statement(statement: ast.stmt, again: frozenset[str]) -> Iterator[Mutation]:
    """Mutations of a statement and of what is in it; `again`: names that its function assigns more than once."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Assert):
        return
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        if any([ast.unparse(decorator) == "overload" for decorator in statement.decorator_list]):
            return
        names = [
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        parameters = {argument.arg for argument in ast.walk(statement.args) if isinstance(argument, ast.arg)}
        again = frozenset({name for name in names if names.count(name) > 1 or name in parameters})
        for decorator in statement.decorator_list:
            yield from _of_expression(decorator)
        for default in [*statement.args.defaults, *statement.args.kw_defaults]:
            if default is not None:
                yield from _of_expression(default)
        yield from _of_body(statement.body, again)
        return
    if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
        return
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in ("__all__", "__slots__"):
        return
    if _can_be_dropped(statement, again):
        yield _replacing("statement dropped", statement, "pass")
    if isinstance(statement, ast.Raise):
        return
    if isinstance(statement, ast.Return) and statement.value is not None:
        if not (isinstance(statement.value, ast.Constant) and statement.value.value is None):
            yield _replacing("value not returned", statement, "return None")
    if isinstance(statement, ast.AugAssign) and type(statement.op) in _ARITHMETIC:
        other = copy.deepcopy(statement)
        other.op = _ARITHMETIC[type(statement.op)]()
        yield _replacing("arithmetic", statement, ast.unparse(other))
    if isinstance(statement, ast.If | ast.While) and not isinstance(statement.test, ast.Compare):
        inside = statement.test.operand if _is_not(statement.test) else None
        if inside is None:
            yield _replacing("condition negated", statement.test, f"(not ({ast.unparse(statement.test)}))")
    for field, value in ast.iter_fields(statement):
        if field in ("annotation", "returns", "type_params"):
            continue
        if field in ("body", "orelse", "finalbody"):
            yield from _of_body(value, again)
        elif field == "handlers":
            for handler in value:
                yield from _of_body(handler.body, again)
        elif field == "cases":
            for case in value:
                yield from _of_body(case.body, again)
        else:
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.withitem):
                    node = node.context_expr
                if isinstance(node, ast.expr):
                    yield from _of_expression(node)


def _can_be_dropped(statement: ast.stmt, again: frozenset[str]) -> bool:
    if isinstance(statement, ast.Raise | ast.AugAssign | ast.Continue | ast.Break | ast.Delete):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    if isinstance(statement, ast.Assign):
        targets = [
            target for each in statement.targets for target in (each.elts if isinstance(each, ast.Tuple) else [each])
        ]
        return all([not isinstance(target, ast.Name) or target.id in again for target in targets])
    return False


def _of_expression(node: ast.AST) -> Iterator[Mutation]:
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _SAYING:
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = copy.deepcopy(node)
        other.ops = [_COMPARISONS[type(node.ops[0])]()]
        yield _replacing("comparison", node, f"({ast.unparse(other)})")
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in _ARITHMETIC
        and not _is_text(node.left)
        and not _is_text(node.right)
    ):
        other = copy.deepcopy(node)
        other.op = _ARITHMETIC[type(node.op)]()
        yield _replacing("arithmetic", node, f"({ast.unparse(other)})")
    elif isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _replacing("and, or", node, f"({ast.unparse(other)})")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        kind = "not dropped" if isinstance(node.op, ast.Not) else "sign"
        yield _replacing(kind, node, f"({ast.unparse(node.operand)})")
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.IfExp):
        other = copy.deepcopy(node)
        other.body, other.orelse = other.orelse, other.body
        yield _replacing("branches swapped", node, f"({ast.unparse(other)})")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            if child.arg == "strict":
                continue
            child = child.value
        if isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _of_expression(part)
        elif isinstance(child, ast.Lambda):
            yield from _of_expression(child.body)
        elif isinstance(child, ast.expr):
            yield from _of_expression(child)


def _of_constant(node: ast.Constant) -> Iterator[Mutation]:
    value = node.value
    if isinstance(value, bool):
        yield _replacing("constant", node, str(not value))
    elif isinstance(value, int):
        yield _replacing("constant", node, str(value + 1))
        yield _replacing("constant", node, f"({value - 1})")
    elif isinstance(value, float):
        yield _replacing("constant", node, repr(value + 1.0))


def _of_call(node: ast.Call) -> Iterator[Mutation]:
    if any([isinstance(argument, ast.Starred) for argument in node.args]):
        return
    if len(node.args) >= 2:
        first, second = node.args[0], node.args[1]
        if not (isinstance(first, ast.Constant) and isinstance(second, ast.Constant)):
            other = copy.deepcopy(node)
            other.args[:2] = [other.args[1], other.args[0]]
            yield _replacing("arguments swapped", node, f"({ast.unparse(other)})")
        other = copy.deepcopy(node)
        other.args.pop()
        yield _replacing("argument dropped", node, f"({ast.unparse(other)})")
    for place, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict"):
            other = copy.deepcopy(node)
            other.keywords.pop(place)
            yield _replacing("argument dropped", node, f"({ast.unparse(other)})")
    for argument in [*node.args, *[keyword.value for keyword in node.keywords]]:
        if isinstance(argument, ast.Name) and argument.id in _DIMS:
            yield _replacing("dim", argument, f"(-1 - {argument.id})")


def _replacing(kind: str, node: ast.expr | ast.stmt, text: str) -> Mutation:
    """`text` in the place of a node; line ends that it lacks stand behind it."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    missing = "\n" * (node.end_lineno - node.lineno - text.count("\n"))
    if missing:
        text = f"{text[:-1]}{missing})" if text.endswith(")") and isinstance(node, ast.expr) else text
        if isinstance(node, ast.stmt):
            text += missing
        elif not text.endswith(")"):
            text = f"({text}{missing})"
    return Mutation(kind, (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
