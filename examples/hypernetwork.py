"""A network that writes another network's weights (Ha et al. 2017): digits turned by any angle, each with weights of its own.

python examples/hypernetwork.py             trains, tests
python examples/hypernetwork.py --plain     one set of weights for all angles, for comparison

The hypernetwork sees the angle only and gives all weights of a small classifier; `vmap` of `functional_call` runs a batch in
which every picture has a classifier of its own.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import DataLoader, TensorDataset
from dynograd.data.datasets import read_idx
from dynograd.func import functional_call, vmap
from dynograd.utils import programs

HERE = Path(__file__).resolve().parent


def read_digits(name, folder=HERE / "data"):
    """Pictures (N, 1, 28, 28) from 0 to 1 and labels (N,), for name "train10k" or "t10k"."""
    images = read_idx(folder / f"mnist-{name}-images-idx3-ubyte.gz").reshape(-1, 1, 28, 28)
    labels = read_idx(folder / f"mnist-{name}-labels-idx1-ubyte.gz")
    return images / 255, labels.long()


def turned(pictures, angles, size=14):
    """(B, 1, 28, 28) pictures, each turned by its angle (B,) in radians, at `size` x `size` pixels."""
    cos, sin = angles.cos(), angles.sin()
    nothing = torch.zeros_like(cos)
    moves = torch.stack([torch.stack([cos, -sin, nothing], 1), torch.stack([sin, cos, nothing], 1)], 1)
    grid = F.affine_grid(moves, [len(pictures), 1, size, size], align_corners=False)
    return F.grid_sample(pictures, grid, align_corners=False)


class Hypernetwork(nn.Module):
    """(2,) cosine and sine of an angle to all parameters of `network`, by name."""

    def __init__(self, network, hidden=64):
        super().__init__()
        self.shapes = {name: parameter.shape for name, parameter in network.named_parameters()}
        sizes = [shape.numel() for shape in self.shapes.values()]
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.heads = nn.Linear(hidden, sum(sizes))
        self.sizes = sizes
        with torch.no_grad():  # begins with the network's own initial weights, the same for all angles but for a little
            self.heads.weight.mul_(0.1)
            self.heads.bias.copy_(nn.utils.parameters_to_vector(network.parameters()))

    def forward(self, angle):
        parts = self.heads(self.body(angle)).split(self.sizes)
        return {name: part.reshape(shape) for part, (name, shape) in zip(parts, self.shapes.items())}


class Classifiers(nn.Module):
    """Scores of pictures by a small network, whose weights come from the angle, or are the same for all angles (`plain`)."""

    def __init__(self, inputs, width=16, plain=False):
        super().__init__()
        network = nn.Sequential(nn.Flatten(0), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 10))
        self.plain = network if plain else None
        self.hyper = None if plain else Hypernetwork(network)
        self.network = [network]  # in a list: its own parameters are not to be trained

    def forward(self, pictures, angles):
        """(B, 1, H, W) pictures and (B,) angles to (B, 10) scores."""
        if self.plain is not None:
            return vmap(self.plain)(pictures)
        directions = torch.stack([angles.cos(), angles.sin()], dim=1)
        return vmap(lambda picture, direction: functional_call(self.network[0], self.hyper(direction), (picture,)))(
            pictures, directions
        )


def drawn_angles(count, generator=None):
    return torch.rand(count, generator=generator) * (2 * math.pi)


@torch.no_grad()
def evaluate(model, pictures, labels, seed=123):
    """Accuracy, each picture turned by an angle that `seed` decides."""
    angles = drawn_angles(len(labels), torch.Generator().manual_seed(seed))
    right = 0
    for part, angle, label in zip(pictures.split(500), angles.split(500), labels.split(500)):
        right += (model(turned(part, angle), angle).argmax(1) == label).sum().item()
    return right / len(labels)


def main(
    steps=None,
    epochs=20,
    batch_size=128,
    width=16,
    learning_rate=2e-3,
    plain=False,
    seed=0,
    images=None,
    compile=False,
):
    """Trains on 9,000 digits, keeps the epoch that is best on 1,000 others and tests it on the official 10,000.

    Args:
        steps: stop after so many (None: after `epochs`).
        images: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy, valid_accuracy and epoch (the best one).
    """
    torch.manual_seed(seed)
    (pictures, labels), test = ([part[:images] for part in read_digits(name)] for name in ("train10k", "t10k"))
    border = len(labels) * 9 // 10
    batches = DataLoader(TensorDataset(pictures[:border], labels[:border]), batch_size, shuffle=True)
    model = Classifiers(14 * 14, width, plain)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    total = min(steps or sys.maxsize, epochs * len(batches))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

    def learn(digits, angles, classes):
        loss = F.cross_entropy(model(turned(digits, angles), angles), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"accuracy": -1.0, "epoch": 0, "weights": None}
    started = time.perf_counter()
    bar = tqdm(total=total, unit="step", file=sys.stdout, mininterval=0.5)
    epoch = 0
    while bar.n < total:
        epoch += 1
        for digits, classes in batches:
            loss = learn(digits, drawn_angles(len(classes)), classes)
            scheduler.step()
            bar.set_postfix_str(f"epoch {epoch}, loss {loss.item():.3f}", refresh=False)
            bar.update()
            if bar.n == total:
                break
        share = evaluate(model, pictures[border:], labels[border:])
        if share > best["accuracy"]:
            best = {"accuracy": share, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    bar.close()
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    accuracy = evaluate(model, *test)
    print(
        f"test accuracy {accuracy:.1%}, valid {best['accuracy']:.1%} in epoch {best['epoch']} ({seconds:.0f} s, "
        f"{'one set of weights' if plain else 'weights from the angle'})"
    )
    return {"test_accuracy": accuracy, "valid_accuracy": best["accuracy"], "epoch": best["epoch"]}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=20, help="(%(default)s)")
    parser.add_argument("--batch-size", type=programs.whole_number(1), default=128, help="(%(default)s)")
    parser.add_argument(
        "--width", type=programs.whole_number(1), default=16, help="hidden units of the classifiers (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=2e-3, help="of Adam (%(default)s)")
    parser.add_argument("--plain", action="store_true", help="no hypernetwork: the same weights for all angles")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
