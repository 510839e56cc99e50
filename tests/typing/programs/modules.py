"""Modules with buffers, hooks, lists of parameters and modules by name."""

from __future__ import annotations

import dynograd as torch
from dynograd import Tensor, nn


def doubled(grad: Tensor) -> Tensor:
    return grad * 2


class Normalizer(nn.Module):
    mean: Tensor
    count: Tensor

    def __init__(self, width: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("count", torch.tensor(0), persistent=False)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.mean.mul_(1 - self.momentum).add_(x.mean(0), alpha=self.momentum)
                self.count += 1
        return (x - self.mean) * self.scale

    def extra_repr(self) -> str:
        return f"momentum={self.momentum}"


class Mixture(nn.Module):
    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(width)) for _ in range(parts)])
        self.activations = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.normalizer = Normalizer(width)

    def forward(self, x: Tensor, activation: str = "relu") -> Tensor:
        x = self.normalizer(x)
        total = torch.zeros_like(x)
        for weight in self.weights:
            total = total + x * weight
        result: Tensor = self.activations[activation](total)
        return result


def main() -> float:
    torch.manual_seed(0)
    model = Mixture(3, 2)
    seen: list[torch.Size] = []

    def keep(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        seen.append(output.shape)

    handle = model.activations["relu"].register_forward_hook(keep)
    inputs = torch.randn(4, 3, requires_grad=True)
    inputs.register_hook(doubled)
    model(inputs).sum().backward()
    handle.remove()
    model(inputs.detach(), activation="tanh")
    assert seen == [torch.Size([4, 3])] and inputs.grad is not None
    (grad,) = torch.autograd.grad(model(inputs).pow(2).sum(), [inputs], create_graph=True)
    assert grad.requires_grad and model.normalizer.count.item() == 3
    names = {name for name, _ in model.named_buffers()} | {name for name, _ in model.named_modules()}
    for name, parameter in model.named_parameters():
        if name.startswith("weights"):
            parameter.requires_grad_(False)
    frozen = [p for p in model.parameters() if not p.requires_grad]
    assert "normalizer.mean" in names and len(frozen) == 2
    return inputs.grad.norm().item()


if __name__ == "__main__":
    print(main())
