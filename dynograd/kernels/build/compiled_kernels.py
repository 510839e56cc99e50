"""Compiled kernels by name, for kernels that leave arrays too small for Numba to NumPy.

Loading Numba costs 0.2 to 0.5 s, a small array in NumPy some 10 us. So small arrays are NumPy's at first; once compiled kernels
are loaded, because a larger array came or after `SMALL_CALLS` small ones, or in batch-invariant mode, they take all sizes. That
depends on what the program did before, never on time: the same program gives the same bits each time that it runs, but a softmax or a norm
of few float32 numbers may round its last bits otherwise before and after that point (`use_batch_invariant` keeps to one way).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dynograd.kernels import module_of
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.sizes import COMPILED_ROWS

SMALL_CALLS = 2048  # at 10 to 150 us instead of 3 to 50: together about what loading Numba costs

_small_calls = 0


class _Kernels(dict[str, Callable[..., Any]]):
    """`["softmax"]` is the runner of a row program, `["losses.total_weight"]` the function of `losses_numba.py`."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        family, _, function = name.rpartition(".")
        if family:
            self[name] = getattr(module_of(f"{family}_numba"), function)
        else:
            programs = import_module("dynograd.kernels.rows.row_formulas").PROGRAMS
            rows, layout = (name[: -len("_inner")], "_inner") if name.endswith("_inner") else (name, "")
            program = import_module("dynograd.kernels.rows.row_programs").RowProgram(rows, programs[rows])
            self[name] = getattr(import_module("dynograd.kernels.rows.row_programs_numba"), f"runner{layout}_of")(
                program
            )
        return self[name]


compiled = _Kernels()
_loaded: _Kernels | None = None


def is_loaded() -> bool:
    """Whether Numba has been loaded, by whatever came first."""
    return "dynograd.kernels.build.compiling_numba" in sys.modules


def compiled_for(size: int) -> _Kernels | None:
    """The compiled kernels, or None where NumPy should compute: `size` elements are few, and Numba is not there yet."""
    global _loaded, _small_calls
    if _loaded is not None:
        return _loaded
    if size < COMPILED_ROWS and not is_loaded() and not batch_invariant():
        _small_calls += 1
        if _small_calls <= SMALL_CALLS:
            return None
    _loaded = compiled
    return _loaded
