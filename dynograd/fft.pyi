# fmt: off
# ruff: noqa
"""The functions of `dynograd.fft`.

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

def fft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The Fourier transform along `dim`: `output[k] = sum_j input[j] exp(-2 pi i j k / n)`.'
def fft2(input: Tensor, s: Any = None, dim: _Ints = (-2, -1), norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The `fft` over two dims, the last ones by default.'
def fftfreq(n: builtins.int, d: builtins.float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    'The frequency of each point of an `fft` of `n` points that lie `d` apart: 0, 1, ..., -2, -1, over n d.'
def fftn(input: Tensor, s: Any = None, dim: _Ints | None = None, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The `fft` over several dims: those in `dim`, else the last `len(s)`, else all.'
def fftshift(input: Tensor, dim: _Ints | None = None, *, axis: _Ints | None = None) -> Tensor:
    '`input` with frequency 0, which `fft` puts first, in the middle.'
def hfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The `fft` of a signal whose second half is the conjugate of its first, which is given: `n` real numbers.'
def hfft2(input: Tensor, s: Any = None, dim: _Ints = (-2, -1), norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`hfftn` over two dims, the last ones by default.'
def hfftn(input: Tensor, s: Any = None, dim: _Ints | None = None, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`hfft` over the last of several dims, `fft` over the others.'
def ifft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `fft`; its norm "backward" divides by n.'
def ifft2(input: Tensor, s: Any = None, dim: _Ints = (-2, -1), norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `fft2`.'
def ifftn(input: Tensor, s: Any = None, dim: _Ints | None = None, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `fftn`.'
def ifftshift(input: Tensor, dim: _Ints | None = None, *, axis: _Ints | None = None) -> Tensor:
    'The inverse of `fftshift`.'
def ihfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `hfft`: the first half of the `ifft` of a real tensor.'
def ihfft2(input: Tensor, s: Any = None, dim: _Ints = (-2, -1), norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`ihfftn` over two dims, the last ones by default.'
def ihfftn(input: Tensor, s: Any = None, dim: _Ints | None = None, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `hfftn`.'
def irfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `rfft`: `n` real numbers, by default 2 * (size - 1) (give `n` for odd ones).'
def irfft2(input: Tensor, s: Any = None, dim: _Ints = (-2, -1), norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`irfftn` over two dims, the last ones by default.'
def irfftn(input: Tensor, s: Any = None, dim: _Ints | None = None, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The inverse of `rfftn`; `s` holds the sizes of the real result.'
def rfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The first n // 2 + 1 numbers of the `fft` of a real tensor; the others are their conjugates.'
def rfft2(input: Tensor, s: Any = None, dim: _Ints = (-2, -1), norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`rfftn` over two dims, the last ones by default.'
def rfftfreq(n: builtins.int, d: builtins.float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    'The frequency of each point of an `rfft` of `n` points that lie `d` apart: 0, 1, ..., n // 2, over n d.'
def rfftn(input: Tensor, s: Any = None, dim: _Ints | None = None, norm: builtins.str | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The `fftn` of a real tensor, of the last dim only the first n // 2 + 1.'
