"""What every op in the table must have: a row, a docstring, a gradient when it is differentiable, and forward mode."""

from functools import cache, partial

from dynograd import ops
from dynograd.ops.op import registry
from tests.ops.tables import all_rows
from tests.support.cases import run_all

assert ops.families  # importing them fills the registry
NAMES = sorted({key.removesuffix(".public") for key in registry})


@cache
def rows_by_name():
    """The rows of all tables in tests/ops, by the op that they are about."""
    result = {}
    for _, row in all_rows():
        for name in (row.name.rpartition(".")[2], *row.covers):
            result.setdefault(name, []).append(row)
    return result


def entries(name):
    return [registry[key] for key in (name, f"{name}.public") if key in registry]


def place_of(name):
    """The test file where a row of this op belongs."""
    parts = entries(name)[0].forward.__module__.split(".")[1:]
    return "/".join(["tests", *parts[:-1], f"test_{parts[-1]}.py"])


def test_every_op_has_a_row():
    missing = [f"write Row({name!r}, ...) in {place_of(name)}" for name in NAMES if name not in rows_by_name()]
    assert not missing, "; ".join(missing) + "; or name the op in a row's covers"


def test_every_op_has_a_docstring():
    run_all("docstring", [(name, partial(check_docstring, name)) for name in NAMES])


def check_docstring(name):
    for entry in entries(name):
        summary = (entry.function.__doc__ or "").strip().partition("\n")[0]
        assert summary, f"{entry} in {entry.forward.__module__} has no docstring"
        assert summary.rstrip().endswith((".", ":", "`")) or "\n\n" not in entry.function.__doc__, (
            f"the first line of the docstring of {name} should be a sentence: {summary!r}"
        )


def test_differentiable_ops_have_every_derivative():
    names = [name for name in NAMES if registry[name].kind != "composed" and registry[name].differentiable is True]
    run_all("derivatives", [(name, partial(check_derivatives, name)) for name in names])


def check_derivatives(name):
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
