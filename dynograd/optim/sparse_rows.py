"""Steps that touch only the rows of a parameter for which a sparse gradient has entries."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.kernels import kernel
from dynograd.sparse import coordinates
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["add_rows", "check_sparse_options", "rows", "set_rows", "step_compiled"]


def check_sparse_options(who: str, group: dict[str, Any]) -> None:
    """Raises for options that would touch all rows, or that record the step."""
    if group["weight_decay"]:
        raise RuntimeError(
            f"{who}: weight_decay option is not compatible with sparse gradients (got weight_decay={group['weight_decay']}), because it "
            f"changes all rows. Put the table into a parameter group with weight_decay=0, or build the layer with sparse=False."
        )
    if group["differentiable"]:
        raise RuntimeError(
            f"{who}: differentiable=True does not take sparse gradients. Build the layer with sparse=False."
        )


def add_rows(x: Tensor, g: Any, factor: float) -> None:
    """x += factor * g, in place. Entries of one place add up."""
    table, index = _table(x, g)
    kernel("embeddings", "add_rows", table)(table, index, (g._values() * factor).array)


def rows(x: Tensor, g: Any) -> Tensor:
    """What `x` has where the coalesced `g` has entries, in the shape of those."""
    table, index = _table(x, g)
    return wrap(kernel("embeddings", "embedding_forward", table)(table, index))


def set_rows(x: Tensor, g: Any, values: Tensor) -> None:
    """Writes `values` where the coalesced `g` has entries."""
    table, index = _table(x, g)
    kernel("embeddings", "write_rows", table)(table, index, values.array)


def step_compiled(name: str, tensors: list[Any], g: Any, *numbers: float) -> bool:
    """A step of the rows of the coalesced `g` in one compiled call, for plain arrays on a CPU; whether it was done."""
    pairs = [_table(x, g) for x in tensors]
    tables, index, entries = [table for table, _ in pairs], pairs[0][1], g._values().array
    if not all([type(array) is arrays.ndarray for array in (*tables, index, entries)]):
        return False
    return kernel("optimizers", "row_step", entries)(name, tables, index, entries, *numbers)


def _table(x: Tensor, g: Any) -> tuple[Any, Any]:
    """The memory of `x` as rows like the entries of `g`, and the numbers of those that it has."""
    sparse = g.sparse_dim()
    if sparse == 1:
        return x.array, g._indices()[0].array
    number = coordinates.numbered(g._indices(), tuple(g.shape)[:sparse])
    return x.detach().view(-1, *tuple(g.shape)[sparse:]).array, number.array
