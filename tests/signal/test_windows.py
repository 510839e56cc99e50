"""Windows against SciPy's."""

import numpy
import pytest
from scipy.signal import windows as scipy_windows

import dynograd
from dynograd.signal import windows

CASES = [
    ("bartlett", {}, {}),
    ("blackman", {}, {}),
    ("cosine", {}, {}),
    ("exponential", {"tau": 1.5}, {"tau": 1.5}),
    ("gaussian", {"std": 0.8}, {"std": 0.8}),
    ("general_cosine", {"a": [0.46, 0.23, 0.31]}, {"a": [0.46, 0.23, 0.31]}),
    ("general_hamming", {"alpha": 0.6}, {"alpha": 0.6}),
    ("hamming", {}, {}),
    ("hann", {}, {}),
    ("kaiser", {"beta": 4.0}, {"beta": 4.0}),
    ("nuttall", {}, {}),
]


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 12])
@pytest.mark.parametrize(("name", "ours", "theirs"), CASES, ids=[case[0] for case in CASES])
def test_windows(name, ours, theirs, count, sym):
    expected = getattr(scipy_windows, name)(count, **theirs, sym=sym)
    result = getattr(windows, name)(count, **ours, sym=sym, dtype=dynograd.float64)
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-15)
    narrow = getattr(windows, name)(count, **ours, sym=sym)
    assert narrow.dtype is dynograd.float32
    numpy.testing.assert_allclose(narrow.numpy(), expected, rtol=2e-7, atol=1e-8)


def test_options():
    created = windows.hann(4, requires_grad=True, layout=dynograd.strided, device="cpu")
    assert created.requires_grad and created.is_leaf
    expected = scipy_windows.exponential(5, center=1.0, tau=2.0, sym=False)
    numpy.testing.assert_allclose(windows.exponential(5, center=1.0, tau=2.0, sym=False).numpy(), expected, rtol=1e-6)
    assert dynograd.signal.windows is windows


REFUSED = [
    (lambda: windows.hann(-1), ValueError, "hann: .*M=-1"),
    (lambda: windows.hann(3, dtype=dynograd.float16), ValueError, "hann: .*float16"),
    (lambda: windows.hann(3, beta=1), TypeError, "beta"),
    (lambda: windows.hann(3, layout="dynograd.sparse_coo"), ValueError, "sparse_coo"),
    (lambda: windows.exponential(3, tau=0), ValueError, "Tau .*0"),
    (lambda: windows.exponential(3, center=1.0), ValueError, "Center .*1.0"),
    (lambda: windows.gaussian(3, std=-1), ValueError, "-1"),
    (lambda: windows.kaiser(3, beta=-1), ValueError, "-1"),
    (lambda: windows.general_cosine(3, a=1.0), TypeError, "list/tuple, got float"),
    (lambda: windows.general_cosine(3, a=[]), ValueError, "empty"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
