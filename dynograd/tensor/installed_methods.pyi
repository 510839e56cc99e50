# fmt: off
# ruff: noqa
"""The methods and properties that Tensor gets from the table of ops and from the files beside this one.

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
from dynograd.autograd.nodes import Node as _Node

class InstalledMethods:
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    def __abs__(self) -> Tensor:
        'The absolute value; gradient 0 at 0.'
    def __add__(self, other: Tensor | _Number) -> Tensor:
        '`input + other`, broadcast and promoted.'
    def __and__(self, other: Tensor | _Number) -> Tensor:
        'The bits set in both.'
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        "What a function of NumPy makes of a tensor: reductions are the tensor's own, ragged or not; others go on as NumPy has them."
    def __array_namespace__(self, *, api_version: builtins.str | None = None) -> Any:
        "`dynograd.array_api`, the array API standard's functions over tensors."
    def __div__(self, other: Tensor | _Number) -> Tensor:
        '`input / other`; integers give the default dtype.'
    def __eq__(self, other: Tensor | _Number) -> Tensor:  # type: ignore[override]
        ...
    def __floordiv__(self, other: Tensor | _Number) -> Tensor:
        '`input / other` rounded down, in the promoted dtype. Gradient 0.'
    def __ge__(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is at least `other`.'
    def __getitem__(self, index: _Index) -> Tensor:
        '`input[index]`.'
    def __gt__(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is greater than `other`.'
    def __iadd__(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        'In-place form of `add`: the result is written into the tensor, which is returned.'
    def __iand__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_and`: the result is written into the tensor, which is returned.'
    def __idiv__(self, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None) -> Tensor:
        'In-place form of `div`: the result is written into the tensor, which is returned.'
    def __ifloordiv__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `floor_divide`: the result is written into the tensor, which is returned.'
    def __ilshift__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_left_shift`: the result is written into the tensor, which is returned.'
    def __imod__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `remainder`: the result is written into the tensor, which is returned.'
    def __imul__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `mul`: the result is written into the tensor, which is returned.'
    def __invert__(self) -> Tensor:
        'All bits turned over.'
    def __ior__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_or`: the result is written into the tensor, which is returned.'
    def __ipow__(self, exponent: Tensor | _Number) -> Tensor:
        'In-place form of `pow`: the result is written into the tensor, which is returned.'
    def __irshift__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_right_shift`: the result is written into the tensor, which is returned.'
    def __isub__(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        'In-place form of `sub`: the result is written into the tensor, which is returned.'
    def __itruediv__(self, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None) -> Tensor:
        'In-place form of `div`: the result is written into the tensor, which is returned.'
    def __ixor__(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_xor`: the result is written into the tensor, which is returned.'
    def __le__(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is at most `other`.'
    def __lshift__(self, other: Tensor | _Number) -> Tensor:
        '`input * 2 ** other`, as bits; 0 when everything is shifted out.'
    def __lt__(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is less than `other`.'
    def __matmul__(self, other: Tensor) -> Tensor:
        'The matrix product; leading dims broadcast, 1-d operands are a row on the left and a column on the right.'
    def __mod__(self, other: Tensor | _Number) -> Tensor:
        "The remainder with the sign of `other`, as Python's `%`."
    def __mul__(self, other: Tensor | _Number) -> Tensor:
        '`input * other`, broadcast and promoted.'
    def __ne__(self, other: Tensor | _Number) -> Tensor:  # type: ignore[override]
        ...
    def __neg__(self) -> Tensor:
        '`-input`.'
    def __or__(self, other: Tensor | _Number) -> Tensor:
        'The bits set in at least one.'
    def __pos__(self) -> Tensor:
        '`input` itself, as `+input`.'
    def __pow__(self, exponent: Tensor | _Number) -> Tensor:
        '`input ** exponent`, broadcast and promoted; integers stay integers and then need exponents of at least 0.'
    def __radd__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rand__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rdiv__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __reversed__(self) -> Tensor:
        '`reversed(x)`: the first dim in reverse order.'
    def __rfloordiv__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rlshift__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rmatmul__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rmod__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rmul__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __ror__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rpow__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rrshift__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rshift__(self, other: Tensor | _Number) -> Tensor:
        '`input // 2 ** other`.'
    def __rsub__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rtruediv__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __rxor__(self, other: Tensor | _Number) -> Tensor:
        ...
    def __setitem__(self, index: _Index, value: Tensor | _Number) -> None:
        '`self[index] = value`.'
    def __sub__(self, other: Tensor | _Number) -> Tensor:
        '`input - other`, broadcast and promoted.'
    def __truediv__(self, other: Tensor | _Number) -> Tensor:
        '`input / other`; integers give the default dtype.'
    def __xor__(self, other: Tensor | _Number) -> Tensor:
        'The bits set in exactly one.'
    @property
    def _base(self) -> Tensor | None: ...
    def _is_view(self) -> builtins.bool:
        'Whether this tensor is a view of another.'
    def abs(self) -> Tensor:
        'The absolute value; gradient 0 at 0.'
    def abs_(self) -> Tensor:
        'In-place form of `abs`: the result is written into the tensor, which is returned.'
    def absolute(self) -> Tensor:
        'Another name of `abs`.'
    def absolute_(self) -> Tensor:
        'In-place form of `absolute`: the result is written into the tensor, which is returned.'
    def acos(self) -> Tensor:
        'The angle in [0, pi] with this cosine; NaN outside [-1, 1].'
    def acos_(self) -> Tensor:
        'In-place form of `acos`: the result is written into the tensor, which is returned.'
    def acosh(self) -> Tensor:
        'The inverse hyperbolic cosine; NaN below 1.'
    def acosh_(self) -> Tensor:
        'In-place form of `acosh`: the result is written into the tensor, which is returned.'
    def add(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        '`input + alpha * other`, broadcast and promoted.'
    def add_(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        'In-place form of `add`: the result is written into the tensor, which is returned.'
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        '`beta * input + alpha * (batch1 @ batch2).sum(0)`: the products of a batch added up.'
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        'In-place form of `addbmm`: the result is written into the tensor, which is returned.'
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, tensor3: Any = None, *, value: Tensor | _Number = 1) -> Tensor:
        '`input + value * tensor1 / tensor2`, broadcast and promoted. The old form `addcdiv(input, value, tensor1, tensor2)` works too.'
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, tensor3: Any = None, *, value: Tensor | _Number = 1) -> Tensor:
        'In-place form of `addcdiv`: the result is written into the tensor, which is returned.'
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, tensor3: Any = None, *, value: Tensor | _Number = 1) -> Tensor:
        '`input + value * tensor1 * tensor2`, broadcast and promoted. The old form `addcmul(input, value, tensor1, tensor2)` works too.'
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, tensor3: Any = None, *, value: Tensor | _Number = 1) -> Tensor:
        'In-place form of `addcmul`: the result is written into the tensor, which is returned.'
    def addmm(self, mat1: Tensor, mat2: Tensor, out_dtype: _Dtype | None = None, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        '`beta * input + alpha * (mat1 @ mat2)`; with beta 0, NaN and inf in `input` do not matter.'
    def addmm_(self, mat1: Tensor, mat2: Tensor, out_dtype: _Dtype | None = None, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        'In-place form of `addmm`: the result is written into the tensor, which is returned.'
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        '`beta * input + alpha * (mat @ vec)`.'
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        'In-place form of `addmv`: the result is written into the tensor, which is returned.'
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        '`beta * input + alpha * outer(vec1, vec2)`.'
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        'In-place form of `addr`: the result is written into the tensor, which is returned.'
    def adjoint(self) -> Tensor:
        'The tensor with its last two dims exchanged, conjugated: `.mH`.'
    def all(self, dim: _Ints | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'Whether all elements, or all over `dim`, are not zero (NaN is not); True where there are none. uint8 stays uint8.'
    def allclose(self, other: Tensor | _Number, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        'Whether all elements are close; see `isclose`.'
    def amax(self, dim: _Ints | None = (), keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The largest element over `dim` (an int or several; () for all). Elements that tie share the gradient evenly.'
    def amin(self, dim: _Ints | None = (), keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The smallest element over `dim` (an int or several; () for all). Elements that tie share the gradient evenly.'
    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> _return_types.aminmax:
        'The smallest and the largest element, of all or over one `dim`, as (min, max).'
    def angle(self) -> Tensor:
        'The angle of complex numbers; for real ones 0, or pi below 0 (gradient 0).'
    def any(self, dim: _Ints | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'Whether any element, of all or over `dim`, is not zero (NaN is not); False where there are none. uint8 stays uint8.'
    def apply_(self, callable: Any) -> Tensor:
        'Replaces each element by `callable(element)`, in place; slow, for tests and odd functions.'
    def arccos(self) -> Tensor:
        'Another name of `acos`.'
    def arccos_(self) -> Tensor:
        'In-place form of `arccos`: the result is written into the tensor, which is returned.'
    def arccosh(self) -> Tensor:
        'Another name of `acosh`.'
    def arccosh_(self) -> Tensor:
        'In-place form of `arccosh`: the result is written into the tensor, which is returned.'
    def arcsin(self) -> Tensor:
        'Another name of `asin`.'
    def arcsin_(self) -> Tensor:
        'In-place form of `arcsin`: the result is written into the tensor, which is returned.'
    def arcsinh(self) -> Tensor:
        'Another name of `asinh`.'
    def arcsinh_(self) -> Tensor:
        'In-place form of `arcsinh`: the result is written into the tensor, which is returned.'
    def arctan(self) -> Tensor:
        'Another name of `atan`.'
    def arctan2(self, other: Tensor) -> Tensor:
        'Another name of `atan2`.'
    def arctan2_(self, other: Tensor) -> Tensor:
        'In-place form of `arctan2`: the result is written into the tensor, which is returned.'
    def arctan_(self) -> Tensor:
        'In-place form of `arctan`: the result is written into the tensor, which is returned.'
    def arctanh(self) -> Tensor:
        'Another name of `atanh`.'
    def arctanh_(self) -> Tensor:
        'In-place form of `arctanh`: the result is written into the tensor, which is returned.'
    def argmax(self, dim: _Int | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The index of the largest element along `dim`, or in the flattened tensor; of several equals the first, NaN before all.'
    def argmin(self, dim: _Int | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The index of the smallest element along `dim`, or in the flattened tensor; of several equals the first, NaN before all.'
    def argsort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, axis: _Ints | None = None) -> Tensor:
        'The indices that sort `input` along `dim`; equals keep their order.'
    def argwhere(self) -> Tensor:
        'The positions of the nonzero elements: (N, ndim) int64.'
    def as_strided(self, size: _Ints, stride: _Ints, storage_offset: builtins.int | None = None) -> Tensor:
        "A view of `input`'s memory with the given size and strides (both in elements), whatever `input`'s own shape is."
    def as_strided_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `as_strided`: the tensor itself changes its shape, and is returned.'
    def as_strided_scatter(self, src: Tensor | _Number, size: _Ints, stride: _Ints, storage_offset: builtins.int | None = None) -> Tensor:
        'A copy of `input` with `src` where `as_strided` of the same arguments would show it.'
    def as_subclass(self, cls: Any) -> Tensor:
        'The same memory and history as an instance of a subclass of Tensor.'
    def asin(self) -> Tensor:
        'The angle in [-pi/2, pi/2] with this sine; NaN outside [-1, 1].'
    def asin_(self) -> Tensor:
        'In-place form of `asin`: the result is written into the tensor, which is returned.'
    def asinh(self) -> Tensor:
        'The inverse hyperbolic sine.'
    def asinh_(self) -> Tensor:
        'In-place form of `asinh`: the result is written into the tensor, which is returned.'
    def atan(self) -> Tensor:
        'The angle in (-pi/2, pi/2) with this tangent.'
    def atan2(self, other: Tensor) -> Tensor:
        'The angle in [-pi, pi] of the point with y `input` and x `other`; gradient 0 at the origin.'
    def atan2_(self, other: Tensor) -> Tensor:
        'In-place form of `atan2`: the result is written into the tensor, which is returned.'
    def atan_(self) -> Tensor:
        'In-place form of `atan`: the result is written into the tensor, which is returned.'
    def atanh(self) -> Tensor:
        'The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.'
    def atanh_(self) -> Tensor:
        'In-place form of `atanh`: the result is written into the tensor, which is returned.'
    def baddbmm(self, batch1: Tensor, batch2: Tensor, out_dtype: _Dtype | None = None, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        '`beta * input + alpha * (batch1 @ batch2)` for batches of matrices.'
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, out_dtype: _Dtype | None = None, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        'In-place form of `baddbmm`: the result is written into the tensor, which is returned.'
    def bernoulli(self, p: builtins.float | None = None, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None) -> Tensor:
        '1 with the probability that `input` holds (or `p`), else 0, in the dtype of `input`.'
    def bernoulli_(self, p: Any = 0.5, *, generator: _random_streams.Generator | None = None) -> Tensor:
        'Fills with 1 of probability p (a number or a tensor), else 0.'
    def bfloat16(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.bfloat16; itself if it is.'
    def bincount(self, weights: Any = None, minlength: builtins.int = 0) -> Tensor:
        'How often each of 0, 1, 2, ... occurs in a vector, or the sum of its `weights` (through which gradients flow).'
    def bitwise_and(self, other: Tensor | _Number) -> Tensor:
        'The bits set in both.'
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_and`: the result is written into the tensor, which is returned.'
    def bitwise_left_shift(self, other: Tensor | _Number) -> Tensor:
        '`input * 2 ** other`, as bits; 0 when everything is shifted out.'
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_left_shift`: the result is written into the tensor, which is returned.'
    def bitwise_not(self) -> Tensor:
        'All bits turned over.'
    def bitwise_not_(self) -> Tensor:
        'In-place form of `bitwise_not`: the result is written into the tensor, which is returned.'
    def bitwise_or(self, other: Tensor | _Number) -> Tensor:
        'The bits set in at least one.'
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_or`: the result is written into the tensor, which is returned.'
    def bitwise_right_shift(self, other: Tensor | _Number) -> Tensor:
        '`input // 2 ** other`.'
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_right_shift`: the result is written into the tensor, which is returned.'
    def bitwise_xor(self, other: Tensor | _Number) -> Tensor:
        'The bits set in exactly one.'
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `bitwise_xor`: the result is written into the tensor, which is returned.'
    def bmm(self, mat2: Tensor, out_dtype: _Dtype | None = None) -> Tensor:
        'The products of two batches of matrices, (B, N, M) with (B, M, P); `out_dtype` as in `mm`.'
    def bool(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.bool; itself if it is.'
    def broadcast_to(self, *sizes: _Ints, size: _Ints | None = None, implicit: builtins.bool = False) -> Tensor:
        'A view of `input` with dims of size 1 stretched to `sizes`; -1 keeps a size, new dims may be added in front.'
    def byte(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.uint8; itself if it is.'
    def cauchy_(self, median: builtins.float = 0, sigma: builtins.float = 1, *, generator: _random_streams.Generator | None = None) -> Tensor:
        'Fills with Cauchy numbers: half of them lie within `sigma` of the median.'
    def ccol_indices(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def cdouble(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.complex128; itself if it is.'
    def ceil(self) -> Tensor:
        'Rounded up; gradient 0.'
    def ceil_(self) -> Tensor:
        'In-place form of `ceil`: the result is written into the tensor, which is returned.'
    def cfloat(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.complex64; itself if it is.'
    def chalf(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: complex numbers of 16-bit parts are not supported. Use complex64.'
    def char(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.int8; itself if it is.'
    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        'The older name of `linalg.cholesky`.'
    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        'The inverse of the matrix whose Cholesky factor is `input`.'
    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = False) -> Tensor:
        'X with `A @ X = input`, where `input2` is the Cholesky factor of A.'
    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        'At most `chunks` views of equal size along `dim`; the last may be smaller.'
    def clamp(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        '`input` with everything below `min` raised to it and everything above `max` lowered to it; NaN stays NaN.'
    def clamp_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        'In-place form of `clamp`: the result is written into the tensor, which is returned.'
    def clamp_max(self, max: Tensor | _Number) -> Tensor:
        '`input`, and `max` where `input` is above it. At ties `input` gets the gradient.'
    def clamp_max_(self, max: Tensor | _Number) -> Tensor:
        'In-place form of `clamp_max`: the result is written into the tensor, which is returned.'
    def clamp_min(self, min: Tensor | _Number) -> Tensor:
        '`input`, and `min` where `input` is below it. At ties `input` gets the gradient.'
    def clamp_min_(self, min: Tensor | _Number) -> Tensor:
        'In-place form of `clamp_min`: the result is written into the tensor, which is returned.'
    def clip(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        'Another name of `clamp`: everything below `min` is raised to it, everything above `max` lowered to it.'
    def clip_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        'In-place form of `clip`: the result is written into the tensor, which is returned.'
    def clone(self, *, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'A copy in new memory that stays part of the graph.'
    def coalesce(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def col_indices(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def conj(self) -> Tensor:
        'The complex conjugate, in new memory; real tensors come back as they are.'
    def conj_physical(self) -> Tensor:
        'The complex conjugate in new memory; real tensors come back as they are.'
    def conj_physical_(self) -> Tensor:
        'In-place form of `conj_physical`: the result is written into the tensor, which is returned.'
    def contiguous(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor itself when its memory is in that order (row-major unless given), a copy in that order otherwise.'
    def copy_(self, other: Tensor | _Number, non_blocking: builtins.bool = False) -> Tensor:
        'Copies `other` (broadcast, converted) into this tensor.'
    def copysign(self, other: Tensor | _Number) -> Tensor:
        'The size of `input` with the sign of `other` (of -0.0 too).'
    def copysign_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `copysign`: the result is written into the tensor, which is returned.'
    def corrcoef(self) -> Tensor:
        "Pearson's correlation coefficients of variables (rows) over observations (columns), between -1 and 1."
    def cos(self) -> Tensor:
        'The cosine of an angle in radians.'
    def cos_(self) -> Tensor:
        'In-place form of `cos`: the result is written into the tensor, which is returned.'
    def cosh(self) -> Tensor:
        'The hyperbolic cosine.'
    def cosh_(self) -> Tensor:
        'In-place form of `cosh`: the result is written into the tensor, which is returned.'
    def count_nonzero(self, dim: _Ints | None = None, *dims: _Ints, axis: _Ints | None = None) -> Tensor:
        'How many elements are not zero, over `dim` or altogether (int64).'
    def cov(self, *, correction: builtins.int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        'The covariance matrix of variables (rows) over observations (columns); of one variable its variance.'
    def cross(self, other: Tensor | _Number, dim: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
        'The cross product of vectors of size 3 along `dim` (the first dim of size 3 unless given); other dims broadcast.'
    def crow_indices(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def cummax(self, dim: _Int, *, axis: _Ints | None = None) -> _return_types.cummax:
        'The largest element up to and with each place of `dim`, as (values, indices). Of equals the last counts; NaN stays.'
    def cummin(self, dim: _Int, *, axis: _Ints | None = None) -> _return_types.cummin:
        'The smallest element up to and with each place of `dim`, as (values, indices). Of equals the last counts; NaN stays.'
    def cumprod(self, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None) -> Tensor:
        'The product of the elements up to and with each place of `dim`. Booleans and integers multiply in int64.'
    def cumprod_(self, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None) -> Tensor:
        'In-place form of `cumprod`: the result is written into the tensor, which is returned.'
    def cumsum(self, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None) -> Tensor:
        'The sum of the elements up to and with each place of `dim`. Booleans and integers sum in int64.'
    def cumsum_(self, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None) -> Tensor:
        'In-place form of `cumsum`: the result is written into the tensor, which is returned.'
    def deg2rad(self) -> Tensor:
        'Degrees as radians.'
    def deg2rad_(self) -> Tensor:
        'In-place form of `deg2rad`: the result is written into the tensor, which is returned.'
    def dequantize(self) -> Tensor:
        'The tensor in float32; none is quantized here.'
    def det(self) -> Tensor:
        'Another name of `linalg.det`.'
    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        'A vector as the diagonal of a new matrix, or the diagonal of a matrix as a vector, in memory of its own.'
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        'Matrices of zeros with the last dim of `input` on a diagonal; they lie in the new dims `dim1` and `dim2`.'
    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        'A matrix with all elements of `input` on a diagonal.'
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        'A view of the diagonal of two dims, which becomes the last dim.'
    def diagonal_scatter(self, src: Tensor | _Number, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        'A copy of `input` with `src` on a diagonal.'
    def diff(self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Any = None, append: Any = None, *, axis: _Ints | None = None) -> Tensor:
        'The difference of neighbours along `dim`, `n` times over. For booleans: whether they differ.'
    def digamma(self) -> Tensor:
        'The derivative of `lgamma`; NaN at negative whole numbers.'
    def digamma_(self) -> Tensor:
        'In-place form of `digamma`: the result is written into the tensor, which is returned.'
    def dim_order(self, *, ambiguity_check: builtins.bool | list[Any] = False) -> tuple[builtins.int, ...]:
        'The dims from the one with the widest steps through memory to the one with the shortest.'
    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        'The p-norm of `input - other`, which broadcast.'
    def div(self, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None) -> Tensor:
        '`input / other`; `rounding_mode` "floor" or "trunc" rounds the quotient (integers then stay integers).'
    def div_(self, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None) -> Tensor:
        'In-place form of `div`: the result is written into the tensor, which is returned.'
    def divide(self, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None) -> Tensor:
        'Another name of `div`.'
    def divide_(self, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None) -> Tensor:
        'In-place form of `divide`: the result is written into the tensor, which is returned.'
    def dot(self, tensor: Any) -> Tensor:
        'The inner product of two vectors.'
    def double(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.float64; itself if it is.'
    def dsplit(self, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: Any = None) -> tuple[Tensor, ...]:
        'Splits along the third dim into equal parts, or at the given indices.'
    def eig(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: PyTorch removed it too. Use dynograd.linalg.eig.'
    def eq(self, other: Tensor | _Number) -> Tensor:
        'Where `input` equals `other`; NaN equals nothing.'
    def eq_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `eq`: the result is written into the tensor, which is returned.'
    def equal(self, other: Tensor | _Number) -> builtins.bool:
        'Whether shapes and all elements are equal.'
    def erf(self) -> Tensor:
        'The error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `input`.'
    def erf_(self) -> Tensor:
        'In-place form of `erf`: the result is written into the tensor, which is returned.'
    def erfc(self) -> Tensor:
        '`1 - erf(input)`, exact for large `input` too.'
    def erfc_(self) -> Tensor:
        'In-place form of `erfc`: the result is written into the tensor, which is returned.'
    def erfinv(self) -> Tensor:
        'The number whose `erf` is `input`; infinite at -1 and 1, NaN beyond.'
    def erfinv_(self) -> Tensor:
        'In-place form of `erfinv`: the result is written into the tensor, which is returned.'
    def exp(self) -> Tensor:
        'e to the power of `input`.'
    def exp2(self) -> Tensor:
        '2 to the power of `input`.'
    def exp2_(self) -> Tensor:
        'In-place form of `exp2`: the result is written into the tensor, which is returned.'
    def exp_(self) -> Tensor:
        'In-place form of `exp`: the result is written into the tensor, which is returned.'
    def expand(self, *sizes: _Ints, size: _Ints | None = None, implicit: builtins.bool = False) -> Tensor:
        'A view of `input` with dims of size 1 stretched to `sizes`; -1 keeps a size, new dims may be added in front.'
    def expand_as(self, other: Tensor | _Number) -> Tensor:
        '`input` expanded to the shape of `other`.'
    def expm1(self) -> Tensor:
        '`exp(input) - 1`, exact near 0.'
    def expm1_(self) -> Tensor:
        'In-place form of `expm1`: the result is written into the tensor, which is returned.'
    def exponential_(self, lambd: builtins.float = 1.0, *, generator: _random_streams.Generator | None = None) -> Tensor:
        'Fills with exponential numbers of rate `lambd`.'
    def fill_(self, value: Tensor | _Number) -> Tensor:
        'Sets every element to `value` (a number or a 0-d tensor).'
    def fill_diagonal_(self, fill_value: Tensor | _Number, wrap: builtins.bool = False) -> Tensor:
        'Sets the elements whose indices in all dims agree, in place.'
    def fix(self) -> Tensor:
        'Another name of `trunc`.'
    def fix_(self) -> Tensor:
        'In-place form of `fix`: the result is written into the tensor, which is returned.'
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        'Joins the dims from `start_dim` to `end_dim` into one; a 0-d tensor gets one dim.'
    def flip(self, *order: _Ints, dims: _Ints | None = None) -> Tensor:
        'A copy with the order of the elements along `dims` reversed.'
    def fliplr(self) -> Tensor:
        'A copy with the columns (second dim) in reverse order.'
    def flipud(self) -> Tensor:
        'A copy with the rows (first dim) in reverse order.'
    def float(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.float32; itself if it is.'
    def float_power(self, exponent: Tensor | _Number) -> Tensor:
        '`input ** exponent`, computed in float64 or complex128.'
    def float_power_(self, exponent: Tensor | _Number) -> Tensor:
        'In-place form of `float_power`: the result is written into the tensor, which is returned.'
    def floor(self) -> Tensor:
        'Rounded down; gradient 0.'
    def floor_(self) -> Tensor:
        'In-place form of `floor`: the result is written into the tensor, which is returned.'
    def floor_divide(self, other: Tensor | _Number) -> Tensor:
        '`input / other` rounded down, in the promoted dtype. Gradient 0.'
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `floor_divide`: the result is written into the tensor, which is returned.'
    def fmax(self, other: Tensor) -> Tensor:
        'The larger of each pair; a number wins over NaN. At ties `input` gets the gradient.'
    def fmin(self, other: Tensor) -> Tensor:
        'The smaller of each pair; a number wins over NaN. At ties `input` gets the gradient.'
    def fmod(self, other: Tensor | _Number) -> Tensor:
        "The remainder with the sign of `input`, as C's fmod."
    def fmod_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `fmod`: the result is written into the tensor, which is returned.'
    def frac(self) -> Tensor:
        'The part after the point, with the sign of `input`.'
    def frac_(self) -> Tensor:
        'In-place form of `frac`: the result is written into the tensor, which is returned.'
    def frexp(self) -> _return_types.frexp:
        '(mantissa, exponent) with `input = mantissa * 2 ** exponent` and 0.5 <= |mantissa| < 1; the exponent is int32.'
    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False, axis: _Ints | None = None) -> Tensor:
        '`output[i][j][k] = input[i][index[i][j][k]][k]` for `dim=1`: picks along `dim`, in the shape of `index`.'
    def gcd(self, other: Tensor) -> Tensor:
        'The greatest common divisor of each pair of integers.'
    def gcd_(self, other: Tensor) -> Tensor:
        'In-place form of `gcd`: the result is written into the tensor, which is returned.'
    def ge(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is at least `other`.'
    def ge_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `ge`: the result is written into the tensor, which is returned.'
    def geometric_(self, p: builtins.float, *, generator: _random_streams.Generator | None = None) -> Tensor:
        'Fills with how many trials it takes until the first success of probability `p`: 1, 2, ...'
    def geqrf(self) -> _return_types.geqrf:
        '(a, tau): R on and above the diagonal of `a` and reflections below, of which `orgqr(a, tau)` makes Q. Not differentiable.'
    def ger(self, vec2: Tensor) -> Tensor:
        'Another name of `outer`.'
    def greater(self, other: Tensor) -> Tensor:
        'Another name of `gt`.'
    def greater_(self, other: Tensor) -> Tensor:
        'In-place form of `greater`: the result is written into the tensor, which is returned.'
    def greater_equal(self, other: Tensor) -> Tensor:
        'Another name of `ge`.'
    def greater_equal_(self, other: Tensor) -> Tensor:
        'In-place form of `greater_equal`: the result is written into the tensor, which is returned.'
    def gt(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is greater than `other`.'
    def gt_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `gt`: the result is written into the tensor, which is returned.'
    def half(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.float16; itself if it is.'
    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        '`input`, and 0 where it is within `lambd` of 0.'
    def hash_tensor(self, dim: _Ints | None = None, *, keepdim: builtins.bool = False, mode: builtins.int = 0, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The exclusive or of the bits of all elements over `dim`, each as float64 or int64: equal for equal elements in any order.'
    def heaviside(self, values: Tensor) -> Tensor:
        '0 below 0, 1 above, `values` at 0.'
    def heaviside_(self, values: Tensor) -> Tensor:
        'In-place form of `heaviside`: the result is written into the tensor, which is returned.'
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None) -> Tensor:
        'How many elements lie in each of `bins` equal parts of [min, max], in the dtype of `input`.'
    def histogram(self, bins: Any, *, range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False, out: Any = None) -> _return_types.histogram:
        '(hist, bin_edges): how many elements lie between edges.'
    def hsplit(self, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: Any = None) -> tuple[Tensor, ...]:
        'Splits along the second dim (the first of a vector) into equal parts, or at the given indices.'
    def hypot(self, other: Tensor) -> Tensor:
        'The long side of a right triangle: `sqrt(input**2 + other**2)` without overflow.'
    def hypot_(self, other: Tensor) -> Tensor:
        'In-place form of `hypot`: the result is written into the tensor, which is returned.'
    def i0(self) -> Tensor:
        'The modified Bessel function of the first kind of order 0.'
    def i0_(self) -> Tensor:
        'In-place form of `i0`: the result is written into the tensor, which is returned.'
    def igamma(self, other: Tensor) -> Tensor:
        'The regularized lower incomplete gamma function: the integral of `exp(-t) t**(input - 1)` from 0 to `other`, over gamma(input).'
    def igamma_(self, other: Tensor) -> Tensor:
        'In-place form of `igamma`: the result is written into the tensor, which is returned.'
    def igammac(self, other: Tensor) -> Tensor:
        'The regularized upper incomplete gamma function, `1 - igamma(input, other)` without the difference; see `igamma`.'
    def igammac_(self, other: Tensor) -> Tensor:
        'In-place form of `igammac`: the result is written into the tensor, which is returned.'
    @property
    def imag(self) -> Tensor: ...
    @imag.setter
    def imag(self, value: Any) -> None: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number = 1, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with `alpha` times the slices of `source` added at `index` along `dim`.'
    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number = 1) -> Tensor:
        'In-place form of `index_add`: the result is written into the tensor, which is returned.'
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor, *, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with the slices of `source` written at `index` along `dim`.'
    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        'In-place form of `index_copy`: the result is written into the tensor, which is returned.'
    def index_fill(self, dim: builtins.int, index: Tensor, value: Tensor | _Number, *, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with `value` (a number or 0-d tensor) in the slices at `index` along `dim`.'
    def index_fill_(self, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor:
        'In-place form of `index_fill`: the result is written into the tensor, which is returned.'
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        'A copy of `input` with `values` (broadcast) written at `input[indices]`, or added there when `accumulate`.'
    def index_put_(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        'In-place form of `index_put`: the result is written into the tensor, which is returned.'
    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with the slices of `source` combined into those at `index` by "prod", "mean", "amax" or "amin".'
    def index_reduce_(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        'In-place form of `index_reduce`: the result is written into the tensor, which is returned.'
    def index_select(self, dim: builtins.int, index: Tensor, *, axis: _Ints | None = None) -> Tensor:
        'A copy of the slices of `input` at `index` along `dim`.'
    def indices(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def inner(self, other: Tensor | _Number) -> Tensor:
        'The sum of products over the last dims; a number multiplies.'
    def int(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.int32; itself if it is.'
    def int_repr(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def inverse(self) -> Tensor:
        'Another name of `linalg.inv`.'
    def is_coalesced(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def is_conj(self) -> builtins.bool:
        'False: conjugates are computed at once.'
    def is_distributed(self) -> builtins.bool:
        'Whether `input` is spread over processes: never.'
    @property
    def is_ipu(self) -> Any: ...
    @property
    def is_maia(self) -> Any: ...
    @property
    def is_mkldnn(self) -> Any: ...
    @property
    def is_mtia(self) -> Any: ...
    def is_neg(self) -> builtins.bool:
        'False: negatives are computed at once.'
    def is_nonzero(self) -> builtins.bool:
        'Whether the only element of `input` is true.'
    def is_same_size(self, other: Tensor) -> builtins.bool:
        'Whether two tensors have one shape.'
    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        'Whether both are the same elements of one memory, in one order.'
    def is_shared(self) -> builtins.bool:
        'Whether other processes see what is written: after `share_memory_()`, or on a GPU.'
    @property
    def is_vulkan(self) -> Any: ...
    @property
    def is_xla(self) -> Any: ...
    @property
    def is_xpu(self) -> Any: ...
    def isclose(self, other: Tensor | _Number, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
        'Where `abs(input - other) <= atol + rtol * abs(other)`; infinities are close when they are equal.'
    def isfinite(self) -> Tensor:
        'Where `input` is neither infinite nor NaN.'
    def isinf(self) -> Tensor:
        'Where `input` is infinite.'
    def isnan(self) -> Tensor:
        'Where `input` is NaN.'
    def isneginf(self) -> Tensor:
        'Where `input` is minus infinity.'
    def isposinf(self) -> Tensor:
        'Where `input` is plus infinity.'
    def isreal(self) -> Tensor:
        'Whether each element has no imaginary part.'
    def istft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:
        'The signal of which `stft` with the same arguments gives `input`; where windows overlap, the least-squares one.'
    def kron(self, other: Tensor | _Number) -> Tensor:
        'The Kronecker product: every element of `input` times the whole of `other`, laid out as a block tensor.'
    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> _return_types.kthvalue:
        'The `k`-th smallest element along `dim` (1 is the smallest), as (values, indices); of equals the first.'
    def lcm(self, other: Tensor) -> Tensor:
        'The least common multiple of each pair of integers.'
    def lcm_(self, other: Tensor) -> Tensor:
        'In-place form of `lcm`: the result is written into the tensor, which is returned.'
    def ldexp(self, other: Tensor | _Number) -> Tensor:
        '`input * 2 ** other`; with whole `other` in the dtype of a floating `input`, rounded once, and finite wherever the product is.'
    def ldexp_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `ldexp`: the result is written into the tensor, which is returned.'
    def le(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is at most `other`.'
    def le_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `le`: the result is written into the tensor, which is returned.'
    def lerp(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        '`input + weight * (end - input)`: `input` at weight 0, `end` at 1.'
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        'In-place form of `lerp`: the result is written into the tensor, which is returned.'
    def less(self, other: Tensor) -> Tensor:
        'Another name of `lt`.'
    def less_(self, other: Tensor) -> Tensor:
        'In-place form of `less`: the result is written into the tensor, which is returned.'
    def less_equal(self, other: Tensor) -> Tensor:
        'Another name of `le`.'
    def less_equal_(self, other: Tensor) -> Tensor:
        'In-place form of `less_equal`: the result is written into the tensor, which is returned.'
    def lgamma(self) -> Tensor:
        'The logarithm of the absolute value of the gamma function: `log((input - 1)!)` for whole numbers.'
    def lgamma_(self) -> Tensor:
        'In-place form of `lgamma`: the result is written into the tensor, which is returned.'
    def log(self) -> Tensor:
        'The natural logarithm; -inf at 0, NaN below.'
    def log10(self) -> Tensor:
        'The logarithm to base 10.'
    def log10_(self) -> Tensor:
        'In-place form of `log10`: the result is written into the tensor, which is returned.'
    def log1p(self) -> Tensor:
        '`log(1 + input)`, exact near 0.'
    def log1p_(self) -> Tensor:
        'In-place form of `log1p`: the result is written into the tensor, which is returned.'
    def log2(self) -> Tensor:
        'The logarithm to base 2.'
    def log2_(self) -> Tensor:
        'In-place form of `log2`: the result is written into the tensor, which is returned.'
    def log_(self) -> Tensor:
        'In-place form of `log`: the result is written into the tensor, which is returned.'
    def log_normal_(self, mean: builtins.float = 1, std: builtins.float = 2, *, generator: _random_streams.Generator | None = None) -> Tensor:
        'Fills with numbers whose logarithm is normal, with this mean and standard deviation.'
    def log_softmax(self, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None) -> Tensor:
        'The logarithm of `softmax`, computed without overflow.'
    def logaddexp(self, other: Tensor) -> Tensor:
        '`log(exp(input) + exp(other))` without overflow; -inf stands for a probability of 0.'
    def logaddexp2(self, other: Tensor) -> Tensor:
        '`log2(2 ** input + 2 ** other)` without overflow.'
    def logcumsumexp(self, dim: builtins.int, *, axis: _Ints | None = None) -> Tensor:
        'log(cumsum(exp(input), dim)), without overflow. Places up to which all is -inf give -inf, with gradient 0.'
    def logdet(self) -> Tensor:
        'The logarithm of the determinant of each matrix: -inf where it is 0, NaN where it is negative.'
    def logical_and(self, other: Tensor) -> Tensor:
        'Where both are true (not 0).'
    def logical_and_(self, other: Tensor) -> Tensor:
        'In-place form of `logical_and`: the result is written into the tensor, which is returned.'
    def logical_not(self) -> Tensor:
        'Where `input` is false (0).'
    def logical_not_(self) -> Tensor:
        'In-place form of `logical_not`: the result is written into the tensor, which is returned.'
    def logical_or(self, other: Tensor) -> Tensor:
        'Where at least one is true (not 0).'
    def logical_or_(self, other: Tensor) -> Tensor:
        'In-place form of `logical_or`: the result is written into the tensor, which is returned.'
    def logical_xor(self, other: Tensor) -> Tensor:
        'Where exactly one is true (not 0).'
    def logical_xor_(self, other: Tensor) -> Tensor:
        'In-place form of `logical_xor`: the result is written into the tensor, which is returned.'
    def logit(self, eps: builtins.float | None = None) -> Tensor:
        '`log(input / (1 - input))`, the inverse of `sigmoid`; `input` is first clamped to [eps, 1 - eps] when `eps` is given.'
    def logit_(self, eps: builtins.float | None = None) -> Tensor:
        'In-place form of `logit`: the result is written into the tensor, which is returned.'
    def logsumexp(self, dim: _Ints, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'log(sum(exp(input))) over `dim` (an int or several), without overflow.'
    def long(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.int64; itself if it is.'
    def lstsq(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: PyTorch removed it too. Use dynograd.linalg.lstsq.'
    def lt(self, other: Tensor | _Number) -> Tensor:
        'Where `input` is less than `other`.'
    def lt_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `lt`: the result is written into the tensor, which is returned.'
    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> tuple[Tensor, ...]:
        '(LU, pivots), and infos if wanted: the older form of `linalg.lu_factor`.'
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        'The older form of `linalg.lu_solve`, with its arguments in another order.'
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    def map2_(self, x: Tensor, y: Tensor, callable: Any) -> Tensor:
        'Writes `callable(a, b, c)` of each three elements of this tensor, `x` and `y` (slow: Python for each element).'
    def map_(self, other: Tensor, callable: Any) -> Tensor:
        'Replaces each element by `callable(element, other)`, with the element of `other` (broadcast) beside it; slow.'
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        "`value` where `mask` is true, `input` elsewhere, in `input`'s dtype."
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        'In-place form of `masked_fill`: the result is written into the tensor, which is returned.'
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        'A copy of `input` in which the places where `mask` (broadcast) is True hold the first elements of `source`, in order.'
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        'In-place form of `masked_scatter`: the result is written into the tensor, which is returned.'
    def masked_select(self, mask: Tensor) -> Tensor:
        'The elements of `input` where `mask` is True, as a vector; the two broadcast.'
    def matmul(self, other: Tensor) -> Tensor:
        'The matrix product; leading dims broadcast, 1-d operands are a row on the left and a column on the right.'
    def matrix_exp(self) -> Tensor:
        'The exponential of each square matrix, `I + A + A @ A / 2 + ...`.'
    def matrix_power(self, n: builtins.int) -> Tensor:
        'The n-th power of a square matrix, or of each of a batch; n = 0 gives identity matrices, n < 0 powers of the inverse.'
    @overload
    def max(self, *, out: Tensor | None = None) -> Tensor:
        'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
    @overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.max:
        'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
    @overload
    def max(self, *, axis: builtins.int, keepdims: builtins.bool = ..., out: Any = None) -> _return_types.max:
        'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
    def maximum(self, other: Tensor) -> Tensor:
        'The larger of each pair; NaN wins. At ties each side gets half of the gradient.'
    def mean(self, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The mean of all elements, or over `dim`; NaN where there are none.'
    @overload
    def median(self, *, out: Tensor | None = None) -> Tensor:
        'The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.'
    @overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.median:
        'The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.'
    @overload
    def median(self, *, axis: builtins.int, keepdims: builtins.bool = ...) -> _return_types.median:
        'The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.'
    @overload
    def min(self, *, out: Tensor | None = None) -> Tensor:
        'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
    @overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.min:
        'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
    @overload
    def min(self, *, axis: builtins.int, keepdims: builtins.bool = ..., out: Any = None) -> _return_types.min:
        'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
    def minimum(self, other: Tensor) -> Tensor:
        'The smaller of each pair; NaN wins. At ties each side gets half of the gradient.'
    def mm(self, mat2: Tensor, out_dtype: _Dtype | None = None) -> Tensor:
        'The product of two matrices; `out_dtype` float32 keeps what half types are summed in.'
    def mode(self, dim: _Int = -1, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> _return_types.mode:
        'The most frequent element along `dim`, as (values, indices): of several the smallest, and the last place of it.'
    def moveaxis(self, source: _Ints, destination: _Ints) -> Tensor:
        'Another name of `movedim`.'
    def movedim(self, source: _Ints, destination: _Ints) -> Tensor:
        'A view with the dims `source` (an int or several) moved to the places `destination`; the others keep their order.'
    def msort(self) -> Tensor:
        'The elements in order along the first dim.'
    def mul(self, other: Tensor | _Number) -> Tensor:
        '`input * other`, broadcast and promoted.'
    def mul_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `mul`: the result is written into the tensor, which is returned.'
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None) -> Tensor:
        'Column numbers drawn from each row of unnormalised probabilities.'
    def multiply(self, other: Tensor) -> Tensor:
        'Another name of `mul`.'
    def multiply_(self, other: Tensor) -> Tensor:
        'In-place form of `multiply`: the result is written into the tensor, which is returned.'
    def mv(self, vec: Tensor) -> Tensor:
        'The product of a matrix and a vector.'
    def mvlgamma(self, p: builtins.int) -> Tensor:
        'The logarithm of the multivariate gamma function of dimension `p`; needs `input > (p - 1) / 2`.'
    def mvlgamma_(self, p: builtins.int) -> Tensor:
        'In-place form of `mvlgamma`: the result is written into the tensor, which is returned.'
    def nan_to_num(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        'NaN becomes `nan` (0), infinity `posinf` (the largest number of the dtype), minus infinity `neginf` (the smallest).'
    def nan_to_num_(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        'In-place form of `nan_to_num`: the result is written into the tensor, which is returned.'
    def nanmean(self, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The mean of the elements that are not NaN; NaN where there are none.'
    @overload
    def nanmedian(self, *, out: Tensor | None = None) -> Tensor:
        'The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.'
    @overload
    def nanmedian(self, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.nanmedian:
        'The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.'
    @overload
    def nanmedian(self, *, axis: builtins.int, keepdims: builtins.bool = ...) -> _return_types.nanmedian:
        'The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.'
    def nanquantile(self, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear', axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The `q`-quantiles of the elements that are not NaN; NaN where there are none. Otherwise as `quantile`.'
    def nansum(self, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The sum, over `dim` or of everything, with NaN counted as 0.'
    def narrow(self, dim: _Ints | None = None, start: builtins.int | Tensor | None = None, length: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
        'The view `start:start + length` along `dim`; a negative `start` counts from the end.'
    def narrow_copy(self, dim: _Ints | None = None, start: Tensor | _Number | None = None, length: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
        'What `narrow` shows, in memory of its own.'
    def ne(self, other: Tensor | _Number) -> Tensor:
        'Where `input` differs from `other`.'
    def ne_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `ne`: the result is written into the tensor, which is returned.'
    def neg(self) -> Tensor:
        '`-input`.'
    def neg_(self) -> Tensor:
        'In-place form of `neg`: the result is written into the tensor, which is returned.'
    def negative(self) -> Tensor:
        'Another name of `neg`.'
    def negative_(self) -> Tensor:
        'In-place form of `negative`: the result is written into the tensor, which is returned.'
    def new(self, *data: Any, size: _Ints | None = None, other: Tensor | _Number | None = None, device: _Device | None = None) -> Tensor:
        'A tensor of this dtype from data, or unset memory of the given sizes (legacy).'
    def new_empty(self, *sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        "`dynograd.empty` in this tensor's dtype and on its device."
    def new_empty_strided(self, size: _Ints, stride: _Ints, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        "`empty_strided` with this tensor's dtype and device, if they are not given."
    def new_full(self, size: _Ints, fill_value: Tensor | _Number, *, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        "`dynograd.full` in this tensor's dtype and on its device."
    def new_ones(self, *sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        "`dynograd.ones` in this tensor's dtype and on its device."
    def new_tensor(self, data: Any, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
        "`dynograd.tensor` in this tensor's dtype and on its device."
    def new_zeros(self, *sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        "`dynograd.zeros` in this tensor's dtype and on its device."
    def nextafter(self, other: Tensor | _Number) -> Tensor:
        'The number next to `input` on the way to `other`; `other` where the two are equal, NaN where one is NaN.'
    def nextafter_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `nextafter`: the result is written into the tensor, which is returned.'
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
        'The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.'
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]:
        'The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.'
    @overload
    def nonzero(self, *, as_tuple: builtins.bool) -> Tensor | tuple[Tensor, ...]:
        'The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.'
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
        'The first `size` rows of `nonzero(input)`, filled up with rows of `fill_value`: a shape known in advance.'
    def norm(self, p: Any = 'fro', dim: _Ints | None = None, keepdim: builtins.bool = False, dtype: _Dtype | None = None, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The p-norm of all elements, or over `dim` (an int or several), taken as one vector.'
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: _random_streams.Generator | None = None) -> Tensor:
        'Fills with normal numbers.'
    def not_equal(self, other: Tensor) -> Tensor:
        'Another name of `ne`.'
    def not_equal_(self, other: Tensor) -> Tensor:
        'In-place form of `not_equal`: the result is written into the tensor, which is returned.'
    def orgqr(self, input2: Tensor) -> Tensor:
        'Another name of `linalg.householder_product`.'
    def ormqr(self, tau: Any, other: Tensor | _Number, left: builtins.bool = True, transpose: builtins.bool = False, *, input2: Tensor | None = None, input3: Tensor | None = None) -> Tensor:
        '`Q @ other` for the product Q of all reflections that `geqrf` gave, without making Q.'
    def outer(self, vec2: Tensor) -> Tensor:
        'The matrix of `input[i] * vec2[j]`.'
    def permute(self, *order: _Ints, dims: _Ints | None = None) -> Tensor:
        'A view with the dims in another order; every dim is named once.'
    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        'The older form of `linalg.pinv`.'
    def polygamma(self, n: builtins.int) -> Tensor:
        'The method form of `polygamma`, with the tensor first.'
    def polygamma_(self, n: builtins.int) -> Tensor:
        'In-place form of `polygamma`, with the tensor first.'
    def positive(self) -> Tensor:
        '`input` itself, as `+input`.'
    def pow(self, exponent: Tensor | _Number) -> Tensor:
        '`input ** exponent`, broadcast and promoted; integers stay integers and then need exponents of at least 0.'
    def pow_(self, exponent: Tensor | _Number) -> Tensor:
        'In-place form of `pow`: the result is written into the tensor, which is returned.'
    def prelu(self, weight: Tensor | _Number) -> Tensor:
        '`input` above 0, `weight * input` elsewhere, with a weight that is learned.'
    def prod(self, dim: _Int | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The product of all elements, or over one `dim`; 1 where there are none. Booleans and integers multiply in int64.'
    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        'A copy of `input` with the elements of `source` written (or added) at the flat positions `index`.'
    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        'In-place form of `put`: the result is written into the tensor, which is returned.'
    def q_per_channel_axis(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def q_per_channel_scales(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def q_per_channel_zero_points(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def q_scale(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def q_zero_point(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def qr(self, some: builtins.bool = True) -> _return_types.qr:
        '(Q, R): the older form of `linalg.qr`; complete unless `some`.'
    def qscheme(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use bfloat16, float16 or float8_e4m3fn.'
    def quantile(self, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear', axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The `q`-quantiles along `dim`, or of all elements; NaN where there is one.'
    def rad2deg(self) -> Tensor:
        'Radians as degrees.'
    def rad2deg_(self) -> Tensor:
        'In-place form of `rad2deg`: the result is written into the tensor, which is returned.'
    def random_(self, *bounds: builtins.int, to: builtins.int | None = None, generator: _random_streams.Generator | None = None, **named: Any) -> Tensor:
        'Fills with integers of [from, to), [0, to), or, without bounds, of all that the dtype can hold exactly.'
    def ravel(self) -> Tensor:
        'All elements in row-major order, as one dim.'
    @property
    def real(self) -> Tensor: ...
    @real.setter
    def real(self, value: Any) -> None: ...
    def reciprocal(self) -> Tensor:
        '`1 / input`.'
    def reciprocal_(self) -> Tensor:
        'In-place form of `reciprocal`: the result is written into the tensor, which is returned.'
    def relu(self, inplace: builtins.bool = False) -> Tensor:
        '`input` where it is above 0, 0 elsewhere; NaN stays. The gradient at 0 is 0.'
    def relu_(self, inplace: builtins.bool = False) -> Tensor:
        'In-place form of `relu`: the result is written into the tensor, which is returned.'
    def remainder(self, other: Tensor | _Number) -> Tensor:
        "The remainder with the sign of `other`, as Python's `%`."
    def remainder_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `remainder`: the result is written into the tensor, which is returned.'
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, axis: _Ints | None = None) -> Tensor:
        '`input` with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.'
    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        'In-place form of `renorm`: the result is written into the tensor, which is returned.'
    def repeat(self, *sizes: _Ints, repeats: _Ints | None = None) -> Tensor:
        'A copy with the whole tensor repeated `repeats[i]` times along each dim; more repeats than dims add dims in front.'
    def repeat_interleave(self, repeats: builtins.int | Tensor | None = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None, axis: _Ints | None = None) -> Tensor:
        'Each slice along `dim` repeated in place; without `dim`, each element of the flattened tensor.'
    def reshape(self, *sizes: _Ints, shape: _Ints | None = None) -> Tensor:
        'The same elements in row-major order under another shape; one size may be -1. A view where memory allows.'
    def reshape_as(self, other: Tensor | _Number) -> Tensor:
        '`input` reshaped to the shape of `other`.'
    def resize(self, *sizes: _Ints) -> Tensor:
        'The tensor in another shape of as many elements (old; use `reshape`).'
    def resize_(self, *sizes: _Ints, size: _Ints | None = None, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        "Changes the tensor's own shape. Elements stay where they lie in memory; new ones hold anything."
    def resize_as(self, tensor: Tensor) -> Tensor:
        'The tensor in the shape of another one of as many elements (old; use `reshape`).'
    def resize_as_(self, the_template: Tensor, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        '`resize_` to the shape of another tensor.'
    def resolve_conj(self) -> Tensor:
        '`input` itself: no tensor here is a conjugate that waits to be computed.'
    def resolve_neg(self) -> Tensor:
        '`input` itself: no tensor here is a negative that waits to be computed.'
    def roll(self, shifts: _Ints, dims: _Ints | None = None) -> Tensor:
        'A copy moved by `shifts` along `dims`; what falls off one end comes back at the other. Without `dims`, over all elements.'
    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
        'A copy rotated `k` times by 90 degrees, from the first of `dims` towards the second.'
    def round(self, *, decimals: builtins.int = 0) -> Tensor:
        'Rounded to `decimals` places (negative: tens, hundreds, ...), halves to even; gradient 0.'
    def round_(self, *, decimals: builtins.int = 0) -> Tensor:
        'In-place form of `round`: the result is written into the tensor, which is returned.'
    def row_indices(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def rsqrt(self) -> Tensor:
        '`1 / sqrt(input)`; inf at 0, NaN below.'
    def rsqrt_(self) -> Tensor:
        'In-place form of `rsqrt`: the result is written into the tensor, which is returned.'
    def scatter(self, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = None, *, value: Tensor | _Number | None = None, reduce: builtins.str | None = None, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with `output[i][index[i][j]] = src[i][j]` (for `dim=1`): the inverse of `gather`.'
    def scatter_(self, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = None, *, value: Tensor | _Number | None = None, reduce: builtins.str | None = None) -> Tensor:
        'In-place form of `scatter`: the result is written into the tensor, which is returned.'
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor | _Number, *, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with `output[i][index[i][j]] += src[i][j]` (for `dim=1`).'
    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor | _Number) -> Tensor:
        'In-place form of `scatter_add`: the result is written into the tensor, which is returned.'
    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor | _Number, reduce: builtins.str, *, include_self: builtins.bool = True, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` in which each place named by `index` holds the reduction of the elements of `src` that go there.'
    def scatter_reduce_(self, dim: builtins.int, index: Tensor, src: Tensor | _Number, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        'In-place form of `scatter_reduce`: the result is written into the tensor, which is returned.'
    def select(self, dim: _Ints | None = None, index: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
        'The view at `index` along `dim`, with that dim removed.'
    def select_scatter(self, src: Tensor | _Number, dim: builtins.int, index: builtins.int, *, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with `src` in place of `input.select(dim, index)`.'
    def set_(self, source: Any = None, storage_offset: builtins.int = 0, size: Any = None, stride: _Ints | None = None) -> Tensor:
        'Makes this tensor stand on the memory of `source`: a tensor or storage, with `size` and `stride` in elements.'
    def sgn(self) -> Tensor:
        '`sign` for real tensors; for complex ones the number of size 1 in the same direction, 0 at 0.'
    def sgn_(self) -> Tensor:
        'In-place form of `sgn`: the result is written into the tensor, which is returned.'
    def share_memory_(self) -> Tensor:
        'Moves the tensor into memory that forked processes share; what is on a GPU is left where it is.'
    def short(self, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
        'The tensor as dynograd.int16; itself if it is.'
    def sigmoid(self) -> Tensor:
        'The logistic function `1 / (1 + exp(-input))`, in (0, 1); nothing overflows.'
    def sigmoid_(self) -> Tensor:
        'In-place form of `sigmoid`: the result is written into the tensor, which is returned.'
    def sign(self) -> Tensor:
        '-1, 0 or 1; gradient 0.'
    def sign_(self) -> Tensor:
        'In-place form of `sign`: the result is written into the tensor, which is returned.'
    def signbit(self) -> Tensor:
        'Where `input` carries a minus sign, -0.0 included.'
    def sin(self) -> Tensor:
        'The sine of an angle in radians.'
    def sin_(self) -> Tensor:
        'In-place form of `sin`: the result is written into the tensor, which is returned.'
    def sinc(self) -> Tensor:
        '`sin(pi * input) / (pi * input)`, 1 at 0.'
    def sinc_(self) -> Tensor:
        'In-place form of `sinc`: the result is written into the tensor, which is returned.'
    def sinh(self) -> Tensor:
        'The hyperbolic sine.'
    def sinh_(self) -> Tensor:
        'In-place form of `sinh`: the result is written into the tensor, which is returned.'
    def slice_scatter(self, src: Tensor | _Number, dim: builtins.int = 0, start: Tensor | _Number | None = None, end: Tensor | _Number | None = None, step: builtins.int = 1, *, axis: _Ints | None = None) -> Tensor:
        'A copy of `input` with `src` in place of the slice `start:end:step` along `dim`.'
    def slogdet(self) -> _return_types.slogdet:
        'Another name of `linalg.slogdet`.'
    def smm(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def softmax(self, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None) -> Tensor:
        '`exp(input)`, scaled to sum to 1 along `dim`.'
    def solve(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: PyTorch removed it too. Use dynograd.linalg.solve.'
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, axis: _Ints | None = None) -> _return_types.sort:
        'The elements in order along `dim`, as (values, indices).'
    def sparse_mask(self, mask: Tensor) -> Tensor:
        'The elements where the sparse `mask` has entries, whatever those are.'
    def sparse_resize_(self, *args: Any, **kwargs: Any) -> Tensor:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def sparse_resize_and_clear_(self, *args: Any, **kwargs: Any) -> Tensor:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def split(self, split_size_or_sections: _Ints | None = None, dim: builtins.int = 0, *, split_size: _Ints | None = None) -> tuple[Tensor, ...]:
        'Views of `tensor` along `dim`: parts of one size (the last may be smaller), or of the listed sizes.'
    def split_with_sizes(self, split_sizes: tuple[builtins.int, ...], dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
        'Consecutive parts of the given sizes along `dim`, as a tuple of views.'
    def sqrt(self) -> Tensor:
        'The square root; NaN below 0.'
    def sqrt_(self) -> Tensor:
        'In-place form of `sqrt`: the result is written into the tensor, which is returned.'
    def square(self) -> Tensor:
        '`input * input`.'
    def square_(self) -> Tensor:
        'In-place form of `square`: the result is written into the tensor, which is returned.'
    def squeeze(self, dim: _Ints | None = None, *dims: _Ints, axis: _Ints | None = None) -> Tensor:
        'A view without the dims of size 1: all of them, or those among `dim` (others stay as they are).'
    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `squeeze`: the tensor itself changes its shape, and is returned.'
    def sspaddmm(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def std(self, dim: _Ints | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The standard deviation over `dim`, the root of `var`, with its arguments. Where it is 0, so is the gradient.'
    def stft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, pad_mode: builtins.str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:
        'The Fourier transforms of windows of `n_fft` points, `hop_length` apart, along the last dim.'
    def storage(self) -> Any:
        'The memory that this tensor and its views share, as elements of its dtype (old; see `untyped_storage`).'
    def storage_type(self) -> Any:
        'The class of `storage()`.'
    def sub(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        '`input - alpha * other`, broadcast and promoted.'
    def sub_(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        'In-place form of `sub`: the result is written into the tensor, which is returned.'
    def subtract(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        'Another name of `sub`.'
    def subtract_(self, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1) -> Tensor:
        'In-place form of `subtract`: the result is written into the tensor, which is returned.'
    def sum(self, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The sum of all elements, or over `dim` (an int or several). Booleans and integers sum in int64.'
    def sum_to_size(self, *sizes: _Ints, size: _Ints | None = None) -> Tensor:
        '`input` summed over the dims that broadcasting from `size` would have stretched.'
    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True) -> _return_types.svd:
        '(U, S, V) with `input = U @ diag(S) @ V.mH`: the older form of `linalg.svd`; without `compute_uv`, U and V are zeros.'
    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        'Another name of `transpose`.'
    def swapaxes_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `swapaxes`: the tensor itself changes its shape, and is returned.'
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        'Another name of `transpose`.'
    def swapdims_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `swapdims`: the tensor itself changes its shape, and is returned.'
    def symeig(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: PyTorch removed it too. Use dynograd.linalg.eigh.'
    def t(self) -> Tensor:
        'The transpose of a matrix; tensors of fewer dims come back as they are.'
    def t_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `t`: the tensor itself changes its shape, and is returned.'
    def take(self, index: Tensor) -> Tensor:
        'The elements of `input`, seen as flat, at `index`, in the shape of `index`; negative ones count from the end.'
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
        '`gather` whose `indices` broadcast against `input` and may be negative; without `dim`, over the flattened tensor.'
    def tan(self) -> Tensor:
        'The tangent of an angle in radians.'
    def tan_(self) -> Tensor:
        'In-place form of `tan`: the result is written into the tensor, which is returned.'
    def tanh(self) -> Tensor:
        'The hyperbolic tangent, in (-1, 1).'
    def tanh_(self) -> Tensor:
        'In-place form of `tanh`: the result is written into the tensor, which is returned.'
    def tensor_split(self, indices_or_sections: _Ints | Tensor | None = None, dim: builtins.int = 0, *, indices: Sequence[builtins.int] | Tensor | None = None, sections: Any = None, tensor_indices_or_sections: Any = None) -> tuple[Tensor, ...]:
        'Views along `dim`: that many parts of nearly equal size, or cut at the given indices.'
    def tile(self, *sizes: _Ints, dims: _Ints | None = None) -> Tensor:
        'A copy with the whole tensor repeated along its last dims; missing repeats in front are 1.'
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        'The tensor with another dtype or device: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`.'
    def to_mkldnn(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: there is no oneDNN layout here. Ops choose their own; use memory_format=channels_last for images.'
    def to_sparse(self, sparse_dim: Any = None, *, layout: _layouts.layout | None = None, blocksize: Any = None, dense_dim: Any = None) -> Tensor:
        'The elements that are not zero as a sparse tensor, part of the graph.'
    def to_sparse_coo(self, dense_dim: Any = None) -> Tensor:
        'The elements that are not zero with their coordinates: `to_sparse` of layout sparse_coo.'
    def to_sparse_csc(self, dense_dim: Any = None) -> Tensor:
        'The elements of a matrix that are not zero, by compressed columns: `to_sparse` of layout sparse_csc.'
    def to_sparse_csr(self, dense_dim: Any = None) -> Tensor:
        'The elements of a matrix that are not zero, by compressed rows: `to_sparse` of layout sparse_csr.'
    def topk(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, axis: _Ints | None = None) -> _return_types.topk:
        'The `k` largest elements along `dim`, as (values, indices). Of equals those with the lowest index are taken.'
    def trace(self) -> Tensor:
        'The sum of the diagonal of a matrix.'
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        'A view with two dims exchanged.'
    def transpose_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `transpose`: the tensor itself changes its shape, and is returned.'
    def triangular_solve(self, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> _return_types.triangular_solve:
        '(X with `A @ X = input`, A): the older form of `linalg.solve_triangular`; `transpose` solves with the transpose of A.'
    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        'The lower triangle of the last two dims, zeros elsewhere.'
    def tril_(self, diagonal: builtins.int = 0) -> Tensor:
        'In-place form of `tril`: the result is written into the tensor, which is returned.'
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        'The upper triangle of the last two dims, zeros elsewhere.'
    def triu_(self, diagonal: builtins.int = 0) -> Tensor:
        'In-place form of `triu`: the result is written into the tensor, which is returned.'
    def true_divide(self, other: Tensor) -> Tensor:
        'Another name of `div`.'
    def true_divide_(self, other: Tensor) -> Tensor:
        'In-place form of `true_divide`: the result is written into the tensor, which is returned.'
    def trunc(self) -> Tensor:
        'Rounded towards zero; gradient 0.'
    def trunc_(self) -> Tensor:
        'In-place form of `trunc`: the result is written into the tensor, which is returned.'
    def type(self, dtype: _Dtype | builtins.str | None = None, non_blocking: builtins.bool = False) -> Any:
        "Without an argument the type's name, `dynograd.FloatTensor`; with a dtype or type name, the converted tensor."
    def type_as(self, other: Tensor | _Number) -> Tensor:
        '`input` in the dtype of `other`.'
    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        'The slices along `dim`, as a tuple of views with that dim removed.'
    def unflatten(self, dim: builtins.int, sizes: _Ints) -> Tensor:
        'Splits one dim into several; one of `sizes` may be -1.'
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        'A view of the windows of `size` elements along `dimension`, `step` apart; the elements of a window are a new last dim.'
    def uniform_(self, a: builtins.float = 0.0, b: builtins.float = 1.0, *, generator: _random_streams.Generator | None = None, **bounds: Any) -> Tensor:
        'Fills with uniform numbers of [a, b) (also as `from=`, `to=`).'
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
        'The distinct elements in ascending order, or the distinct slices along `dim`.'
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
        'The distinct elements in ascending order, or the distinct slices along `dim`.'
    @overload
    def unique_consecutive(self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
        'The elements (or slices along `dim`) without those equal to the one before.'
    @overload
    def unique_consecutive(self, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
        'The elements (or slices along `dim`) without those equal to the one before.'
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        '`chunk`; PyTorch does not check writes into the parts of this one, here they are checked.'
    def unsafe_split(self, split_size: Any, dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
        '`split`; PyTorch does not check writes into the parts of this one, here they are checked.'
    def unsafe_split_with_sizes(self, split_sizes: tuple[builtins.int, ...], dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
        '`split_with_sizes`; PyTorch does not check writes into the parts of this one, here they are checked.'
    def unsqueeze(self, dim: _Ints | None = None, *, axis: _Ints | None = None) -> Tensor:
        'A view with a new dim of size 1 at `dim`.'
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        'In-place form of `unsqueeze`: the tensor itself changes its shape, and is returned.'
    def untyped_storage(self) -> Any:
        'The bytes that this tensor and its views share.'
    def values(self, *args: Any, **kwargs: Any) -> Any:
        'Raises NotImplementedError: the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR.'
    def var(self, dim: _Ints | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
        'The variance over `dim`: squared distances from the mean, summed, over (number of elements - correction).'
    def vdot(self, other: Tensor | _Number) -> Tensor:
        'The inner product of two vectors, the first one conjugated.'
    def view(self, *sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None) -> Tensor:
        'The same memory under another shape; one size may be -1. `view(dtype)` reads the same bytes as another dtype.'
    def view_as(self, other: Tensor | _Number) -> Tensor:
        '`input.view` of the shape of `other`.'
    def vsplit(self, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: Any = None) -> tuple[Tensor, ...]:
        'Splits along the first dim of a matrix into equal parts, or at the given indices.'
    @overload
    def where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:
        '`input` where `condition` is true, `other` elsewhere: the method `input.where(condition, other)`.'
    @overload
    def where(self, condition: Tensor) -> Tensor:
        '`input` where `condition` is true, `other` elsewhere: the method `input.where(condition, other)`.'
    def xlogy(self, other: Tensor | _Number) -> Tensor:
        '`input * log(other)`, and 0 where `input` is 0 (NaN where `other` is).'
    def xlogy_(self, other: Tensor | _Number) -> Tensor:
        'In-place form of `xlogy`: the result is written into the tensor, which is returned.'
    def zero_(self) -> Tensor:
        'Sets every element to 0.'
    # What `dir` does not show: mypy, which checks dynograd's own files, knows it all the same; pyright, the engine of editors, does not.
    if False:
        def accumulate_grad(self, g: Any) -> None:
            'Adds the gradient `g` (array, or tensor under create_graph) to `.grad`; the engine calls it once per backward.'
        def adds_directly(self, part: Any) -> builtins.bool:
            'Adds a part of the gradient to `.grad` at once, if there is one and no hook waits for the sum; whether it did.'
        def align_as(self, *args: Any, **kwargs: Any) -> Any:
            'Raises NotImplementedError: named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1).'
        def align_to(self, *args: Any, **kwargs: Any) -> Any:
            'Raises NotImplementedError: named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1).'
        def celu_(self, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `celu`: the result is written into the tensor, which is returned.'
        edges: Any
        def elu_(self, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `elu`: the result is written into the tensor, which is returned.'
        @staticmethod
        def gradients(outputs: list[Any], inputs: list[Any], seeds: list[Any], create_graph: builtins.bool) -> list[Any]:
            'Gradients of `outputs` with respect to `inputs`, None where no path leads.'
        def hardsigmoid_(self, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `hardsigmoid`: the result is written into the tensor, which is returned.'
        def hardswish_(self, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `hardswish`: the result is written into the tensor, which is returned.'
        def hardtanh_(self, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `hardtanh`: the result is written into the tensor, which is returned.'
        def has_names(self) -> Any:
            ...
        def isin(self, test_elements: Any, *, assume_unique: builtins.bool = False, invert: builtins.bool = False, element: Any = None, test_element: Any = None) -> Tensor:
            'bool: whether each element occurs among `test_elements`; either may be a number, not both.'
        def leaky_relu_(self, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `leaky_relu`: the result is written into the tensor, which is returned.'
        def meta(self) -> Any:
            ...
        def mish_(self, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `mish`: the result is written into the tensor, which is returned.'
        @property
        def names(self) -> tuple[None, ...]: ...
        node: _Node | None
        def refine_names(self, *args: Any, **kwargs: Any) -> Any:
            'Raises NotImplementedError: named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1).'
        def relu6_(self, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `relu6`: the result is written into the tensor, which is returned.'
        def rename(self, *args: Any, **kwargs: Any) -> Any:
            'Raises NotImplementedError: named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1).'
        def rename_(self, *args: Any, **kwargs: Any) -> Tensor:
            'Raises NotImplementedError: named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1).'
        def rsub(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Tensor:
            '`other - alpha * input`.'
        def run_hooks(self, g: Any) -> Any:
            "A leaf's hooks on its incoming gradient (array or tensor)."
        def selu_(self, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `selu`: the result is written into the tensor, which is returned.'
        seq: builtins.int
        def silu_(self, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `silu`: the result is written into the tensor, which is returned.'
        def split_with_sizes_copy(self, split_sizes: tuple[builtins.int, ...], dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
            'What `split_with_sizes` shows, in memory of its own.'
        def take_memory(self, source: Tensor) -> None:
            'Stands from now on for the memory of `source`, whatever its device and dtype.'
        takes_deferred_sums: builtins.bool
        def threshold_(self, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Tensor:
            'In-place form of `threshold`: the result is written into the tensor, which is returned.'
        def to_device(self, __device: _Device, *, stream: Any = None) -> Tensor:
            'The tensor in the memory of `device`; itself when it lies there.'
        @staticmethod
        def wrap(array: Any) -> Tensor:
            'A tensor around `array`, sharing its memory.'
