"""Functions that PyTorch's top level has under names with a `_`, and a few of its own that only packages ask for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from dynograd.base.devices import as_device
from dynograd.base.hints import DeviceLike
from dynograd.distributions.draws import gamma_numbers, simplex_numbers
from dynograd.nn.variants import grouped_mm
from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = [
    "_amp_foreach_non_finite_check_and_unscale_",
    "_amp_update_scale_",
    "_assert_async",
    "_cast_Long",
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "_grouped_mm",
    "_sample_dirichlet",
    "_segment_reduce",
    "_shape_as_tensor",
    "_standard_gamma",
    "get_device_module",
    "is_traceable_wrapper_subclass",
]


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape as int64 numbers.

    >>> dynograd._shape_as_tensor(dynograd.zeros(2, 3))
    tensor([2, 3])
    """
    return dynograd.tensor(list(self.shape), dtype=dynograd.int64)


shape_as_tensor = _shape_as_tensor


def _assert_async(input: Tensor, assert_msg: str = "") -> None:
    """Raises where the one element is 0.

    Raises:
        RuntimeError: it is.
    """
    if input.numel() != 1:
        raise RuntimeError(f"_assert_async: expected one element, got shape {tuple(input.shape)}.")
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """A draw of the gamma distribution with each of these concentrations and rate 1.

    >>> bool((dynograd._standard_gamma(dynograd.ones(3)) > 0).all())
    True
    """
    return gamma_numbers(self, generator)


def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """A draw of the Dirichlet distribution with these concentrations in its last dim.

    >>> bool((dynograd._sample_dirichlet(dynograd.ones(3)).sum() - 1).abs() < 1e-6)
    True
    """
    return simplex_numbers(self, generator)


def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of `size` rows begins, from sorted numbers of rows.

    >>> dynograd._convert_indices_from_coo_to_csr(tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    dtype = dynograd.int32 if out_int32 else input.dtype
    rows = dynograd.arange(size + 1, dtype=input.dtype, device=input.device)
    return dynograd.searchsorted(input.contiguous(), rows).to(dtype)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """(2, N): rows and columns, or with `transpose` columns and rows.

    >>> dynograd._convert_indices_from_csr_to_coo(tensor([0, 2, 2, 3]), tensor([1, 0, 2]))
    tensor([[0, 0, 2],
            [1, 0, 2]])
    """
    counts = crow_indices[1:] - crow_indices[:-1]
    rows = dynograd.arange(len(counts), dtype=crow_indices.dtype, device=crow_indices.device).repeat_interleave(counts)
    pair = [col_indices, rows] if transpose else [rows, col_indices]
    result = dynograd.stack(pair)
    return result.to(dynograd.int32) if out_int32 else result


def _segment_reduce(data: Tensor, reduce: str, **options: Any) -> Tensor:
    """`segment_reduce` under its other name."""
    return dynograd.segment_reduce(data, reduce, **options)


def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """`nn.functional.grouped_mm` under its other name."""
    return grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def get_device_module(device: DeviceLike = None) -> ModuleType:
    """The module of a kind of devices: `dynograd.cuda` for "cuda:0".

    Args:
        device: a device or its name; None is the GPU there is, or the CPU.
    Returns:
        A module.
    Raises:
        RuntimeError: there is none.

    >>> dynograd.get_device_module("cpu").__name__
    'dynograd.compat.cpu'
    """
    kind = (
        "cuda"
        if device is None and dynograd.cuda.is_available()
        else "cpu"
        if device is None
        else as_device(device).type
    )
    if kind not in ("cpu", "cuda", "xpu", "mps"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return importlib.import_module(f"dynograd.{kind}")


def _cast_Long(input: Tensor, non_blocking: bool = False) -> Tensor:
    """The tensor in int64 (old; `x.long()`)."""
    return input.long()


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: there are no tensors that wrap others by `__torch_dispatch__`."""
    return False


def _amp_foreach_non_finite_check_and_unscale_(self: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiplies gradients by `inv_scale`, in place; `found_inf` becomes 1 where one is infinite or NaN.

    >>> gradients, found = [tensor([2.0, 4.0])], dynograd.zeros(1)
    >>> dynograd._amp_foreach_non_finite_check_and_unscale_(gradients, found, tensor([0.5]))
    >>> gradients, found
    ([tensor([1., 2.])], tensor([0.]))
    """
    with dynograd.no_grad():
        for gradient in self:
            if not bool(gradient.isfinite().all()):
                found_inf.fill_(1)
            gradient.mul_(inv_scale.to(gradient.dtype))


def _amp_update_scale_(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """The scale for the next step, in place: smaller after infinite gradients, larger after `growth_interval` steps without.

    >>> dynograd._amp_update_scale_(tensor([8.0]), tensor([0]), tensor([1.0]), 2.0, 0.5, 100)
    tensor([4.])
    """
    with dynograd.no_grad():
        if bool(found_inf.any()):
            self.mul_(scale_backoff_factor)
            growth_tracker.zero_()
        elif int(growth_tracker) + 1 == growth_interval:
            grown = self * scale_growth_factor
            if bool(grown.isfinite().all()):
                self.copy_(grown)
            growth_tracker.zero_()
        else:
            growth_tracker.add_(1)
    return self
