"""Sentences whose lengths differ so that a padded batch is 80 % padding, and sentences of one length: ragged tensors beside padded ones.

`ragged.*` rows compare dynograd's ragged tensors with what a PyTorch program does (padding and masks, or packed sequences); `*.padded` and
`*.dense` rows run the padded program on either side. Losses are means over real tokens on both, so that results agree.
"""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, normal, row, train_on

VOCABULARY = 2_000
CLASSES = 10
BATCH = 32
LONGEST = 160


def uneven(random):
    """32 lengths that are a fifth of the longest on average."""
    lengths = numpy.rint(numpy.exp(random.normal(numpy.log(24), 0.6, BATCH))).astype(numpy.int64)
    lengths = numpy.clip(lengths, 3, LONGEST)
    lengths[5] = LONGEST
    return lengths


def even(random):
    return numpy.full(BATCH, 64)


def batches_of(torch, draw, ragged, features=0):
    """[(tokens or vectors, mask of padding, labels)], the same numbers in every form; ragged ones without a mask."""
    random = generator(21)
    batches = []
    for _ in range(2):
        lengths = draw(random)
        total = int(lengths.sum())
        values = normal(random, total, features) if features else random.integers(1, VOCABULARY, total)
        labels = random.integers(0, CLASSES, total)
        if ragged and hasattr(torch, "ragged_tensor"):
            offsets = torch.from_numpy(numpy.concatenate([[0], numpy.cumsum(lengths)]))
            x, y = (torch.RaggedTensor(torch.from_numpy(array), offsets=offsets) for array in (values, labels))
            batches.append((x, None, y))
            continue
        real = numpy.arange(lengths.max()) < lengths[:, None]
        x = numpy.zeros((*real.shape, *values.shape[1:]), values.dtype)
        y = numpy.full(real.shape, -100)
        x[real], y[real] = values, labels
        batches.append((torch.from_numpy(x), None if real.all() else torch.from_numpy(~real), torch.from_numpy(y)))
    return batches


def transformer(torch, draw, ragged):
    """Embedding, two encoder layers of 128 features and 4 heads, a score for each token; cross_entropy, AdamW."""
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 128)
            layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.linear = nn.Linear(128, CLASSES)

        def forward(self, tokens, padding):
            return self.linear(self.encoder(self.embedding(tokens), src_key_padding_mask=padding))

    return tagging(torch, Tagger(), batches_of(torch, draw, ragged))


def bilstm(torch, draw, form):
    """Two bidirectional layers of 128 units on vectors of 128 features, a score for each token; cross_entropy, AdamW."""
    nn = torch.nn
    rnn = nn.utils.rnn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(128, 128, 2, bidirectional=True, batch_first=True)
            self.linear = nn.Linear(256, CLASSES)

        def forward(self, x, padding):
            if padding is None or form == "padded":
                return self.linear(self.lstm(x)[0])
            lengths = (~padding).sum(1).cpu()
            packed, _ = self.lstm(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
            return self.linear(rnn.pad_packed_sequence(packed, batch_first=True)[0])

    return tagging(torch, Tagger(), batches_of(torch, draw, form == "ragged", 128))


def tagging(torch, model, batches):
    fill(torch, model)
    cross_entropy = torch.nn.functional.cross_entropy

    def loss_of(x, padding, labels):
        scores = model(x, padding)
        if padding is None and hasattr(scores, "partition"):
            return cross_entropy(scores, labels)
        return cross_entropy(scores.flatten(0, 1), labels.flatten())

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return train_on(batches, loss_of, optimizer, model.parameters())


row("ragged.transformer", compiles="dynograd")(lambda torch: transformer(torch, uneven, True))
row("ragged.transformer.padded", compiles="dynograd")(lambda torch: transformer(torch, uneven, False))
row("ragged.transformer.even", compiles="dynograd")(lambda torch: transformer(torch, even, True))
row("ragged.transformer.even.dense", compiles="dynograd")(lambda torch: transformer(torch, even, False))
row("ragged.bilstm", compiles="dynograd")(lambda torch: bilstm(torch, uneven, "ragged"))
row("ragged.bilstm.packed", compiles="dynograd")(lambda torch: bilstm(torch, uneven, "packed"))
row("ragged.bilstm.even", compiles="dynograd")(lambda torch: bilstm(torch, even, "ragged"))
row("ragged.bilstm.even.dense", compiles="dynograd")(lambda torch: bilstm(torch, even, "padded"))
