"""Many small arrays as one flat array, and back, so that one pass of a kernel does for all of them."""

from __future__ import annotations

import numpy as np

__all__ = ["pack", "unpack"]


def pack(pieces, flat):
    """Writes the elements of all `pieces`, one after another, into `flat`, which has exactly their number."""
    np.concatenate([piece.reshape(-1) for piece in pieces], out=flat)


def unpack(views, pieces):
    """Writes each of `views` into the array of `pieces` that has its shape."""
    for view, piece in zip(views, pieces):
        piece[...] = view
