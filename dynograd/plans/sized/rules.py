"""Numbers of kernels that are no formulas of the sizes, but follow from other numbers of the same kernel: how products are cut, in how many blocks."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.matmul import matmuls_numba
from dynograd.kernels.recurrent import recurrent_products_numba
from dynograd.plans.sized.memory import Differs, SizedMemory
from dynograd.plans.sized.sizes import NoFormula, Number

__all__ = ["PRODUCT", "blocks_of_rows", "counts_of_blocks", "products_of", "rows_of_loops"]

_ROWS = 8  # the word of a kernel that says how many rows its first argument has, a matrix
PRODUCT = 4  # the word of a matrix product that says how many rows it has; then come columns, steps, and the rows and columns of a block


def products_of(tables: list[Any], words: Any, memory: SizedMemory) -> list[tuple[int, int, int, int | Number]]:
    """(row, its first word, its last one, how many products) of the rows that are matrix products: how these are cut says `matmuls_cpu`."""
    rows = []
    table = tables[0]
    begins = table.first_words.tolist()
    for row, last in last_words(table).items():
        if not _is_product(table.kernels[row]):
            continue
        first = begins[row]
        m, n, _, block_m, block_n = words[:, first + PRODUCT : first + PRODUCT + 5].T
        batches = words[:, last] // (-(-m // block_m) * -(-n // block_n))
        try:
            rows.append((row, first, last, memory.sizes.number(batches.tolist())))
        except NoFormula:
            raise Differs("batches of products") from None
    return rows


def _is_product(kernel: Any) -> bool:
    kernels = [*matmuls_numba.products.values(), *matmuls_numba.products_with_ends.values()]
    return any([kernel is product for product in kernels])


def last_words(table: Any) -> dict[int, int]:
    """The place of the number of items of each row that has items."""
    starts = table.places()[2]
    rows = numpy.searchsorted(table.first_words, starts, side="right") - 1
    return {int(row): start + 1 for row, start in zip(rows, starts)}


def rows_of_loops(table: Any) -> dict[int, tuple[int, int]]:
    """The numbers of items that are so many rows: place -> (place of the number of elements, place of those of a row)."""
    return {last: (last - 2, last - 4) for row, last in last_words(table).items() if _is_row_kernel(table.kernels[row])}


def blocks_of_rows(table: Any, words: Any) -> dict[int, tuple[int, int]]:
    """How many rows a block has of which column sums are taken: place -> (place of the number of rows, place of that of blocks)."""
    begins, places = table.first_words.tolist(), {}
    for row, last in last_words(table).items():
        code = getattr(table.kernels[row], "serial", table.kernels[row]).py_func.__code__
        if code.co_varnames[: code.co_argcount][-3:] != ("block_rows", "start", "stop"):
            continue
        place, rows = last - 2, begins[row] + _ROWS
        if (words[:, place] != words[0, place]).any() and (
            words[:, place] == -(-words[:, rows] // words[:, last])
        ).all():
            places[place] = rows, last
    return places


def counts_of_blocks(table: Any) -> dict[int, int]:
    """The numbers of items of the products in recurrent layers: place -> place of the number of rows."""
    begins = table.first_words.tolist()
    blocks = recurrent_products_numba.row_blocks
    return {last: begins[row] + _ROWS for row, last in last_words(table).items() if table.kernels[row] is blocks}


def _is_row_kernel(kernel: Any) -> bool:
    """Whether it is one of `generator_numba.row_kernel`."""
    code = getattr(kernel, "serial", kernel).py_func.__code__
    return code.co_varnames[: code.co_argcount][-5:] == ("columns", "inner", "total", "start", "stop")
