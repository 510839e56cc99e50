"""How scalar functions for Numba kernels are written: a body for each type, and polynomials by their coefficients."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dynograd.kernels.build.compiling_numba import IN_ORDER, PIPELINE, compile_source

_INLINED: Any = {"error_model": "numpy", "fastmath": set(IN_ORDER), "forceinline": True, **PIPELINE}


def in_float32(narrow: Callable[..., Any]) -> Callable[[Any], Any]:
    """Makes a function of floats one for kernels: its own body is for float64, that of `narrow` for float32."""

    def decorated(wide: Any) -> Any:
        def of_one(x):
            return narrow if x == types.float32 else wide

        def of_two(x, y):
            return of_one(x)

        overload(wide, jit_options=_INLINED)(of_one if wide.__code__.co_argcount == 1 else of_two)
        return wide

    return decorated


def polynomial(*coefficients: float) -> Any:
    """A polynomial in float32 as a function for kernels, by Horner's rule; the coefficient of the highest power comes first."""
    first, *rest = [f"np.float32({coefficient!r})" for coefficient in coefficients]
    lines = [f"    value = value * x + {coefficient}\n" for coefficient in rest]
    source = f"def polynomial(x):\n    value = {first}\n{''.join(lines)}    return value\n"
    return compile_source(source, "polynomial", {"np": np}, in_order=True, inline=True)
