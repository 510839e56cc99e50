"""Clipping of gradients: their common norm, or each element."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

from dynograd import arrays
from dynograd.autograd.nodes import caller
from dynograd.autograd.writes import stamp_all
from dynograd.base import dtypes
from dynograd.errors import user_level
from dynograd.kernels import kernel
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients in place so that their norm, taken over all of them as one vector, is at most `max_norm`.

    gradient * min(1, max_norm / (norm + 1e-6)). Parameters without gradient are left out.

    Args:
        parameters: tensors whose `.grad` is clipped, or one tensor.
        max_norm: the largest norm allowed.
        norm_type: which p-norm; `inf` for the largest absolute value.
        error_if_nonfinite: raise instead of scaling by a norm that is NaN or infinite.
        foreach: accepted; there is one implementation.
    Returns:
        The norm before clipping, without dimensions; in the gradients' dtype (the wider one of two).
    Raises:
        RuntimeError: the norm is NaN or infinite, and `error_if_nonfinite`.
    Source: Pascanu et al., On the difficulty of training Recurrent Neural Networks, 2012 (arXiv 1211.5063), algorithm 1.

    >>> w = tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> dynograd.nn.utils.clip_grad_norm_([w], max_norm=5.0)
    tensor(10.)
    >>> w.grad
    tensor([3.0000, 4.0000])
    """
    given = _listed(parameters)
    if not given and isinstance(parameters, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=user_level())
    grads = _gradients(given)
    try:
        norm = arrays.quietly(_norm, grads, norm_type, error_if_nonfinite)
    except RuntimeError as error:
        _name_the_first(error, given)
        raise
    arrays.quietly(_scale, grads, max_norm, norm, caller())
    return _as_tensor(norm, grads)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Moves every element of the gradients that is outside [-clip_value, clip_value] to the nearer bound, in place.

    >>> w = tensor([3.0, 0.2], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> dynograd.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([1.0000, 0.4000])
    """
    grads = _gradients(_listed(parameters))
    if grads:
        bound = float(clip_value)
        arrays.quietly(kernel("tables", "bound", grads[0]), grads, -bound, bound)
        stamp_all(grads, caller())


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as one vector; see `clip_grad_norm_` for the arguments.

    >>> dynograd.nn.utils.get_total_norm([tensor([3.0]), tensor([0.0, 4.0])])
    tensor(5.)
    """
    given = [_entries(one) for one in _listed(tensors)]
    return _as_tensor(arrays.quietly(_norm, given, norm_type, error_if_nonfinite), given)


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """The scaling of `clip_grad_norm_` by a norm computed before, e.g. by `get_total_norm`."""
    grads = _gradients(_listed(parameters))
    norm = total_norm.array if _on_gpu(grads) and isinstance(total_norm, Tensor) else float(total_norm)
    arrays.quietly(_scale, grads, max_norm, norm, caller())


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=user_level(),
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def _listed(tensors: Any) -> list[Tensor]:
    if callable(getattr(tensors, "parameters", None)) and not isinstance(tensors, Iterable):
        raise TypeError(
            f"clip_grad_norm_ and its like: expected an iterable of Tensors, got the module {type(tensors).__name__}. "
            f"Pass its parameters()."
        )
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _name_the_first(error: RuntimeError, given: list[Tensor]) -> None:
    """Says which gradient is not finite."""
    for number, p in enumerate(given):
        if p.grad is not None and _entries(p.grad).size:
            entries = wrap(_entries(p.grad))
            if not bool(entries.isfinite().all().item()):  # type: ignore[attr-defined]
                error.args = (
                    f"{error} The first one is the gradient of parameter {number}, of shape {tuple(p.shape)}.",
                )
                return


def _gradients(given: list[Tensor]) -> list[Any]:
    """The arrays of the gradients; of sparse ones, which are coalesced first, those of the entries."""
    found = []
    for p in given:
        g = p.grad
        if g is not None:
            if g.is_sparse and not g.is_coalesced():  # type: ignore[attr-defined]
                g = p.grad = g.coalesce()  # type: ignore[attr-defined]
            found.append(_entries(g))
    return found


def _entries(one: Any) -> Any:
    return one.coalesce()._values().array if one.is_sparse else one.array


def _on_gpu(given: list[Any]) -> bool:
    return bool(given) and type(given[0]) is arrays.CudaArray


def _norm_on_gpu(given: list[Any], norm_type: float) -> Any:
    """The norm as a float64 array of no dims on the device: nobody waits for it."""
    if norm_type == 2.0:
        return kernel("tables", "sum_of_squares", given[0])(given) ** 0.5
    vector_norm = kernel("norms", "vector_norm_forward", given[0])
    norms = arrays.empty((len(given),), dtypes.float64, given[0].device)
    for place, one in enumerate(given):
        arrays.write(norms[place], vector_norm(one, norm_type, None, False))
    return vector_norm(norms, norm_type, None, False)


def _norm(given: list[Any], norm_type: float, error_if_nonfinite: bool) -> Any:
    """The norm of the arrays' norms, in double precision."""
    norm_type = float(norm_type)
    if not given:
        return 0.0
    if _on_gpu(given):
        norm = _norm_on_gpu(given, norm_type)
        if not error_if_nonfinite:
            return norm
    elif norm_type == 2.0:
        norm = math.sqrt(kernel("tables", "sum_of_squares", given[0])(given))
    else:
        vector_norm = kernel("norms", "vector_norm_forward", given[0])
        norms = arrays.from_python([float(vector_norm(one, norm_type, None, False)) for one in given], dtypes.float64)
        norm = float(vector_norm(norms, norm_type, None, False))
    if error_if_nonfinite and not math.isfinite(float(norm)):
        raise RuntimeError(
            f"clip_grad_norm_: The total norm of order {norm_type} for gradients from `parameters` is non-finite ({float(norm)}), so it cannot "
            f"be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`."
        )
    return norm


def _scale(grads: list[Any], max_norm: float, norm: Any, line: Any) -> None:
    factor = float(max_norm) / (norm + 1e-6)
    if type(factor) is arrays.CudaArray:
        kernel("tables", "scale", grads[0])(grads, arrays.cast(factor, dtypes.float32))
        stamp_all(grads, line)
        return
    if factor >= 1.0 or not grads:
        return
    kernel("tables", "scale", grads[0])(grads, factor)
    stamp_all(grads, line)


def _as_tensor(norm: Any, given: list[Any]) -> Tensor:
    found = dtypes.float32
    if given:
        found = dtypes.BY_NUM[given[0].real.dtype.num]
        for one in given[1:]:
            other = dtypes.BY_NUM[one.real.dtype.num]
            found = found if other is found else dtypes.promote_types(found, other)
    if type(norm) is arrays.CudaArray:
        return wrap(arrays.cast(norm, found))
    return wrap(arrays.quietly(arrays.full, (), norm, found))
