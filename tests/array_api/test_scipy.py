"""SciPy's functions of tensors, in a process of their own: SciPy reads its switch when it is first imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import numpy, scipy.fft, scipy.integrate, scipy.ndimage, scipy.signal, scipy.special, scipy.stats
import dynograd as dg

values = numpy.random.default_rng(0).uniform(0.1, 0.9, (5, 6))
CALLS = {
    "logsumexp": lambda x: scipy.special.logsumexp(x, axis=1),
    "softmax": lambda x: scipy.special.softmax(x, axis=0),
    "gammaln": scipy.special.gammaln,
    "erf": scipy.special.erf,
    "xlogy": lambda x: scipy.special.xlogy(x, 2 * x),
    "fft": scipy.fft.fft,
    "dct": scipy.fft.dct,
    "zscore": scipy.stats.zscore,
    "skew": lambda x: scipy.stats.skew(x, axis=1),
    "gmean": scipy.stats.gmean,
    "ttest_1samp": lambda x: scipy.stats.ttest_1samp(x, 0.5).pvalue,
    "pearsonr": lambda x: scipy.stats.pearsonr(x[0, :], x[1, :]).statistic,
    "iqr": scipy.stats.iqr,
    "gaussian_filter": lambda x: scipy.ndimage.gaussian_filter(x, 1),
    "fftconvolve": lambda x: scipy.signal.fftconvolve(x, x),
    "detrend": scipy.signal.detrend,
    "trapezoid": scipy.integrate.trapezoid,
    "cumulative_trapezoid": scipy.integrate.cumulative_trapezoid,
}
for name, call in CALLS.items():
    found, expected = call(dg.tensor(values)), call(values)
    assert type(found) is dg.Tensor, (name, type(found))
    numpy.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12, err_msg=name)

x = dg.tensor(values[0], requires_grad=True)
scipy.special.logsumexp(x).backward()
numpy.testing.assert_allclose(x.grad.numpy(), scipy.special.softmax(values[0]))
x.grad = None
(scipy.stats.gmean(x) + scipy.special.erf(x).sum() + scipy.stats.zscore(x)[0]).backward()
assert x.grad.isfinite().all()
print("all", len(CALLS))
"""


@pytest.mark.slow
def test_scipy_computes_with_tensors_and_gradients():
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "all 18\n", done.stdout + done.stderr
