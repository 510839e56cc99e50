"""Gives functions that are there already the code of a mutated text, and `inspect` its lines."""

from __future__ import annotations

import ast
import gc
import linecache
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["around", "functions_by_code", "show", "swap"]

_Key = tuple[str, str, int]


def around(source: str, line: int) -> tuple[int, int] | None:
    """The first and last line of the outermost function whose body holds the line; None where none does."""
    for node in _functions(ast.parse(source)):
        if node.body[0].lineno <= line <= (node.end_lineno or 0):
            return node.lineno, node.end_lineno or 0
    return None


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        else:
            yield from _functions(node)


def functions_by_code(files: set[str]) -> dict[_Key, list[types.FunctionType]]:
    """All functions of this process whose code is of one of the files."""
    gc.unfreeze()  # else those that were there when the tests were collected are not listed
    table: dict[_Key, list[types.FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename in files:
            table.setdefault(_key(each.__code__), []).append(each)
    return table


def swap(table: dict[_Key, list[types.FunctionType]], file: str, before: types.CodeType, after: types.CodeType) -> int:
    """Gives functions of the file the code that differs between two codes of the module; how many functions there were."""
    codes = dict(_codes(after))
    count = 0
    for key, code in _codes(before):
        if key in codes and codes[key] != code:
            for function in table.get(key, ()):
                if len(function.__closure__ or ()) != len(codes[key].co_freevars):
                    return 0
                function.__code__ = codes[key]
                count += 1
    return count


def show(file: str, source: str) -> None:
    """Lets `inspect` and tracebacks see this text for the file's."""
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)


def _codes(code: types.CodeType) -> Iterator[tuple[_Key, types.CodeType]]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield _key(each), each
            yield from _codes(each)


def _key(code: types.CodeType) -> Any:
    return code.co_filename, code.co_qualname, code.co_firstlineno
