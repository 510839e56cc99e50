"""Every public name of torch is here, and functions, classes and their methods take its parameters by name; `names_known.txt` and
`parameters_known.txt` only shrink.

Parameters are read from torch's stubs (`_VariableFunctions.pyi`, `__init__.pyi`), so nothing is listed by hand. From the top folder:

    python -m tests.parity.test_names_and_parameters       writes the two files anew, the gaps that `dynograd.as_torch` tells of, and which
                                                           names `dir` shows
"""

import ast
import importlib
import inspect
import re
import types
from functools import cache
from pathlib import Path

import pytest
import torch

import dynograd
from dynograd.base import stubs
from dynograd.tensor.absent import absence_of
from tests.parity import test_listed_names

HERE = Path(__file__).parent
PLACES = """. Tensor nn nn.functional nn.init nn.utils nn.utils.rnn linalg fft special func autograd autograd.functional autograd.forward_ad
optim optim.lr_scheduler distributions sparse utils.data signal.windows amp jit testing random types futures functional nn.grad""".split()
CLASSES_IN = "nn nn.utils.rnn optim optim.lr_scheduler optim.swa_utils distributions utils.data amp autograd profiler testing".split()


def place_of(library, path):
    if path == ".":
        return library
    if path == "Tensor":
        return library.Tensor
    return importlib.import_module(f"{library.__name__}.{path}")


def missing_names(path):
    theirs, ours = place_of(torch, path), place_of(dynograd, path)
    found = []
    for name in dir(theirs):
        value = getattr(theirs, name, None)
        foreign = getattr(value, "__module__", None) or "torch"
        if name.startswith("_") or isinstance(value, types.ModuleType) or not str(foreign).startswith("torch"):
            continue
        if not hasattr(ours, name):
            found.append(name)
    return sorted(found)


@cache
def parameters_of_torch():
    """(dotted name of the place, name) -> the names of parameters, of all overloads together."""
    root = Path(torch.__file__).parent / "_C"
    found = {}
    for node in ast.parse((root / "_VariableFunctions.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault((".", node.name), set()).update(
                one.arg for one in (*node.args.args, *node.args.kwonlyargs)
            )
    for part in ast.parse((root / "__init__.pyi").read_text()).body:
        if isinstance(part, ast.ClassDef) and part.name == "TensorBase":
            for node in part.body:
                if isinstance(node, ast.FunctionDef):
                    names = [one.arg for one in (*node.args.args[1:], *node.args.kwonlyargs)]
                    found.setdefault(("Tensor", node.name), set()).update(names)
    for path in ("nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "func", "autograd", "."):
        for name, function in vars(place_of(torch, path)).items():
            if inspect.isfunction(function) and (path, name) not in found:
                given = inspect.signature(function).parameters.values()
                found[path, name] = {one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
    found = {key: names for key, names in found.items() if not key[1].startswith("_")}
    for path in CLASSES_IN:
        for name, kind in vars(place_of(torch, path)).items():
            if inspect.isclass(kind) and kind.__module__.startswith("torch") and not name.startswith("_"):
                found.update({(path, f"{name}.{method}"): names for method, names in parameters_of_methods(kind)})
    return found


def parameters_of_methods(kind):
    """Those of the methods that torch's class or torch's classes above it define in Python, and that do not take any name."""
    for method in dir(kind):
        function = getattr(kind, method)
        if (method.startswith("_") and method not in ("__init__", "__call__")) or not inspect.isroutine(function):
            continue
        if not inspect.isfunction(inspect.unwrap(getattr(function, "__func__", function))) or not str(
            function.__module__
        ).startswith("torch"):
            continue
        parameters = inspect.signature(function).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            yield method, {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL}


def lacking_parameters():
    found = {}
    for (path, name), wanted in parameters_of_torch().items():
        *kind, method = name.split(".")
        function = getattr(place_of(dynograd, path), *kind, None) if kind else place_of(dynograd, path)
        function = getattr(function, method, None)
        if not callable(function) or inspect.isclass(function):
            continue
        try:
            given = inspect.signature(function).parameters
        except (TypeError, ValueError):
            continue
        if any(one.kind is one.VAR_KEYWORD for one in given.values()):
            continue
        wanted = {one for one in wanted if one[0] != "_"}  # signatures do not show those
        lacking = (
            wanted - set(given) - {"self"} - (set() if kind else {"input"}) - (set() if path != "Tensor" else {"out"})
        )
        if lacking:
            found[f"{path} {name}"] = sorted(lacking)
    return found


def known(file):
    rows = {}
    for line in (HERE / file).read_text().splitlines():
        key, _, names = line.partition("  # ")[0].partition(": ")
        rows[key] = set(names.split())
    return rows


@pytest.mark.parametrize("path", PLACES)
def test_names(path):
    lacking = set(missing_names(path))
    listed = known("names_known.txt").get(path, set())
    assert not lacking - listed, "missing in dynograd"
    assert not listed - lacking, "there now: take them off names_known.txt"


def test_parameters():
    listed = known("parameters_known.txt")
    found = {key: set(names) for key, names in lacking_parameters().items()}
    more = {key: names - listed.get(key, set()) for key, names in found.items() if names - listed.get(key, set())}
    assert not more, "parameters that torch takes by name"
    gone = {key: names - found.get(key, set()) for key, names in listed.items() if names - found.get(key, set())}
    assert not gone, "taken now: take them off parameters_known.txt"


@pytest.mark.parametrize("path", [path for path in stubs.OPTIONS if path.startswith(("_dynamo", "_inductor"))])
def test_options(path):
    """Those of torch with its defaults; None for folders and counts of this machine."""
    module, _, section = path.partition(".config")
    theirs = importlib.import_module(f"torch.{module}.config")._config
    theirs = {name: entry.default for name, entry in theirs.items() if entry.alias is None}
    section = section.removeprefix(".")
    start = section and f"{section}."
    theirs = {name.removeprefix(start): value for name, value in theirs.items() if name.startswith(start)}
    theirs = {name: value for name, value in theirs.items() if not re.search(r"^_|\.|TESTING_ONLY|TYPE_CHECKING", name)}
    ours = dict(stubs._read(stubs.OPTIONS[path]))
    assert set(theirs) <= set(ours)
    differing = {
        name for name, value in theirs.items() if ours[name] not in (value, None) and ours[name] != tuple(value)
    }
    assert not differing


# Functions of C++ (`_C`, and private ones) tell no parameters.
@pytest.mark.parametrize(
    "path",
    [
        path
        for path, row in stubs.TABLE.items()
        if row[1] and path.count(".") == 1 and not path.startswith("_C.") and "._" not in path
    ],
)
def test_parameters_of_stubs(path):
    """All that torch's have and that are not private, which are taken and not shown; unless any name is taken."""
    module, _, name = path.partition(".")
    ours = inspect.signature(stubs.function(path)).parameters
    theirs = inspect.signature(getattr(importlib.import_module(f"torch.{module}"), name)).parameters
    theirs = {name for name in theirs if not name.startswith("_")}
    assert theirs <= set(ours) or any(parameter.kind is parameter.VAR_KEYWORD for parameter in ours.values())


def reasons(file):
    """Line without its reason -> the reason, as comment."""
    parts = [line.partition("  # ") for line in (HERE / file).read_text().splitlines()]
    return {line: mark + reason for line, mark, reason in parts}


GAPS = Path(dynograd.__file__).parent / "compat" / "gaps.txt"


def gaps(names):
    """Of the missing names, those that no reason is given for, under their full names."""
    full = [f"torch{'' if path == '.' else '.' + path}.{name}" for path in names for name in names[path]]
    return "".join(f"{name}\n" for name in sorted(full) if absence_of(name.removeprefix("torch.")) is None)


def test_the_gaps_are_those_of_the_list():
    assert GAPS.read_text() == gaps({path: sorted(known("names_known.txt").get(path, ())) for path in PLACES})


def main():
    test_listed_names.main()
    why = reasons("parameters_known.txt")
    names = {path: missing_names(path) for path in PLACES}
    (HERE / "names_known.txt").write_text("".join(f"{path}: {' '.join(one)}\n" for path, one in names.items() if one))
    GAPS.write_text(gaps(names))
    (HERE / "parameters_known.txt").write_text(
        "".join(
            f"{line}{why.get(line, '')}\n"
            for line in [f"{key}: {' '.join(one)}" for key, one in sorted(lacking_parameters().items())]
        )
    )


if __name__ == "__main__":
    main()
