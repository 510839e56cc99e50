"""Batch rules of products: matrix products, linear layers, convolutions.

A weight of which every example has its own place (so that its gradient is one per example) is still one weight in memory, a
stretched view. Such products are computed as one large product (by the kernels of `matmul`), and only their gradients are one product per example.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import ndarray
from dynograd.ragged import ragged_tensor
from dynograd.tensor.custom_function import Function
from dynograd.transforms.batching.batched import Batched, BatchError, run, stretched
from dynograd.transforms.batching.calls import Call, rule


def is_one(value: Any) -> bool:
    """Whether all examples along dim 0 are one and the same memory."""
    array = value.array
    return array.shape[0] > 1 and array.strides[0] == 0 if type(array) is ndarray else _is_one_there(value, array)


def _is_one_there(value: Any, array: Any) -> bool:
    if hasattr(type(value), "__dynograd_rows__"):  # rows of different lengths
        return False
    strides: Any = getattr(array, "strides", None)
    return bool(strides) and array.shape[0] > 1 and strides[0] == 0


def first_of(value: Any) -> Any:
    return run("basic_index", value, (0, Ellipsis))


def swapped(value: Any) -> Any:
    rank = value.ndim
    return run("permute", value, (*range(rank - 2), rank - 1, rank - 2))


def product(x: Any, w: Any) -> Any:
    """(examples, n, k) @ (examples, k, m); kernels multiply with one matrix at once."""
    if type(x) is not Batched and type(w) is not Batched and is_one(x) and not is_one(w):
        return swapped(run("matmul", swapped(w), swapped(x)))
    return run("matmul", x, w)


@rule("matmul")
def matmul(call: Call) -> Any:
    left, right = call.rank("input"), call.rank("other")
    if not left or not right or call.size == 0:
        return NotImplemented
    x, y = call["input"], call["other"]
    if "other" not in call.batched:
        if right == 1 or right == 2 or left > 1:
            if left == 1 and right == 2:
                return run("matmul", x, y)  # rows of the batch
            if left > 1:
                return run("matmul", _fill(x, left, right), y) if right > 2 else run("matmul", x, y)
            if right == 1:
                return run("matmul", x, y)
        x = run("view", x, (call.size, *(1,) * (right - 2), 1, x.shape[-1]))
        result = run("matmul", x, y)
        return run("basic_index", result, (Ellipsis, 0, slice(None)))
    if "input" not in call.batched:
        if left == 2 and right == 1:
            return run("matmul", y, swapped(x))  # (examples, k) @ (k, m)
        if left > 1 and right > 1:
            return run("matmul", x, _fill(y, right, left))
        x = stretched(x, call.size)
    # both batched
    x = run("view", x, (call.size, 1, x.shape[-1])) if left == 1 else x
    y = run("view", y, (*y.shape, 1)) if right == 1 else y
    inner_left, inner_right = max(left, 2), max(right, 2)
    x, y = _fill(x, inner_left, inner_right), _fill(y, inner_right, inner_left)
    result = product(x, y) if x.ndim == 3 and y.ndim == 3 else run("matmul", x, y)
    if left == 1:
        result = run("basic_index", result, (Ellipsis, 0, slice(None)))
    if right == 1:
        result = run("basic_index", result, (Ellipsis, 0))
    return result


def _fill(value: Any, rank: int, other: int) -> Any:
    """Dims of size 1 behind the batch, until an example has as many dims as the other operand's."""
    if rank >= other:
        return value
    shape = tuple(value.shape)
    return run("view", value, (shape[0], *(1,) * (other - rank), *shape[1:]))


@rule("linear")
def linear(call: Call) -> Any:
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if call.rank("weight") == 1 and call.rank("input"):
        result = run("matmul", call.original["input"], call.original["weight"])
        return (result if bias is None else run("add", result, call.original["bias"])).inner
    if call.rank("weight") != 2 or not call.rank("input") or call.size == 0:
        return NotImplemented
    if "weight" not in call.batched and "bias" not in call.batched:
        return call.with_()
    if "weight" not in call.batched:
        result = run("linear", x, weight, None)
    elif hasattr(type(x), "__dynograd_rows__"):  # rows of different lengths, and a matrix for each
        between = (1,) * (call.rank("input") - 2)
        result = run("matmul", x, run("view", swapped(weight), (call.size, *between, *weight.shape[:0:-1])))
    else:
        x = call.front("input")
        lead = tuple(x.shape[1:-1])
        rows = 1
        for size in lead:
            rows *= size
        flat = run("view", x, (call.size, rows, x.shape[-1]))
        result = product(flat, swapped(weight))
        result = run("view", result, (call.size, *lead, weight.shape[1]))
    if bias is None:
        return result
    if "bias" in call.batched:
        shape = tuple(bias.shape)
        bias = run("view", bias, (shape[0], *(1,) * (result.ndim - len(shape)), *shape[1:]))
    return run("add", result, bias)


# --- convolutions ------------------------------------------------------------------------------------------------------------


def merged(value: Any) -> Any:
    """(examples, N, ...) as (examples * N, ...)."""
    shape = tuple(value.shape)
    return run("view", value, (shape[0] * shape[1], *shape[2:]))


def parted(value: Any, size: int) -> Any:
    shape = tuple(value.shape)
    return run("view", value, (size, shape[0] // size if size else 0, *shape[1:]))


def as_channels(value: Any) -> Any:
    """(examples, N, C, ...) as (N, examples * C, ...)."""
    shape = tuple(value.shape)
    moved = run("permute", value, (1, 0, *range(2, len(shape))))
    return run("view", moved, (shape[1], shape[0] * shape[2], *shape[3:]))


def from_channels(value: Any, size: int) -> Any:
    """(N, examples * C, ...) as (examples, N, C, ...)."""
    shape = tuple(value.shape)
    split = run("view", value, (shape[0], size, shape[1] // size, *shape[2:]))
    return run("permute", split, (1, 0, *range(2, len(shape) + 1)))


class SharedConvolution(Function):
    """A convolution whose weight is one for all examples in memory, with a gradient for each."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, *window: Any) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.window = window
        return parted(run("convolution", merged(x), first_of(weight), None, *window), x.shape[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        back = grad_weight = None
        if ctx.needs_input_grad[0]:
            back = back_of_each(g, weight, tuple(x.shape[1:]), *ctx.window)
        if ctx.needs_input_grad[1]:
            grad_weight = weight_gradients(x, g, tuple(weight.shape[1:]), *ctx.window)
        return back, grad_weight, None, None, None, None


class SharedBack(Function):
    """The gradient of `SharedConvolution` for its input."""

    @staticmethod
    def forward(ctx: Any, g: Any, weight: Any, shape: Any, *window: Any) -> Any:
        ctx.save_for_backward(g, weight)
        ctx.window = window
        merged_shape = (g.shape[0] * shape[0], *shape[1:])
        result = run("convolution_input_gradient", merged(g), first_of(weight), None, merged_shape, *window)
        return parted(result, g.shape[0])

    @staticmethod
    def backward(ctx: Any, outer: Any) -> Any:
        g, weight = ctx.saved_tensors
        back = grad_weight = None
        if ctx.needs_input_grad[0]:
            back = convolution_of_each(outer, weight, *ctx.window)
            if tuple(back.shape) != tuple(g.shape):
                back = run("basic_index", back, tuple([slice(0, size) for size in g.shape]))
        if ctx.needs_input_grad[1]:
            grad_weight = weight_gradients(outer, g, tuple(weight.shape[1:]), *ctx.window)
        return back, grad_weight, None, None, None, None, None


def convolution_of_each(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """x (examples, N, C, ...) with the weights (examples, CO, C / groups, ...): as groups of one convolution unless they are one."""
    if type(x) is not Batched and type(weight) is not Batched and is_one(weight):
        return SharedConvolution.apply(x, weight, stride, padding, dilation, groups)
    size = x.shape[0]
    result = run("convolution", as_channels(x), merged(weight), None, stride, padding, dilation, size * groups)
    return from_channels(result, size)


def back_of_each(g: Any, weight: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """What g (examples, N, CO, ...) sends back to inputs of `shape`, by the weights (examples, CO, C / groups, ...)."""
    if type(g) is not Batched and type(weight) is not Batched and is_one(weight):
        return SharedBack.apply(g, weight, shape, stride, padding, dilation, groups)
    size = g.shape[0]
    merged_shape, window = (shape[0], size * shape[1], *shape[2:]), (stride, padding, dilation, size * groups)
    result = run("convolution_input_gradient", as_channels(g), merged(weight), None, merged_shape, *window)
    return from_channels(result, size)


def weight_gradients(x: Any, g: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """What g (examples, N, CO, ...) sends back to a weight of `shape` for each example of x (examples, N, C, ...)."""
    size, count = x.shape[0], x.shape[1]
    if groups == 1 and len(shape) == 4 and count == 1:
        columns = run("columns_of_patches", merged(x), (tuple(shape[2:]), dilation, padding, stride))
        spots = 1
        for extent in g.shape[3:]:
            spots *= extent
        if columns.shape[2] == spots:  # (examples, CO, spots) @ (examples, spots, C * taps)
            rows = run("view", g, (size, shape[0], spots))
            return run("view", run("matmul", rows, swapped(columns)), (size, *shape))
    wide = (size * shape[0], *shape[1:])
    window = stride, padding, dilation, size * groups
    return run(
        "view", run("convolution_weight_gradient", as_channels(x), as_channels(g), wide, *window), (size, *shape)
    )


@rule("convolution")
def convolution(call: Call) -> Any:
    window = call["stride"], call["padding"], call["dilation"]
    groups, bias, rank = call["groups"], call["bias"], call.rank("weight")
    if not call.size:
        return NotImplemented
    if hasattr(type(call["input"]), "__dynograd_rows__"):
        return _convolution_of_rows(call)
    if "weight" not in call.batched:
        own = None if "bias" in call.batched else bias
        result = parted(
            run("convolution", merged(call.front("input")), call["weight"], own, *window, groups), call.size
        )
        return result if own is bias else run("add", result, _bias(call, rank))
    weight = call["weight"]
    x = call.front("input")
    result = convolution_of_each(x, weight, *window, groups)
    return result if bias is None else run("add", result, _bias(call, rank))


def _convolution_of_rows(call: Call) -> Any:
    """A vmap over the rows (V, 1, C, j) of a ragged tensor: one call for all rows, or with weights of each row's own one for each."""
    x, window = call["input"], (call["stride"], call["padding"], call["dilation"], call["groups"])
    if x.shape[1] != 1:
        raise BatchError(
            f"vmap: a convolution over rows of different lengths takes examples (C, j), not batches of them (shape {tuple(x.shape)}). Call it on "
            f"the ragged tensor itself."
        )
    name = f"conv{call.rank('weight') - 2}d"
    own = {key: call[key] for key in ("weight", "bias")}
    if not call.batched & own.keys():
        return run("unsqueeze", run(name, run("squeeze", x, (1,)), *own.values(), *window), 1)
    rows = []
    for number, row in enumerate(run("unbind", x, 0)):
        operands = [
            run("basic_index", value, (number, Ellipsis)) if key in call.batched else value
            for key, value in own.items()
        ]
        rows.append(run(name, row, *operands, *window))
    return ragged_tensor(rows, ragged_dims=[dim for dim, size in enumerate(x.shape) if not isinstance(size, int)])


@rule("convolution_input_gradient")
def convolution_input_gradient(call: Call) -> Any:
    window = call["stride"], call["padding"], call["dilation"]
    groups, bias, rank, shape = call["groups"], call["bias"], call.rank("weight"), tuple(call["shape"])
    if not call.size:
        return NotImplemented
    g = call.front("g")
    if "weight" not in call.batched:
        own = None if "bias" in call.batched else bias
        merged_shape = (call.size * shape[0], *shape[1:])
        gradient = run("convolution_input_gradient", merged(g), call["weight"], own, merged_shape, *window, groups)
        result = parted(gradient, call.size)
        return result if own is bias else run("add", result, _bias(call, rank))
    result = back_of_each(g, call["weight"], shape, *window, groups)
    return result if bias is None else run("add", result, _bias(call, rank))


def _bias(call: Call, rank: int) -> Any:
    bias = call["bias"]
    if "bias" in call.batched:
        return run("view", bias, (call.size, 1, bias.shape[1], *(1,) * (rank - 2)))
    return run("view", bias, (bias.shape[0], *(1,) * (rank - 2)))


@rule("convolution_weight_gradient")
def convolution_weight_gradient(call: Call) -> Any:
    if not call.size:
        return NotImplemented
    window = call["stride"], call["padding"], call["dilation"], call["groups"]
    return weight_gradients(call.front("input"), call.front("g"), tuple(call["shape"]), *window)


# --- linear algebra on matrices with leading dims ------------------------------------------------------------------------------


@rule(
    "linalg_inv_ex",
    "linalg_cholesky_ex",
    "linalg_ldl_factor_ex",
    "linalg_lu_factor_ex",
    "lu_permutation",
    "linalg_det",
    "linalg_slogdet",
    "linalg_qr",
    "linalg_svd",
    "linalg_svdvals",
    "linalg_eigh",
    "linalg_eig",
    "geqrf",
    "matrix_exp",
)
def of_a_matrix(call: Call) -> Any:
    return call.with_()


@rule("linalg_pinv", "linalg_matrix_rank")
def by_tolerance(call: Call) -> Any:
    if any(hasattr(call[name], "shape") for name in ("atol", "rtol")):
        return NotImplemented  # tolerances of each matrix
    return call.with_()


@rule("linalg_solve_ex", "linalg_solve_triangular")
def of_two_matrices(call: Call) -> Any:
    if call.rank("A") != call.rank("B"):
        return NotImplemented
    return call.with_(A=call.front("A"), B=call.front("B"))


@rule("linalg_ldl_solve")
def of_factors(call: Call) -> Any:
    if call.rank("LD") != call.rank("B"):
        return NotImplemented
    return call.with_(LD=call.front("LD"), pivots=call.front("pivots"), B=call.front("B"))
