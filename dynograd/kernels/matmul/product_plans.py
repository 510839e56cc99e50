"""Many matrix products of different sizes at once: where the matrices of each lie. Both backends, and the derivatives, read such a plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import IndexRangeError

A, B, C, M, N, K = range(6)


class ProductPlan:
    """Products c = op(a) @ op(b), (m, n) = (m, k) @ (k, n), of matrices that lie row by row in three vectors; c do not overlap.

    Args:
        table (products, 6) int64: where a, b and c begin, then m, n and k.
        sizes: the sizes of the three vectors.
    Raises:
        IndexRangeError: a product reads or writes outside of them.
    """

    __slots__ = ("_kept", "covers", "sizes", "table", "work")

    def __init__(self, table: np.ndarray, sizes: tuple[int, int, int]) -> None:
        self.table = np.ascontiguousarray(table, np.int64).reshape(-1, 6)
        self.sizes = sizes
        ms, ns, ks = self.table[:, M], self.table[:, N], self.table[:, K]
        areas = (ms * ks, ks * ns, ms * ns)
        for which, area, size in zip("abc", areas, sizes, strict=True):
            begin = self.table[:, "abc".index(which)]
            wrong = (begin < 0) | (area < 0) | ((begin + area > size) & (area > 0)) | (self.table[:, M:] < 0).any(1)
            if wrong.any():
                at = int(wrong.argmax())
                raise IndexRangeError(
                    f"product {at}: matrix {which} goes from {begin[at]} to {begin[at] + area[at]} of {size} elements (m, n, k = "
                    f"{self.table[at, M:].tolist()})."
                )
        self.work = int((areas[C] * ks).sum())
        self.covers = int(areas[C].sum()) >= sizes[C]
        self._kept: dict[Any, Any] = {}

    def kept(self, key: Any, make: Any) -> Any:
        """What `make()` gives, made once."""
        value = self._kept.get(key)
        if value is None:
            value = self._kept[key] = make()
        return value

    def turned(self, a: int, b: int, c: int) -> ProductPlan:
        """The plan of derivatives: matrix number `a` (0 to 2 for a, b, c) times `b` is `c`."""
        size = {frozenset((A, C)): M, frozenset((B, C)): N, frozenset((A, B)): K}
        m, n, k = (size[frozenset(pair)] for pair in ((a, c), (b, c), (a, b)))
        sizes = (self.sizes[a], self.sizes[b], self.sizes[c])
        return self.kept((a, b, c), lambda: ProductPlan(self.table[:, [a, b, c, m, n, k]], sizes))

    def times(self, count: int) -> ProductPlan:
        """The products of `count` examples, whose vectors lie behind one another."""

        def make() -> ProductPlan:
            step = np.array([*self.sizes, 0, 0, 0], np.int64)
            table = self.table[None] + np.arange(count, dtype=np.int64)[:, None, None] * step
            a, b, c = self.sizes
            return ProductPlan(table.reshape(-1, 6), (a * count, b * count, c * count))

        return self.kept(("times", count), make)

    def tiles(self, rows: int, columns: int) -> np.ndarray:
        """(tiles, 3): the product, and the row and column of each tile of all c."""
        down = -(-self.table[:, M] // rows)
        across = -(-self.table[:, N] // columns)
        counts = down * across
        product = np.repeat(np.arange(len(self.table)), counts)
        number = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        wide = across[product]
        return np.stack([product, number // wide, number % wide], 1).astype(np.int64)

    def groups(self, most: int) -> np.ndarray:
        """Where groups of products begin that take about as much work each."""
        work = self.table[:, M] * self.table[:, N] * self.table[:, K] + 4096
        count = max(min(most, len(work)), 1)
        middles = np.cumsum(work) - work / 2  # a product belongs to the share that has most of it
        inner = np.searchsorted(middles, work.sum() * np.arange(1, count) / count)
        return np.concatenate(([0], inner, [len(work)])).astype(np.int64)

    def __repr__(self) -> str:
        return f"ProductPlan({len(self.table)} products, sizes {self.sizes})"
