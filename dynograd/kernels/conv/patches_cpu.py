"""Windows of images as columns, and columns added back into images, on NumPy arrays."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided


def columns_of_patches(x, kernel, dilation, padding, stride):
    """(N, C, H, W) to (N, C * kernel places, windows): each column is a window."""
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    counts = _counts(x.shape[2:], kernel, dilation, padding, stride)
    step_n, step_c, step_h, step_w = padded.strides
    along = (step_h * dilation[0], step_w * dilation[1], step_h * stride[0], step_w * stride[1])
    windows = as_strided(padded, (*x.shape[:2], *kernel, *counts), (step_n, step_c, *along), writeable=False)
    return windows.reshape(x.shape[0], x.shape[1] * kernel[0] * kernel[1], counts[0] * counts[1])


def patches_of_columns(columns, sizes, kernel, dilation, padding, stride):
    """The transpose: (N, C * kernel places, windows) added into (N, C, *sizes)."""
    kind = columns.dtype
    wide = columns.astype(np.float32) if kind.itemsize == 2 else columns
    counts = _counts(sizes, kernel, dilation, padding, stride)
    batch, channels = columns.shape[0], columns.shape[1] // (kernel[0] * kernel[1])
    wide = wide.reshape(batch, channels, *kernel, *counts)
    padded = np.zeros((batch, channels, sizes[0] + 2 * padding[0], sizes[1] + 2 * padding[1]), wide.dtype)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            top, left = row * dilation[0], column * dilation[1]
            spans = (
                slice(top, top + counts[0] * stride[0], stride[0]),
                slice(left, left + counts[1] * stride[1], stride[1]),
            )
            padded[(slice(None), slice(None), *spans)] += wide[:, :, row, column]
    inner = padded[:, :, padding[0] : padding[0] + sizes[0], padding[1] : padding[1] + sizes[1]]
    return np.ascontiguousarray(inner).astype(kind, copy=False)


def _counts(sizes, kernel, dilation, padding, stride):
    return [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
