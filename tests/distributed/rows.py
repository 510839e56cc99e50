"""What collectives give, beside NumPy: each row is a call of one rank, and what it has to write, of the inputs of all ranks."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import dynograd
from dynograd import distributed
from dynograd.distributed import ReduceOp

DTYPES = "float32 float64 float16 bfloat16 int64 int32 uint8 bool complex64".split()


class Row(NamedTuple):
    call: Callable[..., Any]  # of this rank's input: what was written
    reference: Callable[..., Any]  # of the inputs of all ranks, this rank, and how many there are
    kinds: str = "fiubc"  # of dtypes
    shape: Callable[[int, int], tuple[int, ...]] = lambda rank, size: (5, 3)


def inputs(dtype: str, shape: Callable[[int, int], tuple[int, ...]], size: int) -> list[np.ndarray]:
    """The input of each rank."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = []
    for rank in range(size):
        generator = np.random.default_rng(rank)
        numbers = generator.integers(0, 2 if dtype == "bool" else 5, shape(rank, size))
        values.append((numbers * (1 + 1j) if kind.kind == "c" else numbers).astype(kind))
    return values


def _reduced(op: ReduceOp, x):
    distributed.all_reduce(x, op)
    return x


def _reduced_to_last(x):
    before = x.clone()
    distributed.reduce(x, distributed.get_world_size() - 1)
    return x if distributed.get_rank() == distributed.get_world_size() - 1 else before


def _of_last(x):
    distributed.broadcast(x, distributed.get_world_size() - 1)
    return x


def _gathered_rows(x):
    """Each rank has one row more than the one before."""
    size = distributed.get_world_size()
    targets = [dynograd.empty(rank + 1, 2, dtype=x.dtype) for rank in range(size)]
    distributed.all_gather(targets, x)
    return dynograd.cat(targets)


def _places(x):
    """As many tensors like `x` as there are ranks: behind each other in some ranks, apart in others."""
    size = distributed.get_world_size()
    if distributed.get_rank() % 2:
        return list(dynograd.empty(size, *x.shape, dtype=x.dtype))
    return [dynograd.empty(2, *x.shape, dtype=x.dtype)[1] for _ in range(size)]


def _gathered_evenly(x):
    targets = _places(x)
    distributed.all_gather(targets, x)
    return dynograd.stack(targets)


def _reduce_scattered_parts(x):
    parts, result = _places(x), dynograd.empty_like(x)
    for place, part in enumerate(parts):
        part.copy_(x + place)
    distributed.reduce_scatter(result, parts)
    return result


def _gathered(x):
    result = dynograd.empty(distributed.get_world_size(), *x.shape, dtype=x.dtype)
    distributed.all_gather_into_tensor(result, x)
    return result


def _gathered_at_first(x):
    rank, size = distributed.get_rank(), distributed.get_world_size()
    targets = [dynograd.empty_like(x) for _ in range(size)] if rank == 0 else None
    distributed.gather(x, targets, dst=0)
    return x if targets is None else dynograd.stack(targets)


def _scattered(x):
    rank, size = distributed.get_rank(), distributed.get_world_size()
    parts = [(x + place).to(x.dtype) for place in range(size)] if rank == size - 1 else None
    result = dynograd.empty_like(x)
    distributed.scatter(result, parts, src=size - 1)
    return result


def _reduce_scattered(x):
    result = dynograd.empty_like(x)
    distributed.reduce_scatter(result, [x] * distributed.get_world_size())
    return result


def _reduce_scattered_rows(x):
    size = distributed.get_world_size()
    result = dynograd.empty(len(x) // size, *x.shape[1:], dtype=x.dtype)
    distributed.reduce_scatter_tensor(result, x)
    return result


def _exchanged(x):
    """Rank r sends r + k + 1 numbers to rank k."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    flat = x.reshape(-1)
    targets = [dynograd.empty(place + rank + 1, dtype=x.dtype) for place in range(size)]
    distributed.all_to_all(targets, [flat[: rank + place + 1].clone() for place in range(size)])
    return dynograd.cat(targets)


def _exchanged_rows(x):
    """Rank r sends r + 1 rows to each rank."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    sent = dynograd.cat([x] * size)[: size * (rank + 1)].contiguous()
    result = dynograd.empty(sum(range(1, size + 1)), *x.shape[1:], dtype=x.dtype)
    distributed.all_to_all_single(result, sent, list(range(1, size + 1)), [rank + 1] * size)
    return result


def _in_a_ring(x):
    rank, size = distributed.get_rank(), distributed.get_world_size()
    result = dynograd.empty_like(x)
    works = distributed.batch_isend_irecv(
        [
            distributed.P2POp(distributed.isend, x, (rank + 1) % size),
            distributed.P2POp(distributed.irecv, result, (rank - 1) % size),
        ]
        if size > 1
        else [distributed.P2POp(distributed.isend, x, 1)]
    )
    for work in works:
        work.wait()
    return result


def _in_halves(x):
    """Even and odd ranks add up for themselves."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    groups = [distributed.new_group(list(range(start, size, 2))) for start in range(min(2, size))]
    distributed.all_reduce(x, group=groups[rank % 2])
    return x


def _async(x):
    y = x.clone()
    first, second = (distributed.all_reduce(z, async_op=True) for z in (x, y))
    second.wait()
    assert first.is_completed() and second.result()[0] is y
    return x + y


def _transposed(x):
    """Memory that is not in order."""
    y = x.t()
    distributed.all_reduce(y)
    return x


def _wide(array):
    return array.astype({"f": np.float64, "c": np.complex128}.get(_kind(array), array.dtype))


def _kind(array):
    return "f" if array.dtype == ml_dtypes.bfloat16 else array.dtype.kind


def _joined(operation, all_, rank, size):
    return functools.reduce(operation, [_wide(x) for x in all_])


def _sum(all_, rank, size):
    return _joined(np.add, all_, rank, size)


ROWS = {
    "all_reduce.sum": Row(functools.partial(_reduced, ReduceOp.SUM), _sum),
    "all_reduce.avg": Row(functools.partial(_reduced, ReduceOp.AVG), lambda a, r, n: _sum(a, r, n) / n, "fc"),
    "all_reduce.product": Row(
        functools.partial(_reduced, ReduceOp.PRODUCT), functools.partial(_joined, np.multiply), "fiub"
    ),
    "all_reduce.min": Row(functools.partial(_reduced, ReduceOp.MIN), functools.partial(_joined, np.minimum), "fiub"),
    "all_reduce.max": Row(functools.partial(_reduced, ReduceOp.MAX), functools.partial(_joined, np.maximum), "fiub"),
    "all_reduce.band": Row(
        functools.partial(_reduced, ReduceOp.BAND), functools.partial(_joined, np.bitwise_and), "iub"
    ),
    "all_reduce.bor": Row(functools.partial(_reduced, ReduceOp.BOR), functools.partial(_joined, np.bitwise_or), "iub"),
    "all_reduce.bxor": Row(
        functools.partial(_reduced, ReduceOp.BXOR), functools.partial(_joined, np.bitwise_xor), "iub"
    ),
    "all_reduce.many": Row(  # more than one chunk of the shared memory
        functools.partial(_reduced, ReduceOp.SUM), _sum, "f", lambda rank, size: (3, 400_001)
    ),
    "all_reduce.none": Row(functools.partial(_reduced, ReduceOp.SUM), _sum, "f", lambda rank, size: (0, 3)),
    "all_reduce.number": Row(functools.partial(_reduced, ReduceOp.SUM), _sum, "f", lambda rank, size: ()),
    "all_reduce.transposed": Row(_transposed, _sum),
    "all_reduce.async": Row(_async, lambda a, r, n: 2 * _sum(a, r, n), "f"),
    "all_reduce.of_groups": Row(_in_halves, lambda a, r, n: _sum(a[r % 2 :: 2], r, n)),
    "reduce": Row(_reduced_to_last, lambda a, r, n: _sum(a, r, n) if r == n - 1 else a[r]),
    "broadcast": Row(_of_last, lambda a, r, n: a[-1]),
    "all_gather": Row(_gathered_rows, lambda a, r, n: np.concatenate(a), shape=lambda rank, size: (rank + 1, 2)),
    "all_gather.even": Row(_gathered_evenly, lambda a, r, n: np.stack(a)),
    "all_gather_into_tensor": Row(_gathered, lambda a, r, n: np.stack(a)),
    "gather": Row(_gathered_at_first, lambda a, r, n: a[r] if r else np.stack(a)),
    "scatter": Row(_scattered, lambda a, r, n: a[-1] + r, "fiu"),
    "reduce_scatter": Row(_reduce_scattered, _sum),
    "reduce_scatter.parts": Row(_reduce_scattered_parts, lambda a, r, n: _sum(a, r, n) + n * r, "fi"),
    "reduce_scatter_tensor": Row(
        _reduce_scattered_rows,
        lambda a, r, n: _sum(a, r, n)[2 * r : 2 * r + 2],
        shape=lambda rank, size: (2 * size, 3),
    ),
    "all_to_all": Row(
        _exchanged,
        lambda a, r, n: np.concatenate([x.reshape(-1)[: place + r + 1] for place, x in enumerate(a)]),
    ),
    "all_to_all_single": Row(
        _exchanged_rows,
        lambda a, r, n: np.concatenate(
            [np.concatenate([x] * n)[r * (place + 1) : (r + 1) * (place + 1)] for place, x in enumerate(a)]
        ),
    ),
    "batch_isend_irecv": Row(_in_a_ring, lambda a, r, n: a[r - 1]),
}


def cases(size: int) -> list[tuple[str, str]]:
    """(row, dtype) that have a meaning for `size` ranks."""
    return [
        (name, dtype)
        for name, row in ROWS.items()
        if size > 1 or not name.startswith("batch")
        for dtype in DTYPES
        if _kind(np.empty(0, getattr(ml_dtypes, dtype, dtype))) in row.kinds
    ]


def failure(name: str, dtype: str, gpus: int = 0) -> str | None:
    """What is wrong in this rank with a row, in a group that is there; with GPUs each rank uses its own."""
    row, rank, size = ROWS[name], distributed.get_rank(), distributed.get_world_size()
    all_ = inputs(dtype, row.shape, size)
    with dynograd.device("cuda", rank % gpus) if gpus else contextlib.nullcontext():
        result = np.asarray(row.call(dynograd.tensor(all_[rank])).cpu().numpy())
    expected = np.asarray(row.reference(all_, rank, size)).astype(result.dtype)
    if result.dtype == ml_dtypes.bfloat16:
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    if result.shape == expected.shape and np.allclose(result, expected, rtol=1e-6, atol=0):
        return None
    return f"{name} {dtype}, rank {rank} of {size}: got {result!r}, expected {expected!r}"
