"""Every error that dynograd raises on purpose, each also the built-in type that PyTorch's users catch, and where warnings point.

A message says who, expected, got, and the way out: build it where the values are known, never here.
"""

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

__all__ = [
    "CheckpointError",
    "DataFileError",
    "DeadlineError",
    "DeviceError",
    "DimError",
    "DownloadError",
    "DtypeError",
    "DynogradError",
    "GradientError",
    "IndexRangeError",
    "InplaceError",
    "KernelCompileError",
    "LinAlgError",
    "LoaderError",
    "NoEffectWarning",
    "NonFiniteError",
    "NumberRangeError",
    "OnnxError",
    "OutOfMemoryError",
    "ProgramError",
    "QueueFullError",
    "RaggedSizeError",
    "RankError",
    "ShapeError",
    "StateDictError",
    "WorkerDied",
    "WorkerMemoryError",
    "hands_on",
    "refusal",
    "user_level",
]


_Function = TypeVar("_Function", bound=Callable[..., Any])


class DynogradError(Exception):
    """Base of all errors of this library, so that `except dynograd.errors.DynogradError` catches them all."""


class ShapeError(DynogradError, RuntimeError, ValueError):
    """Sizes that do not fit each other or the op."""


class RaggedSizeError(ShapeError, TypeError):
    """The size of a ragged dim was used as a number; it differs from row to row."""


class DtypeError(DynogradError, RuntimeError, TypeError):
    """A dtype that the op does not take, or two that do not mix."""


class DeviceError(DynogradError, RuntimeError):
    """Tensors on different devices, or a device that this machine does not have."""


class KernelCompileError(DynogradError, RuntimeError):
    """A kernel that its compiler refuses; the message holds the kernel, its signature, the target and the compiler's words."""


class LinAlgError(DynogradError, RuntimeError):
    """A matrix that is singular or not positive definite, or a factorization that does not converge."""


class NumberRangeError(DynogradError, RuntimeError, OverflowError):
    """A number that the dtype does not hold. (PyTorch raises either type.)"""


class DimError(DynogradError, IndexError):
    """A dimension outside the tensor's rank."""


class IndexRangeError(DynogradError, IndexError, RuntimeError):
    """An index outside the indexed dimension; the message holds its position and value. (PyTorch raises either type.)"""


class GradientError(DynogradError, RuntimeError):
    """Backward was asked for something that cannot be differentiated."""


class InplaceError(GradientError):
    """A value that backward needs, or a leaf, was changed in place."""


class StateDictError(DynogradError, RuntimeError, KeyError):
    """Keys or shapes of a state_dict that do not fit the module or optimizer."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CheckpointError(DynogradError, RuntimeError, ValueError):
    """A file that is truncated, damaged, foreign, or would have to run code to be read."""


class OnnxError(DynogradError, RuntimeError, ValueError):
    """An ONNX file that is damaged or says what is not known here, or a program that ONNX has no words for."""


class ProgramError(DynogradError, RuntimeError, ValueError):
    """A program that cannot be exported, or a file of one that is damaged, foreign, or has no such op."""


class DataFileError(DynogradError, ValueError):
    """A file of a data set that is not as its format wants; the message names file, line, expected and got."""


class DownloadError(DynogradError, OSError):
    """A file that could not be fetched, or was not what it had to be."""


class LoaderError(DynogradError, RuntimeError):
    """A data loader or one of its workers failed."""


class WorkerDied(LoaderError):
    """A worker of a data loader ended before its work was done.

    `worker_id`, `pid`, `exitcode` (minus the signal's number if one killed it) and `signal` (its name or None) say which and how,
    `indices` what it was working on, `in_flight` all that it had been given and had not finished: a list of lists of indices.
    """


class RankError(DynogradError, RuntimeError):
    """A process of a group ended, does not come, or calls another collective than the others.

    `rank` is its number in the group, None where it is not known which; `reason` says in few words what is the matter with it, and `place`
    where it stands on the board of its host.
    """

    rank: int | None = None
    place: int | None = None
    reason: str = ""


class WorkerMemoryError(WorkerDied, MemoryError):
    """A worker of a data loader had no memory left."""


class DeadlineError(DynogradError, TimeoutError):
    """A request's deadline passed before its answer was there."""


class QueueFullError(DynogradError, RuntimeError):
    """As many requests wait as may: ask again later."""


class NonFiniteError(DynogradError, ArithmeticError, RuntimeError):
    """A loss or weight that became NaN or infinite.

    `step` and `batch` (its number in the epoch) say when, `op` and `line` what made the first such value and where the program called it
    (None where that is not known), `indices` which samples were in the batch (None where the loader does not say).
    """

    step: int
    batch: int
    op: str | None = None
    line: str | None = None
    indices: list | None = None


class OutOfMemoryError(DynogradError, MemoryError, RuntimeError):
    """The device has no memory left for the request."""


class NoEffectWarning(UserWarning):
    """Something was called that PyTorch has and that does not happen here; said once for each name."""


def refusal(check: Callable[..., Any], *arguments: Any) -> Exception | None:
    """The error that `check` raises of these arguments, to be raised in its place: `raise refusal(check, x) or error from None`.

    The user's traceback then ends in the function that was called, and does not tell of the error that only led to the check.

    Args:
        check: a function.
        *arguments: for it.
    Returns:
        The error, or None when `check` raises none.

    >>> dynograd.errors.refusal(int, "three")
    ValueError("invalid literal for int() with base 10: 'three'")
    """
    try:
        check(*arguments)
    except Exception as error:
        return error.with_traceback(None)
    return None


HANDING_ON: set[CodeType] = set()  # of the functions that only hand calls on


def hands_on(function: _Function) -> _Function:
    """Says that the function only hands calls on, so that tracebacks of a user's mistake do without it.

    Args:
        function: the function.
    Returns:
        The function, as it is.

    >>> dynograd.errors.hands_on(lambda x: x)(3)
    3
    """
    HANDING_ON.add(function.__code__)
    return function


def user_level() -> int:
    """The `stacklevel` with which a warning of the calling function names the line of the user's own code that led to it.

    Returns:
        An int, 1 or more.

    >>> dynograd.errors.user_level()
    1
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("dynograd", "numba"):
        level, frame = level + 1, frame.f_back
    return level
