"""`import torch` means dynograd, in this process and in those that it starts.

    import dynograd.as_torch  # before anything that imports torch

    import torch, transformers

The same is done by `python -m dynograd SCRIPT` (`-m MODULE`, `-c TEXT`), by `pytest -p dynograd.as_torch`, and by the small distribution that
`python -m dynograd make-torch-shim` writes. PyTorch need not be installed; where it is, it is left alone. What a program asked for and did not
get is in `report()`.

>>> import dynograd.as_torch
>>> import torch
>>> torch.__version__ == dynograd.__version__, torch.nn is dynograd.nn
(True, True)
"""

from __future__ import annotations

from dynograd.as_torch.finder import install, module
from dynograd.as_torch.touched import Report, report

__all__ = ["Report", "install", "module", "report"]

install()
