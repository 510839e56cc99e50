"""Numba kernel of resampling: a sparse matrix along the middle dim of (outer, size, inner) arrays."""

from dynograd.kernels.compiling_numba import compiled

__all__ = ["weighted_sums"]


@compiled
def weighted_sums(x, starts, places, weights, out):
    """out[:, i] = sum of weights[t] * x[:, places[t]] over the t from starts[i] to starts[i + 1]."""
    outer, size, inner = x.shape[0], out.shape[1], x.shape[2]
    for o in range(outer):
        for i in range(size):
            if inner == 1:
                total = x.dtype.type(0)
                for t in range(starts[i], starts[i + 1]):
                    total += weights[t] * x[o, places[t], 0]
                out[o, i, 0] = total
            else:
                row = out[o, i]
                row[:] = 0
                for t in range(starts[i], starts[i + 1]):
                    weight, source = weights[t], x[o, places[t]]
                    for j in range(inner):
                        row[j] += weight * source[j]
