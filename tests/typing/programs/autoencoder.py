"""A variational autoencoder with distributions, and functions of functions: grad, vmap, jacrev, functional_call."""

from __future__ import annotations

from typing import NamedTuple

import dynograd as torch
from dynograd import Tensor, nn
from dynograd.distributions import Bernoulli, Categorical, Normal, kl_divergence
from dynograd.func import functional_call, grad, jacrev, vmap


class Output(NamedTuple):
    logits: Tensor
    posterior: Normal


class Autoencoder(nn.Module):
    def __init__(self, pixels: int, width: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.ELU())
        self.mean = nn.Linear(width, latent)
        self.scale = nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ELU(), nn.Linear(width, pixels))

    def encode(self, x: Tensor) -> Normal:
        h = self.encoder(x)
        return Normal(self.mean(h), torch.nn.functional.softplus(self.scale(h)) + 1e-4)

    def forward(self, x: Tensor) -> Output:
        posterior = self.encode(x)
        return Output(self.decoder(posterior.rsample()), posterior)


def elbo(output: Output, x: Tensor) -> Tensor:
    prior = Normal(torch.zeros_like(output.posterior.mean), torch.ones_like(output.posterior.mean))
    likelihood = Bernoulli(logits=output.logits).log_prob(x).sum(-1)
    return (likelihood - kl_divergence(output.posterior, prior).sum(-1)).mean()


def per_example(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        prediction: Tensor = functional_call(model, weights, (x[None],))
        return (prediction[0] - y).square().sum()

    gradients: dict[str, Tensor] = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return gradients


def square(x: Tensor) -> Tensor:
    return (x**2).sum()


def main() -> float:
    torch.manual_seed(0)
    x = (torch.rand(8, 6) > 0.5).float()
    model = Autoencoder(6, 8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    value = 0.0
    for _ in range(3):
        loss = -elbo(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    with torch.no_grad():
        samples = torch.sigmoid(model.decoder(torch.randn(3, 2)))
    assert samples.shape == (3, 6) and bool((samples <= 1).all())
    actions = Categorical(logits=torch.zeros(5, 3))
    chosen = actions.sample()
    assert actions.log_prob(chosen).shape == chosen.shape and actions.entropy().shape[0] == 5
    gradients = per_example(nn.Linear(6, 1), x, x[:, :1])
    assert gradients["weight"].shape == (8, 1, 6)
    point = torch.tensor([1.0, 2.0])
    assert grad(square)(point).tolist() == [2.0, 4.0]
    hessian = jacrev(grad(square))(point)
    assert torch.equal(hessian, 2 * torch.eye(2))
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    assert torch.allclose(u @ torch.diag(s) @ vh, x, atol=1e-4)
    product = torch.einsum("bi,bj->ij", x, x)
    assert product.shape == (6, 6) and torch.linalg.norm(product).item() > 0
    return value


if __name__ == "__main__":
    print(main())
