"""Handwritten digits: a small convolutional network on 10,000 images of MNIST, tested on the official 10,000.

python examples/mnist.py                         trains, tests and saves
python examples/mnist.py --epochs 3 --seed 1     see --help
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy
from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import DataLoader, TensorDataset
from dynograd.utils import programs

HERE = Path(__file__).resolve().parent
CHECKPOINT = HERE / "out" / "mnist.safetensors"


def read_digits(name, folder=HERE / "data"):
    """Images (N, 1, 28, 28) from 0 to 1 and labels (N,), for name "train10k" or "t10k"."""
    with gzip.open(folder / f"mnist-{name}-images-idx3-ubyte.gz") as file:
        images = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / f"mnist-{name}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    return torch.tensor(images) / 255, torch.tensor(labels).long()


class ConvNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 5, padding=2),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 5, padding=2),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classes = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(2 * channels * 7 * 7, 10))

    def forward(self, images):
        return self.classes(self.features(images))


def shifted(images, furthest=2):
    """The batch, moved by up to `furthest` pixels in both directions."""
    down, right = torch.randint(0, 2 * furthest + 1, (2,)).tolist()
    padded = F.pad(images, (furthest,) * 4)
    return padded[:, :, down : down + images.shape[2], right : right + images.shape[3]]


@torch.no_grad()
def evaluate(model, batches, device):
    """(mean loss, accuracy)."""
    model.eval()
    loss = right = count = 0
    for images, labels in batches:
        images, labels = images.to(device), labels.to(device)
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        right += (scores.argmax(1) == labels).sum().item()
        count += len(labels)
    return loss / count, right / count


def main(
    steps=None,
    epochs=8,
    batch_size=64,
    learning_rate=3e-3,
    seed=0,
    device=None,
    checkpoint=CHECKPOINT,
    images=None,
    compile=False,
):
    """Trains on 10,000 images, tests on the official 10,000 and saves the weights.

    Args:
        steps: stop after so many (None: after `epochs`).
        device: where to train (None: on a GPU where there is one).
        images: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy and test_loss.
    """
    torch.manual_seed(seed)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    train, test = (TensorDataset(*(whole[:images] for whole in read_digits(name))) for name in ("train10k", "t10k"))
    train_batches = DataLoader(train, batch_size, shuffle=True)
    test_batches = DataLoader(test, 500)

    model = ConvNet().to(device)
    total = min(steps or sys.maxsize, epochs * len(train_batches))
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=total)

    def learn(digits, labels):
        loss = F.cross_entropy(model(digits), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    started = time.perf_counter()
    bar = tqdm(total=total, desc="training", unit="step", file=sys.stdout, mininterval=0.5)
    epoch = 0
    while bar.n < total:
        epoch += 1
        model.train()
        for digits, labels in train_batches:
            loss = learn(shifted(digits.to(device)), labels.to(device))
            scheduler.step()
            bar.set_postfix_str(f"epoch {epoch}, loss {loss.item():.3f}", refresh=False)
            bar.update()
            if bar.n == total:
                break
    bar.close()

    loss, accuracy = evaluate(model, test_batches, device)
    Path(checkpoint).parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "test_accuracy": accuracy}, checkpoint)
    print(
        f"test accuracy {accuracy:.2%}, loss {loss:.4f} ({time.perf_counter() - started:.0f} s); kept in {checkpoint}"
    )
    return {"test_accuracy": accuracy, "test_loss": loss}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=8, help="(%(default)s)")
    parser.add_argument("--batch-size", type=programs.whole_number(1), default=64, help="(%(default)s)")
    parser.add_argument(
        "--learning-rate", type=programs.number(above=0), default=3e-3, help="highest of the cycle (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--device", type=programs.device, help="cpu or cuda (a GPU where there is one)")
    parser.add_argument(
        "--checkpoint", type=programs.file_to_write, default=CHECKPOINT, help="file of the weights (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
