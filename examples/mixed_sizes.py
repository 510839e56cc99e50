"""Pictures of different sizes without padding: digits cut to what is drawn, 20 pixels high or wide and 3 to 20 the other way.

python examples/mixed_sizes.py                         trains, tests
python examples/mixed_sizes.py --epochs 1 --seed 1     see --help

A batch is a list of pictures. Each goes through the convolutions at its own size; adaptive pooling makes a vector of it, and from
there on the batch is one matrix. The graph of a step is what the loop over the list has run.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import DataLoader
from dynograd.data.datasets import read_idx
from dynograd.utils import programs

HERE = Path(__file__).resolve().parent


def read_digits(name, count=None, folder=HERE / "data"):
    """A list of `count` (None: all) (picture (1, H, W) from 0 to 1, label), cut to the ink, for name "train10k" or "t10k"."""
    images = read_idx(folder / f"mnist-{name}-images-idx3-ubyte.gz")[:count]
    labels = read_idx(folder / f"mnist-{name}-labels-idx1-ubyte.gz")[:count]
    return list(zip([cut(image) for image in images], labels.tolist()))


def cut(image):
    """(1, H, W): the smallest part of an image that has all its ink."""
    rows, columns = (image.any(dim).nonzero() for dim in (1, 0))
    return (image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / 255)[None]


def as_lists(samples):
    """A batch: a list of pictures, and labels (B,)."""
    pictures, labels = zip(*samples)
    return list(pictures), torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, channels=16, cells=3, dropout=0.3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(cells),
            nn.Flatten(0),
        )
        # What cutting and pooling lose: how high and wide a picture is.
        self.classes = nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * channels * cells * cells + 2, 10))

    def forward(self, pictures):
        """A list of B pictures (1, H, W), of any sizes, to (B, 10) scores."""
        features = torch.stack([self.features(picture) for picture in pictures])
        sizes = torch.tensor([picture.shape[1:] for picture in pictures]) / 20
        return self.classes(torch.cat([features, sizes], dim=1))


@torch.no_grad()
def evaluate(model, batches):
    """Accuracy."""
    model.eval()
    right = count = 0
    for pictures, labels in batches:
        right += (model(pictures).argmax(1) == labels).sum().item()
        count += len(labels)
    model.train()
    return right / count


def main(steps=None, epochs=4, batch_size=32, channels=16, learning_rate=3e-3, seed=0, images=None, compile=False):
    """Trains on 9,000 digits, keeps the epoch that is best on 1,000 others and tests it on the official 10,000.

    Args:
        steps: stop after so many (None: after `epochs`).
        images: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy, valid_accuracy, epoch (the best one) and sizes (how many different ones the training set has).
    """
    torch.manual_seed(seed)
    digits, test = read_digits("train10k", images), read_digits("t10k", images)
    border = len(digits) * 9 // 10
    train, valid = digits[:border], digits[border:]
    sizes = len({picture.shape for picture, _ in train})
    batches = DataLoader(train, batch_size, shuffle=True, collate_fn=as_lists)
    valid_batches, test_batches = (DataLoader(part, 100, collate_fn=as_lists) for part in (valid, test))
    model = Classifier(channels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    total = min(steps or sys.maxsize, epochs * len(batches))
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=total)

    def learn(pictures, labels):
        loss = F.cross_entropy(model(pictures), labels)
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
        for pictures, labels in batches:
            loss = learn(pictures, labels)
            scheduler.step()
            bar.set_postfix_str(f"epoch {epoch}, loss {loss.item():.3f}", refresh=False)
            bar.update()
            if bar.n == total:
                break
        share = evaluate(model, valid_batches)
        if share > best["accuracy"]:
            best = {"accuracy": share, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    bar.close()
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    accuracy = evaluate(model, test_batches)
    print(
        f"test accuracy {accuracy:.2%}, valid {best['accuracy']:.2%} in epoch {best['epoch']}; {sizes} different sizes "
        f"({seconds:.0f} s)"
    )
    return {"test_accuracy": accuracy, "valid_accuracy": best["accuracy"], "epoch": best["epoch"], "sizes": sizes}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=4, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=32, help="pictures in a batch (%(default)s)"
    )
    parser.add_argument(
        "--channels", type=programs.whole_number(1), default=16, help="of the first convolution (%(default)s)"
    )
    parser.add_argument(
        "--learning-rate", type=programs.number(above=0), default=3e-3, help="highest of the cycle (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
