"""gather and scatter along the ragged dim, with an index that has rows of its own, and running sums: what each row alone gives, in one call."""

import numpy
import pytest

import dynograd
from dynograd import from_numpy, ragged_tensor
from dynograd.ragged.families import places

LENGTHS, COUNTS = [3, 5, 1, 2], [2, 0, 4, 1]


@pytest.fixture
def drawn():
    rng = numpy.random.default_rng(0)
    rows = [from_numpy(rng.normal(size=(n, 4))) for n in LENGTHS]
    index = [from_numpy(rng.integers(0, n, (m, 4))) for n, m in zip(LENGTHS, COUNTS, strict=True)]
    source = [from_numpy(rng.normal(size=(m, 4))) for m in COUNTS]
    dense = [from_numpy(rng.integers(0, n, (2, 4))) for n in LENGTHS], list(from_numpy(rng.normal(size=(4, 2, 4))))
    return rows, (index, source), dense


OPS = {
    "gather": lambda x, dim, index, source: x.gather(dim, index),
    "scatter": lambda x, dim, index, source: x.scatter(dim, index[..., :1], source[..., :1]),
    "scatter of a number": lambda x, dim, index, source: x.scatter(dim, index, 2.0),
    "scatter_add": lambda x, dim, index, source: x.scatter_add(dim, index, source),
    "scatter_reduce": lambda x, dim, index, source: x.scatter_reduce(dim, index, source, "amax"),
}


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_each_row_has_places_of_its_own(name, dense, drawn, monkeypatch):
    monkeypatch.setattr(places, "grouped", None)  # all rows at once
    rows, (index, source) = drawn[0], drawn[2 if dense else 1]
    together = dynograd.stack if dense else ragged_tensor
    x, alone = ragged_tensor(rows).requires_grad_(), [row.clone().requires_grad_() for row in rows]
    results = OPS[name](x, 1, together(index), together(source))
    expected = [OPS[name](*each) for each in zip(alone, [0] * 4, index, source, strict=True)]
    (results * results).sum().backward()
    sum([(each * each).sum() for each in expected]).backward()
    for element, other, row, g in zip(results, expected, alone, x.grad, strict=True):
        assert element.tolist() == other.tolist() and numpy.allclose(g.numpy(), row.grad.numpy())


@pytest.mark.parametrize(
    "value, lengths, words",
    [
        (2, [3, 2], "index 2 is out of bounds for row 1, which has 2 elements. Expected 0 to 1."),
        (-1, [3, 2], "index -1 is out of bounds for row 0, which has 3 elements. Expected 0 to 2."),
        (0, [3, 0], "index 0 is out of bounds for row 1, which has 0 elements. Give it no index, or an element."),
    ],
)
def test_an_index_outside_of_its_row(value, lengths, words):
    """Even where the packed elements go on there."""
    x = ragged_tensor([dynograd.ones(length, 1) for length in lengths])
    with pytest.raises(IndexError, match="gather: " + words):
        x.gather(1, dynograd.full((2, 1, 1), value))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_running_sums_of_whole_numbers_wrap_in_their_row_alone(dtype):
    values = numpy.random.default_rng(0).integers(0, 2, (6, 3)).astype(dtype)
    if dtype == "int64":
        values[2] = numpy.iinfo(numpy.int64).max
    x = dynograd.RaggedTensor(dynograd.from_numpy(values), [0, 3, 0, 1, 2, 0])
    rows = numpy.split(values.astype(numpy.int64), [3, 4])
    expected = numpy.concatenate([numpy.cumsum(row, 0) for row in rows])
    result = x.cumsum(1)
    assert result.dtype == dynograd.int64
    assert numpy.array_equal(result.values.numpy(), expected)
