"""numba-cuda's language, `cuda`. Its releases up to 0.30 do not know NumPy 2.5: they ask for `row_stack`, which it removed, and use what it
deprecates. Both are put right for the time of the import only."""

import contextlib
import warnings
from collections.abc import Iterator

import numpy

__all__ = ["cuda"]


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
    import numba.cuda.np.arrayobj  # noqa: F401 - what a compilation imports
    from numba import cuda
