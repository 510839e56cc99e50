"""python -m tests.numerics: how far elementwise ops are from exact values, over all exponents, in units in the last place (ulp), beside PyTorch's.

Every op of one operand whose row has a reference: float32 at 96 numbers of each exponent and sign, float16 and bfloat16 at all numbers. The reference is
NumPy's or SciPy's in float64. Where the exact value is no normal number of the dtype, or where the reference gives none, nothing is compared.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import dynograd
from dynograd.ops.op import registry
from tests.ops.tables import all_rows, title_of

__all__ = ["DTYPES", "errors_of", "main", "rows"]

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
_MANTISSAS = 96


@cache
def numbers(dtype: str) -> np.ndarray:
    """The operands."""
    if dtype != "float32":
        bits = np.arange(1 << 16, dtype=np.uint16)
        return bits.view(DTYPES[dtype])
    draw = np.random.default_rng(0)
    exponents = np.arange(1, 255, dtype=np.uint32)[:, None] << 23
    mantissas = draw.integers(0, 1 << 23, (254, _MANTISSAS), dtype=np.uint32)
    mantissas[:, 0] = 0
    positive = (exponents | mantissas).reshape(-1).view(np.float32)
    return np.concatenate([positive, -positive, np.zeros(1, np.float32)])


def name_of(row: Any) -> str:
    return row.name.rpartition(".")[2]


def rows() -> list[Any]:
    """Of elementwise ops with one operand of numbers with a fraction."""
    return [
        row
        for _, row in all_rows()
        if row.reference is not None
        and "float32" in row.dtypes
        and len(row.shapes) == 1
        and isinstance(row.kwargs, dict)
        and not row.args
        and (op := registry.get(name_of(row))) is not None
        and op.kind == "elementwise"
        and len(op.array_names) == 1
    ]


def errors_of(row: Any, dtype: str, library: Any = dynograd) -> tuple[float, float] | None:
    """(the largest error in ulp, the operand it was at); None where the library has no such op or result."""
    x = numbers(dtype)
    name = name_of(row)
    function = getattr(library, name, None) or getattr(library.nn.functional, name, None)
    function = function or getattr(library.special, name, None)
    if function is None:
        return None
    kind = getattr(library, dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = np.asarray(row.reference(wide.copy(), **row.kwargs))
        if exact.dtype.kind != "f":
            return None
        try:
            result = function(library.tensor(wide).to(kind), **row.kwargs).to(library.float64).numpy()
        except (RuntimeError, TypeError, NotImplementedError):
            return None
        info = ml_dtypes.finfo(DTYPES[dtype])
        size = np.abs(exact)
        compared = np.isfinite(wide) & (size >= float(info.smallest_normal)) & (size <= float(info.max))
        spacing = np.exp2(np.floor(np.log2(np.where(compared, size, 1.0)))) * float(info.eps)
        error = np.where(compared, np.abs(result - exact) / spacing, 0.0)
        error = np.where(np.isnan(error), np.inf, error)
    place = int(error.argmax())
    return float(error[place]), float(wide[place])


def main() -> None:
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    for row in rows():
        cells = []
        for dtype in DTYPES:
            ours = errors_of(row, dtype)
            theirs = None if torch is None else errors_of(row, dtype, torch)
            cells.append((dtype, ours, theirs))
        print(
            f"{title_of(row):28}",
            *[
                f"{d}: {'-' if o is None else f'{o[0]:.3g} at {o[1]:.6g}'} / {'-' if t is None else f'{t[0]:.3g}'};"
                for d, o, t in cells
            ],
        )


if __name__ == "__main__":
    main()
