"""Other ways to say `permute`: `t`, `movedim`, and the properties `T`, `mT`, `H`, `mH`, which `PROPERTIES` lists for Tensor."""

from __future__ import annotations

import warnings
from typing import Any

from dynograd.arrays import Array
from dynograd.base.shapes import normalize_dim
from dynograd.errors import ShapeError, user_level
from dynograd.ops.elementwise.arithmetic import conjugated
from dynograd.ops.layout.views import permuted, transpose, view
from dynograd.ops.op import composed, keep, shortcut
from dynograd.ops.row import Row

__all__ = ["adjoint", "moveaxis", "movedim", "swapaxes", "swapdims", "t"]

FAMILY = Row(out=None)


@composed(method=True, inplace_view=True)
def swapaxes(input: Any, axis0: int, axis1: int) -> Array:
    """Another name of `transpose`.

    Args:
        input: tensor of any shape.
        axis0, axis1: the two dims; negative ones count from the end.
    Returns:
        A view of `input`.

    >>> dynograd.swapaxes(dynograd.zeros(2, 3), 0, 1).shape
    dynograd.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


@composed(method=True, inplace_view=True)
def swapdims(input: Any, dim0: int, dim1: int) -> Array:
    """Another name of `transpose`.

    Args:
        input: tensor of any shape.
        dim0, dim1: the two dims; negative ones count from the end.
    Returns:
        A view of `input`.

    >>> dynograd.swapdims(dynograd.zeros(2, 3), 0, 1).shape
    dynograd.Size([3, 2])
    """
    return transpose(input, dim0, dim1)


def _quick_t(input: Any) -> tuple | None:
    if input.ndim == 2:
        return input.transpose(), ((1, 0),)
    return None


@composed(method=True, inplace_view=True)
@shortcut(permuted, _quick_t)
def t(input: Any) -> Array:
    """The transpose of a matrix; tensors of fewer dims come back as they are.

    Args:
        input: tensor of at most two dims.
    Returns:
        A view of `input`.
    Raises:
        ShapeError: more than two dims.

    >>> dynograd.t(tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if getattr(input, "array", input).ndim == 2:
        return permuted(input, (1, 0))
    if input.ndim > 2:
        raise ShapeError(
            f"t: t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D (shape {tuple(input.shape)}). "
            f"Use transpose(dim0, dim1) or .mT."
        )
    return view(input, tuple(input.shape))


_MOVES: dict[Any, tuple] = {}  # (rank, source, destination) -> the arguments of `permuted`


def _quick_movedim(input: Any, source: Any, destination: Any) -> tuple | None:
    statics = _MOVES[input.ndim, source, destination]
    return input.transpose(*statics), statics


@composed(method=True)
@shortcut(permuted, _quick_movedim, misses=(KeyError, TypeError))
def movedim(input: Any, source: Any, destination: Any) -> Array:
    """A view with the dims `source` (an int or several) moved to the places `destination`; the others keep their order.

    Args:
        input: tensor of any shape.
        source, destination: ints, or as many of each; negative ones count from the end.
    Returns:
        A view of `input`.
    Raises:
        ShapeError: `source` and `destination` differ in length or name a dim twice.

    >>> dynograd.movedim(dynograd.zeros(2, 3, 5), 0, -1).shape
    dynograd.Size([3, 5, 2])
    """
    rank = input.ndim
    sources, destinations = _places(source, "source", rank), _places(destination, "destination", rank)
    if len(sources) != len(destinations):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({source}) should contain the same number of dims as "
            f"destination ({destination})."
        )
    if not rank:
        return input
    order = [dim for dim in range(rank) if dim not in sources]
    for place, dim in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, dim)
    if {*map(type, (source, destination))} <= {int, tuple}:
        keep(_MOVES, (rank, source, destination), (tuple(order),))
    return permuted(input, tuple(order))


def _places(dims: Any, what: str, rank: int) -> tuple[int, ...]:
    listed = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    places = tuple([normalize_dim("movedim", dim, rank) for dim in listed])
    if len(set(places)) != len(places):
        raise ShapeError(f"movedim: repeated dim in `{what}` ({list(listed)}). Name each dim once.")
    return places


@composed(method=True)
def moveaxis(input: Any, source: Any, destination: Any) -> Array:
    """Another name of `movedim`.

    Args:
        input: tensor of any shape.
        source, destination: ints, or as many of each; negative ones count from the end.
    Returns:
        A view of `input`.

    >>> dynograd.moveaxis(dynograd.zeros(2, 3, 4), 0, -1).shape
    dynograd.Size([3, 4, 2])
    """
    return movedim(input, source, destination)


@shortcut(permuted, _quick_t)
def _reversed_dims(input: Any) -> Array:
    """The tensor with its dims in reverse order; for a matrix, its transpose."""
    rank = getattr(input, "array", input).ndim
    if rank == 2:
        return permuted(input, (1, 0))
    if rank > 2:
        warnings.warn(
            "x.T on a tensor of more than two dims is deprecated: use x.mT for batches of matrices, or x.permute(...).",
            UserWarning,
            stacklevel=user_level(),
        )
    return permuted(input, tuple(range(rank - 1, -1, -1)))


_LAST_TWO = {rank: ((*range(rank - 2), rank - 1, rank - 2),) for rank in range(2, 9)}


def _quick_matrix_transpose(input: Any) -> tuple | None:
    statics = _LAST_TWO[input.ndim]
    return input.transpose(*statics), statics


@shortcut(permuted, _quick_matrix_transpose, misses=(KeyError,))
def _matrix_transpose(input: Any) -> Array:
    """The tensor with its last two dims exchanged."""
    if not input.ndim:
        _warn_of_no_dims("mT", "This function is the identity in these cases.")
        return permuted(input, ())
    _check_matrix("mT", input)
    return transpose(input, -2, -1)


def _quick_adjoint(input: Any) -> tuple | None:
    if input.ndim == 2 and input.dtype.kind != "c":
        return input.transpose(), ((1, 0),)
    return None


@shortcut(permuted, _quick_adjoint)
def _adjoint(input: Any) -> Array:
    """The conjugate transpose of a matrix."""
    if not input.ndim:
        _warn_of_no_dims("H", "Consider using x.conj().")
        return conjugated(permuted(input, ()))
    if input.ndim != 2:
        raise ShapeError(
            f"H: tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor. For batches use tensor.mH."
        )
    return conjugated(permuted(input, (1, 0)))


def _quick_matrix_adjoint(input: Any) -> tuple | None:
    if input.dtype.kind != "c":
        statics = _LAST_TWO[input.ndim]
        return input.transpose(*statics), statics
    return None


@shortcut(permuted, _quick_matrix_adjoint, misses=(KeyError,))
def _matrix_adjoint(input: Any) -> Array:
    """The tensor with its last two dims exchanged, conjugated."""
    if not input.ndim:
        _warn_of_no_dims("mH", "Consider using x.conj().")
        return conjugated(permuted(input, ()))
    _check_matrix("mH", input)
    return conjugated(transpose(input, -2, -1))


def _warn_of_no_dims(who: str, instead: str) -> None:
    warnings.warn(f"Tensor.{who} is deprecated on 0-D tensors. {instead}", UserWarning, stacklevel=user_level())


def _check_matrix(who: str, input: Any) -> None:
    if input.ndim < 2:
        raise ShapeError(
            f"{who}: tensor.{who} is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor. Unsqueeze first."
        )


@composed(method=True)
@shortcut(permuted, _quick_matrix_adjoint, misses=(KeyError,))
def adjoint(input: Any) -> Array:
    """The tensor with its last two dims exchanged, conjugated: `.mH`.

    Args:
        input (..., M, N): tensor.
    Returns:
        (..., N, M); for real tensors a view.

    >>> dynograd.adjoint(tensor([[1 + 1j, 2], [3, 4]]))
    tensor([[1.-1.j, 3.-0.j],
            [2.-0.j, 4.-0.j]])
    """
    return _matrix_adjoint(input)


PROPERTIES = {"H": _adjoint, "T": _reversed_dims, "mH": _matrix_adjoint, "mT": _matrix_transpose}
