"""Training with `autograd.Function`s of one's own: a small network whose weights and activations are rounded, and a second head with reversed gradients."""

from __future__ import annotations

from benchmarks.workload import fill, generator, normal, row, train_on

BATCH, WIDTH, CLASSES = 32, 64, 10


def functions_of(torch):
    """Rounding straight through within limits, and the reversal of a gradient."""

    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.most = 127 / scale
            return (x * scale).round().clamp(-127, 127) / scale

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= ctx.most), None

    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, alpha):
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g.neg() * ctx.alpha, None

    return Rounded.apply, Reversed.apply


@row("functions")
def functions(torch):
    """Forward, two losses, backward and Adam; seven calls of Functions."""
    rounded, turned = functions_of(torch)
    linear, nn = torch.nn.functional.linear, torch.nn
    layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])
    heads = nn.ModuleList([nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, 2)])
    for part in (layers, heads):
        fill(torch, part)
    random = generator(3)
    x = torch.from_numpy(normal(random, BATCH, WIDTH))
    y, domain = [torch.from_numpy(random.integers(0, count, BATCH)) for count in (CLASSES, 2)]
    parameters = [*layers.parameters(), *heads.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    cross_entropy = nn.functional.cross_entropy

    def loss_of(x, y, domain):
        for layer in layers:
            x = rounded(linear(x, rounded(layer.weight, 256.0), layer.bias).relu(), 32.0)
        return cross_entropy(heads[0](x), y) + cross_entropy(heads[1](turned(x, 0.5)), domain)

    return train_on([(x, y, domain)], loss_of, optimizer, parameters)
