"""Functions of `nn.functional` that are others with an option: `max_pool2d_with_indices` and the like, `conv_tbc`, `grouped_mm`."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

from dynograd.nn import randomized
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = [
    "conv_tbc",
    "grouped_mm",
    *[f"{kind}max_pool{rank}d_with_indices" for kind in ("", "adaptive_") for rank in (1, 2, 3)],
    *[f"fractional_max_pool{rank}d_with_indices" for rank in (2, 3)],
]

_ops = public_functions()


def _with_indices(name: str, function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("return_indices", None)
        return function(*args, **kwargs, return_indices=True)

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = f"{name}_with_indices"
    rank = int(name[-2])
    sizes = {"fractional": "2, output_size=2", "adaptive": "2"}.get(name.split("_")[0], "2")
    call.__doc__ = f"""`{name}` with `return_indices=True`: where the maxima lie, too.

    Args: those of `{name}`.
    Returns:
        (values, indices): of the same shape; indices are int64, and count within the last {"dim" if rank == 1 else f"{rank} dims"}.
    Raises: what `{name}` raises.

    >>> values, indices = dynograd.nn.functional.{name}_with_indices(dynograd.ones(1, 1{", 4" * rank}), {sizes})
    >>> indices.shape
    dynograd.Size([1, 1{", 2" * rank}])
    """
    return call


for _name in ("max_pool{}d", "adaptive_max_pool{}d", "fractional_max_pool{}d"):
    for _rank in (1, 2, 3):
        _one = _name.format(_rank)
        if f"{_one}_with_indices" in __all__:
            _function = _ops[_one] if _one in _ops else getattr(randomized, _one)
            globals()[f"{_one}_with_indices"] = _with_indices(_one, _function)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor | None, pad: int = 0) -> Any:
    """`conv1d` with time first.

    Args:
        input (T, B, C): the sequences.
        weight (width, C, out): the kernel.
        bias (out,): added to each result.
        pad: how many zeros stand at both ends.
    Returns:
        (T + 2 pad - width + 1, B, out).

    >>> dynograd.nn.functional.conv_tbc(dynograd.ones(4, 1, 2), dynograd.ones(3, 2, 5), dynograd.zeros(5)).shape
    dynograd.Size([2, 1, 5])
    """
    return _ops["conv1d"](input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups: rows `offs[g - 1] ... offs[g]` of (T, K) with the g-th of (G, K, N).

    With both 2-dim, the groups lie along the shared dim: (M, T), (T, N) -> (G, M, N). With (G, M, K) and (K, T), they are columns of
    the second; with both 3-dim, it is a batched product. What lies behind the last group is 0.

    Args:
        mat_a, mat_b: the factors.
        offs (G,): where each group ends; needed with a 2-dim factor.
        bias: added to the result.
        out_dtype: the dtype of the result; None is that of the factors.
    Returns:
        (T, N), (G, M, N) or (M, T), as the factors say.
    Raises:
        ValueError: a factor is 2-dim and `offs` missing.

    >>> offsets = tensor([1, 3], dtype=dynograd.int32)
    >>> dynograd.nn.functional.grouped_mm(dynograd.ones(3, 2), dynograd.ones(2, 2, 1), offs=offsets).flatten()
    tensor([2., 2., 2.])
    """
    result = mat_a @ mat_b if mat_a.ndim == mat_b.ndim == 3 else _of_spans(mat_a, mat_b, offs)
    if bias is not None:
        result = result + bias
    return result if out_dtype is None else result.to(out_dtype)


def _of_spans(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None) -> Tensor:
    if offs is None:
        raise ValueError("grouped_mm: offs says where groups end, and is needed with 2-dim factors.")
    ends = [0, *offs.tolist()]
    spans = [slice(start, end) for start, end in itertools.pairwise(ends)]
    if mat_a.ndim == 2 and mat_b.ndim == 3:
        rest = mat_a.new_zeros(mat_a.shape[0] - ends[-1], mat_b.shape[2])
        return _ops["cat"]([*[mat_a[span] @ mat_b[number] for number, span in enumerate(spans)], rest])
    if mat_a.ndim == 3:
        rest = mat_b.new_zeros(mat_a.shape[1], mat_b.shape[1] - ends[-1])
        return _ops["cat"]([*[mat_a[number] @ mat_b[:, span] for number, span in enumerate(spans)], rest], 1)
    return _ops["stack"]([mat_a[:, span] @ mat_b[span] for span in spans])
