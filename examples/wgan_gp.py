"""Digits out of noise again, by a Wasserstein GAN with gradient penalty (Gulrajani et al. 2017): a loss with a gradient inside.

python examples/wgan_gp.py                          trains, measures and draws 64 digits
python examples/wgan_gp.py --steps 100 --seed 1     see --help

The critic's lead on a set of digits, mean score of real minus mean score of drawn ones, estimates how far both distributions lie
apart, if its slope is near 1 everywhere: that is what the penalty, a derivative of second order, is for. Measured are this
estimate on test digits, which the critic has never seen, and the slope between test and drawn digits.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
from dynograd import nn
from dynograd.data import DataLoader, TensorDataset
from dynograd.data.datasets import read_idx
from dynograd.utils import programs

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "out" / "wgan_gp.pgm"


def read_digits(name, folder=HERE / "data"):
    """Pictures (N, 1, 28, 28) from -1 to 1, for name "train10k" or "t10k"."""
    images = read_idx(folder / f"mnist-{name}-images-idx3-ubyte.gz").reshape(-1, 1, 28, 28)
    return images / 127.5 - 1


def generator(latent, channels):
    """(B, latent) noise to (B, 1, 28, 28) pictures."""
    return nn.Sequential(
        nn.Linear(latent, 2 * channels * 7 * 7),
        nn.Unflatten(1, (2 * channels, 7, 7)),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.ConvTranspose2d(channels, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def critic_network(channels):
    """(B, 1, 28, 28) pictures to (B,) scores. No batch normalization: the penalty is about each picture's own slope."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 5, stride=2, padding=2),
        nn.LeakyReLU(0.2),
        nn.Conv2d(channels, 2 * channels, 5, stride=2, padding=2),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * channels * 7 * 7, 1),
        nn.Flatten(0),
    )


def slopes(critic, real, drawn, create_graph=False):
    """(B,) lengths of the critic's gradient at pictures between real and drawn ones."""
    share = torch.rand(len(real), 1, 1, 1, device=real.device)
    between = (share * real + (1 - share) * drawn).requires_grad_()
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=create_graph)
    return gradient.flatten(1).norm(dim=1)


def measure(artist, critic, test, latent, device, batch_size=500):
    """(lead of the critic, mean slope) on test digits."""
    artist.eval()
    leads, norms = [], []
    for real in test.split(batch_size):
        real = real.to(device)
        with torch.no_grad():
            drawn = artist(torch.randn(len(real), latent, device=device))
            leads.append((critic(real) - critic(drawn)).mean().item())
        norms.append(slopes(critic, real, drawn).mean().item())
    artist.train()
    return sum(leads) / len(leads), sum(norms) / len(norms)


def save_picture(pictures, path, columns=8):
    """Pictures side by side in a grey file (PGM), which every picture viewer opens."""
    rows = [torch.cat(list(row[:, 0]), dim=1) for row in pictures.split(columns)]
    grey = ((torch.cat(rows) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"P5 %d %d 255\n" % (grey.shape[1], grey.shape[0]) + grey.numpy().tobytes())


def main(
    steps=300,
    batch_size=64,
    latent=64,
    channels=32,
    critic_steps=5,
    penalty=10.0,
    learning_rate=3e-4,
    seed=0,
    device=None,
    picture=PICTURE,
    images=None,
    compile=False,
):
    """Trains `steps` steps of the generator, `critic_steps` of the critic before each.

    Args:
        device: where to train (None: on a GPU where there is one).
        images: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of distance (estimated, to the test digits), first_distance (the same early on), slope.
    """
    torch.manual_seed(seed)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    train, test = read_digits("train10k")[:images], read_digits("t10k")[:images]
    batches = DataLoader(TensorDataset(train), batch_size, shuffle=True, drop_last=True)
    artist, critic = generator(latent, channels).to(device), critic_network(channels).to(device)
    artist_optimizer = torch.optim.Adam(artist.parameters(), lr=learning_rate, betas=(0.0, 0.9))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=learning_rate, betas=(0.0, 0.9))

    def criticize(real):
        with torch.no_grad():
            drawn = artist(torch.randn(len(real), latent, device=device))
        lead = critic(real).mean() - critic(drawn).mean()
        critic_loss = penalty * (slopes(critic, real, drawn, create_graph=True) - 1).square().mean() - lead
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        return lead

    def draw():
        artist_loss = -critic(artist(torch.randn(batch_size, latent, device=device))).mean()
        artist_optimizer.zero_grad()
        artist_loss.backward()
        artist_optimizer.step()
        return artist_loss

    if compile:
        criticize, draw = torch.compile(criticize), torch.compile(draw)

    started = time.perf_counter()
    bar = tqdm(total=steps, unit="step", file=sys.stdout, mininterval=0.5)
    first_distance, updates = None, 0
    while bar.n < steps:
        for (real,) in batches:
            lead = criticize(real.to(device))
            updates += 1
            if updates % critic_steps:
                continue

            draw()
            bar.set_postfix_str(f"lead {lead.item():.2f}", refresh=False)
            bar.update()
            if first_distance is None and bar.n >= steps / 20:
                first_distance, _ = measure(artist, critic, test[:1000], latent, device)
            if bar.n == steps:
                break
    bar.close()
    seconds = time.perf_counter() - started

    distance, slope = measure(artist, critic, test, latent, device)
    artist.eval()
    with torch.no_grad():
        save_picture(artist(torch.randn(64, latent, device=device)).cpu(), picture)
    print(
        f"distance {distance:.2f} (it was {first_distance:.2f}), slope {slope:.2f} ({seconds:.0f} s); drawn in {picture}"
    )
    return {"distance": distance, "first_distance": first_distance, "slope": slope}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), default=300, help="of the generator (%(default)s)")
    parser.add_argument("--batch-size", type=programs.whole_number(1), default=64, help="(%(default)s)")
    parser.add_argument(
        "--latent", type=programs.whole_number(1), default=64, help="numbers of noise for a picture (%(default)s)"
    )
    parser.add_argument(
        "--channels", type=programs.whole_number(1), default=32, help="width of both networks (%(default)s)"
    )
    parser.add_argument(
        "--critic-steps", type=programs.whole_number(1), default=5, help="for one of the generator (%(default)s)"
    )
    parser.add_argument(
        "--penalty", type=programs.number(0), default=10.0, help="weight of the gradient penalty (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=3e-4, help="of Adam (%(default)s)")
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
