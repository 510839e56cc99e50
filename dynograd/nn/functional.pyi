# fmt: off
# ruff: noqa
"""The functions of `dynograd.nn.functional`.

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

from dynograd.tensor.tensor import Tensor as Tensor
def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor:
    'The mean of each of `output_size` windows of a sequence.'
def adaptive_avg_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor:
    'The mean of each of `output_size` windows of an image; windows as in `adaptive_max_pool2d`.'
def adaptive_avg_pool3d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor:
    'The mean of each of `output_size` windows of a volume; windows as in `adaptive_max_pool2d`.'
def adaptive_max_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each of `output_size` windows of a sequence.'
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    '`adaptive_max_pool1d` with `return_indices=True`: where the maxima lie, too.'
def adaptive_max_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each of `output_size` windows of an image.'
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    '`adaptive_max_pool2d` with `return_indices=True`: where the maxima lie, too.'
def adaptive_max_pool3d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each of `output_size` windows of a volume; see `adaptive_max_pool2d`.'
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Tensor:
    '`adaptive_max_pool3d` with `return_indices=True`: where the maxima lie, too.'
def add_layer_norm(input: Tensor, residual: Any, normalized_shape: _Ints, weight: Tensor | None = None, bias: Any = None, eps: builtins.float = 1e-05) -> _return_types.add_layer_norm:
    '(`layer_norm(input + residual)`, `input + residual`) in one pass: what stands between the parts of a transformer layer.'
def affine_grid(theta: Any, size: _Ints, align_corners: builtins.bool | None = None) -> Tensor:
    'The grid for `grid_sample` that an affine map makes.'
def alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    "Dropout for SELU networks: dropped elements become SELU's floor, and the result keeps mean 0 and variance 1."
def avg_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Tensor:
    'The mean of each window of a sequence; see `avg_pool2d`.'
def avg_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    'The mean of each window of an image.'
def avg_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    'The mean of each window of a volume; see `avg_pool2d`.'
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Any = None, training: builtins.bool = False, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    'Each channel with mean 0 and variance 1, times `weight` plus `bias`.'
def bias_gelu(input: Tensor, bias: Any, approximate: builtins.str = 'none') -> Tensor:
    '`gelu(input + bias)` in one pass.'
def bias_relu(input: Tensor, bias: Any) -> Tensor:
    '`relu(input + bias)` in one pass; `bias` (C,) runs along the last dim.'
def bias_silu(input: Tensor, bias: Any) -> Tensor:
    '`silu(input + bias)` in one pass; `bias` (C,) runs along the last dim.'
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    '`input1 @ weight[k] @ input2 + bias[k]` for every output feature k.'
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    '-(target * log(input) + (1 - target) * log(1 - input)), averaged.'
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    '`binary_cross_entropy` of sigmoid(input), computed without overflow.'
def celu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    '`input` above 0, `alpha * (exp(input / alpha) - 1)` below: an `elu` whose slope is continuous for every alpha.'
def celu_(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `celu`: the result is written into the tensor, which is returned.'
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    'Mixes groups of channels of (N, C, *): channel j of group i becomes channel i of group j.'
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
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    '1 - cos where target is 1, max(0, cos - margin) where it is -1, averaged; cos of the angle between input1 and input2.'
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08, *, axis: _Ints | None = None) -> Tensor:
    'The cosine of the angle between vectors along `dim`: x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)).'
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: builtins.int = -100, reduce: Any = None, reduction: builtins.str = 'mean', label_smoothing: builtins.float = 0.0) -> Tensor:
    '-log softmax(input)[target], averaged.'
def ctc_loss(log_probs: Tensor, targets: Any, input_lengths: Any = None, target_lengths: Any = None, blank: builtins.int = 0, reduction: Any = 'mean', zero_infinity: builtins.bool = False) -> Tensor:
    '-log of the probability of `targets`, summed over all alignments with the sequence: connectionist temporal classification.'
def dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    'Zeroes elements with probability `p` and scales the others by 1 / (1 - p), so that the mean stays.'
def dropout1d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    'Zeroes whole channels of (N, C, L) or (C, L) with probability `p` and scales the others by 1 / (1 - p).'
def dropout2d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    'Zeroes whole channels of (N, C, H, W) with probability `p` and scales the others by 1 / (1 - p).'
def dropout3d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    'Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability `p` and scales the others by 1 / (1 - p).'
def dropout_add(input: Tensor, residual: Any, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    '`residual + dropout(input, p, training)` in one pass over memory, with the same mask.'
def elu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    '`input` above 0, `alpha * (exp(input) - 1)` below.'
def elu_(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `elu`: the result is written into the tensor, which is returned.'
def embedding(input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None, max_norm: builtins.float | None = None, norm_type: builtins.float = 2.0, scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Tensor:
    'The rows of `weight` named by the integers in `input`.'
def embedding_bag(input: Tensor, weight: Tensor, offsets: Any = None, max_norm: builtins.float | None = None, norm_type: builtins.float = 2.0, scale_grad_by_freq: builtins.bool = False, mode: builtins.str = 'mean', sparse: builtins.bool = False, per_sample_weights: Any = None, include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> Tensor:
    'The sum, mean or maximum of the embeddings of each bag of indices. An empty bag gives 0.'
def feature_alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    '`alpha_dropout` of whole channels of (N, C, ...).'
def fold(input: Tensor, output_size: _Ints, kernel_size: _Ints, dilation: _Ints = 1, padding: _Ints | builtins.str = 0, stride: _Ints = 1) -> Tensor:
    'Columns added back into the images whose windows they are; where windows overlap, values add up.'
def fractional_max_pool2d(input: Tensor, kernel_size: _Ints, output_size: builtins.int | Sequence[builtins.int | None] | None = None, output_ratio: builtins.float | Sequence[builtins.float] | None = None, return_indices: builtins.bool = False) -> Any:
    'The largest value of each of `output_size` windows over images, at random places that cover the image.'
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _Ints, output_size: builtins.int | Sequence[builtins.int | None] | None = None, output_ratio: builtins.float | Sequence[builtins.float] | None = None, return_indices: builtins.bool = False) -> Any:
    '`fractional_max_pool2d` with `return_indices=True`: where the maxima lie, too.'
def fractional_max_pool3d(input: Tensor, kernel_size: _Ints, output_size: builtins.int | Sequence[builtins.int | None] | None = None, output_ratio: builtins.float | Sequence[builtins.float] | None = None, return_indices: builtins.bool = False) -> Any:
    '`fractional_max_pool2d` of volumes.'
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _Ints, output_size: builtins.int | Sequence[builtins.int | None] | None = None, output_ratio: builtins.float | Sequence[builtins.float] | None = None, return_indices: builtins.bool = False) -> Any:
    '`fractional_max_pool3d` with `return_indices=True`: where the maxima lie, too.'
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: builtins.bool = False, eps: builtins.float = 1e-06, reduction: builtins.str = 'mean') -> Tensor:
    'The negative log-likelihood under normal distributions: (log(var) + (input - target)^2 / var) / 2, averaged.'
def gelu(input: Tensor, approximate: builtins.str = 'none', *, out: Tensor | None = None) -> Tensor:
    '`input` times the probability that a standard normal number is below it.'
def glu(input: Tensor, dim: builtins.int = -1, *, axis: _Ints | None = None) -> Tensor:
    'The first half of `input` along `dim`, times the sigmoid of the second half.'
from dynograd.nn import grad as grad
def grid_sample(input: Tensor, grid: Tensor, mode: builtins.str = 'bilinear', padding_mode: builtins.str = 'zeros', align_corners: builtins.bool | None = None) -> Tensor:
    'The values of `input` at the places of `grid`, interpolated.'
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Any = None, eps: builtins.float = 1e-05) -> Tensor:
    'Each group of channels of each example with mean 0 and variance 1, times `weight` plus `bias`.'
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _Dtype | None = None) -> Tensor:
    'Products of groups: rows `offs[g - 1] ... offs[g]` of (T, K) with the g-th of (G, K, N).'
from dynograd.nn.gumbel import gumbel_softmax as gumbel_softmax
def hardshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
    '`input`, and 0 where it is within `lambd` of 0.'
def hardsigmoid(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`(input + 3) / 6` between 0 and 1: a sigmoid of three straight pieces.'
def hardswish(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`input * hardsigmoid(input)`.'
def hardtanh(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    '`input` between `min_val` and `max_val`; the gradient at the bounds and beyond is 0.'
def hardtanh_(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `hardtanh`: the result is written into the tensor, which is returned.'
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    '`input` where target is 1, max(0, margin - input) where it is -1, averaged.'
def huber_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', delta: builtins.float = 1.0, weight: Tensor | None = None) -> Tensor:
    'd^2 / 2 below delta, delta (d - delta / 2) above, of d = |input - target|, averaged.'
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Any = None, use_input_stats: builtins.bool = True, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    'Each channel of each example with mean 0 and variance 1, times `weight` plus `bias`.'
def interpolate(input: Tensor, size: _Ints | None = None, scale_factor: Any = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None, antialias: builtins.bool = False) -> Tensor:
    '`input` resized in its last dims, to `size` or by `scale_factor`.'
def kl_div(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean', log_target: builtins.bool = False) -> Tensor:
    'target * (log(target) - input): the Kullback-Leibler divergence of `target` from exp(input). 0 where target is 0.'
def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean', weight: Tensor | None = None) -> Tensor:
    '|input - target|, averaged. Gradient 0 where they are equal.'
def layer_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, bias: Any = None, eps: builtins.float = 1e-05, cudnn_enable: builtins.bool = True) -> Tensor:
    '`input` with mean 0 and variance 1 over its last dims, times `weight` plus `bias`.'
def leaky_relu(input: Tensor, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Tensor:
    '`input` where it is above 0, `input * negative_slope` elsewhere.'
def leaky_relu_(input: Tensor, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `leaky_relu`: the result is written into the tensor, which is returned.'
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    '`input @ weight.T + bias`.'
def linear_cross_entropy(input: Tensor, linear_weight: Any, target: Tensor, *, linear_bias: Any = None, weight: Tensor | None = None, reduction: builtins.str = 'mean', ignore_index: builtins.int | None = None, label_smoothing: builtins.float = 0.0, options: Any = None, out: Tensor | None = None) -> Tensor:
    '`cross_entropy(linear(input, linear_weight, linear_bias), target)` without holding the scores of all rows at once.'
def local_response_norm(input: Tensor, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
    'input / (k + alpha * mean of the squares of `size` neighbouring channels)^beta.'
def log_softmax(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The logarithm of `softmax`, computed without overflow.'
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    '`log(sigmoid(input))`, exact for large inputs of both signs.'
def lp_pool1d(input: Tensor, norm_type: builtins.float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    'The p-norm of each window of a sequence; see `lp_pool2d`.'
def lp_pool2d(input: Tensor, norm_type: builtins.float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    '(sum of x^p)^(1/p) over each window of an image: the p-norm of values that are not negative.'
def lp_pool3d(input: Tensor, norm_type: builtins.float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    'The p-norm of each window of a volume; see `lp_pool2d`.'
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'max(0, -target * (input1 - input2) + margin), averaged: target 1 asks for a larger input1, -1 for a smaller one.'
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each window of a sequence; see `max_pool2d`.'
def max_pool1d_with_indices(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    '`max_pool1d` with `return_indices=True`: where the maxima lie, too.'
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each window of an image. NaN wins; of equal values the first one gets the gradient.'
def max_pool2d_with_indices(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    '`max_pool2d` with `return_indices=True`: where the maxima lie, too.'
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    'The largest value of each window of a volume; see `max_pool2d`.'
def max_pool3d_with_indices(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor:
    '`max_pool3d` with `return_indices=True`: where the maxima lie, too.'
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, output_size: builtins.int | Sequence[builtins.int | None] | None = None) -> Tensor:
    'Puts maxima of a sequence back to their places; see `max_unpool2d`.'
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, output_size: builtins.int | Sequence[builtins.int | None] | None = None) -> Tensor:
    'Puts the maxima of `max_pool2d` back to their places, zeros elsewhere.'
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints | builtins.str = 0, output_size: builtins.int | Sequence[builtins.int | None] | None = None) -> Tensor:
    'Puts maxima of a volume back to their places; see `max_unpool2d`.'
def mish(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`input * tanh(softplus(input))`.'
def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean', weight: Tensor | None = None) -> Tensor:
    '(input - target)^2, averaged.'
from dynograd.nn.multihead import multi_head_attention_forward as multi_head_attention_forward
def multi_margin_loss(input: Tensor, target: Tensor, p: builtins.int = 1, margin: builtins.float = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'The sum over the other classes j of max(0, margin - input[target] + input[j])^p, divided by C, averaged.'
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'The sum over named classes i and other classes j of max(0, 1 - input[i] + input[j]), divided by C, averaged.'
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'The mean over classes of the binary cross-entropy of scores, averaged over examples.'
def native_channel_shuffle(input: Tensor, groups: builtins.int) -> Any:
    'Mixes groups of channels of (N, C, *): channel j of group i becomes channel i of group j.'
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: builtins.int = -100, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    '-input[target], averaged: the negative log-likelihood of the targets.'
def normalize(input: Tensor, p: builtins.float = 2.0, dim: _Ints = 1, eps: builtins.float = 1e-12, *, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`input` divided by its p-norm along `dim`, so that vectors there have length 1; those shorter than `eps` stay short.'
def one_hot(tensor: Any, num_classes: builtins.int = -1) -> Tensor:
    'int64 with a new last dim, 1 at the class that `tensor` names and 0 elsewhere.'
def pad(input: Tensor, pad: Sequence[builtins.int], mode: builtins.str = 'constant', value: builtins.float | None = None) -> Tensor:
    '`input` with a border around its last dims.'
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False, *, keepdims: builtins.bool | None = None) -> Tensor:
    'The p-norm of x1 - x2 + eps over the last dim.'
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:
    'The p-norm distance between every two rows of `input`: rows 0 and 1, 0 and 2, ..., the last two.'
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    'Moves channels into space: (*, C r^2, H, W) to (*, C, H r, W r).'
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    'Moves space into channels: (*, C, H r, W r) to (*, C r^2, H, W); the inverse of `pixel_shuffle`.'
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool = True, full: builtins.bool = False, size_average: Any = None, eps: builtins.float = 1e-08, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'The negative log-likelihood of counts under Poisson distributions: exp(input) - target * input, averaged.'
def prelu(input: Tensor, weight: Tensor | _Number) -> Tensor:
    '`input` above 0, `weight * input` elsewhere, with a weight that is learned.'
def relu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`input` where it is above 0, 0 elsewhere; NaN stays. The gradient at 0 is 0.'
def relu6(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`input` between 0 and 6.'
def relu_(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `relu`: the result is written into the tensor, which is returned.'
def rms_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    '`input` divided by the root of its mean square over its last dims, times `weight`.'
def rrelu(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, inplace: builtins.bool = False, generator: _random_streams.Generator | None = None) -> Tensor:
    '`input` where positive, else `input` times a slope that is drawn from [lower, upper] for each element.'
def rrelu_(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, generator: _random_streams.Generator | None = None) -> Tensor:
    '`rrelu`, written into `input`.'
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, scale: builtins.float | None = None, enable_gqa: builtins.bool = False) -> Tensor:
    'softmax(query @ key.T * scale + mask) @ value. A query that may look at nothing gives 0.'
def selu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`elu` with the two factors that keep the variance of normalised inputs at 1.'
def selu_(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `selu`: the result is written into the tensor, which is returned.'
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The logistic function `1 / (1 + exp(-input))`, in (0, 1); nothing overflows.'
def sigmoid_(input: Tensor) -> Tensor:
    'In-place form of `sigmoid`: the result is written into the tensor, which is returned.'
def silu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    '`input * sigmoid(input)`, also called swish.'
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean', beta: builtins.float = 1.0) -> Tensor:
    'd^2 / (2 beta) below beta, d - beta / 2 above, of d = |input - target|, averaged.'
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'log(1 + exp(-target * input)), averaged; nothing overflows.'
def softmax(input: Tensor, dim: _Int | None = None, *, dtype: _Dtype = None, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    '`exp(input)`, scaled to sum to 1 along `dim`.'
def softmin(input: Tensor, dim: _Ints | None = None, *, dtype: _Dtype | None = None, axis: _Ints | None = None) -> Tensor:
    '`softmax(-input)`: the smallest element gets most.'
def softplus(input: Tensor, beta: builtins.float = 1.0, threshold: builtins.float = 20.0, *, out: Tensor | None = None) -> Tensor:
    '`log(1 + exp(beta * input)) / beta`, a smooth relu; `input` itself where `beta * input > threshold`.'
def softshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
    '`input` moved by `lambd` towards 0, and no further.'
def softsign(input: Tensor) -> Tensor:
    '`input / (1 + abs(input))`.'
def swiglu(gate: Any, input: Tensor) -> Tensor:
    "`silu(gate) * input` in one pass: the gated unit of transformers' feed-forward layers."
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The hyperbolic tangent, in (-1, 1).'
def tanh_(input: Tensor) -> Tensor:
    'In-place form of `tanh`: the result is written into the tensor, which is returned.'
def tanhshrink(input: Tensor) -> Tensor:
    '`input - tanh(input)`.'
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    '`input` where it is above `threshold`, `value` elsewhere.'
def threshold_(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Tensor:
    'In-place form of `threshold`: the result is written into the tensor, which is returned.'
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2, eps: builtins.float = 1e-06, swap: builtins.bool = False, size_average: Any = None, reduce: Any = None, reduction: builtins.str = 'mean') -> Tensor:
    'max(0, |anchor - positive| - |anchor - negative| + margin), averaged.'
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: builtins.float = 1.0, swap: builtins.bool = False, reduction: builtins.str = 'mean') -> Tensor:
    '`triplet_margin_loss` with any distance function of two tensors.'
def unfold(input: Tensor, kernel_size: _Ints, dilation: _Ints = 1, padding: _Ints | builtins.str = 0, stride: _Ints = 1) -> Tensor:
    'The windows of a batch of images as columns; `nn.functional.unfold`.'
def upsample(input: Tensor, size: _Ints | None = None, scale_factor: Any = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None) -> Tensor:
    'The old name of `interpolate`.'
def upsample_bilinear(input: Tensor, size: _Ints | None = None, scale_factor: Any = None) -> Tensor:
    'The old name of `interpolate` with mode "bilinear" and corners aligned.'
def upsample_nearest(input: Tensor, size: _Ints | None = None, scale_factor: Any = None) -> Tensor:
    'The old name of `interpolate` with mode "nearest".'
def varlen_attention(query: Tensor, key: Tensor, value: Tensor, offsets_q: Any, offsets_k: Any = None, key_mask: Any = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, scale: builtins.float | None = None, enable_gqa: builtins.bool = False, window: tuple[builtins.int, builtins.int] | None = None, ends: builtins.bool = False, return_lse: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    '`scaled_dot_product_attention` of each sequence with itself, or with another; tokens of all sequences lie behind one another.'
