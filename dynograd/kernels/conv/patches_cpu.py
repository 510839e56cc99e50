"""Windows of images as columns, and columns added back into images, on NumPy arrays."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided


def columns_of_patches(x, kernel, dilation, padding, stride):
    """(N, C, H, W) to (N, C * kernel places, windows): each column is a window."""
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    counts = counts_of(x.shape[2:], kernel, dilation, padding, stride)
    windows = windows_of(padded, kernel, dilation, counts, stride)
    return windows.reshape(x.shape[0], x.shape[1] * kernel[0] * kernel[1], counts[0] * counts[1])


def patches_of_columns(columns, sizes, kernel, dilation, padding, stride):
    """The transpose: (N, C * kernel places, windows) added into (N, C, *sizes)."""
    kind = columns.dtype
    wide = columns.astype(np.float32) if kind.itemsize == 2 else columns
    counts = counts_of(sizes, kernel, dilation, padding, stride)
    batch, channels = columns.shape[0], columns.shape[1] // (kernel[0] * kernel[1])
    wide = wide.reshape(batch, channels, *kernel, *counts)
    padded = np.zeros((batch, channels, sizes[0] + 2 * padding[0], sizes[1] + 2 * padding[1]), wide.dtype)
    windows = windows_of(padded, kernel, dilation, counts, stride)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            windows[:, :, row, column] += wide[:, :, row, column]
    inner = padded[:, :, padding[0] : padding[0] + sizes[0], padding[1] : padding[1] + sizes[1]]
    return np.ascontiguousarray(inner).astype(kind, copy=False)


def windows_of(padded, kernel, dilation, counts, stride):
    """(N, C, *kernel, *counts): a view of padded images, in which places of several windows are there several times."""
    step_n, step_c, step_h, step_w = padded.strides
    along = (step_h * dilation[0], step_w * dilation[1], step_h * stride[0], step_w * stride[1])
    return as_strided(padded, (*padded.shape[:2], *kernel, *counts), (step_n, step_c, *along))


def counts_of(sizes, kernel, dilation, padding, stride):
    """How many windows there are along each of the dims."""
    return [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
