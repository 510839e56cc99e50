"""Numba kernels that pick, write and add along the middle dim of (A, N, C) arrays; `scatters_cpu` chooses them for large ones."""

from dynograd.kernels.compiling_numba import compiled

__all__ = ["add_along", "pick_along", "write_along"]


@compiled
def pick_along(x, index, out):
    """out[a, m, c] = x[a, index[a, m, c], c]."""
    outer, count, inner = index.shape
    if inner == 1:
        for a in range(outer):
            row, places, target = x[a, :, 0], index[a, :, 0], out[a, :, 0]
            for m in range(count):
                target[m] = row[places[m]]
        return
    for a in range(outer):
        for m in range(count):
            places, target = index[a, m], out[a, m]
            for c in range(inner):
                target[c] = x[a, places[c], c]


@compiled
def write_along(out, index, src):
    """out[a, index[a, m, c], c] = src[a, m, c], first to last."""
    outer, count, inner = index.shape
    if inner == 1:
        for a in range(outer):
            row, places, source = out[a, :, 0], index[a, :, 0], src[a, :, 0]
            for m in range(count):
                row[places[m]] = source[m]
        return
    for a in range(outer):
        for m in range(count):
            places, source = index[a, m], src[a, m]
            for c in range(inner):
                out[a, places[c], c] = source[c]


@compiled
def add_along(out, index, src):
    """out[a, index[a, m, c], c] += src[a, m, c], first to last."""
    outer, count, inner = index.shape
    if inner == 1:
        for a in range(outer):
            row, places, source = out[a, :, 0], index[a, :, 0], src[a, :, 0]
            for m in range(count):
                row[places[m]] += source[m]
        return
    for a in range(outer):
        for m in range(count):
            places, source = index[a, m], src[a, m]
            for c in range(inner):
                out[a, places[c], c] += source[c]
