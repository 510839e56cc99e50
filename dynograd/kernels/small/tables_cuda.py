"""Many arrays of a GPU handled by one launch: tables of their addresses in its memory, and what needs nothing more.

A table is kept and used again for arrays of the same sizes; when their addresses have changed since, these are copied anew, in the order
of the stream. Nothing waits.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.cuda import allocator, driver, streams
from dynograd.cuda.thread_state import current
from dynograd.kernels.build.launch_arguments_cuda import Double

COLUMNS, ADDRESSES, SIZE, NEW = 8, 6, 6, 7
_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps
_KEPT = 64  # at a time: those of the parameters of some models
_plain_kinds = frozenset(["float32", "float64", "float16", "bfloat16"])
_tables: dict[tuple[Any, ...], Table] = {}
allocator.forgetters.append(_tables.clear)


class Table:
    """The addresses of arrays of one dtype and what belongs to them, on their device.

    Args:
        columns: lists of as many arrays (or None for an address of 0).
        sizes: elements of each row's arrays.
    """

    __slots__ = (
        "aligned",
        "block",
        "blocks",
        "captured",
        "constants",
        "count",
        "device",
        "host",
        "kind",
        "places",
        "pointers",
        "rows",
    )

    def __init__(self, kind: Any, device: int, columns: list[list[Any]], sizes: list[int]) -> None:
        self.kind, self.device, self.count = kind, device, len(sizes)
        self.block = _block_of(max(sizes, default=1))
        self.host = numpy.zeros((self.count, COLUMNS), numpy.int64)
        for place, column in enumerate(columns):
            self.host[:, place] = [0 if array is None else array.pointer for array in column]
        self.host[:, SIZE] = sizes
        self.pointers = self.host[:, 0].tolist()
        each = -(-self.host[:, SIZE] // self.block)
        self.blocks = int(each.sum())
        places = numpy.zeros((self.blocks, 2), numpy.int32)
        places[:, 0] = numpy.repeat(numpy.arange(self.count), each)
        places[:, 1] = numpy.arange(self.blocks) - numpy.repeat(numpy.cumsum(each) - each, each)
        self.places = cuda_arrays.from_numpy(places, device)
        self.constants: dict[str, Any] = {}
        self.send()

    def send(self) -> None:
        """Copies the rows to the device, after they were changed."""
        self.captured = self.device in current.captures
        self.rows = cuda_arrays.from_numpy(self.host, self.device)
        self.aligned = not bool((self.host[:, :ADDRESSES] & 15).any())
        self.constants = {"T": kinds_of(self.kind)[0], "ALIGNED": self.aligned, "BLOCK": self.block}

    def is_only_of_a_graph(self) -> bool:
        """Whether the rows were copied by a capture: they are there when its graph has run, so others need their own."""
        return self.captured and self.device not in current.captures


def _block_of(largest: int) -> int:
    if driver.is_emulated():  # programs run one by one
        return max(16, min(1 << 14, 1 << max(largest - 1, 1).bit_length()))
    return _BLOCK


def kinds_of(kind: Any) -> tuple[Any, Any, Any]:
    """Triton's type of a dtype, the dtype that sums have, and what makes a number an argument of that type."""
    import triton.language as tl

    if kind.itemsize == 8:
        return tl.float64, numpy.dtype(numpy.float64), Double
    return getattr(tl, kind.name), numpy.dtype(numpy.float32), float


def is_plain(array: Any) -> bool:
    """Whether tables take it: a floating dtype, row-major."""
    return type(array) is CudaArray and array.dtype.name in _plain_kinds and array.is_contiguous


def sum_of_squares(arrays: list[Any]) -> Any:
    """Of all elements of all arrays, as a float64 array of no dims, on the device; always in the same order."""
    from dynograd.kernels.small.tables_triton import square_blocks, total_of

    totals = []
    for table in _in_tables(_real(arrays)):
        sums = cuda_arrays.empty((table.blocks,), kinds_of(table.kind)[1], table.device)
        total = cuda_arrays.empty((), numpy.dtype(numpy.float64), table.device)
        square_blocks((table.blocks,), table.rows, table.places, sums, **table.constants)
        total_of((1,), sums, total, table.blocks, BLOCK=4096, num_warps=8)
        totals.append(total)
    result = totals[0]
    for other in totals[1:]:
        result = result + operations.on_device(other, result.device_index)
    return result


def scale(arrays: list[Any], factor: Any) -> None:
    """Multiplies in place; a factor on the device (a float32 array of no dims) only where it is below 1, as clipping wants it."""
    from dynograd.kernels.small.tables_triton import scale_blocks

    for table in _in_tables(_real(arrays), written=True):
        number = kinds_of(table.kind)[2]
        value = operations.on_device(factor, table.device) if type(factor) is CudaArray else number(factor)
        scale_blocks(
            (table.blocks,), table.rows, table.places, value, LEAST=type(factor) is CudaArray, **table.constants
        )


def bound(arrays: list[Any], least: float, most: float) -> None:
    """Moves elements outside [least, most] to the nearer bound, in place; NaN stays."""
    from dynograd.kernels.small.tables_triton import bound_blocks

    for table in _in_tables(arrays, written=True):
        number = kinds_of(table.kind)[2]
        bound_blocks((table.blocks,), table.rows, table.places, number(least), number(most), **table.constants)


def fill(arrays: list[Any], value: float) -> None:
    """Writes `value` everywhere."""
    from dynograd.kernels.small.tables_triton import fill_blocks

    plain = [array for array in arrays if is_plain(array)]
    for array in arrays:
        if not is_plain(array):
            array.fill(value)
    for table in _in_tables(plain):
        fill_blocks((table.blocks,), table.rows, table.places, kinds_of(table.kind)[2](value), **table.constants)


def unscale(arrays: list[Any], inverse: Any, overflow: Any) -> None:
    """Multiplies in place by the number in `inverse`, and writes 1 into `overflow` when an element is not finite; no waiting."""
    from dynograd.kernels.small.tables_triton import unscale_blocks

    for table in _in_tables(_real(arrays), written=True):
        unscale_blocks((table.blocks,), table.rows, table.places, inverse, overflow, **table.constants)


def update_scale(scale: Any, tracker: Any, overflow: Any, growth: float, backoff: float, interval: int) -> None:
    """The scale after a step, in place, without waiting; see `tables_cpu.update_scale`."""
    from dynograd.kernels.small import tables_triton

    tables_triton.update_scale(
        (1,), scale, tracker, overflow, float(growth), float(backoff), int(interval), num_warps=1
    )


def _in_tables(arrays: list[Any], written: bool = False) -> Any:
    """A table for each dtype and device. What is not row-major takes part as a copy, which is written back."""
    groups: dict[tuple[Any, int], list[Any]] = {}
    copies = []
    for array in arrays:
        if array.size == 0:
            continue
        if array.dtype.name not in _plain_kinds:
            raise TypeError(f"gradients on a GPU are floating-point numbers here, got {array.dtype}; x.cpu() works")
        if not array.is_contiguous:
            whole = array.copy()
            copies.append((array, whole))
            array = whole
        groups.setdefault((array.dtype, array.device_index), []).append(array)
    for (kind, device), members in groups.items():
        yield _table_of(kind, device, members)
    if written:
        for array, whole in copies:
            operations.copy_into(array, whole)


def _table_of(kind: Any, device: int, members: list[Any]) -> Table:
    """The table of arrays of these sizes, with their addresses."""
    sizes = [member.layout.size for member in members]
    key = (kind.name, device, streams.current_handle(device), *sizes)
    table = _tables.pop(key, None)
    if table is None:
        table = Table(kind, device, [members], sizes)
        while len(_tables) >= _KEPT:
            del _tables[next(iter(_tables))]
    else:
        pointers = [member.pointer for member in members]
        if pointers != table.pointers or table.is_only_of_a_graph():
            table.pointers = pointers
            table.host[:, 0] = pointers
            table.send()
    _tables[key] = table  # the last used is last
    return table


def _real(arrays: list[Any]) -> list[Any]:
    return [part for array in arrays for part in ((array.real, array.imag) if array.dtype.kind == "c" else (array,))]
