"""A Transformer language model with attention of one's own, and generation by sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import Tensor, nn


@dataclass(frozen=True)
class Config:
    vocabulary: int
    context: int = 16
    width: int = 16
    heads: int = 2
    layers: int = 2
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    mask: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.project = nn.Linear(config.width, config.width)
        self.register_buffer("mask", torch.tril(torch.ones(config.context, config.context, dtype=torch.bool)))

    def forward(self, x: Tensor, fused: bool = True) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        if fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(~self.mask[:time, :time], float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        return self.project(y.transpose(1, 2).contiguous().view(batch, time, width))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        for _ in range(count):
            logits, _ = self(tokens[:, -self.config.context :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                kept, _ = torch.topk(logits, top_k)
                logits[logits < kept[:, [-1]]] = -float("inf")
            following = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            tokens = torch.cat((tokens, following), dim=1)
        return tokens


def main() -> float:
    torch.manual_seed(0)
    text = "to be or not to be that is the question "
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text], dtype=torch.int64)
    model = LanguageModel(Config(len(letters)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    value = 0.0
    for _ in range(3):
        starts = torch.randint(0, len(data) - 9, (4,)).tolist()
        x = torch.stack([data[i : i + 8] for i in starts])
        y = torch.stack([data[i + 1 : i + 9] for i in starts])
        _, loss = model(x, y)
        assert loss is not None
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value = loss.item()
    written: list[int] = model.generate(data[None, :4], 5, temperature=0.8, top_k=5)[0].tolist()
    attention = model.blocks[0]
    assert isinstance(attention, Block)
    same = torch.allclose(
        attention.attention(torch.ones(1, 4, 16)), attention.attention(torch.ones(1, 4, 16), fused=False), atol=1e-5
    )
    assert same and len("".join(letters[i] for i in written)) == 9
    return value


if __name__ == "__main__":
    print(main())
