"""A variational autoencoder on pictures of MNIST's size."""

from __future__ import annotations

import numpy

from benchmarks.workload import fill, generator, normal, row, train_on

BATCH = 128
LATENT = 20


@row("vae")
def vae(torch):
    """784-400-20-400-784, batch 128: binary cross-entropy and KL divergence, Adam. The noise is given, so that both libraries use the same."""
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(784, 400)
            self.mean = nn.Linear(400, LATENT)
            self.log_variance = nn.Linear(400, LATENT)
            self.decoder = nn.Sequential(nn.Linear(LATENT, 400), nn.ReLU(), nn.Linear(400, 784))

        def forward(self, x, noise):
            h = torch.relu(self.encoder(x))
            mean, log_variance = self.mean(h), self.log_variance(h)
            z = mean + noise * torch.exp(0.5 * log_variance)
            return self.decoder(z), mean, log_variance

    model = Model()
    fill(torch, model)
    random = generator(12)
    x = torch.from_numpy(random.random((BATCH, 784), dtype=numpy.float32))
    noise = torch.from_numpy(normal(random, BATCH, LATENT))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x, noise):
        picture, mean, log_variance = model(x, noise)
        error = nn.functional.binary_cross_entropy_with_logits(picture, x, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean * mean - torch.exp(log_variance)).sum()
        return (error + divergence) / BATCH

    return train_on([(x, noise)], loss_of, optimizer, model.parameters())
