"""Sentiment of film reviews by a Tree-LSTM over their parse trees, written as plain recursion over one tree.

    python examples/tree_lstm.py                         trains and tests
    python examples/tree_lstm.py --epochs 1 --plain      the same without autobatch, to compare trees/s
    python -m dynograd.run -n 2 examples/tree_lstm.py    two processes, each with half of every batch (extra mpi)
    python examples/tree_lstm.py --help

Stanford Sentiment Treebank: every node of a tree has a label from 0 (very negative) to 4 (very positive). Inside `autobatch` the cells
of all trees of a batch run together, level by level; nothing in the model knows of it. The model of Tai et al. 2015 (binary
constituency Tree-LSTM) without pretrained vectors, trained on the labels of all nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data"
NEUTRAL = 2


class Tree:
    """A node: its label, and either a word (in lower case) or two children."""

    __slots__ = ("label", "left", "right", "word")

    def __init__(self, label, word=None, left=None, right=None):
        self.label, self.word, self.left, self.right = label, word, left, right


def parse(line):
    """The tree of a line such as `(3 (2 good) (2 film))`; words hold no ASCII space or bracket."""
    stack = [[]]
    for part in line.replace("(", " ( ").replace(")", " ) ").split(" "):
        if part == "(":
            stack.append([])
        elif part == ")":
            label, *rest = stack.pop()
            tree = Tree(int(label), rest[0].lower()) if len(rest) == 1 else Tree(int(label), None, *rest)
            stack[-1].append(tree)
        elif part:
            stack[-1].append(part)
    return stack[0][0]


def read(split, count=None):
    with gzip.open(DATA / f"sst-trees-{split}.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if line]
    return [parse(line) for line in (lines if count is None else lines[:: max(1, len(lines) // count)][:count])]


def words_of(tree):
    agenda = [tree]
    while agenda:
        node = agenda.pop()
        if node.word is not None:
            yield node.word
        else:
            agenda += [node.left, node.right]


class Classifier(nn.Module):
    """The state of a tree from those of its two halves, down to the words; and scores of five classes from a state."""

    def __init__(self, words, width, drop):
        super().__init__()
        self.numbers = {word: torch.tensor(number) for number, word in enumerate(words, start=1)}
        self.unknown = torch.tensor(0)
        self.embedding = nn.Embedding(len(words) + 1, width)
        self.cell = nn.BinaryTreeLSTMCell(width, width)
        self.head = nn.Linear(width, 5)
        self.drop = drop

    def forward(self, tree, nodes):
        """(h, c) of a tree; (h, label) of each of its nodes is added to the list `nodes`."""
        if tree.word is not None:
            number = self.numbers.get(tree.word, self.unknown)
            if self.training and random.random() < self.drop:
                number = self.unknown
            state = self.cell(self.embedding(number))
        else:
            state = self.cell(None, self(tree.left, nodes), self(tree.right, nodes))
        nodes.append((state[0], tree.label))
        return state


def scope(plain):
    return contextlib.nullcontext() if plain else torch.autobatch()


def loss_of(model, trees, plain):
    """Cross-entropy of the labels of all nodes, summed for each tree."""
    with scope(plain):
        nodes = []
        for tree in trees:
            model(tree, nodes)
        scores = model.head(torch.stack([h for h, _ in nodes]))
        labels = torch.tensor([label for _, label in nodes])
        return F.cross_entropy(scores, labels, reduction="sum") / len(trees)


def step_of(model, optimizer):
    """A training step, of (trees, plain)."""

    def learn(trees, plain):
        loss = loss_of(model, trees, plain)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return learn


def train_epoch(model, learn, trees, batch, plain, title, compared=0):
    """Trees a second, each batch by `learn`. Of the first batches `compared` are run without autobatch, to show how many trees a second that makes."""
    model.train()
    rank, size = programs.ranks()
    order = random.sample(trees, len(trees))
    if size > 1:  # each its part of one order, and equally many
        order = random.Random(title).sample(trees, len(trees) // size * size)[rank::size]
    counts, seconds = {False: 0, True: 0}, {False: 0.0, True: 0.0}
    with tqdm(total=len(order), desc=title, unit="trees", disable=True if rank else None) as bar:
        for number, start in enumerate(range(0, len(order), max(1, batch // size))):
            part = order[start : start + max(1, batch // size)]
            alone = plain or 1 <= number <= compared
            begun = time.perf_counter()
            learn(part, alone)
            counts[alone] += len(part) * size
            seconds[alone] += time.perf_counter() - begun
            speeds = {key: counts[key] / seconds[key] for key in counts if counts[key]}
            names = {False: "autobatch", True: "plain"}
            bar.set_postfix_str(", ".join(f"{names[key]} {speeds[key]:.0f} trees/s" for key in speeds), refresh=False)
            bar.update(len(part))
    return speeds


def accuracy(model, trees, plain=False):
    """Shares of roots whose class is right: of five, and positive or negative where the root is not neutral."""
    model.eval()
    rank, size = programs.ranks()
    trees = trees[rank::size]
    scores = []
    with torch.no_grad():
        for start in range(0, len(trees), 200):
            with scope(plain):
                scores += [model.head(model(tree, [])[0]) for tree in trees[start : start + 200]]
    chances = torch.stack(scores).softmax(1)
    roots = torch.tensor([tree.label for tree in trees])
    right = (chances.argmax(1) == roots).sum().item()
    decided = roots != NEUTRAL
    positive = chances[:, 3:].sum(1) > chances[:, :2].sum(1)
    sides = (positive == (roots > NEUTRAL))[decided]
    right, count, right_sides, count_of_sides = programs.sum_of_ranks(right, len(trees), sides.sum().item(), len(sides))
    return right / count, right_sides / max(1, count_of_sides)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=programs.whole_number(1), default=5)
    parser.add_argument("--batch", type=programs.whole_number(1), default=25)
    parser.add_argument("--width", type=programs.whole_number(1), default=128)
    parser.add_argument(
        "--drop", type=programs.number(0, 1), default=0.3, help="share of words replaced by the unknown one in training"
    )
    parser.add_argument("--lr", type=programs.number(above=0), default=0.05)
    parser.add_argument("--decay", type=programs.number(0), default=1e-4)
    parser.add_argument("--seed", type=programs.seed, default=0)
    parser.add_argument(
        "--trees", type=programs.whole_number(1), default=None, help="so many of each part of the data (default: all)"
    )
    parser.add_argument(
        "--compared",
        type=programs.whole_number(0),
        default=8,
        help="so many batches of the first epoch run without autobatch, to compare",
    )
    parser.add_argument("--plain", action="store_true", help="without autobatch, one tree after the other")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    options = parser.parse_args(arguments)
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    train, valid, test = (read(split, options.trees) for split in ("train", "dev", "test"))
    uses = Counter(word for tree in train for word in words_of(tree))
    model = Classifier(sorted(word for word, count in uses.items() if count > 1), options.width, options.drop)
    torch.nn.init.normal_(model.embedding.weight, std=0.1)
    rank, size = programs.ranks()
    if size > 1:
        torch.nn.parallel.DistributedDataParallel(model)  # from here on gradients are those of all processes
        random.seed(options.seed + rank)  # each drops other words
    optimizer = torch.optim.Adagrad(model.parameters(), lr=options.lr, weight_decay=options.decay)
    learn = step_of(model, optimizer)
    if options.compile:
        learn = torch.compile(learn)
    best, kept, speeds = -1.0, None, {}
    for epoch in range(options.epochs):
        compared = 0 if options.plain or epoch else options.compared
        speeds |= train_epoch(
            model, learn, train, options.batch, options.plain, f"epoch {epoch + 1}", compared=compared
        )
        fine, binary = accuracy(model, valid)
        say = print if rank == 0 else str
        say(
            f"epoch {epoch + 1}: {speeds[options.plain]:.0f} trees/s"
            + (f" ({speeds[True]:.0f} without autobatch)" if compared and True in speeds else "")
            + f"; dev: five classes {fine:.1%}, positive or negative {binary:.1%}"
        )
        if fine + binary > best:
            best, kept = fine + binary, {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)
    fine, binary = accuracy(model, test)
    say(f"test: five classes {fine:.1%}, positive or negative {binary:.1%}")
    return fine, binary


if __name__ == "__main__":
    sys.exit(programs.run(main))
