"""The stubs say what Tensor and `dynograd` have."""

import inspect

import pytest

import dynograd
from tools import make_stubs


@pytest.mark.parametrize("path", make_stubs.texts(), ids=lambda path: path.stem)
def test_the_stub_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == make_stubs.texts()[path](), (
        "run `python -m tools.make_stubs` (or `make docs`)"
    )


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


METHODS = {
    "relu": "(self, inplace: builtins.bool = False) -> Tensor",
    "add_": "(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor",
    "__radd__": "(self, other: Tensor | _Number) -> Tensor",
    "matmul": "(self, other: Tensor) -> Tensor",
    "unbind": "(self, dim: builtins.int = 0) -> tuple[Tensor, ...]",
    "topk": "(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, "
    "*, axis: _Ints | None = None) -> _return_types.topk",
}
FUNCTIONS = {
    "softmax": "(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor",
    "cat": "(tensors: Sequence[Tensor], dim: _Ints = 0, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor",
    "linear": None,  # of nn.functional
    "absolute_power": None,  # an inner op
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [(make_stubs.stub_of_methods, METHODS), (make_stubs.stub_of_functions, FUNCTIONS)],
    ids=["methods", "functions"],
)
def test_what_type_checkers_see(text, rows):
    lines = {line.strip().partition("(")[0]: line.strip() for line in text().splitlines()}
    for name, form in rows.items():
        assert lines.get(f"def {name}") == (None if form is None else f"def {name}{form}:")


def test_forms_of_one_function():
    lines = [line for line in make_stubs.stub_of_functions().splitlines() if line.startswith("def max(")]
    assert [line.rpartition("-> ")[2] for line in lines] == [
        "Tensor:",
        "_return_types.max:",
        "Tensor:",
        "_return_types.max:",
    ]
