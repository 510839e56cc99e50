"""The rows of all tables in this folder, for tests that run them in other ways."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["all_rows", "families", "rows_of", "title_of"]

_WITHOUT_TABLES = ("test_registry", "test_harness")


@cache
def all_rows() -> tuple[tuple[str, Any], ...]:
    """(family, row) of each; the family of test_sorting.py is "sorting"."""
    modules = [
        importlib.import_module(f"tests.ops.{path.stem}")
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if path.stem not in _WITHOUT_TABLES
    ]
    return tuple(
        (module.__name__.rpartition(".test_")[2], row)
        for module in modules
        for value in vars(module).values()
        if callable(value)
        for row in getattr(value, "rows", ())
    )


def families() -> list[str]:
    """Those with rows."""
    return list(dict.fromkeys(family for family, row in all_rows() if row.dtypes))


def rows_of(family: str) -> list[Any]:
    """Those that name dtypes; the others are only about errors."""
    return [row for its, row in all_rows() if its == family and row.dtypes]


def title_of(row: Any) -> str:
    name = row.name.rpartition(".")[2]
    return name if row.id is None else f"{name}-{row.id}"
