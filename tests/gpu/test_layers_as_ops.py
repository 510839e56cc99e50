"""Products, convolutions, attention and recurrent layers as users call them: results and gradients on the GPU equal those of the CPU."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.kernels.build import precision
from dynograd.nn import functional as F
from dynograd.nn.utils import rnn


@pytest.fixture(autouse=True)
def _exactly():
    precision.set_allow_tf32("cudnn", False)
    yield
    precision.set_allow_tf32("cudnn", True)


def leaves(device, *shapes, dtype=dynograd.float32):
    dynograd.manual_seed(0)
    return [dynograd.randn(*shape, dtype=dtype).to(device).requires_grad_() for shape in shapes]


def linear(device):
    x, w, b = argument = leaves(device, (6, 8), (5, 8), (5,))
    return argument, [F.linear(x, w, b)]


def matmul(device):
    x, w = argument = leaves(device, (2, 6, 8), (8, 3))
    return argument, [x @ w, x @ w[:, 0]]


def convolution(device):
    x, w, b = argument = leaves(device, (1, 4, 6, 6), (6, 4, 3, 3), (6,))
    return argument, [F.conv2d(x, w, b, stride=2, padding=1)]


def transposed_convolution(device):
    x, w = argument = leaves(device, (1, 4, 4, 4), (4, 3, 3, 3))
    return argument, [F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)]


def attention(device):
    q, k, v = argument = leaves(device, (1, 2, 20, 16), (1, 2, 20, 16), (1, 2, 20, 16))
    return argument, [F.scaled_dot_product_attention(q, k, v, is_causal=True)]


def attention_with_dropout(device):
    q, k, v = argument = leaves(device, (1, 2, 40, 16), (1, 2, 40, 16), (1, 2, 40, 16))
    return argument, [F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)]


def attention_with_a_mask(device):
    q, k, v = argument = leaves(device, (2, 20, 16), (2, 24, 16), (2, 24, 16))
    mask = (dynograd.arange(24) < 17).to(device)
    return argument, [F.scaled_dot_product_attention(q, k, v, attn_mask=mask)]


def attention_of_wide_heads(device):
    q, k, v = argument = leaves(device, (1, 6, 260), (1, 7, 260), (1, 7, 4))
    return argument, [F.scaled_dot_product_attention(q, k, v)]


def attention_in_float64(device):
    q, k, v = argument = leaves(device, (1, 6, 8), (1, 6, 8), (1, 6, 8), dtype=dynograd.float64)
    return argument, [F.scaled_dot_product_attention(q, k, v, is_causal=True)]


def lstm(device):
    (x,) = leaves(device, (3, 5, 4))
    layer = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True).to(device)
    y, (h, c) = layer(x)
    return [x, *layer.parameters()], [y, h, c]


def packed_gru(device):
    (x,) = leaves(device, (5, 3, 4))
    layer = nn.GRU(4, 6).to(device)
    y, h = layer(rnn.pack_padded_sequence(x, dynograd.tensor([5, 2, 3]), enforce_sorted=False))
    return [x, *layer.parameters()], [rnn.pad_packed_sequence(y)[0], h]


def cells(device):
    x, h = leaves(device, (3, 4), (3, 6))
    element, two = nn.LSTMCell(4, 6).to(device), nn.GRUCell(4, 6).to(device)
    shown, _ = element(x)
    return [x, h, *element.parameters(), *two.parameters()], [two(x, h) + shown]


def cross_product(device):
    x, y = argument = leaves(device, (4, 3), (4, 3))
    return argument, [dynograd.cross(x, y, dim=1)]


def matrix_powers(device):
    (x,) = argument = leaves(device, (3, 3))
    return argument, [dynograd.matrix_power(x, 0) + dynograd.matrix_power(x, 3), dynograd.addmm(x, x, x, alpha=0.5)]


CASES = [
    linear, matmul, convolution, transposed_convolution, attention, attention_with_dropout, attention_with_a_mask,
    attention_of_wide_heads, attention_in_float64, lstm, packed_gru, cells, cross_product, matrix_powers,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_same_as_on_the_cpu(case):
    def everything(device):
        arguments, outputs = case(device)
        total = sum((output * output).sum() for output in outputs)
        total.backward()
        return [output.detach() for output in outputs] + [argument.grad for argument in arguments]

    for element, two in zip(everything("cuda"), everything("cpu"), strict=True):
        assert element.device.type == "cuda"
        numpy.testing.assert_allclose(element.cpu().numpy(), two.numpy(), rtol=1e-3, atol=1e-4)


def test_states_on_another_device_than_the_input_are_told():
    layer = nn.GRU(4, 6).to("cuda")
    with pytest.raises(
        dynograd.errors.DeviceError, match=r"expected all tensors to be on the same device.*Move one of them"
    ):
        layer(dynograd.randn(5, 3, 4).to("cuda"), dynograd.zeros(1, 3, 6))
