"""What each class number counts in a loss, where a plan computes it."""

from dynograd.kernels.build.compiling_numba import chunked


@chunked
def shares(labels, weight, ignored, g, divides, total, out, start, stop):
    """total[0] = the weights of the labels that count, summed; out[r] = g[0], divided by that where `divides`. One item."""
    for _ in range(start, stop):
        whole = 0.0
        for r in range(labels.size):
            if labels[r] != ignored:
                whole += weight[labels[r]]
        total[0] = whole
        share = g[0] / whole if divides else g[0]
        for r in range(out.size):
            out[r] = share
