"""Sentences of different lengths without padding: ragged tensors through embedding, attention and pooling."""

from __future__ import annotations

import math

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import RaggedTensor, Tensor, nn
from dynograd.data import BucketBatchSampler, DataLoader, collate_ragged


class Block(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        if size % heads:
            raise ValueError(f"size {size} is no multiple of heads {heads}")
        self.norm = nn.LayerNorm(size)
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        attended, _ = self.attention(y, y, y, need_weights=False)
        x = x + attended
        return x + self.feed(self.norm(x))


class Encoder(nn.Module):
    def __init__(self, words: int, size: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.blocks = nn.ModuleList(Block(size, 2) for _ in range(depth))
        self.scale = math.sqrt(size)
        self.out = nn.Linear(size, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        pooled = x.mean(dim=1)
        return F.log_softmax(self.out(pooled), dim=-1)


def sentences(count: int) -> list[tuple[Tensor, int]]:
    generator = torch.Generator()
    generator.manual_seed(1)
    return [(torch.randint(1, 20, (2 + i % 5,), generator=generator), i % 2) for i in range(count)]


def lengths_of(rows: list[tuple[Tensor, int]]) -> list[int]:
    return [len(words) for words, _ in rows]


def describe(x: RaggedTensor) -> str:
    padded = x.to_padded(0)
    return f"{tuple(padded.shape)} {x.lengths().tolist()} {x.values().numel()}"


def main(steps: int = 3) -> float:
    torch.manual_seed(0)
    rows = sentences(8)
    sampler = BucketBatchSampler(lengths_of(rows), batch_size=4, shuffle=True)
    loader = DataLoader(rows, batch_sampler=sampler, collate_fn=collate_ragged)
    model = Encoder(words=20)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    last = math.inf
    for _ in range(steps):
        for tokens, labels in loader:
            loss = F.nll_loss(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            last = float(loss)
    batch = torch.ragged_tensor([[1, 2, 3], [4]])
    again = torch.ragged_from_padded(batch.to_padded(0), lengths=[3, 1])
    assert torch.is_ragged(again) and describe(batch) == describe(again)
    return last


if __name__ == "__main__":
    main()
