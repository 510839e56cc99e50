# fmt: off
# ruff: noqa
"""The functions of `dynograd.special`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

import builtins
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias, overload

import numpy as _numpy

from dynograd import return_types as _return_types
from dynograd.base import devices as _devices
from dynograd.base import dtypes as _dtypes
from dynograd.base import layouts as _layouts
from dynograd.base import memory_formats as _memory_formats
from dynograd.base import random_streams as _random_streams
from dynograd.base import shapes as _shapes
from dynograd.ragged.tensor import RaggedTensor as _RaggedTensor
from dynograd.sparse.tensor import SparseTensor as _SparseTensor
from dynograd.tensor.tensor import Tensor

_Int: TypeAlias = builtins.int
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]
_Number: TypeAlias = builtins.int | builtins.float | builtins.bool | builtins.complex | _numpy.number[Any] | _numpy.bool_
_Item: TypeAlias = (
    builtins.int | slice | EllipsisType | Tensor | Sequence[builtins.int] | Sequence[Tensor] | _numpy.ndarray[Any, Any] | _numpy.integer[Any]
    | list[Any] | None
)
_Index: TypeAlias = _Item | tuple[_Item, ...]
_Device: TypeAlias = _devices.device | builtins.str | builtins.int | None
_Dtype: TypeAlias = _dtypes.dtype | type | None

def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    "Airy's function Ai."
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The Bessel function of the first kind of order 0.'
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The Bessel function of the first kind of order 1.'
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The Bessel function of the second kind of order 0; minus infinity at 0, NaN below.'
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The Bessel function of the second kind of order 1; minus infinity at 0, NaN below.'
def chebyshev_polynomial_t(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Chebyshev polynomial of the first kind and degree `n`: `cos(n * acos(input))`.'
def chebyshev_polynomial_u(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Chebyshev polynomial of the second kind and degree `n`.'
def chebyshev_polynomial_v(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Chebyshev polynomial of the third kind and degree `n`.'
def chebyshev_polynomial_w(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Chebyshev polynomial of the fourth kind and degree `n`.'
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The derivative of `lgamma`; NaN at negative whole numbers.'
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The terms of an entropy, `-input * log(input)`: 0 at 0, minus infinity below.'
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `input`.'
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`1 - erf(input)`, exact for large `input` too.'
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(input**2) * erfc(input)`, which does not underflow.'
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The number whose `erf` is `input`; infinite at -1 and 1, NaN beyond.'
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '2 to the power of `input`.'
def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logistic function `1 / (1 + exp(-input))`, in (0, 1); nothing overflows.'
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(input) - 1`, exact near 0.'
def gammainc(input: Tensor, other: Tensor, *, out: Any = None) -> Any:
    'The regularized lower incomplete gamma function: the integral of `exp(-t) t**(input - 1)` from 0 to `other`, over gamma(input).'
def gammaincc(input: Tensor, other: Tensor, *, out: Any = None) -> Any:
    'The regularized upper incomplete gamma function, `1 - igamma(input, other)` without the difference; see `igamma`.'
def gammaln(input: Tensor, *, out: Any = None) -> Any:
    'The logarithm of the absolute value of the gamma function: `log((input - 1)!)` for whole numbers.'
def hermite_polynomial_h(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Hermite polynomial of physicists, of degree `n`.'
def hermite_polynomial_he(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Hermite polynomial of probability, of degree `n`.'
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The modified Bessel function of the first kind of order 0.'
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(-abs(input)) * i0(input)`, which does not overflow.'
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The modified Bessel function of the first kind of order 1.'
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(-abs(input)) * i1(input)`, which does not overflow.'
def laguerre_polynomial_l(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Laguerre polynomial of degree `n`.'
def legendre_polynomial_p(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Legendre polynomial of degree `n`.'
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`log(1 + input)`, exact near 0.'
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logarithm of `ndtr`, exact far below 0 too.'
def log_softmax(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The logarithm of `softmax`, computed without overflow.'
def logit(input: Tensor, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    '`log(input / (1 - input))`, the inverse of `sigmoid`; `input` is first clamped to [eps, 1 - eps] when `eps` is given.'
def logsumexp(input: Tensor, dim: _Ints, keepdim: builtins.bool = False, *, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'log(sum(exp(input))) over `dim` (an int or several), without overflow.'
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `i0`.'
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `special.i1`.'
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The modified Bessel function of the second kind of order 0; infinite at 0, NaN below.'
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The modified Bessel function of the second kind of order 1; infinite at 0, NaN below.'
def multigammaln(input: Tensor, p: builtins.int, *, out: Any = None) -> Any:
    'The logarithm of the multivariate gamma function of dimension `p`; needs `input > (p - 1) / 2`.'
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The distribution function of the standard normal distribution: the area below its density from -inf to `input`.'
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The inverse of `ndtr`: infinite at 0 and 1, NaN beyond.'
def polygamma(n: builtins.int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The `n`th derivative of `digamma`.'
def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The derivative of `lgamma`; NaN at negative whole numbers.'
def round(input: Tensor, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    'Rounded to `decimals` places (negative: tens, hundreds, ...), halves to even; gradient 0.'
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(input) * modified_bessel_k0(input)`, which does not underflow.'
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(input) * modified_bessel_k1(input)`, which does not underflow.'
def shifted_chebyshev_polynomial_t(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`chebyshev_polynomial_t(2 * input - 1, n)`.'
def shifted_chebyshev_polynomial_u(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`chebyshev_polynomial_u(2 * input - 1, n)`.'
def shifted_chebyshev_polynomial_v(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`chebyshev_polynomial_v(2 * input - 1, n)`.'
def shifted_chebyshev_polynomial_w(input: Tensor, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`chebyshev_polynomial_w(2 * input - 1, n)`.'
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`sin(pi * input) / (pi * input)`, 1 at 0.'
def softmax(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`exp(input)`, scaled to sum to 1 along `dim`.'
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The spherical Bessel function of the first kind of order 0, `sin(input) / input`.'
def xlog1py(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input * log1p(other)`, and 0 where `input` is 0 (NaN where `other` is).'
def xlogy(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input * log(other)`, and 0 where `input` is 0 (NaN where `other` is).'
def zeta(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    "Hurwitz' zeta function: the sum of `(other + k) ** -input` over k = 0, 1, 2, ...; it has no gradient for `input`."
