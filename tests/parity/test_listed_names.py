"""What torch lists and dynograd has is listed here, too. From the top folder:

python -m tests.parity.test_listed_names       writes `dynograd/base/listed.txt` anew
"""

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import dynograd
from dynograd.base import listing

ROOT = Path(__file__).parents[2]
FILE = Path(listing.__file__).with_name("listed.txt")
SAME = "nn nn.functional nn.init optim optim.lr_scheduler amp autograd cuda distributions profiler sparse Tensor"
PLACES = {".": "", "data": "utils.data"} | {place: place for place in SAME.split()}
HEAD = "# What PyTorch 2.13.0 lists and dynograd has. Written by `python -m tests.parity.test_listed_names`; do not edit it.\n"


def place_of(library, path):
    if path in ("", "."):
        return library
    if path == "Tensor":
        return library.Tensor
    return importlib.import_module(f"{library.__name__}.{path}")


def names_of_torch(path):
    """Public names that are torch's own, not what its files import (`math`, `Any`)."""
    place = place_of(torch, path)
    for name in dir(place):
        value = getattr(place, name, None)
        if isinstance(value, types.ModuleType):
            home = value.__name__
        else:
            home = getattr(value, "__module__", None) or "torch"
        if not name.startswith("_") and name != "TYPE_CHECKING" and str(home).partition(".")[0] == "torch":
            yield name


def names(path):
    ours = place_of(dynograd, path)
    return [name for name in sorted(set(names_of_torch(PLACES[path]))) if hasattr(ours, name)]


def text():
    """In a process of its own, since both libraries list what has been imported meanwhile."""
    program = "from tests.parity import test_listed_names as here\nfor path in here.PLACES: print(f'{path}:', *here.names(path))"
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", PLACES)
def test_what_torch_lists_is_listed(path):
    assert not listing.of_pytorch()[path.removeprefix(".")] - set(dir(place_of(dynograd, path)))


def test_the_file_is_up_to_date():
    assert FILE.read_text(encoding="utf-8") == HEAD + text(), "run `python -m tests.parity.test_listed_names`"


def main():
    FILE.write_text(HEAD + text(), encoding="utf-8")


if __name__ == "__main__":
    main()
