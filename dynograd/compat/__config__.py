"""`torch.__config__`: how this build was made, as text."""

from __future__ import annotations

import sys

from dynograd.kernels.build import blas, processors, threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What a report of a fault should hold, in a few lines; `python -m dynograd info` says more.

    >>> print(dynograd.__config__.show())
    dynograd ...
      - kernels for ...
    """
    library = blas.library()
    lines = [
        f"kernels for {processors.processor().name}",
        f"matrix products by {library.path if library else 'dynograd'}",
        "no CUDA in the build",
    ]
    return "\n".join([f"dynograd {sys.modules['dynograd'].__version__}", *[f"  - {line}" for line in lines], ""])


def parallel_info() -> str:
    """How many threads kernels use.

    >>> print(dynograd.__config__.parallel_info())
    threads: ...
    """
    return f"threads: {threads.get_num_threads()}\n"
