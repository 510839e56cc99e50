"""Reductions of arrays: which there are, and sums in one fixed order.

Terms are joined in a binary tree over their numbers, ((0 1) (2 3)) ((4 5) 6): the same bits come of it in each run, and of 2, 4 or 8
processes that hold the terms of one, if each holds an aligned power of two of them. Of float16 and bfloat16 numbers float32 sums are made,
rounded once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynograd.base import dtypes
from dynograd.errors import DtypeError

__all__ = ["ReduceOp", "check_reduction", "join", "middle"]


class ReduceOp(enum.Enum):
    """How a reduction joins the numbers of the group's processes: SUM, AVG, PRODUCT, MIN, MAX and their like.

    >>> dynograd.distributed.ReduceOp.SUM.name
    'SUM'
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


ReduceOp.RedOpType = ReduceOp  # PyTorch's name of the kind

_OF_TWO: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def check_reduction(who: str, op: Any, dtype: Any) -> None:
    """Raises where `op` is none, or has no meaning for numbers of this dtype."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{who}: expected op to be a ReduceOp such as ReduceOp.SUM, got {op!r}.")
    kind = np.dtype(dtype).kind
    if op in _BITS and kind not in "iub":
        raise DtypeError(
            f"{who}: ReduceOp.{op.name} joins bits of whole numbers, got {dtypes.BY_NUM[np.dtype(dtype).num]}."
        )
    if op in (ReduceOp.MIN, ReduceOp.MAX) and kind == "c":
        raise DtypeError(
            f"{who}: complex numbers have no order for ReduceOp.{op.name}, got {dtypes.BY_NUM[np.dtype(dtype).num]}."
        )
    if op is ReduceOp.AVG and kind in "iub":
        raise DtypeError(
            f"{who}: the average of whole numbers is none; got {dtypes.BY_NUM[np.dtype(dtype).num]} with ReduceOp.AVG. Use ReduceOp.SUM and divide."
        )


def middle(count: int) -> int:
    """How many of `count` terms the left half of the tree has: the largest power of two below."""
    return 1 << ((count - 1).bit_length() - 1)


def join(op: ReduceOp, terms: Sequence[np.ndarray], out: np.ndarray) -> None:
    """Joins `terms` into `out`, which may be one of them; averages are divided by their number."""
    if len(terms) == 1:
        if out is not terms[0]:
            out[...] = terms[0]
        return
    of_two = _OF_TWO[op]
    if out.dtype.itemsize == 2 and op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT) and out.dtype.kind not in "iu":
        total = _tree(of_two, [term.astype(np.float32) for term in terms], None)
        out[...] = total / np.float32(len(terms)) if op is ReduceOp.AVG else total
        return
    _tree(of_two, terms, out)
    if op is ReduceOp.AVG:
        np.divide(out, out.dtype.type(len(terms)), out=out)


def _tree(of_two: Callable[..., Any], terms: Sequence[np.ndarray], out: np.ndarray | None) -> np.ndarray:
    if len(terms) == 1:
        return terms[0]
    half = middle(len(terms))
    return of_two(_tree(of_two, terms[:half], None), _tree(of_two, terms[half:], None), out=out)
