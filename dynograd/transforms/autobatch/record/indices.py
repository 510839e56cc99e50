"""Indices that are numbers in tensors of their own (a token each): taken at once, so that the record keeps no tensor for each."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.tensor.tensor import wrap

INT64 = numpy.dtype(numpy.int64)


class Indices(list[int]):
    """What a port of indices has in place of tensors."""

    __slots__ = ()

    def __getitem__(self, row: Any) -> Any:
        return wrap(numpy.array(list.__getitem__(self, row), INT64))

    def rows(self, rows: Any) -> Any:
        """Many of them, as an array."""
        return numpy.fromiter(self, INT64, len(self)).take(rows)

    def run(self, start: int, count: int) -> Any:
        """Those behind one another, as an array."""
        return numpy.array(list.__getitem__(self, slice(start, start + count)), INT64)
