"""What the API reference lists: public names of public modules, each object on one page, under the name that is shortest to import."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dynograd
from dynograd.ops.op import Op

MODULES = {
    "": "Tensors, what makes and changes them, gradients, ragged tensors, automatic batching, runs.",
    "nn": "Layers, losses and containers as modules.",
    "nn.functional": "The functions behind the layers.",
    "nn.init": "Initial weights.",
    "nn.utils": "Gradient clipping, parameters as vectors, weight norms.",
    "nn.utils.rnn": "Packed and padded sequences.",
    "nn.utils.parametrize": "Weights that are computed from other weights.",
    "optim": "Optimizers.",
    "optim.lr_scheduler": "Learning rates that change.",
    "optim.swa_utils": "Averages of weights.",
    "data": "Datasets, samplers, loaders, and how samples become batches.",
    "ragged": "What works on rows of different lengths alone.",
    "nested": "PyTorch's names for ragged tensors.",
    "autograd": "Gradients, hooks, gradient checks, functions with their own gradient.",
    "autograd.functional": "Jacobians and Hessians of functions.",
    "func": "Functions of functions: vmap, jvp, vjp, Hessians.",
    "linalg": "Factorizations, solvers, norms.",
    "fft": "Fourier transforms.",
    "special": "Special functions.",
    "signal.windows": "Windows.",
    "sparse": "Sparse tensors.",
    "masked": "Reductions that leave elements out.",
    "distributions": "Probability distributions, constraints and transforms.",
    "amp": "Mixed precision.",
    "random": "Random generators.",
    "utils.checkpoint": "Gradients for less memory.",
    "profiler": "Where time and memory go.",
    "testing": "Comparing tensors in tests.",
    "cuda": "GPUs: devices, memory, streams, graphs.",
    "distributed": "The names of PyTorch's process groups.",
    "library": "Operators of one's own.",
    "fx": "Programs as graphs.",
    "overrides": "Types and modes that take functions over.",
    "serialization": "Files of tensors.",
}
"""The modules that the reference describes, in its order, each with what it holds."""


@dataclass
class Entry:
    """A public object, with the names under which it can be reached (without `dynograd.`), the shortest first."""

    value: Any
    names: list[str]
    members: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.names[0]


def module_of(path: str) -> Any:
    if not path:
        return dynograd
    value: Any = dynograd
    for part in path.split("."):
        value = getattr(value, part, None) if hasattr(value, part) else importlib.import_module(f"dynograd.{path}")
    return value


def public(path: str) -> list[str]:
    """The public names of a module: what it lists, without modules and what it only imported."""
    module = module_of(path)
    if hasattr(module, "__dir__") and "__dir__" in vars(module):
        names = dir(module)
    else:
        names = list(getattr(module, "__all__", None) or dir(module))
    return [
        name for name in sorted({*names}) if not name.startswith("_") and _is_described(getattr(module, name, None))
    ]


def _is_described(value: Any) -> bool:
    if isinstance(value, types.ModuleType) or value is None:
        return False
    if not isinstance(value, type) and not inspect.isroutine(value):
        return False
    if isinstance(value, type) and issubclass(value, type):
        return False
    module = getattr(value, "__module__", None) or ""
    return module == "dynograd" or module.startswith("dynograd.")


def entries() -> dict[int, Entry]:
    """All public objects by identity, in the order of the modules."""
    result: dict[int, Entry] = {}
    for path in MODULES:
        module = module_of(path)
        for name in public(path):
            value = getattr(module, name)
            if path and value is dynograd.Tensor:
                continue  # imported for annotations
            full = f"{path}.{name}" if path else name
            result.setdefault(id(value), Entry(value, [])).names.append(full)
    for entry in result.values():
        own = [name for name in entry.names if name.rpartition(".")[2] == getattr(entry.value, "__name__", None)]
        entry.names.sort(key=lambda name: (name not in own, name.count("."), MODULE_ORDER[name.rpartition(".")[0]]))
    return result


MODULE_ORDER = {path: position for position, path in enumerate(MODULES)}


def op_of(value: Any) -> Op | None:
    """The op behind a public function, None for other functions."""
    op = getattr(value, "op", None)
    return op if isinstance(op, Op) else None


def written(value: Any) -> Any:
    """The function or class as it stands in a file of the project."""
    op = op_of(value)
    return inspect.unwrap(op.forward if op else value) if not isinstance(value, type) else value


def members(value: type) -> Iterator[tuple[str, Any]]:
    """Listed methods and properties that a class or an undescribed base of it defines, with their descriptors."""
    listed, seen = {*dir(value)}, set()
    for base in value.__mro__:
        if base is object or not base.__module__.startswith("dynograd"):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen or name not in listed:
                continue
            seen.add(name)
            if isinstance(member, types.FunctionType | classmethod | staticmethod | property):
                yield name, member
