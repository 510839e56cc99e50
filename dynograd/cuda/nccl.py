"""`torch.cuda.nccl`: whether NCCL is there (nccl4py, the extra `nccl`), and which version of it."""

from __future__ import annotations

import importlib.util
from typing import Any

__all__ = ["is_available", "version"]


def is_available(tensors: Any = ()) -> bool:
    """Whether NCCL is installed, and these tensors are all on GPUs.

    Args:
        tensors: a list of tensors.
    Returns:
        True or False.

    >>> dynograd.cuda.nccl.is_available([tensor([1.0])])
    False
    """
    return importlib.util.find_spec("nccl") is not None and all(tensor.is_cuda for tensor in tensors)


def version() -> tuple[int, ...]:
    """The version of the NCCL library; (0, 0, 0), below every version that a program may want, where there is none.

    Returns:
        A tuple of three numbers.

    >>> len(dynograd.cuda.nccl.version())
    3
    """
    if importlib.util.find_spec("nccl") is None:
        return 0, 0, 0
    from nccl import core

    library = core.get_version().libnccl
    return (0, 0, 0) if library is None else tuple(library.version.release)
