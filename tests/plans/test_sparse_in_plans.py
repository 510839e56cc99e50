"""Products with sparse matrices in plans: rows and columns are those of each step."""

from __future__ import annotations

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering import lower
from tests.plans.lowering_rows import Made, Row, check, run, tensor
from tests.plans.twins import difference, overwritten_between_steps, seen

F, ROWS, COLUMNS, ENTRIES, WIDTH = "float32", 12, 9, 40, 6


def places(random):
    """Where rows begin, and columns, in which entries may come twice."""
    cuts = numpy.sort(random.integers(0, ENTRIES + 1, ROWS - 1))
    return torch.tensor(numpy.concatenate([[0], cuts, [ENTRIES]])), torch.tensor(random.integers(0, COLUMNS, ENTRIES))


def product(height, *numbers, seed=None):
    def make(random, dtype):
        own = random if seed is None else numpy.random.default_rng(seed)
        return (tensor(random, dtype, ENTRIES), *places(own), tensor(random, dtype, height, WIDTH), *numbers)

    return make


def sampled(random, dtype):
    return (tensor(random, dtype, ROWS, WIDTH), tensor(random, dtype, COLUMNS, WIDTH), *places(random))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_matrices(dtype):
    check(Row("sparse_product", product(COLUMNS)), dtype, "op")
    check(Row("sparse_transposed_product", product(ROWS, COLUMNS)), dtype, "op")
    check(Row("sparse_sampled", sampled), dtype, "op")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rules(dtype):
    check(Row("sparse_product", product(COLUMNS)), dtype, "rule")


@pytest.mark.parametrize("place, value, told", [(1, ENTRIES + 1, "row starts"), (0, 1, "row starts"), (-1, 1, "row starts")])  # fmt: skip
def test_rows_that_do_not_fit_raise_what_eager_raises(place, value, told):
    created = Made(Row("sparse_product", product(COLUMNS)), F, 1)
    lowered = lower(created.call)
    run(lowered)
    created.call.inputs[1][place] = value
    with pytest.raises(IndexError, match=told):
        run(lowered)


@pytest.mark.parametrize("value", [-1, COLUMNS])
def test_columns_outside_raise_what_eager_raises(value):
    created = Made(Row("sparse_product", product(COLUMNS)), F, 1)
    lowered = lower(created.call)
    created.call.inputs[2][7] = value
    with pytest.raises(IndexError, match="out of range"):
        run(lowered)


def steps(compiled_by):
    """Graphs with as many edges, others in each step."""
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(WIDTH, 16), nn.Linear(16, 3)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(crow, col, values, x, labels):
        optimizer.zero_grad()
        matrix = torch.sparse_csr_tensor(crow, col, values, (COLUMNS, COLUMNS))
        h = torch.sparse.mm(matrix, model[0](x)).relu()
        loss = nn.functional.cross_entropy(torch.sparse.mm(matrix, model[1](h)), labels)
        loss.backward()
        optimizer.step()
        return loss

    step = compiled_by(step)
    random = numpy.random.default_rng(0)
    results = []
    for _ in range(10):
        cuts = numpy.sort(random.integers(0, ENTRIES + 1, COLUMNS - 1))
        crow = torch.tensor(numpy.concatenate([[0], cuts, [ENTRIES]]))
        col = torch.tensor(random.integers(0, COLUMNS, ENTRIES))
        values, x = (torch.from_numpy(random.random(shape).astype(F)) for shape in (ENTRIES, (COLUMNS, WIDTH)))
        labels = torch.from_numpy(random.integers(0, 3, COLUMNS))
        results.append(seen([step(crow, col, values, x, labels), [*model.parameters()]]))
    return results


def test_a_large_input_beside_a_sparse_matrix():
    """Where kernels read the input is tried on what the recorded step had: row starts, too, are those of a matrix."""
    crow, col = torch.arange(COLUMNS + 1), torch.arange(COLUMNS)
    values, x = torch.ones(COLUMNS), torch.ones(COLUMNS, 1 << 12)

    def step(crow, col, x):
        matrix = torch.sparse_csr_tensor(crow, col, values, (COLUMNS, COLUMNS))
        return torch.sparse.mm(matrix, (x * 2).exp().neg()).sum(1)

    compiled = Compiled(step, always=True)
    for _ in range(5):
        numpy.testing.assert_allclose(compiled(crow, col, x), step(crow, col, x), rtol=1e-5)
    assert compiled.walked >= 3, compiled.report()


def test_steps_are_walked():
    created = []

    def compiled_by(function):
        created.append(Compiled(function))
        return created[-1]

    expected = steps(lambda function: function)
    with overwritten_between_steps():
        results = steps(compiled_by)
    for number, (element, other) in enumerate(zip(expected, results)):
        differing = difference(element, other, 2e-4)
        assert differing is None, f"step {number}: {differing}\n{created[0].report()}"
    report = created[0].report()
    assert created[0].walked >= 6 and not [
        call for way in report.ways for call in way.in_python if "sparse" in call.name
    ], report
