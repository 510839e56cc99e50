"""A recursive model on trees, batched automatically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import dynograd as torch
from dynograd import Tensor, nn


@dataclass
class Tree:
    word: int = 0
    children: list[Tree] = field(default_factory=list["Tree"])
    label: int = 0

    def walk(self) -> Iterator[Tree]:
        for child in self.children:
            yield from child.walk()
        yield self

    @property
    def depth(self) -> int:
        return 1 + max((child.depth for child in self.children), default=0)


class TreeModel(nn.Module):
    def __init__(self, words: int, size: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.combine = nn.Linear(2 * size, size)
        self.gate = nn.Linear(size, size, bias=False)
        self.classify = nn.Linear(size, classes)
        self.size = size

    def state(self, tree: Tree) -> Tensor:
        if not tree.children:
            leaf: Tensor = self.embedding(torch.tensor(tree.word))
            return leaf
        states = [self.state(child) for child in tree.children]
        total = torch.stack(states).sum(0)
        joined = torch.cat([states[0], states[-1]], dim=-1)
        candidate = torch.tanh(self.combine(joined))
        gate = torch.sigmoid(self.gate(total))
        return gate * candidate + (1 - gate) * total

    def forward(self, tree: Tree) -> Tensor:
        logits = self.classify(self.state(tree))
        return nn.functional.cross_entropy(logits, torch.tensor(tree.label))


def grow(depth: int, seed: int) -> Tree:
    if depth == 0:
        return Tree(word=seed % 10, label=seed % 2)
    return Tree(children=[grow(depth - 1, seed + 1), grow(max(depth - 2, 0), seed + 2)], label=seed % 2)


def evaluate(model: TreeModel, trees: Iterable[Tree]) -> float:
    with torch.inference_mode():
        losses = [model(tree) for tree in trees]
        return float(torch.stack(losses).mean())


def main(steps: int = 3) -> float:
    torch.manual_seed(0)
    trees = [grow(1 + i % 3, i) for i in range(6)]
    assert max(tree.depth for tree in trees) == 4 and sum(1 for _ in trees[0].walk()) == 3
    model = TreeModel(words=10, size=6, classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of_all = torch.batched(model)
    for _ in range(steps):
        losses = loss_of_all(trees)
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.autobatch():
        total = sum((model(tree) for tree in trees), torch.zeros(()))
    assert isinstance(total, Tensor)
    assert abs(total.item() / len(trees) - evaluate(model, trees)) < 1e-4
    return evaluate(model, trees)


if __name__ == "__main__":
    main()
