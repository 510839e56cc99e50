"""Modules that leave, as ONNX and as programs: (name, how it is made, its example's arguments, dynamic axes by (input, axis))."""

import dynograd as torch
from dynograd import nn

F = nn.functional


def tokens(*shape):
    return torch.randint(0, 20, shape)


def of(make, *shape, axes=((0, 0),)):
    """A row with one input of normal numbers."""
    return make, (lambda: (torch.randn(*shape),)), {(number, axis): f"n{axis}" for number, axis in axes}


class Block(nn.Module):
    """A block of a GPT, with attention over heads."""

    def __init__(self, size=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm, self.out = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.out(x))


class LanguageModel(nn.Module):
    """A GPT with tied embeddings and learnt positions."""

    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(20, 16), nn.Embedding(64, 16)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))))


class HandMade(nn.Module):
    """An LSTM written with ops, over a fixed number of steps."""

    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(4, 24), nn.Linear(6, 24)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 6)
        for t in range(x.shape[1]):
            i, f, g, o = (self.x(x[:, t]) + self.h(h)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h


class MaskedMean(nn.Module):
    """A mean over the valid words of padded sentences."""

    def forward(self, x, lengths):
        valid = torch.arange(x.shape[1]) < lengths[:, None]
        return x.masked_fill(~valid[:, :, None], 0.0).sum(1) / lengths[:, None]


class Causal(nn.Module):
    """A mask that is made in the program."""

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        return torch.softmax(x @ x.transpose(1, 2) + mask, -1)


class WithLengths(nn.Module):
    """A recurrent layer over padded rows with lengths."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, lengths):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.layer(rows)[0], batch_first=True)[0]


class LastState(nn.Module):
    """A classifier of sentences by the last state of a GRU that begins with a state of its own."""

    def __init__(self):
        super().__init__()
        self.embedding, self.gru, self.head = nn.Embedding(20, 4), nn.GRU(4, 6, batch_first=True), nn.Linear(6, 2)
        self.first = nn.Parameter(torch.randn(1, 1, 6))

    def forward(self, tokens, lengths):
        rows = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        return self.head(self.gru(rows, self.first.expand(1, len(tokens), 6).contiguous())[1][-1])


class Packed(nn.Module):
    """Sorted rows, time first, that are padded by another number."""

    def __init__(self):
        super().__init__()
        self.layer = nn.RNN(4, 3)

    def forward(self, x, lengths):
        rows = self.layer(nn.utils.rnn.pack_padded_sequence(x, lengths))[0]
        return nn.utils.rnn.pad_packed_sequence(rows, batch_first=True, padding_value=7.0)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = [nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2)]
        self.na, self.nb = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


def convnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Residual(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


def lenet():
    convolutions = (
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(400, 10))


ACTIVATIONS = """CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU ReLU ReLU6 RReLU SELU Sigmoid SiLU
    Softplus Softshrink Softsign Tanh Tanhshrink Identity""".split()
MODULES = {name: of(getattr(nn, name), 3, 8) for name in ACTIVATIONS}
MODULES |= {
    "GELU tanh": of(lambda: nn.GELU(approximate="tanh"), 3, 8),
    "GLU": of(nn.GLU, 3, 8),
    "Softmax": of(lambda: nn.Softmax(-1), 3, 8),
    "Softmax over the dynamic axis": of(lambda: nn.Softmax(0), 3, 8),
    "Softmax2d": of(nn.Softmax2d, 3, 4, 2, 2),
    "Softmin": of(lambda: nn.Softmin(-1), 3, 8),
    "LogSoftmax": of(lambda: nn.LogSoftmax(-1), 3, 8),
    "Threshold": of(lambda: nn.Threshold(0.1, 2.0), 3, 8),
    "Linear": of(lambda: nn.Linear(8, 4), 3, 8),
    "Linear of sequences": of(lambda: nn.Linear(8, 4), 2, 3, 8, axes=((0, 0), (0, 1))),
    "Bilinear": (lambda: nn.Bilinear(4, 5, 3), lambda: (torch.randn(3, 4), torch.randn(3, 5)), {(0, 0): "n", (1, 0): "n"}),
    "CosineSimilarity": (nn.CosineSimilarity, lambda: (torch.randn(3, 4), torch.randn(3, 4)), {(0, 0): "n", (1, 0): "n"}),
    "PairwiseDistance": (nn.PairwiseDistance, lambda: (torch.randn(3, 4), torch.randn(3, 4)), {(0, 0): "n", (1, 0): "n"}),
    "Embedding": (lambda: nn.Embedding(20, 6), lambda: (tokens(2, 3),), {(0, 0): "n", (0, 1): "t"}),
    "Dropout": of(nn.Dropout, 3, 8),
    "Dropout2d": of(nn.Dropout2d, 3, 4, 2, 2),
    "AlphaDropout": of(nn.AlphaDropout, 3, 8),
    "BatchNorm1d": of(lambda: nn.BatchNorm1d(8), 3, 8),
    "BatchNorm2d": of(lambda: nn.BatchNorm2d(4), 3, 4, 5, 5),
    "BatchNorm3d": of(lambda: nn.BatchNorm3d(4), 3, 4, 3, 3, 3),
    "LayerNorm": of(lambda: nn.LayerNorm(8), 3, 8),
    "LayerNorm of two dims": of(lambda: nn.LayerNorm((4, 8), elementwise_affine=False), 3, 4, 8),
    "RMSNorm": of(lambda: nn.RMSNorm(8), 3, 8),
    "GroupNorm": of(lambda: nn.GroupNorm(2, 4), 3, 4, 5, 5),
    "InstanceNorm1d": of(lambda: nn.InstanceNorm1d(4, affine=True), 3, 4, 6),
    "InstanceNorm2d": of(lambda: nn.InstanceNorm2d(4), 3, 4, 5, 5),
    "LocalResponseNorm": of(lambda: nn.LocalResponseNorm(2), 3, 4, 5, 5),
    "Conv1d": of(lambda: nn.Conv1d(4, 6, 3, dilation=2), 3, 4, 9, axes=((0, 0), (0, 2))),
    "Conv2d": of(lambda: nn.Conv2d(4, 8, 3, groups=2, stride=2), 3, 4, 9, 9),
    "Conv2d same": of(lambda: nn.Conv2d(4, 8, 4, padding="same"), 3, 4, 9, 9),
    "Conv3d": of(lambda: nn.Conv3d(2, 3, 3), 3, 2, 5, 5, 5),
    "ConvTranspose1d": of(lambda: nn.ConvTranspose1d(4, 3, 3, stride=2, output_padding=1), 3, 4, 5),
    "ConvTranspose2d": of(lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), 3, 4, 5, 5),
    "MaxPool1d": of(lambda: nn.MaxPool1d(2), 3, 4, 8),
    "MaxPool2d": of(lambda: nn.MaxPool2d(3, 2, 1), 3, 4, 8, 8),
    "MaxPool3d": of(lambda: nn.MaxPool3d(2), 3, 4, 4, 4, 4),
    "AvgPool1d": of(lambda: nn.AvgPool1d(2), 3, 4, 8),
    "AvgPool2d": of(lambda: nn.AvgPool2d(3, 2, 1), 3, 4, 8, 8),
    "LPPool2d": of(lambda: nn.LPPool2d(2, 2), 3, 4, 8, 8),
    "AdaptiveAvgPool1d": of(lambda: nn.AdaptiveAvgPool1d(3), 3, 4, 8),
    "AdaptiveAvgPool2d": of(lambda: nn.AdaptiveAvgPool2d(2), 3, 4, 8, 8),
    "AdaptiveMaxPool2d": of(lambda: nn.AdaptiveMaxPool2d(2), 3, 4, 8, 8),
    "ZeroPad2d": of(lambda: nn.ZeroPad2d(1), 3, 4, 5, 5),
    "ConstantPad1d": of(lambda: nn.ConstantPad1d((1, 2), 0.5), 3, 4, 5),
    "ReflectionPad2d": of(lambda: nn.ReflectionPad2d(1), 3, 4, 5, 5),
    "ReplicationPad2d": of(lambda: nn.ReplicationPad2d(1), 3, 4, 5, 5),
    "CircularPad2d": of(lambda: nn.CircularPad2d(1), 3, 4, 5, 5),
    "Upsample nearest": of(lambda: nn.Upsample(scale_factor=2), 3, 4, 5, 5),
    "Upsample bilinear": of(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), 3, 4, 5, 5),
    "Upsample corners": of(lambda: nn.Upsample(size=(9, 7), mode="bilinear", align_corners=True), 3, 4, 5, 5),
    "Upsample bicubic": of(lambda: nn.Upsample(scale_factor=2, mode="bicubic"), 3, 4, 5, 5),
    "PixelShuffle": of(lambda: nn.PixelShuffle(2), 3, 4, 5, 5),
    "PixelUnshuffle": of(lambda: nn.PixelUnshuffle(2), 3, 4, 4, 4),
    "ChannelShuffle": of(lambda: nn.ChannelShuffle(2), 3, 4, 4, 4),
    "Flatten": of(nn.Flatten, 3, 4, 5),
    "Unflatten": of(lambda: nn.Unflatten(1, (2, 4)), 3, 8),
    "RNN": of(lambda: nn.RNN(4, 6, 2, batch_first=True, nonlinearity="relu"), 2, 5, 4, axes=((0, 0), (0, 1))),
    "LSTM": of(lambda: nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), 2, 5, 4, axes=((0, 0), (0, 1))),
    "LSTM with projection of time first": of(lambda: nn.LSTM(4, 6), 5, 2, 4, axes=((0, 0), (0, 1))),
    "GRU": of(lambda: nn.GRU(4, 6, batch_first=True, bidirectional=True, bias=False), 2, 5, 4, axes=((0, 0), (0, 1))),
    "LSTMCell": of(lambda: nn.LSTMCell(4, 6), 3, 4),
    "GRUCell": of(lambda: nn.GRUCell(4, 6), 3, 4),
    "RNNCell": of(lambda: nn.RNNCell(4, 6), 3, 4),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        lambda: (torch.randn(2, 5, 8),) * 3,
        {(number, axis): f"n{axis}" for number in range(3) for axis in range(2)},
    ),
    "TransformerEncoderLayer": of(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, 5, 8, axes=((0, 0), (0, 1))),
    "TransformerEncoder": of(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True), 2), 2, 5, 8, axes=((0, 0), (0, 1))
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        lambda: (torch.randn(2, 5, 8), torch.randn(2, 7, 8)),
        {(0, 0): "n", (1, 0): "n", (0, 1): "t", (1, 1): "s"},
    ),
    "GPT": (LanguageModel, lambda: (tokens(2, 5),), {(0, 0): "n", (0, 1): "t"}),
    "LSTM by hand": of(HandMade, 2, 5, 4),
    "causal mask": of(Causal, 2, 5, 8, axes=((0, 0), (0, 1))),
    "mean over lengths": (MaskedMean, lambda: (torch.randn(3, 5, 4), torch.tensor([5, 2, 3])), {(0, 0): "n", (1, 0): "n", (0, 1): "t"}),
    "LeNet": of(lenet, 2, 1, 28, 28),
    "residual convolutions": of(convnet, 2, 3, 12, 12),
}  # fmt: skip
# Of padded rows and lengths, of which one is as long as the padded ones.
WITH_LENGTHS = {
    "LSTM of rows of lengths": (
        lambda: WithLengths(nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)),
        lambda: (torch.randn(3, 5, 4), torch.tensor([5, 2, 3])),
        {(0, 0): "n", (1, 0): "n", (0, 1): "t"},
    ),
    "GRU of rows of lengths": (
        lambda: WithLengths(nn.GRU(4, 6, 2, batch_first=True, bidirectional=True)),
        lambda: (torch.randn(3, 5, 4), torch.tensor([5, 2, 3])),
        {(0, 0): "n", (1, 0): "n", (0, 1): "t"},
    ),
    "RNN of rows of lengths": (
        lambda: WithLengths(nn.RNN(4, 6, 2, batch_first=True, bidirectional=True)),
        lambda: (torch.randn(3, 5, 4), torch.tensor([5, 2, 3])),
        {(0, 0): "n", (1, 0): "n", (0, 1): "t"},
    ),
    "last state of rows of lengths": (
        LastState, lambda: (tokens(3, 6), torch.tensor([2, 6, 1])), {(0, 0): "n", (1, 0): "n", (0, 1): "t"},
    ),
    "packed and padded": (Packed, lambda: (torch.randn(5, 3, 4), torch.tensor([5, 4, 1])), {(0, 1): "n", (1, 0): "n", (0, 0): "t"}),
}  # fmt: skip
