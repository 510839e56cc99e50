"""Pictures of digits out of noise: a deep convolutional generative adversarial network (Radford et al. 2015) on MNIST.

python examples/dcgan.py                         trains, measures and draws 64 digits
python examples/dcgan.py --steps 500 --seed 1    see --help

Measured is the Fréchet distance, of means and covariances in the 40 principal components of the training set, between drawn
digits and the official test set: 0 would be the same distribution. What the real training digits score is printed beside it.
"""

from __future__ import annotations

import argparse
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
PICTURE = HERE / "out" / "dcgan.pgm"


def read_digits(name, folder=HERE / "data"):
    """Pictures (N, 1, 28, 28) from -1 to 1, for name "train10k" or "t10k"."""
    images = read_idx(folder / f"mnist-{name}-images-idx3-ubyte.gz").reshape(-1, 1, 28, 28)
    return images / 127.5 - 1


def generator(latent, channels):
    """(B, latent, 1, 1) noise to (B, 1, 28, 28) pictures."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 4 * channels, 7, bias=False),
        nn.BatchNorm2d(4 * channels),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * channels, 2 * channels, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * channels, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def discriminator(channels):
    """(B, 1, 28, 28) pictures to (B,) scores: above 0 is real."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * channels),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * channels, 1, 7),
        nn.Flatten(0),
    )


def normal_weights(module):
    """The paper's initial weights, for `Module.apply`."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


class FrechetDistance:
    """Of sets of pictures to a given one, by means and covariances of their `size` main components."""

    def __init__(self, pictures, size=40):
        flat = pictures.flatten(1).double()
        self.center = flat.mean(0)
        _, axes = torch.linalg.eigh(torch.cov((flat - self.center).T))
        self.axes = axes[:, -size:]
        self.mean, self.covariance = self.moments(pictures)
        values, vectors = torch.linalg.eigh(self.covariance)
        self.root = vectors * values.clamp(min=0).sqrt() @ vectors.T

    def moments(self, pictures):
        parts = (pictures.flatten(1).double() - self.center) @ self.axes
        return parts.mean(0), torch.cov(parts.T)

    def __call__(self, pictures):
        mean, covariance = self.moments(pictures)
        overlap = torch.linalg.eigvalsh(self.root @ covariance @ self.root).clamp(min=0).sqrt().sum()
        spread = self.covariance.trace() + covariance.trace() - 2 * overlap
        return ((mean - self.mean).square().sum() + spread).item()


@torch.no_grad()
def draw(model, latent, count, device):
    """`count` pictures (count, 1, 28, 28)."""
    model.eval()
    pictures = [model(torch.randn(100, latent, 1, 1, device=device)).cpu() for _ in range(-(-count // 100))]
    model.train()
    return torch.cat(pictures)[:count]


def save_picture(pictures, path, columns=8):
    """Pictures side by side in a grey file (PGM), which every picture viewer opens."""
    rows = [torch.cat(list(row[:, 0]), dim=1) for row in pictures.split(columns)]
    grey = ((torch.cat(rows) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"P5 %d %d 255\n" % (grey.shape[1], grey.shape[0]) + grey.numpy().tobytes())


def main(
    steps=1500,
    batch_size=64,
    latent=64,
    channels=32,
    learning_rate=2e-4,
    seed=0,
    device=None,
    picture=PICTURE,
    images=None,
    compile=False,
):
    """Trains both networks `steps` steps in turn and draws digits.

    Args:
        device: where to train (None: on a GPU where there is one).
        images: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of distance (drawn to test digits), real_distance (training to test digits).
    """
    torch.manual_seed(seed)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    train, test = read_digits("train10k")[:images], read_digits("t10k")[:images]
    batches = DataLoader(TensorDataset(train), batch_size, shuffle=True, drop_last=True)
    artist, critic = generator(latent, channels).to(device), discriminator(channels).to(device)
    artist.apply(normal_weights)
    critic.apply(normal_weights)
    artist_optimizer = torch.optim.Adam(artist.parameters(), lr=learning_rate, betas=(0.5, 0.999))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=learning_rate, betas=(0.5, 0.999))
    ones, zeros = torch.ones(batch_size, device=device), torch.zeros(batch_size, device=device)

    def learn(real, noise):
        drawn = artist(noise)
        critic_loss = F.binary_cross_entropy_with_logits(critic(real), ones)
        critic_loss = critic_loss + F.binary_cross_entropy_with_logits(critic(drawn.detach()), zeros)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        artist_loss = F.binary_cross_entropy_with_logits(critic(drawn), ones)
        artist_optimizer.zero_grad()
        artist_loss.backward()
        artist_optimizer.step()
        return critic_loss, artist_loss

    if compile:
        learn = torch.compile(learn)
    started = time.perf_counter()
    bar = tqdm(total=steps, unit="step", file=sys.stdout, mininterval=0.5)
    while bar.n < steps:
        for (real,) in batches:
            noise = torch.randn(batch_size, latent, 1, 1, device=device)
            critic_loss, artist_loss = learn(real.to(device), noise)
            bar.set_postfix_str(f"critic {critic_loss.item():.3f}, artist {artist_loss.item():.3f}", refresh=False)
            bar.update()
            if bar.n == steps:
                break
    bar.close()
    seconds = time.perf_counter() - started

    drawn = draw(artist, latent, len(test), device)
    distance_to_test = FrechetDistance(test)
    distance, real_distance = distance_to_test(drawn), distance_to_test(train)
    save_picture(drawn[:64], picture)
    print(f"Fréchet distance {distance:.2f}; of real digits {real_distance:.2f} ({seconds:.0f} s); drawn in {picture}")
    return {"distance": distance, "real_distance": real_distance}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), default=1500, help="of both networks (%(default)s)")
    parser.add_argument("--batch-size", type=programs.whole_number(1), default=64, help="(%(default)s)")
    parser.add_argument(
        "--latent", type=programs.whole_number(1), default=64, help="numbers of noise for a picture (%(default)s)"
    )
    parser.add_argument(
        "--channels", type=programs.whole_number(1), default=32, help="width of both networks (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=2e-4, help="of Adam (%(default)s)")
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
