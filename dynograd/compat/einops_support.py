"""einops for dynograd's tensors: its functions take them, its layers lie in `einops.layers.dynograd`.

einops (https://einops.rocks) asks subclasses of its own `AbstractBackend` whose tensor it has got. Ours is defined when both libraries have
been imported, in either order. Where PyTorch is not installed, `from einops.layers.torch import Rearrange` gives the layers of dynograd, so that
programs need not be changed.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from numpy import ndarray

__all__ = ["install"]

_BACKENDS = "einops._backends"
_LAYERS = ("einops.layers.dynograd", "einops.layers.torch")


def _define_backend(backends: ModuleType) -> None:
    from dynograd.ops.layout.joins import cat, stack
    from dynograd.ops.matmul.contractions import einsum
    from dynograd.tensor import creation
    from dynograd.tensor.creation import from_numpy
    from dynograd.tensor.tensor import Tensor

    class DynogradBackend(backends.AbstractBackend):  # type: ignore[name-defined]
        """How einops computes with tensors."""

        framework_name = "dynograd"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            return from_numpy(x)

        def to_numpy(self, x: Tensor) -> ndarray:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return creation.arange(start, stop)

        def transpose(self, x: Any, axes: Any) -> Any:
            return x.permute(tuple(axes))

        def reduce(self, x: Any, operation: str, axes: Any) -> Any:
            if operation == "prod":
                for axis in sorted(axes, reverse=True):
                    x = x.prod(axis)
                return x
            return getattr(x, {"min": "amin", "max": "amax"}.get(operation, operation))(dim=tuple(axes))

        def add_axis(self, x: Any, new_position: int) -> Any:
            return x.unsqueeze(new_position)

        def tile(self, x: Any, repeats: Any) -> Any:
            return x.repeat(repeats)

        def add_axes(self, x: Any, n_axes: int, pos2len: Any) -> Any:
            for axis in pos2len:
                x = x.unsqueeze(axis)
            return x.expand([pos2len.get(axis, -1) for axis in range(n_axes)])

        def stack_on_zeroth_dimension(self, tensors: list) -> Any:
            return stack(tensors)

        def concat(self, tensors: Any, axis: int) -> Any:
            return cat(tensors, axis)

        def is_float_type(self, x: Any) -> bool:
            return x.is_floating_point()

        def einsum(self, pattern: str, *x: Any) -> Any:
            return einsum(pattern, *x)

        def layers(self) -> ModuleType:
            return importlib.import_module(_LAYERS[0])

    backends.DynogradBackend = DynogradBackend  # einops itself holds it weakly


class _Then(importlib.abc.Loader):
    """Loads einops' own module, and defines our backend behind it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _define_backend(module)


class _Layers(importlib.abc.Loader):
    def exec_module(self, module: ModuleType) -> None:
        real = importlib.import_module("dynograd.compat.einops_layers")
        module.__doc__ = real.__doc__
        module.__dict__.update({name: getattr(real, name) for name in real.__all__})


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == _BACKENDS:
            spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Then(spec.loader)
            return spec
        if fullname == _LAYERS[0] or (fullname == _LAYERS[1] and importlib.util.find_spec("torch") is None):
            return importlib.machinery.ModuleSpec(fullname, _Layers())
        return None


def install() -> None:
    """Makes einops know tensors, now or when it is imported."""
    if not any([isinstance(finder, _Finder) for finder in sys.meta_path]):
        sys.meta_path.insert(0, _Finder())
        if _BACKENDS in sys.modules:
            _define_backend(sys.modules[_BACKENDS])
