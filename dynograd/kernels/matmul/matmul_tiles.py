"""Which tiles a product on the GPU is cut in: tables of block sizes, and an estimate that chooses one by its shape."""

from __future__ import annotations

from typing import NamedTuple


class Tiles(NamedTuple):
    """Rows and columns of a tile, depth of a step, warps, stages of the pipeline, and how well it uses its processor (1: best)."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    speed: float

    def constants(self) -> dict[str, int]:
        """As the kernels' constants."""
        return {
            "BM": self.rows, "BN": self.columns, "BK": self.depth, "num_warps": self.warps, "num_stages": self.stages,
        }  # fmt: skip


# Speeds are estimates from operands read per multiplication and the instructions' shapes (wgmma wants 64 rows); not measured yet.
_HALF = (
    Tiles(128, 256, 64, 8, 3, 1.0),
    Tiles(128, 128, 64, 8, 3, 0.85),
    Tiles(64, 256, 64, 4, 3, 0.75),
    Tiles(64, 128, 64, 4, 4, 0.65),
    Tiles(64, 64, 64, 4, 4, 0.45),
    Tiles(16, 128, 128, 4, 3, 0.15),
    Tiles(128, 16, 128, 4, 3, 0.15),
    Tiles(16, 64, 128, 4, 4, 0.1),
)
_TF32 = (
    Tiles(128, 128, 32, 8, 3, 1.0),
    Tiles(64, 128, 32, 4, 3, 0.75),
    Tiles(64, 64, 32, 4, 4, 0.5),
    Tiles(16, 64, 64, 4, 4, 0.12),
    Tiles(64, 16, 64, 4, 4, 0.12),
)
# Without tensor cores: 8 x 8 results a thread.
_SINGLE = (
    Tiles(128, 128, 16, 8, 3, 1.0),
    Tiles(128, 64, 16, 8, 3, 0.85),
    Tiles(64, 64, 16, 4, 3, 0.8),
    Tiles(32, 64, 32, 4, 3, 0.55),
    Tiles(32, 32, 32, 4, 3, 0.4),
    Tiles(16, 64, 32, 4, 3, 0.35),
)
_DOUBLE = (
    Tiles(64, 64, 16, 8, 3, 1.0),
    Tiles(32, 64, 16, 4, 3, 0.8),
    Tiles(32, 32, 32, 4, 3, 0.6),
    Tiles(16, 32, 32, 4, 3, 0.35),
)
_FIXED = {"half": 1, "tf32": 1, "single": 2, "double": 1}  # in batch-invariant mode, whatever the shape
_TABLES = {"half": _HALF, "tf32": _TF32, "single": _SINGLE, "double": _DOUBLE}


def rivals(kind: str, tiles: Tiles) -> list[Tiles]:
    """Others of the same depth that may be faster for a large product."""
    extra = (Tiles(256, 128, 64, 8, 3, 1.0), Tiles(128, 128, 64, 4, 4, 0.85)) if kind == "half" else ()
    return [
        candidate
        for candidate in (*_TABLES[kind], *extra)
        if candidate != tiles and candidate.depth == tiles.depth and candidate.rows * candidate.columns >= 4096
    ]


def chosen(kind: str, batch: int, m: int, n: int, k: int, processors: int, invariant: bool = False) -> Tiles:
    """The tiles with the least estimated time: rounds of tiles over all processors, at the tile's speed."""
    if invariant:
        return _TABLES[kind][_FIXED[kind]]
    best, least = _TABLES[kind][0], float("inf")
    for candidate in _TABLES[kind]:
        tiles = batch * -(-m // candidate.rows) * -(-n // candidate.columns)
        shared = max(1, min(processors // tiles, k // (4 * candidate.depth))) if tiles < processors else 1
        time = -(-tiles * shared // processors) * candidate.rows * candidate.columns / (candidate.speed * shared)
        if time < least:
            best, least = candidate, time
    return best


def splits_of(tiles: int, k: int, depth: int, processors: int) -> int:
    """In how many parts to cut the inner dim so that few tiles keep all processors busy; a part has 4 steps or more."""
    if 2 * tiles > processors:
        return 1
    return max(1, min(processors // tiles, k // (4 * depth), 64))
