"""Which functions, methods and attributes can be taken over, read from the namespaces themselves."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from typing import Any

from dynograd.interpreter.override_protocol import known_names
from dynograd.interpreter.overriding import OverridingTensor, fill_overriding
from dynograd.ops.op import Op
from dynograd.tensor.tensor import Tensor

__all__ = ["SPACES", "functions_of", "methods", "module_of", "properties", "public_function_of"]

_METHODS = "dynograd.Tensor."
SPACES = ("", "nn.functional", "linalg", "fft", "special")
# First parameters that are tensors.
_TENSORS = frozenset(
    """input self tensor tensors A B a x y x1 query target anchor input1 log_probs matrices arrays condition indices sorted_sequence
    boundaries values data lu LU_data operands equation shape_like other mat1 vec1 real abs crow_indices predictions n inputs""".split()
)
_WITHOUT_TENSORS = frozenset(
    """is_tensor is_storage typename numel_of set_printoptions get_printoptions printoptions from_numpy tensor as_tensor asarray
    broadcast_shapes result_type_of finfo iinfo device dtype Generator set_default_dtype get_default_dtype""".split()
)


def module_of(space: str) -> types.ModuleType:
    return importlib.import_module(f"dynograd.{space}" if space else "dynograd")


@functools.cache
def functions_of(space: str, of_tensors: bool = False) -> dict[str, Any]:
    """Public functions by name; with `of_tensors`, those that take tensors."""
    module = module_of(space)
    functions = {}
    for name in module.__all__ if space else list(vars(module)):
        function = vars(module).get(name)
        if not isinstance(function, types.FunctionType) or name.startswith("__"):
            continue
        if not space and not hasattr(function, "op") and name not in module.__all__:
            continue
        if of_tensors and not _takes_tensors(name, function):
            continue
        functions[name] = function
        if space or name.partition("_")[0] not in SPACES:  # linalg_norm is known as linalg.norm
            if known_names.get(function, _METHODS).startswith(_METHODS):  # a method too
                known_names[function] = f"{module.__name__}.{name}"
    return functions


def _takes_tensors(name: str, function: Any) -> bool:
    entry = getattr(function, "op", None)
    if isinstance(entry, Op) and entry.array_names:
        return True
    if name in _WITHOUT_TENSORS:
        return False
    return next(iter(inspect.signature(function).parameters), "") in _TENSORS


@functools.cache
def methods() -> dict[str, Any]:
    """Methods and operators of Tensor that subclasses take over."""
    fill_overriding()
    own = vars(Tensor)
    return {name: own[name] for name, value in vars(OverridingTensor).items() if name in own and callable(value)}


@functools.cache
def properties() -> dict[str, property]:
    fill_overriding()
    own = vars(Tensor)
    return {name: own[name] for name in vars(OverridingTensor) if isinstance(own.get(name), property)}


def public_function_of(entry: Op) -> Any:
    """The function by which users call an op."""
    space, _, rest = entry.name.partition("_")
    if space in SPACES and rest in functions_of(space):
        return functions_of(space)[rest]
    for space in SPACES:
        function = functions_of(space).get(entry.name)
        if function is not None:
            return function
    return entry.function
