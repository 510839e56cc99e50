"""numba-cuda's language, `cuda`, and what emulates it.

numba-cuda's releases up to 0.30 do not know NumPy 2.5: they ask for `row_stack`, which it removed, and use what it deprecates. Both are
put right for the time of the import only.
"""

import contextlib
import warnings
from collections.abc import Iterator
from importlib import import_module

import numpy

__all__ = ["cuda", "kernelapi", "numpy_support", "simulated_kernel", "types"]


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
    import_module("numba.cuda.np.arrayobj")  # a compilation would import it
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.np import numpy_support
    from numba.cuda.simulator import kernel as simulated_kernel
    from numba.cuda.simulator import kernelapi
