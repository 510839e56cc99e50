"""A classifier with its training loop."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import Tensor, nn
from dynograd.utils.data import DataLoader, Dataset


@dataclass
class Options:
    hidden: int = 32
    lr: float = 1e-2
    epochs: int = 2
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32


class Points(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, count: int, generator: torch.Generator | None = None) -> None:
        self.x = torch.randn(count, 4, generator=generator)
        self.y = (self.x.sum(dim=1) > 0).long()

    def __len__(self) -> int:
        return self.x.shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


class Classifier(nn.Module):
    weight: Tensor

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.blocks = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(2)])
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(p=0.1)
        self.last = nn.Linear(hidden, classes, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("weight", torch.ones(classes))

    def forward(self, x: Tensor, train: bool = True) -> Tensor:
        h = F.relu(self.first(x))
        for block in self.blocks:
            h = h + F.gelu(block(h))
        h = self.dropout(self.norm(h))
        logits: Tensor = self.last(h) * self.scale
        return logits


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], device: torch.device) -> float:
    model.eval()
    right, count = 0, 0
    for x, y in loader:
        predicted = model(x.to(device)).argmax(dim=-1)
        right += int((predicted == y.to(device)).sum().item())
        count += y.size(0)
    model.train()
    return right / count


def batches(loader: DataLoader[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in loader:
        x, y = batch
        yield x, y


def train(options: Options) -> float:
    generator = torch.Generator().manual_seed(0)
    data = Points(64, generator)
    loader = DataLoader(data, batch_size=16, shuffle=True, generator=generator, num_workers=0)
    model = Classifier(4, options.hidden, 2).to(options.device)
    criterion = nn.CrossEntropyLoss(weight=model.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr, betas=(0.9, 0.99))
    for epoch in range(options.epochs):
        total = 0.0
        for x, y in batches(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            total += loss.item() * x.shape[0]
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        print(f"epoch {epoch}: {total / len(data):.3f}")
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.shape == parameter.shape, name
    return accuracy(model, loader, options.device)


def save(model: nn.Module, path: Path) -> None:
    torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path))


def main(epochs: int = 1) -> float:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=epochs)
    arguments = parser.parse_args([])
    return train(Options(epochs=arguments.epochs))


if __name__ == "__main__":
    main()
