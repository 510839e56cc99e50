"""Which dims of a result are ragged, where the rows at hand do not tell: rows of other lengths are tried, and dims that follow them are.

Rows of one length give results of one shape, and an empty batch gives none. The op is then run on a batch of one, twice, each time longer.
What stands in it has no influence on shapes, but an op may refuse it (a matrix of zeros has no inverse, an odd size no halves): other numbers
and sizes follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.errors import RaggedSizeError
from dynograd.ragged.calls import Call
from dynograd.ragged.families.levels import SHARED
from dynograd.ragged.invoking import mapped
from dynograd.ragged.partitions import RaggedSize, Shapes
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.creation import eye, full, zeros
from dynograd.tensor.tensor import Tensor

__all__ = ["dims_that_follow", "probed"]

_LONGER = ((1, 13), (12, 24))  # far enough apart for strides; even, and divisible by three
_BASE = 8  # of no rows
_known: dict[Any, list[frozenset[int]] | None] = {}
_MOST = 1000  # calls that are remembered


def dims_that_follow(
    call: Call, ragged: list[RaggedTensor], probe: Callable[..., Any], owns: Callable[[str, int], bool] | None
) -> list[frozenset[int]] | None:
    """Of each result the dims (0 is the first of a row) that follow the lengths of rows; None when that cannot be told.

    Tried once for calls that differ in lengths only.
    """
    key = _key(call.arguments)
    key = None if key is None else (call.key, key)
    if key is None or key not in _known:
        results = [
            result if isinstance(result, (tuple, list)) else (result,) for result in probed(call, ragged, probe, owns)
        ]
        dims = [_differing(pair) for pair in zip(*results, strict=True)] if results else None
        if key is None:
            return dims
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = dims
    return _known[key]


def _differing(results: tuple[Any, ...]) -> frozenset[int]:
    shapes = [tuple(result.shape[1:]) for result in results if isinstance(result, Tensor)]
    return frozenset([dim for dim, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1])


def _key(value: Any) -> Any:
    """What stands for an argument apart from the lengths of rows; None where its numbers may decide on shapes."""
    if isinstance(value, RaggedTensor):
        part = value.partition
        if isinstance(part, Shapes):
            return "images", part.fixed, value.dtype
        return (
            "rows",
            value.place,
            (*value.packed.shape[: value.place - 1], *value.packed.shape[value.place :]),
            value.dtype,
        )
    if isinstance(value, Tensor):
        return ("dense", tuple(value.shape), value.dtype) if value.dtype.is_floating_point else None
    if isinstance(value, RaggedSize):
        return "size"
    if isinstance(value, slice):  # bounds cut long rows alone
        return "slice" if value == slice(None) else None
    if isinstance(value, dict):
        return _key(tuple(value.items()))
    if isinstance(value, (tuple, list)):
        parts = [_key(entry) for entry in value]
        return None if None in parts else (type(value).__name__, *parts)
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str)):
        return type(value).__name__, value
    return None


def probed(
    call: Call, ragged: list[RaggedTensor], probe: Callable[..., Any], owns: Callable[[str, int], bool] | None
) -> list[Any]:
    """What the op gives for rows of two other lengths, without a history; nothing when it takes none of them."""
    for extras in _LONGER:
        for number in (0, 1):
            try:
                with no_grad():
                    return [probe(call, _arguments(call, ragged, owns, extra, number)) for extra in extras]
            except RaggedSizeError:
                raise
            except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError):
                continue
    return []


def _arguments(
    call: Call, ragged: list[RaggedTensor], owns: Callable[[str, int], bool] | None, extra: int, number: int
) -> dict[str, Any]:
    """The arguments with a row `extra` longer than the first one instead of all rows."""
    count, rank = ragged[0].partition.count, max([x.ndim for x in ragged])

    def own(x: Any) -> Any:
        if x.ndim != rank or x.shape[0] != count:
            return x
        return x[:1] if count else zeros(1, *x.shape[1:], dtype=x.dtype, device=x.device)

    arguments = {}
    for name, value in call.arguments.items():
        if not _has_ragged(value) and name not in SHARED and count != 1:
            value = mapped(value, own if owns is None or not owns(name, 0) else lambda x: x[:1], Tensor)
        value = mapped(value, lambda x: _longer(x, extra, number), RaggedTensor)
        arguments[name] = mapped(value, lambda size: _size(size.partition, extra), RaggedSize)
    return arguments


def _has_ragged(value: Any) -> bool:
    if isinstance(value, RaggedTensor):
        return True
    return type(value) in (list, tuple) and any([isinstance(entry, RaggedTensor) for entry in value])


def _size(part: Any, extra: int) -> int:
    return (int(part.lengths[0]) if part.count else _BASE) + extra


def _longer(x: RaggedTensor, extra: int, number: int) -> Any:
    """A batch of one: unit matrices where numbers may be matrices, whole numbers all `number`."""
    part = x.partition
    if isinstance(part, Shapes):
        base = part.sizes[0].tolist() if part.count else [_BASE if size is None else size for size in part.fixed]
        shape = [size + extra * (fixed is None) for size, fixed in zip(base, part.fixed, strict=True)]
    else:
        shape = list(x.packed.shape)
        shape[x.place - 1] = _size(part, extra)
    if len(shape) > 1 and (x.dtype.is_floating_point or x.dtype.is_complex):
        return eye(shape[-2], shape[-1], dtype=x.dtype, device=x.device).expand(1, *shape)
    return full((1, *shape), number, dtype=x.dtype, device=x.device)
