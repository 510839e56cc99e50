"""Programs that differentiate gradients: learning to learn, and the penalty on a critic's slope."""

from __future__ import annotations

import numpy

from benchmarks.rows.mlp import network
from benchmarks.workload import fill, generator, normal, row, train_on

TASKS, POINTS, INNER_STEPS, INNER_RATE = 4, 10, 1, 0.01


@row("maml")
def maml(torch):
    """Sine regression of Finn et al. 2017: a perceptron 1-40-40-1, 4 tasks of 10 points, an inner step of SGD that the outer loss goes through, Adam."""
    functional = torch.nn.functional
    model = network(torch, 1, 40, 40, 1)
    parameters = list(model.parameters())
    random = generator(21)
    amplitudes, phases = random.uniform(0.1, 5, (TASKS, 1, 1)), random.uniform(0, numpy.pi, (TASKS, 1, 1))
    points = [random.uniform(-5, 5, (TASKS, POINTS, 1)) for _ in range(2)]
    sines = [amplitudes * numpy.sin(x - phases) for x in points]
    batch = [torch.from_numpy(array.astype("float32")) for pair in zip(points, sines) for array in pair]

    def predicted(x, weights):
        for place in range(0, len(weights) - 2, 2):
            x = torch.relu(functional.linear(x, weights[place], weights[place + 1]))
        return functional.linear(x, weights[-2], weights[-1])

    def loss_of(shown, shown_sines, asked, asked_sines):
        losses = []
        for task in range(TASKS):
            weights = parameters
            for _ in range(INNER_STEPS):
                loss = functional.mse_loss(predicted(shown[task], weights), shown_sines[task])
                slopes = torch.autograd.grad(loss, weights, create_graph=True)
                weights = [weight - INNER_RATE * slope for weight, slope in zip(weights, slopes)]
            losses.append(functional.mse_loss(predicted(asked[task], weights), asked_sines[task]))
        return torch.stack(losses).mean()

    return train_on([batch], loss_of, torch.optim.Adam(parameters, lr=1e-3), parameters)


@row("gradient_penalty")
def gradient_penalty(torch):
    """A critic 64-64-64-1 on batches of 64, whose slope between real and generated rows is to have length 1 (Gulrajani et al. 2017), Adam."""
    nn = torch.nn
    critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    fill(torch, critic)
    random = generator(22)
    real, generated = [torch.from_numpy(normal(random, 64, 64)) for _ in range(2)]
    share = torch.from_numpy(random.random((64, 1), dtype=numpy.float32))

    def loss_of(real, generated, share):
        between = (share * real + (1 - share) * generated).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (slope.norm(2, 1) - 1).pow(2).mean()
        return critic(generated).mean() - critic(real).mean() + 10 * penalty

    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    return train_on([(real, generated, share)], loss_of, optimizer, critic.parameters())
