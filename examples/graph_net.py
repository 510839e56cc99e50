"""What is a paper about, as told by the papers around it? Messages along citations, written for one paper of one small graph.

python examples/graph_net.py                        trains, tests
python examples/graph_net.py --epochs 3 --plain     the same one graph after the other, to compare graphs/s

Each example is a graph of its own size: a paper of Cora and all that are at most two citations away, 2 to 240 papers. A paper begins as
the mean of its words' vectors; in each round it adds up what its neighbours say (Hamilton et al. 2017), and the one in the middle is
classified. No padding, no index arithmetic, no sparse matrix: inside `autobatch` all papers of all graphs run together. The Planetoid
split: 140 labelled papers to train, 500 to validate, 1,000 to test.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import random
import statistics
import sys
import time
from pathlib import Path

import numpy
from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data" / "cora.npz"
ROUNDS = 2


class Graph:
    """The papers at most `ROUNDS` citations away from one, which comes first; nearer ones come before farther ones.

    `words`: of each paper, the numbers of its words; `neighbours`: of each paper, the places of those linked with it, itself among them,
    for all but the farthest; `within[d]`: how many papers are at most d citations away.
    """

    def __init__(self, centre, words, links):
        papers, places, self.within = [centre], {centre: 0}, [1]
        for _ in range(ROUNDS):
            for paper in tuple(papers):
                for other in links[paper]:
                    if other not in places:
                        places[other] = len(papers)
                        papers.append(other)
            self.within.append(len(papers))
        self.words = [words[paper] for paper in papers]
        inner = papers[: self.within[ROUNDS - 1]]
        self.neighbours = [[place, *(places[other] for other in links[paper])] for place, paper in enumerate(inner)]


def read_graphs(path=DATA):
    """({"train", "val", "test"}: pairs (graph, subject of its first paper), how many words, how many subjects)."""
    with numpy.load(path) as arrays:
        arrays = {name: arrays[name].astype(numpy.int64) for name in arrays.files}
    words = [torch.tensor(part) for part in numpy.split(arrays["x_indices"], arrays["x_indptr"][1:-1])]
    links = [set() for _ in words]
    for first, second in arrays["edges"].tolist():
        links[first].add(second)
        links[second].add(first)
    links = [sorted(others) for others in links]
    subjects = arrays["y"].tolist()
    splits = {
        name: [(Graph(paper, words, links), subjects[paper]) for paper in arrays[f"{name}_idx"].tolist()]
        for name in ("train", "val", "test")
    }
    return splits, int(arrays["num_features"]), max(subjects) + 1


class Reader(nn.Module):
    """The vector of a paper that has certain words; a cell: one entry of autobatch's record."""

    def __init__(self, words, size):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.bias = nn.Parameter(torch.zeros(size))
        nn.init.normal_(self.embedding.weight, std=0.1)

    @torch.cell
    def forward(self, words):
        return (self.embedding(words).mean(0) + self.bias).relu()


class GraphNetwork(nn.Module):
    def __init__(self, words, size, subjects, dropout):
        super().__init__()
        self.read = Reader(words, size)
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(ROUNDS - 1))
        self.layers.append(nn.Linear(size, subjects))
        self.dropout = dropout

    def kept(self, words):
        """In training, some of a paper's words, drawn anew each time."""
        if self.training:
            numbers = words.tolist()
            return torch.tensor([word for word in numbers if random.random() >= self.dropout] or numbers[:1])
        return words

    def forward(self, graph):
        """(subjects,) scores of the first paper."""
        states = [self.read(self.kept(words)) for words in graph.words]
        for number, layer in enumerate(self.layers, start=1):
            # what is farther from the middle than the rounds that are left reaches it no more
            around = graph.neighbours[: graph.within[ROUNDS - number]]
            states = [layer(sum(states[other] for other in places) / len(places)) for places in around]
            if number < ROUNDS:
                states = [state.relu() for state in states]
        return states[0]


def scores_of(model, graphs, plain):
    """(N, subjects) scores."""
    with contextlib.nullcontext() if plain else torch.autobatch():
        return torch.stack([model(graph) for graph in graphs])


def loss_of(model, examples, plain):
    graphs, subjects = zip(*examples)
    return F.cross_entropy(scores_of(model, graphs, plain), torch.tensor(subjects))


@torch.no_grad()
def accuracy(model, examples, plain=False):
    model.eval()
    graphs, subjects = zip(*examples)
    right = scores_of(model, graphs, plain).argmax(1) == torch.tensor(subjects)
    model.train()
    return right.float().mean().item()


def speeds(model, examples, rounds=3):
    """Graphs a second, forward and backward, (inside autobatch, one after the other): medians of turns."""
    seconds = {False: [], True: []}
    for _ in range(rounds):
        for plain, times in seconds.items():
            started = time.perf_counter()
            loss_of(model, examples, plain).backward()
            times.append(time.perf_counter() - started)
    model.zero_grad()
    return tuple(len(examples) / statistics.median(seconds[plain]) for plain in (False, True))


def main(
    epochs=25,
    batch_size=28,
    size=64,
    learning_rate=3e-3,
    weight_decay=5e-3,
    dropout=0.5,
    seed=0,
    plain=False,
    compile=False,
):
    """Trains on 140 graphs, keeps the epoch that validates best, and tests it once.

    Args:
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy, valid_accuracy and epoch (the best one).
    """
    random.seed(seed)
    torch.manual_seed(seed)
    splits, words, subjects = read_graphs()
    model = GraphNetwork(words, size, subjects, dropout)
    train = splits["train"]
    batched, alone = speeds(model, train[:batch_size])
    print(
        f"{batched:.0f} graphs/s with autobatch, {alone:.0f} one after the other: {batched / alone:.1f} times as many"
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)

    def learn(part):
        optimizer.zero_grad()
        loss = loss_of(model, part, plain)
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"accuracy": -1.0, "epoch": 0, "weights": None}
    started = time.perf_counter()
    with tqdm(total=epochs * len(train), unit="graphs", file=sys.stdout, mininterval=0.5) as bar:
        for epoch in range(1, epochs + 1):
            random.shuffle(train)
            for start in range(0, len(train), batch_size):
                part = train[start : start + batch_size]
                loss = learn(part)
                bar.update(len(part))
            share = accuracy(model, splits["val"], plain)
            bar.set_postfix_str(f"loss {loss.item():.3f}, valid {share:.1%}", refresh=False)
            if share >= best["accuracy"]:
                best = {"accuracy": share, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    test = accuracy(model, splits["test"], plain)
    print(f"test accuracy {test:.1%}, valid {best['accuracy']:.1%} in epoch {best['epoch']} ({seconds:.0f} s)")
    return {"test_accuracy": test, "valid_accuracy": best["accuracy"], "epoch": best["epoch"]}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=programs.whole_number(1), default=25, help="each on 140 graphs (%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=28, help="graphs in a step (%(default)s)"
    )
    parser.add_argument("--size", type=programs.whole_number(1), default=64, help="of a paper's vector (%(default)s)")
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=3e-3, help="of AdamW (%(default)s)")
    parser.add_argument("--weight-decay", type=programs.number(0), default=5e-3, help="of AdamW (%(default)s)")
    parser.add_argument(
        "--dropout", type=programs.number(0, 1), default=0.5, help="share of words left out in training (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--plain", action="store_true", help="without autobatch, one graph after the other")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
