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
    from dynograd.kernels.segment import segments_cuda

    monkeypatch.setattr(segments_cuda, "_BLOCK", 64)
    rng = numpy.random.default_rng(columns)
    starts, ends = bounds(lengths)
    values = (rng.integers(1, 5, (ends[-1], columns)) / 2).astype(dtype)
    if kind == "prod":
        values[rng.uniform(size=values.shape) < 0.1] = 0
    elif columns == 3:
        values[1, 1] = numpy.nan
    _, expected = compared("segments", "reduce_segments", values, starts, ends, kind)
    g = rng.normal(size=expected.shape).astype(dtype)
    output = None if kind == "prod" else expected
    compared("segments", "segment_gradients", g, values, output, starts, ends, kind)
    compared("segments", "spread_segments", g, starts, ends - 1, len(values))


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_few_long_segments_are_cut_into_pieces(kind, monkeypatch):
    from dynograd.kernels.segment import segments_cuda

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
    argument = [[1, 2, 3], [0, 6, 0]]
    for reduce in ("sum", "mean", "max", "prod"):
        shown = []
        for device in ("cpu", "cuda"):
            x = dynograd.tensor(data, device=device, requires_grad=True)
            lengths = dynograd.tensor(argument, device=device)
            result = dynograd.segment_reduce(x, reduce, lengths=lengths, axis=1, initial=1)
            (slope,) = grad((result * result).sum(), x, create_graph=True)
            (second,) = grad((slope * slope).sum(), x)
            shown.append([element.detach().cpu().numpy() for element in (result, slope, second)])
        for mine, other in zip(*shown, strict=True):
            numpy.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)


def test_lengths_that_do_not_fit_are_reported_and_read_nothing():
    x = dynograd.ones(4, device="cuda")
    result = dynograd.segment_reduce(x, "sum", lengths=dynograd.tensor([1, 90], device="cuda"), unsafe=True)
    assert result.tolist() == [1, 3]
    with pytest.raises(IndexError, match="segment_reduce: the sum of lengths: index 3"):
        dynograd.segment_reduce(x, "sum", lengths=dynograd.tensor([1, 2], device="cuda")).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_statistics_and_combinations(lengths, dtype):
    rng = numpy.random.default_rng(1)
    starts, ends = bounds(lengths)
    values, g = rng.normal(size=(ends[-1], 3)).astype(dtype), rng.uniform(1, 2, (len(lengths), 3)).astype(dtype)
    for centered in (False, True):
        compared("segments", "squares", values, starts, ends, centered)
    _, sums = compared("segments", "log_sums", values, starts, ends)
    compared("segments", "log_sum_gradients", g, values, sums, starts, ends)
    _, weights = compared("segments", "softmax_segments", values, starts, ends)
    compared("segments", "softmax_gradients", values, weights, starts, ends)
    for how in ("add", "mul", "div"):
        compared("segments", "combine", values, g, starts, ends, how)
        compared("segments", "combine", values, g[:, :1], starts, ends, how)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_scans(lengths):
    rng = numpy.random.default_rng(2)
    starts, ends = bounds(lengths)
    values, decay = rng.uniform(-1.2, 1.2, (2, ends[-1], 3))
    for join in ("sum", "prod"):
        compared("segment_scans", "scan_segments", values, starts, ends, join)
    compared("segment_scans", "scan_segments", values, starts, ends, "sum", True)
    compared("segment_scans", "log_scan_segments", values * 30, starts, ends)
    for backwards in (False, True):
        compared("segment_scans", "recur_segments", values, decay, starts, ends, backwards)
    for step in (1, -2):
        compared("segment_scans", "move_segments", values, starts, ends, step, 1)


@pytest.mark.parametrize("lengths", [[3, 2, 40, 5], [37], [0, 4, 0, 3]], ids=str)
def test_orders(lengths):
    """With ties and NaN; what needs rows of a segment is asked of those that have some."""
    rng = numpy.random.default_rng(3)
    starts, ends = bounds(lengths)
    values = rng.integers(-4, 5, (ends[-1], 3)).astype("float32")
    values[1, 1] = numpy.nan
    for how in ("ascending", "descending", "cummax", "cummin", "max", "min"):
        compared("segment_orders", "places_of_segments", values, starts, ends, how, 0)
    filled = numpy.array(lengths) > 1
    starts, ends = starts[filled], ends[filled]
    for how, k in {"largest": 2, "smallest": 2, "kth": 1, "median": 0, "nanmedian": 0}.items():
        compared("segment_orders", "places_of_segments", values, starts, ends, how, k)
    places = rng.integers(-1, 4, (2 * len(starts), 3))
    compared("segment_orders", "gather_segments", values, places, starts, ends, 2)
    g = rng.normal(size=places.shape).astype("float32")
    compared("segment_orders", "scatter_segments", g, places, starts, ends, 2, len(values))
