"""What stands for the array of a tensor whose value is still to come: shape and dtype at once, anything else by computing it."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import cuda_arrays
from dynograd.kernels import kernel


class PendingArray:
    """What a Lazy shows as its array; `kind` has its shape and dtype."""

    __slots__ = ("kind", "owner")
    __array_priority__ = 2000

    def __init__(self, owner: Any, kind: Any) -> None:
        self.owner, self.kind = owner, kind

    shape = property(lambda self: self.kind.shape)
    dtype = property(lambda self: self.kind.dtype)
    ndim = property(lambda self: len(self.kind.shape))
    size = property(lambda self: self.kind.size)
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    device = property(lambda self: self.kind.device)

    def value(self) -> Any:
        """The array itself: computed now."""
        settle = getattr(type(self.owner), "__dynograd_settle__", None)
        return (self.owner if settle is None else settle(self.owner)).array

    def when_known(self, check: Any) -> None:
        """Has `check(array)` called when the value is there; what it raises becomes the value's error."""
        if self.owner.pending.whole is None:  # a plan computes it
            if not self.owner.pending.walk.check_when_known(self.owner, check):
                check(self.value())
            return
        port = self.owner.pending
        bucket = port.whole.bucket
        if bucket.done:
            check(self.value())
            return
        bucket.checks = bucket.checks or []
        bucket.checks.append((port, self.owner.row, check))

    def outlined(self) -> Any:
        """An array of the same shape and dtype, with nothing in it; on a GPU of the same layout, too."""
        kind = self.kind
        if self.device.type == "cuda":
            return cuda_arrays.outline(kind.shape, kind.strides, kind.dtype, self.device.index)
        return _outline(self.shape, self.dtype)

    @property
    def is_view(self) -> bool:
        return getattr(self.owner, "origin", None) is not None or self.owner.pending.is_view

    @property
    def strides(self) -> Any:
        known = getattr(self.kind, "strides", None)  # a plan knows where its values lie
        return self.value().strides if known is None else known

    @property
    def is_in_order(self) -> bool | None:
        """Whether its elements will lie row by row; None where only the value says it."""
        known = getattr(self.kind, "contiguous", None)
        return (None if self.is_view else True) if known is None else known

    @property
    def flags(self) -> Any:
        known = self.is_in_order
        return _flags_of(self.value()) if known is None else _Flags(self, known)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        result = arrays.to_numpy(self.value())
        return result if dtype is None or result.dtype == dtype else result.astype(dtype)

    @property
    def __array_interface__(self) -> Any:
        """What asks for it wants the place in memory."""
        return self.value().__array_interface__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            kwargs["out"] = tuple([array.value() if type(array) is PendingArray else array for array in kwargs["out"]])
        return getattr(ufunc, method)(
            *[operand.value() if type(operand) is PendingArray else operand for operand in inputs], **kwargs
        )

    @staticmethod
    def __dynograd_kernel__(family: str, name: str) -> Any:
        def computed(*args: Any, **kwargs: Any) -> Any:
            if name in _ABOUT_LAYOUTS and all([_shows_layout(argument) for argument in args]):
                shown = [argument.outlined() if type(argument) is PendingArray else argument for argument in args]
                like: Any = next((argument for argument in shown if type(argument) is arrays.CudaArray), 0)
                return kernel(family, name, like)(*shown, **kwargs)
            if name in _ABOUT_SHAPES and all(
                [type(argument) is not PendingArray or argument.device.type == "cpu" for argument in args]
            ):
                shown = [argument.outlined() if type(argument) is PendingArray else argument for argument in args]
                return kernel(family, name, 0)(*shown, **kwargs)
            ready = [_ready(argument) for argument in args]
            first = (array[0] if type(array) is list and array else array for array in ready)
            like = next((array for array in first if arrays.is_array(array)), 0)
            return kernel(family, name, like)(*ready, **kwargs)

        return computed

    def __getattr__(self, name: str) -> Any:
        if name == "everything" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value(), name)

    def __getitem__(self, index: Any) -> Any:
        return self.value()[index]

    def __len__(self) -> int:
        return self.shape[0]


class _Flags:
    """`flags` of an array to come: a batch is memory of its own, in order, and a plan knows. The rest is asked of the value."""

    def __init__(self, array: PendingArray, c_contiguous: bool) -> None:
        self.array, self.c_contiguous = array, c_contiguous

    def __getattr__(self, name: str) -> Any:
        return getattr(_flags_of(self.array.value()), name)


@functools.lru_cache(maxsize=1024)
def _outline(shape: tuple[int, ...], dtype: Any) -> numpy.ndarray:
    """It is read-only, and one number in memory."""
    return numpy.broadcast_to(numpy.zeros((), dtype), shape)


def _ready(value: Any) -> object:
    """A kernel's argument, or a list of them, with arrays in the place of what stands for them."""
    if type(value) is list:
        return [_ready(element) for element in value]
    return value.value() if type(value) is PendingArray else value


def _flags_of(array: Any) -> object:
    """What `flags` of NumPy's arrays say; a GPU's have none, and can be written."""
    if type(array) is not arrays.CudaArray:
        return array.flags
    return SimpleNamespace(c_contiguous=array.is_contiguous, writeable=True)


def _shows_layout(argument: Any) -> bool:
    """Whether it is none that stands for an array, or one that is to lie on a GPU, of which strides are known, too."""
    if type(argument) is not PendingArray:
        return True
    return argument.device.type == "cuda" and hasattr(argument.kind, "strides")


# Questions of kernels that shapes and dtypes answer, and those that layouts do.
_ABOUT_LAYOUTS = {"attends_in_tiles", "attends_ragged", "in_one_pass"}
_ABOUT_SHAPES = {"attends_in_tiles", "attends_ragged", "causal_mask", "pays"}


def _forwarded(name: str) -> Any:
    def method(self: PendingArray, *args: Any) -> Any:
        ready = [argument.value() if type(argument) is PendingArray else argument for argument in args]
        return getattr(self.value(), name)(*ready)

    method.__name__ = name
    return method


for _name in (
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift "
    "radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul lt le gt ge eq ne neg pos abs invert bool int float index"
).split():
    setattr(PendingArray, f"__{_name}__", _forwarded(f"__{_name}__"))
PendingArray.__hash__ = object.__hash__  # type: ignore[method-assign]
arrays.use_backend(PendingArray, "cpu")
