"""Driven kernels: called by address, in parts on all threads, as one driver for all of them."""

import numpy as np
import pytest

from dynograd.kernels import drivers_numba, threads, tiles_numba


@drivers_numba.driven("test")
def doubled(like, start_value, step, unused, tables, start, stop):
    for item in range(start, stop):
        tables[item] = 2 * tables[item] + start_value + step * like[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_are_the_whole(dtype, parts, monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)
    tables = np.arange(101)
    doubled(np.ones(1, dtype), 5, 3, 0, tables, count=100, work=0, parts=parts)
    np.testing.assert_array_equal(tables[:100], 2 * np.arange(100) + 8)
    assert tables[100] == 100
    assert repr(doubled) == "<driven kernel doubled>"


def test_numba_tells_addresses():
    """Without them every driven kernel runs in one part: right, but slow."""
    assert doubled._address(np.ones(1, np.float32), np.arange(3)) > 0


def test_runs_in_one_part_without_addresses(monkeypatch):
    kernel = drivers_numba.Driven(doubled.serial.py_func, "test")
    monkeypatch.setattr(
        type(kernel.serial), "compile", lambda *_: (_ for _ in ()).throw(AttributeError()), raising=True
    )
    assert kernel._address(np.ones(1, np.float32), np.arange(3)) == 0


@pytest.mark.parametrize(
    ("name", "features", "wanted"),
    [
        ("znver4", {"avx512vl": True, "avx": True}, (32, 32)),
        ("znver5", {"avx512vl": True, "avx": True}, (64, 32)),
        ("haswell", {"avx": True}, (32, 16)),
        ("apple-m1", {"neon": True}, (16, 16)),
        ("generic", {}, (16, 16)),
    ],
)
def test_registers_of_processors(name, features, wanted):
    assert tiles_numba.vector_bytes(name, features) == wanted


@pytest.mark.parametrize("tiles", [tiles_numba.PRODUCT_TILES, tiles_numba.DOT_TILES])
def test_every_number_of_channels_has_tiles(tiles):
    from dynograd.kernels.convolutions_plans import blocks_of

    for channels in range(1, 70):
        blocks = blocks_of(channels, tuple(tiles))
        assert [begin for begin, _ in blocks] == [sum(height for _, height in blocks[:i]) for i in range(len(blocks))]
        assert sum(height for _, height in blocks) == channels and all(height in tiles for _, height in blocks)
