"""Classifiers of sequences whose lengths differ widely: 5 to 200 with a median of 35, so that padding is two thirds of a batch."""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, row, train_on

VOCABULARY = 5_000
EMBEDDING = 128
CLASSES = 5
BATCH = 32
SHORTEST = 5
LONGEST = 200
BATCHES = 4


def sequences(random):
    """Tokens (batch, longest) padded with 0, lengths (batch,), labels (batch,)."""
    lengths = numpy.rint(numpy.exp(random.normal(numpy.log(35), 0.7, BATCH)))
    lengths = numpy.clip(lengths, SHORTEST, LONGEST).astype(numpy.int64)
    tokens = random.integers(1, VOCABULARY, (BATCH, lengths.max()))
    tokens[numpy.arange(lengths.max()) >= lengths[:, None]] = 0
    return tokens, lengths, random.integers(0, CLASSES, BATCH)


def classifier(torch, kind, hidden, bidirectional, form):
    """Embedding, one recurrent layer, Linear; `forward` packs or pads."""
    nn = torch.nn
    rnn = nn.utils.rnn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, EMBEDDING, padding_idx=0)
            self.layer = kind(EMBEDDING, hidden, batch_first=True, bidirectional=bidirectional)
            self.linear = nn.Linear(hidden * (2 if bidirectional else 1), CLASSES)

        def packed(self, tokens, lengths):
            """Scores from the last state of each direction."""
            x = rnn.pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
            _, state = self.layer(x)
            last = state[0] if isinstance(state, tuple) else state
            return self.linear(torch.cat([last[0], last[1]], dim=1) if bidirectional else last[0])

        def padded(self, tokens, lengths):
            """Scores from the mean state over each sequence's own steps."""
            output, _ = self.layer(self.embedding(tokens))
            mask = (torch.arange(tokens.shape[1])[None, :] < lengths[:, None]).unsqueeze(-1)
            return self.linear((output * mask).sum(1) / lengths.unsqueeze(1))

        forward = {"packed": packed, "padded": padded}[form]

    return Model()


def training(torch, kind, hidden, bidirectional, form):
    """A classifier with cross_entropy and Adam."""
    nn = torch.nn
    model = classifier(torch, kind, hidden, bidirectional, form)
    fill(torch, model)
    random = generator(11)
    batches = [[torch.from_numpy(part) for part in sequences(random)] for _ in range(BATCHES)]

    def loss_of(tokens, lengths, labels):
        return nn.functional.cross_entropy(model(tokens, lengths), labels)

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return train_on(batches, loss_of, optimizer, model.parameters())


row("varlen.bilstm")(lambda torch: training(torch, torch.nn.LSTM, 128, True, "packed"))
row("varlen.bilstm.padded")(lambda torch: training(torch, torch.nn.LSTM, 128, True, "padded"))
row("varlen.gru")(lambda torch: training(torch, torch.nn.GRU, 256, False, "packed"))
