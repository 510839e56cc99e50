"""What is a paper about? A graph convolutional network (Kipf and Welling 2017) on the citations of Cora.

python examples/gcn.py                          trains, tests
python examples/gcn.py --hidden 32 --seed 1     see --help

2,708 papers, 1,433 words that a paper has or has not, 5,278 citations, 7 subjects; the Planetoid split labels 140 papers for
training, 500 for validation and 1,000 for the test. Both matrices are sparse, and products with them touch only their entries.
"""

from __future__ import annotations

import argparse
import copy
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


def read_graph(path=DATA):
    """(words (N, 1433) sparse with rows that sum to 1, links (N, N) sparse, labels (N,), {"train", "val", "test"}: node numbers)."""
    with numpy.load(path) as arrays:
        arrays = {name: arrays[name].astype(numpy.int64) for name in arrays.files}
    count = len(arrays["y"])
    lengths = numpy.diff(arrays["x_indptr"])
    places = numpy.stack([numpy.repeat(numpy.arange(count), lengths), arrays["x_indices"]])
    words = (1 / numpy.repeat(lengths, lengths)).astype(numpy.float32)
    words = torch.sparse_coo_tensor(places, torch.tensor(words), (count, int(arrays["num_features"])))

    # D^-1/2 (A + I) D^-1/2: neighbours in both directions and the node itself
    first, second = arrays["edges"].T
    self = numpy.arange(count)
    rows, columns = numpy.concatenate([first, second, self]), numpy.concatenate([second, first, self])
    degrees = numpy.bincount(rows)
    weights = (1 / numpy.sqrt(degrees[rows] * degrees[columns])).astype(numpy.float32)
    links = torch.sparse_coo_tensor(numpy.stack([rows, columns]), torch.tensor(weights), (count, count))
    split = {name: torch.tensor(arrays[f"{name}_idx"]) for name in ("train", "val", "test")}
    return words.coalesce(), links.coalesce(), torch.tensor(arrays["y"]), split


class GraphConvolution(nn.Module):
    """links @ (x @ weight) + bias, for x dense or sparse."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, links):
        projected = torch.sparse.mm(x, self.weight) if x.is_sparse else x @ self.weight
        return torch.sparse.mm(links, projected) + self.bias


class GCN(nn.Module):
    def __init__(self, inputs, hidden, outputs, dropout=0.5):
        super().__init__()
        self.first = GraphConvolution(inputs, hidden)
        self.second = GraphConvolution(hidden, outputs)
        self.dropout = dropout

    def forward(self, x, links):
        """(N, inputs) features to (N, outputs) scores."""
        if self.training:  # dropout of the entries that are there
            kept = F.dropout(x.values(), self.dropout)
            x = torch.sparse_coo_tensor(x.indices(), kept, x.shape, is_coalesced=True)
        hidden = F.dropout(self.first(x, links).relu(), self.dropout, self.training)
        return self.second(hidden, links)


@torch.no_grad()
def accuracy(model, words, links, labels, nodes):
    model.eval()
    right = model(words, links)[nodes].argmax(1) == labels[nodes]
    model.train()
    return right.float().mean().item()


def main(steps=200, hidden=16, learning_rate=1e-2, weight_decay=5e-4, seed=0, compile=False):
    """Trains on 140 papers, keeps the step that validates best, and tests it once.

    Args:
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy, valid_accuracy and step (the best one).
    """
    torch.manual_seed(seed)
    words, links, labels, split = read_graph()
    model = GCN(words.shape[1], hidden, int(labels.max()) + 1)
    optimizer = torch.optim.Adam(
        [{"params": model.first.parameters(), "weight_decay": weight_decay}, {"params": model.second.parameters()}],
        lr=learning_rate,
    )

    def learn():
        loss = F.cross_entropy(model(words, links)[split["train"]], labels[split["train"]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"accuracy": -1.0, "step": 0, "weights": None}
    started = time.perf_counter()
    bar = tqdm(range(1, steps + 1), unit="step", file=sys.stdout, mininterval=0.5)
    for step in bar:
        loss = learn()
        valid = accuracy(model, words, links, labels, split["val"])
        if valid >= best["accuracy"]:
            best = {"accuracy": valid, "step": step, "weights": copy.deepcopy(model.state_dict())}
        bar.set_postfix_str(f"loss {loss.item():.3f}, valid {valid:.1%}", refresh=False)
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    test = accuracy(model, words, links, labels, split["test"])
    print(f"test accuracy {test:.1%}, valid {best['accuracy']:.1%} at step {best['step']} ({seconds:.1f} s)")
    return {"test_accuracy": test, "valid_accuracy": best["accuracy"], "step": best["step"]}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=programs.whole_number(1), default=200, help="each on the whole graph (%(default)s)"
    )
    parser.add_argument(
        "--hidden", type=programs.whole_number(1), default=16, help="features of the hidden layer (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=1e-2, help="of Adam (%(default)s)")
    parser.add_argument(
        "--weight-decay", type=programs.number(0), default=5e-4, help="of the first layer (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
