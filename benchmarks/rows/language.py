"""Language models: an LSTM over characters, and a GPT over bytes."""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, row, train_on

CHARACTERS = 100
BYTES = 256
LAYERS = 4
FEATURES = 256
HEADS = 4
TIME = 128


def text(torch, random, vocabulary, batch, time):
    """Symbols (batch, time) and the symbols that follow each of them."""
    symbols = random.integers(0, vocabulary, (batch, time + 1))
    return torch.from_numpy(symbols[:, :-1].copy()), torch.from_numpy(symbols[:, 1:].copy())


def training(torch, model, optimizer, vocabulary, batch, *times):
    """Forward, cross_entropy over all symbols, backward, the optimizer's step; a batch for each of the times."""
    fill(torch, model)
    cross_entropy = torch.nn.functional.cross_entropy

    def loss_of(x, y):
        return cross_entropy(model(x).flatten(0, 1), y.flatten())

    batches = [text(torch, generator(9), vocabulary, batch, time) for time in times]
    return train_on(batches, loss_of, optimizer(model.parameters(), lr=1e-3), model.parameters())


@row("lstm.characters")
def characters(torch):
    """Embedding of 128, LSTM of 256, Linear over 100 characters; batch 32, 64 steps, Adam."""
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(CHARACTERS, 128)
            self.lstm = nn.LSTM(128, 256, batch_first=True)
            self.linear = nn.Linear(256, CHARACTERS)

        def forward(self, x):
            y, _ = self.lstm(self.embedding(x))
            return self.linear(y)

    return training(torch, Model(), torch.optim.Adam, CHARACTERS, 32, 64)


@row("gpt")
def gpt(torch):
    """Four pre-norm layers of 256 features, 4 heads, causal attention, GELU; batch 8 of 128 bytes, AdamW."""
    return blocks(torch, LAYERS, FEATURES, 8, TIME)


@row("gpt.small")
def small_gpt(torch):
    """The same of three layers of 128 features; batch 4 of 64 bytes."""
    return blocks(torch, 3, 128, 4, 64)


@row("gpt.lengths")
def lengths(torch):
    """The same of two layers of 64 features; batch 4, of 30 lengths from 10 to 60 bytes, another one in each step."""
    times = generator(10).permutation(numpy.arange(10, 61))[:28].tolist()
    return blocks(torch, 2, 64, 4, 10, 60, *times)


def blocks(torch, layers, features, batch, *times):
    """Its training, on a batch of each of the times."""
    return training(
        torch, gpt_model(torch, layers, features, batch, max(times)), torch.optim.AdamW, BYTES, batch, *times
    )


def gpt_model(torch, layers, features, batch, longest):
    """Layers of attention over bytes, as in GPT-2."""
    nn = torch.nn
    functional = nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(features)
            self.attention = nn.Linear(features, 3 * features)
            self.merge = nn.Linear(features, features)
            self.norm2 = nn.LayerNorm(features)
            self.widen = nn.Linear(features, 4 * features)
            self.narrow = nn.Linear(4 * features, features)

        def forward(self, x):
            split = self.attention(self.norm1(x)).view(batch, x.shape[1], 3, HEADS, features // HEADS)
            q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.merge(y.transpose(1, 2).reshape(batch, x.shape[1], features))
            return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(BYTES, features)
            self.positions = nn.Parameter(torch.zeros(longest, features))
            self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
            self.norm = nn.LayerNorm(features)
            self.linear = nn.Linear(features, BYTES, bias=False)

        def forward(self, x):
            return self.linear(self.norm(self.layers(self.embedding(x) + self.positions[: x.shape[1]])))

    return Model()
