"""`python -m dynograd port PROGRAM...`: which torch names a program or package uses, on which lines, and which of them dynograd lacks or refuses.

Programs are read: what shows are imports and dotted names (`torch.nn.Linear`, `F.relu` after `import torch.nn.functional as F`). Methods of
tensors do not, because their objects' types are not in the text. `port --run SCRIPT ...` runs the program as well, `port --run PACKAGE` imports
all modules of a package, and what they asked for in vain is listed too, methods of tensors included.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import importlib.util
import itertools
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from dynograd.compat import verdicts
from dynograd.tools import running
from dynograd.utils import programs

__all__ = ["main", "missing", "names_used"]

_MEANT = ("torch", "dynograd")


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
    try:
        verdicts.place_of(name.removesuffix(".*"))
    except LookupError:
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when nothing is missing, 1 when something is, 2 when a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m dynograd port", description=__doc__.split("\n")[0])
    parser.add_argument("--missing", action="store_true", help="list only the names that are missing or refuse")
    parser.add_argument(
        "files", nargs="*", metavar="PROGRAM", help="a Python file, a folder, or the name of an installed package"
    )
    run = "read a program and run it with the arguments behind it, or read a package and import its modules"
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[], metavar="PROGRAM ...", help=run)
    options = parser.parse_args(arguments)
    if not options.files + options.run:
        parser.error("expected a program: a Python file, a folder, or the name of an installed package")
    return programs.run(lambda: _report(options), "port")


def _report(options: argparse.Namespace) -> int:
    status = _read(*options.files, *options.run[:1], only_missing=options.missing)
    return max(status, _run(options.run[0], options.run[1:])) if options.run else status


def _read(*sources: str, only_missing: bool) -> int:
    status, seen, absent, refusing = 0, set(), set(), set()
    for path in itertools.chain.from_iterable(map(_files, sources)):
        try:
            used = names_used(path.read_text(encoding="utf-8"), str(path))
        except (OSError, SyntaxError, ValueError) as error:
            print(f"{path}: cannot be read: {error}", file=sys.stderr)
            status = 2
            continue
        seen |= set(used)
        for name, lines in used.items():
            verdict, why = _verdict(name)
            absent |= {name} if verdict == "missing" else set()
            refusing |= {name} if verdict == "refuses" else set()
            if why or not only_missing:
                others = f" (also on {', '.join(map(str, lines[1:]))})" if len(lines) > 1 else ""
                print(f"{path}:{lines[0]}: {verdict:7} {name}{others}{why and f': {why}'}")
    refuse = f", {len(refusing)} refuse when called" if refusing else ""
    print(f"{len(seen)} torch names, {len(absent)} missing{refuse}.")
    return status or int(bool(absent))


@functools.cache
def _verdict(name: str) -> tuple[str, str]:
    """there, refuses or missing; and why."""
    if missing(name):
        return "missing", verdicts.why_missing(name)
    why = verdicts.refusal(name)
    return ("refuses", why) if why else ("there", "")


def _run(program: str, arguments: list[str]) -> int:
    """Runs a program, or imports a package's modules, with torch meaning dynograd, and lists what was asked for in vain."""
    door = importlib.import_module("dynograd.as_torch")
    status = running.main([program, *arguments]) if _is_program(Path(program)) else _import_all(program)
    sys.stdout.flush()
    report = door.report()
    for row in report.lacking:
        print(f"{row.asked_by}: asked for {row.name}, in vain: {row.why}")
    print(
        f"Run with status {status}: {len(report.lacking)} names were asked for in vain. Programs may ask, and do without."
    )
    return status


def _is_program(path: Path) -> bool:
    return path.is_file() or (path / "__main__.py").exists()


def _import_all(package: str) -> int:
    """Imports every module of a package; 1 if one cannot be."""
    status = 0
    for name in _modules(package):
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever a module does at import is what is asked here
            status = 1
            print(f"{name}: cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
    return status


def _modules(package: str) -> list[str]:
    folders = _spec(package).submodule_search_locations
    names = [package]
    for folder in map(Path, folders or ()):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if all(map(str.isidentifier, parts)) and parts[-1] not in ("__init__", "__main__"):
                names.append(".".join([package, *parts]))
    return names


def _spec(package: str) -> ModuleSpec:
    spec = importlib.util.find_spec(package) if package.replace(".", "").isidentifier() else None
    if spec is None:
        raise programs.UsageError(f"there is neither a file nor an installed package {package!r}.")
    return spec


def _files(source: str) -> list[Path]:
    """The Python files of a file, a folder or an installed package, which is not imported."""
    path = Path(source)
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    if path.exists() or path.suffix:
        return [path]
    spec = _spec(source)
    if spec.submodule_search_locations:
        return [file for folder in spec.submodule_search_locations for file in sorted(Path(folder).rglob("*.py"))]
    return [Path(spec.origin)] if spec.origin else []


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
        self.aliases, self.lines = aliases, lines

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        place: ast.expr = node
        while isinstance(place, ast.Attribute):
            parts.append(place.attr)
            place = place.value
        if isinstance(place, ast.Name) and place.id in self.aliases:
            name = ".".join([self.aliases[place.id], *reversed(parts)])
            self.lines.setdefault(name, []).append(place.lineno)
        else:
            self.generic_visit(node)


if __name__ == "__main__":
    sys.exit(main())
