"""numba-cuda's language, `cuda`, and what emulates it. Its releases up to 0.30 do not know NumPy 2.5: they ask for `row_stack`, which it removed, and use what it
deprecates. Both are put right for the time of the import only."""

import contextlib
import warnings
from collections.abc import Iterator

import numpy

__all__ = ["cuda", "numpy_support", "simulator", "types"]


@contextlib.contextmanager
def _as_numpy_was() -> Iterator[None]:
    missing = not hasattr(numpy, "row_stack")
    if missing:
        numpy.row_stack = numpy.vstack
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if missing:
            del numpy.row_stack


with _as_numpy_was():
    from numba import cuda
    from numba.cuda import simulator, types
    from numba.cuda.np import numpy_support
