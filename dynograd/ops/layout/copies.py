"""`select_copy`, `view_copy` and the like: what a view shows, in memory of its own. All are made from one table of views.

A copy takes the arguments of its view and gives as many tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.arrays import Array
from dynograd.base.shapes import normalize_dim
from dynograd.base.signatures import signature_of
from dynograd.errors import ShapeError
from dynograd.ops.elementwise.complexes import view_as_complex, view_as_real
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.index.indices import FULL
from dynograd.ops.layout.broadcasting import expand
from dynograd.ops.layout.conversions import copied
from dynograd.ops.layout.splits import narrow, select, split, split_with_sizes, unbind
from dynograd.ops.layout.strides import as_strided, diagonal, unfold
from dynograd.ops.layout.transposes import t
from dynograd.ops.layout.views import permute, squeeze, transpose, unsqueeze, view
from dynograd.ops.op import composed
from dynograd.ops.row import Row


def _alias(input: Any) -> Array:
    """The same tensor.

    Args:
        input: tensor of any shape.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.alias_copy(tensor([1, 2]))
    tensor([1, 2])
    """
    return input


def _detach(input: Any) -> Array:
    """The same memory without history.

    Args:
        input: tensor of any shape.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.detach_copy(tensor([1.0], requires_grad=True))
    tensor([1.])
    """
    return input.detach()


def _slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """The slice `start:end:step` along `dim`.

    Args:
        input: tensor with at least one dim.
        dim: which dim; negative counts from the end.
        start, end, step: as in a Python slice; None: the dim's ends.
    Returns:
        `input`'s shape, with fewer elements in `dim`.
    Raises:
        ShapeError: `step` is not positive.

    >>> dynograd.slice_copy(tensor([1, 2, 3]), 0, 1)
    tensor([2, 3])
    """
    if step <= 0:
        raise ShapeError(f"slice_copy: slice step must be positive, got {step}.")
    place = normalize_dim("slice_copy", dim, len(input.shape))
    return get_basic(input, (*(FULL,) * place, slice(start, end, step)))


VIEWS: dict[str, Any] = {
    "alias": _alias,
    "as_strided": as_strided,
    "detach": _detach,
    "diagonal": diagonal,
    "expand": expand,
    "narrow": narrow,
    "permute": permute,
    "select": select,
    "slice": _slice,
    "split": split,
    "split_with_sizes": split_with_sizes,
    "squeeze": squeeze,
    "t": t,
    "transpose": transpose,
    "unbind": unbind,
    "unfold": unfold,
    "unsqueeze": unsqueeze,
    "view": view,
    "view_as_complex": view_as_complex,
    "view_as_real": view_as_real,
}
_METHODS = ("narrow", "split_with_sizes")  # the copies that PyTorch also has as methods
_ROWS = {
    "alias": Row(out="exact", ragged="packed"),
    "detach": Row(ragged="packed"),
    "diagonal": Row(out="exact"),
    "expand": Row(out="exact"),
    "permute": Row(ragged="levels"),
}


def _copying(name: str, function: Any, row: Row) -> Callable[..., Any]:
    def copying(*args: Any, **kwargs: Any) -> Array | tuple[Array, ...]:
        shown = function(*args, **kwargs)
        return tuple([copied(tensor) for tensor in shown]) if isinstance(shown, (tuple, list)) else copied(shown)

    copying.__name__ = copying.__qualname__ = f"{name}_copy"
    copying.__doc__ = f"What `{name}` shows, in memory of its own. Of `{name}`:\n\n    {function.__doc__}"
    copying.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    return composed(method=name in _METHODS, **row)(copying)


globals().update({f"{name}_copy": _copying(name, function, _ROWS.get(name, Row())) for name, function in VIEWS.items()})
