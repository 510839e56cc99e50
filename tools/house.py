"""How the code is built, in figures: rooms, circles of imports, the walk of one call, lists, words. `python -m tools.house` prints them,
`python -m tools.house walk` the walk of one call as it stands in docs/architecture.md.

Each figure is counted from the source text (syntax trees) or from one traced program in a fresh process. `tests/test_house.py` holds
the highest value of each: a change may lower it, never raise it.
"""

from __future__ import annotations

import ast
import json
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tools.source_imports import cycles, import_graph, source_files

__all__ = ["FIGURES", "figures", "main", "story", "walk"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dynograd"
EMPTY_WORDS = frozenset("found made given held wanted one".split())

# ---------------------------------------------------------------- the tree


@cache
def _trees() -> dict[Path, ast.Module]:
    return {
        path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in source_files(PACKAGE)
    }


@cache
def _nodes_of(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    nodes: dict[type[ast.AST], list[ast.AST]] = {}
    for node in ast.walk(_trees()[path]):
        nodes.setdefault(type(node), []).append(node)
    return nodes


def _nodes(*kinds: type[ast.AST], only: str = "", without: str = "") -> Iterator[tuple[Path, Any]]:
    """Every node of these kinds, of the files in one folder `only`, or in all folders `without` one."""
    for path in _trees():
        if only in ("", path.parts[0]) and without != path.parts[0]:
            nodes = _nodes_of(path)
            for kind in kinds:
                for node in nodes.get(kind, ()):
                    yield path, node


def top_entries() -> int:
    """Files and folders directly in dynograd/."""
    return len({path.parts[0] for path in _trees()})


def top_files() -> int:
    """Files directly in dynograd/."""
    return sum(len(path.parts) == 1 for path in _trees())


def largest_folder() -> int:
    """Modules directly in the folder that has the most of them, dynograd/ itself left out."""
    folders = [path.parent for path in _trees() if len(path.parts) > 1]
    return max(map(folders.count, set(folders)))


def lines() -> int:
    """Lines of dynograd/."""
    return sum(len(path.read_bytes().splitlines()) for path in source_files(PACKAGE))


def median_lines() -> int:
    """Lines of a file of dynograd/ without its docstrings, the median."""
    return int(
        statistics.median(
            len((PACKAGE / path).read_bytes().splitlines()) - _docstring_lines(tree) for path, tree in _trees().items()
        )
    )


def _docstring_lines(tree: ast.Module) -> int:
    """Docstrings are what `help` and the site print: how long they are says nothing of how much code there is to read."""
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = [owner.body[0] for owner in owners if ast.get_docstring(owner, clean=False) is not None]
    return sum((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1 for docstring in docstrings)


# ---------------------------------------------------------------- imports


@cache
def _circles() -> list[list[str]]:
    return cycles(import_graph(PACKAGE))


def circles() -> int:
    """Circles of imports, imports inside functions included."""
    return len(_circles())


def modules_in_circles() -> int:
    """Modules in circles of imports."""
    return sum(map(len, _circles()))


def slots_from_above() -> int:
    """Attributes of another module of the package that a module assigns (`module.name = value`)."""
    slots = set()
    for path in _trees():
        modules = _imported_modules(path)
        assigned: list[Any] = [*_nodes_of(path).get(ast.Assign, ()), *_nodes_of(path).get(ast.AnnAssign, ())]
        for node in assigned:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Subscript):  # `module.slot[:] = [value]`
                    target = target.value
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    if (module := modules.get(target.value.id)) and path.parts[0] != "kernels":
                        slots.add((module, target.attr))
    return len(slots)


def _imported_modules(file: Path) -> dict[str, str]:
    """Names in a file that stand for modules of the package."""
    modules = {}
    imports: list[Any] = _nodes_of(file).get(ast.ImportFrom, [])
    for node in imports:
        if (node.module or "").partition(".")[0] == PACKAGE.name:
            for alias in node.names:
                path = ROOT.joinpath(*(node.module or "").split("."), alias.name)
                if path.with_suffix(".py").exists() or path.is_dir():
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return modules


# ---------------------------------------------------------------- what cannot be read as it stands


def text_makers() -> int:
    """Calls of `exec` outside kernels/: places where functions are made of text."""
    return sum(_calls(node, "exec") for _, node in _nodes(ast.Call, without="kernels"))


def code_exchanges() -> int:
    """Files outside kernels/ that assign the code of a function."""
    return len({path for path, node in _nodes(ast.Assign, without="kernels") if _assigns(node, "__code__")})


def lines_of_code_in_strings() -> int:
    """Lines of programs in strings that `shortcut` and the tables of writes are given."""
    total = 0
    for _, node in _nodes(ast.Call, ast.Assign, without="kernels"):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "shortcut":
            texts = [*node.args[1:], *[key.value for key in node.keywords if key.arg in ("at_once", "at_once_when")]]
            texts = [text for text in texts if not isinstance(text, ast.Name)]  # a function
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("WRITES", "_WRITERS", "DRAWS"):
            texts = list(ast.walk(node.value))  # type: ignore[arg-type]
        else:
            continue
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                total += len(text.value.strip().splitlines())
            elif isinstance(text, ast.Name):
                total += 1
    return total


def questions_of_ops() -> int:
    """Places in ops/ that ask who reads them (`__dynograd_...`)."""
    return sum(_spelled(node).startswith("__dynograd_") for _, node in _nodes(*_SPELLED, only="ops"))


def tricks() -> int:
    """Uses of `sys._getframe` outside errors.py, `gc.get_objects`, and assignments to `__bases__` or `__class__`."""
    return sum(
        (_calls(node, "_getframe") and path != Path("errors.py"))
        or _calls(node, "get_objects")
        or _assigns(node, "__bases__")
        or _assigns(node, "__class__")
        for path, node in _nodes(ast.Call, ast.Assign)
    )


def broad_excepts() -> int:
    """Handlers of `Exception` or of everything that do not raise."""
    return sum(
        (node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException"))
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        for _, node in _nodes(ast.ExceptHandler)
    )


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name in (
        getattr(node.func, "id", None),
        getattr(node.func, "attr", None),
    )


def _assigns(node: ast.AST, attribute: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Attribute) and target.attr == attribute for target in targets)


_SPELLED = (ast.Constant, ast.Attribute, ast.Name)


def _spelled(node: ast.AST) -> str:
    """The identifier or the text of a node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


# ---------------------------------------------------------------- lists, constants, words, types


def _names_in(value: ast.expr) -> list[str]:
    """The texts of a literal: of a collection, of the keys of a dict, of a text of several words."""
    if isinstance(value, ast.Call):  # `frozenset("a b".split())`, `frozenset({"a", "b"})`
        inner = value.args[0] if value.args else getattr(value.func, "value", None)
        return _names_in(inner) if isinstance(inner, ast.expr) else []
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value.split()
    parts = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


@cache
def _lists_of_ops() -> list[tuple[str, int]]:
    from dynograd import ops  # noqa: F401  (fills the table)
    from dynograd.ops.op import registry

    names = {key.removesuffix(".public") for key in registry}
    lists = []
    for path, tree in _trees().items():
        if path.parts[0] in ("ops", "kernels") or path.parts[:2] == ("compat", "operators"):
            continue
        for node in tree.body:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            name = getattr(target, "id", "")
            texts = _names_in(value) if value is not None and name != "__all__" else []
            if len(texts) >= 4 and sum(text.rstrip("_") in names for text in texts) >= 0.7 * len(texts):
                lists.append((f"{path}:{node.lineno} {name}", len(texts)))
    return lists


def lists_of_ops() -> int:
    """Collections outside ops/ and kernels/ that name four or more ops by hand."""
    return len(_lists_of_ops())


def entries_of_lists() -> int:
    """Entries of those lists."""
    return sum(size for _, size in _lists_of_ops())


def constants_without_reason() -> int:
    """Numbers in capitals in kernels/ with no comment beside or above them."""
    count = 0
    for path, tree in _trees().items():
        if path.parts[0] != "kernels":
            continue
        with tokenize.open(PACKAGE / path) as file:
            commented = {
                token.start[0] for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.COMMENT
            }
        reasoned = False  # a comment above a block of constants serves them all
        last = -1
        for node in tree.body:
            if not (isinstance(node, ast.Assign) and _is_number(node.value)):
                continue
            name = getattr(node.targets[0], "id", "")
            if not name.strip("_").isupper():
                continue
            above = node.lineno - 1 in commented
            reasoned = above or (reasoned and node.lineno == last + 1)
            last = node.end_lineno or node.lineno
            count += not (reasoned or node.lineno in commented)
    return count


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def empty_words() -> int:
    """Variables and parameters called found, made, given, held, wanted or one."""
    return sum(
        (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY_WORDS)
        or (isinstance(node, ast.arg) and node.arg in EMPTY_WORDS)
        for _, node in _nodes(ast.Name, ast.arg)
    )


def any_results() -> int:
    """Functions that say they return `Any`."""
    return sum(getattr(node.returns, "id", "") == "Any" for _, node in _nodes(ast.FunctionDef, ast.AsyncFunctionDef))


def ignored_types() -> int:
    """Lines that the type checker is told to leave alone."""
    return sum(path.read_text(encoding="utf-8").count("# type: ignore") for path in source_files(PACKAGE))


def files_of_an_activation() -> int:
    """Files of dynograd/ that name mish, an elementwise op like any other."""
    return len({path for path, node in _nodes(*_SPELLED) if "mish" in (_spelled(node).lower().split() or [""])})


# ---------------------------------------------------------------- the walk of one call

_WALK = '''
import json, sys
import dynograd as torch

from dynograd.base import cache_files

PACKAGE = torch.__file__.rpartition("/")[0] + "/"
FUNCTIONS = str(cache_files.folder("functions") or "") + "/"
x, w = torch.ones(3, 4), torch.ones(4, 2, requires_grad=True)


def program():
    torch.relu(x @ w).sum().backward()


def walk(call):
    """(file, line, function) of every Python frame that `call` enters, in order, with its depth."""
    frames, depth = [], 0

    def note(frame, event, argument):
        nonlocal depth
        if event == "call":
            depth += 1
            code = frame.f_code
            file = code.co_filename.removeprefix(PACKAGE)
            if file.startswith(FUNCTIONS):  # behind the name of the library's state
                file = "written " + file.removeprefix(FUNCTIONS).partition("/")[2]
            frames.append((file, frame.f_lineno, code.co_name, depth))
        elif event == "return":
            depth -= 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return frames[1:]


def to_kernel(call):
    """Frames between a call and the first frame in kernels/, or the deepest one where it enters none."""
    call()
    call()
    frames = walk(call)
    depths = [depth for file, _, _, depth in frames if file.startswith(("kernels/", "<dynograd kernel "))]
    return (depths[0] if depths else max(depth for *_, depth in frames) + 1) - 2


first = walk(program)
program()
warm = walk(program)
y = x * 1
ways = {
    "relu": lambda: torch.relu(x),
    "sum": lambda: torch.sum(x),
    "matmul": lambda: torch.matmul(x, w),
    "cumsum": lambda: torch.cumsum(x, 1),
    "softmax": lambda: torch.softmax(x, 1),
}
json.dump({"first": first, "warm": warm, "ways": {name: to_kernel(way) for name, way in ways.items()}}, sys.stdout)
'''


@cache
def walk() -> dict:
    """`relu(x @ w).sum().backward()` in a fresh process: the frames of its first and its third run, and the ways to the kernels.

    The functions of ops are written already, by the process before.
    """
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", _WALK], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def story() -> list[str]:
    """The warm walk through dynograd, a line for each frame: how deep it stands, file, function (comprehensions left out)."""
    frames = [frame for frame in walk()["warm"] if "/numpy/" not in frame[0] and not frame[2].endswith("comp>")]
    return [f"{'  ' * (depth - 2)}{file}: {name}" for file, _, name, depth in frames]


def warm_frames() -> int:
    """Python frames of `relu(x @ w).sum().backward()`, warm."""
    return len(walk()["warm"])


def warm_files() -> int:
    """Files (or texts) in which they stand."""
    return len({file for file, *_ in walk()["warm"]})


def first_frames() -> int:
    """Python frames of its first run in a process, without those of the import system, which count folders."""
    return sum(not str(frame[0]).startswith("<frozen importlib") for frame in walk()["first"])


def frames_to_kernel() -> int:
    """Frames between the public name and the kernel, the most of relu, sum, matmul, cumsum and softmax."""
    return max(walk()["ways"].values())


def without_source() -> int:
    """Public functions and Tensor's methods whose source `inspect.getsource` does not show."""
    program = (
        "import inspect, types, dynograd as d\n"
        "def hidden(function):\n"
        "    try: inspect.getsource(function)\n"
        "    except (OSError, TypeError): return True\n"
        "    return False\n"
        "places = (d, d.nn.functional, d.linalg, d.fft, d.special, d.Tensor)\n"
        "functions = {id(f): f for place in places for name in dir(place) if not name.startswith('_')\n"
        "             for f in [getattr(place, name, None)] if isinstance(f, types.FunctionType)}\n"
        "print(sum(map(hidden, functions.values())))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


# ---------------------------------------------------------------- the table

FIGURES: tuple[Callable[[], int], ...] = (
    top_entries,
    top_files,
    largest_folder,
    lines,
    median_lines,
    circles,
    modules_in_circles,
    slots_from_above,
    text_makers,
    code_exchanges,
    lines_of_code_in_strings,
    questions_of_ops,
    tricks,
    broad_excepts,
    lists_of_ops,
    entries_of_lists,
    constants_without_reason,
    empty_words,
    any_results,
    ignored_types,
    files_of_an_activation,
    warm_frames,
    warm_files,
    first_frames,
    frames_to_kernel,
    without_source,
)


def figures() -> dict[str, int]:
    """Every figure by its name."""
    return {figure.__name__: int(figure()) for figure in FIGURES}


def main(arguments: list[str]) -> None:
    if arguments == ["walk"]:
        print("\n".join(story()))
        return
    for figure in FIGURES:
        print(f"{figure():>8,}  {figure.__name__}: {figure.__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
