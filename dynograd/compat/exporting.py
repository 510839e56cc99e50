"""Whether the thread is recording a program that leaves Python: what `torch.compiler` tells models that then leave checks of values out."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["is_compiling", "is_exporting", "is_in_onnx_export", "while_exporting"]


class _OfThread(threading.local):
    depth = 0
    depth_onnx = 0  # of those, how many record for ONNX


_of_thread = _OfThread()


class while_exporting:
    """Inside, in this thread, a program is recorded by `dynograd.export` or, where `to_onnx`, by `dynograd.onnx.export`."""

    def __init__(self, to_onnx: bool = False) -> None:
        self.to_onnx = to_onnx

    def __enter__(self) -> None:
        _of_thread.depth += 1
        _of_thread.depth_onnx += self.to_onnx

    def __exit__(self, *error: Any) -> None:
        _of_thread.depth -= 1
        _of_thread.depth_onnx -= self.to_onnx


def is_exporting() -> bool:
    """Whether `dynograd.export` or `dynograd.onnx.export` is recording the program that asks.

    Returns:
        True or False.

    >>> dynograd.compiler.is_exporting()
    False
    """
    return _of_thread.depth > 0


def is_compiling() -> bool:
    """As `is_exporting`; a program under `compile` runs as the Python that it is, and is told False.

    Returns:
        True or False.

    >>> dynograd.compiler.is_compiling()
    False
    """
    return is_exporting()


def is_in_onnx_export() -> bool:
    """Whether `dynograd.onnx.export` is recording the program that asks.

    Returns:
        True or False.

    >>> dynograd.onnx.is_in_onnx_export()
    False
    """
    return _of_thread.depth_onnx > 0
