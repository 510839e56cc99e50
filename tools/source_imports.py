"""Imports of the package's own modules, read from the source text: inside functions too, but not under `if TYPE_CHECKING`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cycles", "import_graph", "imports_of", "is_module", "module_name", "source_files"]


def source_files(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


def module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str, package: Path) -> bool:
    path = package.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def imports_of(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of each import of the package's own modules."""
    name = module_name(path, package)
    around = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _run_time_nodes(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = around.split(".")[: len(around.split(".")) - node.level + 1]
                base = ".".join([*parents, *base.split(".")] if base else parents)
            members = [f"{base}.{alias.name}" for alias in node.names]
            modules = [member if is_module(member, package) else base for member in members]
        elif (called := _called_import(node)) is not None:
            modules = [called]
        else:
            continue
        for module in dict.fromkeys(modules):
            if module.partition(".")[0] == package.name:
                yield node.lineno, module


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module of the package with the modules of the package that it imports somewhere."""
    return {
        module_name(path, package): {module for _, module in imports_of(path, package)}
        for path in source_files(package)
    }


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of two or more modules that reach each other (Tarjan, Depth-first search and linear graph algorithms, 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    circles = []
    for start in graph:
        if start in order:
            continue
        visits = [(start, iter(sorted(graph[start])))]
        order[start] = lowest[start] = len(order)
        path.append(start)
        while visits:
            module, targets = visits[-1]
            for target in targets:
                if target not in graph:
                    continue
                if target not in order:
                    order[target] = lowest[target] = len(order)
                    path.append(target)
                    visits.append((target, iter(sorted(graph[target]))))
                    break
                if target in path:
                    lowest[module] = min(lowest[module], order[target])
            else:
                visits.pop()
                if visits:
                    lowest[visits[-1][0]] = min(lowest[visits[-1][0]], lowest[module])
                if lowest[module] == order[module]:
                    circle = path[path.index(module) :]
                    del path[path.index(module) :]
                    if len(circle) > 1:
                        circles.append(sorted(circle))
    return sorted(circles, key=len, reverse=True)


def _run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below `node` that can run: all but the bodies of `if TYPE_CHECKING`."""
    yield node
    skipped = node.body if isinstance(node, ast.If) and _is_type_checking(node.test) else []
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield from _run_time_nodes(child)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _called_import(node: ast.AST) -> str | None:
    """The module of `import_module("dynograd.x")` or `__import__("dynograd.x")`."""
    if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    module = node.args[0].value
    return module if called in ("import_module", "__import__") and isinstance(module, str) else None
