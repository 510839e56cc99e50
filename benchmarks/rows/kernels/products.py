"""Matrix products and what is made of them: Linear, attention, recurrent layers."""

from __future__ import annotations

from benchmarks.kernel import Kernel, draw, kernel
from benchmarks.workload import fill


@kernel("matmul", (64,), (128,), (256,), (512,), (1024,), small=(5,), forms="forward")
def matmul(torch, order):
    return Kernel(torch.matmul, draw(torch, (order, order), (order, order)), flops=2 * order**3)


@kernel("matmul.batched", (96, 128, 64, 128), small=(3, 4, 5, 6), forms="forward")
def batched(torch, batch, rows, inner, columns):
    return Kernel(
        torch.matmul,
        draw(torch, (batch, rows, inner), (batch, inner, columns)),
        flops=2 * batch * rows * inner * columns,
    )


@kernel("linear", (64, 784, 256), (1024, 256, 1024), small=(3, 4, 5))
def linear(torch, batch, inputs, outputs):
    x, w, b = draw(torch, (batch, inputs), (outputs, inputs), (outputs,))
    return Kernel(torch.nn.functional.linear, (x, w, b), flops=2 * batch * inputs * outputs)


def attention(torch, batch, heads, time, features, causal):
    """Two products forward and four backward; with `causal` half of each."""
    attend = torch.nn.functional.scaled_dot_product_attention
    shape = (batch, heads, time, features)
    return Kernel(
        lambda q, k, v: attend(q, k, v, is_causal=causal),
        draw(torch, shape, shape, shape),
        flops=4 * batch * heads * time * time * features // (2 if causal else 1),
    )


@kernel("attention", (8, 8, 128, 64), small=(2, 2, 5, 4))
def full_attention(torch, *size):
    return attention(torch, *size, causal=False)


@kernel("attention.causal", (4, 8, 512, 64), (1, 8, 2048, 64), small=(2, 2, 5, 4))
def causal_attention(torch, *size):
    return attention(torch, *size, causal=True)


def recurrent(torch, kind, gates, time, batch, inputs, hidden):
    layer = kind(inputs, hidden)
    fill(torch, layer)
    (x,) = draw(torch, (time, batch, inputs))
    weights = tuple(layer.parameters())
    return Kernel(
        lambda x: layer(x)[0],
        (x,),
        leaves=(x, *weights),
        weights=weights,
        flops=2 * time * batch * (inputs + hidden) * gates * hidden,
    )


@kernel("lstm", (64, 32, 256, 256), small=(3, 2, 4, 5))
def lstm(torch, *size):
    """Time, batch, inputs, hidden."""
    return recurrent(torch, torch.nn.LSTM, 4, *size)


@kernel("gru", (64, 32, 256, 256), small=(3, 2, 4, 5))
def gru(torch, *size):
    return recurrent(torch, torch.nn.GRU, 3, *size)
