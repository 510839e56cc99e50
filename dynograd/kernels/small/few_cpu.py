"""Reductions of few elements by one call of compiled code, and `entries` for writes; None leaves an array to NumPy, whose bits are the same.

NumPy takes 1 to 3 us for what is done in 0.1, a compiled call 0.3. Compiled kernels come in as soon as Numba is loaded, for whatever it
was, or once a program has made many such calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy

from dynograd.kernels.build.batch_invariance import USES, batch_invariant
from dynograd.kernels.build.compiled_kernels import compiled
from dynograd.kernels.build.kernel_cache import USES as USES_OF_KEPT
from dynograd.kernels.build.kernel_cache import only_kept
from dynograd.kernels.build.sizes import FEW
from dynograd.kernels.small.object_fields import FIELDS

_MOST_SORTED, _MOST_CHOSEN = 64, 1024
_INT64 = numpy.dtype(numpy.int64)
_NONE = numpy.empty(0, numpy.int64)
_empty, _multiply = numpy.empty, numpy.multiply


# --- when compiled code comes in ---------------------------------------------------------------------------------------------

SMALL_CALLS = 2048  # at 1 to 50 us instead of 0.3: loading Numba costs more, and most programs that load it do so in their first step

_NUMBA = "dynograd.kernels.build.compiling_numba"  # loads Numba, whatever it is loaded for
_calls = 0
_left_to_numpy = False


def often_called() -> Mapping[str, Callable[..., Any]] | None:
    """The compiled kernels, once Numba is loaded or after `SMALL_CALLS` calls. Only for kernels that give the bits that NumPy gives."""
    global _calls
    if USES_OF_KEPT.only_kept and only_kept():
        return None
    if _calls < SMALL_CALLS:
        if _left_to_numpy:
            return None
        if _NUMBA not in sys.modules:
            _calls += 1
            return None
        _calls = SMALL_CALLS  # at once: kernels are compiled in the first steps of a program, not in the middle
    return compiled


def leave_few_to_numpy() -> None:
    """From here on calls with few elements stay NumPy's, unless compiled kernels have come in already; a kernel that computes much may load Numba.

    For processes that pad and copy, which Numba would cost 0.5 s and 120 MB each.
    """
    global _left_to_numpy
    _left_to_numpy = True


class _Entries(dict[str, Callable[..., bool]]):
    """`["writes.zero"]` is that `entry` of `writes_numba.py`. It is given arrays by `id`, and says whether it has done the work.

    It never has before Numba is loaded or a program has made many such calls, nor where objects are not what `object_fields` expects.
    """

    def __missing__(self, name: str) -> Callable[..., bool]:
        if FIELDS is None:
            self[name] = _never
        elif often_called() is None:
            return _never
        else:
            kernel = compiled[name]
            self[name] = import_module("dynograd.kernels.small.objects_numba").called_directly(kernel)
        return self[name]


def _never(*arguments: Any) -> bool:
    return False


entries = _Entries()


# --- reductions ---------------------------------------------------------------------------------------------------------------


def sum(input: Any, dim: Any, keepdim: bool) -> Any:
    """Of a matrix or vector, or of everything."""
    if input.dtype.char not in "fdl" or input.size > FEW or not input.flags.c_contiguous:
        return None
    if USES.batch_invariant and batch_invariant():
        return None
    rank = input.ndim
    if dim is not None and rank != 2:
        if rank != 1:
            return None
        dim = None
    if type(dim) is tuple or (kernels := often_called()) is None:
        return None
    if dim is None:
        out = _empty((1,) * rank if keepdim else (), input.dtype)
        kernels["few.total"](input if rank == 1 else input.reshape(-1), out if not keepdim else out.reshape(()))
        return out
    count = input.shape[1 - dim]
    out = _empty(((1, count) if dim == 0 else (count, 1)) if keepdim else (count,), input.dtype)
    kernels["few.totals"](input, dim, out if not keepdim else out.reshape(-1))
    return out


def prod(input: Any, dim: Any, keepdim: bool) -> Any:
    """Of a vector, or of everything."""
    if input.dtype.char not in "fd" or input.size > FEW or keepdim or not input.flags.c_contiguous:
        return None
    if (dim is not None and input.ndim != 1) or (kernels := often_called()) is None:
        return None
    out = _empty((), input.dtype)
    kernels["few.product"](input if input.ndim == 1 else input.reshape(-1), out)
    return out


def any_of(input: Any, value: bool) -> Any:
    """Whether an element of a bool array is `value`."""
    if input.size > FEW or not input.flags.c_contiguous or (kernels := often_called()) is None:
        return None
    return kernels["few.any_of"](input if input.ndim == 1 else input.reshape(-1), value)


def equal(input: Any, other: Any) -> bool | None:
    """Whether shapes and all elements of two arrays are equal."""
    if input.shape != other.shape:
        return False
    if input.dtype is not other.dtype or input.dtype.char not in "fdl" or input.size > FEW:
        return None
    if not (input.flags.c_contiguous and other.flags.c_contiguous) or (kernels := often_called()) is None:
        return None
    if not 0 < input.ndim < 3:
        input, other = input.reshape(-1), other.reshape(-1)
    return kernels["few.equal"](input, other)


def distinct(input: Any) -> Any:
    """The distinct elements in ascending order."""
    if input.dtype.char not in "fdl" or not 0 < input.size <= _MOST_SORTED or not input.flags.c_contiguous:
        return None
    if (kernels := often_called()) is None:
        return None
    out = _empty(input.size, input.dtype)
    count = kernels["few.distinct"](input if input.ndim == 1 else input.reshape(-1), out)
    return out[:count].copy() if count >= 0 else None


def lower_median(input: Any) -> Any:
    """Of all elements; NaN where there is one."""
    if input.dtype.char not in "fdl" or not 0 < input.size <= _MOST_CHOSEN or not input.flags.c_contiguous:
        return None
    if (kernels := often_called()) is None:
        return None
    out = _empty((), input.dtype)
    kernels["few.lower_median"](input if input.ndim == 1 else input.reshape(-1), out)
    return out


def differences(x1: Any, x2: Any) -> Any:
    """Of each row of one matrix and each of another."""
    if x1.dtype.char not in "fd" or not (x1.flags.c_contiguous and x2.flags.c_contiguous):
        return None
    if (kernels := often_called()) is None:
        return None
    out = _empty((len(x1), *x2.shape), x1.dtype)
    kernels["few.differences"](x1, x2, out)
    return out


def outer(x: Any, y: Any) -> Any:
    """The products of each element of a vector with each of another."""
    if x.dtype.char not in "fdl" or not (x.flags.c_contiguous and y.flags.c_contiguous):
        return _multiply(x.reshape(-1, 1), y)
    if (kernels := often_called()) is None:
        return _multiply(x.reshape(-1, 1), y)
    out = _empty((x.size, y.size), x.dtype)
    kernels["few.outer"](x, y, out)
    return out


def cumsum(input: Any, dim: int) -> Any:
    """Of a matrix; float32 in float64, as where it is large."""
    if input.dtype.char not in "fdl" or input.ndim != 2 or not input.flags.c_contiguous:
        return None
    if (kernels := often_called()) is None:
        return None
    out = _empty(input.shape, input.dtype)
    nothing = 0 if input.dtype.char == "l" else -0.0  # -0.0 and x is x, zeros too
    kernels["few.running_sum"](input, dim, nothing, out)
    return out


def top(input: Any, k: int, dim: int, largest: bool) -> Any:
    """(values, places) of the `k` first of each row of a matrix or vector."""
    rank = input.ndim
    if input.dtype.char not in "fdl" or not 0 < k <= 16 or input.size > FEW or rank > 2 or dim != rank - 1:
        return None
    if not input.flags.c_contiguous or (kernels := often_called()) is None:
        return None
    shape = (*input.shape[:-1], k)
    values, places = _empty(shape, input.dtype), _empty(shape, _INT64)
    if rank == 2:
        kernels["few.top"](input, largest, values, places)
    else:
        kernels["few.top"](input.reshape(1, -1), largest, values.reshape(1, k), places.reshape(1, k))
    return values, places


def extremes(input: Any, dim: Any, keepdim: bool, largest: bool, with_places: bool) -> Any:
    """(values, places), or values alone."""
    size, shape, rank = input.size, input.shape, input.ndim
    if input.dtype.char not in "fdl" or not 0 < size <= FEW or not input.flags.c_contiguous or type(dim) is tuple:
        return None
    if (kernels := often_called()) is None:
        return None
    matrix, place = input, dim
    if dim is None or rank == 1:
        left: tuple[int, ...] = ()
        matrix, place = input.reshape(1, -1), 1
    elif rank == 2:
        left = (shape[1 - dim],)
    elif dim == rank - 1:
        left = shape[:-1]
        matrix, place = input.reshape(-1, shape[-1]), 1
    elif dim == 0:
        left = shape[1:]
        matrix = input.reshape(shape[0], -1)
    else:
        return None
    if keepdim:
        left = (1,) * rank if dim is None else (*shape[:dim], 1, *shape[dim + 1 :])
    values, places = _empty(left, input.dtype), _empty(left, _INT64) if with_places else _NONE
    flat, flat_places = (values, places) if len(left) == 1 else (values.reshape(-1), places.reshape(-1))
    kernels["few.extremes"](matrix, place, largest, flat, flat_places)
    return (values, places) if with_places else values
