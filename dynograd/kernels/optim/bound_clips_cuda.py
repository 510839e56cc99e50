"""Clipping of gradients that stay where they are to a common norm, as launches for a CUDA graph, which read the limit from the device's memory."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.base import dtypes
from dynograd.cuda import copies
from dynograd.kernels.small.tables_cuda import ADDRESSES, Table, is_plain, kinds_of

__all__ = ["BoundClip"]


class BoundClip:
    """What `clip_grad_norm_` does. `point` and `launch` may be captured; `send_rows` comes behind that, `write_limit` before each start.

    Args:
        gradients: of one dtype; others, laid out alike, may come in their place.
    Raises:
        ValueError: they are not of one dtype, row-major and floating.
    """

    def __init__(self, gradients: list[CudaArray]) -> None:
        first = gradients[0]
        if not all([is_plain(gradient) and gradient.dtype == first.dtype for gradient in gradients]):
            raise ValueError("gradients that one table does not take")
        self.layouts = [gradient.layout for gradient in gradients]
        self.table = Table(first.dtype, first.device_index, [gradients], [gradient.size for gradient in gradients])
        self._limit = numpy.full((1,), numpy.nan)
        self.limit = cuda_arrays.empty((), numpy.dtype(numpy.float64), first.device_index)
        self.norm: Any = None  # of the latest launch, in float64

    def point(self, gradients: list[CudaArray]) -> None:
        """From now on it clips these.

        Raises:
            ValueError: one is laid out otherwise.
        """
        if [gradient.layout for gradient in gradients] != self.layouts:
            raise ValueError("a gradient of another layout than before")
        table = self.table
        table.host[:, 0] = [gradient.pointer for gradient in gradients]
        table.constants["ALIGNED"] = not bool((table.host[:, :ADDRESSES] & 15).any())

    def send_rows(self) -> None:
        """Tells the device where they are."""
        host = self.table.host
        copies.from_host(self.table.rows.pointer, host.ctypes.data, host.nbytes, self.table.device)

    def write_limit(self, limit: float) -> None:
        """The largest norm."""
        if self._limit[0] != limit:
            self._limit[0] = limit
            copies.from_host(self.limit.pointer, self._limit.ctypes.data, 8, self.table.device)

    def launch(self) -> None:
        """Clips them."""
        from dynograd.kernels.small.tables_triton import scale_blocks, square_blocks, total_of

        table = self.table
        sums = cuda_arrays.empty((table.blocks,), kinds_of(table.kind)[1], table.device)
        total = cuda_arrays.empty((), numpy.dtype(numpy.float64), table.device)
        square_blocks((table.blocks,), table.rows, table.places, sums, **table.constants)
        total_of((1,), sums, total, table.blocks, BLOCK=4096, num_warps=8)
        self.norm = total**0.5
        factor = arrays.cast(self.limit / (self.norm + 1e-6), dtypes.float32)
        scale_blocks((table.blocks,), table.rows, table.places, factor, LEAST=True, **table.constants)
