"""Several levels of rows, such as documents of sentences of words: an op on the rows of the lower level, under the level above.

Sentences are rows of their own, so what an op does with one level of rows it does with the lower level of two, and the documents lie over
the result as they lay over the argument. Dims are counted from the documents on: what is dim 2 of the whole is dim 1 of the sentences.
"""

from __future__ import annotations

from typing import Any

from dynograd.ragged.calls import Call, results
from dynograd.ragged.families.elementwise import spread
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor

__all__ = ["DIMS", "SHARED", "is_deep", "lifted", "lower", "names_upper_dims", "raised"]

# Arguments that count dims.
DIMS = frozenset("dim dims dim0 dim1 dim2 axis axis0 axis1 dimension start_dim end_dim source destination".split())

# Arguments that all rows share, even when their first size happens to be the number of rows.
SHARED = frozenset(
    """weight bias linear_weight linear_bias running_mean running_var pos_weight weight_ih weight_hh bias_ih bias_hh w_ih w_hh b_ih b_hh window
    q test_elements boundaries sorted_sequence x dims normalized_shape size sizes""".split()
)


def is_deep(x: Any) -> bool:
    """Whether `x` has several levels of rows."""
    return isinstance(x, RaggedTensor) and isinstance(x.packed, RaggedTensor)


def lifted(call: Call) -> Any:
    """The op on the rows of the lower level; the level above lies over results that have one entry for each of them."""
    deep = [x for x in call.ragged() if is_deep(x)]
    upper, rank = deep[0].partition, max([x.ndim for x in deep])

    def lowered(name: str, value: Any) -> Any:
        if name in DIMS and not isinstance(value, Tensor):
            return _lower_dims(call, value, deep[0], rank)
        if type(value) in (list, tuple):
            return type(value)([lowered("", entry) for entry in value])
        if isinstance(value, RaggedTensor):
            return lower(call, value, upper)
        if isinstance(value, Tensor) and value.ndim and name not in SHARED:
            return _lower_dense(call, value, upper, rank)
        return value

    return raised(call.on({name: lowered(name, value) for name, value in call.arguments.items()}), upper)


def lower(call: Call, x: RaggedTensor, upper: Partition) -> Any:
    """The rows of the level below; of a tensor of one level, its elements, one for each of them."""
    upper.check_same(call.name, x.partition)
    if x.place != 1:
        raise call.refuse(
            f"a ragged tensor of shape {tuple(x.shape)} beside one with several levels needs its ragged dim in dim 1. Use movedim."
        )
    return x.packed


def raised(result: Any, upper: Partition) -> Any:
    """Results that have one entry for each row of the lower level, under the level above."""

    def change(x: Any) -> Any:
        if isinstance(x, RaggedTensor):
            return make(x, upper) if x.partition.count == upper.total else x
        return make(x, upper) if isinstance(x, Tensor) and x.ndim and x.shape[0] == upper.total else x

    return results(result, change)


def _lower_dims(call: Call, value: Any, like: RaggedTensor, rank: int) -> Any:
    """Dims as the lower level counts them."""
    if type(value) in (list, tuple):
        return type(value)([_lower_dims(call, dim, like, rank) for dim in value])
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value in (0, 1) or (
        value in (-rank, 1 - rank) and call.name != "diag_embed"
    ):  # its dims are those of the result
        dim = value % rank
        counted = "rows" if not dim else "rows of the level below"
        raise call.refuse(
            f"dim {dim} of a ragged tensor of shape {tuple(like.shape)} counts {counted}, which have different lengths, so nothing can be "
            f"computed across them. Use another dim, x.flatten(1, 2), which has one level, or x.unbind()."
        )
    return value - 1 if value > 0 else value


def _lower_dense(call: Call, value: Any, upper: Partition, rank: int) -> Any:
    """A dense argument as the lower level has it: what a row of the upper level has of its own is repeated for the rows below."""
    shape = tuple(value.shape)
    if len(shape) == rank and shape[0] in (1, upper.count) and shape[1] == 1:
        rows = run("reshape", value, (shape[0], *shape[2:]))
        return rows if shape[0] == 1 else spread(rows, upper)
    if len(shape) == rank or (len(shape) == rank - 1 and shape[0] == upper.total and shape[0] != 1):
        raise call.refuse(
            f"a dense operand of shape {shape} has no levels of rows. Give it shape ({upper.count}, 1, ...), one entry for each row of the "
            f"upper level, or make it ragged, with one entry for each row of the lower one."
        )
    return value


def names_upper_dims(call: Call) -> bool:
    """Whether the call names dim 0 or 1, which count the rows and those of the level below."""
    rank = max([x.ndim for x in call.ragged()])
    for name in DIMS & call.arguments.keys():
        value = call[name]
        for dim in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(dim, int) and not isinstance(dim, bool) and dim in (0, 1, -rank, 1 - rank):
                return True
    return False
