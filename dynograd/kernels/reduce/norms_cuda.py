"""Norms of CudaArrays and the powers that their gradients are made of; half types in float32."""

from __future__ import annotations

from math import inf
from typing import Any

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.elementwise.complexes_cuda import modulus
from dynograd.kernels.elementwise.loops_cuda import CudaLoop
from dynograd.kernels.formula.formulas import parse
from dynograd.kernels.reduce.reducing_cuda import computed, reduced

_TERMS: dict[float, str] = {0: "nonzero", 1: "size", 2: "square"}
_absolute = CudaLoop("absolute_power", ("input",), ("exponent",), (parse("input == 0 ? 0 : abs(input) ** exponent"),))
_reciprocal = CudaLoop("absolute_reciprocal", ("input",), (), (parse("input == 0 ? 0 : 1 / abs(input)"),))
_signed = CudaLoop(
    "signed_power", ("input",), ("exponent",), (parse("input == 0 ? 0 : input * abs(input) ** exponent"),)
)
_scaled = CudaLoop("renorm", ("input", "size"), ("most",), (parse("input * (size > most ? most / (size + 1e-7) : 1)"),))


def vector_norm_forward(input: Any, p: float, dim: Any, keepdim: bool) -> Any:
    input = modulus(input) if input.dtype.kind == "c" else input
    return _norm(input, p, dim, keepdim, input.dtype)


def _norm(input: Any, p: float, dim: Any, keepdim: bool, kind: Any) -> Any:
    compute = computed(input.dtype)
    if p in (inf, -inf):
        return reduced("max" if p > 0 else "min", input, dim, keepdim, kind, compute, "size")
    if p in _TERMS:
        return reduced("sum", input, dim, keepdim, kind, compute, _TERMS[p], finish="sqrt" if p == 2 else "none")
    return reduced("sum", input, dim, keepdim, kind, compute, "power", p, "root", 1 / p)


def renorm(input: Any, p: float, dims: tuple[int, ...], maxnorm: float) -> Any:
    """Slices whose norm over `dims` is above `maxnorm`, scaled down to it."""
    compute = computed(input.dtype)
    sizes = _norm(input, p, dims, True, compute)
    return _scaled([input, sizes], (maxnorm,), [input.dtype], compute)[0]


def absolute_power(input: Any, exponent: float) -> Any:
    """|input| ** exponent; where input is 0, 0 (and 1 when the exponent is 0)."""
    if exponent == 0:
        result = cuda_arrays.empty(input.shape, input.dtype, input.device_index)
        result.fill(1)
        return result
    if exponent == -1:
        return _reciprocal([input], (), [input.dtype], computed(input.dtype))[0]
    return _absolute([input], (exponent,), [input.dtype], computed(input.dtype))[0]


def signed_power(input: Any, exponent: float) -> Any:
    """The direction of `input` (its sign) times |input| ** exponent; where input is 0, 0."""
    if exponent == 1:
        return input
    if exponent == 0:
        return operations.elementwise("sign", input)
    return _signed([input], (exponent - 1,), [input.dtype], computed(input.dtype))[0]
