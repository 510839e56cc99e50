"""Helpers of `torch.optim.optimizer` that packages' optimizers import."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.autograd.modes import set_grad_enabled
from dynograd.base import dtypes
from dynograd.ops.elementwise.complexes import view_as_real
from dynograd.tensor.tensor import Tensor

__all__ = [
    "_capturable_doc",
    "_default_to_fused_or_foreach",
    "_device_dtype_check_for_fused",
    "_differentiable_doc",
    "_disable_dynamo_if_unsupported",
    "_dispatch_sqrt",
    "_foreach_doc",
    "_foreach_supported_types",
    "_fused_doc",
    "_get_capturable_supported_devices",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_get_scalar_dtype",
    "_get_value",
    "_group_tensors_by_device_and_dtype",
    "_maximize_doc",
    "_params_doc",
    "_stack_if_compiling",
    "_to_scalar",
    "_use_grad_for_differentiable",
    "_view_as_real",
]

_params_doc = "params (iterable): parameters, or dicts of them with options of their own."
_foreach_doc = "foreach (bool, optional): whether parameters are updated together."
_fused_doc = "fused (bool, optional): whether one kernel updates a parameter."
_capturable_doc = "capturable (bool, optional): whether a CUDA graph may hold the step."
_differentiable_doc = "differentiable (bool, optional): whether steps are recorded for gradients."
_maximize_doc = "maximize (bool, optional): whether the objective grows."
_foreach_supported_types: list[type] = [Tensor]


def _default_to_fused_or_foreach(
    params: Sequence[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(False, whether parameters are updated together): as in PyTorch, where all lie on a GPU."""
    if differentiable:
        return False, False
    fused = use_fused and all([param.is_floating_point() for param in params])
    return fused, not fused and all([param.device.type == "cuda" for param in params])


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cpu", "cuda"]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda"]


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    if not p.is_floating_point():
        raise RuntimeError(f"fused=True asks for floating-point parameters, got {p.dtype}. Leave fused out.")


def _get_scalar_dtype(is_fused: bool | None = None) -> dtypes.dtype:
    """The dtype of an optimizer's own numbers: float32, or the default dtype where that is float64."""
    if is_fused:
        return dtypes.float32
    return dtypes.float64 if dtypes.get_default_dtype() == dtypes.float64 else dtypes.float32


def _get_value(x: Any) -> object:
    return x.item() if isinstance(x, Tensor) else x


_to_scalar = _get_value


def _dispatch_sqrt(x: Any) -> Tensor | float:
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _stack_if_compiling(x: Any) -> object:
    return x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """In each list, complex tensors are replaced by their views as real ones."""
    for place, param in enumerate(params):
        if param.is_complex():
            params[place] = view_as_real(param)
            for values in state_and_grads:
                values[place] = view_as_real(values[place])


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable:
    return lambda function: function


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """A decorator of `step`: gradients are recorded in it only where the optimizer says `differentiable`."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> object:
        with set_grad_enabled(self.defaults.get("differentiable", False)):
            return func(self, *args, **kwargs)

    return step


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple, tuple]:
    """(device, dtype) of the first list's tensors -> (the lists with those tensors alone, their places).

    >>> from dynograd.utils._foreach_utils import _group_tensors_by_device_and_dtype
    >>> lists, places = _group_tensors_by_device_and_dtype([[tensor([1.0])], [tensor([2.0])]], True)[dynograd.device("cpu"), dynograd.float32]
    >>> lists, places
    ([[tensor([1.])], [tensor([2.])]], [0])
    """
    places: dict[tuple, list[int]] = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        key = (None, None) if tensor is None else (tensor.device, tensor.dtype)
        places.setdefault(key, []).append(place)
    return {
        key: ([[values[place] for place in chosen] if len(values) else [] for values in tensorlistlist], chosen)
        for key, chosen in places.items()
    }
