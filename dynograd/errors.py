"""Every error that dynograd raises on purpose; each is also the built-in type that PyTorch's users catch.

A message says who, expected, got, and the way out: build it where the values are known, never here.
"""

__all__ = [
    "CheckpointError",
    "DeviceError",
    "DimError",
    "DtypeError",
    "DynogradError",
    "GradientError",
    "IndexRangeError",
    "InplaceError",
    "KernelCompileError",
    "LinAlgError",
    "LoaderError",
    "OutOfMemoryError",
    "RaggedSizeError",
    "ShapeError",
    "StateDictError",
]


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


class LoaderError(DynogradError, RuntimeError):
    """A data loader or one of its workers failed."""


class OutOfMemoryError(DynogradError, MemoryError, RuntimeError):
    """The device has no memory left for the request."""
