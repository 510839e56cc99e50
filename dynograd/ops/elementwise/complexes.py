"""Complex numbers: made of parts or of size and angle, their parts as views, angles, and PyTorch's questions about conjugation.

Conjugates are computed at once here, so that `is_conj` and `is_neg` are always false and `resolve_conj` has nothing to do.
Gradients of complex tensors are those of their real and imaginary parts, as one complex number (PyTorch's convention).
"""

from __future__ import annotations

from math import pi
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, check_tensor
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj as conjugated
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.trigonometrics import cos, sin
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.op import Gradients, composed, op, shortcut

__all__ = ["angle", "complex", "imag", "is_complex_array", "polar", "real", "view_as_complex", "view_as_real"]


def is_complex_array(input: Any) -> bool:
    """Whether a tensor or an array holds complex numbers."""
    return getattr(input, "array", input).dtype.kind == "c"


# --- made of parts -------------------------------------------------------------------------------------------------------


@op(name="complex", linear=True, out="exact")
def from_parts(real: Array, imag: Array) -> Array:
    """`real + i * imag`, two tensors of one shape and dtype."""
    return kernel("complexes", "from_parts", real)(real, imag)


@from_parts.backward
def from_parts_backward(g: Any, saved: Any) -> Gradients:
    if not is_complex_array(g):
        return g, g * 0
    return real(g), imag(g)


def _quick_complex(compute: Any, real: Any, imag: Any) -> tuple | None:
    if real.dtype.char in "fd" and real.dtype is imag.dtype and real.shape == imag.shape:
        return compute(real, imag), ()
    return None


@composed(covers="complex")
@shortcut(from_parts, _quick_complex, compute="complexes.from_parts")
def complex(real: Any, imag: Any) -> Array:
    """The complex numbers with these real and imaginary parts, which broadcast.

    Args:
        real, imag: float32 or float64 tensors of one dtype; they broadcast.
    Returns:
        A complex64 or complex128 tensor of the broadcast shape.
    Raises:
        DtypeError: parts of other dtypes than float32 and float64, or of two dtypes.

    >>> dynograd.complex(tensor([1.0, 2.0]), tensor([3.0, -4.0]))
    tensor([1.+3.j, 2.-4.j])
    """
    return from_parts(*_two_parts("complex", real, imag))


def _two_parts(who: str, left: Any, right: Any) -> tuple[Any, Any]:
    first, second = getattr(left, "array", None), getattr(right, "array", None)
    if type(first) is ndarray is type(second) and first.dtype is second.dtype and first.dtype.char in "fd":
        if first.shape == second.shape:
            return left, right
    for part in (left, right):
        if not hasattr(part, "dtype"):
            raise TypeError(f"{who}(): both arguments must be Tensors, not {type(part).__name__} ({part!r}).")
    for part in (left, right):
        if part.dtype not in (dtypes.float32, dtypes.float64):
            raise DtypeError(
                f"{who}: Expected both inputs to be Half, Float or Double tensors but got {left.dtype} and {right.dtype}. Use "
                f"input.float()."
            )
    if left.dtype != right.dtype:
        raise DtypeError(
            f"{who}: Expected object of scalar type {left.dtype} but got scalar type {right.dtype} for second argument. Convert one of "
            f"them."
        )
    shape = broadcast_shapes(who, tuple(left.shape), tuple(right.shape))
    return tuple([part if tuple(part.shape) == shape else stretch(part, shape) for part in (left, right)])


def _quick_polar(compute: Any, abs: Any, angle: Any) -> object:
    if (
        abs.shape == angle.shape
        and abs.dtype is angle.dtype
        and abs.dtype.char in "fd"
        and abs.size <= 4096
        and abs.flags.c_contiguous
        and angle.flags.c_contiguous
    ):
        return compute(abs, angle)
    return None


@composed()
@shortcut(None, _quick_polar, compute="complexes.polar", beside="abs angle")
def polar(abs: Any, angle: Any) -> Array:
    """The complex numbers with these sizes and angles.

    Args:
        abs, angle: float32 or float64 tensors of one dtype, the angle in radians; they broadcast.
    Returns:
        A complex tensor of the broadcast shape: `abs * cos(angle) + 1j * abs * sin(angle)`.

    >>> dynograd.polar(tensor([2.0]), tensor([0.0]))
    tensor([2.+0.j])
    """
    size, turn = _two_parts("polar", abs, angle)
    return from_parts(size * cos(turn), size * sin(turn))


# --- taken apart ---------------------------------------------------------------------------------------------------------


@op(name="view_as_real", linear=True, view=True)
def pairs_of(input: Array) -> Array:
    """A view of complex numbers as pairs along a new last dim."""
    return kernel("complexes", "view_as_real", input)(input)


@pairs_of.backward
def pairs_of_backward(g: Any, saved: Any) -> Gradients:
    return (numbers_of(g),)


@op(name="view_as_complex", linear=True, view=True)
def numbers_of(input: Array) -> Array:
    """Pairs along the last dim as complex numbers, a view where memory allows."""
    return kernel("complexes", "view_as_complex", input)(input)


@numbers_of.backward
def numbers_of_backward(g: Any, saved: Any) -> Gradients:
    return (pairs_of(g),)


_PAIRS = ((dtypes.float32.numpy, dtypes.complex64.numpy), (dtypes.float64.numpy, dtypes.complex128.numpy))
_NUMBERS = {part.char: number for part, number in _PAIRS}
_PARTS = {number.char: part for part, number in _PAIRS}


def _quick_view_as_real(input: Any) -> tuple | None:
    return input[..., None].view(_PARTS[input.dtype.char]), ()


@composed(covers="view_as_real", method=False)
@shortcut(pairs_of, _quick_view_as_real, misses=(KeyError,))
def view_as_real(input: Any) -> Array:
    """A view of a complex tensor as pairs (real, imaginary) along a new last dim.

    Args:
        input (...): complex.
    Returns:
        (..., 2), in the real dtype; it shares `input`'s memory.
    Raises:
        DtypeError: `input` is not complex.

    >>> dynograd.view_as_real(tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if not is_complex_array(input):
        raise DtypeError(f"view_as_real: view_as_real is only supported for complex tensors, got {input.dtype}.")
    return pairs_of(input)


def _quick_view_as_complex(input: Any) -> tuple | None:
    if input.flags.c_contiguous:
        return input.view(_NUMBERS[input.dtype.char])[..., 0] if input.shape[-1] == 2 else None, ()
    return None


@composed(covers="view_as_complex", method=False)
@shortcut(numbers_of, _quick_view_as_complex, misses=(KeyError, IndexError))
def view_as_complex(input: Any) -> Array:
    """A view of pairs (real, imaginary) along the last dim as complex numbers.

    Args:
        input (..., 2): float32 or float64.
    Returns:
        (...), complex; it shares `input`'s memory.
    Raises:
        DtypeError: neither float32 nor float64.
        ShapeError: the last dim does not have size 2, or the pairs do not lie in memory as complex numbers do.

    >>> dynograd.view_as_complex(tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(
            f"view_as_complex: view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{input.dtype}. Use input.float()."
        )
    shape = tuple(input.shape)
    if not shape:
        raise ShapeError("view_as_complex: Input tensor must have one or more dimensions, got shape ().")
    if shape[-1] != 2:
        raise ShapeError(
            f"view_as_complex: Tensor must have a last dimension of size 2, got shape {shape}: it holds the real and the imaginary part."
        )
    steps = arrays.strides_in_elements(getattr(input, "array", input))
    if 0 not in shape and (steps[-1] != 1 or any([step % 2 for step in steps[:-1]])):
        raise ShapeError(
            f"view_as_complex: Tensor must have a last dimension with stride 1 and all other strides divisible by 2, got strides "
            f"{tuple(steps)}. Use contiguous()."
        )
    return numbers_of(input)


_REAL, _IMAG = (Ellipsis, 0), (Ellipsis, 1)


@composed(out=None)
def real(input: Any) -> Array:
    """The real part, as a view; a real tensor itself.

    Args:
        input: tensor of any shape.
    Returns:
        A real tensor of `input`'s shape.

    >>> dynograd.real(tensor([1 + 2j]))
    tensor([1.])
    """
    return get_basic(view_as_real(input), _REAL) if is_complex_array(input) else input


@composed(out=None)
def imag(input: Any) -> Array:
    """The imaginary part of a complex tensor, as a view.

    Args:
        input: complex tensor of any shape.
    Returns:
        A real tensor of `input`'s shape.
    Raises:
        DtypeError: `input` is not complex.

    >>> dynograd.imag(tensor([1 + 2j]))
    tensor([2.])
    """
    if not is_complex_array(input):
        raise DtypeError(f"imag: imag is not implemented for tensors with non-complex dtypes, got {input.dtype}.")
    return get_basic(view_as_real(input), _IMAG)


# --- angles --------------------------------------------------------------------------------------------------------------


@op(name="angle", saves="input", ragged="packed")
def turns(input: Array) -> Array:
    """The angle of complex numbers."""
    return kernel("complexes", "angle", input)(input)


@turns.backward
def turns_backward(g: Any, saved: Any) -> Gradients:
    x, y = real(saved.input), imag(saved.input)
    squares = x * x + y * y
    zero = squares == 0
    g = where(zero, 0.0, g / where(zero, 1.0, squares))
    return (from_parts(-(y * g), x * g),)


@composed(covers="angle", method=True, ragged="packed")
def angle(input: Any) -> Array:
    """The angle of complex numbers; for real ones 0, or pi below 0 (gradient 0).

    Args:
        input: tensor of any shape.
    Returns:
        A floating tensor of `input`'s shape, in radians in [-pi, pi].

    >>> dynograd.angle(tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """
    if is_complex_array(input):
        return turns(input)
    if not input.dtype.is_floating_point:
        input = convert(input, dtypes.get_default_dtype())
    return where(input < 0, pi, where(input == input, 0.0, input))


# --- conjugation ---------------------------------------------------------------------------------------------------------


def _quick_conj_physical(input: Any) -> object:
    if input.dtype.kind == "c" and input.size <= 4096:
        return input.conj()
    return None


@composed(method=True, inplace="function", out="exact", ragged="packed")
@shortcut(None, _quick_conj_physical, beside="input")
def conj_physical(input: Any) -> Array:
    """The complex conjugate in new memory; real tensors come back as they are.

    Args:
        input: tensor of any shape.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.conj_physical(tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conjugated(input) if is_complex_array(input) else input


@composed(covers="conj", method=True)
@shortcut(None, _quick_conj_physical, beside="input")
def conj(input: Any) -> Array:
    """The complex conjugate, in new memory; real tensors come back as they are.

    Args:
        input: tensor of any shape.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.conj(tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conjugated(input) if is_complex_array(input) else input


@composed(method=True, out=None, ragged="packed")
def resolve_conj(input: Any) -> Array:
    """`input` itself: no tensor here is a conjugate that waits to be computed.

    Args:
        input: tensor of any shape.
    Returns:
        `input`.

    >>> dynograd.resolve_conj(tensor([1 + 2j]))
    tensor([1.+2.j])
    """
    check_tensor("resolve_conj", "input", input)
    return input


@composed(method=True, out=None, ragged="packed")
def resolve_neg(input: Any) -> Array:
    """`input` itself: no tensor here is a negative that waits to be computed.

    Args:
        input: tensor of any shape.
    Returns:
        `input`.

    >>> dynograd.resolve_neg(tensor([1.0]))
    tensor([1.])
    """
    check_tensor("resolve_neg", "input", input)
    return input


@composed(method=True, out=None)
def is_conj(input: Any) -> bool:
    """False: conjugates are computed at once.

    Args:
        input: tensor of any shape.
    Returns:
        False.

    >>> dynograd.is_conj(tensor([1 + 2j]).conj())
    False
    """
    return False


@composed(method=True, out=None)
def is_neg(input: Any) -> bool:
    """False: negatives are computed at once.

    Args:
        input: tensor of any shape.
    Returns:
        False.

    >>> dynograd.is_neg(-tensor([1.0]))
    False
    """
    return False


@composed(out=None)
def is_complex(input: Any) -> bool:
    """Whether `input` holds complex numbers.

    Args:
        input: tensor.
    Returns:
        A bool.

    >>> dynograd.is_complex(tensor([1j]))
    True
    """
    return is_complex_array(input)


@composed(out=None)
def is_floating_point(input: Any) -> bool:
    """Whether `input` holds floating-point numbers (complex ones are not).

    Args:
        input: tensor.
    Returns:
        A bool.

    >>> dynograd.is_floating_point(tensor([1.0])), dynograd.is_floating_point(tensor([1]))
    (True, False)
    """
    return input.dtype.is_floating_point


@composed(method=True, out=None)
def isreal(input: Any) -> Array:
    """Whether each element has no imaginary part.

    Args:
        input: tensor of any shape.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.isreal(tensor([1 + 0j, 2j]))
    tensor([ True, False])
    """
    return imag(input) == 0 if is_complex_array(input) else (input == input) | (input != input)


def set_real(input: Any, value: Any) -> None:
    """`x.real = value`: writes through the view."""
    real(input).copy_(value if hasattr(value, "array") else _like(input, value))


def set_imag(input: Any, value: Any) -> None:
    """`x.imag = value`: writes through the view."""
    imag(input).copy_(value if hasattr(value, "array") else _like(input, value))


def _like(input: Any, value: Any) -> Array:
    return real(input).detach() * 0 + value


# Properties of Tensor that can be assigned to.
PROPERTIES = {"imag": (imag, set_imag), "real": (real, set_real)}
