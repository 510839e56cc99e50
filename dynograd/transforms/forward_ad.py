"""`torch.autograd.forward_ad`: tensors with tangents, made and taken apart by hand inside a dual level.

>>> import dynograd.autograd.forward_ad as forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(tensor([1.0, 2.0]), tensor([1.0, 0.0]))
...     forward_ad.unpack_dual(x * x).tangent
tensor([2., 0.])
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dynograd.errors import ShapeError
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.duals import Level, make_moving, split

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent (None where it does not move).

    Args:
        primal: the tensor.
        tangent: its tangent, in the same shape, or None.

    >>> dynograd.autograd.forward_ad.unpack_dual(tensor(1.0)).tangent is None
    True
    """

    primal: Any
    tangent: Any


class _Levels(threading.local):
    def __init__(self) -> None:
        self.open: list[Level] = []


_levels = _Levels()


def enter_dual_level() -> int:
    """Opens a level, in which `make_dual` works; returns its number. `dual_level()` closes it again by itself.

    Returns:
        An int from 0.

    >>> level = dynograd.autograd.forward_ad.enter_dual_level()
    >>> dynograd.autograd.forward_ad.exit_dual_level(level=level)
    """
    level = Level()
    level.__enter__()
    _levels.open.append(level)
    return len(_levels.open) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the latest level: its tensors are their primals from now on.

    Args:
        level: its number; None is the latest.
    Raises:
        RuntimeError: it is not the latest one.

    >>> level = dynograd.autograd.forward_ad.enter_dual_level()
    >>> dynograd.autograd.forward_ad.exit_dual_level(level=level)
    """
    if not _levels.open or (level is not None and level != len(_levels.open) - 1):
        raise RuntimeError(
            f"exit_dual_level: Trying to exit a forward AD level that was not the last one that was created: level {level}, "
            f"{len(_levels.open)} are open. Use the context manager dual_level()."
        )
    _levels.open.pop().__exit__()


@contextmanager
def dual_level() -> Iterator[int]:
    """Opens a level of forward mode and closes it.

    Returns:
        A context manager that gives the level's number.

    >>> from dynograd.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(tensor(3.0), tensor(1.0))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    """
    number = enter_dual_level()
    try:
        yield number
    finally:
        exit_dual_level(level=number)


def _level(who: str, level: int | None) -> Level:
    if not _levels.open:
        raise RuntimeError(
            f"{who}: Trying to use a dual tensor for forward AD but no level exists, make sure to enter_dual_level() first: "
            f"with forward_ad.dual_level(): ..."
        )
    if level is not None and level >= len(_levels.open):
        raise RuntimeError(f"{who}: level {level} is not open; {len(_levels.open)} levels are.")
    return _levels.open[-1 if level is None or level < 0 else level]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Any:
    """`tensor` moving in the direction `tangent`: ops on it compute how their results move.

    Args:
        tensor: floating or complex.
        tangent: the direction, floating or complex, in the same shape.
        level: the latest one.
    Returns:
        A tensor.
    Raises:
        RuntimeError: no level is open.
        ShapeError: the tangent has another shape than the tensor.
        ValueError: one of them holds whole numbers.

    >>> from dynograd.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(tensor(2.0), tensor(1.0))
    ...     forward_ad.unpack_dual(x.exp())
    UnpackedDualTensor(primal=tensor(7.3891), tangent=tensor(7.3891))
    """
    place = _level("make_dual", level)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(
            f"make_dual: Expected primal to be floating point or complex, but got: {tensor.dtype}. Convert it, e.g. with float()."
        )
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(
            f"make_dual: Expected tangent to be floating point or complex, but got: {tangent.dtype}. Convert it, e.g. with float()."
        )
    if tensor.shape != tangent.shape:
        raise ShapeError(
            f"make_dual: expected a tangent of the tensor's shape, {tuple(tensor.shape)}, got {tuple(tangent.shape)}."
        )
    return make_moving(place, tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent at this level, and the tangent.

    Args:
        tensor: any tensor.
        level: the latest one.
    Returns:
        (primal, tangent); the tangent is None where the tensor does not move.

    >>> from dynograd.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     forward_ad.unpack_dual(forward_ad.make_dual(tensor(2.0), tensor(1.0)) * 3).tangent
    tensor(3.)
    """
    if not _levels.open:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = split(_level("unpack_dual", level), tensor)
    return UnpackedDualTensor(primal, tangent)
