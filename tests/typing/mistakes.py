"""Mistakes that a type checker should find, each on a line that ends with `# mistake`. Never run.

The file reads the same with `import torch`, so that what is found with PyTorch's own types can be counted beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import Tensor, nn
from dynograd.autograd import Function
from dynograd.optim.lr_scheduler import CosineAnnealingLR, StepLR
from dynograd.utils.data import DataLoader, Dataset

x = torch.randn(4, 3)
y = torch.zeros(4, dtype=torch.long)


class Model(nn.Module):
    def __init__(self, size: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layer = nn.Linear(3, size)
        self.out = nn.Linear(size, 2)
        self.size = size

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.out(F.relu(self.layer(x))) * scale


class Pairs(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.ones(3), index


model = Model(8)


def names() -> None:
    torch.sofmax(x, dim=1)  # mistake
    torch.randm(3)  # mistake
    x.sofmax(1)  # mistake
    x.unsqueze(0)  # mistake
    x.shapes  # mistake
    nn.Liner(3, 4)  # mistake
    nn.CrossEntropy()  # mistake
    F.crossentropy(x, y)  # mistake
    torch.optim.Addam(model.parameters())  # mistake
    torch.flaot32  # mistake
    torch.linalg.slove(x, x)  # mistake
    torch.fft.fast(x)  # mistake
    nn.utils.clip_grad_nrom_(model.parameters(), 1.0)  # mistake
    nn.init.xavier(model.layer.weight)  # mistake
    torch.cuda.is_avaliable()  # mistake


def keywords() -> None:
    torch.sum(x, dims=1)  # mistake
    x.mean(dim=1, keep_dims=True)  # mistake
    torch.zeros(3, types=torch.float32)  # mistake
    nn.Linear(3, 4, biases=False)  # mistake
    nn.Conv2d(3, 8, kernel=3)  # mistake
    nn.LSTM(3, 4, bidirect=True)  # mistake
    F.cross_entropy(x, y, reduce_by="sum")  # mistake
    torch.optim.Adam(model.parameters(), learning_rate=0.1)  # mistake
    DataLoader(Pairs(), batchsize=2)  # mistake
    torch.cat([x, x], dims=0)  # mistake
    F.dropout(x, probability=0.5)  # mistake
    nn.Embedding(3, 4, padding=0)  # mistake
    StepLR(torch.optim.SGD(model.parameters(), lr=0.1), step=3)  # mistake
    torch.save({"model": 1}, "file", overwrite=True)  # mistake
    model(x, scales=2.0)  # mistake


def types() -> None:
    torch.softmax(x, dim="last")  # mistake
    x.sum("1")  # mistake
    x.view("4", 3)  # mistake
    x + "one"  # mistake
    x @ 3  # mistake
    torch.zeros("3")  # mistake
    torch.zeros(3, dtype="float32")  # mistake
    torch.stack(x, "0")  # mistake
    torch.relu([1.0, 2.0])  # mistake
    nn.Linear("3", 4)  # mistake
    nn.Dropout("half")  # mistake
    nn.LayerNorm(3, eps="small")  # mistake
    F.linear(x, [[1.0]])  # mistake
    F.nll_loss(x, y, reduction=1)  # mistake
    torch.arange(3).reshape(3, 1.5)  # mistake
    torch.optim.SGD(model.parameters(), lr="fast")  # mistake
    DataLoader(Pairs(), batch_size="large")  # mistake
    Model("8")  # mistake
    model("x")  # mistake
    model.train("yes")  # mistake
    x.requires_grad_("yes")  # mistake
    torch.manual_seed("seed")  # mistake
    torch.where(x > 0, x, "zero")  # mistake
    x.transpose("0", 1)  # mistake
    torch.topk(x, k="two")  # mistake
    nn.Sequential(nn.Linear(3, 4), F.relu)  # mistake
    nn.utils.clip_grad_norm_(model.parameters(), "one")  # mistake
    x[0, "a"]  # mistake


def missing() -> None:
    torch.cat()  # mistake
    torch.gather(x, 1)  # mistake
    x.transpose(0)  # mistake
    x.topk()  # mistake
    nn.Linear(3)  # mistake
    nn.Conv2d(3, 8)  # mistake
    nn.Embedding(10)  # mistake
    F.cross_entropy(x)  # mistake
    F.linear(x)  # mistake
    torch.optim.Adam()  # mistake
    CosineAnnealingLR(torch.optim.SGD(model.parameters(), lr=0.1))  # mistake
    model()  # mistake
    model(x, 1.0, 2.0)  # mistake
    torch.full((3,))  # mistake
    x.masked_fill(x > 0)  # mistake


def length(rows: Tensor) -> str:
    return rows.shape[0]  # mistake


def total(rows: Tensor) -> float:
    return rows.sum()  # mistake


def biggest(rows: Tensor) -> Tensor:
    return rows.max(dim=1)  # mistake


def halves(rows: Tensor) -> list[Tensor]:
    return rows.split(2)  # mistake


def device_of(rows: Tensor) -> str:
    return rows.device  # mistake


def kind(rows: Tensor) -> str:
    return rows.dtype  # mistake


def predicted(rows: Tensor) -> int:
    return model(rows)  # mistake


def hidden(rows: Tensor) -> str:
    return model.layer(rows)  # mistake


def weights() -> Iterator[str]:
    yield from model.parameters()  # mistake


def others() -> None:
    values, places, more = x.sort(dim=1)  # mistake
    print(x.max(dim=0).value)  # mistake
    x.shape = (3, 4)  # mistake
    model.layer.in_features.item()  # mistake
    model(x).foward()  # mistake
    torch.no_grad(x + 1, 2)  # mistake
    for name, parameter in model.parameters():
        print(name.upper(), parameter)  # mistake
    x.grad.zero_()  # mistake
    loader: DataLoader[str] = DataLoader(Pairs())  # mistake
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grads()  # mistake
    optimizer.step(3)  # mistake
    print(loader)


class Wrong(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(3, 3), 5])  # mistake

    def forward(self, x: Tensor) -> Tensor:
        return x.shape  # mistake


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.pow("3")  # mistake

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.item("x")  # mistake
