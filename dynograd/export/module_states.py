"""What a module keeps between its calls: buffers, and tensors that are its attributes."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["ModuleState"]


class ModuleState:
    """The state of a module, or of the one whose method a function is, before it is run for an export; other functions have none."""

    def __init__(self, function: Any) -> None:
        owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
        modules = dict(owner.named_modules()) if isinstance(owner, Module) else {}
        self._buffers = [
            (module, name, buffer, None if buffer is None else buffer.detach().clone())
            for module in modules.values()
            for name, buffer in module._buffers.items()
        ]
        self._modules = {path: (module, _tensors_of(module)) for path, module in modules.items()}

    def assigned(self) -> list[str]:
        """The buffers and attributes that are other tensors now."""
        return [
            f"{path}.{name}" if path else name
            for path, (module, before) in self._modules.items()
            for name, tensor in _tensors_of(module).items()
            if before.get(name) is not tensor
        ]

    def restore(self) -> None:
        """Puts the buffers back as they were."""
        with no_grad():
            for module, name, buffer, values in self._buffers:
                module._buffers[name] = buffer
                if buffer is not None and values is not None:
                    buffer.copy_(values)


def _tensors_of(module: Module) -> dict[str, Tensor]:
    attributes = {**module._buffers, **vars(module)}
    return {name: value for name, value in attributes.items() if isinstance(value, Tensor)}
