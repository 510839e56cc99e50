"""`Tensor`, how it is made, written to, printed and differentiated, and what users ask of it.

The class is in `tensor.py`; `dynograd.tensor`, the function that makes tensors, is in `creation.py`.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """What pickles of tensors name; this was one file once."""
    if name in ("Tensor", "is_tensor", "_rebuild"):
        return getattr(import_module("dynograd.tensor.tensor"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
