"""The small kernels between the passes of batch and group norm: statistics of channels or groups from those of rows of places.

A row is one channel of one example: `means` and `squares` (sums of squared distances from its own mean) are (N * C) numbers of
rows of `places` elements. They are joined as Chan et al. do (Algorithms for computing the sample variance, 1983, equation 2.1a).
"""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_FLOATS = ("means", "squares", "weight", "running_mean", "running_var", "mean", "rstd", "variance", "scale")


@triton_kernel(
    variants=[
        {**dict.fromkeys(_FLOATS, "*fp32"), "examples": "i32", "channels": "i32", "places": "i32", "eps": "fp32",
         "TRAINING": True, "WEIGHTED": True, "ACC": tl.float32, "ROWS": 32, "BLOCK": 32, "num_warps": 4},
        {**dict.fromkeys(_FLOATS, "*fp32"), "examples": "i32", "channels": "i32", "places": "i32", "eps": "fp32",
         "TRAINING": False, "WEIGHTED": False, "ACC": tl.float32, "ROWS": 1, "BLOCK": 128, "num_warps": 4},
    ]
)  # fmt: skip
def batch_statistics(
    means, squares, weight, running_mean, running_var, mean, rstd, variance, scale, examples, channels, places, eps,
    TRAINING: tl.constexpr, WEIGHTED: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean, 1 / sqrt(variance + eps), the variance that running ones move towards, and rstd * weight of each channel."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = c < channels
    if TRAINING:
        count = (examples + tl.zeros((), tl.int64)).to(ACC)
        total = tl.zeros((ROWS, BLOCK), ACC)
        for first in range(0, examples, ROWS):
            n = first + tl.arange(0, ROWS)
            inside = (n < examples)[:, None] & kept[None, :]
            total += tl.load(means + n[:, None] * channels + c[None, :], inside, other=0).to(ACC)
        middle = tl.sum(total, 0) / count
        total = tl.zeros((ROWS, BLOCK), ACC)
        size = (places + tl.zeros((), tl.int64)).to(ACC)
        for first in range(0, examples, ROWS):
            n = first + tl.arange(0, ROWS)
            inside = (n < examples)[:, None] & kept[None, :]
            at = n[:, None] * channels + c[None, :]
            distance = tl.load(means + at, inside, other=0).to(ACC) - middle[None, :]
            own = tl.load(squares + at, inside, other=0).to(ACC)
            total += tl.where(inside, own + size * distance * distance, 0.0)
        count = count * size
        spread = tl.sum(total, 0) / count
        unbiased = spread * (count / tl.maximum(count - 1, 1.0))
    else:
        middle = tl.load(running_mean + c, kept, other=0).to(ACC)
        spread = tl.load(running_var + c, kept, other=0).to(ACC)
        unbiased = spread
    root = 1 / tl.sqrt(spread + eps)
    tl.store(mean + c, middle, kept)
    tl.store(rstd + c, root, kept)
    tl.store(variance + c, unbiased, kept)
    if WEIGHTED:
        root = root * tl.load(weight + c, kept, other=0).to(ACC)
    tl.store(scale + c, root, kept)


_GRADIENTS = ("totals", "alongs", "weight", "rstd", "gw", "gb", "scale", "shift", "slope")


@triton_kernel(
    variants=[
        {**dict.fromkeys(_GRADIENTS, "*fp32"), "examples": "i32", "channels": "i32", "places": "i32", "TRAINING": True,
         "WEIGHTED": True, "ACC": tl.float32, "ROWS": 32, "BLOCK": 32, "num_warps": 4},
    ]
)  # fmt: skip
def batch_coefficients(
    totals, alongs, weight, rstd, gw, gb, scale, shift, slope, examples, channels, places,
    TRAINING: tl.constexpr, WEIGHTED: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """gw and gb of each channel, and gx = scale * g - shift - (x - mean) * slope, from sums of g and g * (x - mean) of rows."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = c < channels
    total, along = tl.zeros((ROWS, BLOCK), ACC), tl.zeros((ROWS, BLOCK), ACC)
    for first in range(0, examples, ROWS):
        n = first + tl.arange(0, ROWS)
        inside = (n < examples)[:, None] & kept[None, :]
        at = n[:, None] * channels + c[None, :]
        total += tl.load(totals + at, inside, other=0).to(ACC)
        along += tl.load(alongs + at, inside, other=0).to(ACC)
    g, x = tl.sum(total, 0), tl.sum(along, 0)
    root = tl.load(rstd + c, kept, other=0).to(ACC)
    factor = root
    if WEIGHTED:
        factor = root * tl.load(weight + c, kept, other=0).to(ACC)
    tl.store(gw + c, x * root, kept)
    tl.store(gb + c, g, kept)
    tl.store(scale + c, factor, kept)
    count = (examples + tl.zeros((), tl.int64)).to(ACC) * (places + tl.zeros((), tl.int64)).to(ACC)
    if TRAINING:
        tl.store(shift + c, factor * g / count, kept)
        tl.store(slope + c, factor * x * root * root / count, kept)
    else:
        tl.store(shift + c, tl.zeros((BLOCK,), ACC), kept)
        tl.store(slope + c, tl.zeros((BLOCK,), ACC), kept)


@triton_kernel(
    variants=[
        {"means": "*fp32", "squares": "*fp32", "weight": "*fp32", "mean": "*fp32", "rstd": "*fp32", "scale": "*fp32",
         "groups": "i32", "width": "i32", "places": "i32", "eps": "fp32", "WEIGHTED": True, "ACC": tl.float32, "BLOCK": 128,
         "num_warps": 4},
    ]
)  # fmt: skip
def group_statistics(
    means, squares, weight, mean, rstd, scale, groups, width, places, eps,
    WEIGHTED: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean and rstd of each group of `width` channels of each example, and rstd * weight of each channel."""
    group = tl.program_id(0).to(tl.int64)
    count = (width + tl.zeros((), tl.int64)).to(ACC)
    size = (places + tl.zeros((), tl.int64)).to(ACC)
    total = tl.zeros((BLOCK,), ACC)
    for first in range(0, width, BLOCK):
        c = first + tl.arange(0, BLOCK)
        total += tl.load(means + group * width + c, c < width, other=0).to(ACC)
    middle = tl.sum(total, 0) / count
    total = tl.zeros((BLOCK,), ACC)
    for first in range(0, width, BLOCK):
        c = first + tl.arange(0, BLOCK)
        distance = tl.load(means + group * width + c, c < width, other=0).to(ACC) - middle
        own = tl.load(squares + group * width + c, c < width, other=0).to(ACC)
        total += tl.where(c < width, own + size * distance * distance, 0.0)
    root = 1 / tl.sqrt(tl.sum(total, 0) / (count * size) + eps)
    tl.store(mean + group, middle)
    tl.store(rstd + group, root)
    for first in range(0, width, BLOCK):
        c = first + tl.arange(0, BLOCK)
        factor = tl.zeros((BLOCK,), ACC) + root
        if WEIGHTED:
            factor = factor * tl.load(weight + (group % groups) * width + c, c < width, other=0).to(ACC)
        tl.store(scale + group * width + c, factor, c < width)


_GROUPED = ("totals", "alongs", "weight", "rstd", "gws", "scale", "shift", "slope")


@triton_kernel(
    variants=[
        {**dict.fromkeys(_GROUPED, "*fp32"), "groups": "i32", "width": "i32", "places": "i32", "WEIGHTED": True,
         "ACC": tl.float32, "BLOCK": 128, "num_warps": 4},
    ]
)  # fmt: skip
def group_coefficients(
    totals, alongs, weight, rstd, gws, scale, shift, slope, groups, width, places,
    WEIGHTED: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """gx = scale * g - shift - (x - mean) * slope: scale of each channel, shift and slope of each group; and each row's part of gw."""
    group = tl.program_id(0).to(tl.int64)
    root = tl.load(rstd + group).to(ACC)
    total, along = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
    for first in range(0, width, BLOCK):
        c = first + tl.arange(0, BLOCK)
        kept = c < width
        at = group * width + c
        factor = tl.zeros((BLOCK,), ACC) + 1
        if WEIGHTED:
            factor = tl.load(weight + (group % groups) * width + c, kept, other=0).to(ACC)
        distances = tl.load(alongs + at, kept, other=0).to(ACC)
        total += factor * tl.load(totals + at, kept, other=0).to(ACC)
        along += factor * distances
        tl.store(gws + at, distances * root, kept)
        tl.store(scale + at, factor * root, kept)
    count = (width + tl.zeros((), tl.int64)).to(ACC) * (places + tl.zeros((), tl.int64)).to(ACC)
    tl.store(shift + group, root * tl.sum(total, 0) / count)
    tl.store(slope + group, root * root * root * tl.sum(along, 0) / count)
