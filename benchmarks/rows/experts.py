"""A mixture of experts: each token goes to two of four small networks, chosen by its values, so that each step has other numbers of rows."""

from __future__ import annotations

from benchmarks.workload import fill, generator, normal, row, train_on

TOKENS, WIDTH, INNER, EXPERTS, CHOSEN, BATCHES = 256, 64, 128, 4, 2, 16


def training(torch):
    """A layer with a residual connection in front of a linear one, 256 tokens a step, AdamW."""
    nn, F = torch.nn, torch.nn.functional

    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(WIDTH, EXPERTS)
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH)) for _ in range(EXPERTS)]
            )

        def forward(self, tokens):
            weights, chosen = self.gate(tokens).softmax(-1).topk(CHOSEN, -1)
            mixed = torch.zeros_like(tokens)
            for number, expert in enumerate(self.experts):
                rows, places = torch.where(chosen == number)
                mixed = mixed.index_add(0, rows, expert(tokens[rows]) * weights[rows, places, None])
            return tokens + mixed

    model = nn.Sequential(Mixture(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10))
    fill(torch, model)
    random = generator(31)
    batches = [
        (torch.from_numpy(normal(random, TOKENS, WIDTH)), torch.from_numpy(random.integers(0, 10, TOKENS)))
        for _ in range(BATCHES)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return train_on(batches, lambda x, labels: F.cross_entropy(model(x), labels), optimizer, model.parameters())


row("moe")(training)
