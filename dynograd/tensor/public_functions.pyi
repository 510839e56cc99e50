# fmt: off
# ruff: noqa
"""The names that `dynograd` gets from the table of ops and from the files beside this one.

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

BFloat16Storage: Any
BFloat16Tensor: Any
BoolStorage: Any
BoolTensor: Any
BoolType: Any
ByteStorage: Any
ByteTensor: Any
CharStorage: Any
CharTensor: Any
ComplexDoubleStorage: Any
ComplexFloatStorage: Any
DeviceObjType: Any
DictType: Any
from dynograd.interpreter.override_protocol import DisableTorchFunction as DisableTorchFunction
from dynograd.interpreter.override_protocol import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
DoubleStorage: Any
DoubleTensor: Any
from dynograd.compat.accelerator import Event as Event
FloatStorage: Any
FloatTensor: Any
FloatType: Any
from dynograd.compat.futures import Future as Future
from dynograd.base.random_streams import Generator as Generator
from dynograd.amp.grad_scaler import GradScaler as GradScaler
HalfStorage: Any
HalfTensor: Any
IntStorage: Any
IntTensor: Any
IntType: Any
ListType: Any
LongStorage: Any
LongTensor: Any
OptionalType: Any
from dynograd.errors import OutOfMemoryError as OutOfMemoryError
from dynograd.compat.inner.rebuilding import PyTorchFileReader as PyTorchFileReader
from dynograd.ragged.tensor import RaggedTensor as RaggedTensor
from dynograd.runs.run import Run as Run
ScriptModule: Any
ShortStorage: Any
ShortTensor: Any
from dynograd.base.shapes import Size as Size
from dynograd.compat.accelerator import Stream as Stream
StringType: Any
from dynograd.tensor.assertions import SymBool as SymBool
from dynograd.tensor.assertions import SymFloat as SymFloat
from dynograd.tensor.assertions import SymInt as SymInt
TensorType: Any
TupleType: Any
from dynograd.tensor.storages import TypedStorage as TypedStorage
from dynograd.tensor.storages import UntypedStorage as UntypedStorage
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The absolute value; gradient 0 at 0.'
def abs_(input: Tensor) -> Tensor:
    'In-place form of `abs`: the result is written into the tensor, which is returned.'
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `abs`.'
from dynograd.compat import accelerator as accelerator
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The angle in [0, pi] with this cosine; NaN outside [-1, 1].'
def acos_(input: Tensor) -> Tensor:
    'In-place form of `acos`: the result is written into the tensor, which is returned.'
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The inverse hyperbolic cosine; NaN below 1.'
def acosh_(input: Tensor) -> Tensor:
    'In-place form of `acosh`: the result is written into the tensor, which is returned.'
def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor:
    'The mean of each of `output_size` windows of a sequence.'
def adaptive_max_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each of `output_size` windows of a sequence.'
def add(input: Tensor | _Number, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    '`input + alpha * other`, broadcast and promoted.'
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
    '`beta * input + alpha * (batch1 @ batch2).sum(0)`: the products of a batch added up.'
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, tensor3: Any = None, *, value: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    '`input + value * tensor1 / tensor2`, broadcast and promoted. The old form `addcdiv(input, value, tensor1, tensor2)` works too.'
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, tensor3: Any = None, *, value: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    '`input + value * tensor1 * tensor2`, broadcast and promoted. The old form `addcmul(input, value, tensor1, tensor2)` works too.'
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: _Dtype | None = None, *, beta: builtins.float = 1, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
    '`beta * input + alpha * (mat1 @ mat2)`; with beta 0, NaN and inf in `input` do not matter.'
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
    '`beta * input + alpha * (mat @ vec)`.'
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    'In-place form of `addmv`: the result is written into the tensor, which is returned.'
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
    '`beta * input + alpha * outer(vec1, vec2)`.'
def adjoint(input: Tensor) -> Tensor:
    'The tensor with its last two dims exchanged, conjugated: `.mH`.'
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'What `alias` shows, in memory of its own.'
def all(input: Tensor, dim: _Ints | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'Whether all elements, or all over `dim`, are not zero (NaN is not); True where there are none. uint8 stays uint8.'
def allclose(input: Tensor, other: Tensor | _Number, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
    'Whether all elements are close; see `isclose`.'
def alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`nn.functional.alpha_dropout` with `train` for `training`.'
def alpha_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`alpha_dropout` in place.'
def amax(input: Tensor, dim: _Ints | None = (), keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The largest element over `dim` (an int or several; () for all). Elements that tie share the gradient evenly.'
def amin(input: Tensor, dim: _Ints | None = (), keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The smallest element over `dim` (an int or several; () for all). Elements that tie share the gradient evenly.'
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, out: Any = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> _return_types.aminmax:
    'The smallest and the largest element, of all or over one `dim`, as (min, max).'
from dynograd import amp as amp
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The angle of complex numbers; for real ones 0, or pi below 0 (gradient 0).'
def any(input: Tensor, dim: _Ints | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'Whether any element, of all or over `dim`, is not zero (NaN is not); False where there are none. uint8 stays uint8.'
def arange(start: Tensor | _Number | None = None, end: Tensor | _Number | None = None, step: Tensor | _Number = 1, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`start`, `start + step`, ... up to but without `end`. int64 for ints, the default dtype for floats.'
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `acos`.'
def arccos_(input: Tensor) -> Tensor:
    'In-place form of `arccos`: the result is written into the tensor, which is returned.'
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `acosh`.'
def arccosh_(input: Tensor) -> Tensor:
    'In-place form of `arccosh`: the result is written into the tensor, which is returned.'
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `asin`.'
def arcsin_(input: Tensor) -> Tensor:
    'In-place form of `arcsin`: the result is written into the tensor, which is returned.'
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `asinh`.'
def arcsinh_(input: Tensor) -> Tensor:
    'In-place form of `arcsinh`: the result is written into the tensor, which is returned.'
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `atan`.'
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `atan2`.'
def arctan_(input: Tensor) -> Tensor:
    'In-place form of `arctan`: the result is written into the tensor, which is returned.'
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `atanh`.'
def arctanh_(input: Tensor) -> Tensor:
    'In-place form of `arctanh`: the result is written into the tensor, which is returned.'
from dynograd.kernels.build.determinism import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
def argmax(input: Tensor, dim: _Int | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The index of the largest element along `dim`, or in the flattened tensor; of several equals the first, NaN before all.'
def argmin(input: Tensor, dim: _Int | None = None, keepdim: builtins.bool = False, *, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The index of the smallest element along `dim`, or in the flattened tensor; of several equals the first, NaN before all.'
def argsort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The indices that sort `input` along `dim`; equals keep their order.'
def argwhere(input: Tensor) -> Tensor:
    'The positions of the nonzero elements: (N, ndim) int64.'
from dynograd.compat import array_api as array_api
def as_strided(input: Tensor, size: _Ints, stride: _Ints, storage_offset: builtins.int | None = None) -> Tensor:
    "A view of `input`'s memory with the given size and strides (both in elements), whatever `input`'s own shape is."
def as_strided_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    'In-place form of `as_strided`: the tensor itself changes its shape, and is returned.'
def as_strided_copy(input: Tensor, size: _Ints, stride: _Ints, storage_offset: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    'What `as_strided` shows, in memory of its own.'
def as_strided_scatter(input: Tensor, src: Tensor | _Number, size: _Ints, stride: _Ints, storage_offset: builtins.int | None = None) -> Tensor:
    'A copy of `input` with `src` where `as_strided` of the same arguments would show it.'
def as_tensor(data: Any, dtype: _Dtype | None = None, device: _Device | None = None) -> Tensor:
    '`data` as a tensor, sharing memory with a tensor, storage or NumPy array where dtype allows.'
def asarray(obj: Any, *, dtype: _Dtype | None = None, device: _Device | None = None, copy: builtins.bool | None = None, requires_grad: builtins.bool | None = None) -> Tensor:
    '`obj` as a tensor; `copy=True` never shares memory, `copy=False` raises when it would have to copy.'
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The angle in [-pi/2, pi/2] with this sine; NaN outside [-1, 1].'
def asin_(input: Tensor) -> Tensor:
    'In-place form of `asin`: the result is written into the tensor, which is returned.'
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The inverse hyperbolic sine.'
def asinh_(input: Tensor) -> Tensor:
    'In-place form of `asinh`: the result is written into the tensor, which is returned.'
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The angle in (-pi/2, pi/2) with this tangent.'
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The angle in [-pi, pi] of the point with y `input` and x `other`; gradient 0 at the origin.'
def atan_(input: Tensor) -> Tensor:
    'In-place form of `atan`: the result is written into the tensor, which is returned.'
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.'
def atanh_(input: Tensor) -> Tensor:
    'In-place form of `atanh`: the result is written into the tensor, which is returned.'
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    'The tensors with at least one dim: one tensor, or a tuple for several.'
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    'The tensors with at least two dims, new ones in front.'
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    'The tensors with at least three dims: (N,) becomes (1, N, 1), (M, N) becomes (M, N, 1).'
from dynograd.transforms.autobatch.scope import autobatch as autobatch
from dynograd.amp.autocasting import autocast as autocast
from dynograd import autograd as autograd
def avg_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Tensor:
    'The mean of each window of a sequence; see `avg_pool2d`.'
from dynograd.compat import backends as backends
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: _Dtype | None = None, *, beta: builtins.float = 1, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
    '`beta * input + alpha * (batch1 @ batch2)` for batches of matrices.'
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = True, **options: Any) -> Tensor:
    'A triangle, `1 - |2 k / n - 1|`; see `hann_window`.'
def batch_norm(input: Tensor, weight: Tensor, bias: Any, running_mean: Tensor | None, running_var: Tensor | None, training: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool = True) -> Tensor:
    '`nn.functional.batch_norm` with the weights first.'
from dynograd.transforms.autobatch.tasks import batched as batched
def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None) -> Tensor:
    '1 with the probability that `input` holds (or `p`), else 0, in the dtype of `input`.'
bfloat16: _dtypes.dtype
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    '`input1 @ weight[k] @ input2 + bias[k]` for every output feature k.'
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: builtins.int = 1) -> Tensor:
    '`nn.functional.binary_cross_entropy_with_logits`.'
def bincount(input: Tensor, weights: Any = None, minlength: builtins.int = 0) -> Tensor:
    'How often each of 0, 1, 2, ... occurs in a vector, or the sum of its `weights` (through which gradients flow).'
from dynograd.distributions.draws import binomial as binomial
bits16: _dtypes.dtype
bits1x8: _dtypes.dtype
bits2x4: _dtypes.dtype
bits4x2: _dtypes.dtype
bits8: _dtypes.dtype
def bitwise_and(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The bits set in both.'
def bitwise_left_shift(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input * 2 ** other`, as bits; 0 when everything is shifted out.'
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'All bits turned over.'
def bitwise_or(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The bits set in at least one.'
def bitwise_right_shift(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input // 2 ** other`.'
def bitwise_xor(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The bits set in exactly one.'
def blackman_window(window_length: builtins.int, periodic: builtins.bool = True, **options: Any) -> Tensor:
    '`0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)`; see `hann_window`.'
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    'A matrix with the given ones along its diagonal and zeros elsewhere; 0-d and 1-d tensors are rows.'
def bmm(input: Tensor, mat2: Tensor, out_dtype: _Dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    'The products of two batches of matrices, (B, N, M) with (B, M, P); `out_dtype` as in `mm`.'
bool: _dtypes.dtype
def broadcast_shapes(*shapes_: Any) -> _shapes.Size:
    'The shape that tensors of these shapes broadcast to; a number stands for a shape of one dim.'
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    'Views of all `tensors`, stretched to their common shape.'
def broadcast_to(input: Tensor, size: _Ints) -> Tensor:
    'A view of `input` stretched to the sizes `size`, as `expand` makes it; the method is `expand` itself, and takes several numbers too.'
def bucketize(input: Tensor, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    'The number of the bucket between ascending `boundaries` that each value falls into.'
from dynograd.base.dtypes import can_cast as can_cast
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    'Every combination of one element from each vector, as rows; a single vector comes back as it is.'
def cat(tensors: Sequence[Tensor], dim: _Ints = 0, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'The tensors one after the other along `dim`; their other sizes agree. Mixed dtypes are promoted.'
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, compute_mode: builtins.str | None = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    'The p-norm distance between each row of `x1` and each row of `x2`.'
cdouble: _dtypes.dtype
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Rounded up; gradient 0.'
def ceil_(input: Tensor) -> Tensor:
    'In-place form of `ceil`: the result is written into the tensor, which is returned.'
from dynograd.transforms.autobatch.record.cells import cell as cell
def celu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    '`input` above 0, `alpha * (exp(input / alpha) - 1)` below: an `elu` whose slope is continuous for every alpha.'
def celu_(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `celu`: the result is written into the tensor, which is returned.'
cfloat: _dtypes.dtype
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    'The product of several matrices, in the order of multiplications that costs least.'
chalf: _dtypes.dtype
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    'Mixes groups of channels of (N, C, *): channel j of group i becomes channel i of group j.'
channels_last: _memory_formats.memory_format
channels_last_3d: _memory_formats.memory_format
def cholesky(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    'The older name of `linalg.cholesky`.'
def cholesky_inverse(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    'The inverse of the matrix whose Cholesky factor is `input`.'
def cholesky_solve(input: Tensor, input2: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    'X with `A @ X = input`, where `input2` is the Cholesky factor of A.'
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'At most `chunks` views of equal size along `dim`; the last may be smaller.'
def clamp(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    '`input` with everything below `min` raised to it and everything above `max` lowered to it; NaN stays NaN.'
def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    'In-place form of `clamp`: the result is written into the tensor, which is returned.'
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input`, and `max` where `input` is above it. At ties `input` gets the gradient.'
def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor:
    'In-place form of `clamp_max`: the result is written into the tensor, which is returned.'
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input`, and `min` where `input` is below it. At ties `input` gets the gradient.'
def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor:
    'In-place form of `clamp_min`: the result is written into the tensor, which is returned.'
classes: Any
from dynograd.amp.autocasting import clear_autocast_cache as clear_autocast_cache
def clear_kernel_cache() -> builtins.int:
    'Deletes the kernels on disk. Running programs keep those they have loaded.'
def clip(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    'Another name of `clamp`: everything below `min` is raised to it, everything above `max` lowered to it.'
def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    'In-place form of `clip`: the result is written into the tensor, which is returned.'
def clone(input: Tensor, *, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
    'A copy in new memory that stays part of the graph.'
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    'Joined side by side, with 0-d and 1-d tensors as columns.'
def combinations(input: Tensor, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor:
    'Every choice of `r` elements of a vector in order, as rows, like `itertools.combinations`.'
from dynograd.compat.compiler import compile as compile
from dynograd.compat import compiler as compiler
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The complex numbers with these real and imaginary parts, which broadcast.'
complex128: _dtypes.dtype
complex32: _dtypes.dtype
complex64: _dtypes.dtype
def concat(tensors: Sequence[Tensor], dim: _Ints = 0, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'Another name of `cat`.'
def concatenate(tensors: Sequence[Tensor], dim: _Ints = 0, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'Another name of `cat`.'
def cond(pred: Any, true_fn: Any, false_fn: Any, operands: tuple[Any, ...] | list[Any] = ()) -> Any:
    '`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.'
def conj(input: Tensor) -> Tensor:
    'The complex conjugate, in new memory; real tensors come back as they are.'
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The complex conjugate in new memory; real tensors come back as they are.'
def conj_physical_(input: Tensor) -> Tensor:
    'In-place form of `conj_physical`: the result is written into the tensor, which is returned.'
def constant_pad_nd(input: Tensor, pad: Sequence[builtins.int], value: builtins.float = 0) -> Tensor:
    '`nn.functional.pad` with mode "constant".'
contiguous_format: _memory_formats.memory_format
def conv1d(input: Tensor, weight: Tensor, bias: Any = None, stride: _Ints = 1, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, groups: builtins.int = 1) -> Tensor:
    'Cross-correlation over a sequence: sums `weight` times windows of `input`.'
def conv2d(input: Tensor, weight: Tensor, bias: Any = None, stride: _Ints = 1, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, groups: builtins.int = 1) -> Tensor:
    'Cross-correlation over images: sums `weight` times windows of `input`.'
def conv3d(input: Tensor, weight: Tensor, bias: Any = None, stride: _Ints = 1, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, groups: builtins.int = 1) -> Tensor:
    'Cross-correlation over volumes (N, C, D, H, W) or (C, D, H, W); arguments as in `conv2d`.'
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor | None, pad: builtins.int = 0) -> Any:
    '`conv1d` with time first.'
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Any = None, stride: _Ints = 1, padding: _Ints | builtins.str = 0, output_padding: _Ints = 0, groups: builtins.int = 1, dilation: _Ints = 1) -> Tensor:
    'The transpose of `conv1d`: spreads each place of `input` over a window of the output; see `conv_transpose2d`.'
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Any = None, stride: _Ints = 1, padding: _Ints | builtins.str = 0, output_padding: _Ints = 0, groups: builtins.int = 1, dilation: _Ints = 1) -> Tensor:
    'The transpose of `conv2d`: spreads each place of `input` over a window of the output.'
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Any = None, stride: _Ints = 1, padding: _Ints | builtins.str = 0, output_padding: _Ints = 0, groups: builtins.int = 1, dilation: _Ints = 1) -> Tensor:
    'The transpose of `conv3d`; arguments as in `conv_transpose2d`.'
def convolution(input: Tensor, weight: Tensor, bias: Any, stride: _Ints, padding: _Ints | builtins.str, dilation: _Ints, transposed: builtins.bool, output_padding: _Ints, groups: builtins.int) -> Tensor:
    '`nn.functional.conv1d` to `conv3d`, or with `transposed` their `conv_transpose`, by the dims of `weight`.'
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The size of `input` with the sign of `other` (of -0.0 too).'
def corrcoef(input: Tensor) -> Tensor:
    "Pearson's correlation coefficients of variables (rows) over observations (columns), between -1 and 1."
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The cosine of an angle in radians.'
def cos_(input: Tensor) -> Tensor:
    'In-place form of `cos`: the result is written into the tensor, which is returned.'
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The hyperbolic cosine.'
def cosh_(input: Tensor) -> Tensor:
    'In-place form of `cosh`: the result is written into the tensor, which is returned.'
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, reduction: builtins.int = 1) -> Tensor:
    '`nn.functional.cosine_embedding_loss`.'
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08, *, axis: _Ints | None = None) -> Tensor:
    'The cosine of the angle between vectors along `dim`: x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)).'
def count_nonzero(input: Tensor, dim: _Ints | None = None, *dims: _Ints, axis: _Ints | None = None) -> Tensor:
    'How many elements are not zero, over `dim` or altogether (int64).'
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    'The covariance matrix of variables (rows) over observations (columns); of one variable its variance.'
from dynograd.compat import cpu as cpu
def cross(input: Tensor, other: Tensor | _Number, dim: builtins.int | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The cross product of vectors of size 3 along `dim` (the first dim of size 3 unless given); other dims broadcast.'
def ctc_loss(log_probs: Tensor, targets: Any, input_lengths: Any = None, target_lengths: Any = None, blank: builtins.int = 0, reduction: Any = 'mean', zero_infinity: builtins.bool = False) -> Tensor:
    '-log of the probability of `targets`, summed over all alignments with the sequence: connectionist temporal classification.'
from dynograd import cuda as cuda
def cummax(input: Tensor, dim: _Int, *, out: Any = None, axis: _Ints | None = None) -> _return_types.cummax:
    'The largest element up to and with each place of `dim`, as (values, indices). Of equals the last counts; NaN stays.'
def cummin(input: Tensor, dim: _Int, *, out: Any = None, axis: _Ints | None = None) -> _return_types.cummin:
    'The smallest element up to and with each place of `dim`, as (values, indices). Of equals the last counts; NaN stays.'
def cumprod(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'The product of the elements up to and with each place of `dim`. Booleans and integers multiply in int64.'
def cumsum(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'The sum of the elements up to and with each place of `dim`. Booleans and integers sum in int64.'
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float | None = None, dim: builtins.int = -1, axis: _Ints | None = None) -> Tensor:
    'The area below `y` up to each place of `dim` but the first; arguments as in `trapezoid`.'
from dynograd import data as data
from dynograd import debug as debug
default_generator: Any
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Degrees as radians.'
def deg2rad_(input: Tensor) -> Tensor:
    'In-place form of `deg2rad`: the result is written into the tensor, which is returned.'
def det(input: Tensor) -> Tensor:
    'Another name of `linalg.det`.'
def detach(input: Tensor) -> Tensor:
    'The same memory without history: `input.detach()`.'
def detach_(input: Tensor) -> Tensor:
    'Cuts this tensor from its history, in place.'
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'What `detach` shows, in memory of its own.'
from dynograd.base.devices import device as device
def diag(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    'A vector as the diagonal of a new matrix, or the diagonal of a matrix as a vector, in memory of its own.'
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    'Matrices of zeros with the last dim of `input` on a diagonal; they lie in the new dims `dim1` and `dim2`.'
def diagflat(input: Tensor, offset: builtins.int = 0) -> Tensor:
    'A matrix with all elements of `input` on a diagonal.'
def diagonal(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    'A view of the diagonal of two dims, which becomes the last dim.'
def diagonal_copy(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:
    'What `diagonal` shows, in memory of its own.'
def diagonal_scatter(input: Tensor, src: Tensor | _Number, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    'A copy of `input` with `src` on a diagonal.'
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1, prepend: Any = None, append: Any = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The difference of neighbours along `dim`, `n` times over. For booleans: whether they differ.'
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The derivative of `lgamma`; NaN at negative whole numbers.'
def dist(input: Tensor, other: Tensor, p: builtins.float = 2) -> Tensor:
    'The p-norm of `input - other`, which broadcast.'
from dynograd import distributed as distributed
from dynograd import distributions as distributions
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None, out: Tensor | None = None) -> Tensor:
    '`input / other`; `rounding_mode` "floor" or "trunc" rounds the quotient (integers then stay integers).'
def divide(input: Tensor, other: Tensor | _Number, *, rounding_mode: builtins.str | None = None, out: Tensor | None = None) -> Tensor:
    'Another name of `div`.'
def dot(input: Tensor, tensor: Any, *, out: Tensor | None = None) -> Tensor:
    'The inner product of two vectors.'
double: _dtypes.dtype
def dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`nn.functional.dropout` with `train` for `training`.'
def dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`dropout` in place.'
from dynograd.sparse.functions import dsmm as dsmm
def dsplit(input: Tensor, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: Any = None) -> tuple[Tensor, ...]:
    'Splits along the third dim into equal parts, or at the given indices.'
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    'Joined along the third dim, which 1-d and 2-d tensors get first.'
from dynograd.base.dtypes import dtype as dtype
e: builtins.float
def einsum(equation: Any, *operands: Any) -> Tensor:
    "Products of all operands' elements, summed over the subscripts that the output lacks."
def embedding(weight: Tensor, indices: Tensor, padding_idx: builtins.int = -1, scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Tensor:
    '`nn.functional.embedding` with the table first; a negative `padding_idx` is none.'
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Any, scale_grad_by_freq: builtins.bool = False, mode: builtins.int = 0, sparse: builtins.bool = False, per_sample_weights: Any = None, include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    "`nn.functional.embedding_bag` with the table first and `mode` 0 sum, 1 mean, 2 max; and what PyTorch's backward needs."
def empty(*sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
    'A tensor of whatever was in memory.'
def empty_like(input: Tensor, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'Unset memory in the shape and dtype of `input`.'
def empty_permuted(size: _Ints, physical_layout: Any, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'A tensor of whatever was in memory, dense, with the dims in memory in the order of `physical_layout` (the last one closest).'
def empty_strided(size: _Ints, stride: _Ints, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'A tensor of whatever was in memory, with the given strides (in elements).'
from dynograd.autograd.modes import enable_grad as enable_grad
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Where `input` equals `other`; NaN equals nothing.'
def equal(input: Tensor, other: Tensor | _Number) -> builtins.bool:
    'Whether shapes and all elements are equal.'
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `input`.'
def erf_(input: Tensor) -> Tensor:
    'In-place form of `erf`: the result is written into the tensor, which is returned.'
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`1 - erf(input)`, exact for large `input` too.'
def erfc_(input: Tensor) -> Tensor:
    'In-place form of `erfc`: the result is written into the tensor, which is returned.'
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The number whose `erf` is `input`; infinite at -1 and 1, NaN beyond.'
from dynograd import errors as errors
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'e to the power of `input`.'
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '2 to the power of `input`.'
def exp2_(input: Tensor) -> Tensor:
    'In-place form of `exp2`: the result is written into the tensor, which is returned.'
def exp_(input: Tensor) -> Tensor:
    'In-place form of `exp`: the result is written into the tensor, which is returned.'
def expand_copy(input: Tensor, *sizes: _Ints, size: _Ints | None = None, implicit: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    'What `expand` shows, in memory of its own.'
from dynograd.debug.explaining import explain as explain
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`exp(input) - 1`, exact near 0.'
def expm1_(input: Tensor) -> Tensor:
    'In-place form of `expm1`: the result is written into the tensor, which is returned.'
from dynograd import export as export
def eye(n: builtins.int, m: builtins.int | None = None, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'Ones on the diagonal, zeros elsewhere.'
def feature_alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`nn.functional.feature_alpha_dropout` with `train` for `training`.'
def feature_alpha_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`feature_alpha_dropout` in place.'
def feature_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    'Whole channels of (N, C, ...) become 0 with probability `p`, the others grow by 1 / (1 - p).'
def feature_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:
    '`feature_dropout` in place.'
from dynograd import fft as fft
def fill(input: Tensor, value: Tensor | _Number) -> Tensor:
    'A tensor like `input` of which every element is `value`, a number or a tensor without dims.'
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor:
    'Sets every element to `value` (a number or a 0-d tensor).'
from dynograd.base.dtypes import finfo as finfo
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `trunc`.'
def fix_(input: Tensor) -> Tensor:
    'In-place form of `fix`: the result is written into the tensor, which is returned.'
def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    'Joins the dims from `start_dim` to `end_dim` into one; a 0-d tensor gets one dim.'
def flip(input: Tensor, *order: _Ints, dims: _Ints | None = None) -> Tensor:
    'A copy with the order of the elements along `dims` reversed.'
def fliplr(input: Tensor) -> Tensor:
    'A copy with the columns (second dim) in reverse order.'
def flipud(input: Tensor) -> Tensor:
    'A copy with the rows (first dim) in reverse order.'
float: _dtypes.dtype
float16: _dtypes.dtype
float32: _dtypes.dtype
float4_e2m1fn_x2: _dtypes.dtype
float64: _dtypes.dtype
float8_e4m3fn: _dtypes.dtype
float8_e4m3fnuz: _dtypes.dtype
float8_e5m2: _dtypes.dtype
float8_e5m2fnuz: _dtypes.dtype
float8_e8m0fnu: _dtypes.dtype
def float_power(input: Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input ** exponent`, computed in float64 or complex128.'
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Rounded down; gradient 0.'
def floor_(input: Tensor) -> Tensor:
    'In-place form of `floor`: the result is written into the tensor, which is returned.'
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input / other` rounded down, in the promoted dtype. Gradient 0.'
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The larger of each pair; a number wins over NaN. At ties `input` gets the gradient.'
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The smaller of each pair; a number wins over NaN. At ties `input` gets the gradient.'
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    "The remainder with the sign of `input`, as C's fmod."
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The part after the point, with the sign of `input`.'
def frac_(input: Tensor) -> Tensor:
    'In-place form of `frac`: the result is written into the tensor, which is returned.'
def frexp(input: Tensor, *, out: Any = None) -> _return_types.frexp:
    '(mantissa, exponent) with `input = mantissa * 2 ** exponent` and 0.5 <= |mantissa| < 1; the exponent is int32.'
def frobenius_norm(input: Tensor, dim: _Ints = (), keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    'The root of the sum of squares over `dim` (all unless given); `linalg.norm` is the newer name.'
def from_dlpack(ext_tensor: Any, *, device: _Device | None = None, copy: builtins.bool | None = None) -> Tensor:
    "A tensor on the memory of another library's array (or of a DLPack capsule); nothing is copied unless `copy=True`."
def from_file(filename: Any, shared: builtins.bool | None = None, size: builtins.int = 0, *, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    'A 1-d tensor on the bytes of a file, which are read when they are used.'
def from_numpy(ndarray: Any) -> Tensor:
    'A tensor that shares the memory of a NumPy array.'
def frombuffer(buffer: Any, *, dtype: _Dtype, count: builtins.int = -1, offset: builtins.int = 0, requires_grad: builtins.bool = False) -> Tensor:
    'A 1-d tensor on the memory of a Python buffer, as elements of `dtype`.'
def full(size: _Ints, fill_value: Tensor | _Number, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'A tensor of `fill_value`; its dtype is that of the value unless given.'
def full_like(input: Tensor, fill_value: Tensor | _Number, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`fill_value` in the shape and dtype of `input`.'
from dynograd import func as func
from dynograd.compat import functional as functional
from dynograd.compat import futures as futures
from dynograd.overrides import fx as fx
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`output[i][j][k] = input[i][index[i][j][k]][k]` for `dim=1`: picks along `dim`, in the shape of `index`.'
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The greatest common divisor of each pair of integers.'
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    'In-place form of `gcd`: the result is written into the tensor, which is returned.'
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is at least `other`.'
def geqrf(input: Tensor, *, out: Any = None) -> _return_types.geqrf:
    '(a, tau): R on and above the diagonal of `a` and reflections below, of which `orgqr(a, tau)` makes Q. Not differentiable.'
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `outer`.'
from dynograd.amp.autocasting import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from dynograd.amp.autocasting import get_autocast_dtype as get_autocast_dtype
from dynograd.amp.autocasting import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from dynograd.base.devices import get_default_device as get_default_device
from dynograd.base.dtypes import get_default_dtype as get_default_dtype
def get_deterministic_debug_mode() -> builtins.int:
    '0, 1 or 2; see `set_deterministic_debug_mode`.'
def get_device(input: Tensor) -> builtins.int:
    'The index of the GPU that holds `input`, or -1.'
from dynograd.compat.inner.top_level import get_device_module as get_device_module
from dynograd.kernels.build.precision import get_float32_matmul_precision as get_float32_matmul_precision
from dynograd.kernels.build.threads import get_num_interop_threads as get_num_interop_threads
from dynograd.kernels.build.threads import get_num_threads as get_num_threads
def get_printoptions() -> dict[builtins.str, Any]:
    'The options in force, as keyword arguments for `set_printoptions`.'
def get_rng_state() -> Tensor:
    "The default generator's state, as a tensor."
def gradient(input: Tensor, *, spacing: Any = 1, dim: _Ints | None = None, edge_order: builtins.int = 1, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'Estimates the derivative of a sampled function along each dim by second-order differences of neighbours.'
def greater(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `gt`.'
def greater_equal(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `ge`.'
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor:
    '`nn.functional.grid_sample` with its modes as numbers: 0, 1, 2 for bilinear, nearest, bicubic and zeros, border, reflection.'
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor:
    '`grid_sampler` of images (N, C, H, W).'
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor:
    '`grid_sampler` of volumes (N, C, D, H, W).'
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Any = None, eps: builtins.float = 1e-05, cudnn_enabled: builtins.bool = True) -> Tensor:
    '`nn.functional.group_norm`.'
def gru_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    "One step of a GRU: h' (B, H) from `input` (B, I) and `hx` (B, H); see `gru_layer`."
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is greater than `other`.'
half: _dtypes.dtype
def hamming_window(window_length: builtins.int, periodic: builtins.bool = True, alpha: builtins.float = 0.54, beta: builtins.float = 0.46, **options: Any) -> Tensor:
    '`alpha - beta cos(2 pi k / n)`; see `hann_window`.'
def hann_window(window_length: builtins.int, periodic: builtins.bool = True, **options: Any) -> Tensor:
    '`0.5 - 0.5 cos(2 pi k / n)` for k = 0 .. window_length - 1.'
def hardshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
    '`input`, and 0 where it is within `lambd` of 0.'
def hash_tensor(input: Tensor, dim: _Ints | None = None, *, keepdim: builtins.bool = False, mode: builtins.int = 0, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The exclusive or of the bits of all elements over `dim`, each as float64 or int64: equal for equal elements in any order.'
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    '0 below 0, 1 above, `values` at 0.'
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0, reduction: builtins.int = 1) -> Tensor:
    '`nn.functional.hinge_embedding_loss`.'
def histc(input: Tensor, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None) -> Tensor:
    'How many elements lie in each of `bins` equal parts of [min, max], in the dtype of `input`.'
def histogram(input: Tensor, bins: Any, *, range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False, out: Any = None) -> _return_types.histogram:
    '(hist, bin_edges): how many elements lie between edges.'
def histogramdd(input: Tensor, bins: Any, range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False) -> _return_types.histogramdd:
    '(hist, bin_edges): how many points lie in each box of a grid of D dims.'
def hsplit(input: Tensor, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: Any = None) -> tuple[Tensor, ...]:
    'Splits along the second dim (the first of a vector) into equal parts, or at the given indices.'
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    'Joined side by side: along the second dim, or the first for 1-d tensors.'
from dynograd.compat import hub as hub
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The long side of a right triangle: `sqrt(input**2 + other**2)` without overflow.'
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The modified Bessel function of the first kind of order 0.'
def i0_(input: Tensor) -> Tensor:
    'In-place form of `i0`: the result is written into the tensor, which is returned.'
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The regularized lower incomplete gamma function: the integral of `exp(-t) t**(input - 1)` from 0 to `other`, over gamma(input).'
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The regularized upper incomplete gamma function, `1 - igamma(input, other)` without the difference; see `igamma`.'
from dynograd.base.dtypes import iinfo as iinfo
def imag(input: Tensor) -> Tensor:
    'The imaginary part of a complex tensor, as a view.'
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number = 1, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with `alpha` times the slices of `source` added at `index` along `dim`.'
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with the slices of `source` written at `index` along `dim`.'
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: Tensor | _Number, *, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with `value` (a number or 0-d tensor) in the slices at `index` along `dim`.'
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
    'A copy of `input` with `values` (broadcast) written at `input[indices]`, or added there when `accumulate`.'
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
    'In-place form of `index_put`: the result is written into the tensor, which is returned.'
def index_reduce(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with the slices of `source` combined into those at `index` by "prod", "mean", "amax" or "amin".'
def index_select(input: Tensor, dim: builtins.int, index: Tensor, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of the slices of `input` at `index` along `dim`.'
inf: builtins.float
from dynograd.autograd.modes import inference_mode as inference_mode
from dynograd.base.random_streams import initial_seed as initial_seed
def inner(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The sum of products over the last dims; a number multiplies.'
def instance_norm(input: Tensor, weight: Tensor, bias: Any, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool = True) -> Tensor:
    '`nn.functional.instance_norm` with the weights first.'
int: _dtypes.dtype
int1: _dtypes.dtype
int16: _dtypes.dtype
int2: _dtypes.dtype
int3: _dtypes.dtype
int32: _dtypes.dtype
int4: _dtypes.dtype
int5: _dtypes.dtype
int6: _dtypes.dtype
int64: _dtypes.dtype
int7: _dtypes.dtype
int8: _dtypes.dtype
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `linalg.inv`.'
def is_anomaly_check_nan_enabled() -> builtins.bool:
    'Whether anomaly mode looks for NaN.'
from dynograd.autograd.modes import is_anomaly_enabled as is_anomaly_enabled
from dynograd.amp.autocasting import is_autocast_cache_enabled as is_autocast_cache_enabled
from dynograd.amp.autocasting import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from dynograd.amp.autocasting import is_autocast_enabled as is_autocast_enabled
from dynograd.kernels.build.batch_invariance import is_batch_invariant as is_batch_invariant
def is_complex(input: Tensor) -> builtins.bool:
    'Whether `input` holds complex numbers.'
def is_conj(input: Tensor) -> builtins.bool:
    'False: conjugates are computed at once.'
from dynograd.kernels.build.determinism import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
def is_distributed(input: Tensor) -> builtins.bool:
    'Whether `input` is spread over processes: never.'
def is_floating_point(input: Tensor) -> builtins.bool:
    'Whether `input` holds floating-point numbers (complex ones are not).'
from dynograd.autograd.modes import is_grad_enabled as is_grad_enabled
def is_inference(input: Tensor) -> builtins.bool:
    'False; see `Tensor.is_inference`.'
from dynograd.autograd.modes import is_inference_mode_enabled as is_inference_mode_enabled
def is_neg(input: Tensor) -> builtins.bool:
    'False: negatives are computed at once.'
def is_nonzero(input: Tensor) -> builtins.bool:
    'Whether the only element of `input` is true.'
from dynograd.kernels.build.notices import is_quiet as is_quiet
from dynograd.ragged.tensor import is_ragged as is_ragged
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    'Whether two tensors have one shape.'
def is_signed(input: Tensor) -> builtins.bool:
    'Whether the dtype of `input` has negative numbers.'
def is_storage(obj: builtins.object) -> builtins.bool:
    'Whether `obj` is a storage.'
def is_warn_always_enabled() -> builtins.bool:
    'What `set_warn_always` was told; False before.'
def isclose(input: Tensor, other: Tensor | _Number, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
    'Where `abs(input - other) <= atol + rtol * abs(other)`; infinities are close when they are equal.'
def isfinite(input: Tensor) -> Tensor:
    'Where `input` is neither infinite nor NaN.'
def isin(elements: Any, test_elements: Any, *, assume_unique: builtins.bool = False, invert: builtins.bool = False, out: Tensor | None = None, element: Any = None, test_element: Any = None) -> Tensor:
    'bool: whether each element occurs among `test_elements`; either may be a number, not both.'
def isinf(input: Tensor) -> Tensor:
    'Where `input` is infinite.'
def isnan(input: Tensor) -> Tensor:
    'Where `input` is NaN.'
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is minus infinity.'
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is plus infinity.'
def isreal(input: Tensor) -> Tensor:
    'Whether each element has no imaginary part.'
def istft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:
    'The signal of which `stft` with the same arguments gives `input`; where windows overlap, the least-squares one.'
jagged: _layouts.layout
from dynograd.compat import jit as jit
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = True, beta: builtins.float = 12.0, **options: Any) -> Tensor:
    '`i0(beta sqrt(1 - (2 k / n - 1)^2)) / i0(beta)`, with the Bessel function i0; see `hann_window`.'
def kernel_cache_statistics() -> dict[builtins.str, Any]:
    'How many kernels this process compiled, loaded from the cache folder, loaded from a pack, and found damaged.'
def kl_div(input: Tensor, target: Tensor, reduction: builtins.int = 1, *, log_target: builtins.bool = False) -> Tensor:
    '`nn.functional.kl_div`, without its warning about the mean.'
def kron(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The Kronecker product: every element of `input` times the whole of `other`, laid out as a block tensor.'
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> _return_types.kthvalue:
    'The `k`-th smallest element along `dim` (1 is the smallest), as (values, indices); of equals the first.'
def layer_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, bias: Any = None, eps: builtins.float = 1e-05, cudnn_enable: builtins.bool = True) -> Tensor:
    '`input` with mean 0 and variance 1 over its last dims, times `weight` plus `bias`.'
from dynograd.base.layouts import layout as layout
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The least common multiple of each pair of integers.'
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    'In-place form of `lcm`: the result is written into the tensor, which is returned.'
def ldexp(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input * 2 ** other`; with whole `other` in the dtype of a floating `input`, rounded once, and finite wherever the product is.'
def ldexp_(input: Tensor, other: Tensor | _Number) -> Tensor:
    'In-place form of `ldexp`: the result is written into the tensor, which is returned.'
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is at most `other`.'
legacy_contiguous_format: _memory_formats.memory_format
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input + weight * (end - input)`: `input` at weight 0, `end` at 1.'
def less(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `lt`.'
def less_equal(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `le`.'
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logarithm of the absolute value of the gamma function: `log((input - 1)!)` for whole numbers.'
from dynograd import library as library
from dynograd import linalg as linalg
def linspace(start: Tensor | _Number, end: Tensor | _Number, steps: builtins.int, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`steps` evenly spaced numbers from `start` to `end`, both included.'
from dynograd.saving.serialization import load as load
from dynograd.runs.saving import load_run as load_run
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The natural logarithm; -inf at 0, NaN below.'
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logarithm to base 10.'
def log10_(input: Tensor) -> Tensor:
    'In-place form of `log10`: the result is written into the tensor, which is returned.'
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`log(1 + input)`, exact near 0.'
def log1p_(input: Tensor) -> Tensor:
    'In-place form of `log1p`: the result is written into the tensor, which is returned.'
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logarithm to base 2.'
def log2_(input: Tensor) -> Tensor:
    'In-place form of `log2`: the result is written into the tensor, which is returned.'
def log_(input: Tensor) -> Tensor:
    'In-place form of `log`: the result is written into the tensor, which is returned.'
def log_softmax(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The logarithm of `softmax`, computed without overflow.'
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`log(exp(input) + exp(other))` without overflow; -inf stands for a probability of 0.'
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`log2(2 ** input + 2 ** other)` without overflow.'
def logcumsumexp(input: Tensor, dim: builtins.int, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'log(cumsum(exp(input), dim)), without overflow. Places up to which all is -inf give -inf, with gradient 0.'
def logdet(input: Tensor) -> Tensor:
    'The logarithm of the determinant of each matrix: -inf where it is 0, NaN where it is negative.'
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where both are true (not 0).'
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is false (0).'
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where at least one is true (not 0).'
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where exactly one is true (not 0).'
def logit(input: Tensor, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    '`log(input / (1 - input))`, the inverse of `sigmoid`; `input` is first clamped to [eps, 1 - eps] when `eps` is given.'
def logit_(input: Tensor, eps: builtins.float | None = None) -> Tensor:
    'In-place form of `logit`: the result is written into the tensor, which is returned.'
def logspace(start: Tensor | _Number, end: Tensor | _Number, steps: builtins.int, base: builtins.float = 10.0, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`base` to the power of evenly spaced exponents from `start` to `end`.'
def logsumexp(input: Tensor, dim: _Ints, keepdim: builtins.bool = False, *, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'log(sum(exp(input))) over `dim` (an int or several), without overflow.'
long: _dtypes.dtype
def lstm_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, ...]:
    "One step of an LSTM: (h', c') from `input` (B, I) and `hx` = (h, c), each (B, H); see `lstm_layer`."
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Where `input` is less than `other`.'
def lu(input: Tensor, pivot: builtins.bool = True, get_infos: builtins.bool = False, *, out: Any = None) -> tuple[Tensor, ...]:
    '(LU, pivots), and infos if wanted: the older form of `linalg.lu_factor`.'
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The older form of `linalg.lu_solve`, with its arguments in another order.'
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: builtins.bool = True, unpack_pivots: builtins.bool = True, *, out: Any = None) -> _return_types.lu_unpack:
    '(P, L, U) of what `linalg.lu_factor` gave; empty tensors for what is not wanted.'
from dynograd.base.random_streams import manual_seed as manual_seed
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, reduction: builtins.int = 1) -> Tensor:
    '`nn.functional.margin_ranking_loss`.'
from dynograd.compat import masked as masked
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    "`value` where `mask` is true, `input` elsewhere, in `input`'s dtype."
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    'A copy of `input` in which the places where `mask` (broadcast) is True hold the first elements of `source`, in order.'
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The elements of `input` where `mask` is True, as a vector; the two broadcast.'
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The matrix product; leading dims broadcast, 1-d operands are a row on the left and a column on the right.'
def matrix_exp(input: Tensor) -> Tensor:
    'The exponential of each square matrix, `I + A + A @ A / 2 + ...`.'
def matrix_power(input: Tensor, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
    'The n-th power of a square matrix, or of each of a batch; n = 0 gives identity matrices, n < 0 powers of the inverse.'
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
@overload
def max(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.max:
    'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
@overload
def max(input: Tensor, *, axis: builtins.int, keepdims: builtins.bool = ..., out: Any = None) -> _return_types.max:
    'The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.'
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each window of a sequence; see `max_pool2d`.'
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each window of an image. NaN wins; of equal values the first one gets the gradient.'
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each window of a volume; see `max_pool2d`.'
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The larger of each pair; NaN wins. At ties each side gets half of the gradient.'
def mean(input: Tensor, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The mean of all elements, or over `dim`; NaN where there are none.'
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.'
@overload
def median(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.median:
    'The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.'
@overload
def median(input: Tensor, *, axis: builtins.int, keepdims: builtins.bool = ...) -> _return_types.median:
    'The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.'
from dynograd import memory as memory
from dynograd.base.memory_formats import memory_format as memory_format
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: builtins.str = 'ij') -> tuple[Tensor, ...]:
    'For N vectors the N coordinate grids, each of shape (len(first), len(second), ...); `indexing="xy"` swaps the first two dims.'
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
@overload
def min(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.min:
    'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
@overload
def min(input: Tensor, *, axis: builtins.int, keepdims: builtins.bool = ..., out: Any = None) -> _return_types.min:
    'The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.'
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The smaller of each pair; NaN wins. At ties each side gets half of the gradient.'
def mm(input: Tensor, mat2: Tensor, out_dtype: _Dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    'The product of two matrices; `out_dtype` float32 keeps what half types are summed in.'
def mode(input: Tensor, dim: _Int = -1, keepdim: builtins.bool = False, *, out: Any = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> _return_types.mode:
    'The most frequent element along `dim`, as (values, indices): of several the smallest, and the last place of it.'
def moveaxis(input: Tensor, source: _Ints, destination: _Ints) -> Tensor:
    'Another name of `movedim`.'
def movedim(input: Tensor, source: _Ints, destination: _Ints) -> Tensor:
    'A view with the dims `source` (an int or several) moved to the places `destination`; the others keep their order.'
mps: Any
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The elements in order along the first dim.'
mtia: Any
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input * other`, broadcast and promoted.'
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None) -> Tensor:
    'Column numbers drawn from each row of unnormalised probabilities.'
def multiply(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `mul`.'
from dynograd.compat import multiprocessing as multiprocessing
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The product of a matrix and a vector.'
def mvlgamma(input: Tensor, p: builtins.int, *, out: Tensor | None = None) -> Tensor:
    'The logarithm of the multivariate gamma function of dimension `p`; needs `input > (p - 1) / 2`.'
nan: builtins.float
def nan_to_num(input: Tensor, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    'NaN becomes `nan` (0), infinity `posinf` (the largest number of the dtype), minus infinity `neginf` (the smallest).'
def nan_to_num_(input: Tensor, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    'In-place form of `nan_to_num`: the result is written into the tensor, which is returned.'
def nanmean(input: Tensor, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The mean of the elements that are not NaN; NaN where there are none.'
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.'
@overload
def nanmedian(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None) -> _return_types.nanmedian:
    'The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.'
@overload
def nanmedian(input: Tensor, *, axis: builtins.int, keepdims: builtins.bool = ...) -> _return_types.nanmedian:
    'The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.'
def nanquantile(input: Tensor, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear', out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The `q`-quantiles of the elements that are not NaN; NaN where there are none. Otherwise as `quantile`.'
def nansum(input: Tensor, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The sum, over `dim` or of everything, with NaN counted as 0.'
def narrow(input: Tensor, dim: _Ints | None = None, start: builtins.int | Tensor | None = None, length: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
    'The view `start:start + length` along `dim`; a negative `start` counts from the end.'
def narrow_copy(input: Tensor, dim: _Ints | None = None, start: Tensor | _Number | None = None, length: builtins.int | None = None, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'What `narrow` shows, in memory of its own.'
def native_batch_norm(input: Tensor, weight: Tensor, bias: Any, running_mean: Tensor | None, running_var: Tensor | None, training: builtins.bool, momentum: builtins.float, eps: builtins.float, *, out: Any = None) -> tuple[Tensor, ...]:
    '(`batch_norm` of `input` (N, C, *), means (C,), 1 / root of variance + eps (C,)); the last two are empty when not training.'
from dynograd.compat.operators.aten_forms import native_dropout as native_dropout
def native_group_norm(input: Tensor, weight: Tensor, bias: Any, N: builtins.int, C: builtins.int, HxW: builtins.int, group: builtins.int, eps: builtins.float) -> tuple[Tensor, ...]:
    '(`group_norm` of `input` (N, C, *), means (N, group), 1 / root of variance + eps (N, group)).'
def native_layer_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor, bias: Any, eps: builtins.float) -> tuple[Tensor, ...]:
    '(`layer_norm` of `input`, means, 1 / root of variance + eps), the last two with dims of size 1 in place of the normalised ones.'
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Where `input` differs from `other`.'
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`-input`.'
def neg_(input: Tensor) -> Tensor:
    'In-place form of `neg`: the result is written into the tensor, which is returned.'
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `neg`.'
def negative_(input: Tensor) -> Tensor:
    'In-place form of `negative`: the result is written into the tensor, which is returned.'
from dynograd.compat import nested as nested
newaxis: None
def nextafter(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The number next to `input` on the way to `other`; `other` where the two are equal, NaN where one is NaN.'
from dynograd import nn as nn
from dynograd.autograd.modes import no_grad as no_grad
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
    'The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.'
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]:
    'The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.'
@overload
def nonzero(input: Tensor, *, as_tuple: builtins.bool) -> Tensor | tuple[Tensor, ...]:
    'The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.'
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = -1, out: Tensor | None = None) -> Tensor:
    'The first `size` rows of `nonzero(input)`, filled up with rows of `fill_value`: a shape known in advance.'
def norm(input: Tensor, p: Any = 'fro', dim: _Ints | None = None, keepdim: builtins.bool = False, dtype: _Dtype | None = None, *, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The p-norm of all elements, or over `dim` (an int or several), taken as one vector.'
def norm_except_dim(v: Tensor, pow: builtins.int = 2, dim: builtins.int = 0) -> Tensor:
    'The norm over all dims but `dim`, which are kept with size 1 (weight normalisation). `dim` -1: over all of them.'
def normal(mean: Any = 0.0, std: Any = 1.0, size: _Ints | None = None, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    'Normal numbers; mean and std are numbers (then `size` is needed) or tensors that broadcast.'
def not_equal(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `ne`.'
def nuclear_norm(input: Tensor, dim: _Ints = (-2, -1), keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    'The sum of the singular values of the matrices in two dims.'
def numel(input: Tensor) -> builtins.int:
    'How many elements there are.'
def ones(*sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'A tensor of ones.'
def ones_like(input: Tensor, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'Ones in the shape and dtype of `input`.'
from dynograd import ops as ops
from dynograd import optim as optim
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `linalg.householder_product`.'
def ormqr(input: Tensor, tau: Any, other: Tensor | _Number, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None, input2: Tensor | None = None, input3: Tensor | None = None) -> Tensor:
    '`Q @ other` for the product Q of all reflections that `geqrf` gave, without making Q.'
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The matrix of `input[i] * vec2[j]`.'
from dynograd import overrides as overrides
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False, *, keepdims: builtins.bool | None = None) -> Tensor:
    'The p-norm of x1 - x2 + eps over the last dim.'
def pca_lowrank(A: Tensor, q: builtins.int | None = None, center: builtins.bool = True, niter: builtins.int = 2) -> tuple[Any, ...]:
    '(U, S, V) of `svd_lowrank` for data of samples (rows) and features (columns): V holds the principal directions.'
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:
    'The p-norm distance between every two rows of `input`: rows 0 and 1, 0 and 2, ..., the last two.'
def permute(input: Tensor, *order: _Ints, dims: _Ints | None = None) -> Tensor:
    'A view with the dims in another order; every dim is named once.'
def permute_copy(input: Tensor, *order: _Ints, dims: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'What `permute` shows, in memory of its own.'
pi: builtins.float
def pinverse(input: Tensor, rcond: builtins.float = 1e-15) -> Tensor:
    'The older form of `linalg.pinv`.'
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    'Moves channels into space: (*, C r^2, H, W) to (*, C, H r, W r).'
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    'Moves space into channels: (*, C, H r, W r) to (*, C r^2, H, W); the inverse of `pixel_shuffle`.'
from dynograd.distributions.draws import poisson as poisson
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool, full: builtins.bool, eps: builtins.float, reduction: builtins.int) -> Tensor:
    '`nn.functional.poisson_nll_loss`.'
def polar(abs: Any, angle: Any, *, out: Tensor | None = None) -> Tensor:
    'The complex numbers with these sizes and angles.'
def polygamma(n: builtins.int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The `n`th derivative of `digamma`.'
def positive(input: Tensor) -> Tensor:
    '`input` itself, as `+input`.'
def pow(input: Tensor, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input ** exponent`, broadcast and promoted; integers stay integers and then need exponents of at least 0.'
def prelu(input: Tensor, weight: Tensor | _Number) -> Tensor:
    '`input` above 0, `weight * input` elsewhere, with a weight that is learned.'
preserve_format: _memory_formats.memory_format
from dynograd.tensor.printing import printoptions as printoptions
def prod(input: Tensor, dim: _Int | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The product of all elements, or over one `dim`; 1 where there are none. Booleans and integers multiply in int64.'
from dynograd import profiler as profiler
from dynograd.base.dtypes import promote_types as promote_types
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
    'A copy of `input` with the elements of `source` written (or added) at the flat positions `index`.'
qint32: _dtypes.dtype
qint8: _dtypes.dtype
def qr(input: Tensor, some: builtins.bool = True, *, out: Any = None) -> _return_types.qr:
    '(Q, R): the older form of `linalg.qr`; complete unless `some`.'
def quantile(input: Tensor, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear', out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The `q`-quantiles along `dim`, or of all elements; NaN where there is one.'
from dynograd.compat import quasirandom as quasirandom
quint2x4: _dtypes.dtype
quint4x2: _dtypes.dtype
quint8: _dtypes.dtype
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Radians as degrees.'
def rad2deg_(input: Tensor) -> Tensor:
    'In-place form of `rad2deg`: the result is written into the tensor, which is returned.'
from dynograd import ragged as ragged
from dynograd.ragged.making import ragged_from_padded as ragged_from_padded
from dynograd.ragged.making import ragged_like as ragged_like
from dynograd.ragged.making import ragged_tensor as ragged_tensor
def rand(*sizes: _Ints, size: _Ints | None = None, generator: _random_streams.Generator | None = None, out: Tensor | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    'Uniform numbers of [0, 1).'
def rand_like(input: Tensor, *, dtype: _Dtype | None = None, generator: _random_streams.Generator | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`rand` in the shape and dtype of `input`.'
def randint(low: builtins.int | None = None, high: builtins.int | None = None, size: _Ints | None = None, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    'Integers of [low, high), or of [0, low) as `randint(high, size)`.'
def randint_like(input: Tensor, low: builtins.int | None = None, high: builtins.int | None = None, *, dtype: _Dtype | None = None, generator: _random_streams.Generator | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`randint` in the shape and dtype of `input`.'
def randn(*sizes: _Ints, size: _Ints | None = None, generator: _random_streams.Generator | None = None, out: Tensor | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    'Normal numbers of mean 0 and variance 1.'
def randn_like(input: Tensor, *, dtype: _Dtype | None = None, generator: _random_streams.Generator | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`randn` in the shape and dtype of `input`.'
from dynograd import random as random
def randperm(n: builtins.int, *, generator: _random_streams.Generator | None = None, out: Tensor | None = None, dtype: _Dtype | None = None, layout: _layouts.layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    'The numbers 0 to n - 1 in random order.'
def range(start: Tensor | _Number, end: Tensor | _Number | None = None, step: Tensor | _Number = 1, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    '`start`, `start + step`, ... up to and with `end`, in the default dtype (old; use `arange`, which leaves `end` out).'
def ravel(input: Tensor) -> Tensor:
    'All elements in row-major order, as one dim.'
def real(input: Tensor) -> Tensor:
    'The real part, as a view; a real tensor itself.'
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`1 / input`.'
def reciprocal_(input: Tensor) -> Tensor:
    'In-place form of `reciprocal`: the result is written into the tensor, which is returned.'
def relu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`input` where it is above 0, 0 elsewhere; NaN stays. The gradient at 0 is 0.'
def relu_(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `relu`: the result is written into the tensor, which is returned.'
def remainder(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    "The remainder with the sign of `other`, as Python's `%`."
def renorm(input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`input` with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.'
def repeat_interleave(input: Tensor, repeats: builtins.int | Tensor | None = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None, axis: _Ints | None = None) -> Tensor:
    'Each slice along `dim` repeated in place; without `dim`, each element of the flattened tensor.'
def reshape(input: Tensor, *sizes: _Ints, shape: _Ints | None = None) -> Tensor:
    'The same elements in row-major order under another shape; one size may be -1. A view where memory allows.'
def resize_as_(input: Tensor, the_template: Tensor, memory_format: _memory_formats.memory_format | None = None) -> Tensor:
    '`resize_` to the shape of another tensor.'
def resolve_conj(input: Tensor) -> Tensor:
    '`input` itself: no tensor here is a conjugate that waits to be computed.'
def resolve_neg(input: Tensor) -> Tensor:
    '`input` itself: no tensor here is a negative that waits to be computed.'
def result_type(*operands: Any, **named: Any) -> _dtypes.dtype:
    "The dtype of what an arithmetic op makes of two tensors or numbers; by name they are PyTorch's `tensor`, `other`, `scalar`, ..."
from dynograd import return_types as return_types
def rms_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    '`input` divided by the root of its mean square over its last dims, times `weight`.'
def rnn_relu_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    'One step of an Elman network with relu: relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).'
def rnn_tanh_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    'One step of an Elman network: tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).'
def roll(input: Tensor, shifts: _Ints, dims: _Ints | None = None) -> Tensor:
    'A copy moved by `shifts` along `dims`; what falls off one end comes back at the other. Without `dims`, over all elements.'
def rot90(input: Tensor, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
    'A copy rotated `k` times by 90 degrees, from the first of `dims` towards the second.'
def round(input: Tensor, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    'Rounded to `decimals` places (negative: tens, hundreds, ...), halves to even; gradient 0.'
def round_(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    'In-place form of `round`: the result is written into the tensor, which is returned.'
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    'Another name of `vstack`.'
from dynograd.nn.randomized import rrelu as rrelu
from dynograd.nn.randomized import rrelu_ as rrelu_
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`1 / sqrt(input)`; inf at 0, NaN below.'
def rsqrt_(input: Tensor) -> Tensor:
    'In-place form of `rsqrt`: the result is written into the tensor, which is returned.'
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Tensor:
    '`other - alpha * input`.'
from dynograd import runs as runs
from dynograd.saving.serialization import save as save
from dynograd.runs.saving import save_run as save_run
from dynograd import saving as saving
def scalar_tensor(s: Any, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'A 0-d tensor of the default dtype.'
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = None, *, value: Tensor | _Number | None = None, reduce: builtins.str | None = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with `output[i][index[i][j]] = src[i][j]` (for `dim=1`): the inverse of `gather`.'
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | _Number, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with `output[i][index[i][j]] += src[i][j]` (for `dim=1`).'
def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | _Number, reduce: builtins.str, *, include_self: builtins.bool = True, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` in which each place named by `index` holds the reduction of the elements of `src` that go there.'
def searchsorted(sorted_sequence: Tensor, input: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: builtins.str | None = None, sorter: Any = None, out: Tensor | None = None) -> Tensor:
    'Where in the last dim of `sorted_sequence` each value would be inserted to keep it sorted.'
from dynograd.base.random_streams import seed as seed
def segment_reduce(data: Any, reduce: builtins.str, *, lengths: Any = None, indices: Tensor | None = None, offsets: Any = None, axis: builtins.int = 0, unsafe: builtins.bool = False, initial: Any = None) -> Tensor:
    'The sum, mean, maximum, minimum or product of each segment of `axis`; segments lie behind one another.'
def select(input: Tensor, dim: _Ints | None = None, index: builtins.int | None = None, *, axis: _Ints | None = None) -> Tensor:
    'The view at `index` along `dim`, with that dim removed.'
def select_copy(input: Tensor, dim: _Ints | None = None, index: builtins.int | None = None, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'What `select` shows, in memory of its own.'
def select_scatter(input: Tensor, src: Tensor | _Number, dim: builtins.int, index: builtins.int, *, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with `src` in place of `input.select(dim, index)`.'
def selu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`elu` with the two factors that keep the variance of normalised inputs at 1.'
def selu_(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `selu`: the result is written into the tensor, which is returned.'
from dynograd.saving import serialization as serialization
def set_anomaly_enabled(mode: builtins.bool, check_nan: builtins.bool = True) -> None:
    '`autograd.set_detect_anomaly`, at once.'
from dynograd.amp.autocasting import set_autocast_cache_enabled as set_autocast_cache_enabled
from dynograd.amp.autocasting import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from dynograd.amp.autocasting import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from dynograd.amp.autocasting import set_autocast_dtype as set_autocast_dtype
from dynograd.amp.autocasting import set_autocast_enabled as set_autocast_enabled
from dynograd.amp.autocasting import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from dynograd.base.devices import set_default_device as set_default_device
from dynograd.base.dtypes import set_default_dtype as set_default_dtype
def set_default_tensor_type(t: Any) -> None:
    'Sets the default dtype and device by a floating type such as `DoubleTensor`, `cuda.FloatTensor`, or its name.'
def set_deterministic_debug_mode(debug_mode: builtins.int | builtins.str) -> None:
    '`use_deterministic_algorithms` by level: 0 or "default", 1 or "warn", 2 or "error".'
from dynograd.kernels.build.precision import set_float32_matmul_precision as set_float32_matmul_precision
def set_flush_denormal(mode: Any) -> Any:
    'A constant: how the processor treats denormal numbers is left as it is.'
from dynograd.autograd.modes import set_grad_enabled as set_grad_enabled
from dynograd.kernels.build.threads import set_num_interop_threads as set_num_interop_threads
from dynograd.kernels.build.threads import set_num_threads as set_num_threads
def set_printoptions(precision: builtins.int | None = None, threshold: builtins.float | None = None, edgeitems: builtins.int | None = None, linewidth: builtins.int | None = None, profile: builtins.str | None = None, sci_mode: builtins.bool | None = None) -> None:
    'Changes how tensors print, until the next call; what is None stays, except `sci_mode`.'
from dynograd.kernels.build.notices import set_quiet as set_quiet
def set_rng_state(new_state: Tensor) -> None:
    'Puts the default generator back to a state from `get_rng_state`.'
def set_warn_always(b: builtins.bool) -> None:
    "Accepted for PyTorch's sake, where it makes warnings come each time: here the filters of Python's `warnings` decide that for all."
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`sign` for real tensors; for complex ones the number of size 1 in the same direction, 0 at 0.'
short: _dtypes.dtype
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logistic function `1 / (1 + exp(-input))`, in (0, 1); nothing overflows.'
def sigmoid_(input: Tensor) -> Tensor:
    'In-place form of `sigmoid`: the result is written into the tensor, which is returned.'
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '-1, 0 or 1; gradient 0.'
from dynograd import signal as signal
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Where `input` carries a minus sign, -0.0 included.'
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The sine of an angle in radians.'
def sin_(input: Tensor) -> Tensor:
    'In-place form of `sin`: the result is written into the tensor, which is returned.'
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`sin(pi * input) / (pi * input)`, 1 at 0.'
def sinc_(input: Tensor) -> Tensor:
    'In-place form of `sinc`: the result is written into the tensor, which is returned.'
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The hyperbolic sine.'
def sinh_(input: Tensor) -> Tensor:
    'In-place form of `sinh`: the result is written into the tensor, which is returned.'
def slice_copy(input: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'What `slice` shows, in memory of its own.'
def slice_scatter(input: Tensor, src: Tensor | _Number, dim: builtins.int = 0, start: Tensor | _Number | None = None, end: Tensor | _Number | None = None, step: builtins.int = 1, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'A copy of `input` with `src` in place of the slice `start:end:step` along `dim`.'
def slogdet(input: Tensor, *, out: Any = None) -> _return_types.slogdet:
    'Another name of `linalg.slogdet`.'
from dynograd.sparse.functions import smm as smm
def softmax(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`exp(input)`, scaled to sum to 1 along `dim`.'
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Any = None, axis: _Ints | None = None) -> _return_types.sort:
    'The elements in order along `dim`, as (values, indices).'
from dynograd import sparse as sparse
from dynograd.sparse.making import sparse_compressed_tensor as sparse_compressed_tensor
sparse_coo: _layouts.layout
from dynograd.sparse.making import sparse_coo_tensor as sparse_coo_tensor
sparse_csc: _layouts.layout
from dynograd.sparse.making import sparse_csc_tensor as sparse_csc_tensor
sparse_csr: _layouts.layout
from dynograd.sparse.making import sparse_csr_tensor as sparse_csr_tensor
from dynograd.compat import special as special
def split(tensor: Tensor, split_size_or_sections: _Ints | None = None, dim: builtins.int = 0, *, split_size: _Ints | None = None, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'Views of `tensor` along `dim`: parts of one size (the last may be smaller), or of the listed sizes.'
def split_copy(tensor: Any, split_size_or_sections: _Ints | None = None, dim: builtins.int = 0, *, split_size: Any = None, out: Any = None, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'What `split` shows, in memory of its own.'
def split_with_sizes(input: Tensor, split_sizes: tuple[builtins.int, ...], dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'Consecutive parts of the given sizes along `dim`, as a tuple of views.'
def split_with_sizes_copy(input: Tensor, split_sizes: tuple[builtins.int, ...], dim: builtins.int = 0, *, out: Any = None, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'What `split_with_sizes` shows, in memory of its own.'
from dynograd.sparse.functions import spmm as spmm
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The square root; NaN below 0.'
def sqrt_(input: Tensor) -> Tensor:
    'In-place form of `sqrt`: the result is written into the tensor, which is returned.'
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`input * input`.'
def square_(input: Tensor) -> Tensor:
    'In-place form of `square`: the result is written into the tensor, which is returned.'
def squeeze(input: Tensor, dim: _Ints | None = None, *dims: _Ints, axis: _Ints | None = None) -> Tensor:
    'A view without the dims of size 1: all of them, or those among `dim` (others stay as they are).'
def squeeze_copy(input: Tensor, dim: _Ints | None = None, *dims: _Ints, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'What `squeeze` shows, in memory of its own.'
def stack(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'Tensors of one shape beside each other along a new dim.'
def std(input: Tensor, dim: _Ints | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The standard deviation over `dim`, the root of `var`, with its arguments. Where it is 0, so is the gradient.'
def std_mean(input: Tensor, dim: _Ints | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    'The standard deviation and the mean over `dim`; arguments as in `var`.'
def stft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, pad_mode: builtins.str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:
    'The Fourier transforms of windows of `n_fft` points, `hop_length` apart, along the last dim.'
storage: Any
strided: _layouts.layout
def sub(input: Tensor | _Number, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    '`input - alpha * other`, broadcast and promoted.'
def subtract(input: Tensor, other: Tensor | _Number, tensor: Any = None, *, alpha: Tensor | _Number = 1, out: Tensor | None = None) -> Tensor:
    'Another name of `sub`.'
def sum(input: Tensor, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The sum of all elements, or over `dim` (an int or several). Booleans and integers sum in int64.'
from dynograd.profiler.summaries import summary as summary
def svd(input: Tensor, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: Any = None) -> _return_types.svd:
    '(U, S, V) with `input = U @ diag(S) @ V.mH`: the older form of `linalg.svd`; without `compute_uv`, U and V are zeros.'
def svd_lowrank(A: Tensor, q: builtins.int | None = 6, niter: builtins.int | None = 2, M: Tensor | None = None) -> tuple[Any, ...]:
    '(U, S, V) with `U @ diag(S) @ V.mH` near the matrices `A - M`, by the largest `q` singular values (a little below the true ones).'
def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor:
    'Another name of `transpose`.'
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    'Another name of `transpose`.'
def sym_float(a: Any) -> builtins.float:
    '`float(a)`.'
def sym_int(a: Any) -> builtins.int:
    '`int(a)`.'
def sym_ite(b: builtins.bool, t: Any, f: Any) -> Any:
    '`t if b else f`.'
def sym_max(a: Any, b: Any) -> Any:
    'The larger one, as a float if one of them is.'
def sym_min(a: Any, b: Any) -> Any:
    'The smaller one, as a float if one of them is.'
def sym_not(a: Any) -> builtins.bool:
    '`not a`.'
def sym_sqrt(a: Any) -> builtins.float:
    'The square root.'
def sym_sum(args: Any) -> Any:
    'The sum of some numbers.'
def t(input: Tensor) -> Tensor:
    'The transpose of a matrix; tensors of fewer dims come back as they are.'
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'What `t` shows, in memory of its own.'
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The elements of `input`, seen as flat, at `index`, in the shape of `index`; negative ones count from the end.'
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`gather` whose `indices` broadcast against `input` and may be negative; without `dim`, over the flattened tensor.'
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The tangent of an angle in radians.'
def tan_(input: Tensor) -> Tensor:
    'In-place form of `tan`: the result is written into the tensor, which is returned.'
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The hyperbolic tangent, in (-1, 1).'
def tanh_(input: Tensor) -> Tensor:
    'In-place form of `tanh`: the result is written into the tensor, which is returned.'
def tensor(data: Any, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    'A new tensor holding a copy of `data`: a number, nested lists, a NumPy array or a tensor.'
def tensor_split(input: Tensor, indices_or_sections: _Ints | Tensor | None = None, dim: builtins.int = 0, *, indices: Sequence[builtins.int] | Tensor | None = None, sections: Any = None, tensor_indices_or_sections: Any = None, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'Views along `dim`: that many parts of nearly equal size, or cut at the given indices.'
def tensordot(a: Any, b: Any, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    'The sum of products over pairs of dims; the others of `a`, then of `b`, remain.'
from dynograd import testing as testing
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    '`input` where it is above `threshold`, `value` elsewhere.'
def threshold_(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `threshold`: the result is written into the tensor, which is returned.'
def tile(input: Tensor, *sizes: _Ints, dims: _Ints | None = None) -> Tensor:
    'A copy with the whole tensor repeated along its last dims; missing repeats in front are 1.'
def to_dlpack(tensor: Tensor) -> Any:
    "A DLPack capsule of the tensor's memory; `from_dlpack` of any library takes it, once."
def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: Any = None, axis: _Ints | None = None) -> _return_types.topk:
    'The `k` largest elements along `dim`, as (values, indices). Of equals those with the lowest index are taken.'
torch_version: Any
def trace(input: Tensor) -> Tensor:
    'The sum of the diagonal of a matrix.'
from dynograd import transforms as transforms
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    'A view with two dims exchanged.'
def transpose_copy(input: Tensor, dim0: builtins.int, dim1: builtins.int, *, out: Tensor | None = None) -> Tensor:
    'What `transpose` shows, in memory of its own.'
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float | None = None, dim: builtins.int = -1, axis: _Ints | None = None) -> Tensor:
    'The area below `y` along `dim` by the trapezoid rule.'
def trapz(y: Tensor, x: Tensor | None = None, *, dx: builtins.float | None = None, dim: builtins.int = -1, axis: _Ints | None = None) -> Tensor:
    'Another name of `trapezoid`.'
def triangular_solve(input: Tensor, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False, *, out: Any = None) -> _return_types.triangular_solve:
    '(X with `A @ X = input`, A): the older form of `linalg.solve_triangular`; `transpose` solves with the transpose of A.'
def tril(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    'The lower triangle of the last two dims, zeros elsewhere.'
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: _Dtype | None = None, device: _Device | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    '(2, N) row and column numbers of the lower triangle of a `row` x `col` matrix, row by row.'
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2, eps: builtins.float = 1e-06, swap: builtins.bool = False, reduction: builtins.int = 1) -> Tensor:
    '`nn.functional.triplet_margin_loss`.'
def triu(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    'The upper triangle of the last two dims, zeros elsewhere.'
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: _Dtype | None = None, device: _Device | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    '(2, N) row and column numbers of the upper triangle of a `row` x `col` matrix, row by row.'
def true_divide(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Another name of `div`.'
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'Rounded towards zero; gradient 0.'
def trunc_(input: Tensor) -> Tensor:
    'In-place form of `trunc`: the result is written into the tensor, which is returned.'
def typename(obj: Any) -> builtins.str:
    "The name of a tensor's old type, or of an object's class with its module."
from dynograd.compat import types as types
uint1: _dtypes.dtype
uint16: _dtypes.dtype
uint2: _dtypes.dtype
uint3: _dtypes.dtype
uint32: _dtypes.dtype
uint4: _dtypes.dtype
uint5: _dtypes.dtype
uint6: _dtypes.dtype
uint64: _dtypes.dtype
uint7: _dtypes.dtype
uint8: _dtypes.dtype
def unbind(input: Tensor, dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'The slices along `dim`, as a tuple of views with that dim removed.'
def unbind_copy(input: Tensor, dim: builtins.int = 0, *, out: Any = None, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    'What `unbind` shows, in memory of its own.'
def unflatten(input: Tensor, dim: builtins.int, sizes: _Ints, *, axis: _Ints | None = None) -> Tensor:
    'Splits one dim into several; one of `sizes` may be -1.'
def unfold_copy(input: Tensor, dimension: builtins.int, size: builtins.int, step: builtins.int, *, out: Tensor | None = None) -> Tensor:
    'What `unfold` shows, in memory of its own.'
@overload
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
    'The distinct elements in ascending order, or the distinct slices along `dim`.'
@overload
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    'The distinct elements in ascending order, or the distinct slices along `dim`.'
@overload
def unique_consecutive(input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
    'The elements (or slices along `dim`) without those equal to the one before.'
@overload
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    'The elements (or slices along `dim`) without those equal to the one before.'
def unravel_index(indices: Tensor, shape: _Ints) -> tuple[Tensor, ...]:
    'The coordinates, one tensor for each dim, of flat row-major indices into `shape`.'
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    '`chunk`; PyTorch does not check writes into the parts of this one, here they are checked.'
def unsafe_split(input: Tensor, split_size: Any, dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    '`split`; PyTorch does not check writes into the parts of this one, here they are checked.'
def unsafe_split_with_sizes(input: Tensor, split_sizes: tuple[builtins.int, ...], dim: builtins.int = 0, *, axis: _Ints | None = None) -> tuple[Tensor, ...]:
    '`split_with_sizes`; PyTorch does not check writes into the parts of this one, here they are checked.'
def unsqueeze(input: Tensor, dim: _Ints | None = None, *, axis: _Ints | None = None) -> Tensor:
    'A view with a new dim of size 1 at `dim`.'
def unsqueeze_copy(input: Tensor, dim: _Ints | None = None, *, axis: _Ints | None = None, out: Tensor | None = None) -> Tensor:
    'What `unsqueeze` shows, in memory of its own.'
from dynograd.kernels.build.batch_invariance import use_batch_invariant as use_batch_invariant
from dynograd.kernels.build.determinism import use_deterministic_algorithms as use_deterministic_algorithms
from dynograd import utils as utils
def vander(x: Tensor, N: builtins.int | None = None, increasing: builtins.bool = False) -> Tensor:
    'The powers of each number of a vector as a row: N - 1 down to 0, or up when `increasing`.'
def var(input: Tensor, dim: _Ints | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    'The variance over `dim`: squared distances from the mean, summed, over (number of elements - correction).'
def var_mean(input: Tensor, dim: _Ints | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    'The variance and the mean over `dim`; arguments as in `var`.'
def vdot(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'The inner product of two vectors, the first one conjugated.'
from dynograd import version as version
def view_as_complex(input: Tensor) -> Tensor:
    'A view of pairs (real, imaginary) along the last dim as complex numbers.'
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'What `view_as_complex` shows, in memory of its own.'
def view_as_real(input: Tensor) -> Tensor:
    'A view of a complex tensor as pairs (real, imaginary) along a new last dim.'
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'What `view_as_real` shows, in memory of its own.'
def view_copy(input: Tensor, *sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, out: Tensor | None = None) -> Tensor:
    'What `view` shows, in memory of its own.'
from dynograd.profiler.drawings import visualize as visualize
from dynograd.transforms.vmap import vmap as vmap
def vsplit(input: Tensor, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: Any = None) -> tuple[Tensor, ...]:
    'Splits along the first dim of a matrix into equal parts, or at the given indices.'
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    'Joined on top of each other: along the first dim; 1-d tensors are rows.'
from dynograd.tools.warming import warmup as warmup
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]:
    '`input` where `condition` is true, `other` elsewhere; all three broadcast. Without them, the indices of the true elements.'
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input` where `condition` is true, `other` elsewhere; all three broadcast. Without them, the indices of the true elements.'
def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    'Runs `body_fn` on what it gave before, for as long as `cond_fn` holds of it.'
def xlogy(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    '`input * log(other)`, and 0 where `input` is 0 (NaN where `other` is).'
def xlogy_(input: Tensor, other: Tensor | _Number) -> Tensor:
    'In-place form of `xlogy`: the result is written into the tensor, which is returned.'
xpu: Any
def zero_(input: Tensor) -> Tensor:
    'Sets every element to 0.'
def zeros(*sizes: _Ints, size: _Ints | None = None, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, out: Tensor | None = None, layout: _layouts.layout | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'A tensor of zeros.'
def zeros_like(input: Tensor, *, dtype: _Dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layouts.layout | None = None, memory_format: _memory_formats.memory_format | None = None, pin_memory: builtins.bool = False) -> Tensor:
    'Zeros in the shape and dtype of `input`.'
