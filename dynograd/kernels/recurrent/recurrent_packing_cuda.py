"""Where the tokens of packed sequences lie, twin of `recurrent_packing_cpu`.

How many steps and tokens there are depends on the lengths, so these wait for the device once and count on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, from_numpy
from dynograd.kernels.recurrent import recurrent_packing_cpu as host


def sizes_of(lengths: Any) -> Any:
    """(T) sizes of the steps of sequences with such lengths, longest first; lengths of 0 are allowed."""
    return _on_host(host.sizes_of, lengths)


def lengths_of(sizes: Any) -> Any:
    """(B) lengths, longest first: the inverse of `sizes_of`."""
    return _on_host(host.lengths_of, sizes)


def longest_first(lengths: Any) -> Any:
    """(B) numbers of the sequences, longest first; ties in their own order."""
    return _on_host(host.longest_first, lengths)


def places(sizes: Any, order: Any, steps: int, batch: int, batch_first: bool) -> Any:
    known = None if order is None else _known(order)
    return _on_host(lambda array: host.places(array, known, steps, batch, batch_first), sizes)


def ragged_places(lengths: Any) -> tuple[Any, ...]:
    ragged_places = host.ragged_places(_known(lengths))
    index = lengths.device_index if isinstance(lengths, CudaArray) else None
    return tuple([array if index is None else from_numpy(array, index) for array in ragged_places])


def _on_host(function: Callable[[Any], Any], array: CudaArray) -> CudaArray:
    return from_numpy(numpy.ascontiguousarray(function(_known(array)), numpy.int64), array.device_index)


def _known(array: Any) -> Any:
    return array.numpy() if isinstance(array, CudaArray) else array
