"""What every op in the table must have: a row, a docstring, a gradient when it is differentiable, and forward mode."""

import importlib
from functools import cache
from pathlib import Path

import pytest

from dynograd import ops
from dynograd.ops.op import registry

HERE = Path(__file__).parent
assert ops.families  # importing them fills the registry
NAMES = sorted({key.removesuffix(".public") for key in registry})


@cache
def rows_by_name():
    """The rows of all tables in tests/ops, by the op that they are about."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for value in vars(importlib.import_module(f"tests.ops.{path.stem}")).values():
            for row in getattr(value, "rows", ()) if callable(value) else ():
                for name in (row.name.rpartition(".")[2], *row.covers):
                    found.setdefault(name, []).append(row)
    return found


def entries(name):
    return [registry[key] for key in (name, f"{name}.public") if key in registry]


def place_of(name):
    """The test file where a row of this op belongs."""
    parts = entries(name)[0].forward.__module__.split(".")[1:]
    return "/".join(["tests", *parts[:-1], f"test_{parts[-1]}.py"])


@pytest.mark.parametrize("name", NAMES)
def test_has_a_row(name):
    assert name in rows_by_name(), (
        f"{name} has no row: write Row({name!r}, ...) in {place_of(name)}, or name it in a row's covers"
    )


@pytest.mark.parametrize("name", NAMES)
def test_has_a_docstring(name):
    for entry in entries(name):
        summary = (entry.function.__doc__ or "").strip().partition("\n")[0]
        assert summary, f"{entry} in {entry.forward.__module__} has no docstring"
        assert summary.rstrip().endswith((".", ":", "`")) or "\n\n" not in entry.function.__doc__, (
            f"the first line of the docstring of {name} should be a sentence: {summary!r}"
        )


@pytest.mark.parametrize(
    "name", [name for name in NAMES if registry[name].kind != "composed" and registry[name].differentiable]
)
def test_differentiable_ops_have_every_derivative(name):
    entry = registry[name]
    again = entry.derivative or entry.backward_rule or entry.decomposition
    assert again, f"{name} is differentiable but has no backward (or decomposition) that can be differentiated again"
    rows = rows_by_name().get(name, [])
    assert any(row.grad is not False for row in rows), f"no row of {name} tries its gradient; see {place_of(name)}"
    assert any(row.grad is not False and row.jvp for row in rows), f"no row of {name} tries jvp; see {place_of(name)}"


def test_rows_are_about_things_that_exist():
    unknown = [
        name
        for name, rows in rows_by_name().items()
        for row in rows
        if name not in NAMES and row.function is None and "." not in row.name
    ]
    assert not unknown, f"rows name {unknown}, which are no registered ops; covers= takes registry names"
