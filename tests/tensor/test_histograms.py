"""Histograms against NumPy's."""

import numpy
import pytest

import dynograd
from dynograd import tensor

NAN = float("nan")


def data(shape=(40,)):
    return numpy.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("kind", [dynograd.float32, dynograd.float64], ids=str)
@pytest.mark.parametrize("low_high", [(0, 0), (-1, 2), (3, 3.5)])
def test_histc(kind, low_high):
    x = data((5, 8)).astype(kind.numpy)
    result = dynograd.histc(tensor(x), 7, *low_high)
    expected, _ = numpy.histogram(x, 7, None if low_high == (0, 0) else low_high)
    assert result.dtype is kind and result.tolist() == expected.tolist()
    assert tensor(x).histc(bins=7, min=low_high[0], max=low_high[1]).tolist() == expected.tolist()


def test_histc_of_few():
    assert dynograd.histc(tensor([2.0, 2.0]), 3).tolist() == [0, 2, 0]
    assert dynograd.histc(tensor([]), 2).tolist() == [0, 0]
    assert dynograd.histc(tensor([0.0, 3.0, 3.1, NAN]), 3, 0, 3).tolist() == [1, 0, 1]
    into = dynograd.empty(2)
    assert dynograd.histc(tensor([1.0, 2.0]), 2, out=into) is into and into.tolist() == [1, 1]
    assert dynograd.histc(tensor([1.0, 2.0], requires_grad=True), 2).requires_grad is False


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins", [5, [-2.0, -0.5, 0.0, 1.5]])
@pytest.mark.parametrize("span", [None, (-1.0, 1.5)])
def test_histogram(bins, span, density, weighted):
    x, weight = data((4, 10)), numpy.random.default_rng(1).uniform(size=(4, 10)) if weighted else None
    expected, edges = numpy.histogram(x, bins, span, density, weight)
    argument = tensor(bins, dtype=dynograd.float64) if isinstance(bins, list) else bins
    result = dynograd.histogram(
        tensor(x), argument, range=span, weight=None if weight is None else tensor(weight), density=density
    )
    numpy.testing.assert_allclose(result.bin_edges.numpy(), edges, rtol=1e-14)
    numpy.testing.assert_allclose(result.hist.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("span", [None, [(-1.0, 1.5), (-0.5, 0.5), (-2.0, 2.0)]])
def test_histogramdd(span, density):
    x, weight = data((60, 3)), numpy.random.default_rng(1).uniform(size=60)
    expected, edges = numpy.histogramdd(x, (2, 3, 4), span, density, weight)
    flat = None if span is None else [end for pair in span for end in pair]
    result = dynograd.histogramdd(tensor(x), [2, 3, 4], flat, tensor(weight), density)
    numpy.testing.assert_allclose(result.hist.numpy(), expected, rtol=1e-12)
    for element, other in zip(result.bin_edges, edges, strict=True):
        numpy.testing.assert_allclose(element.numpy(), other, rtol=1e-14)
    again = dynograd.histogramdd(tensor(x).reshape(4, 15, 3), result.bin_edges, weight=tensor(weight).reshape(4, 15))
    assert (again.hist.sum() - result.hist.sum()).abs() < 1e-9 or density


def test_edges_of_nothing_and_of_one_value():
    result = dynograd.histogram(tensor([]), 2)
    assert result.hist.tolist() == [0, 0] and result.bin_edges.tolist() == [0.0, 0.5, 1.0]
    assert dynograd.histogram(tensor([2.0, 2.0]), 2).bin_edges.tolist() == [1.5, 2.0, 2.5]
    assert dynograd.histogram(tensor([1.0, NAN]), tensor([0.0, 2.0])).hist.tolist() == [1]
    assert dynograd.histogramdd(tensor([[0.0, 1.0]]), 2).hist.shape == (2, 2)


def test_of_batches():
    x = tensor(data((3, 20)))
    result = dynograd.vmap(lambda one: dynograd.histc(one, 4))(x)
    assert result.tolist() == [dynograd.histc(element, 4).tolist() for element in x]
    hist, edges = dynograd.vmap(lambda one: dynograd.histogram(one, 4))(x)
    assert edges.shape == (3, 5) and hist[1].tolist() == dynograd.histogram(x[1], 4).hist.tolist()


X = tensor([1.0, 2.0])
REFUSED = [
    (lambda: dynograd.histc(X, 0), RuntimeError, "bins must be > 0, got 0"),
    (lambda: dynograd.histc(X, 4, 3, 1), RuntimeError, "min=3 and max=1"),
    (lambda: dynograd.histc(tensor([1.0, NAN])), RuntimeError, "not finite"),
    (lambda: dynograd.histc(X.long()), RuntimeError, "histc: .*int64"),
    (lambda: dynograd.histogram(X, 0), RuntimeError, "histogram: bins must be > 0, but got 0"),
    (lambda: dynograd.histogram(X, 2, range=(3.0, 1.0)), RuntimeError, "\\[3.0, 1.0\\]"),
    (lambda: dynograd.histogram(X, 2, weight=tensor([1.0])), RuntimeError, "\\(1,\\) .*\\(2,\\)"),
    (lambda: dynograd.histogramdd(X, 2), RuntimeError, "at least 2 dimensions"),
    (lambda: dynograd.histogramdd(X.reshape(1, 2), [2]), RuntimeError, "size of bins .*got 1 for 2"),
    (lambda: dynograd.histogramdd(X.reshape(1, 2), 2, [0.0, 1.0]), RuntimeError, "4 elements, but got 2"),
    (lambda: dynograd.histogramdd(X.reshape(1, 2), 2, weight=X), RuntimeError, "\\(2,\\) .*\\(1,\\)"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
