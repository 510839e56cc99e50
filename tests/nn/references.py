"""Slow and obvious NumPy: convolutions, windows, padding and resampling for the rows of layers."""

from __future__ import annotations

import itertools

import numpy

__all__ = ["np_conv", "np_conv_transpose", "np_pool", "np_windows"]


def pairs(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def np_conv(x, w, b, stride=1, padding=0, dilation=1, groups=1, mode="constant"):
    """Cross-correlation of (N, C, *) with (O, C / groups, *)."""
    rank = x.ndim - 2
    stride, dilation = pairs(stride, rank), pairs(dilation, rank)
    sides = [(p, p) if isinstance(p, int) else p for p in pairs(padding, rank)]
    x = numpy.pad(x, [(0, 0), (0, 0), *sides], mode=mode)
    sizes = [
        (length - step * (kernel - 1) - 1) // stride_ + 1
        for length, kernel, stride_, step in zip(x.shape[2:], w.shape[2:], stride, dilation)
    ]
    out = numpy.zeros((len(x), len(w), *sizes))
    for place in itertools.product(*map(range, sizes)):
        window = x[
            (
                slice(None),
                slice(None),
                *[slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(place, stride, dilation, w.shape[2:])],
            )
        ]
        for channel in range(len(w)):
            group = channel // (len(w) // groups)
            inner = slice(group * w.shape[1], (group + 1) * w.shape[1])
            out[(slice(None), channel, *place)] = (window[:, inner] * w[channel]).reshape(len(x), -1).sum(1)
    return out if b is None else out + b.reshape(-1, *[1] * rank)


def np_conv_transpose(x, w, b, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Every input element adds its multiple of the kernel (C, O / groups, *) to the output."""
    rank = x.ndim - 2
    stride, padding, extra, dilation = (pairs(value, rank) for value in (stride, padding, output_padding, dilation))
    kernel = w.shape[2:]
    full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(x.shape[2:], stride, dilation, kernel, extra)]
    outer = w.shape[1]
    out = numpy.zeros((len(x), outer * groups, *full))
    for channel in range(x.shape[1]):
        group = channel // (x.shape[1] // groups)
        for place in itertools.product(*map(range, x.shape[2:])):
            block = tuple(
                slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(place, stride, dilation, kernel)
            )
            value = x[(slice(None), channel, *place)].reshape(-1, *[1] * (rank + 1))
            out[(slice(None), slice(group * outer, (group + 1) * outer), *block)] += value * w[channel]
    out = out[(..., *[slice(p, size - p) for p, size in zip(padding, full)])]
    return out if b is None else out + b.reshape(-1, *[1] * rank)


def np_windows(x, kernel, stride=None, padding=0, fill=0.0, dilation=1):
    """The windows of (N, C, *) as the last dim, the places where they stand before it."""
    rank = x.ndim - 2
    kernel, dilation = pairs(kernel, rank), pairs(dilation, rank)
    stride = kernel if stride is None else pairs(stride, rank)
    x = numpy.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pairs(padding, rank)]], constant_values=fill)
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    out = numpy.empty((*x.shape[:2], *sizes, int(numpy.prod(kernel))))
    for place in itertools.product(*map(range, sizes)):
        window = tuple(slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(place, stride, dilation, kernel))
        out[(slice(None), slice(None), *place)] = x[(..., *window)].reshape(*x.shape[:2], -1)
    return out


def np_pool(x, size, reduce):
    """`reduce` over as many windows as `size`: window i of n reaches from floor(i L / n) to ceil((i + 1) L / n)."""
    size = pairs(size, x.ndim - 2)
    out = numpy.empty((*x.shape[:2], *size))
    for place in itertools.product(*map(range, size)):
        window = tuple(slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(place, x.shape[2:], size))
        out[(slice(None), slice(None), *place)] = reduce(x[(..., *window)].reshape(*x.shape[:2], -1), -1)
    return out
