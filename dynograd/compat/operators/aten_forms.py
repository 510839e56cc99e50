"""Ops that PyTorch has only inside (`torch.ops.aten._softmax_backward_data`), or there with other arguments, made of those that are here.

Names, arguments and their order are those of PyTorch's schemas. All have gradients, as what they are made of has.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.arrays import Array
from dynograd.autograd.modes import enable_grad, is_grad_enabled
from dynograd.base import dtypes
from dynograd.base.dtypes import dtype as Dtype
from dynograd.base.shapes import check_tensor, normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.interpreter.differentiation import grad
from dynograd.interpreter.out_forms import write_out
from dynograd.interpreter.public_forms import explained
from dynograd.nn import functional as F
from dynograd.ops.image.interpolations import resampled
from dynograd.tensor import creation, native_forms
from dynograd.tensor.inplace import refuse_repeats
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["FORMS"]

FORMS: dict[str, Any] = {}
_ops = public_functions()
_LOSSES = """binary_cross_entropy l1_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss smooth_l1_loss huber_loss
soft_margin_loss""".split()
# Annotation -> the kind's name in messages, and the types that are refused.
_REFUSED: dict[str, tuple[str, frozenset[type]]] = {
    "Array": ("Tensor", frozenset({bool, int, float, complex, str, bytes})),
    "int": ("int", frozenset({float, complex, str, bytes})),
    "float": ("float", frozenset({complex, str, bytes})),
    "complex": ("Number", frozenset({str, bytes})),
}
_PADDED = {"reflection": "reflect", "replication": "replicate"}
_WAYS = {"nearest1d": "nearest", "nearest2d": "nearest", "nearest3d": "nearest", "linear1d": "linear"}
_WAYS |= {"bilinear2d": "bilinear", "bicubic2d": "bicubic", "trilinear3d": "trilinear"}
_WAYS |= {"nearest_exact1d": "nearest-exact", "nearest_exact2d": "nearest-exact", "nearest_exact3d": "nearest-exact"}


def form(function: Any) -> Callable[..., Any]:
    """Puts a function into the table; with `out=` it writes its results. Arguments are checked against its annotations."""
    checked = explained(_of_kinds(function))

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return checked(*args, **kwargs)
        for output in out if isinstance(out, (tuple, list)) else (out,):
            refuse_repeats(function.__name__, getattr(output, "array", output))
        return write_out(function.__name__, out, checked(*args, **kwargs))

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__, call.__module__ = function.__doc__, function.__module__
    signature = inspect.signature(function)
    last = [parameter for parameter in signature.parameters.values() if parameter.kind is parameter.VAR_KEYWORD]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    kept = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    call.__signature__ = signature.replace(parameters=[*kept, out, *last])
    FORMS[function.__name__] = call
    return call


def _of_kinds(function: Any) -> Callable[..., Any]:
    """A function that refuses what can be no argument of the annotated kind: a number for an Array, a string for a number."""
    kinds = [
        (place, parameter.name, *_REFUSED[word])
        for place, parameter in enumerate(inspect.signature(function).parameters.values())
        if (word := str(parameter.annotation).removesuffix(" | None")) in _REFUSED
    ]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for place, name, expected, refused in kinds:
            value = args[place] if place < len(args) else kwargs.get(name)
            if type(value) in refused:
                raise TypeError(
                    f"{function.__name__}(): argument '{name}' (position {place + 1}) must be {expected}, not {type(value).__name__}. "
                    f"Got {value!r}."
                )
        return function(*args, **kwargs)

    return call


# --- softmax and dropout -------------------------------------------------------------------------------------------------------


@form
def _softmax(self: Array, dim: int, half_to_float: bool) -> Tensor:
    """`softmax`; with `half_to_float`, in float32."""
    return _ops["softmax"](self, dim, dtype=dtypes.float32 if half_to_float else None)


@form
def _log_softmax(self: Array, dim: int, half_to_float: bool) -> Tensor:
    """`log_softmax`; with `half_to_float`, in float32."""
    return _ops["log_softmax"](self, dim, dtype=dtypes.float32 if half_to_float else None)


@form
def softmax(self: Array, dim: int, dtype: Any = None) -> Tensor:
    """`softmax`, with the dtype third."""
    return _ops["softmax"](self, dim, dtype=dtype)


@form
def log_softmax(self: Array, dim: int, dtype: Any = None) -> Tensor:
    """`log_softmax`, with the dtype third."""
    return _ops["log_softmax"](self, dim, dtype=dtype)


@form
def _safe_softmax(self: Array, dim: int, dtype: Any = None) -> Tensor:
    """`softmax`; a row of -inf alone gives zeros."""
    check_tensor("_safe_softmax", "self", self)
    nothing = (self == -math.inf).all(dim, keepdim=True)
    return _ops["softmax"](self.masked_fill(nothing, 0), dim, dtype=dtype).masked_fill(nothing, 0)


@form
def _softmax_backward_data(grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of softmax from its result."""
    _same_shapes("_softmax_backward_data", grad_output, output)
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(_checked_dtype(input_dtype)).contiguous()


@form
def _log_softmax_backward_data(grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of log_softmax from its result."""
    _same_shapes("_log_softmax_backward_data", grad_output, output)
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(_checked_dtype(input_dtype))


def _same_shapes(who: str, grad_output: Any, output: Any) -> None:
    if tuple(grad_output.shape) != tuple(output.shape):
        raise ShapeError(
            f"{who}: Expected grad_output to have same size as output, got {tuple(grad_output.shape)} and {tuple(output.shape)}."
        )


def _checked_dtype(kind: Any) -> dtypes.dtype:
    if not isinstance(kind, Dtype):
        raise TypeError(f"_softmax_backward_data: expected input_dtype to be a dtype, got {type(kind).__name__}.")
    return kind


@form
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(`dropout` of `input`, bool mask of what was kept); all is kept unless `train`, which None stands for too.

    Args:
        input: a tensor.
        p: the probability with which an element is dropped, 0 to 1.
        train: False keeps all.
    Returns:
        Two tensors of the shape of `input`; what is kept is divided by 1 - p.

    >>> dynograd.native_dropout(tensor([1.0, 2.0]), 0.5, False)
    (tensor([1., 2.]), tensor([True, True]))
    """
    if train is False or not p:
        return input.clone(), creation.ones_like(input, dtype=dtypes.bool)
    kept = F.dropout(creation.ones_like(input, requires_grad=False), p, True)
    return input * kept, kept != 0


@form
def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Tensor:
    """`grad_output * mask * scale`, in the dtype of `grad_output`."""
    return (
        grad_output * (mask.to(grad_output.dtype) * scale)
        if grad_output.is_floating_point()
        else grad_output * mask * scale
    )


# --- norms of batches ----------------------------------------------------------------------------------------------------------


@form
def _native_batch_norm_legit(
    input: Array, weight: Array | None, bias: Array | None, *rest: Any, **named: Any
) -> tuple[Tensor, ...]:
    """`native_batch_norm`; without running statistics where `training` follows `bias`."""
    alone = isinstance(rest[0], bool) if rest else "training" in named and "running_mean" not in named
    return (_batch_norm_of_the_batch if alone else _batch_norm)(input, weight, bias, *rest, **named)


@_of_kinds
def _batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    return _ops["native_batch_norm"](input, weight, bias, running_mean, running_var, training, momentum, eps)


@_of_kinds
def _batch_norm_of_the_batch(
    input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    return _ops["native_batch_norm"](input, weight, bias, None, None, training, momentum, eps)


@form
def _batch_norm_with_update(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """`native_batch_norm` in training, and an empty tensor in the place of what the GPU's kernels keep."""
    normalized = _ops["native_batch_norm"](input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*normalized, creation.empty(0, dtype=dtypes.uint8, device=input.device))


# --- indexing ------------------------------------------------------------------------------------------------------------------


@form
def slice(self: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """`self[..., start:end:step]` along `dim`; a view."""
    dim = normalize_dim("slice", dim, self.ndim)
    if step <= 0:
        raise ValueError(f"slice: slice step must be positive, got {step}.")
    return self[(builtins.slice(None),) * dim + (builtins.slice(start, end, step),)]


@form
def _unsafe_index(self: Array, indices: Sequence[Any]) -> Tensor:
    """`self[indices]`; None stands for a whole dim."""
    return self[_places(indices)]


@form
def index(self: Array, indices: Sequence[Any]) -> Tensor:
    """`self[indices]`; None stands for a whole dim."""
    return self[_places(indices)]


@form
def _unsafe_masked_index(input: Array, mask: Array, indices: Sequence[Any], fill: complex) -> Any:
    """`input[indices]` where `mask` says so, else `fill`; there, indices may be anything."""
    if not input.numel():
        if mask.any():
            raise ShapeError(
                f"_unsafe_masked_index: input has no elements (shape {tuple(input.shape)}), but mask selects some."
            )
        return (mask * 0 + fill).to(input.dtype)
    return input[_within(input, mask, indices)].masked_fill(~mask, fill)


@form
def _unsafe_masked_index_put_accumulate(input: Array, mask: Array, indices: Sequence[Any], values: Array) -> Any:
    """`input.index_put(indices, values, accumulate=True)` where `mask` says so."""
    if not input.numel():
        return input.clone()
    if mask.ndim > values.ndim:
        raise ShapeError(
            f"_unsafe_masked_index_put_accumulate: mask has shape {tuple(mask.shape)}, which cannot be broadcast to values of shape "
            f"{tuple(values.shape)}. Reshape the mask."
        )
    return input.index_put(_within(input, mask, indices), values.masked_fill(~mask, 0), accumulate=True)


def _places(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([builtins.slice(None) if index is None else index for index in indices])


def _within(self: Any, mask: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    """The indices, 0 where the mask is False."""
    return tuple([builtins.slice(None) if index is None else _ops["where"](mask, index, 0) for index in indices])


@form
def _chunk_cat(tensors: Sequence[Any], dim: int, num_chunks: int) -> Tensor:
    """Each tensor cut along `dim` into `num_chunks` equal parts (filled up with zeros) of shape (..., num_chunks, -1), then joined."""
    who = "_chunk_cat"
    if num_chunks < 1:
        raise ValueError(f"{who} expects positive num_chunks, got {num_chunks}.")
    if not tensors:
        raise ValueError(f"{who} expects a non-empty input tensor list.")
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if any([not tensor.numel() for tensor in tensors]):
        raise ShapeError(f"{who} expects non-empty tensor, got shapes {shapes}.")
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise DtypeError(
            f"{who} expects all input tensors with the same dtype, got {[tensor.dtype for tensor in tensors]}."
        )
    ranks = {len(shape) for shape in shapes}
    if dim < 0 and len(ranks) > 1:
        raise ShapeError(
            f"{who} expects non-negative dim when input tensors have different ndims, got dim={dim}, shapes {shapes}."
        )
    if dim >= min(ranks) or dim < -min(ranks):
        raise ShapeError(f"{who} expects dim < ndim for all input tensors, got dim={dim}, shapes {shapes}.")
    dim %= len(shapes[0])
    if len({shape[:dim] for shape in shapes}) > 1:
        raise ShapeError(
            f"{who} expects same sizes of 0,...,dim-1 dimensions for all tensors, got dim={dim}, shapes {shapes}."
        )
    parts = []
    for tensor, shape in zip(tensors, shapes):
        lacking = -shape[dim] % num_chunks
        filled = F.pad(tensor, (0, 0) * (len(shape) - dim - 1) + (0, lacking)) if lacking else tensor
        parts.append(filled.reshape(*shape[:dim], num_chunks, -1))
    return _ops["cat"](parts, dim + 1)


# --- attention and products ----------------------------------------------------------------------------------------------------


def _attended(
    query: Any, key: Any, value: Any, bias: Any, allowed: Any, dropout_p: float, scale: float | None
) -> tuple[Tensor, Tensor]:
    """Of (B, T, H, D): the values that queries see (B, T, H, V), and the logarithm of each query's sum (B, H, T) in float32."""
    query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
    scores = (query @ key.transpose(-2, -1)).float() * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = (
        F.dropout(FORMS["_safe_softmax"](scores, -1), dropout_p) if dropout_p else FORMS["_safe_softmax"](scores, -1)
    )
    return (weights.to(value.dtype) @ value).transpose(1, 2), scores.logsumexp(-1)


def _seen(queries: int, keys: int, first: int, like: Any) -> Any:
    """Query i may see keys 0 to i + first."""
    return creation.ones(queries, keys, dtype=dtypes.bool, device=like.device).tril(first)


def _no_lengths(who: str, **lengths: Any) -> None:
    for name, value in lengths.items():
        if value is not None:
            raise NotImplementedError(
                f"{who}: {name} is not supported. For sequences of different lengths there are ragged tensors and nn.attention."
            )


@form
def _flash_attention_forward(
    query: Array,
    key: Array,
    value: Array,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: Any = None,
    alibi_slopes: Any = None,
    block_table: Any = None,
    num_splits: int | None = None,
) -> tuple[Tensor, ...]:
    """Attention of (B, T, H, D): (values, logarithms of the sums, and three that only the GPU's kernels fill: empty here).

    With `is_causal`, the last query sees all keys.
    """
    _no_lengths(
        "_flash_attention_forward",
        cum_seq_q=cum_seq_q,
        cum_seq_k=cum_seq_k,
        window_size_left=window_size_left,
        window_size_right=window_size_right,
        seqused_k=seqused_k,
        alibi_slopes=alibi_slopes,
        block_table=block_table,
    )
    queries, keys = query.shape[1], key.shape[1]
    allowed = _seen(queries, keys, keys - queries, query) if is_causal else None
    attended, sums = _attended(query, key, value, None, allowed, dropout_p, scale)
    nothing = creation.empty(0, dtype=dtypes.int64, device=query.device)
    return attended, sums, nothing, nothing.clone(), creation.empty(0, dtype=query.dtype, device=query.device)


@form
def _efficient_attention_forward(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float,
    custom_mask_type: int,
    compute_log_sumexp: bool = False,
    *,
    scale: float | None = None,
    seqlen_k: Any = None,
    window_size: int | None = None,
) -> tuple[Tensor | int, ...]:
    """Attention of (B, T, H, D); `custom_mask_type` 0: all keys, 1: query i sees keys 0 to i, 2: the last query sees all keys."""
    who = "_efficient_attention_forward"
    _no_lengths(who, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqlen_k=seqlen_k, window_size=window_size)
    queries, keys = query.shape[1], key.shape[1]
    if custom_mask_type not in (0, 1, 2):
        raise ValueError(f"{who}: custom_mask_type must be 0, 1 or 2, got {custom_mask_type!r}.")
    allowed = None if not custom_mask_type else _seen(queries, keys, (keys - queries) * (custom_mask_type == 2), query)
    attended, sums = _attended(query, key, value, bias, allowed, dropout_p, scale)
    nothing = creation.empty(0, dtype=dtypes.int64, device=query.device)
    return attended, sums if compute_log_sumexp else sums[..., :0], nothing, nothing.clone(), queries, keys


@form
def _scaled_mm(
    self: Array,
    mat2: Array,
    scale_a: Array,
    scale_b: Array,
    bias: Array | None = None,
    scale_result: Array | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of two float8 matrices, each times its scale (one number, or one of each row and column), computed in float32.

    `out_dtype` is that of `self` when left out; `scale_result` counts for a float8 result alone.
    """
    for name, matrix in (("mat1", self), ("mat2", mat2)):
        if "float8" not in str(matrix.dtype):
            raise DtypeError(f"_scaled_mm: Expected {name} to be Float8 matrix got {matrix.dtype}.")
        if matrix.ndim != 2:
            raise ShapeError(f"_scaled_mm: {name} must be a matrix, got shape {tuple(matrix.shape)}.")
    for name, factor in (("scale_a", scale_a), ("scale_b", scale_b)):
        if factor.dtype is not dtypes.float32:
            raise DtypeError(
                f"_scaled_mm: Invalid scaling configuration: {name} must be of float32, got {factor.dtype}."
            )
        if factor.ndim > 2:
            raise ShapeError(f"_scaled_mm: {name} must have at most 2 dims, got shape {tuple(factor.shape)}.")
    product = (self.float() * scale_a) @ (mat2.float() * scale_b)
    if bias is not None:
        product = product + bias.float()
    kind = self.dtype if out_dtype is None else out_dtype
    return (product * scale_result if scale_result is not None and "float8" in str(kind) else product).to(kind)


# --- gradients -----------------------------------------------------------------------------------------------------------------


def _pulled(function: Callable[..., Any], inputs: Sequence[Any], g: Any) -> tuple[Any, ...]:
    """The gradients of `function(*inputs)` in direction `g`; they are differentiable where gradients are recorded."""
    recording = is_grad_enabled()
    with enable_grad():
        leaves = [x.view_as(x) if x.requires_grad and recording else x.detach().requires_grad_() for x in inputs]
        return grad(function(*leaves), leaves, g, create_graph=recording, allow_unused=True)


@form
def max_pool2d_with_indices_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Array,
) -> Tensor:
    """`grad_output` added up at the places that `indices` says, in the shape of `self`."""
    shape, kept = tuple(self.shape), tuple(indices.shape)
    if tuple(grad_output.shape) != kept:
        raise ShapeError(
            f"max_pool2d_with_indices_backward: expected grad_output of the shape of indices {kept}, got {tuple(grad_output.shape)}."
        )
    zeros = self.masked_fill(
        creation.ones((), dtype=dtypes.bool, device=self.device), 0
    )  # its gradient for self is 0, not none
    return zeros.flatten(-2).scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(shape)


@form
def threshold_backward(grad_output: Array, self: Array, threshold: float) -> Tensor:
    """`grad_output` where `self` is above the threshold, else 0."""
    return _ops["where"](self > threshold, grad_output, 0)


@form
def sigmoid_backward(grad_output: Array, output: Array) -> Tensor:
    """The gradient of sigmoid from its result."""
    return grad_output * (1 - output) * output


@form
def tanh_backward(grad_output: Array, output: Array) -> Tensor:
    """The gradient of tanh from its result."""
    return grad_output * (1 - output * output)


@form
def gelu_backward(grad_output: Array, self: Array, *, approximate: str = "none") -> Tensor:
    """The gradient of gelu."""
    return _pulled(lambda x: F.gelu(x, approximate=approximate), (self,), grad_output)[0]


@form
def silu_backward(grad_output: Array, self: Array) -> Tensor:
    """The gradient of silu."""
    return _pulled(F.silu, (self,), grad_output)[0]


@form
def convolution_backward(
    grad_output: Array,
    input: Array,
    weight: Array | None,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of `convolution` for input, weight and bias; None where `output_mask` says False."""
    rest: Any = (stride, padding, dilation, transposed, output_padding, groups)
    places = [place for place in (0, 1) if output_mask[place]]
    chosen = [(input, weight)[place] for place in places]

    def run(*chosen_tensors: Any) -> Any:
        both: list[Any] = [input, weight]
        for place, chosen_tensor in zip(places, chosen_tensors):
            both[place] = chosen_tensor
        return native_forms.convolution(both[0], both[1], None, *rest)

    gradients = dict(zip(places, _pulled(run, chosen, grad_output) if chosen else ()))
    dims = [place for place in range(grad_output.ndim) if place != 1]
    return gradients.get(0), gradients.get(1), grad_output.sum(dims) if output_mask[2] else None


@form
def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """The gradient of `embedding` for its table."""
    table = creation.zeros(num_weights, grad_output.shape[-1], dtype=grad_output.dtype, device=grad_output.device)
    padding = None if padding_idx < 0 else padding_idx
    return _pulled(
        lambda w: F.embedding(indices, w, padding, scale_grad_by_freq=scale_grad_by_freq), (table,), grad_output
    )[0]


# --- under other arguments -----------------------------------------------------------------------------------------------------


@form
def cross_entropy_loss(
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nn.functional.cross_entropy`, with its reduction as a number."""
    word = native_forms.reduction_word("cross_entropy_loss", reduction)
    return F.cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=word, label_smoothing=label_smoothing
    )


@form
def log_sigmoid(self: Array) -> Tensor:
    """`nn.functional.logsigmoid`."""
    return F.logsigmoid(self)


@form
def alias(self: Array) -> Tensor:
    """A view of all of `self`."""
    return self.view_as(self)


@form
def copy(self: Array, src: Any, non_blocking: bool = False) -> Any:
    """`src` in the shape and dtype of `self`."""
    return src.to(self.dtype).expand_as(self).clone()


@form
def elu(self: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """`self` where it is above 0, else `alpha * (exp(input_scale * self) - 1)`; all times `scale`."""
    return _ops["where"](self > 0, self, _ops["expm1"](self.clamp(max=0) * input_scale) * alpha) * scale


@form
def _to_copy(
    self: Array, *, dtype: Any = None, device: Any = None, non_blocking: bool = False, **layout: Any
) -> Tensor:
    """A copy in another dtype or on another device."""
    target = {name: value for name, value in (("dtype", dtype), ("device", device)) if value is not None}
    return self.to(**target, copy=True) if target else self.clone()


def _loss(name: str) -> Callable[..., Any]:
    function = getattr(F, name)
    names = [
        parameter for parameter in inspect.signature(function).parameters if parameter not in ("size_average", "reduce")
    ]
    with contextlib.suppress(ValueError):  # the reduction stands third, or behind the weight
        names.remove("reduction")
    first = {"nll_loss": ["weight"], "binary_cross_entropy": ["weight"], "multi_margin_loss": ["p", "margin", "weight"]}
    order = [*names[:2], *first.get(name, []), "reduction"]
    order += [parameter for parameter in names if parameter not in order]

    def loss(*args: Any, **kwargs: Any) -> Tensor:
        arguments = dict(zip(order, args)) | kwargs
        arguments["reduction"] = native_forms.reduction_word(name, arguments.get("reduction", 1))
        return function(arguments.pop(order[0]), arguments.pop(order[1]), **arguments)

    loss.__name__, loss.__doc__ = name, f"`nn.functional.{name}`, with its reduction as a number."
    return loss


def _upsampled(name: str, mode: str, antialias: bool = False) -> Callable[..., Any]:
    corners, rank = "nearest" not in mode, int(name.rstrip("_a")[-2])

    def upsample(
        input: Array, output_size: Any, *rest: Any, align_corners: Any = None, scale_factors: Any = None, **scales: Any
    ) -> Tensor:
        left = list(rest)
        if corners and align_corners is None:
            align_corners = left.pop(0)
        if left and isinstance(left[0], (list, tuple)):
            scale_factors = left.pop(0)
        if output_size is None:
            return F.interpolate(
                input, scale_factor=tuple(scale_factors), mode=mode, align_corners=align_corners, antialias=antialias
            )
        if input.ndim != rank + 2:
            raise ShapeError(f"{name}: expected an input of {rank + 2} dims, got shape {tuple(input.shape)}.")
        if len(output_size) != rank or not all([type(size) is int and size > 0 for size in output_size]):
            raise ValueError(f"{name}: output_size must be {rank} positive ints, got {tuple(output_size)}.")
        steps = [pace for pace in (*left, *scales.values()) if pace is not None]
        if not all([isinstance(pace, (int, float)) and pace > 0 for pace in steps]):
            raise ValueError(f"{name}: scales must be positive numbers, got {steps}.")
        if len(steps) < len(output_size):
            return F.interpolate(input, tuple(output_size), mode=mode, align_corners=align_corners, antialias=antialias)
        rule = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(
            mode, mode
        ) + "-antialias" * antialias
        return resampled(input, output_size, rule, bool(align_corners), [1 / step for step in steps])

    upsample.__name__, upsample.__doc__ = name, f"`nn.functional.interpolate` with mode {mode!r}."
    return upsample


def _padded(name: str, mode: str) -> Callable[..., Any]:
    def pad(self: Array, padding: Any) -> Tensor:
        return F.pad(self, tuple(padding), mode)

    pad.__name__, pad.__doc__ = name, f"`nn.functional.pad` with mode {mode!r}."
    return pad


for _name in _LOSSES:
    form(_loss(_name))
for _name, _mode in _WAYS.items():
    form(_upsampled(f"{'_' * ('exact' in _name)}upsample_{_name}", _mode))
for _mode in ("bilinear", "bicubic", "lanczos"):
    form(_upsampled(f"_upsample_{_mode}2d_aa", _mode, True))
for _word, _mode in _PADDED.items():
    for _rank in (1, 2, 3):
        form(_padded(f"{_word}_pad{_rank}d", _mode))


def __getattr__(name: str) -> Any:
    if name in FORMS:
        return FORMS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
