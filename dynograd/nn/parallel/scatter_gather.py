"""Structures of tensors in chunks for devices, and back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from dynograd.nn.parallel import comm
from dynograd.nn.parallel.parallel_apply import get_a_var
from dynograd.nn.utils.rnn import PackedSequence
from dynograd.tensor.tensor import Tensor

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Sequence[Any]:
    """One structure for each device, tensors in chunks along `dim`; other values are the same in each.

    Args:
        inputs: a tensor (a ragged one is cut by rows), or tuples, namedtuples, lists and dicts of tensors and other values.
        target_gpus: devices or their numbers.
        dim: along which tensors are cut.
    Returns:
        A list or tuple of structures: fewer than devices where there are fewer rows.
    Raises:
        TypeError: a PackedSequence, whose rows do not lie together.
        ValueError: tensors that come to different numbers of parts.

    >>> from dynograd.nn.parallel.scatter_gather import scatter
    >>> scatter({"x": tensor([1, 2, 3]), "n": 5}, ["cpu", "cpu"])
    [{'x': tensor([1, 2]), 'n': 5}, {'x': tensor([3]), 'n': 5}]
    """
    if isinstance(inputs, Tensor):
        return comm.scatter(inputs, target_gpus, dim=dim)
    if isinstance(inputs, PackedSequence):
        raise TypeError(
            "scatter: a PackedSequence cannot be cut into parts for devices. Give a ragged tensor (packed by rows), or the padded batch "
            "with its lengths, and pack it in the module's forward."
        )
    if is_namedtuple(inputs):
        return [type(inputs)(*row) for row in _rows(inputs, target_gpus, dim)]
    if isinstance(inputs, (tuple, list)) and inputs:
        return [type(inputs)(row) for row in _rows(inputs, target_gpus, dim)]
    if isinstance(inputs, dict) and inputs:
        return [type(inputs)(zip(inputs, row)) for row in _rows([*inputs.values()], target_gpus, dim)]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple, tuple]:
    """`scatter` of the arguments of a call, as many of both."""
    if not inputs and not kwargs:
        return (), ()
    rows = _rows((inputs, kwargs or {}), target_gpus, dim)
    return tuple([row[0] for row in rows]), tuple([row[1] for row in rows])


def _rows(values: Sequence[Any], target_gpus: Sequence[Any], dim: int) -> list[tuple[Any, ...]]:
    """For each device its part of all values; what has no tensors goes to those that have rows."""
    parts = [scatter(value, target_gpus, dim) for value in values]
    counts = {len(part) for part, value in zip(parts, values) if get_a_var(value) is not None}
    if len(counts) > 1:
        raise ValueError(
            f"scatter: tensors come to {' and '.join([str(count) for count in sorted(counts)])} parts for {len(target_gpus)} devices, as they "
            f"have different lengths along dim {dim}. Give all of them a row for each sample; what is for all samples belongs into the module."
        )
    return list(zip(*parts))


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> object:
    """One structure of those of several devices, tensors joined along `dim`.

    Args:
        outputs: structures of one kind: tensors, or tuples, namedtuples, lists and dicts of them; None stays None.
        target_device: a device or its number, -1 for the CPU.
        dim: along which tensors are joined; numbers become a tensor of one dim, with a warning.
    Returns:
        A structure.
    Raises:
        ValueError: dicts with different keys.
        TypeError: values that are no tensors, and structures of different kinds.

    >>> from dynograd.nn.parallel.scatter_gather import gather
    >>> gather([{"x": tensor([1, 2])}, {"x": tensor([3])}], "cpu")
    {'x': tensor([1, 2, 3])}
    """
    first = outputs[0]
    if any([type(output) is not type(first) for output in outputs]):
        raise TypeError(
            f"gather: expected outputs of one type from all devices, got {', '.join([type(output).__name__ for output in outputs])}."
        )
    if isinstance(first, Tensor):
        if all([output.ndim == 0 for output in outputs]) and dim == 0:
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.",
                stacklevel=2,
            )
            outputs = [output.reshape(1) for output in outputs]
        return comm.gather(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if any([output.keys() != first.keys() for output in outputs]):
            raise ValueError(
                f"gather: All dicts must have the same number of keys, and the same ones, got {', '.join([str([*output]) for output in outputs])}."
            )
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    if isinstance(first, (tuple, list)):
        if any([len(output) != len(first) for output in outputs]):
            raise ValueError(
                f"gather: expected outputs of one length from all devices, got {', '.join([str(len(output)) for output in outputs])}."
            )
        parts = [gather(row, target_device, dim) for row in zip(*outputs)]
        kind: Any = type(first)
        return kind(*parts) if is_namedtuple(first) else kind(parts)
    raise TypeError(
        f"gather: expected tensors, or tuples, lists and dicts of them, got {type(first).__name__}. Give tensors back from forward."
    )
