"""Compiled kernels by name, for kernels that leave arrays too small for Numba to NumPy.

Which of the two computes is a matter of the array's size alone (and of batch-invariant mode, where it is always the compiled kernel),
never of what the program did before: the last bits of a softmax or a norm differ between them. Where they do not differ,
`few_cpu.often_called` may ask.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from dynograd.kernels import module_of
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.sizes import FEW_ROWS


class _Kernels(dict[str, Callable[..., Any]]):
    """`["softmax"]` is the runner of a row program, `["losses.total_weight"]` the function of `losses_numba.py`."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        family, _, function = name.rpartition(".")
        if family:
            self[name] = vars(module_of(f"{family}_numba"))[function]
        else:
            programs = import_module("dynograd.kernels.rows.row_formulas").PROGRAMS
            rows, layout = (name[: -len("_inner")], "_inner") if name.endswith("_inner") else (name, "")
            program = import_module("dynograd.kernels.rows.row_programs").RowProgram(rows, programs[rows])
            self[name] = getattr(import_module("dynograd.kernels.rows.row_programs_numba"), f"runner{layout}_of")(
                program
            )
        return self[name]


compiled = _Kernels()


def compiled_for(size: int) -> _Kernels | None:
    """The compiled kernels, or None where NumPy computes: `size` elements are so few that nobody shall wait for Numba."""
    return compiled if size >= FEW_ROWS or batch_invariant() else None
