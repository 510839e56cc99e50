"""The norm of gradients of which each process has parts: those of one process, joined over the groups that have the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.splits import splits_of
from dynograd.tensor.tensor import Tensor

__all__ = ["norm_over_processes"]


def norm_over_processes(
    parameters: Sequence[Tensor], norm_type: float, norm_of: Callable[[list[Tensor]], Any]
) -> float | None:
    """The norm of all gradients of parameters of which some are parts; None where all are whole.

    Args:
        parameters: whose gradients they are; the same ones in all processes.
        norm_type: which p-norm.
        norm_of: gives the norm of the gradients of some of them in this process.
    """
    by_groups: dict[Any, list[Tensor]] = {}
    for parameter in parameters:
        by_groups.setdefault(tuple(split.group for split in splits_of(parameter)), []).append(parameter)
    if not any(by_groups):
        return None
    op = {math.inf: ReduceOp.MAX, -math.inf: ReduceOp.MIN}.get(norm_type, ReduceOp.SUM)
    power = norm_type if op is ReduceOp.SUM and norm_type != 0 else 1.0
    terms = []
    for groups, some in by_groups.items():
        nothing = math.inf if op is ReduceOp.MIN else 0.0
        here = [parameter for parameter in some if parameter.grad is not None and parameter.grad.numel()]
        term = np.array([float(norm_of(here)) ** power if here else nothing])
        for group in groups:
            group.run(
                f"norm of {len(some)} gradients", lambda communicator, term=term: communicator.all_reduce([term], op)
            )
        terms.append(float(term[0]))
    joined = {ReduceOp.MAX: max, ReduceOp.MIN: min}.get(op, math.fsum)(terms)
    return float(joined ** (1 / power))
