"""Discrete Fourier transforms: the functions of `dynograd.fft`, here under their names with `fft_` in front.

Three ops do the work, all linear: complex to complex, real to half of the complex numbers (the others are their conjugates), and
back. `norm` names where the factor 1/n goes: "backward" (the inverse transform), "forward", or "ortho" (its root on both sides).
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.elementwise.complexes import is_complex_array, real
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.rearrangements import rolled
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut

_NORMS = ("backward", "forward", "ortho")
# The name under which the other direction has the same factor.
_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


# --- the three transforms ------------------------------------------------------------------------------------------------


@op(name="fft_complex", linear=True, saves="input.dtype")
def complex_transform(input: Array, dims: tuple[int, ...], norm: str, inverse: bool) -> Array:
    """Complex or real to complex along `dims`."""
    return kernel("ffts", "complex_transform", input)(input, dims, norm, inverse)


@complex_transform.backward
def complex_transform_backward(g: Any, saved: Any, dims: Any, norm: Any, inverse: Any) -> Gradients:
    result = complex_transform(g, dims, _OTHER[norm], not inverse)
    return (result if saved.input_dtype.kind == "c" else real(result),)


@op(name="fft_half", linear=True, saves="input.shape")
def half_transform(input: Array, dims: tuple[int, ...], norm: str) -> Array:
    """Real to complex along `dims`; of the last one, the first n // 2 + 1."""
    return kernel("ffts", "half_transform", input)(input, dims, norm)


@half_transform.backward
def half_transform_backward(g: Any, saved: Any, dims: Any, norm: Any) -> Gradients:
    last = dims[-1]
    whole = _resized(g, (last,), (saved.input_shape[last],))
    return (real(complex_transform(whole, dims, _OTHER[norm], True)),)


@op(name="fft_from_half", linear=True, saves="input.shape")
def from_half(input: Array, n: int, dims: tuple[int, ...], norm: str) -> Array:
    """Complex to real along `dims`; the last one holds the first n // 2 + 1 of n, the others are their conjugates."""
    return kernel("ffts", "from_half", input)(input, n, dims, norm)


@from_half.backward
def from_half_backward(g: Any, saved: Any, n: Any, dims: Any, norm: Any) -> Gradients:
    last, shape = dims[-1], saved.input_shape
    raw = getattr(g, "array", g)
    weights = kernel("ffts", "half_weights", arrays.place_of(raw))(shape[last], n, raw.dtype)
    weights = weights.reshape((-1,) + (1,) * (len(shape) - 1 - last))
    return (half_transform(g, dims, _OTHER[norm]) * weights,)


# --- arguments -----------------------------------------------------------------------------------------------------------


def _checked(who: str, input: Any, real_only: bool = False, to_complex: bool = True) -> Array:
    """`input` in a dtype that can be transformed."""
    kind = input.dtype
    if kind in (dtypes.float16, dtypes.bfloat16):
        raise DtypeError(f"{who}: Unsupported dtype {kind}. Use input.float().")
    if real_only and kind.is_complex:
        raise DtypeError(
            f"{who} expects a real input tensor, but got {kind}. Use {who.replace('rfft', 'fft')} or input.real."
        )
    if not kind.is_complex and not kind.is_floating_point:
        input = convert(input, dtypes.get_default_dtype())
    if to_complex and not is_complex_array(input):
        input = convert(input, dtypes.complex128 if input.dtype == dtypes.float64 else dtypes.complex64)
    return input


def _norm(who: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in _NORMS:
        raise RuntimeError(f'{who}: Invalid normalization mode: "{norm}". Use "backward", "ortho" or "forward".')
    return norm


def _line(who: str, input: Any, n: int | None, dim: int, half: bool = False) -> tuple[int, int]:
    """The dim of a transform, and how many points of the (whole) signal it takes."""
    shape = tuple(input.shape)
    if not shape:
        raise IndexError(f"{who}: Dimension specified as {dim} but tensor has no dimensions. Unsqueeze it first.")
    place = normalize_dim(who, dim, len(shape))
    count = n if n is not None else 2 * (shape[place] - 1) if half else shape[place]
    if count < 1:
        raise ShapeError(
            f"{who}: Invalid number of data points ({count}) specified, for input of shape {shape} and dim {dim}."
        )
    return place, count


def _places(who: str, input: Any, s: Any, dim: Any, half: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dims of a transform over several, and the points of each."""
    shape = tuple(input.shape)
    rank = len(shape)
    s = None if s is None else (s,) if isinstance(s, int) else tuple(s)
    if dim is None:
        if s is not None and len(s) > rank:
            raise ShapeError(f"{who}: Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
        dims = tuple(range(0 if s is None else rank - len(s), rank))
    else:
        dims = tuple([normalize_dim(who, dim, rank) for dim in ((dim,) if isinstance(dim, int) else dim)])
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{who}: FFT dims must be unique, got dim={dim}.")
    if s is not None and len(s) != len(dims):
        raise ShapeError(
            f"{who}: When given, dim and shape arguments must have the same length, got dim={dim} and s={s}."
        )
    counts = (
        [shape[place] for place in dims]
        if s is None
        else [shape[p] if c == -1 else c for c, p in zip(s, dims, strict=True)]
    )
    if half and dims and (s is None or s[-1] == -1):
        counts[-1] = 2 * (shape[dims[-1]] - 1)
    for count in counts:
        if count < 1:
            raise ShapeError(f"{who}: Invalid number of data points ({count}) specified, for input of shape {shape}.")
    return dims, tuple(counts)


def _resized(input: Any, dims: tuple[int, ...], counts: tuple[int, ...]) -> Array:
    """`input` cut off, or with zeros after it, to `counts` along `dims`."""
    shape = tuple(input.shape)
    sides = [(0, 0)] * len(shape)
    for place, count in zip(dims, counts, strict=True):
        sides[place] = (0, count - shape[place])
    return pad_constant(input, tuple(sides), 0.0) if any([side != (0, 0) for side in sides]) else input


def _halves(counts: tuple[int, ...]) -> tuple[int, ...]:
    return (*counts[:-1], counts[-1] // 2 + 1)


def _both_ways(who: str, input: Any, s: Any, dim: Any, norm: str | None, inverse: bool) -> Array:
    dims, counts = _places(who, input, s, dim)
    norm = _norm(who, norm)
    input = _checked(who, input, to_complex=not dims)
    return complex_transform(_resized(input, dims, counts), dims, norm, inverse) if dims else input


def _to_half(who: str, input: Any, s: Any, dim: Any, norm: str | None) -> Array:
    dims, counts = _places(who, input, s, dim)
    norm = _norm(who, norm)
    _at_least_one(who, dims)
    return half_transform(_resized(_checked(who, input, True, False), dims, counts), dims, norm)


def _to_real(who: str, input: Any, s: Any, dim: Any, norm: str) -> Array:
    dims, counts = _places(who, input, s, dim, True)
    _at_least_one(who, dims)
    return from_half(_resized(_checked(who, input), dims, _halves(counts)), counts[-1], dims, norm)


def _at_least_one(who: str, dims: tuple[int, ...]) -> None:
    if not dims:
        raise ShapeError(f"{who}: {who} must transform at least one axis.")


# --- along one dim -------------------------------------------------------------------------------------------------------


def _quick_fft_fft(compute: Any, input: Any, n: Any, dim: Any, norm: Any) -> tuple | None:
    if n is None and norm is None and dim == -1 and input.ndim and input.size and input.dtype.char in "fdFD":
        statics = ((input.ndim - 1,), "backward", False)
        return compute(input, *statics), statics
    return None


@composed()
@shortcut(complex_transform, _quick_fft_fft, compute="ffts.complex_transform")
def fft_fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform along `dim`: `output[k] = sum_j input[j] exp(-2 pi i j k / n)`.

    Args:
        input: tensor of any shape.
        n: the number of points; `input` is cut off or gets zeros. By default the size of `dim`.
        dim: which dim; negative counts from the end.
        norm: "backward" (no factor), "ortho" (1/sqrt(n)) or "forward" (1/n).
    Returns:
        A complex tensor of `input`'s shape, with n in `dim`.
    Raises:
        ShapeError: no points.

    >>> dynograd.fft.fft(tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    place, count = _line("fft", input, n, dim)
    input = _checked("fft", input, to_complex=False)
    return complex_transform(_resized(input, (place,), (count,)), (place,), _norm("fft", norm), False)


def _quick_fft_ifft(compute: Any, input: Any, n: Any, dim: Any, norm: Any) -> tuple | None:
    if n is None and norm is None and dim == -1 and input.ndim and input.size and input.dtype.char in "FD":
        statics = ((input.ndim - 1,), "backward", True)
        return compute(input, *statics), statics
    return None


@composed()
@shortcut(complex_transform, _quick_fft_ifft, compute="ffts.complex_transform")
def fft_ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`; its norm "backward" divides by n.

    Args:
        input: tensor of any shape.
        n: the number of points; `input` is cut off or gets zeros. By default the size of `dim`.
        dim: which dim; negative counts from the end.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with n in `dim`.
    Raises:
        ShapeError: no points.

    >>> dynograd.fft.ifft(tensor([10 + 0j, -2 + 2j, -2 + 0j, -2 - 2j]))
    tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    place, count = _line("ifft", input, n, dim)
    return complex_transform(_resized(_checked("ifft", input), (place,), (count,)), (place,), _norm("ifft", norm), True)


def _quick_fft_rfft(compute: Any, input: Any, n: Any, dim: Any, norm: Any) -> tuple | None:
    if n is None and norm is None and dim == -1 and input.ndim and input.size and input.dtype.char in "fd":
        statics = ((input.ndim - 1,), "backward")
        return compute(input, *statics), statics
    return None


@composed()
@shortcut(half_transform, _quick_fft_rfft, compute="ffts.half_transform")
def fft_rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 numbers of the `fft` of a real tensor; the others are their conjugates.

    Args:
        input: real tensor.
        n: the number of points; `input` is cut off or gets zeros. By default the size of `dim`.
        dim: which dim; negative counts from the end.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with n // 2 + 1 in `dim`.
    Raises:
        DtypeError: a complex input.

    >>> dynograd.fft.rfft(tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    place, count = _line("rfft", input, n, dim)
    input = _checked("rfft", input, True, False)
    return half_transform(_resized(input, (place,), (count,)), (place,), _norm("rfft", norm))


def _quick_fft_irfft(compute: Any, input: Any, n: Any, dim: Any, norm: Any) -> tuple | None:
    if n is None and norm is None and dim == -1 and input.ndim and input.shape[-1] > 1 and input.dtype.char in "FD":
        statics = (2 * (input.shape[-1] - 1), (input.ndim - 1,), "backward")
        return compute(input, *statics), statics
    return None


@composed()
@shortcut(from_half, _quick_fft_irfft, compute="ffts.from_half")
def fft_irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: `n` real numbers, by default 2 * (size - 1) (give `n` for odd ones).

    Args:
        input: half of a spectrum, as `rfft` gives it.
        n: the number of points of the result.
        dim: which dim; negative counts from the end.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A real tensor of `input`'s shape, with n in `dim`.

    >>> dynograd.fft.irfft(tensor([10 + 0j, -2 + 2j, -2 + 0j]))
    tensor([1., 2., 3., 4.])
    """
    place, count = _line("irfft", input, n, dim, True)
    input = _resized(_checked("irfft", input), (place,), (count // 2 + 1,))
    return from_half(input, count, (place,), _norm("irfft", norm))


@composed()
def fft_hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """The `fft` of a signal whose second half is the conjugate of its first, which is given: `n` real numbers.

    Args:
        input: half of a signal.
        n: the number of points of the result; by default 2 * (size - 1).
        dim: which dim; negative counts from the end.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A real tensor of `input`'s shape, with n in `dim`.

    >>> dynograd.fft.hfft(tensor([1 + 0j, 2 + 1j, 3 + 0j]))
    tensor([ 8.,  0.,  0., -4.])
    """
    place, count = _line("hfft", input, n, dim, True)
    input = _resized(conj(_checked("hfft", input)), (place,), (count // 2 + 1,))
    return from_half(input, count, (place,), _OTHER[_norm("hfft", norm)])


@composed()
def fft_ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first half of the `ifft` of a real tensor.

    Args:
        input: real tensor.
        n: the number of points; `input` is cut off or gets zeros. By default the size of `dim`.
        dim: which dim; negative counts from the end.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with n // 2 + 1 in `dim`.

    >>> dynograd.fft.ihfft(tensor([8.0, 0.0, 0.0, -4.0]))
    tensor([1.-0.j, 2.+1.j, 3.-0.j])
    """
    place, count = _line("ihfft", input, n, dim)
    input = _resized(_checked("ihfft", input, True, False), (place,), (count,))
    return conj(half_transform(input, (place,), _OTHER[_norm("ihfft", norm)]))


# --- along several dims --------------------------------------------------------------------------------------------------


@composed()
def fft_fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Array:
    """The `fft` over several dims: those in `dim`, else the last `len(s)`, else all.

    Args:
        input: tensor of any shape.
        s (ints): the numbers of points along the dims; by default their sizes.
        dim: ints; None: the last `len(s)`, or all.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.fftn(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return _both_ways("fftn", input, s, dim, norm, False)


@composed()
def fft_ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Array:
    """The inverse of `fftn`.

    Args:
        input: tensor of any shape.
        s (ints): the numbers of points along the dims; by default their sizes.
        dim: ints; None: the last `len(s)`, or all.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.ifftn(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return _both_ways("ifftn", input, s, dim, norm, True)


@composed()
def fft_fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Array:
    """The `fft` over two dims, the last ones by default.

    Args:
        input: tensor of any shape.
        s (ints): the numbers of points along the two dims; by default their sizes.
        dim: two ints.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.fft2(tensor([[1.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return _both_ways("fft2", input, s, dim, norm, False)


@composed()
def fft_ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `fft2`.

    Args:
        input: tensor of any shape.
        s (ints): the numbers of points along the two dims; by default their sizes.
        dim: two ints.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.ifft2(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return _both_ways("ifft2", input, s, dim, norm, True)


@composed()
def fft_rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Array:
    """The `fftn` of a real tensor, of the last dim only the first n // 2 + 1.

    Args:
        input: real tensor.
        s (ints): the numbers of points along the dims; by default their sizes.
        dim: ints; None: the last `len(s)`, or all.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor.

    >>> dynograd.fft.rfftn(dynograd.ones(2, 4)).shape
    dynograd.Size([2, 3])
    """
    return _to_half("rfftn", input, s, dim, norm)


@composed()
def fft_irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Array:
    """The inverse of `rfftn`; `s` holds the sizes of the real result.

    Args:
        input: half of a spectrum, as `rfftn` gives it.
        s (ints): the sizes of the result; the last one is by default 2 * (size - 1).
        dim: ints; None: the last `len(s)`, or all.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A real tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.irfftn(dynograd.fft.rfftn(dynograd.ones(2, 3)), s=(2, 3))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    return _to_real("irfftn", input, s, dim, _norm("irfftn", norm))


@composed()
def fft_rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Array:
    """`rfftn` over two dims, the last ones by default.

    Args:
        input: real tensor.
        s (ints): the numbers of points along the two dims; by default their sizes.
        dim: two ints.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor.

    >>> dynograd.fft.rfft2(tensor([[1.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return _to_half("rfft2", input, s, dim, norm)


@composed()
def fft_irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Array:
    """`irfftn` over two dims, the last ones by default.

    Args:
        input: half of a spectrum, as `rfft2` gives it.
        s (ints): the sizes of the result; the last one is by default 2 * (size - 1).
        dim: two ints.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A real tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.irfft2(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _to_real("irfft2", input, s, dim, _norm("irfft2", norm))


@composed()
def fft_hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Array:
    """`hfft` over the last of several dims, `fft` over the others.

    Args:
        input: half of a signal.
        s (ints): the sizes of the result; the last one is by default 2 * (size - 1).
        dim: ints; None: the last `len(s)`, or all.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A real tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.hfftn(tensor([[1.0, 0.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _to_real("hfftn", conj(_checked("hfftn", input)), s, dim, _OTHER[_norm("hfftn", norm)])


@composed()
def fft_ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Array:
    """The inverse of `hfftn`.

    Args:
        input: real tensor.
        s (ints): the numbers of points along the dims; by default their sizes.
        dim: ints; None: the last `len(s)`, or all.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor.

    >>> dynograd.fft.ihfftn(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.-0.j, 1.-0.j],
            [1.-0.j, 1.-0.j]])
    """
    return conj(_to_half("ihfftn", input, s, dim, _OTHER[_norm("ihfftn", norm)]))


@composed()
def fft_hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Array:
    """`hfftn` over two dims, the last ones by default.

    Args:
        input: half of a signal.
        s (ints): the sizes of the result; the last one is by default 2 * (size - 1).
        dim: two ints.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A real tensor of `input`'s shape, with `s` in `dim`.

    >>> dynograd.fft.hfft2(tensor([[1.0, 0.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _to_real("hfft2", conj(_checked("hfft2", input)), s, dim, _OTHER[_norm("hfft2", norm)])


@composed()
def fft_ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Array:
    """`ihfftn` over two dims, the last ones by default.

    Args:
        input: real tensor.
        s (ints): the numbers of points along the two dims; by default their sizes.
        dim: two ints.
        norm: "backward", "forward" or "ortho"; see `fft`.
    Returns:
        A complex tensor.

    >>> dynograd.fft.ihfft2(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.-0.j, 1.-0.j],
            [1.-0.j, 1.-0.j]])
    """
    return conj(_to_half("ihfft2", input, s, dim, _OTHER[_norm("ihfft2", norm)]))


# --- the order of frequencies --------------------------------------------------------------------------------------------


@composed(out=None)
def fft_fftshift(input: Any, dim: Any = None) -> Array:
    """`input` with frequency 0, which `fft` puts first, in the middle.

    Args:
        input: tensor of any shape.
        dim: an int or several; None: all.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.fft.fftshift(tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    return _shifted("fftshift", input, dim, lambda size: size // 2)


@composed(out=None)
def fft_ifftshift(input: Any, dim: Any = None) -> Array:
    """The inverse of `fftshift`.

    Args:
        input: tensor of any shape.
        dim: an int or several; None: all.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.fft.ifftshift(tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    return _shifted("ifftshift", input, dim, lambda size: (size + 1) // 2)


def _shifted(who: str, input: Any, dim: Any, shift: Any) -> Array:
    shape = tuple(input.shape)
    listed = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = tuple([normalize_dim(who, dim, len(shape)) for dim in listed])
    return rolled(input, tuple([shift(shape[place]) for place in dims]), dims) if dims else reshaped(input, shape)
