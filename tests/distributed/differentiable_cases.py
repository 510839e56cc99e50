"""Collectives with gradients beside one process that has the inputs of all: values, first and second gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dynograd as dg
from dynograd import distributed
from dynograd.distributed import ReduceOp
from dynograd.distributed.nn import functional

Tensors = Sequence[dg.Tensor]


class Row(NamedTuple):
    call: Callable[[dg.Tensor, int, int], Any]  # of this rank's input, this rank, and how many there are: tensors
    reference: Callable[[Tensors, int], list[list[dg.Tensor]]]  # of all inputs: the tensors of each rank
    length: Callable[[int, int], int] = lambda rank, size: 4


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes))]


def _exchanged(x, rank, size):
    """Rank r sends r + k + 1 rows to rank k."""
    targets = [dg.empty(rank + place + 1, 3, dtype=x.dtype) for place in range(size)]
    result = functional.all_to_all(targets, list(x.split([rank + place + 1 for place in range(size)])))
    assert all([dg.equal(target, part) for target, part in zip(targets, result, strict=True)])
    return result


def _exchanged_rows(x, rank, size):
    sizes = [rank + place + 1 for place in range(size)]
    return [functional.all_to_all_single(dg.empty(sum(sizes), 3, dtype=x.dtype), x, sizes, sizes)]


def _parts(x, rank, size):
    return x.split([rank + place + 1 for place in range(size)])


def _between(all_, size):
    return [[_parts(all_[source], source, size)[rank] for source in range(size)] for rank in range(size)]


def _reduce_scattered(op):
    def call(x, rank, size):
        output = dg.empty(rank + 1, 3, dtype=x.dtype)
        return [functional.reduce_scatter(output, x.split([place + 1 for place in range(size)]), op)]

    return call


def _all_sums(all_, size):
    return list(sum(all_[1:], all_[0]).split([place + 1 for place in range(size)]))


def _triangle(rank, size):
    return size * (size + 1) // 2


ROWS = {
    "all_reduce": Row(lambda x, r, n: [functional.all_reduce(x)], lambda a, n: [[sum(a[1:], a[0])]] * n),
    "all_reduce.avg": Row(
        lambda x, r, n: [functional.all_reduce(x, ReduceOp.AVG)], lambda a, n: [[sum(a[1:], a[0]) / n]] * n
    ),
    "reduce": Row(
        lambda x, r, n: [functional.reduce(x, n - 1)], lambda a, n: [[0 * a[0]]] * (n - 1) + [[sum(a[1:], a[0])]]
    ),
    "reduce.avg": Row(
        lambda x, r, n: [functional.reduce(x, 0, ReduceOp.AVG)],
        lambda a, n: [[sum(a[1:], a[0]) / n]] + [[0 * a[0]]] * (n - 1),
    ),
    "broadcast": Row(lambda x, r, n: [functional.broadcast(x, n - 1)], lambda a, n: [[a[-1]]] * n),
    "all_gather": Row(lambda x, r, n: functional.all_gather(x), lambda a, n: [list(a)] * n),
    "gather": Row(lambda x, r, n: functional.gather(x, n - 1), lambda a, n: [[0 * x for x in a]] * (n - 1) + [list(a)]),
    "scatter": Row(
        lambda x, r, n: [functional.scatter(x.split([place + 1 for place in range(n)]))],
        lambda a, n: [[part] for part in a[0].split([place + 1 for place in range(n)])],
        _triangle,
    ),
    "reduce_scatter": Row(
        _reduce_scattered(ReduceOp.SUM), lambda a, n: [[part] for part in _all_sums(a, n)], _triangle
    ),
    "reduce_scatter.avg": Row(
        _reduce_scattered(ReduceOp.AVG), lambda a, n: [[part / n] for part in _all_sums(a, n)], _triangle
    ),
    "all_to_all": Row(_exchanged, _between, lambda r, n: n * r + _triangle(r, n)),
    "all_to_all_single": Row(
        _exchanged_rows,
        lambda a, n: [[dg.cat(parts)] for parts in _between(a, n)],
        lambda r, n: n * r + _triangle(r, n),
    ),
}


def _numbers(seed: int, *shape: int) -> dg.Tensor:
    return dg.randn(*shape, dtype=dg.float64, generator=dg.Generator().manual_seed(seed))


def _loss(results: Any, rank: int) -> dg.Tensor:
    terms = [(_numbers(7 * rank + place, *y.shape) * y**3).sum() for place, y in enumerate(results)]
    return sum(terms[1:], terms[0])


def failures() -> list[str]:
    """What is wrong in this rank, in a group that is there."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    texts = []
    for name, row in ROWS.items():
        all_ = [_numbers(100 + place, row.length(place, size), 3).requires_grad_() for place in range(size)]
        directions = [_numbers(200 + place, *x.shape) for place, x in enumerate(all_)]
        x = all_[rank].detach().clone().requires_grad_()
        results = row.call(x, rank, size)
        (gradient,) = dg.autograd.grad(_loss(results, rank), x, create_graph=True)
        (second,) = dg.autograd.grad((gradient * directions[rank]).sum(), x)
        expected = row.reference(all_, size)
        losses = [_loss(part, place) for place, part in enumerate(expected)]
        gradients = dg.autograd.grad(sum(losses[1:], losses[0]), all_, create_graph=True, materialize_grads=True)
        products = [(part * direction).sum() for part, direction in zip(gradients, directions, strict=True)]
        seconds = dg.autograd.grad(sum(products[1:], products[0]), all_, materialize_grads=True)
        pairs = [*zip(results, expected[rank], strict=True), (gradient, gradients[rank]), (second, seconds[rank])]
        texts += [
            f"{name}, rank {rank} of {size}, {place}: got {mine}, expected {expected}"
            for place, (mine, expected) in enumerate(pairs)
            if not (mine.shape == expected.shape and dg.allclose(mine, expected, rtol=1e-10, atol=1e-12))
        ]
    return texts
