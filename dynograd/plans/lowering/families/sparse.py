"""Products with sparse matrices: rows and columns are read, and looked at, in each step."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.forms import Check, Lowered, arguments_of

__all__: list[str] = []


@assistance("op", "sparse_product", "sparse_transposed_product", "sparse_sampled")
def _product(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    columns = arguments.get("columns")
    if columns is None:
        columns = arguments["dense" if "dense" in arguments else "other"].shape[0]
    return _looked_at(call, arguments["crow"], arguments["col"], columns)


@assistance("rule", "sparse_product")
def _product_rule(call: Call) -> Lowered | None:
    node = call.node
    return _looked_at(call, node.crow, node.col, node.dense.shape[0])


def _looked_at(call: Call, crow: Any, col: Any, columns: int) -> Lowered | None:
    """The noted launches, if they are those of the matrix itself."""
    for launch in call.launches:
        own = [array for array in launch.arguments if isinstance(array, numpy.ndarray) and array.dtype.kind == "i"]
        is_first = (
            launch.name.rpartition(".")[2] in ("count_places", "product", "sampled") and launch is call.launches[0]
        )
        if is_first and not (layouts.overlaps(own[0], crow) and layouts.overlaps(own[1], col)):
            return None  # converted
    entries = numpy.arange(crow.size) * col.size // max(crow.size - 1, 1)
    places = [(crow, entries), (col, numpy.arange(col.size) % max(columns, 1))]
    return Lowered(call.launches, check=_Check(call, crow, col, columns), places=places) if call.launches else None


class _Check(Check):
    """Of rows and columns."""

    def fits(self, *values: Any) -> bool:
        from dynograd.kernels.matmul.sparse_products_numba import fit

        return bool(fit(*values))
