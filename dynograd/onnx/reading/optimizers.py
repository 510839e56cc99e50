"""Steps of optimizers, which ai.onnx.preview.training has as operators: (rate, step, tensors, gradients, states...) to (tensors, states...)."""

from __future__ import annotations

from collections.abc import Callable

from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import dynograd, number
from dynograd.tensor.tensor import Tensor

_TRAINING = "ai.onnx.preview.training"


def _stepped(step: Callable[..., tuple], inputs: tuple[Tensor, ...], kinds: int) -> tuple[Tensor, ...]:
    """`step(tensor, gradient, states...)` for each tensor; results stand kind after kind, as the inputs do."""
    count = len(inputs) // kinds
    results = [step(*inputs[number::count]) for number in range(count)]
    return tuple(result for kind in zip(*results) for result in kind)


@operator("Adagrad", domain=_TRAINING, outputs=0)
def adagrad(
    rate: Tensor, count: Tensor, *inputs: Tensor, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, n_outputs: int = 2,
) -> tuple[Tensor, ...]:  # fmt: skip
    now = rate / (1 + number(count) * decay_factor)

    def step(x: Tensor, g: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        g = norm_coefficient * x + g
        squares = squares + g * g
        return x - now * g / (dynograd.sqrt(squares) + epsilon), squares

    return _stepped(step, inputs, 3)


@operator("Adam", domain=_TRAINING, outputs=0)
def adam(
    rate: Tensor, count: Tensor, *inputs: Tensor, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0, n_outputs: int = 3,
) -> tuple[Tensor, ...]:  # fmt: skip
    turns = number(count)
    now = rate * (1 - beta**turns) ** 0.5 / (1 - alpha**turns) if turns > 0 else rate

    def step(x: Tensor, g: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        g = norm_coefficient * x + g
        mean, squares = alpha * mean + (1 - alpha) * g, beta * squares + (1 - beta) * g * g
        x = x - now * mean / (dynograd.sqrt(squares) + epsilon)
        return (1 - norm_coefficient_post) * x, mean, squares

    return _stepped(step, inputs, 4)


@operator("Momentum", domain=_TRAINING, outputs=0)
def momentum(
    rate: Tensor, count: Tensor, *inputs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float,
    n_outputs: int = 2,
) -> tuple[Tensor, ...]:  # fmt: skip
    share = beta if number(count) > 0 else 1

    def step(x: Tensor, g: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        g = norm_coefficient * x + g
        velocity = alpha * velocity + share * g
        return x - rate * (velocity if mode == "standard" else g + alpha * velocity), velocity

    return _stepped(step, inputs, 3)
