"""Channels and pixels moved into each other."""

import numpy

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def np_pixel_shuffle(input, upscale_factor):
    r = upscale_factor
    *lead, channels, height, width = input.shape
    out = numpy.empty((*lead, channels // r**2, height * r, width * r), input.dtype)
    for channel, row, column in numpy.ndindex(out.shape[-3:]):
        source = channel * r**2 + row % r * r + column % r
        out[..., channel, row, column] = input[..., source, row // r, column // r]
    return out


def np_pixel_unshuffle(input, downscale_factor):
    r = downscale_factor
    *lead, channels, height, width = input.shape
    out = numpy.empty((*lead, channels * r**2, height // r, width // r), input.dtype)
    for channel, row, column in numpy.ndindex(input.shape[-3:]):
        target = channel * r**2 + row % r * r + column % r
        out[..., target, row // r, column // r] = input[..., channel, row, column]
    return out


def np_channel_shuffle(input, groups):
    order = numpy.arange(input.shape[1]).reshape(groups, -1).T.reshape(-1)
    return input[:, order]


x = dynograd.zeros(2, 8, 2, 3)
ROWS = [
    Row(
        "nn.functional.pixel_shuffle",
        np_pixel_shuffle,
        shapes=[(2, 8, 2, 3)],
        kwargs={"upscale_factor": 2},
        ones=False,
        errors=[
            error(lambda op: op(x, 3), RuntimeError, "'channel'", "input.size(-3)=8", "9"),
            error(lambda op: op(x[0, 0], 2), RuntimeError, "at least 3 dimensions", "(2, 3)"),
            error(lambda op: op(x, 0), RuntimeError, "positive upscale_factor", "0"),
        ],
    ),
    Row("nn.functional.pixel_shuffle", np_pixel_shuffle, shapes=[(9, 2, 1)], kwargs={"upscale_factor": 3}, id="single", ones=False, empty=False),
    Row(
        "nn.functional.pixel_unshuffle",
        np_pixel_unshuffle,
        shapes=[(2, 2, 4, 6)],
        kwargs={"downscale_factor": 2},
        ones=False,
        errors=[error(lambda op: op(x, 3), RuntimeError, "height 2 is not divisible by 3", "(2, 8, 2, 3)")],
    ),
    Row(
        "nn.functional.channel_shuffle",
        np_channel_shuffle,
        shapes=[(2, 6, 2, 2)],
        kwargs={"groups": 3},
        ones=False,
        errors=[
            error(lambda op: op(x, 3), RuntimeError, "divisible by groups", "8 channels and 3 groups"),
            error(lambda op: op(x[0, 0], 2), RuntimeError, "> 2 dims", "[2, 3]"),
        ],
    ),
]  # fmt: skip
test_rows = generate(ROWS)


def test_unshuffling_undoes_shuffling():
    x = dynograd.randn(2, 8, 3, 3)
    assert F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).tolist() == x.tolist()
    assert F.channel_shuffle(F.channel_shuffle(x, 2), 4).tolist() == x.tolist()


def test_a_factor_of_one_gives_new_memory():
    x = dynograd.ones(1, 4, 2, 2)
    for created in (dynograd.pixel_shuffle(x, 1), dynograd.pixel_unshuffle(x, 1)):
        created.zero_()
    assert x.all()
