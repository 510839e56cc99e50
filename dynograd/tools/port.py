"""`python -m dynograd.port FILE...`: which torch names a program uses, on which lines, and which of them dynograd lacks.

Programs are read, never run: what is found are imports and dotted names (`torch.nn.Linear`, `F.relu` after `import torch.nn.functional
as F`). Methods of tensors are not found, because their objects' types are not in the text.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dynograd.utils import programs

__all__ = ["main", "missing", "names_used"]

_PACKAGE = "dynograd"
_MEANT = ("torch", _PACKAGE)


def names_used(text: str, filename: str = "<text>") -> dict[str, list[int]]:
    """The torch names that a program's text uses, with their lines.

    Raises:
        SyntaxError: the text is not Python.

    >>> from dynograd.port import names_used
    >>> names_used("import torch.nn as nn\\nlayer = nn.Linear(2, 3)\\n")
    {'torch.nn': [1], 'torch.nn.Linear': [2]}
    """
    tree = ast.parse(text, filename)
    lines: dict[str, list[int]] = {}
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        for name, alias in _imported(node):
            if alias is not None:
                aliases[alias] = name
            if name != "torch":
                lines.setdefault(name, []).append(node.lineno)
    _Names(aliases, lines).visit(tree)
    return {name: sorted(set(lines[name])) for name in sorted(lines)}


def missing(name: str) -> bool:
    """Whether dynograd has nothing under a torch name.

    >>> from dynograd.port import missing
    >>> missing("torch.nn.Linear"), missing("torch.nn.Lineal")
    (False, True)
    """
    place: Any = importlib.import_module(_PACKAGE)
    path = _PACKAGE
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if part == "*":
            return False
        try:
            place = getattr(place, part)
        except AttributeError:
            try:
                place = importlib.import_module(path)
            except ImportError:
                return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when nothing is missing, 1 when something is, 2 when a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m dynograd.port", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="Python files, or folders of them")
    parser.add_argument("--missing", action="store_true", help="list only the missing names")
    options = parser.parse_args(arguments)
    return programs.run(lambda: _report(options), "port")


def _report(options: argparse.Namespace) -> int:
    status, seen, absent = 0, set(), set()
    for path in _files(options.files):
        try:
            used = names_used(path.read_text(encoding="utf-8"), str(path))
        except (OSError, SyntaxError, ValueError) as error:
            print(f"{path}: cannot be read: {error}", file=sys.stderr)
            status = 2
            continue
        lacking = {name for name in used if missing(name)}
        seen |= set(used)
        absent |= lacking
        _show(path, {name: lines for name, lines in used.items() if name in lacking or not options.missing}, lacking)
    print(f"{len(seen)} torch names, {len(absent)} missing.")
    return status or int(bool(absent))


def _show(path: Path, used: dict[str, list[int]], lacking: set[str]) -> None:
    for name, lines in used.items():
        word = "missing" if name in lacking else "there"
        others = f" (also on {', '.join(map(str, lines[1:]))})" if len(lines) > 1 else ""
        print(f"{path}:{lines[0]}: {word:7} {name}{others}")


def _files(paths: list[str]) -> Iterator[Path]:
    for text in paths:
        path = Path(text)
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _imported(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """(torch name, name in the program) of each import in a statement; the root's own name stands for itself."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root, _, rest = alias.name.partition(".")
            if root in _MEANT:
                name = f"torch.{rest}" if rest else "torch"
                if alias.asname:
                    yield name, alias.asname
                else:
                    yield name, None
                    yield "torch", root
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        root, _, rest = node.module.partition(".")
        if root in _MEANT:
            for alias in node.names:
                name = ".".join(["torch", *([rest] if rest else []), alias.name])
                yield name, None if alias.name == "*" else alias.asname or alias.name


class _Names(ast.NodeVisitor):
    """Collects the longest dotted names that start with an imported one."""

    def __init__(self, aliases: dict[str, str], lines: dict[str, list[int]]) -> None:
        self.aliases, self.found = aliases, lines

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        place: ast.expr = node
        while isinstance(place, ast.Attribute):
            parts.append(place.attr)
            place = place.value
        if isinstance(place, ast.Name) and place.id in self.aliases:
            name = ".".join([self.aliases[place.id], *reversed(parts)])
            self.found.setdefault(name, []).append(place.lineno)
        else:
            self.generic_visit(node)


if __name__ == "__main__":
    sys.exit(main())
