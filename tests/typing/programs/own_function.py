"""An own autograd.Function, an own module, hooks, and a check of gradients."""

from __future__ import annotations

from typing import Any

import dynograd as torch
from dynograd import Tensor, nn
from dynograd.autograd import Function, gradcheck
from dynograd.autograd.function import FunctionCtx, once_differentiable


class Swish(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x * torch.sigmoid(slope * x)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, None]:
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(ctx.slope * x)
        return grad * (gate + x * ctx.slope * gate * (1 - gate)), None


class Round(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.clone()


class Scaled(nn.Module):
    steps: Tensor

    def __init__(self, size: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), 0.5, device=device, dtype=dtype))
        self.bias: nn.Parameter | None
        self.register_parameter("bias", None)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return Swish.apply(x * self.weight, 1.5)


class Recorder:
    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        self.shapes.append(tuple(output.shape))


def steep(x: Tensor) -> Tensor:
    return Swish.apply(x, 2.0)


def halve(grad: Tensor) -> Tensor:
    return grad / 2


def main() -> float:
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(steep, (x,))
    layer = Scaled(4, dtype=torch.float64)
    recorder = Recorder()
    handle = layer.register_forward_hook(recorder)
    y = layer(x)
    removed = y.register_hook(halve)
    y.sum().backward()
    handle.remove()
    removed.remove()
    assert x.grad is not None and x.grad.shape == x.shape and recorder.shapes == [(3, 4)]
    first = x.grad.clone()
    x.grad.zero_()
    (gradient,) = torch.autograd.grad(layer(x).sum(), [x], create_graph=True)
    second = torch.autograd.grad(gradient.pow(2).sum(), x, allow_unused=True)[0]
    assert second is not None and torch.allclose(first * 2, gradient.detach())
    rounded = Round.apply(x)
    with torch.enable_grad():
        rounded.sum().backward()
    with torch.autograd.detect_anomaly():
        (x.exp() * 2).mean().backward()
    layer.requires_grad_(False)
    assert not any(p.requires_grad for p in layer.parameters()) and layer.steps.item() == 2
    frozen = x.detach().numpy()
    return float(frozen.sum()) + float(x.grad.norm())


if __name__ == "__main__":
    main()
