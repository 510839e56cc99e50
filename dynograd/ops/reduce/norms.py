"""Norms and distances. Their gradients are 0 where the norm is 0, and at zeros of a norm with p < 1."""

from __future__ import annotations

from math import inf
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import check_number, normalize_dim, reduced_dims
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import abs, conj, maximum
from dynograd.ops.elementwise.choices import where
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.linalg.triangles import triu_indices
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.op import Gradients, composed, op, registry, shortcut
from dynograd.ops.reduce.extremes import tie_shares
from dynograd.ops.reduce.reductions import kept
from dynograd.ops.reduce.reductions import sum as sum_dims

__all__ = ["cdist", "dist", "norm", "pdist", "renorm"]


@op(name="vector_norm", saves="input output", cast={"cuda": "wide"}, uneven=True)
def norm_dims(input: Array, p: float, dim: Any, keepdim: bool) -> Array:
    """The p-norm over `dim` (an int or a tuple, counted from the front; None: all)."""
    return kernel("norms", "vector_norm_forward", input)(input, p, dim, keepdim)


@norm_dims.backward
def norm_backward(g: Any, saved: Any, p: Any, dim: Any, keepdim: Any) -> Gradients:
    x, y = saved.input, saved.output
    shape = tuple(x.shape)
    if p == 0:
        return (x * 0,)
    if p in (inf, -inf):
        shares = tie_shares(abs(x), y, dim, keepdim)
        return (kept(g, shape, dim, keepdim) * shares * signed_power(x, 0),)
    if p == 1:
        return (kept(g, shape, dim, keepdim) * signed_power(x, 0),)
    return (kept(g * absolute_power(y, 1 - p), shape, dim, keepdim) * (x if p == 2 else signed_power(x, p - 1)),)


@op(saves="input", ragged="packed")
def absolute_power(input: Array, exponent: float) -> Array:
    """|input| ** exponent; where input is 0, 0 (and 1 when the exponent is 0)."""
    return kernel("norms", "absolute_power", input)(input, exponent)


@absolute_power.backward
def absolute_power_backward(g: Any, saved: Any, exponent: Any) -> Gradients:
    return (g * exponent * signed_power(saved.input, exponent - 1),)


@op(saves="input", ragged="packed")
def signed_power(input: Array, exponent: float) -> Array:
    """The sign (for complex numbers: the direction) of `input` times |input| ** exponent; where input is 0, 0."""
    return kernel("norms", "signed_power", input)(input, exponent)


@signed_power.backward
def signed_power_backward(g: Any, saved: Any, exponent: Any) -> Gradients:
    x = saved.input
    if getattr(x, "array", x).dtype.kind != "c":
        return (g * exponent * absolute_power(x, exponent - 1),)
    overlap = conj(g) * x
    across = x * (overlap + conj(overlap)) * absolute_power(x, exponent - 3)
    return (g * absolute_power(x, exponent - 1) + across * (exponent - 1) / 2,)


def vector_norm(
    input: Any, p: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, who: str = "norm"
) -> Array:
    """The p-norm over `dim` as one vector; `who` asks."""
    if dtype is not None:
        input = convert(input, dtypes.as_dtype(dtype))
    if getattr(input, "array", input).dtype.kind in "iub":
        raise DtypeError(
            f"{who}: Expected a floating point or complex tensor as input. Got {input.dtype}. Use input.float()."
        )
    check_number(who, "ord", p)
    p = int(p) if p == p and p not in (inf, -inf) and p == int(p) else float(p)
    shape = tuple(input.shape)
    dims = None if dim is None else reduced_dims(who, dim, len(shape))
    if p < 0 or p == inf:
        sizes = shape if dims is None else [shape[place] for place in ((dims,) if isinstance(dims, int) else dims)]
        if 0 in sizes:
            raise ShapeError(
                f"{who}: cannot compute the {p} norm on an empty tensor (shape {shape}, dim {dim}): it has no identity."
            )
    return norm_dims(input, p, dims, bool(keepdim))


def _quick_norm(compute: Any, input: Any, p: Any, dim: Any, keepdim: Any, dtype: Any) -> tuple | None:
    if (
        type(p) is str
        and p == "fro"
        and dim is None
        and keepdim is False
        and dtype is None
        and input.dtype.char in "fd"
    ):
        return compute(input, 2, None, False), (2, None, False)
    return None


@composed(method=True, uneven=True)
@shortcut(norm_dims, _quick_norm, compute="norms.vector_norm_forward")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """The p-norm of all elements, or over `dim` (an int or several), taken as one vector.

    Args:
        input: tensor of any shape.
        p: a number, inf or -inf; 0 counts the elements that are not 0; "fro" is 2, "nuc" the sum of the singular values of matrices.
        dim: an int or several; None: all elements.
        keepdim: keep the reduced dims, with size 1.
        dtype: converts `input` first.
    Returns:
        `input`'s shape without `dim`, real.
    Raises:
        DtypeError: an integer input without `dtype`.
        ShapeError: no elements and a p that has no value for them.

    >>> dynograd.norm(tensor([3.0, -4.0]))
    tensor(5.)
    >>> dynograd.norm(tensor([[3.0, -4.0], [1.0, 0.0]]), p=1, dim=1)
    tensor([7., 1.])
    """
    if p is None or p == "fro":
        p = 2
    if p == "nuc":
        places = (-2, -1) if dim is None and len(input.shape) == 2 else dim
        return registry["linalg_matrix_norm"].function(input, "nuc", places, keepdim, dtype=dtype)
    if isinstance(p, str):
        raise RuntimeError(f"norm: expected p to be a number, inf, -inf, 'fro' or 'nuc', got {p!r}.")
    return vector_norm(input, p, dim, keepdim, dtype)


@composed(method=True, out=None, tensors="input other", cast={"cuda": "wide"})
def dist(input: Any, other: Any, p: float = 2) -> Array:
    """The p-norm of `input - other`, which broadcast.

    Args:
        input, other: floating tensors; they broadcast.
        p: a number, inf or -inf.
    Returns:
        A tensor without dims.

    >>> dynograd.dist(tensor([1.0, 1.0]), tensor([4.0, 5.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p, who="dist")


@op(method=True, inplace=True, cast={"cuda": "wide"})
def renorm(input: Array, p: float, dim: int, maxnorm: float) -> Array:
    """`input` with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.

    Args:
        input: floating tensor of at least two dims.
        p: of the norm; above 0.
        dim: which dim; negative counts from the end.
        maxnorm: the largest norm of a slice.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: `input` has fewer than two dims.

    >>> dynograd.renorm(tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if input.ndim < 2:
        raise ShapeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} (shape {input.shape}). Unsqueeze it first."
        )
    check_number("renorm", "p", p)
    check_number("renorm", "maxnorm", maxnorm)
    if p <= 0 or maxnorm < 0:
        raise ValueError(f"renorm: expected p above 0 and maxnorm of at least 0, got p={p} and maxnorm={maxnorm}.")
    return kernel("norms", "renorm", input)(input, p, _other_dims("renorm", dim, input.ndim), maxnorm)


@renorm.decomposition
def renorm_by_parts(input: Any, p: float, dim: int, maxnorm: float) -> Array:
    sizes = norm_dims(input, p, _other_dims("renorm", dim, len(input.shape)), True)
    return input * where(sizes > maxnorm, maxnorm / (sizes + 1e-7), 1.0)  # also of NaN, as it is


def _other_dims(who: str, dim: int, rank: int) -> tuple[int, ...]:
    place = normalize_dim(who, dim, rank)
    return tuple([other for other in range(rank) if other != place])


_DIRECT, _PRODUCT = "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist"
_IF_NECESSARY = "use_mm_for_euclid_dist_if_necessary"


def _quick_cdist(compute: Any, x1: Any, x2: Any, p: Any, compute_mode: Any) -> object:
    if (
        type(p) in (int, float)
        and p == 2
        and type(compute_mode) is str
        and compute_mode == _IF_NECESSARY
        and x1.ndim == 2 == x2.ndim
        and x1.dtype is x2.dtype
        and x1.dtype.char in "fd"
        and len(x1) <= 25 >= len(x2)
        and 0 < x1.shape[1] == x2.shape[1] <= 256
    ):
        return compute(x1, x2)
    return None


@composed(out=None, cast="wide")
@shortcut(None, _quick_cdist, compute="norms.distances", beside="x1 x2")
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = _IF_NECESSARY) -> Array:
    """The p-norm distance between each row of `x1` and each row of `x2`.

    Args:
        x1 (*, P, M): points; leading dims broadcast.
        x2 (*, R, M): points.
        p: of the norm; at least 0, or inf.
        compute_mode: whether |a|^2 + |b|^2 - 2ab may be used for p = 2: faster, but distances far below |a| lose digits. By
            default it is, from more than 25 rows on.
    Returns:
        (*, P, R).

    >>> dynograd.cdist(tensor([[0.0, 0.0], [3.0, 0.0]]), tensor([[0.0, 4.0]]))
    tensor([[4.],
            [5.]])
    """
    first, second = tuple(x1.shape), tuple(x2.shape)
    if len(first) < 2 or len(second) < 2 or first[-1] != second[-1]:
        raise ShapeError(
            f"cdist: x1 and x2 must have at least 2 dimensions and the same number of columns, got shapes {first} and {second}. Their last "
            f"dims are the coordinates."
        )
    kinds = [dtypes.of_array(getattr(operands, "array", operands)) for operands in (x1, x2)]
    if kinds[0] is not kinds[1] or kinds[0].category != dtypes.FLOATING:
        raise DtypeError(
            f"cdist: x1 and x2 must have one floating dtype, got {kinds[0]} and {kinds[1]}. Convert, e.g. x1.float()."
        )
    if p < 0:
        raise RuntimeError(f"cdist: only supports non-negative p values, got {p}.")
    if compute_mode not in (None, _IF_NECESSARY, _DIRECT, _PRODUCT):
        raise ValueError(
            f"cdist: {compute_mode} is not a valid value for compute_mode. Use {_PRODUCT!r} or {_DIRECT!r}."
        )
    large = first[-2] > 25 or second[-2] > 25
    if p == 2 and (compute_mode == _PRODUCT or (large and compute_mode != _DIRECT)):
        return _euclidean_by_product(x1, x2)
    apart = reshaped(x1, (*first[:-1], 1, first[-1])) - reshaped(x2, (*second[:-2], 1, *second[-2:]))
    return vector_norm(apart, p, -1, who="cdist")


@composed(out=None, functional=True, ragged="each")
def pdist(input: Any, p: float = 2.0) -> Array:
    """The p-norm distance between every two rows of `input`: rows 0 and 1, 0 and 2, ..., the last two.

    Args:
        input (N, M): points.
        p: of the norm; at least 0, or inf.
    Returns:
        (N * (N - 1) / 2).

    >>> dynograd.pdist(tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    shape = tuple(input.shape)
    if len(shape) != 2:
        raise ShapeError(f"pdist: only supports 2D tensors, got: {len(shape)}D, of shape {shape}.")
    if p < 0:
        raise RuntimeError(f"pdist: only supports non-negative p values, got {p}.")
    rows, columns = triu_indices(shape[0], shape[0], 1, device=input.device)
    return vector_norm(input[rows] - input[columns], p, -1, who="pdist")


def _euclidean_by_product(x1: Any, x2: Any) -> Array:
    rank = len(x2.shape)
    squares1 = sum_dims(x1 * x1, len(x1.shape) - 1, True)
    squares2 = reshaped(sum_dims(x2 * x2, rank - 1, False), (*x2.shape[:-2], 1, x2.shape[-2]))
    product = matmul(x1, permuted(x2, (*range(rank - 2), rank - 1, rank - 2)))
    return absolute_power(maximum(squares1 + squares2 - product - product, 0.0), 0.5)
