"""The stubs say what Tensor and `dynograd` have."""

import inspect

import pytest

import dynograd
from tools import make_stubs


@pytest.mark.parametrize(
    ("path", "text"),
    [(make_stubs.METHODS, make_stubs.stub_of_methods), (make_stubs.FUNCTIONS, make_stubs.stub_of_functions)],
    ids=["methods", "functions"],
)
def test_the_stub_is_up_to_date(path, text):
    assert path.read_text(encoding="utf-8") == text(), "run `python -m tools.make_stubs` (or `make docs`)"


def test_the_stub_has_every_public_method():
    text = make_stubs.stub_of_methods()
    own = make_stubs.own_names()
    missing = [
        name
        for name, member in vars(dynograd.Tensor).items()
        if not name.startswith("_")
        and name not in own
        and inspect.isfunction(member)
        and f"    def {name}(" not in text
    ]
    assert not missing


def test_results_as_type_checkers_see_them():
    text = make_stubs.stub_of_methods()
    assert "    def relu(self, inplace: Any = ...) -> Tensor: ..." in text
    assert "    def add_(self, other: Any, tensor: Any = ..., *, alpha: Any = ...) -> Tensor: ..." in text
    for name in ("max", "split", "unbind"):  # several tensors, or as many as the arguments say
        (line,) = [line for line in text.splitlines() if f"def {name}(" in line]
        assert line.endswith("-> Any: ...")
