"""What programs use: marks, weights and data from NumPy, and a few training steps."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy
import torch

PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {}


def program(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Marks a program. It returns what it saw, by name: tensors, numbers, texts."""
    PROGRAMS[function.__name__] = function
    return function


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.tensor(numpy.random.default_rng(seed).standard_normal(shape).astype("float32"))


def integers(high: int, *shape: int, seed: int = 0, low: int = 0) -> torch.Tensor:
    return torch.tensor(numpy.random.default_rng(seed).integers(low, high, shape))


def filled(model: Any, scale: float = 1.0) -> Any:
    """The model with weights that depend on their names alone."""
    with torch.no_grad():
        for name, value in sorted(model.state_dict().items()):
            if (
                not isinstance(value, torch.Tensor)
                or not value.is_floating_point()
                or value.numel() == 0
                or "mask" in name
            ):
                continue
            draws = numpy.random.default_rng(zlib.crc32(name.encode())).standard_normal(tuple(value.shape))
            if name.endswith(("running_var", "moving_var")):
                draws = 1 + 0.1 * abs(draws)
            elif value.ndim < 2:
                draws = 0.1 * draws + (1.0 if name.endswith("weight") else 0.0)
            else:
                draws = draws * scale / max(numpy.prod(value.shape[1:]), 1) ** 0.5
            value.copy_(torch.tensor(numpy.asarray(draws, "float32")).reshape(value.shape).to(value.dtype))
    return model


def trained(
    parameters: Iterable[Any], loss_of: Callable[[], Any], steps: int = 3, optimizer: Any = None, lr: float = 1e-2
) -> list[float]:
    """The losses of a few steps of SGD, or of the optimizer."""
    optimizer = optimizer or torch.optim.SGD(list(parameters), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def again(model: Any, empty: Any) -> Any:
    """The model's weights, saved to a file and loaded into another one."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/weights.pt")
        empty.load_state_dict(torch.load(f"{folder}/weights.pt", weights_only=True))
    return empty.eval()


def summary(value: Any) -> Any:
    """What is stored of a result: of a tensor its shape, mean, mean magnitude, and up to 16 numbers spread over it."""
    if isinstance(value, torch.Tensor):
        numbers = (
            value.detach().to(torch.float64).cpu().numpy() if value.dtype != torch.bool else value.cpu().numpy() * 1.0
        )
        flat = numbers.reshape(-1)
        places = numpy.unique(numpy.linspace(0, max(flat.size - 1, 0), 16).astype(int)) if flat.size else []
        spread = [float(flat[place]) for place in places]
        return {
            "shape": list(numbers.shape),
            "mean": float(flat.mean()) if flat.size else 0.0,
            "size": float(abs(flat).mean()) if flat.size else 0.0,
            "numbers": spread,
        }
    if isinstance(value, dict):
        return {str(key): summary(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [summary(item) for item in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    return float(value)


def without_extension(torch: Any) -> None:
    """torchvision's operators are not on a CPU build of PyTorch from another index: their names, so that it can be imported."""
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
