"""The packages of the extra `onnx`, which are imported where they are first used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

__all__ = ["EXTERNAL_ABOVE", "ModelProto", "onnx_package"]

ModelProto = Any  # onnx.ModelProto
EXTERNAL_ABOVE = 1 << 30  # bytes of weights; a protobuf holds 2 GiB at most


def onnx_package(name: str, user: str) -> ModuleType:
    """A package of the extra `onnx`.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{user} needs {name}, which is not installed: pip install 'dynograd[onnx]'.") from error
