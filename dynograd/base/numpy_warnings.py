"""NumPy warns where PyTorch silently gives inf or NaN: of its warnings, those of dynograd's own calls are dropped."""

from __future__ import annotations

import warnings

__all__ = ["drop"]


def drop() -> None:
    """Filters them out, until somebody gives the filters back that there were before.

    >>> dynograd.base.numpy_warnings.drop()
    """
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"dynograd(\.|$)")
