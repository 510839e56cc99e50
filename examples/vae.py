"""A variational autoencoder (Kingma and Welling 2014) of handwritten digits: 20 numbers for a picture, and pictures of new numbers.

python examples/vae.py                         trains, tests and draws 64 digits
python examples/vae.py --epochs 5 --seed 1     see --help

Measured is the bound that is trained, in nats for a picture: the cost of a digit's pixels given its code, and of the code.
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
from dynograd.data import DataLoader, TensorDataset
from dynograd.data.datasets import read_idx
from dynograd.utils import programs

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "out" / "vae.pgm"


def read_digits(name, folder=HERE / "data"):
    """Pictures (N, 784) from 0 to 1, for name "train10k" or "t10k"."""
    images = read_idx(folder / f"mnist-{name}-images-idx3-ubyte.gz").reshape(-1, 784)
    return images / 255


class VAE(nn.Module):
    def __init__(self, hidden=400, latent=20):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 784))

    def forward(self, pictures):
        """(B, 784) pictures to (B, 784) logits of their pixels, and mean and log variance (B, latent) of their codes."""
        mean, log_variance = self.encoder(pictures).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def bound(logits, mean, log_variance, pictures):
    """Nats for a picture: cross-entropy of the pixels, and KL divergence of the code from N(0, 1)."""
    pixels = F.binary_cross_entropy_with_logits(logits, pictures, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (pixels + divergence) / len(pictures)


@torch.no_grad()
def evaluate(model, pictures, device):
    model.eval()
    parts = [part.to(device) for part in pictures.split(500)]
    total = sum(bound(*model(part), part).item() * len(part) for part in parts)
    model.train()
    return total / len(pictures)


def save_picture(pictures, path, columns=8):
    """Pictures side by side in a grey file (PGM), which every picture viewer opens."""
    rows = [torch.cat(list(row.reshape(-1, 28, 28)), dim=1) for row in pictures.split(columns)]
    grey = (torch.cat(rows) * 255).round().to(torch.uint8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"P5 %d %d 255\n" % (grey.shape[1], grey.shape[0]) + grey.numpy().tobytes())


def main(
    steps=None,
    epochs=30,
    batch_size=128,
    hidden=400,
    latent=20,
    learning_rate=1e-3,
    seed=0,
    device=None,
    picture=PICTURE,
    images=None,
    compile=False,
):
    """Trains on 9,000 digits, keeps the epoch that is best on 1,000 others, tests it on the official 10,000 and draws.

    Args:
        steps: stop after so many (None: after `epochs`).
        device: where to train (None: on a GPU where there is one).
        images: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_bound, valid_bound (nats for a picture) and epoch (the best one).
    """
    torch.manual_seed(seed)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    digits, test = read_digits("train10k")[:images], read_digits("t10k")[:images]
    border = len(digits) * 9 // 10
    train, valid = digits[:border], digits[border:]
    batches = DataLoader(TensorDataset(train), batch_size, shuffle=True)
    model = VAE(hidden, latent).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)

    def learn(pictures):
        loss = bound(*model(pictures), pictures)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"bound": float("inf"), "epoch": 0, "weights": None}
    total = min(steps or sys.maxsize, epochs * len(batches))
    started = time.perf_counter()
    bar = tqdm(total=total, unit="step", file=sys.stdout, mininterval=0.5)
    epoch = 0
    while bar.n < total:
        epoch += 1
        for (pictures,) in batches:
            loss = learn(pictures.to(device))
            bar.set_postfix_str(f"epoch {epoch}, {loss.item():.1f} nats", refresh=False)
            bar.update()
            if bar.n == total:
                break
        valid_bound = evaluate(model, valid, device)
        if valid_bound < best["bound"]:
            best = {"bound": valid_bound, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    bar.close()
    seconds = time.perf_counter() - started

    model.load_state_dict(best["weights"])
    test_bound = evaluate(model, test, device)
    with torch.no_grad():
        save_picture(model.decoder(torch.randn(64, latent, device=device)).sigmoid().cpu(), picture)
    print(
        f"test {test_bound:.1f} nats for a picture, valid {best['bound']:.1f} in epoch {best['epoch']} ({seconds:.0f} s); "
        f"drawn in {picture}"
    )
    return {"test_bound": test_bound, "valid_bound": best["bound"], "epoch": best["epoch"]}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=30, help="(%(default)s)")
    parser.add_argument("--batch-size", type=programs.whole_number(1), default=128, help="(%(default)s)")
    parser.add_argument(
        "--hidden", type=programs.whole_number(1), default=400, help="units of the hidden layers (%(default)s)"
    )
    parser.add_argument("--latent", type=programs.whole_number(1), default=20, help="numbers of a code (%(default)s)")
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=1e-3, help="of Adam (%(default)s)")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--device", type=programs.device, help="cpu or cuda (a GPU where there is one)")
    parser.add_argument(
        "--picture", type=programs.file_to_write, default=PICTURE, help="file of drawn digits (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
