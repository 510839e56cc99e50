"""Numba kernel that adds rows into the rows an index names, in order, so that results repeat bit for bit."""

from dynograd.kernels.compiling_numba import compiled

__all__ = ["add_rows"]


@compiled
def add_rows(out, indices, rows):
    """out[indices[i]] += rows[i] for each i, first to last; negative indices count from the end."""
    for i in range(indices.size):
        target, row = out[indices[i]], rows[i]
        for j in range(row.size):
            target[j] += row[j]
