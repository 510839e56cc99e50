"""How optimizers lay arrays out: many small ones as one flat array, so that one pass of a kernel does for all; complex ones as real."""

from __future__ import annotations

import numpy as np

__all__ = ["pack", "real_view", "unpack"]


def pack(pieces, flat):
    """Writes the elements of all `pieces`, one after another, into `flat`, which has exactly their number."""
    np.concatenate([piece.reshape(-1) for piece in pieces], out=flat)


def unpack(views, pieces):
    """Writes each of `views` into the array of `pieces` that has its shape."""
    for view, piece in zip(views, pieces):
        piece[...] = view


def real_view(x):
    """A complex array's memory as (..., 2) numbers, real part and imaginary part."""
    return x[..., None].view(x.real.dtype)
