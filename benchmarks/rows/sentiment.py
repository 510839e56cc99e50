"""A sentence classifier's training step: the product's own example, on made-up sentences with the lengths of real ones.

Lengths are like those of rt-polarity (1 to 59 words, median 20, standard deviation 9.4), words are drawn with Zipf's frequencies.
Each step takes the next of eight batches, so that the longest sentence differs from step to step, as it does in use.
"""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, row, train_on

VOCABULARY = 10_000
EMBEDDING = 100
HIDDEN = 128
CLASSES = 2
LONGEST = 59
BATCHES = 8


def sentences(random, batch):
    """Tokens (batch, longest) padded with 0, lengths (batch,), labels (batch,)."""
    lengths = numpy.clip(numpy.rint(random.normal(20.5, 9.5, batch)), 1, LONGEST).astype(numpy.int64)
    words = numpy.exp(random.uniform(0, numpy.log(VOCABULARY), (batch, lengths.max()))).astype(numpy.int64)
    words[numpy.arange(lengths.max()) >= lengths[:, None]] = 0
    return words, lengths, random.integers(0, CLASSES, batch)


def classifier(torch):
    nn = torch.nn
    rnn = torch.nn.utils.rnn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, EMBEDDING, padding_idx=0)
            self.lstm = nn.LSTM(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
            self.linear = nn.Linear(2 * HIDDEN, CLASSES)

        def packed(self, words, lengths):
            """Scores from the last state of each direction."""
            x = rnn.pack_padded_sequence(self.embedding(words), lengths, batch_first=True, enforce_sorted=False)
            _, (hidden, _) = self.lstm(x)
            return self.linear(torch.cat([hidden[-2], hidden[-1]], dim=1))

        def padded(self, words, lengths):
            """Scores from the mean state over each sentence's own words."""
            output, _ = self.lstm(self.embedding(words))
            mask = (torch.arange(words.shape[1])[None, :] < lengths[:, None]).unsqueeze(-1)
            return self.linear((output * mask).sum(1) / lengths.unsqueeze(1))

    model = Classifier()
    fill(torch, model)
    return model


def training(torch, batch, form):
    random = generator(7)
    batches = [[torch.from_numpy(part) for part in sentences(random, batch)] for _ in range(BATCHES)]
    model = classifier(torch)
    scores = getattr(model, form)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(words, lengths, labels):
        return torch.nn.functional.cross_entropy(scores(words, lengths), labels)

    return train_on(batches, loss_of, optimizer, model.parameters())


row("sentiment")(lambda torch: training(torch, 64, "packed"))
row("sentiment.padded")(lambda torch: training(torch, 64, "padded"))
row("sentiment.batch8")(lambda torch: training(torch, 8, "packed"))
