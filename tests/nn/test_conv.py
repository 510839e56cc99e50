"""Convolutions and their transposes. See `rows.py`."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from tests.nn.references import np_conv, np_conv_transpose
from tests.nn.rows import Row, error, generate

IMAGES = {1: (2, 4, 6), 2: (2, 4, 5, 6), 3: (1, 4, 3, 4, 3)}
# name of the options, the layer's arguments after the channels, what prints of them (2-d)
OPTIONS = {
    "plain": ({"kernel_size": 2}, "kernel_size=(2, 2), stride=(1, 1)"),
    "padded": ({"kernel_size": 3, "stride": 2, "padding": 1}, "kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)"),
    "dilated": (
        {"kernel_size": 2, "dilation": 2, "padding": 1},
        "kernel_size=(2, 2), stride=(1, 1), padding=(1, 1), dilation=(2, 2)",
    ),
    "groups": (
        {"kernel_size": 1, "groups": 2, "bias": False},
        "kernel_size=(1, 1), stride=(1, 1), groups=2, bias=False",
    ),
    "depthwise": (
        {"kernel_size": 3, "groups": 4, "padding": 2},
        "kernel_size=(3, 3), stride=(1, 1), padding=(2, 2), groups=4",
    ),
}


def conv_row(rank, label, options, printed, out=8):
    kernel = (options["kernel_size"],) * rank
    kept = {"weight": (out, 4 // options.get("groups", 1), *kernel)} | (
        {} if options.get("bias") is False else {"bias": (out,)}
    )
    used = {name: value for name, value in options.items() if name in ("stride", "padding", "dilation", "groups")}
    return Row(
        f"Conv{rank}d", (4, out), options, [IMAGES[rank]], parameters=kept, id=label,
        reference=lambda p, x: np_conv(x, p.weight, p.bias, **used),
        text=f"Conv2d(4, {out}, {printed})" if rank == 2 else None,
    )  # fmt: skip


ROWS = [conv_row(rank, label, *argument) for rank in (1, 2, 3) for label, argument in OPTIONS.items()]
ROWS += [
    Row("Conv2d", (4, 2, 3), {"padding": "same", "dilation": (1, 2)}, [IMAGES[2]], out=(2, 2, 5, 6), id="same",
        parameters={"weight": (2, 4, 3, 3), "bias": (2,)}, reference=lambda p, x: np_conv(x, p.weight, p.bias, 1, (1, 2), (1, 2)),
        text="Conv2d(4, 2, kernel_size=(3, 3), stride=(1, 1), padding=same, dilation=(1, 2))"),
    Row("Conv1d", (4, 2, 4), {"padding": "same"}, [(4, 6)], out=(2, 6), id="same even",
        parameters={"weight": (2, 4, 4), "bias": (2,)}, reference=lambda p, x: np_conv(x[None], p.weight, p.bias, 1, [(1, 2)])[0]),
    Row("Conv2d", (4, 2, (2, 3)), {"stride": (2, 1), "padding": "valid"}, [IMAGES[2]], id="valid",
        parameters={"weight": (2, 4, 2, 3), "bias": (2,)}, reference=lambda p, x: np_conv(x, p.weight, p.bias, (2, 1)),
        text="Conv2d(4, 2, kernel_size=(2, 3), stride=(2, 1), padding=valid)"),
    *[
        Row("Conv2d", (4, 2, 3), {"padding": (1, 2), "padding_mode": mode}, [IMAGES[2]], id=mode,
            parameters={"weight": (2, 4, 3, 3), "bias": (2,)},
            reference=lambda p, x, how=how: np_conv(x, p.weight, p.bias, 1, (1, 2), mode=how),
            text=f"Conv2d(4, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 2), padding_mode={mode})")
        for mode, how in {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.items()
    ],
    Row("Conv1d", (4, 2, 4), {"padding": "same", "padding_mode": "circular"}, [IMAGES[1]], out=(2, 2, 6), id="same circular",
        parameters={"weight": (2, 4, 4), "bias": (2,)},
        reference=lambda p, x: np_conv(x, p.weight, p.bias, 1, [(1, 2)], mode="wrap")),
]  # fmt: skip

ERRORS = [
    error(lambda layer: layer(dg.zeros(2, 3, 5, 5)), RuntimeError, "conv2d", "3", "4"),
    error(lambda layer: layer(dg.zeros(4, 5)), RuntimeError, "conv2d", "2", "[4, 5]"),
    error(lambda layer: layer(dg.zeros(1, 4, 1, 5)), RuntimeError, "conv2d", "2"),
    error(lambda layer: nn.Conv2d(4, 2, 3, groups=3), ValueError, "in_channels", "divisible", "4", "3"),
    error(lambda layer: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels", "divisible", "3", "2"),
    error(lambda layer: nn.Conv2d(4, 3, 3, groups=0), ValueError, "groups", "positive", "0"),
    error(lambda layer: nn.Conv2d(4, 3, 3, padding="full"), ValueError, "'full'", "'same'", "'valid'"),
    error(lambda layer: nn.Conv2d(4, 3, 3, padding="same", stride=2), ValueError, "'same'", "strided"),
    error(lambda layer: nn.Conv2d(4, 3, 3, padding_mode="mirror"), ValueError, "padding_mode", "'mirror'"),
    error(lambda layer: nn.ConvTranspose2d(4, 3, 3, padding_mode="reflect"), ValueError, "zeros"),
]
ROWS.append(Row("Conv2d", (4, 2, 2), shapes=[(4, 5, 6)], out=(2, 4, 5), parameters={"weight": (2, 4, 2, 2), "bias": (2,)},
                id="single", reference=lambda p, x: np_conv(x[None], p.weight, p.bias)[0], errors=ERRORS))  # fmt: skip

TRANSPOSED = {
    "plain": ({"kernel_size": 2}, "kernel_size=(2, 2), stride=(1, 1)"),
    "strided": ({"kernel_size": 2, "stride": 2}, "kernel_size=(2, 2), stride=(2, 2)"),
    "padded": (
        {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
        "kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1)",
    ),
    "groups": (
        {"kernel_size": 2, "groups": 2, "dilation": 2, "bias": False},
        "kernel_size=(2, 2), stride=(1, 1), dilation=(2, 2), groups=2, bias=False",
    ),
}


def transposed_row(rank, label, options, printed):
    kernel = (options["kernel_size"],) * rank
    kept = {"weight": (4, 2 // options.get("groups", 1), *kernel)} | (
        {} if options.get("bias") is False else {"bias": (2,)}
    )
    used = {name: value for name, value in options.items() if name not in ("kernel_size", "bias")}
    return Row(
        f"ConvTranspose{rank}d", (4, 2), options, [(2, 4, 3, 2, 2)[: rank + 2]], parameters=kept, id=label,
        reference=lambda p, x: np_conv_transpose(x, p.weight, p.bias, **used),
        text=f"ConvTranspose2d(4, 2, {printed})" if rank == 2 else None,
    )  # fmt: skip


ROWS += [transposed_row(rank, label, *argument) for rank in (1, 2, 3) for label, argument in TRANSPOSED.items()]
ROWS.append(Row("ConvTranspose2d", (4, 2, 2), shapes=[(4, 3, 3)], out=(2, 4, 4), parameters={"weight": (4, 2, 2, 2), "bias": (2,)},
                id="single", reference=lambda p, x: np_conv_transpose(x[None], p.weight, p.bias)[0],
                errors=[error(lambda layer: layer(dg.zeros(1, 3, 5, 5)), RuntimeError, "conv_transpose2d", "3", "4")]))  # fmt: skip

test_rows = generate(ROWS)


def test_transpose_is_the_gradient_of_convolution():
    conv = nn.Conv2d(3, 2, 3, stride=2, padding=1, bias=False)
    back = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1, bias=False)
    back.weight = conv.weight
    x = dg.randn(1, 3, 6, 6, requires_grad=True)
    y = conv(x)
    g = dg.randn(*y.shape)
    y.backward(g)
    assert dg.allclose(back(g), x.grad, atol=1e-5)


@pytest.mark.parametrize("size", [(7, 8), [2, 7, 8], (1, 2, 8, 7)])
def test_output_size_chooses_among_the_possible_sizes(size):
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    assert tuple(layer(dg.zeros(1, 3, 4, 4), output_size=size).shape)[2:] == tuple(size)[-2:]


def test_impossible_output_size_is_told():
    with pytest.raises(ValueError, match=r"output size of \(9, 7\).* range from 7 to 8"):
        nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)(dg.zeros(1, 3, 4, 4), output_size=(9, 7))


def test_start_lies_within_the_fan_in():
    layer = nn.Conv2d(4, 64, 3)
    bound = 1 / numpy.sqrt(4 * 9)
    for value in layer.parameters():
        assert 0.9 * bound < float(value.abs().max()) <= bound


@pytest.mark.parametrize("mode", ["zeros", "reflect"])
def test_subclasses_convolve_with_another_weight(mode: str):
    """By PyTorch's private names, which packages call and override."""

    class Doubled(nn.Conv2d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight * 2, bias)

    layer = Doubled(2, 3, 3, padding=(1, 2), padding_mode=mode, bias=False)
    x = dg.randn(1, 2, 5, 6)
    assert layer._reversed_padding_repeated_twice == [2, 2, 1, 1]
    dg.testing.assert_close(layer(x), nn.Conv2d._conv_forward(layer, x, layer.weight, None) * 2)
