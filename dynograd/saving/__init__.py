"""Files of weights: safetensors, checkpoints of several files, those of PyTorch, NumPy and llama.cpp. Nothing is ever unpickled."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynograd.saving.folders import ModelFolder, load_folder, save_folder
    from dynograd.saving.gguf_files import GGUF, load_gguf

__all__ = ["GGUF", "ModelFolder", "load_folder", "load_gguf", "save_folder"]

_HOMES = {"GGUF": "gguf_files", "load_gguf": "gguf_files"}
_HOMES |= dict.fromkeys(("ModelFolder", "load_folder", "save_folder"), "folders")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
