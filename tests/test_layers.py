"""Imports only point down, seen from the source text: inside functions too, but not under `if TYPE_CHECKING`.

The layers are the ones of the import-linter contract in pyproject.toml; there is no second list.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.source_imports import imports_of, is_module, module_name, source_files

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dynograd"

# What a plain import must not load: each is imported where it is first needed.
HEAVY = [
    "cuda",
    "matplotlib",
    "mpi4py",
    "numba",
    "numba.cuda",
    "onnx",
    "safetensors",
    "scipy",
    "torch",
    "tqdm",
    "triton",
]


class Place(NamedTuple):
    layer: int
    """Counted from the top; the package itself is at -1, above them all."""
    text: str
    """The layer's line in the contract."""
    may_meet: bool
    """Whether modules of this layer may import each other."""


def contract_layers(pyproject=ROOT / "pyproject.toml"):
    """The place of every module that the contract names."""
    contracts = tomllib.loads(pyproject.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["type"] == "layers"]
    places = {}
    for number, text in enumerate(contract["layers"]):
        for name in text.replace("|", ":").split(":"):
            places[name.strip().strip("()")] = Place(number, text, "|" not in text)
    return places


def unit_of(module):
    """`dynograd.nn.layers.rnn` is in the unit `nn`; the package itself is in the unit ``."""
    return module.partition(".")[2].partition(".")[0]


def up_imports(package, places):
    """One sentence for each import that does not point down."""
    above = Place(-1, "the package itself", True)
    for path in source_files(package):
        name = module_name(path, package)
        here = places.get(unit_of(name))
        if here is None:  # the package itself, or a module without layer, which is another test's business
            continue
        for line, module in imports_of(path, package):
            unit = unit_of(module)
            there = places.get(unit) if unit else above
            if (
                unit == unit_of(name)
                or there is None
                or there.layer > here.layer
                or (there.layer == here.layer and here.may_meet)
            ):
                continue
            where = f"{path.relative_to(package.parent)}:{line}: imports {module}"
            if there.layer == here.layer:
                yield f"{where}, its sibling in the layer '{here.text}', whose modules must not import each other"
            else:
                yield f"{where}, which points up: from the lower layer '{here.text}' to the upper layer '{there.text}'"


def modules_without_layer(package, places):
    units = {unit_of(module_name(path, package)) for path in source_files(package)} - {""}
    return sorted(units - set(places))


def test_every_module_has_a_layer():
    missing = modules_without_layer(PACKAGE, contract_layers())
    assert not missing, f"give these a layer in the contract of pyproject.toml: {', '.join(missing)}"


def test_every_layer_that_must_exist_does():
    text = (ROOT / "pyproject.toml").read_text()
    missing = [
        name for name in contract_layers() if f"({name})" not in text and not is_module(f"dynograd.{name}", PACKAGE)
    ]
    assert not missing, f"the contract names modules that are not there: {', '.join(missing)}"


def test_imports_point_down():
    wrong = list(up_imports(PACKAGE, contract_layers()))
    assert not wrong, "\n" + "\n".join(wrong)


def test_importing_dynograd_loads_no_heavy_library():
    program = f"import dynograd, sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], f"`import dynograd` loads {done.stdout.strip()}"


# ---------------------------------------------------------------- the checker itself


PLANTED_LAYERS = {
    "nn": Place(0, "nn", False),
    "ops": Place(1, "(ops) | data", False),
    "data": Place(1, "(ops) | data", False),
    "arrays": Place(2, "arrays : errors", True),
    "errors": Place(2, "arrays : errors", True),
}


@pytest.fixture
def planted(tmp_path):
    """A small package `house`; `planted("ops/sums.py", text)` adds a file and returns what the checker says."""
    package = tmp_path / "house"
    for folder in ("", "nn", "ops", "arrays"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").write_text("")
    (package / "errors.py").write_text("")
    (package / "data.py").write_text("")
    (package / "__init__.py").write_text("from house.nn import *\nfrom house.errors import *\n")

    def add(name, text):
        (package / name).write_text(text)
        return list(up_imports(package, PLANTED_LAYERS))

    return add


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("ops/sums.py", "import house.nn\n", 1),
        ("ops/sums.py", "import os, house.nn.layers\n", 1),
        ("ops/sums.py", "from house import nn\n", 1),
        ("ops/sums.py", "from house.nn import Linear\n", 1),
        ("ops/sums.py", "from .. import nn\n", 1),
        ("ops/sums.py", "from ..nn import Linear\n", 1),
        ("ops/sums.py", "def f():\n    if f:\n        from house import nn\n", 3),
        ("ops/sums.py", "from importlib import import_module\nnn = import_module('house.nn')\n", 2),
        ("ops/sums.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import house.nn\n", 4),
        ("ops/__init__.py", "from ..nn import Linear\n", 1),
        ("arrays/__init__.py", "\n\nfrom house.ops import sums\n", 3),
    ],
)
def test_checker_sees_an_import_that_points_up(planted, name, text, line):
    (sentence,) = planted(name, text)
    lower, upper = ("arrays : errors", "(ops) | data") if name.startswith("arrays") else ("(ops) | data", "nn")
    assert sentence.startswith(f"house/{name}:{line}: ")
    assert f"the lower layer '{lower}'" in sentence
    assert f"the upper layer '{upper}'" in sentence


def test_checker_sees_siblings_that_must_not_meet(planted):
    (sentence,) = planted("ops/sums.py", "from house.data import Dataset\n")
    assert "house/ops/sums.py:1: imports house.data, its sibling" in sentence


def test_checker_counts_the_package_itself_as_the_top(planted):
    (sentence,) = planted("ops/sums.py", "from house import Tensor\n")
    assert "imports house, which points up" in sentence


@pytest.mark.parametrize(
    "text",
    [
        "from house import arrays, errors\nimport house.errors as e\n",
        "from house.ops.other import f\nfrom . import g\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house import nn\n",
        "import typing\nif typing.TYPE_CHECKING:\n    from house.nn import Linear\n",
        "import household, os\n",
    ],
)
def test_checker_allows_imports_that_point_down(planted, text):
    assert planted("ops/sums.py", text) == []
    assert planted("arrays/memory.py", "from house import errors\n") == []


def test_checker_sees_a_module_without_layer(planted, tmp_path):
    planted("ops/sums.py", "")
    (tmp_path / "house" / "attic.py").write_text("")
    assert modules_without_layer(tmp_path / "house", PLANTED_LAYERS) == ["attic"]
