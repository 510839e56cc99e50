"""What the program calls a tensor: the name of a parameter of a module that ran, or of a variable."""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

from dynograd.debug.recording import Value
from dynograd.nn import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["Names"]


def _tensors_of(module: Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


class Names:
    """Looks names up in modules, and in the variables of `frame` and of the user's frames around it."""

    def __init__(self, modules: Iterable[Any], frame: FrameType | None) -> None:
        self.modules = list(modules)
        self.variables: list[dict[str, Any]] = []
        while frame is not None:
            if not frame.f_globals.get("__name__", "").startswith("dynograd"):
                self.variables.append(frame.f_locals)
                if len(self.variables) == 1:
                    self.variables.append(frame.f_globals)
            frame = frame.f_back

    def of(self, tensor: Tensor | None) -> str:
        """`encoder.0.weight`, `x`; "" where nobody knows it."""
        if tensor is None:
            return ""
        for module in self.modules:
            for name, entry in _tensors_of(module):
                if entry is tensor:
                    return name
        for variables in self.variables:
            for name, entry in list(variables.items()):
                if entry is tensor and not name.startswith("_"):
                    return name
        for variables in self.variables:
            for name, entry in list(variables.items()):
                if isinstance(entry, Module):
                    inner = next((path for path, other in _tensors_of(entry) if other is tensor), None)
                    if inner is not None:
                        return f"{name}.{inner}"
        return ""

    def of_value(self, value: Value) -> str:
        """The same; of what came from outside and has no name `a tensor from outside`."""
        return self.of(value.tensor()) or ("a tensor from outside" if value.call is None else "")

    def leaf_with(self, gradient: Tensor) -> Tensor | None:
        """The parameter, or variable, whose `.grad` this is."""
        for module in self.modules:
            for parameter in module.parameters():
                if parameter.grad is gradient:
                    return parameter
        for variables in self.variables:
            for entry in list(variables.values()):
                if isinstance(entry, Module):
                    for parameter in entry.parameters():
                        if parameter.grad is gradient:
                            return parameter
                elif isinstance(entry, Tensor) and entry.is_leaf and entry.grad is gradient:
                    return entry
        return None
