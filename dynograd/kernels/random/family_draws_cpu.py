"""Random numbers of the gamma, Poisson and binomial families, by NumPy's generators.

A draw's stream is Philox under the key (seed, offset) of dynograd's generator: `manual_seed` decides the numbers, and draws at different
places are independent. All are computed in float64 and rounded once.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy


def gamma(seed: int, offset: int, concentration: Any) -> Any:
    """Gamma numbers of rate 1 in the shape and dtype of `concentration`; never 0."""
    numbers = _gamma(_stream(seed, offset), numpy.asarray(concentration, numpy.float64))
    kind = concentration.dtype
    return numpy.maximum(numbers.astype(kind), ml_dtypes.finfo(kind).tiny)


def gamma_shares(seed: int, offset: int, concentration: Any) -> Any:
    """Gamma numbers of rate 1 over their sum along the last dim, computed in logarithms: concentrations far below 1 have no 0/0."""
    stream = _stream(seed, offset)
    wide = numpy.asarray(concentration, numpy.float64)
    logs = _log_gamma(stream, wide)
    logs -= logs.max(-1, keepdims=True)
    shares = numpy.exp(logs)
    return (shares / shares.sum(-1, keepdims=True)).astype(concentration.dtype)


def poisson(seed: int, offset: int, rate: Any) -> Any:
    """Poisson numbers in the shape and dtype of `rate`."""
    return numpy.asarray(_stream(seed, offset).poisson(numpy.asarray(rate, numpy.float64))).astype(rate.dtype)


def binomial(seed: int, offset: int, count: Any, probability: Any) -> Any:
    """Successes in `count` trials, in the shape and dtype of `probability`."""
    wide = numpy.asarray(probability, numpy.float64)
    trials = numpy.asarray(count, numpy.float64).astype(numpy.int64)
    return numpy.asarray(_stream(seed, offset).binomial(trials, wide)).astype(probability.dtype)


def gamma_derivative(concentration: Any, sample: Any) -> Any:
    """How a gamma number of rate 1 changes with its concentration while its quantile stays: -(dF/da) / density."""
    from dynograd.kernels.random.family_draws_numba import fill_gamma_derivatives

    kind = sample.dtype
    result = numpy.empty(sample.shape, numpy.float64)
    a, x = (
        numpy.ascontiguousarray(numpy.broadcast_to(array, sample.shape), numpy.float64)
        for array in (concentration, sample)
    )
    fill_gamma_derivatives(a.reshape(-1), x.reshape(-1), result.reshape(-1))
    return result.astype(kind)


def _stream(seed: int, offset: int) -> numpy.random.Generator:
    return numpy.random.Generator(numpy.random.Philox(key=numpy.array([seed, offset], numpy.uint64)))


def _gamma(stream: numpy.random.Generator, concentration: Any) -> Any:
    return numpy.asarray(stream.standard_gamma(concentration))


def _log_gamma(stream: numpy.random.Generator, concentration: Any) -> Any:
    # Gamma(a) is Gamma(a + 1) times U to the power of 1 / a, whose logarithm never underflows.
    above = numpy.log(_gamma(stream, concentration + 1))
    return above - stream.standard_exponential(concentration.shape) / concentration
