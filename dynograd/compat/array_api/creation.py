"""The standard's functions that make tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.compat.array_api.table import ops
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = [
    *"arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu".split(),
    *"zeros zeros_like".split(),
]


def asarray(obj: object, /, *, dtype: DtypeLike = None, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """`obj` as a tensor: a tensor, a NumPy array or other buffer, a number or nested lists.

    Memory is shared where that is possible, unless `copy=True`; with `copy=False` it must be.

    Args:
        obj: what to convert.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
        copy: True always copies, False never, None where it must.
    Returns:
        A tensor.
    Raises:
        ValueError: `copy=False` and a copy is needed.

    >>> xp.asarray([1, 2], dtype=xp.uint16)
    tensor([1, 2], dtype=dynograd.uint16)
    """
    if device is None and isinstance(obj, Tensor):
        device = obj.device
    return creation.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Tensor, /, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """The array of another library as a tensor, by DLPack; memory is shared unless `copy=True` or another device is asked for.

    Args:
        x: a tensor.
        device: where it lies; the default device unless given.
        copy: True always copies, False never, None where it must.
    Returns:
        A tensor.

    >>> xp.from_dlpack(tensor([1, 2]))
    tensor([1, 2])
    """
    return creation.from_dlpack(x, device=device, copy=copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DtypeLike = None, device: DeviceLike = None
) -> Tensor:
    """`start`, `start + step`, ... up to but without `stop` (one argument: 0 to it); empty where `stop` lies the other way.

    Args:
        start, stop: the bounds; one of them is `stop`.
        step: the distance; may be negative.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.arange(5, 2)
    tensor([], dtype=dynograd.int64)
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None and any([isinstance(bound, float) for bound in (start, stop, step)]):
        dtype = dtypes.get_default_dtype()
    if (stop - start) * step < 0:
        stop = start
    return creation.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, which is left out with `endpoint=False`.

    Args:
        start, stop: the bounds.
        num: how many numbers.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
        endpoint: whether `stop` is one of them.
    Returns:
        A tensor.

    >>> xp.linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    parts = [bound for bound in (start, stop) if isinstance(bound, complex)]
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.default_complex() if parts else None
    if kind is not None and kind.is_complex:
        start, stop, real = complex(start), complex(stop), kind.to_real()
        steps = [(start.real, stop.real), (start.imag, stop.imag)]
        return ops.complex(*[linspace(a, b, num, dtype=real, device=device, endpoint=endpoint) for a, b in steps])
    points: Any = creation.linspace(start, stop, num + (not endpoint and num > 0), dtype=kind, device=device)
    return points if endpoint else ops.clone(points[:num])


def full(
    shape: int | Sequence[int], fill_value: complex, *, dtype: DtypeLike = None, device: DeviceLike = None
) -> Tensor:
    """A tensor of `fill_value`, by default in the dtype that the number stands for.

    Args:
        shape: an int or a tuple.
        fill_value: a number.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.full(2, 7)
    tensor([7, 7])
    """
    return creation.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty(shape: int | Sequence[int], *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """A tensor of whatever was in memory.

    Args:
        shape: an int or a tuple.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.empty((2, 3)).shape
    dynograd.Size([2, 3])
    """
    return creation.empty(_shape(shape), dtype=dtype, device=device)


def ones(shape: int | Sequence[int], *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """A tensor of ones.

    Args:
        shape: an int or a tuple.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.ones(2)
    tensor([1., 1.])
    """
    return creation.ones(_shape(shape), dtype=dtype, device=device)


def zeros(shape: int | Sequence[int], *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """A tensor of zeros.

    Args:
        shape: an int or a tuple.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.zeros(2, dtype=xp.uint8)
    tensor([0, 0], dtype=dynograd.uint8)
    """
    return creation.zeros(_shape(shape), dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: complex, *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """`fill_value` in the shape of `x`, and in its dtype and on its device unless given.

    Args:
        x: a tensor.
        fill_value: a number.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor of the shape of `x`.

    >>> xp.full_like(xp.asarray([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    return creation.full_like(x, fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """Unset memory in the shape of `x`.

    Args:
        x: a tensor.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor of the shape of `x`.

    >>> xp.empty_like(xp.asarray([1.0, 2.0])).shape
    dynograd.Size([2])
    """
    return creation.empty_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """Ones in the shape of `x`.

    Args:
        x: a tensor.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor of the shape of `x`.

    >>> xp.ones_like(xp.asarray([1, 2]))
    tensor([1, 1])
    """
    return creation.ones_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """Zeros in the shape of `x`.

    Args:
        x: a tensor.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor of the shape of `x`.

    >>> xp.zeros_like(xp.asarray([1, 2]))
    tensor([0, 0])
    """
    return creation.zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DtypeLike = None, device: DeviceLike = None
) -> Tensor:
    """Ones on the `k`-th diagonal (above the main one for positive `k`), zeros elsewhere.

    Args:
        n_rows, n_cols: the sizes; `n_cols` is `n_rows` unless given.
        k: which diagonal; 0 is the main one.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    n_cols = n_rows if n_cols is None else n_cols
    if k == 0:
        return creation.eye(n_rows, n_cols, dtype=dtype, device=device)
    matrix = creation.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        ops.diagonal(matrix, k).fill_(1)
    return matrix


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices of `x` with zeros above the `k`-th diagonal.

    Args:
        x: a tensor.
        k: which diagonal; 0 is the main one.
    Returns:
        The shape of `x`.

    >>> xp.tril(xp.asarray([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    return ops.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices of `x` with zeros below the `k`-th diagonal.

    Args:
        x: a tensor.
        k: which diagonal; 0 is the main one.
    Returns:
        The shape of `x`.

    >>> xp.triu(xp.asarray([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    return ops.triu(x, k)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The grids on which each of 1-d tensors varies along its own dim; with "xy" the first two dims are exchanged.

    Args:
        arrays: tensors.
        indexing: "xy" or "ij".
    Returns:
        A list of tensors.

    >>> [grid.shape for grid in xp.meshgrid(xp.arange(2), xp.arange(3))]
    [dynograd.Size([3, 2]), dynograd.Size([3, 2])]
    """
    return list(ops.meshgrid(*[ops.reshape(array, (-1,)) for array in arrays], indexing=indexing)) if arrays else []


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
