"""Writes the stubs: of the methods that Tensor gets from the table of ops at import, and of the functions that `dynograd`, `nn.functional`, `linalg`, `fft`
and `special` get from it.

Type checkers and editors read files and run nothing: without the stubs they do not know `x.sum` and `dynograd.relu`. A test keeps them up
to date. `python -m tools.make_stubs`, or `make docs`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import operator
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import dynograd  # noqa: E402
from dynograd.compat import import_paths  # noqa: E402
from tools import stub_types  # noqa: E402

METHODS = ROOT / "dynograd" / "tensor" / "installed_methods.pyi"
FUNCTIONS = ROOT / "dynograd" / "tensor" / "public_functions.pyi"
PACKAGE = ROOT / "dynograd" / "__init__.pyi"
RETURN_TYPES = ROOT / "dynograd" / "return_types.pyi"
MODULES = {
    ROOT / "dynograd" / "nn" / "__init__.pyi": "dynograd.nn",
    ROOT / "dynograd" / "nn" / "functional.pyi": "dynograd.nn.functional",
    ROOT / "dynograd" / "linalg.pyi": "dynograd.linalg",
    ROOT / "dynograd" / "fft.pyi": "dynograd.fft",
    ROOT / "dynograd" / "special.pyi": "dynograd.special",
    ROOT / "dynograd" / "autograd" / "__init__.pyi": "dynograd.autograd",
}

_HEAD = '''\
# fmt: off
# ruff: noqa
"""{about}

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

{imports}
'''
# `object` has these, too, and says that they return a bool.
_OTHERWISE_IN_OBJECT = {"__eq__", "__ne__"}
# Plain attributes of Tensor that `dir` does not show.
_ATTRIBUTES = {"edges": "Any", "node": "_Node | None", "seq": "builtins.int", "takes_deferred_sums": "builtins.bool"}
_NODE = "from dynograd.autograd.nodes import Node as _Node\n"
_MANY = {("histogramdd", "bin_edges"): "tuple[Tensor, ...]"}
_FOR_MYPY = """\
    # What `dir` does not show: mypy, which checks dynograd's own files, knows it all the same; pyright, the engine of editors, does not.
    if False:
"""
_IMPORTED_BY_INIT = ("Tensor", "is_tensor")


def own_names() -> set[str]:
    """What the class statement of Tensor says itself."""
    tree = ast.parse((ROOT / "dynograd" / "tensor" / "tensor.py").read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def stub_of_functions() -> str:
    """The text of the stub of `dynograd`'s functions, classes, dtypes and constants."""
    return _stub(
        "The names that `dynograd` gets from the table of ops and from the files beside this one.",
        dynograd,
        [name for name in dynograd.__all__ if name not in _IMPORTED_BY_INIT],
    )


def stub_of_package() -> str:
    """The text of the stub of `dynograd` itself, which editors complete from: what it is made with is not in it."""
    return """\
# fmt: off
# ruff: noqa
\"\"\"dynograd: define-by-run deep learning in plain Python for data that is not a rectangle, named like PyTorch.

Written by `python -m tools.make_stubs`; do not edit it.
\"\"\"

from dynograd.tensor.public_functions import *
from dynograd.tensor.tensor import Tensor as Tensor
from dynograd.tensor.tensor import is_tensor as is_tensor
from dynograd.version import __version__ as __version__
"""


def stub_of_return_types() -> str:
    """The text of the stub of the named tuples that functions give."""
    kinds = [
        f"class {name}(NamedTuple):\n"
        + "".join([f"    {field}: {_MANY.get((name, field), 'Tensor')}\n" for field in fields])
        for name, fields in stub_types.named_results().items()
    ]
    imports = "from typing import NamedTuple\n\nfrom dynograd.tensor.tensor import Tensor\n"
    return _HEAD.format(
        about="The named tuples that functions give, under the functions' names.", imports=imports
    ) + "\n".join(kinds)


def stub_of_module(path: str) -> str:
    """The text of the stub of a module that holds functions of the table."""
    module = importlib.import_module(path)
    names = sorted({*getattr(module, "__all__", ()), *_shown(module)})
    below = [other.rpartition(".")[2] for other in import_paths.PATHS if other.rpartition(".")[0] == path]
    text = _stub(f"The functions of `{path}`.", module, [name for name in names if name not in below])
    for name in below:
        real = importlib.import_module(import_paths.PATHS[f"{path}.{name}"])
        source = f"{real.__name__} import {name}" if hasattr(real, name) else f"{path} import {name}"
        text += f"from {source} as {name}\n"
    return text


def stub_of_path(path: str) -> str:
    """The text of the stub of a module that lies elsewhere."""
    real = importlib.import_module({**import_paths.PATHS, **import_paths.ALIASES}[path])
    names = [name for name in getattr(real, "__all__", ()) if not name.startswith("_") and hasattr(real, name)]
    lines = [f"from {real.__name__} import {name} as {name}\n" for name in names if _is_in_the_source(real, name)]
    return _HEAD.format(about=f"`{path}`, which is `{real.__name__}`.", imports="").rstrip() + "\n\n" + "".join(lines)


def _is_in_the_source(module: Any, name: str) -> bool:
    """Whether checkers, which run nothing, find the name in the module's file."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
    return False


def _shown(module: Any) -> list[str]:
    return [
        name
        for name in dir(module)
        if not name.startswith("_")
        and (inspect.isfunction(member := getattr(module, name)) or inspect.isclass(member) or inspect.ismodule(member))
    ]


def _stub(about: str, module: Any, names: list[str]) -> str:
    lines = [line for name in names for line in _global(name, getattr(module, name))]
    return _HEAD.format(about=about, imports=stub_types.IMPORTS) + "".join(lines)


def _global(name: str, member: Any) -> Iterator[str]:
    called = re.match(r"See `([\w.]+)\.(\w+)`, which this calls", inspect.getdoc(member) or "")
    if called is not None:
        yield f"from {import_paths.ALIASES.get(called[1], called[1])} import {called[2]} as {name}\n"
    elif inspect.isfunction(member) and _is_as_written(name, member):
        yield f"from {member.__module__} import {name} as {name}\n"
    elif inspect.isfunction(member):
        forms = stub_types.written_overloads(name, is_method=False)
        op = member.__name__ if member.__name__.endswith(f"_{name}") else name  # `linalg.svd` is the op `linalg_svd`
        result = stub_types.result(op, member)
        if result == "Any" and _says_more(name, member):
            yield f"from {member.__module__} import {name} as {name}\n"
            return
        forms = forms or [(", ".join(stub_types.parameters(op, member, _is_several(result))), result)]
        for parameters, kind in forms:
            yield from _function("", name, parameters, kind, member, len(forms) > 1)
    elif inspect.ismodule(member):
        yield from _module(name, member)
    elif inspect.isclass(member) and f"class {member.__name__}" in inspect.getsource(sys.modules[member.__module__]):
        yield f"from {member.__module__} import {member.__qualname__} as {name}\n"
    elif isinstance(member, dynograd.dtype):
        yield f"{name}: _dtypes.dtype\n"
    elif member is None or type(member) in (bool, int, float, str):
        yield f"{name}: {'None' if member is None else f'builtins.{type(member).__name__}'}\n"
    elif isinstance(member, dynograd.memory_format):
        yield f"{name}: _memory_formats.memory_format\n"
    elif isinstance(member, dynograd.layout):
        yield f"{name}: _layouts.layout\n"
    else:
        yield f"{name}: Any\n"


def _module(name: str, module: Any) -> Iterator[str]:
    """A module by the place of its file; those without one have names that PyTorch's programs ask for, and no types."""
    file = RETURN_TYPES if module is dynograd.return_types else getattr(module, "__file__", None)
    if file is None:
        yield f"{name}: Any\n"
        return
    parts = Path(file).with_suffix("").relative_to(ROOT).parts
    *folders, last = parts[:-1] if parts[-1] == "__init__" else parts
    yield f"from {'.'.join(folders)} import {last} as {name}\n"


_GATHERED = ("dynograd", "dynograd.nn.functional")  # public functions are found there for pickle, and written elsewhere


def _is_as_written(name: str, function: Callable[..., Any]) -> bool:
    """Whether it is what its file says, and neither an op nor a form of one: checkers and editors then read that file."""
    path = function.__module__
    if path in _GATHERED:
        return False
    forms = ("dynograd.ops", "dynograd.tensor", "dynograd.interpreter.")
    if path != "dynograd.interpreter.differentiation" and not (
        path.startswith("dynograd.") and not path.startswith(forms)
    ):
        return False
    return getattr(importlib.import_module(path), name, None) is function


def _says_more(name: str, function: Callable[..., Any]) -> bool:
    """Whether the file of a function that is no op has a type for its result which the stubs have no word for."""
    path = function.__module__
    if path in _GATHERED or not path.startswith("dynograd.") or path.startswith("dynograd.ops"):
        return False
    written = getattr(importlib.import_module(path), name, None) is function
    return written and function.__annotations__.get("return", "Any") not in ("Any", Any)


def _is_several(result: str) -> bool:
    return result != "Tensor"


def _function(
    indent: str, name: str, parameters: str, result: str, member: Any, overloaded: bool, note: str = ""
) -> Iterator[str]:
    if overloaded:
        yield f"{indent}@overload\n"
    yield f"{indent}def {name}({parameters}) -> {result}:{note}\n"
    about = _first_sentence(member)
    yield f"{indent}    {about}\n" if about else f"{indent}    ...\n"


def _first_sentence(member: Any) -> str:
    """The first paragraph of a docstring as a literal, for editors to show."""
    text = " ".join((inspect.getdoc(member) or "").partition("\n\n")[0].split())
    text = re.sub(r" Of `\w+`:$", "", text)
    return repr(text) if text else ""


def stub_of_methods() -> str:
    """The text of the stub of Tensor's methods."""
    own = own_names()
    members = {name: member for name, member in vars(dynograd.Tensor).items() if name not in own}
    shown = {name for name in members if name in dir(dynograd.Tensor)}
    lines = [line for name in sorted(shown) for line in _member(name, members[name])]
    unlisted = "".join([line for name in sorted({*members} - shown) for line in _member(name, members[name])])
    about = "The methods and properties that Tensor gets from the table of ops and from the files beside this one."
    head = _HEAD.format(about=about, imports=stub_types.IMPORTS + _NODE)
    return "".join([head, "class InstalledMethods:\n", *lines, _FOR_MYPY, textwrap.indent(unlisted, "    ")])


def _member(name: str, member: Any) -> Iterator[str]:
    if name in _ATTRIBUTES:
        yield f"    {name}: {_ATTRIBUTES[name]}\n"
    elif isinstance(member, staticmethod) and not name.startswith("_"):
        yield "    @staticmethod\n"
        parameters = ", ".join(stub_types.parameters(name, member.__func__))
        yield from _function("    ", name, parameters, stub_types.result(name, member.__func__), member, False)
    elif isinstance(member, property):
        kind = stub_types.result(name, member.fget)
        yield f"    @property\n    def {name}(self) -> {kind}: ...\n"
        if member.fset is not None:
            yield f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...\n"
    elif inspect.isfunction(member):
        note = "  # type: ignore[override]" if name in _OTHERWISE_IN_OBJECT else ""
        forms = stub_types.written_overloads(name, is_method=True)
        result = _result_of_method(name, member)
        forms = forms or [(", ".join(["self", *stub_types.parameters(name, member, _is_several(result))[1:]]), result)]
        for parameters, kind in forms:
            yield from _function("    ", name, parameters, kind, member, len(forms) > 1, note)


def _result_of_method(name: str, function: Callable[..., Any]) -> str:
    if name == "__setitem__":
        return "None"
    if name.endswith("_") and not name.endswith("__"):  # in place
        return "Tensor"
    if name.startswith("__") and hasattr(operator, name.replace("__r", "__", 1)):  # also reflected: `1 / x`
        return "Tensor"
    return stub_types.result(name, function)


def texts() -> dict[Path, Callable[[], str]]:
    """The stubs, and what gives their texts."""
    of_modules: dict[Path, Callable[[], str]] = {
        path: functools.partial(stub_of_module, module) for path, module in MODULES.items()
    }
    of_paths = {file: functools.partial(stub_of_path, path) for file, path in _files_of_paths()}
    return {
        METHODS: stub_of_methods,
        FUNCTIONS: stub_of_functions,
        PACKAGE: stub_of_package,
        RETURN_TYPES: stub_of_return_types,
        **of_paths,
        **of_modules,
    }


def _files_of_paths() -> Iterator[tuple[Path, str]]:
    """PyTorch's import paths of modules that lie elsewhere, and the files of their stubs."""
    for path in (*import_paths.PATHS, *import_paths.ALIASES):
        name = path.rpartition(".")[2]
        real = {**import_paths.PATHS, **import_paths.ALIASES}[path]
        if not name.startswith("_") and getattr(importlib.import_module(real), "__all__", ()):
            yield ROOT.joinpath(*path.split(".")).with_suffix(".pyi"), path


def main() -> None:
    for path, text in texts().items():
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
