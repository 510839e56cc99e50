"""`cauchy_`, `geometric_` and `log_normal_`: their distributions, dtypes and errors."""

import numpy
import pytest
from scipy import stats

import dynograd as dg


@pytest.mark.parametrize(
    ("fill", "distribution"),
    [
        (lambda x: x.cauchy_(1.0, 2.0), stats.cauchy(1.0, 2.0)),
        (lambda x: x.log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=numpy.exp(0.5))),
    ],
    ids=["cauchy", "log_normal"],
)
def test_distributions(fill, distribution):
    dg.manual_seed(0)
    x = dg.zeros(20000)
    assert fill(x) is x
    assert stats.kstest(x.numpy(), distribution.cdf).pvalue > 1e-3


def test_geometric_counts_trials():
    dg.manual_seed(0)
    x = dg.zeros(20000, dtype=dg.int64).geometric_(0.3)
    assert x.min().item() == 1
    for trials in (1, 2, 5):
        assert (x == trials).double().mean().item() == pytest.approx(0.3 * 0.7 ** (trials - 1), abs=0.01)


def test_generators_and_dtypes():
    first = dg.zeros(5, dtype=dg.float16).cauchy_(generator=dg.Generator().manual_seed(3))
    again = dg.zeros(5, dtype=dg.float16).cauchy_(generator=dg.Generator().manual_seed(3))
    assert first.tolist() == again.tolist()
    assert first.dtype == dg.float16


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: dg.zeros(2).cauchy_(0, 0), RuntimeError, r"sigma > 0.0.*sigma=0"),
        (lambda: dg.zeros(2).log_normal_(0, -1), RuntimeError, r"std > 0.0.*std=-1"),
        (lambda: dg.zeros(2).geometric_(1), RuntimeError, r"\(0, 1\).*p=1"),
        (lambda: dg.zeros(2, dtype=dg.int64).cauchy_(), NotImplementedError, "int64"),
        (lambda: dg.zeros(2, dtype=dg.int64).log_normal_(), NotImplementedError, "int64"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
