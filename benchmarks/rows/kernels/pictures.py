"""Convolutions and pooling. A convolution's name gives batch, channels in and out, and the picture's side."""

from __future__ import annotations

from benchmarks.kernel import Kernel, draw, kernel

POOLED = (32, 64, 56)


def convolution(torch, batch, inputs, outputs, side, kernel_side, first=False, channels_last=False, **options):
    """Without bias. In a network's first layer the picture needs no gradient."""
    conv2d = torch.nn.functional.conv2d
    groups = options.get("groups", 1)
    x, w = draw(torch, (batch, inputs, side, side), (outputs, inputs // groups, kernel_side, kernel_side))
    if channels_last:
        x, w = (tensor.to(memory_format=torch.channels_last) for tensor in (x, w))
    after = (side + 2 * options.get("padding", 0) - kernel_side) // options.get("stride", 1) + 1
    flops = 2 * batch * outputs * after**2 * inputs // groups * kernel_side**2
    return Kernel(
        lambda x, w: conv2d(x, w, **options),
        (x, w),
        leaves=(w,) if first else None,
        flops=flops,
        backward_flops=(2 if first else 3) * flops,
    )


@kernel("conv3x3.first", (32, 3, 16, 32), small=(2, 3, 4, 6))
def conv3x3_first(torch, *size):
    return convolution(torch, *size, 3, first=True, padding=1)


@kernel(
    "conv3x3",
    (32, 16, 16, 32),
    (32, 32, 32, 16),
    (32, 64, 64, 8),
    (8, 64, 64, 56),
    (8, 256, 256, 14),
    (8, 512, 512, 7),
    small=(2, 3, 4, 6),
)
def conv3x3(torch, *size):
    return convolution(torch, *size, 3, padding=1)


@kernel(
    "conv3x3.channels_last",
    (32, 16, 16, 32),
    (32, 32, 32, 16),
    (32, 64, 64, 8),
    (8, 64, 64, 56),
    (8, 256, 256, 14),
    (8, 512, 512, 7),
    small=(2, 3, 16, 6),
)
def conv3x3_channels_last(torch, *size):
    return convolution(torch, *size, 3, channels_last=True, padding=1)


@kernel("conv3x3.stride2", (32, 16, 32, 32), (32, 32, 64, 16), small=(2, 3, 4, 6))
def conv3x3_stride2(torch, *size):
    return convolution(torch, *size, 3, padding=1, stride=2)


@kernel("conv1x1", (8, 256, 64, 56), small=(2, 3, 4, 6))
def conv1x1(torch, *size):
    return convolution(torch, *size, 1)


@kernel("conv1x1.channels_last", (8, 256, 64, 56), (8, 64, 256, 56), small=(2, 3, 16, 6))
def conv1x1_channels_last(torch, *size):
    return convolution(torch, *size, 1, channels_last=True)


@kernel("conv5x5.first", (128, 1, 6, 28), small=(2, 1, 4, 6))
def conv5x5_first(torch, *size):
    """LeNet's first."""
    return convolution(torch, *size, 5, first=True, padding=2)


@kernel("conv5x5", (128, 6, 16, 14), small=(2, 3, 4, 6))
def conv5x5(torch, *size):
    """LeNet's second."""
    return convolution(torch, *size, 5)


@kernel("conv3x3.depthwise", (8, 64, 64, 56), small=(2, 4, 4, 6))
def depthwise(torch, batch, inputs, outputs, side):
    return convolution(torch, batch, inputs, outputs, side, 3, padding=1, groups=inputs)


@kernel("conv1d", (32, 64, 64, 256), small=(2, 3, 4, 9))
def conv1d(torch, batch, inputs, outputs, time):
    """Five steps wide."""
    conv1d = torch.nn.functional.conv1d
    return Kernel(
        lambda x, w: conv1d(x, w, padding=2),
        draw(torch, (batch, inputs, time), (outputs, inputs, 5)),
        flops=2 * batch * outputs * time * inputs * 5,
    )


@kernel("conv_transpose", (32, 64, 32, 16), small=(2, 3, 4, 5))
def conv_transpose(torch, batch, inputs, outputs, side):
    """4x4 with stride 2, which doubles the side."""
    convolve = torch.nn.functional.conv_transpose2d
    return Kernel(
        lambda x, w: convolve(x, w, stride=2, padding=1),
        draw(torch, (batch, inputs, side, side), (inputs, outputs, 4, 4)),
        flops=2 * batch * inputs * outputs * side**2 * 16,
    )


def pooling(name, function, saved):
    """2x2. Of what forward saw, backward needs `saved` bytes for each result: which of four was greatest, or nothing."""

    def prepare(torch, batch, channels, side):
        (x,) = draw(torch, (batch, channels, side, side))
        size = batch * channels * side**2
        return Kernel(
            lambda x: function(torch)(x, 2), (x,), backward_moved=2 * 4 * size + 2 * size + 2 * saved * size // 4
        )

    kernel(name, POOLED, small=(2, 3, 4))(prepare)


pooling("max_pool2d", lambda torch: torch.nn.functional.max_pool2d, saved=1)
pooling("avg_pool2d", lambda torch: torch.nn.functional.avg_pool2d, saved=0)
