"""A transformer that models characters: masks, positions, generation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import Tensor, nn

Activation = Literal["relu", "gelu"]


@dataclass(frozen=True)
class Config:
    words: int = 16
    size: int = 16
    heads: int = 2
    depth: int = 2
    context: int = 8
    dropout: float = 0.0
    activation: Activation = "gelu"


class Attention(nn.Module):
    mask: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.project = nn.Linear(config.size, 3 * config.size)
        self.out = nn.Linear(config.size, config.size)
        mask = torch.tril(torch.ones(config.context, config.context)).bool()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, size = x.shape
        q, k, v = self.project(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(size // self.heads)
        scores = scores.masked_fill(~self.mask[:time, :time], -torch.inf)
        mixed = torch.einsum("bhqk,bhkd->bhqd", F.softmax(scores, dim=-1), v)
        fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert torch.allclose(mixed, fused, atol=1e-5)
        return self.out(mixed.transpose(1, 2).reshape(batch, time, size))


class LanguageModel(nn.Module):
    positions: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.words, config.size)
        self.register_buffer("positions", sinusoids(config.context, config.size), persistent=False)
        self.attention = nn.ModuleList([Attention(config) for _ in range(config.depth)])
        activation: nn.Module = nn.GELU() if config.activation == "gelu" else nn.ReLU()
        self.feed = nn.Sequential(
            nn.Linear(config.size, 4 * config.size), activation, nn.Linear(4 * config.size, config.size)
        )
        self.norm = nn.LayerNorm(config.size, eps=1e-5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions[: tokens.size(1)]
        for layer in self.attention:
            x = x + layer(self.norm(x))
        x = x + self.feed(self.norm(x))
        return F.linear(x, self.words.weight)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.reshape(-1), ignore_index=-1)

    @torch.inference_mode()
    def generate(self, tokens: Tensor, count: int, *, temperature: float = 1.0, top: int | None = None) -> Tensor:
        for _ in range(count):
            logits = self(tokens[:, -self.config.context :])[:, -1] / temperature
            if top is not None:
                values, _ = torch.topk(logits, k=top)
                logits = torch.where(logits < values[:, [-1]], torch.tensor(-math.inf), logits)
            chosen = torch.multinomial(logits.softmax(dim=-1), num_samples=1)
            tokens = torch.cat([tokens, chosen], dim=1)
        return tokens


def sinusoids(length: int, size: int) -> Tensor:
    places = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rates = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
    table = torch.zeros(length, size)
    table[:, 0::2] = torch.sin(places * rates)
    table[:, 1::2] = torch.cos(places * rates)
    return table


def warmed(step: int) -> float:
    return min(1.0, (step + 1) / 2)


def main(steps: int = 3) -> float:
    torch.manual_seed(0)
    config = Config()
    model = LanguageModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=warmed)
    text = torch.randint(0, config.words, (4, config.context + 1))
    total = 0.0
    for _ in range(steps):
        loss = model.loss(text[:, :-1], text[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    written = model.generate(text[:1, :2], count=3, temperature=0.8, top=4)
    checkpoint: dict[str, Any] = {"model": model.state_dict(), "config": asdict(config), "steps": steps}
    assert written.size(1) == 5 and checkpoint["steps"] == steps
    return total / steps


if __name__ == "__main__":
    main()
