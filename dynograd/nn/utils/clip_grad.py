"""Clipping of gradients: their common norm, or each element."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.autograd.writes import before_writing, stamp_all
from dynograd.base import dtypes
from dynograd.errors import user_level
from dynograd.kernels import kernel
from dynograd.nn.utils.split_norms import norm_over_processes
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients in place so that their norm, taken over all of them as one vector, is at most `max_norm`.

    gradient * min(1, max_norm / (norm + 1e-6)). Parameters without gradient are left out. Of parameters that are divided among processes
    (`fully_shard`, `parallelize_module`) the norm is that of the whole ones: all processes call it.

    Args:
        parameters: tensors whose `.grad` is clipped, or one tensor.
        max_norm: the largest norm allowed.
        norm_type: which p-norm; `inf` for the largest absolute value.
        error_if_nonfinite: raise instead of scaling by a norm that is NaN or infinite.
        foreach: accepted; there is one implementation.
    Returns:
        the norm before clipping, (), in the gradients' dtype (the wider one of two).
    Raises:
        RuntimeError: the norm is NaN or infinite, and `error_if_nonfinite`; the message names the first such gradient.
        TypeError: a module instead of its parameters.
    Source: Pascanu et al., On the difficulty of training Recurrent Neural Networks, 2012 (arXiv:1211.5063), algorithm 1.

    >>> w = tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> dynograd.nn.utils.clip_grad_norm_([w], max_norm=5.0)
    tensor(10.)
    >>> w.grad
    tensor([3.0000, 4.0000])
    """
    tensors = _listed(parameters)
    if not tensors and isinstance(parameters, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=user_level())
    if MODES.plan is not None and norm_type == 2 and not error_if_nonfinite:
        clipped: Tensor | None = MODES.plan.clip(tensors, float(max_norm))
        if clipped is not None:
            return clipped
    grads = _gradients_to_write(tensors)
    try:
        norm = norm_over_processes(tensors, float(norm_type), lambda some: _norm(_gradients(some), norm_type, False))
        if norm is None:
            norm = arrays.quietly(_norm, grads, norm_type, error_if_nonfinite)
        elif error_if_nonfinite:
            _check_finite(norm, norm_type)
    except RuntimeError as error:
        _name_the_first(error, tensors)
        raise
    arrays.quietly(_scale, grads, max_norm, norm, caller())
    return _as_tensor(norm, grads)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Moves every element of the gradients that is outside [-clip_value, clip_value] to the nearer bound, in place.

    Args:
        parameters: tensors whose `.grad` is clipped, or one tensor.
        clip_value: the bound, 0 or more.
        foreach: accepted; there is one implementation.
    Raises:
        TypeError: a module instead of its parameters.

    >>> w = tensor([3.0, 0.2], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> dynograd.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([1.0000, 0.4000])
    """
    grads = _gradients_to_write(_listed(parameters))
    if grads:
        bound = float(clip_value)
        before_writing(grads)
        arrays.quietly(kernel("tables", "bound", grads[0]), grads, -bound, bound)
        _note_written(grads, caller())


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as one vector.

    Args:
        tensors: tensors, or one.
        norm_type: which p-norm; `inf` for the largest absolute value.
        error_if_nonfinite: raise where the norm is NaN or infinite.
        foreach: accepted; there is one implementation.
    Returns:
        the norm, (), in the tensors' dtype (the wider one of two).
    Raises:
        RuntimeError: the norm is NaN or infinite, and `error_if_nonfinite`.

    >>> dynograd.nn.utils.get_total_norm([tensor([3.0]), tensor([0.0, 4.0])])
    tensor(5.)
    """
    entries = [_entries(tensor) for tensor in _listed(tensors)]
    return _as_tensor(arrays.quietly(_norm, entries, norm_type, error_if_nonfinite), entries)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor | float, foreach: bool | None = None
) -> None:
    """The scaling of `clip_grad_norm_` by a norm computed before, by `get_total_norm` for example.

    Args:
        parameters: tensors whose `.grad` is clipped in place, or one tensor.
        max_norm: the largest norm allowed.
        total_norm: the norm of the gradients.
        foreach: accepted; there is one implementation.
    Raises:
        TypeError: a module instead of its parameters.

    >>> w = tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> dynograd.nn.utils.clip_grads_with_norm_([w], 5.0, dynograd.nn.utils.get_total_norm([w.grad]))
    >>> w.grad
    tensor([3.0000, 4.0000])
    """
    grads = _gradients_to_write(_listed(parameters))
    norm = total_norm.array if _on_gpu(grads) and isinstance(total_norm, Tensor) else float(total_norm)
    arrays.quietly(_scale, grads, max_norm, norm, caller())


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of `clip_grad_norm_`, with a warning.

    Args:
        parameters, max_norm, norm_type, error_if_nonfinite, foreach: as for `clip_grad_norm_`.
    Returns:
        the norm before clipping, ().
    Raises:
        RuntimeError, TypeError: as `clip_grad_norm_`.

    >>> import warnings
    >>> w = tensor([3.0, 4.0], requires_grad=True)
    >>> w.sum().backward()
    >>> with warnings.catch_warnings(action="ignore"):
    ...     norm = dynograd.nn.utils.clip_grad_norm([w], 1.0)
    >>> norm
    tensor(1.4142)
    """
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


def _name_the_first(error: RuntimeError, tensors: list[Tensor]) -> None:
    """Says which gradient is not finite."""
    for number, p in enumerate(tensors):
        if p.grad is not None and _entries(p.grad).size:
            entries = wrap(_entries(p.grad))
            if not bool(entries.isfinite().all().item()):
                error.args = (
                    f"{error} The first one is the gradient of parameter {number}, of shape {tuple(p.shape)}.",
                )
                return


def _gradients_to_write(tensors: list[Tensor]) -> list[Any]:
    """`_gradients`; in a compiled step the plan's own, where nobody else has them."""
    own: list[Any] | None = None if MODES.plan is None else MODES.plan.gradients_to_write(tensors)
    return _gradients(tensors) if own is None else own


def _note_written(gradients: list[Any], line: Any) -> None:
    stamp_all(gradients, line)
    if MODES.plan is not None:
        MODES.plan.note_written(gradients)


def _gradients(tensors: list[Tensor]) -> list[Any]:
    """The arrays of the gradients; of sparse ones, which are coalesced first, those of the entries."""
    gradients = []
    for p in tensors:
        g = p.grad
        if g is not None:
            if g.is_sparse and not g.is_coalesced():
                g = p.grad = g.coalesce()
            gradients.append(_entries(g))
    return gradients


def _entries(tensor: Any) -> Array:
    array = tensor.coalesce()._values().array if tensor.is_sparse else tensor.array
    if arrays.is_array(array):
        return array
    from dynograd.transforms.autobatch.record.pending_arrays import PendingArray

    return array.value() if type(array) is PendingArray else array


def clip_on_gpu(gradients: list[Any], max_norm: float) -> Any:
    """Clips arrays on a GPU to a common norm, in place; gives the norm as `_norm_on_gpu` does."""
    norm = _norm_on_gpu(gradients, 2.0)
    _scale(gradients, max_norm, norm, caller())
    return norm


def _on_gpu(gradients: list[Any]) -> bool:
    return bool(gradients) and type(gradients[0]) is arrays.CudaArray


def _norm_on_gpu(gradients: list[Any], norm_type: float) -> Any:
    """The norm as a float64 array of no dims on the device: nobody waits for it."""
    if norm_type == 2.0:
        return kernel("tables", "sum_of_squares", gradients[0])(gradients) ** 0.5
    vector_norm = kernel("norms", "vector_norm_forward", gradients[0])
    norms = arrays.empty((len(gradients),), dtypes.float64, gradients[0].device)
    for place, gradient in enumerate(gradients):
        arrays.write(norms[place], vector_norm(gradient, norm_type, None, False))
    return vector_norm(norms, norm_type, None, False)


def _norm(gradients: list[Any], norm_type: float, error_if_nonfinite: bool) -> Any:
    """The norm of the arrays' norms, in double precision."""
    norm_type = float(norm_type)
    if not gradients:
        return 0.0
    if _on_gpu(gradients):
        norm = _norm_on_gpu(gradients, norm_type)
        if not error_if_nonfinite:
            return norm
    elif norm_type == 2.0:
        norm = math.sqrt(kernel("tables", "sum_of_squares", gradients[0])(gradients))
    else:
        vector_norm = kernel("norms", "vector_norm_forward", gradients[0])
        norms = arrays.from_python(
            [float(vector_norm(gradient, norm_type, None, False)) for gradient in gradients], dtypes.float64
        )
        norm = float(vector_norm(norms, norm_type, None, False))
    if error_if_nonfinite:
        _check_finite(norm, norm_type)
    return norm


def _check_finite(norm: Any, norm_type: float) -> None:
    if not math.isfinite(float(norm)):
        raise RuntimeError(
            f"clip_grad_norm_: The total norm of order {norm_type} for gradients from `parameters` is non-finite ({float(norm)}), so it cannot "
            f"be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`."
        )


def _scale(grads: list[Any], max_norm: float, norm: Any, line: Any) -> None:
    factor = float(max_norm) / (norm + 1e-6)
    if type(factor) is arrays.CudaArray:
        kernel("tables", "scale", grads[0])(grads, arrays.cast(factor, dtypes.float32))
        stamp_all(grads, line)
        return
    if factor >= 1.0 or not grads:
        return
    before_writing(grads)
    kernel("tables", "scale", grads[0])(grads, factor)
    _note_written(grads, line)


def _as_tensor(norm: Any, gradients: list[Any]) -> Tensor:
    dtype = dtypes.float32
    if gradients:
        dtype = dtypes.BY_NUM[gradients[0].real.dtype.num]
        for gradient in gradients[1:]:
            other = dtypes.BY_NUM[gradient.real.dtype.num]
            dtype = dtype if other is dtype else dtypes.promote_types(dtype, other)
    if type(norm) is arrays.CudaArray:
        return wrap(arrays.cast(norm, dtype))
    return wrap(arrays.quietly(arrays.full, (), norm, dtype))
