"""Training on the Stanford Sentiment Treebank end to end: lines to trees, recursion, loss of all nodes, backward, Adagrad.

PyTorch runs the recursion as it stands, tree after tree; dynograd the same code inside `autobatch`. Each step takes the next 25 trees of
a shuffled part of the treebank, so a step's time is 25 / 8,544 of an epoch's.
"""

from __future__ import annotations

import gzip
import itertools
from collections import Counter
from pathlib import Path

from benchmarks.rows.dynamic import WIDTH, batching, tree_cells
from benchmarks.workload import fill, generator, row, train

DATA = Path(__file__).resolve().parents[2] / "examples" / "data" / "sst-trees-train.txt.gz"
BATCH, BATCHES, CLASSES = 25, 8, 5


def lines_of_treebank():
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line]


def parse(line):
    """(label, word) or (label, left, right) of a line such as `(3 (2 good) (2 film))`."""
    stack = [[]]
    for part in line.replace("(", " ( ").replace(")", " ) ").split(" "):
        if part == "(":
            stack.append([])
        elif part == ")":
            label, *rest = stack.pop()
            stack[-1].append((int(label), *rest))
        elif part:
            stack[-1].append(part)
    return stack[0][0]


def words_of(tree):
    return [tree[1].lower()] if len(tree) == 2 else words_of(tree[1]) + words_of(tree[2])


def sentiment(torch, batch, batches):
    nn = torch.nn
    lines = lines_of_treebank()
    uses = Counter(word for line in lines for word in words_of(parse(line)))
    words = sorted(word for word, count in uses.items() if count > 1)
    generator(8).shuffle(lines)
    parts = [lines[start : start + batch] for start in range(0, batch * batches, batch)]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(len(words) + 1, WIDTH)
            self.leaf, self.inner = tree_cells(torch)
            self.head = nn.Linear(WIDTH, CLASSES)
            self.numbers = {word: torch.tensor(number) for number, word in enumerate(words, start=1)}
            self.unknown = torch.tensor(0)

        def forward(self, tree, labelled):
            label, *parts = tree
            if len(parts) == 1:
                state = self.leaf(self.embedding(self.numbers.get(parts[0].lower(), self.unknown)))
            else:
                state = self.inner(self(parts[0], labelled), self(parts[1], labelled))
            labelled.append((state[0], label))
            return state

    model = Model()
    fill(torch, model)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adagrad(parameters, lr=0.05, weight_decay=1e-4)
    following = itertools.cycle(parts)

    def step():
        trees = [parse(line) for line in next(following)]
        optimizer.zero_grad()
        with batching(torch):
            labelled = []
            for tree in trees:
                model(tree, labelled)
            scores = model.head(torch.stack([state for state, _ in labelled]))
            labels = torch.tensor([label for _, label in labelled])
            loss = nn.functional.cross_entropy(scores, labels, reduction="sum") / len(trees)
        loss.backward()
        optimizer.step()
        return loss

    return train(step, parameters, batches)


@row("dynamic.treebank", compiles="dynograd", small=lambda torch: sentiment(torch, 3, 2))
def treebank(torch):
    """Training on the treebank, 25 trees a step, end to end."""
    return sentiment(torch, BATCH, BATCHES)
