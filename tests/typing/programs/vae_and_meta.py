"""A variational autoencoder with distributions, and gradients of functions of parameters (func)."""

from __future__ import annotations

from typing import NamedTuple

import dynograd as torch
from dynograd import Tensor, nn
from dynograd.distributions import Bernoulli, Normal, kl_divergence
from dynograd.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, vmap

Parameters = dict[str, Tensor]


class Output(NamedTuple):
    posterior: Normal
    likelihood: Bernoulli
    sample: Tensor


class VAE(nn.Module):
    def __init__(self, size: int, hidden: int = 8, latent: int = 2) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, hidden), nn.Softplus())
        self.mean, self.scale = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, size))

    def encode(self, x: Tensor) -> Normal:
        h = self.encoder(x)
        return Normal(loc=self.mean(h), scale=nn.functional.softplus(self.scale(h)) + 1e-3)

    def forward(self, x: Tensor) -> Output:
        posterior = self.encode(x)
        z = posterior.rsample()
        return Output(posterior, Bernoulli(logits=self.decoder(z)), z)

    def loss(self, x: Tensor, beta: float = 1.0) -> Tensor:
        out = self(x)
        prior = Normal(torch.zeros_like(out.sample), torch.ones_like(out.sample))
        divergence = kl_divergence(out.posterior, prior).sum(-1)
        return (beta * divergence - out.likelihood.log_prob(x).sum(-1)).mean()


def adapted_loss(model: nn.Module, parameters: Parameters, support: tuple[Tensor, Tensor], rate: float = 0.1) -> Tensor:
    x, y = support

    def inner(values: Parameters) -> Tensor:
        return nn.functional.mse_loss(functional_call(model, values, (x,)), y)

    gradients = grad(inner)(parameters)
    fast = {name: value - rate * gradients[name] for name, value in parameters.items()}
    return inner(fast)


def per_sample(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values: Parameters, sample: Tensor, target: Tensor) -> Tensor:
        return (functional_call(model, values, (sample.unsqueeze(0),)).squeeze(0) - target).pow(2).sum()

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).sum(0)


def quadratic(x: Tensor) -> Tensor:
    return (x**2).sum() + x.prod()


def main(steps: int = 2) -> float:
    torch.manual_seed(0)
    data = torch.bernoulli(torch.full((16, 6), 0.4))
    vae = VAE(size=data.shape[-1])
    optimizer = torch.optim.Adam(vae.parameters(), lr=1e-2)
    value = torch.tensor(0.0)
    for _ in range(steps):
        value = vae.loss(data, beta=0.5)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    model = nn.Linear(3, 1)
    parameters: Parameters = dict(model.named_parameters())
    x, y = torch.randn(5, 3), torch.randn(5, 1)
    meta = adapted_loss(model, parameters, (x, y))
    meta.backward()
    assert model.weight.grad is not None and per_sample(model, x, y).shape == (5,)
    point = torch.tensor([1.0, 2.0])
    gradient, loss = grad_and_value(quadratic)(point)
    matrix = hessian(quadratic)(point)
    jacobian = jacrev(torch.sin)(point)
    _, tangent = jvp(quadratic, (point,), (torch.ones(2),))
    q, r = torch.linalg.qr(matrix)
    solved = torch.linalg.solve(matrix, gradient)
    assert torch.allclose(q @ r, matrix, atol=1e-5) and torch.linalg.norm(solved) > 0
    assert jacobian.shape == (2, 2) and torch.isclose(tangent, gradient.sum()).item()
    spectrum = torch.fft.rfft(torch.ones(8)).abs()
    return value.item() + float(loss) + float(torch.special.expit(spectrum).sum())


if __name__ == "__main__":
    main()
