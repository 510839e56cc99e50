"""A tagger's last layer: the likelihood of tags under a linear-chain CRF. PyTorch has none: there it is the usual loop over time."""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, normal, row, train_on

BATCH = 32
LONGEST = 50


def looped(torch):
    """A CRF written with PyTorch's ops, vectorised over the batch: a logsumexp over (B, K, K) for each step."""
    nn = torch.nn

    class LoopedCRF(nn.Module):
        def __init__(self, tags):
            super().__init__()
            self.start_transitions = nn.Parameter(torch.empty(tags))
            self.end_transitions = nn.Parameter(torch.empty(tags))
            self.transitions = nn.Parameter(torch.empty(tags, tags))

        def forward(self, emissions, tags, lengths):
            emissions, tags = emissions.transpose(0, 1), tags.transpose(0, 1)
            steps, batch, _ = emissions.shape
            rows = torch.arange(batch)
            alive = torch.arange(steps)[:, None] < lengths
            scores = self.start_transitions[tags[0]] + emissions[0, rows, tags[0]]
            level = self.start_transitions + emissions[0]
            for t in range(1, steps):
                moved = self.transitions[tags[t - 1], tags[t]] + emissions[t, rows, tags[t]]
                scores = torch.where(alive[t], scores + moved, scores)
                new = torch.logsumexp(level[:, :, None] + self.transitions, 1) + emissions[t]
                level = torch.where(alive[t][:, None], new, level)
            scores = scores + self.end_transitions[tags[lengths - 1, rows]]
            return (scores - torch.logsumexp(level + self.end_transitions, 1)).sum()

    return LoopedCRF


def training(torch, tag_count):
    """Linear layer and CRF on 32 sequences of 5 to 50 steps."""
    nn = torch.nn
    random = generator(21)
    lengths = random.integers(5, LONGEST + 1, BATCH)
    lengths[0] = LONGEST
    x = torch.from_numpy(normal(random, BATCH, LONGEST, 64))
    tags = torch.from_numpy(random.integers(0, tag_count, (BATCH, LONGEST)))
    own = hasattr(nn, "CRF")
    layer = nn.Linear(64, tag_count)
    crf = nn.CRF(tag_count, batch_first=True) if own else looped(torch)(tag_count)
    model = nn.ModuleList([layer, crf])
    fill(torch, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x, tags, lengths):
        emissions = layer(x)
        return -(crf(emissions, tags, lengths=lengths) if own else crf(emissions, tags, lengths)) / float(BATCH)

    return train_on([(x, tags, torch.from_numpy(lengths.astype(numpy.int64)))], loss_of, optimizer, model.parameters())


row("crf")(lambda torch: training(torch, 20))
row("crf.100tags")(lambda torch: training(torch, 100))
