"""Numbers for the tests of GPU kernels, and how near results must be."""

from __future__ import annotations

from typing import Any

import numpy

__all__ = ["close", "numbers"]

_TOLERANCES = {"float64": 1e-9, "float32": 3e-5, "float16": 6e-3, "bfloat16": 5e-2}


def numbers(seed: int, shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    """Normal numbers of that dtype."""
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(result: Any, wanted: Any, dtype: Any) -> None:
    """Compares a CudaArray with numbers, as exactly as the dtype's digits allow, relative to the largest."""
    shown = result.numpy()
    wanted = numpy.asarray(wanted)
    assert shown.shape == wanted.shape
    scale = max(1.0, float(numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=0.0)))
    tolerance = _TOLERANCES[str(numpy.dtype(dtype))]
    numpy.testing.assert_allclose(
        shown.astype("float64"), wanted.astype("float64"), rtol=tolerance, atol=tolerance * scale
    )
