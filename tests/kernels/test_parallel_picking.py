"""Copies, picking, scattering, scans, sorting and pooling: on two threads the same bits as on one, and as NumPy says."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.image import interpolations_cpu, poolings_cpu
from dynograd.kernels.index import indexing_cpu, lookups_cpu, scatters_cpu
from dynograd.kernels.layout import copies_cpu, joins_cpu, paddings_cpu, rearrangements_cpu
from dynograd.kernels.linalg import triangles_cpu
from dynograd.kernels.reduce import quantiles_cpu, scans_cpu
from dynograd.kernels.sort import sorting_cpu

random = np.random.default_rng(0)


def draw(*shape, dtype=np.float32):
    return random.normal(size=shape).astype(dtype)


def slow(*dtypes):
    """Each compiles kernels of its own."""
    return [pytest.param(dtype, marks=pytest.mark.slow) for dtype in dtypes]


def on_threads(monkeypatch, function):
    """The results of `function` on one thread, equal to those on two."""
    monkeypatch.setattr(threads, "GRAIN", 1 << 9)
    kept, results = threads.get_num_threads(), []
    for count in (1, 2):
        threads.set_num_threads(count)
        created = function()
        results.append(created if isinstance(created, tuple) else (created,))
    threads.set_num_threads(kept)
    for element, two in zip(*results, strict=True):
        np.testing.assert_array_equal(element, two)
    return results[0] if len(results[0]) > 1 else results[0][0]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, *slow(np.float16, np.complex128)])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x.transpose(0, 2, 1, 3),
        lambda x: x.transpose(0, 2, 3, 1),
        lambda x: x[:, ::-1, :, ::-1],
        lambda x: x[:, 1:, ::2],
        lambda x: x[..., ::3],
        lambda x: np.broadcast_to(x[:, :1, :, :1], x.shape),
        lambda x: x.transpose(3, 0, 2, 1)[::-1, :, ::-1],
    ],
)
def test_copies_of_any_strides(view, dtype, monkeypatch):
    x = view(random.integers(0, 100, (7, 30, 41, 66)).astype(dtype))
    np.testing.assert_array_equal(on_threads(monkeypatch, lambda: copies_cpu.copied(x)), x)


@pytest.mark.parametrize("shift", [1, 15, 16, 1000, -1, -1000])
@pytest.mark.parametrize("rows", [1, 90])
def test_copies_to_every_place_of_a_page(rows, shift, monkeypatch):
    """Right behind its source in a page, memory is copied by loops of our own."""
    x = draw(rows, 100_000 // rows)
    result = on_threads(monkeypatch, lambda: rearrangements_cpu.roll(x, (shift,), (1,)))
    np.testing.assert_array_equal(result, np.roll(x, shift, 1))
    room = np.zeros(2 * x.size + 4096, np.float32)
    begin = (x.ctypes.data - room.ctypes.data) // 4 % 1024 + 1024 + shift
    target = room[begin : begin + x.size].reshape(x.shape)
    for view in (np.s_[:], np.s_[:, :-1]):
        copies_cpu.copy_into(target[view], x[view])
        np.testing.assert_array_equal(target[view], x[view])


def test_filled_memory(monkeypatch):
    assert not on_threads(monkeypatch, lambda: copies_cpu.zeros((700, 1001), np.float32)).any()
    assert (paddings_cpu.pad_constant(draw(400, 900), ((1, 2), (-3, 4)), 7.0)[0] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, *slow(np.int32, np.float16)])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_picked_and_added_slices(dim, dtype, monkeypatch):
    x = random.integers(-9, 9, (50, 40, 70)).astype(dtype)
    index = random.integers(-x.shape[dim], x.shape[dim], 300)
    np.testing.assert_array_equal(on_threads(monkeypatch, lambda: scatters_cpu.take(x, index, dim)), x.take(index, dim))
    template = (*(slice(None),) * dim, 0)
    g = random.integers(-9, 9, x.take(index, dim).shape).astype(dtype)
    expected = np.zeros(x.shape)
    np.add.at(expected, (*template[:-1], index), g)
    result = on_threads(monkeypatch, lambda: indexing_cpu.index_backward(g, [index], template, x.shape))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [100, 40000])
def test_elements_named_along_every_dim(size, monkeypatch):
    x = draw(50, 40, 70)
    indices = [random.integers(-side, side, (2, size // 2)) for side in x.shape]
    result = on_threads(monkeypatch, lambda: indexing_cpu.index_forward(x, indices, (0, 1, 2)))
    np.testing.assert_array_equal(result, x[tuple(indices)])
    for wrong in (40, -41):
        indices[1][1, 7] = wrong
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 1 with size 40"):
            indexing_cpu.index_forward(x, indices, (0, 1, 2))


def test_added_rows_of_few_columns_sum_in_blocks(monkeypatch):
    for columns in (1, 3):
        index, src = random.integers(0, 500, 40000), draw(40000, columns)
        expected = np.zeros((500, columns))
        np.add.at(expected, index, src)

        def added(columns=columns, index=index, src=src):
            out = np.zeros((500, columns), np.float32)
            scatters_cpu.add_slices(out, 0, index, src)
            return out

        np.testing.assert_allclose(on_threads(monkeypatch, added), expected, atol=1e-4)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("rare", [None, 20000, -3])
def test_added_rows_that_are_mostly_in_front(columns, rare, monkeypatch):
    """Blocks are as large as a few of the places say; one beyond them is found."""
    index, src = random.integers(0, 500, 40000), random.integers(0, 9, (40000, columns)).astype(np.float32)
    if rare is not None:
        index[30001] = rare
    expected = np.ones((30000, columns), np.float32)
    np.add.at(expected, index, src)

    def added():
        out = np.ones((30000, columns), np.float32)
        scatters_cpu.add_slices(out, 0, index, src)
        return out

    np.testing.assert_array_equal(on_threads(monkeypatch, added), expected)
    index[39999] = 30000
    with pytest.raises(IndexError):
        added()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("low", [0, -50000])
def test_many_elements_of_a_vector(low, dtype, monkeypatch):
    """Written in order, so the last one stays; filled and added in any order or in parts."""
    x, index = random.integers(0, 99, 50000).astype(dtype), random.integers(low, 50000, 140000)
    src = random.integers(0, 99, index.size).astype(dtype)

    def changed(write, *args):
        created = x.copy()
        write(created, *args)
        return created

    expected = [x.copy() for _ in range(3)]
    expected[0][index], expected[1][index] = src, 7
    np.add.at(expected[2], index, src)
    calls = [
        (scatters_cpu.write_places, index, src, low),
        (scatters_cpu.write_places, index, 7, low),
        (scatters_cpu.add_slices, 0, index, src, low),
    ]
    for call, right in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(on_threads(monkeypatch, lambda call=call: changed(*call)), right)
    for wrong in (50000, low - 1):
        index[77777] = wrong
        for call in calls:
            with pytest.raises(IndexError):
                changed(*call)


@pytest.mark.parametrize("wrong", [30, -1])
@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_outside_is_found_while_it_is_read(dim, wrong):
    x, index = draw(30, 2000), random.integers(0, 30, (30, 2000))
    x = x if dim == 0 else x.T.copy()
    index = index if dim == 0 else index.T.copy()
    index[17, 9] = wrong
    for call in (scatters_cpu.scatter, scatters_cpu.scatter_add):
        with pytest.raises(IndexError):
            call(x, dim, index, x)
    with pytest.raises(IndexError):
        scatters_cpu.gather(x, dim, index)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter(dim, expanded, monkeypatch):
    x, src = draw(30, 40, 50), draw(30, 40, 50)
    index = random.integers(0, x.shape[dim], x.shape)
    if expanded:
        index = np.broadcast_to(index[tuple(slice(None) if d == dim else slice(1) for d in range(3))], x.shape)
    result = on_threads(monkeypatch, lambda: scatters_cpu.gather(x, dim, index))
    np.testing.assert_array_equal(result, np.take_along_axis(x, index, dim))
    written = x.copy()
    np.put_along_axis(written, index, src, dim)
    result = on_threads(monkeypatch, lambda: scatters_cpu.scatter(x, dim, index, src))
    np.testing.assert_array_equal(result, written)
    expected = x.astype(np.float64)
    grid = list(np.ogrid[:30, :40, :50])
    grid[dim] = index
    np.add.at(expected, tuple(grid), src)
    result = on_threads(monkeypatch, lambda: scatters_cpu.scatter_add(x, dim, index, src))
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_masks(monkeypatch):
    x = draw(300, 200)
    mask = x > 0
    np.testing.assert_array_equal(on_threads(monkeypatch, lambda: indexing_cpu.index_forward(x, [mask], (0,))), x[mask])
    np.testing.assert_array_equal(on_threads(monkeypatch, lambda: lookups_cpu.nonzero(mask)), np.argwhere(mask))
    g = x[mask]
    result = on_threads(monkeypatch, lambda: indexing_cpu.index_backward(g, [mask], (0,), x.shape))
    np.testing.assert_array_equal(result, np.where(mask, x, 0))
    rows = mask[:, 0]
    np.testing.assert_array_equal(indexing_cpu.index_forward(x, [rows], (0,)), x[rows])


def test_out_of_range_rows_raise_before_anything_is_read():
    x = draw(100, 500)
    for wrong in (100, -101):
        with pytest.raises(IndexError, match=f"{wrong} is out of bounds"):
            scatters_cpu.take(x, np.full(1000, wrong), 0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"), [((30011,), 0), ((37, 501), 1), ((700, 65), 0), ((6, 90, 40), 1), ((3, 9000), 1)]
)
def test_running_sums_and_extremes(shape, dim, reverse, monkeypatch):
    x = draw(*shape)
    turned = np.flip(x, dim) if reverse else x
    expected = np.cumsum(turned.astype(np.float64), dim)
    expected = np.flip(expected, dim) if reverse else expected
    np.testing.assert_allclose(on_threads(monkeypatch, lambda: scans_cpu.cumsum(x, dim, reverse)), expected, atol=1e-4)
    factors = np.where(abs(x) > 3, 0.5, np.sign(x)).astype(np.float32)
    np.testing.assert_array_equal(
        on_threads(monkeypatch, lambda: scans_cpu.cumprod_forward(factors, dim)),
        np.cumprod(factors.astype(float), dim).astype(np.float32),
    )
    values, places = on_threads(monkeypatch, lambda: scans_cpu.cummax(x, dim))
    np.testing.assert_array_equal(values, np.maximum.accumulate(x, dim))
    np.testing.assert_array_equal(np.take_along_axis(x, places, dim), values)
    whole = on_threads(monkeypatch, lambda: scans_cpu.logcumsumexp_forward(x, dim))
    np.testing.assert_allclose(whole, np.logaddexp.accumulate(x.astype(np.float64), dim), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_go_on_behind_infinities(reverse, monkeypatch):
    x = random.integers(-99, 99, (3, 9000)).astype(np.float32)
    x[0, 5000], x[1, 4321], x[1, 700], x[2, 8990] = np.inf, -np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
    np.testing.assert_array_equal(on_threads(monkeypatch, lambda: scans_cpu.cumsum(x, 1, reverse)), expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_, *slow(np.int32, np.uint8, np.float16)])
@pytest.mark.parametrize("shape", [(50, 7), (40, 100), (20, 501), (9, 3000), (70000,)])
def test_sorting_and_selecting(shape, dtype, descending, monkeypatch):
    x = (draw(*shape) * 20).round().clip(0 if dtype in (np.uint8, np.bool_) else None, None).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x[..., 3], x[..., 5], x[..., 1], x[..., 6] = np.nan, -np.inf, -0.0, 0.0
    wide = x.astype(np.float64)
    order = np.argsort(wide, -1, kind="stable")
    if descending:
        order = x.shape[-1] - 1 - np.argsort(wide[..., ::-1], -1, kind="stable")[..., ::-1]
    values, index = on_threads(monkeypatch, lambda: sorting_cpu.sort(x, x.ndim - 1, descending))
    np.testing.assert_array_equal(index, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
    for k in (1, 5):
        values, index = on_threads(monkeypatch, lambda k=k: sorting_cpu.topk(x, k, x.ndim - 1, descending, True))
        np.testing.assert_array_equal(index, order[..., :k])
        assert values.dtype == dtype
    if not descending:
        values, index = on_threads(monkeypatch, lambda: sorting_cpu.kthvalue(x, 4, x.ndim - 1, False))
        kth = np.take_along_axis(wide, order, -1)[..., 3]
        np.testing.assert_array_equal(values, kth)
        np.testing.assert_array_equal(np.take_along_axis(wide, index[..., None], -1)[..., 0], kth)
        values, _ = on_threads(monkeypatch, lambda: quantiles_cpu.median(x, x.ndim - 1, False, True))
        if np.issubdtype(dtype, np.floating):
            counts = np.count_nonzero(~np.isnan(wide), -1, keepdims=True)
            middle = np.take_along_axis(np.take_along_axis(wide, order, -1), (counts - 1) // 2, -1)[..., 0]
            np.testing.assert_array_equal(values, middle)


@pytest.mark.slow
def test_rows_and_planes_too_long_for_int32_places(monkeypatch):
    x = draw(3, 5, 40, 600)
    windows = ((3, 3), (2, 2), (1, 1), (1, 1), False)
    pairs = ((2, 2), (2, 2), (0, 0), (1, 1), False)
    last = x.transpose(0, 3, 1, 2)
    expected = [poolings_cpu.max_pool_places(*each) for each in ((x, *windows), (x, *pairs), (last, *windows))]
    ordered = sorting_cpu.sort(x, 3, False)
    poolings_cpu._max_windows.cache_clear()
    monkeypatch.setattr(poolings_cpu, "_MOST_PLACES", 1)
    monkeypatch.setattr(sorting_cpu, "_MOST_PLACES", 1)
    results = [poolings_cpu.max_pool_places(*each) for each in ((x, *windows), (x, *pairs), (last, *windows))]
    poolings_cpu._max_windows.cache_clear()
    for element, other in zip([*results, sorting_cpu.sort(x, 3, False)], [*expected, ordered], strict=True):
        np.testing.assert_array_equal(element[0], other[0])
        np.testing.assert_array_equal(element[1], other[1])
        assert element[1].dtype == np.int64
    assert expected[0][1].dtype == np.int32


@pytest.mark.parametrize(("kernel", "padding", "dilation"), [(2, 0, 1), (3, 1, 1), (4, 2, 3), (5, 1, 2)])
@pytest.mark.parametrize("width", [31, 32, 47, 300])
def test_every_second_window_of_lines(width, kernel, padding, dilation, monkeypatch):
    if width + 2 * padding <= dilation * (kernel - 1):
        return
    x = draw(200, width)
    x[3, 7], x[5] = np.nan, -np.inf
    values, places = on_threads(
        monkeypatch, lambda: poolings_cpu.max_pool_places(x, (kernel,), (2,), (padding,), (dilation,), False)
    )
    for window in range(values.shape[1]):
        taps = np.arange(kernel) * dilation + 2 * window - padding
        taps = taps[(taps >= 0) & (taps < width)]
        np.testing.assert_array_equal(values[:, window], x[:, taps].max(1))
        np.testing.assert_array_equal(places[:, window], taps[x[:, taps].argmax(1)])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_distinct_numbers(dtype):
    for spread in (9, 10**9):
        x = (draw(2000) * spread).round().astype(dtype)
        values, inverse, counts = lookups_cpu.unique(x, None)
        expected = np.unique(x, return_inverse=True, return_counts=True)
        for result, element in zip((values, inverse, counts), expected, strict=True):
            np.testing.assert_array_equal(result, element)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_pooling_of_channels_last_images_is_that_of_row_major_ones(kernel, stride, padding, monkeypatch):
    x = draw(3, 20, 17, 18)
    x[0, 3, 4, 4] = np.nan
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    options = ((kernel,) * 2, (stride,) * 2, (padding,) * 2, (1, 1), False)
    values, places = on_threads(monkeypatch, lambda: poolings_cpu.max_pool_places(x, *options))
    result = on_threads(monkeypatch, lambda: poolings_cpu.max_pool_places(last, *options))
    np.testing.assert_array_equal(values, result[0])
    np.testing.assert_array_equal(places, result[1])
    assert result[0].transpose(0, 2, 3, 1).flags.c_contiguous
    g = draw(*values.shape)
    element = on_threads(monkeypatch, lambda: poolings_cpu.max_pool_backward(g, places, x.shape, 2))
    two = on_threads(
        monkeypatch,
        lambda: poolings_cpu.max_pool_backward(g, poolings_cpu.max_pool_places(last, *options)[1], x.shape, 2),
    )
    np.testing.assert_allclose(element, two, atol=1e-6)
    averages = [
        on_threads(monkeypatch, lambda y=y: poolings_cpu.avg_pool_forward(y, *options[:3], False, True, None))
        for y in (x, last)
    ]
    np.testing.assert_array_equal(*averages)


def test_joins_rearrangements_triangles_and_resampling(monkeypatch):
    x = draw(300, 401)
    np.testing.assert_array_equal(
        on_threads(monkeypatch, lambda: joins_cpu.cat([x, x[:, ::-1]], 1)), np.concatenate([x, x[:, ::-1]], 1)
    )
    np.testing.assert_array_equal(
        on_threads(monkeypatch, lambda: joins_cpu.stack([x, x + 1], 1)), np.stack([x, x + 1], 1)
    )
    for dims in ((0,), (1,), (0, 1)):
        np.testing.assert_array_equal(
            on_threads(monkeypatch, lambda d=dims: rearrangements_cpu.flip(x, d)), np.flip(x, dims)
        )
    np.testing.assert_array_equal(
        on_threads(monkeypatch, lambda: rearrangements_cpu.roll(x, (5, -3), (0, 1))), np.roll(x, (5, -3), (0, 1))
    )
    np.testing.assert_array_equal(
        on_threads(monkeypatch, lambda: rearrangements_cpu.repeat(x, (2, 3))), np.tile(x, (2, 3))
    )
    np.testing.assert_array_equal(
        on_threads(monkeypatch, lambda: rearrangements_cpu.repeat_rows(x, 3, 1)), np.repeat(x, 3, 1)
    )
    for diagonal in (-350, -7, 0, 9, 500):
        np.testing.assert_array_equal(
            on_threads(monkeypatch, lambda d=diagonal: triangles_cpu.tril(x, d)), np.tril(x, diagonal)
        )
        np.testing.assert_array_equal(
            on_threads(monkeypatch, lambda d=diagonal: triangles_cpu.triu(x, d)), np.triu(x, diagonal)
        )
    for mode, name in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        result = on_threads(monkeypatch, lambda m=mode: paddings_cpu.pad_mirrored(x, ((3, 4), (2, 5)), m))
        np.testing.assert_array_equal(result, np.pad(x, [(3, 4), (2, 5)], mode=name))
    for dim in (0, 1):
        g = draw(*[2 * n if d == dim else n for d, n in enumerate(x.shape)])
        up = on_threads(
            monkeypatch, lambda d=dim: interpolations_cpu.resample(x, d, 2 * x.shape[d], "linear", False, None)
        )
        down = on_threads(
            monkeypatch,
            lambda d=dim, g=g: interpolations_cpu.resample_backward(g, d, x.shape[d], "linear", False, None),
        )
        np.testing.assert_allclose((up.astype(float) * g).sum(), (x.astype(float) * down).sum(), rtol=1e-3)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("low, high", [(5, 5), (-3, 900), (-(2**31), 2**31 - 1), (-(2**62), 2**63 - 1)])
@pytest.mark.parametrize("kind", "lid")
def test_long_rows_go_digit_by_digit(kind, low, high, descending, monkeypatch):
    monkeypatch.setattr(sorting_cpu, "LONGER", 1 << 10)
    rng = np.random.default_rng(3)
    x = rng.integers(low, high, (3, 5003), endpoint=True).astype(np.int64)
    x = (x >> 32).astype(kind) if kind == "i" and high > 2**31 else x.astype(kind)
    if kind == "d":
        x[:, ::7], x[:, 1::9], x[:, 2::9] = np.nan, 0.0, -0.0
    order = np.argsort(x, -1, kind="stable")
    if descending:
        order = 5002 - np.argsort(x[:, ::-1], -1, kind="stable")[:, ::-1]
    values, index = on_threads(monkeypatch, lambda: sorting_cpu.sort(x, 1, descending))
    np.testing.assert_array_equal(index, order)
    assert values.tobytes() == np.take_along_axis(x, order, 1).tobytes()
    np.testing.assert_array_equal(on_threads(monkeypatch, lambda: sorting_cpu.argsort(x, 1, descending)), order)


@pytest.mark.parametrize("size", [4096, 5000])
@pytest.mark.parametrize("kind", "fdil")
def test_sorted_numbers_and_what_is_distinct_of_them(kind, size):
    rng = np.random.default_rng(size)
    x = (rng.normal(size=size) * 1e3).astype(kind)
    if kind in "fd":
        x[::9], x[3:7] = np.nan, (-0.0, 0.0, np.inf, -np.inf)
    else:
        x[:2] = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    np.testing.assert_array_equal(sorting_cpu.sorted_numbers(x), np.sort(x))
    values, _, counts = lookups_cpu.unique(x, None, False)
    expected = np.unique(x, return_counts=True, equal_nan=False)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(counts, expected[1])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 4097])
@pytest.mark.parametrize("kind", "fdil")
@pytest.mark.parametrize("side", ["left", "right"])
def test_many_searches_at_once(kind, size, side):
    rng = np.random.default_rng(size)
    table = np.sort(rng.integers(-50, 50, size).astype(kind))
    values = rng.integers(-60, 60, 3000).astype(kind)
    if kind in "fd" and size > 3:
        table[-2:] = np.nan
        values[:3] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(
        lookups_cpu.searchsorted(table, values, side, None, np.dtype(np.int64)), np.searchsorted(table, values, side)
    )
    two, expected = np.stack([table, table]), np.stack([values, values[::-1]])
    result = lookups_cpu.searchsorted(two, expected, side, None, np.dtype(np.int32))
    np.testing.assert_array_equal(result, [np.searchsorted(table, row, side) for row in expected])


@pytest.mark.parametrize("reduce", ["amax", "amin", "prod"])
@pytest.mark.parametrize("kind", "fdil")
@pytest.mark.parametrize("size", [300, 40001])
def test_reductions_of_groups(reduce, kind, size):
    rng = np.random.default_rng(size)
    x, index = rng.integers(-3, 4, 50).astype(kind), rng.integers(0, 50, size)
    values = rng.choice([1, -1], size).astype(kind) if reduce == "prod" else rng.integers(-9, 9, size).astype(kind)
    if kind in "fd":
        values[7] = np.nan
    for include_self in (True, False):
        expected = x.copy()
        if not include_self:
            expected[index] = 1 if reduce == "prod" else values
        with np.errstate(invalid="ignore"):
            {"amax": np.maximum, "amin": np.minimum, "prod": np.multiply}[reduce].at(expected, index, values)
            result = scatters_cpu.scatter_reduce(x, 0, index, values, reduce, include_self)
        np.testing.assert_array_equal(result, expected)
