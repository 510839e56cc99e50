"""Reductions over segments on a GPU against the CPU."""

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from tests.gpu.twins import compared

LENGTHS = {
    "short and empty ones": [2, 0, 5, 1, 0, 3],
    "one": [37],
    "many": list(range(40)),
    "one that is longer than the others": [1, 150, 2],
}


def bounds(lengths):
    ends = numpy.cumsum(lengths)
    return ends - lengths, ends


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("columns, dtype", [(1, "float32"), (3, "float64"), (20, "float32")])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_reduce_spread_and_gradients(lengths, columns, dtype, kind, monkeypatch):
    from dynograd.kernels import segments_cuda

    monkeypatch.setattr(segments_cuda, "_BLOCK", 64)
    rng = numpy.random.default_rng(columns)
    starts, ends = bounds(lengths)
    values = (rng.integers(1, 5, (ends[-1], columns)) / 2).astype(dtype)
    if kind == "prod":
        values[rng.uniform(size=values.shape) < 0.1] = 0
    elif columns == 3:
        values[1, 1] = numpy.nan
    _, wanted = compared("segments", "reduce_segments", values, starts, ends, kind)
    g = rng.normal(size=wanted.shape).astype(dtype)
    output = None if kind == "prod" else wanted
    compared("segments", "segment_gradients", g, values, output, starts, ends, kind)
    compared("segments", "spread_segments", g, starts, ends - 1, len(values))


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_few_long_segments_are_cut_into_pieces(kind, monkeypatch):
    from dynograd.kernels import segments_cuda

    monkeypatch.setattr(segments_cuda, "_PIECE", 16)
    monkeypatch.setattr(segments_cuda, "_BLOCK", 32)
    starts, ends = bounds([3, 0, 200, 40])
    values = numpy.random.default_rng(0).normal(size=(250, 2)).astype("float32")
    compared("segments", "reduce_segments", values, starts, ends, kind)
    compared("segments", "spread_segments", values[:4], starts, ends, 250)


def test_nothing_at_all():
    none = numpy.empty(0, numpy.int64)
    compared("segments", "reduce_segments", numpy.empty((0, 3)), none, none, "sum")
    compared("segments", "reduce_segments", numpy.empty((0, 3)), numpy.zeros(2, int), numpy.zeros(2, int), "max")
    compared("segments", "spread_segments", numpy.empty((0, 3)), none, none, 4)


def test_segment_reduce_and_its_derivatives():
    data = numpy.random.default_rng(0).normal(size=(2, 6, 3))
    given = [[1, 2, 3], [0, 6, 0]]
    for reduce in ("sum", "mean", "max", "prod"):
        shown = []
        for device in ("cpu", "cuda"):
            x = dynograd.tensor(data, device=device, requires_grad=True)
            lengths = dynograd.tensor(given, device=device)
            found = dynograd.segment_reduce(x, reduce, lengths=lengths, axis=1, initial=1)
            (slope,) = grad((found * found).sum(), x, create_graph=True)
            (second,) = grad((slope * slope).sum(), x)
            shown.append([one.detach().cpu().numpy() for one in (found, slope, second)])
        for mine, other in zip(*shown, strict=True):
            numpy.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)


def test_lengths_that_do_not_fit_are_reported_and_read_nothing():
    x = dynograd.ones(4, device="cuda")
    found = dynograd.segment_reduce(x, "sum", lengths=dynograd.tensor([1, 90], device="cuda"), unsafe=True)
    assert found.tolist() == [1, 3]
    with pytest.raises(IndexError, match="segment_reduce: the sum of lengths: index 3"):
        dynograd.segment_reduce(x, "sum", lengths=dynograd.tensor([1, 2], device="cuda")).tolist()
