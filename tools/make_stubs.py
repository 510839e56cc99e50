"""Writes two stubs: of the methods that Tensor gets from the table of ops at import, and of the functions that `dynograd` gets from it.

Type checkers and editors read files and run nothing: without the stubs they do not know `x.sum` and `dynograd.relu`. A test keeps them up
to date. `python -m tools.make_stubs`, or `make docs`.
"""

from __future__ import annotations

import ast
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import dynograd  # noqa: E402

METHODS = ROOT / "dynograd" / "tensor" / "installed_methods.pyi"
FUNCTIONS = ROOT / "dynograd" / "tensor" / "public_functions.pyi"

HEAD_OF_METHODS = '''\
# fmt: off
# ruff: noqa
"""The methods and properties that Tensor gets from the table of ops and from the files beside this one.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

import builtins
from typing import Any

from dynograd.tensor.tensor import Tensor

class InstalledMethods:
'''
HEAD_OF_FUNCTIONS = '''\
# fmt: off
# ruff: noqa
"""The names that `dynograd` gets from the table of ops and from the files beside this one.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

import builtins
from typing import Any

from dynograd.tensor.tensor import Tensor

'''

# Annotations that a stub can repeat without an import; `builtins.` because `int` and `float` are methods of the class, too.
_SIMPLE = {"int", "float", "bool", "str", "None"}
# Ops whose method returns several tensors, or one or several as its arguments say; the others return one.
_SEVERAL = set(
    """aminmax chunk cummax cummin dsplit eig frexp geqrf histogram hsplit kthvalue lstsq lu max median min mode nanmedian nonzero qr slogdet
    solve sort split split_with_sizes split_with_sizes_copy svd symeig tensor_split topk triangular_solve unbind unique unique_consecutive
    unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit where""".split()
)
# `object` has these, too, and says that they return a bool.
_OTHERWISE_IN_OBJECT = {"__eq__", "__ne__"}


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
    names = [
        name for name in dynograd.__all__ if name not in ("Tensor", "is_tensor")
    ]  # __init__.py imports these itself
    members = {name: getattr(dynograd, name) for name in names}
    return HEAD_OF_FUNCTIONS + "".join(_global(name, member) for name, member in members.items())


def _global(name: str, member: Any) -> str:
    if inspect.isfunction(member):
        return f"def {name}({', '.join(_parameters(member))}) -> {_result_of_function(name, member)}: ...\n"
    if inspect.ismodule(member):
        return ""
    if inspect.isclass(member) and f"class {member.__name__}" in inspect.getsource(sys.modules[member.__module__]):
        return f"from {member.__module__} import {member.__qualname__} as {name}\n"
    if member is None or type(member).__module__ == "builtins":
        return f"{name}: {_type(type(member))}\n"
    return f"{name}: Any\n"


def _result_of_function(name: str, function: Callable[..., Any]) -> str:
    """As the method of the same name, where there is one and both return one tensor; out= changes nothing about it."""
    method = vars(dynograd.Tensor).get(name)
    if inspect.isfunction(method) and name not in _SEVERAL:
        return _result(name, method)
    if name.endswith("_") and not name.endswith("__"):
        return "Any"
    return _type(inspect.signature(function).return_annotation, result=True)


def stub_of_methods() -> str:
    """The text of the stub of Tensor's methods."""
    own = own_names()
    members = {name: member for name, member in vars(dynograd.Tensor).items() if name not in own}
    return HEAD_OF_METHODS + "".join(line for name in sorted(members) for line in _member(name, members[name]))


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield f"    @property\n    def {name}(self) -> {_type(inspect.signature(member.fget).return_annotation, result=True)}: ...\n"
        if member.fset is not None:
            yield f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...\n"
    elif inspect.isfunction(member):
        note = "  # type: ignore[override]" if name in _OTHERWISE_IN_OBJECT else ""
        parameters = ", ".join(["self", *_parameters(member)[1:]])
        yield f"    def {name}({parameters}) -> {_result(name, member)}: ...{note}\n"


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The parameters as they are written in the stub."""
    texts = []
    starred = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            texts.append("*")
            starred = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or stars == "*"
        default = "" if parameter.default is parameter.empty else " = ..."
        texts.append(f"{stars}{parameter.name}: {_type(parameter.annotation)}{default}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            texts[-1] = texts[-1].replace(f"{parameter.name}:", f"__{parameter.name}:", 1)
    return texts


def _result(name: str, function: Callable[..., Any]) -> str:
    if name.endswith("_") and not name.endswith("__"):  # in place
        return "Tensor"
    annotation = inspect.signature(function).return_annotation
    if name == "__setitem__":
        return "None"
    if name.startswith("__") and hasattr(operator, name.replace("__r", "__", 1)):  # also reflected: `1 / x`
        return "Tensor"
    of_ops = function.__module__ == "dynograd" or function.__module__.startswith("dynograd.ops")
    if of_ops and name not in _SEVERAL and annotation in (inspect.Signature.empty, "Any"):
        return "Tensor"
    return _type(annotation, result=True)


def _type(annotation: Any, result: bool = False) -> str:
    """An annotation for the stub: the builtin ones as they are, Tensor for what returns an array, Any for the rest."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    parts = ["int" if part.strip() == "Dim" else part.strip() for part in text.split("|")]
    if result and parts in (["Array"], ["Tensor"]):
        return "Tensor"
    if not _SIMPLE.issuperset(parts):
        return "Any"
    return " | ".join(part if part == "None" else f"builtins.{part}" for part in parts)


def main() -> None:
    METHODS.write_text(stub_of_methods(), encoding="utf-8")
    FUNCTIONS.write_text(stub_of_functions(), encoding="utf-8")


if __name__ == "__main__":
    main()
