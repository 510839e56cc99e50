"""Reductions of ragged tensors. Over dims beside the ragged one: on packed elements. Over the ragged dim: segments. Over all: all real elements.

Over the rows and the ragged dim together (dims 0 and 1 of (B, j, D)) is over all tokens. Over the rows alone is refused: they have different
lengths, so no element stands above another.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from dynograd.autograd.modes import MODES
from dynograd.base.shapes import normalize_dim, normalize_dims
from dynograd.interpreter import named_outputs
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.ops.op import registry
from dynograd.ops.reduce.deviations import arguments_of_deviations
from dynograd.ragged.calls import Call, Refusal, ragged_rule
from dynograd.ragged.families import segmented
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.shaped_views import of_sizes
from dynograd.ragged.families.views import merged_levels
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor
from dynograd.ragged.uniform import as_dense, lines_of
from dynograd.tensor.tensor import Tensor

__all__ = ["across_rows", "flat_rows", "reduced", "refuse_short"]

# What a reduction over the ragged dim gives, (B, D), of the (total, D) packed elements; and those that round nothing, so that the ways of
# rows alone and of many have the same bits.
SEGMENTS: dict[str, Callable[[Call, Any, Partition], Any]] = {}
EXACT: set[str] = set()


def _over_rows(*names: str, exact: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function in `SEGMENTS` for these ops."""

    def take(function: Callable[..., Any]) -> Callable[..., Any]:
        SEGMENTS.update(dict.fromkeys(names, function))
        EXACT.update(names if exact else ())
        return function

    return take


@_over_rows("sum")
def _sum(call: Call, x: Any, part: Partition) -> Tensor:
    return segmented.sum_rows(x, part)


@_over_rows("mean")
def _mean(call: Call, x: Any, part: Partition) -> Tensor:
    return segmented.mean_rows(x, part)


@_over_rows("logsumexp")
def _logsumexp(call: Call, x: Any, part: Partition) -> Tensor:
    return segmented.logsumexp(x, part)


@_over_rows("count_nonzero", exact=True)
def _count(call: Call, x: Any, part: Partition) -> Tensor:
    return segmented.sum_rows(x != 0, part)


@_over_rows("any", exact=True)
def _any(call: Call, x: Any, part: Partition) -> Tensor:
    return segmented.extreme(_truth(x), part, "max")


@_over_rows("all", exact=True)
def _all(call: Call, x: Any, part: Partition) -> Tensor:
    return segmented.all_true(_truth(x), part)


def _truth(x: Any) -> Any:
    return x if x.dtype.name == "bool" else x != 0


@_over_rows("prod")
def _prod(call: Call, x: Any, part: Partition) -> Any:
    if x.dtype.name not in ("float32", "float64"):
        return NotImplemented
    return run("segment_product", x, *segmented.bounds(part, x))


@_over_rows("amax", "amin", exact=True)
def _extreme(call: Call, x: Any, part: Partition) -> Any:
    segmented.refuse_empty(call.name, part)
    return segmented.extreme(x, part, call.name[-3:])


@_over_rows("argmax", "argmin", exact=True)
def _place(call: Call, x: Any, part: Partition) -> Any:
    segmented.refuse_empty(call.name, part)
    return segmented.places(x, part, call.name[-3:])


@_over_rows("max", "min", exact=True)
def _extreme_and_place(call: Call, x: Any, part: Partition) -> Any:
    """The first extreme of each row gets its gradient."""
    places = _place(call, x, part)
    return segmented.picked(x, part, places, 1), places


@_over_rows("median", exact=True)
def _median(call: Call, x: Any, part: Partition) -> Any:
    segmented.refuse_empty(call.name, part)
    places = segmented.places(x, part, "nanmedian" if call["ignore_nan"] else "median")
    return segmented.picked(x, part, places, 1), places


@_over_rows("kthvalue", exact=True)
def _kthvalue(call: Call, x: Any, part: Partition) -> Any:
    places = segmented.places(x, part, "kth", call["k"] - 1)
    return segmented.picked(x, part, places, 1), places


@_over_rows("vector_norm")
def _norm(call: Call, x: Any, part: Partition) -> Any:
    p = call["p"]
    if p in (float("inf"), float("-inf")):
        segmented.refuse_empty(call.name, part)
        return segmented.extreme(
            run("abs", x) if not x.dtype.is_complex else run("modulus", x), part, "max" if p > 0 else "min"
        )
    if p == 0:
        return run("to_copy", segmented.sum_rows(x != 0, part), x.dtype)
    if p == 2:
        total = segmented.squares(x, part)
        nothing = total == 0
        return run("where", nothing, 0.0, run("sqrt", run("where", nothing, 1.0, total)))
    if p == 1:
        return segmented.sum_rows(run("abs.public", x), part)
    return NotImplemented


@_over_rows("var")
def _var(call: Call, x: Any, part: Partition) -> Any:
    return segmented.variance(x, part, call["correction"])


@_over_rows("std")
def _std(call: Call, x: Any, part: Partition) -> Any:
    variance = _var(call, x, part)
    nothing = variance == 0
    return run("where", nothing, 0.0, run("sqrt", run("where", nothing, 1.0, variance)))


@ragged_rule(*SEGMENTS, kind="segments", note="over the ragged dim by segments; over other dims on packed elements")
def reduce(call: Call) -> Any:
    """Reductions over any dims but the rows alone."""
    return reduced(call, SEGMENTS[call.name])


@ragged_rule(
    "kthvalue.public", kind="segments", note="over the ragged dim by segments; over other dims on packed elements"
)
def kthvalue(call: Call) -> Any:
    """Over the ragged dim every row needs k elements."""
    x, k = call["input"], int(call["k"])
    dim = normalize_dim("kthvalue", call["dim"], x.ndim)
    if dim != x.place or isinstance(x.packed, RaggedTensor) or isinstance(x.partition, Shapes) or x.dtype.is_complex:
        return NotImplemented
    refuse_short(call, x.partition, k, f"selected number k out of range for dimension {dim}", 1)
    return run("kthvalue", x, k, dim, bool(call["keepdim"]))


def refuse_short(call: Call, part: Partition, k: int, what: str, least: int = 0) -> None:
    short = part.lengths < k
    if k < least or short.any():
        row = int(short.argmax())
        has = f", and row {row} has {part.lengths[row]} elements" if part.count else ""
        raise call.refuse(
            f"{what}: k={k}{has}. Take the rows that are long enough, x[x.lengths() >= k], or pad the rows."
        )


@ragged_rule(
    "std.public", "var.public", "std_mean", "var_mean", kind="segments",
    note="over the ragged dim by segments; over other dims on packed elements",
)  # fmt: skip
def deviations(call: Call) -> Any:
    """Over the ragged dim each row by its own length; a row of no more elements than the correction gives NaN or inf."""
    x, options = call["input"], {name: value for name, value in call.arguments.items() if name != "input"}
    part = x.partition
    if isinstance(x.packed, RaggedTensor) or isinstance(part, Shapes):
        return NotImplemented
    one_dim = isinstance(options["dim"], int) and not isinstance(options["dim"], bool)
    length = int(part.lengths.min(initial=part.longest)) if one_dim else part.total
    shape = [length if dim == x.place else size for dim, size in enumerate(x.shape)]
    arguments = arguments_of_deviations(
        call.name, SimpleNamespace(shape=tuple(shape), array=x.array, dtype=x.dtype), **options
    )
    dims, _, keepdim = arguments
    deviations = registry[call.name.removesuffix("_mean")].function(x, *arguments)
    return (deviations, run("mean", x, dims, keepdim)) if call.name.endswith("_mean") else deviations


@ragged_rule("mode", "hash_tensor", kind="groups", note="over the ragged dim, rows of equal length together")
def reduce_in_groups(call: Call) -> Any:
    """Reductions that need all elements of a row at hand."""
    return reduced(call, lambda call, x, part: NotImplemented)


@ragged_rule("median_of_all", kind="packed")
def of_all(call: Call) -> Any:
    """All real elements."""
    return call.with_(input=all_elements(call["input"]))


def all_elements(x: Any) -> Any:
    """(n,) every element of all rows."""
    while isinstance(x, RaggedTensor):
        x = x.packed
    return run("reshape", x, (-1,)) if x.ndim != 1 else x


def across_rows(call: Call, x: RaggedTensor, dim: Any = 0) -> Refusal:
    return call.refuse(
        f"dim {dim} of a ragged tensor counts its rows, which have different lengths (shape {tuple(x.shape)}), so nothing can be computed "
        f"across them. Use another dim, all dims of the tokens together (0 and the ragged one), x.to_padded(), or x.unbind()."
    )


def reduced(call: Call, of_rows: Callable[[Call, Any, Partition], Any]) -> Any:
    x, rank = call["input"], call["input"].ndim
    keepdim = call.get("keepdim", False)
    asked = call["dim"]
    dims = normalize_dims(call.name, asked, rank)
    part, place, packed = x.partition, x.place, x.packed
    if len(dims) == rank:
        result = call.with_(
            input=all_elements(x), dim=None if asked is None or isinstance(asked, tuple) else 0, **_keep(call, False)
        )
        return _map(call, result, lambda total: run("view", total, (1,) * rank)) if keepdim else result
    if 0 in dims:
        return _over_tokens(call, x, dims, keepdim)
    one_dim = not isinstance(asked, tuple)
    if isinstance(part, Shapes):
        if dims != (rank - 1,) or batch_invariant():
            return grouped(call)
        result = call.with_(input=lines_of(x), dim=1 if one_dim else (1,), **_keep(call, False))
        sizes, fixed = part.sizes[:, :-1], part.fixed[:-1]
        if keepdim:
            sizes, fixed = np.concatenate([sizes, np.ones_like(sizes[:, :1])], 1), (*fixed, 1)
        return _map(call, result, lambda flat: of_sizes(flat, Shapes(sizes, fixed)))
    if place not in dims:
        inner = tuple([dim - 1 for dim in dims])
        result = call.with_(input=packed, dim=inner[0] if one_dim else inner)
        after = place if keepdim else place - sum([dim < place for dim in dims])
        return _map(call, result, lambda elements: x.with_packed(elements, after))
    if isinstance(packed, RaggedTensor):
        below = packed.place + 1
        if below not in dims:
            raise across_rows(call, x, 1)
        merged = merged_levels(x)
        rest = tuple(sorted({dim - (dim > 1) for dim in dims}))
        result = call.with_(input=merged, dim=rest)
        return _map(call, result, lambda rows: rows.unsqueeze(2)) if keepdim else result
    plan = MODES.plan
    # Where steps are recorded, rows of one length are no other program than those of several.
    dense = as_dense(x) if plan is None or plan.exact else None
    if dense is not None:
        return call.with_(input=dense)
    if batch_invariant() and call.name not in EXACT:  # the bits of the row alone are those of the dense kernels
        return grouped(call)
    flat, wider, rest = flat_rows(x, [dim for dim in dims if dim != place])
    result = of_rows(call, flat, wider)
    if result is NotImplemented:
        dense = as_dense(x)
        return grouped(call) if dense is None else call.with_(input=dense)

    def shaped(flat_result: Any) -> Any:
        sizes = list(rest)
        if not keepdim and len(sizes) == 1:
            return flat_result
        if keepdim:
            for dim in sorted(dims):
                sizes.insert(dim - 1, 1)
        return run("view", flat_result, (part.count, *sizes))

    return _map(call, result, shaped)


def _keep(call: Call, keepdim: bool) -> dict[str, Any]:
    return {"keepdim": keepdim} if "keepdim" in call.arguments else {}


def _map(call: Call, result: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(result, tuple):
        return change(result)
    changed = [change(part) for part in result]
    return type(result)(*changed) if hasattr(result, "_fields") else named_outputs(call.op)(*changed)


def flat_rows(x: RaggedTensor, others: list[int]) -> tuple[Any, Partition, tuple[int, ...]]:
    """(packed elements as (n, D), the partition of their n, the dims that D stands for); dims `others` are merged into the ragged one."""
    packed, place = x.packed, x.place
    if packed.ndim == 2 and place == 1 and not others:
        return packed, x.partition, (packed.shape[1],)
    merged = [dim - 1 for dim in others]
    kept = [dim for dim in range(packed.ndim) if dim != place - 1 and dim not in merged]
    shape = tuple(packed.shape)
    order = (place - 1, *merged, *kept)
    front = packed if order == tuple(range(len(shape))) else run("permute", packed, order)
    factor, rest = prod([shape[dim] for dim in merged]), tuple([shape[dim] for dim in kept])
    flat = run("reshape", front, (x.partition.total * factor, prod(rest)))
    return flat, x.partition.times(factor), rest


def _over_tokens(call: Call, x: RaggedTensor, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Over rows and ragged dims together: packed elements along their packed dim."""
    if isinstance(x.partition, Shapes) or x.place not in dims:
        raise across_rows(call, x)
    inner = tuple(sorted({dim - 1 for dim in dims if dim}))
    result = call.with_(input=x.packed, dim=inner, **_keep(call, keepdim))
    return _map(call, result, lambda part: part.unsqueeze(0)) if keepdim else result
