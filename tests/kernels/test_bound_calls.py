"""Kernels are noted as they run, and a table of them writes the same bits again, from what their arrays hold then."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import timeit
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest

import dynograd
from dynograd.kernels.build import addresses_numba, bound_calls_numba, drivers_numba, launches, threads
from dynograd.kernels.build.bound_calls_numba import Table
from dynograd.kernels.build.compiling_numba import chunked, compile_source, compiled
from dynograd.kernels.build.launches import noting
from dynograd.nn import functional as F


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)


@chunked
def scaled(x, factor, out, start, stop):
    for item in range(start, stop):
        out[item] = factor * x[item]


@chunked
def of_many(flag, small, x, pair, number, out, start, stop):
    """Arguments of one, four, eight and sixteen bytes between the arrays."""
    for item in range(start, stop):
        out[item] = x[item, 0] + pair[0][item] * pair[1] + np.float64(small) + number.imag + (1.0 if flag else 0.0)


@chunked
def by_handle(x, out, start, stop):
    source, target = addresses_numba.address(x), addresses_numba.address(out)
    to = addresses_numba.vector64(target, stop)
    come = addresses_numba.vector64(source, stop)
    for item in range(start, stop):
        to[item] = 2 * come[item]


@compiled
def doubled(x, out):
    out[:] = 2 * x


@compiled
def largest(x):
    return x.max()


def floats(*shape, dtype=np.float32):
    return dynograd.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype))


def integers(most, *shape):
    return dynograd.tensor(np.random.default_rng(most).integers(0, most, shape))


def _attention(n):
    return [floats(n, 4, 33, 16) for _ in range(3)]


# function, operands for a number, kernels that it launches (in parts where the number is 20)
FAMILIES = {
    "products of matrices": (
        F.linear,
        lambda n: [floats(256 * n, 64), floats(48, 64), floats(48)],
        "matmuls_numba.products",
    ),
    "product with a vector": (dynograd.mv, lambda n: [floats(300 * n, 64), floats(64)], "matmuls_numba.vector_rows"),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (128,), w, b),
        lambda n: [floats(64 * n, 128), floats(128), floats(128)],
        "layer_norm",
    ),
    "softmax": (lambda x: F.softmax(x, 1), lambda n: [floats(64 * n, 128)], "softmax"),
    "softmax over an inner dim": (lambda x: F.softmax(x, 0), lambda n: [floats(128, 64 * n)], "softmax_inner"),
    "float64": (
        lambda x: x.cumsum(1),
        lambda n: [floats(64 * n, 64, dtype=np.float64)],
        "running_sum_of_rows",
    ),
    "attention": (F.scaled_dot_product_attention, _attention, "attentions_numba.forward"),
    "convolution": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        lambda n: [floats(2 * n, 8, 14, 14), floats(16, 8, 3, 3), floats(16)],
        "convolutions_numba.pack_weights convolutions_numba.correlate",
    ),
    "pooling": (lambda x: F.avg_pool2d(x, 2), lambda n: [floats(2 * n, 8, 14, 14)], "poolings_numba.average_windows"),
    "interpolation": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda n: [floats(2 * n, 8, 14, 14)],
        "interpolations_numba.weighted_sums interpolations_numba.weighted_sums",
    ),
    "running sums": (lambda x: x.cumsum(1), lambda n: [floats(64 * n, 64)], "scans_numba.sums_of_floats"),
    "sorting": (lambda x: x.sort(1), lambda n: [floats(64 * n, 64)], "sorting_numba.order_of_rows"),
    "group_norm": (lambda x: F.group_norm(x, 4), lambda n: [floats(8 * n, 64, 9)], "normalizations_numba.group_norm"),
    "elementwise loop": (F.gelu, lambda n: [floats(200 * n, 128)], "gelu_F"),
    "rows of cross entropy": (
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda n: [floats(64 * n, 100), integers(100, 64 * n)],
        "cross_entropy",
    ),
    "sum of few": (lambda x: x.sum(), lambda n: [floats(8, 16)], "few_numba.total"),
}


def _results(result):
    return [tensor.array for tensor in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("many", [1, 20], ids=["serial", "parts"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_table_writes_what_the_kernels_wrote(family, many):
    """First from the same operands, into memory that holds NaN; then from other ones."""
    function, operands_of, names = FAMILIES[family]
    operands = operands_of(many)
    with dynograd.no_grad(), noting() as noted:
        outputs = _results(function(*operands))
    assert [launch.name for launch in noted] == names.split()
    assert many == 1 or family == "sum of few" or max(launch.parts for launch in noted) == 2
    table = Table([launch for launch in noted if not launch.returns], 2)
    assert not table.called
    for changed in (False, True):
        if changed:
            for operand in operands:
                operand.array[...] = operand.array[::-1].copy()
        with dynograd.no_grad():
            expected = _results(function(*operands))
        for output in outputs:
            output[...] = np.nan if output.dtype.kind == "f" else -1
        table.run()
        for output, right in zip(outputs, expected):
            np.testing.assert_array_equal(output, right)


def _lstm(count):
    """Hiddens that the kernels of a layer write, the last of what they are given being those."""
    layer = dynograd.nn.LSTM(32, 24)
    with dynograd.no_grad(), noting() as noted:
        layer(floats(7, count, 32))
    return noted


@pytest.mark.parametrize("count", [3, 200])
def test_steps_of_an_lstm(count):
    """State that is changed in place: it is put back before the kernels run again."""
    noted = _lstm(count)
    steps = noted[-1]
    assert steps.name == "recurrent_numba.steps"
    assert steps.parts == (1 if count == 3 else 2)
    with dynograd.no_grad():
        arrays = [argument for argument in steps.arguments if isinstance(argument, np.ndarray)]
        before = [array.copy() for array in arrays]
        Table([steps], 2).run()
        once = [array.copy() for array in arrays]
        for array, old in zip(arrays, before):
            array[...] = old
        steps.kernel(*steps.arguments, count=steps.count, work=0, parts=steps.parts)
    assert any(not np.array_equal(array, old) for array, old in zip(arrays, before))
    for array, right in zip(arrays, once):
        np.testing.assert_array_equal(array, right)


# --- noting ------------------------------------------------------------------------------------------------------------------


def test_what_is_not_noted_or_is_forgotten():
    """A list that is open within another one keeps what it has, and the arrays whose handles kernels get."""
    x, out = np.arange(6.0), np.zeros(6)
    outer = noting()
    with outer as noted:
        scaled(x, 2.0, out, count=6, work=0)
        with noting() as inner:
            by_handle(addresses_numba.handle(x), addresses_numba.handle(out), count=6, work=0)
            with launches.unnoted():
                scaled(x, 4.0, out, count=6, work=0)
            outer.forget()
        assert len(noted) == 2 and len(inner) == 1
        outer.forget()
        assert not noted and not launches._thread.handles
        scaled(x, 2.0, out, count=6, work=0)
    assert len(noted) == 1


def test_what_is_noted():
    """Each call once, in its form; in the shape that the array had then; and nothing of what comes before or after."""
    x, out = np.arange(6.0), np.zeros(6)
    scaled(x, 1.0, out, count=6, work=0)
    with noting() as noted:
        scaled(x, 2.0, out, count=6, work=0, parts=3)
        with warnings.catch_warnings():  # NumPy deprecates that from 2.5 on
            warnings.simplefilter("ignore", DeprecationWarning)
            out.shape = 2, 3
        scaled.serial(x, 2.0, out.reshape(-1), 0, 4)
        scaled.serial(x, 2.0, out.reshape(-1), 2, 4)
        doubled(x=x, out=x.copy())
        largest(x)
    scaled(x, 1.0, x, count=6, work=0)
    forms = [(launch.kernel, launch.count, launch.parts, launch.returns) for launch in noted]
    kinds = [(scaled, 6, 3, False), (scaled, 4, 1, False), (scaled.serial, -1, 1, False), (doubled, -1, 1, False)]
    assert forms == [*kinds, (largest, -1, 1, True)]
    assert noted[0].arguments[2].shape == (6,)
    assert np.shares_memory(noted[0].arguments[2], out)
    assert noted[2].arguments[-2:] == (2, 4)
    assert noted[0].name == "test_bound_calls.scaled"
    assert (
        compile_source("def generated(x, start, stop):\n    x[0] = 1\n", "generated", chunk=True)(x, count=1, work=0)
        is None
    )


def test_within_one_another():
    x = np.ones(3)
    with noting() as all_of_them:
        scaled(x, 1.0, x, count=3, work=0)
        with noting() as inner:
            scaled(x, 2.0, x, count=3, work=0)
        scaled(x, 3.0, x, count=3, work=0)
    assert [launch.arguments[1] for launch in all_of_them] == [1.0, 2.0, 3.0]
    assert [launch.arguments[1] for launch in inner] == [2.0]


def test_only_this_thread_is_noted():
    x = np.ones(3)
    other = threading.Thread(target=lambda: scaled(x, 2.0, x, count=3, work=0))
    with noting() as noted:
        other.start()
        other.join()
    assert not noted
    np.testing.assert_array_equal(x, 2.0)


def test_nothing_is_left_where_nobody_notes():
    """Neither in the class of dispatchers nor in kernel modules, also after an error."""
    from dynograd.kernels.matmul import matmuls_numba

    with pytest.raises(ZeroDivisionError), noting():
        assert "__call__" in vars(type(doubled))
        assert matmuls_numba.handle(doubled) == id(doubled)
        1 / 0  # noqa: B018
    assert "__call__" not in vars(type(doubled))
    assert matmuls_numba.handle is id
    assert not launches._thread.handles


# --- tables ------------------------------------------------------------------------------------------------------------------


def _noted(function, *arguments, **options):
    with noting() as noted:
        function(*arguments, **options)
    return noted


def test_arguments_of_all_sizes():
    x, out = np.arange(8.0).reshape(4, 2), np.zeros(4)
    (launch,) = _noted(of_many, True, np.float32(0.5), x, (np.arange(4.0), 3.0), 2 + 7j, out, count=4, work=0)
    table = Table([launch], 2)
    assert not table.called
    x += 1
    table.run()
    np.testing.assert_array_equal(out, x[:, 0] + 3 * np.arange(4.0) + 0.5 + 7 + 1)


@pytest.mark.parametrize(("seconds", "piece"), [(0.0, 1), (1e9, 64)])
def test_rows_of_a_table(seconds, piece, monkeypatch):
    """Some of them, and those that are added later; Python may see to signals after so many rows as take a while."""
    monkeypatch.setattr(bound_calls_numba, "_SECONDS", seconds)
    x = np.ones(3)
    launched = _noted(scaled, x, 2.0, x, count=3, work=0)
    table = Table(launched * 3, 1)
    table.extend(launched * 200)
    assert len(table) == 203
    assert repr(table) == "<table of 203 kernels>"
    for start, stop, rows in ((0, 2, 2), (1, 1, 0), (200, None, 3), (10, 110, 100)):
        x[...] = 1
        table.run(start, stop)
        np.testing.assert_array_equal(x, 2.0**rows)
    assert table._piece == piece


def test_what_a_block_does_not_tell_is_called(monkeypatch):
    """In its place in the order; so is everything where Numba lacks what kernels are bound by."""
    x, y, z = np.ones(3), np.zeros(3), np.zeros(3)
    with noting() as noted:
        scaled(x, 2.0, y, count=3, work=0)
        scaled.serial(y, 2.0, z, 1, 3)
        scaled(z, 2.0, x, count=3, work=0)
    table = Table(noted, 2)
    assert table.called == [1]
    monkeypatch.setattr(scaled, "splits", False)
    without = Table(noted, 2)
    assert without.called == [0, 1, 2]
    for some in (table, without):
        x[...], y[...], z[...] = 3, 0, 0
        some.run()
        np.testing.assert_array_equal(x, [0, 24, 24])
        new = np.full(3, 5.0)
        some.rebind(y, new)
        some.run(1, 3)
        np.testing.assert_array_equal(x, [0, 20, 20])
        some.rebind(new, y)


def test_rows_that_are_called_come_in_their_turn():
    """1 and 8, which a set gives in the other order."""

    @compiled
    def added(x, flag, out):
        out[:] = x + 1 if flag else x

    chain = [np.zeros(4) for _ in range(11)]
    with noting() as noted:
        for number in range(10):
            if number in (1, 8):
                added(chain[number], True, chain[number + 1])
            else:
                doubled(chain[number], chain[number + 1])
    table = Table(noted, 1)
    assert table.called == [1, 8]
    chain[0][:] = 3.0
    table.run()
    assert (chain[-1] == 2.0 * (2.0**6 * (2 * 3.0 + 1) + 1)).all()


def test_functions_of_words_are_bound():
    x, y = np.arange(6.0).reshape(2, 3).T, np.zeros((3, 2))
    (launch,) = _noted(doubled, x, y)
    table = Table([launch], 1)
    assert not table.called
    x += 1
    table.run()
    np.testing.assert_array_equal(y, 2 * x)
    other = np.ones((3, 2))
    table.rebind(y, other)
    table.run()
    np.testing.assert_array_equal(other, 2 * x)


def test_a_result_is_not_of_a_table():
    (launch,) = _noted(largest, np.ones(3))
    with pytest.raises(
        ValueError, match=r"Table: expected kernels that return nothing, got test_bound_calls\.largest, whose result"
    ):
        Table([launch], 1)


@pytest.mark.parametrize("missing", ["pool", "turns", None])
def test_parts_on_any_pool(missing, monkeypatch):
    """Bits are those of any number of threads; without a pool the calling thread does all parts."""
    x, out = np.arange(100.0), np.zeros(100)
    launched = _noted(scaled, x, 2.0, out, count=100, work=0, parts=7)
    if missing == "pool":
        monkeypatch.setattr(drivers_numba, "_most", -1)
    if missing == "turns":
        monkeypatch.setattr(drivers_numba, "turns", threading.Lock())
    for num_threads in (1, 2, 16):
        out[...] = np.nan
        Table(launched, num_threads).run()
        np.testing.assert_array_equal(out, 2 * x)


# --- other memory ------------------------------------------------------------------------------------------------------------


def test_other_memory():
    """Views follow by their offset; what lies elsewhere stays; the old memory is let go of."""
    x, out = np.arange(12.0).reshape(3, 4), np.zeros(4)
    new = -x
    with noting() as noted:
        scaled(x[1], 2.0, out, count=4, work=0)
    table = Table(noted, 1)
    old = weakref.ref(x)
    table.rebind(x, new)
    table.run()
    np.testing.assert_array_equal(out, -2 * x[1])
    del x, noted
    gc.collect()
    assert old() is None


def test_other_memory_of_handles():
    x, out, other = np.arange(12.0).reshape(3, 4), np.zeros(4), np.ones(4)
    with noting() as noted:
        handle = launches._handle
        by_handle(handle(x[1]), handle(out), count=4, work=0)
    (launch,) = noted
    assert [array.shape for array in launch.kept] == [(4,), (4,)]
    table = Table(noted, 1)
    assert not table.called
    out[...] = 0
    table.run()
    np.testing.assert_array_equal(out, 2 * x[1])
    new = x + 1
    table.rebind(x, new)
    table.rebind(out, other)
    del x, out
    table.run()
    np.testing.assert_array_equal(other, 2 * new[1])


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (np.zeros(4, np.float32), "got dtype float32, shape (4,), strides (4,)"),
        (np.zeros(5), "got dtype float64, shape (5,), strides (8,)"),
        (np.zeros(8)[::2], "shape (4,), strides (16,). Copy it into the old one, or record again."),
    ],
)
def test_memory_of_another_form(new, words):
    table = Table([], 1)
    with pytest.raises(ValueError, match="rebind: expected an array like the old one") as problem:
        table.rebind(np.zeros(4), new)
    assert words in str(problem.value)


def test_arrays_live_as_long_as_the_table():
    x, out = np.ones(1000), np.zeros(1000)
    table = Table(_noted(scaled, x, 2.0, out, count=1000, work=0), 1)
    seen = weakref.ref(out)
    del x, out
    gc.collect()
    np.testing.assert_array_equal(seen(), 2.0)
    seen()[...] = 0
    table.run()
    np.testing.assert_array_equal(seen(), 2.0)
    del table
    gc.collect()
    assert seen() is None


def test_binding_leaks_nothing():
    """10,000 binds: neither references to arrays (Numba's own hold one each) nor blocks."""
    x, out = np.ones(1000), np.zeros(1000)
    with noting() as noted:
        scaled(x, 2.0, out, count=1000, work=0, parts=2)
        doubled(x, out)
    Table(noted * 50, 1)
    array = noted[0].arguments[0]
    before = sys.getrefcount(array)
    tracemalloc.start()
    try:
        for _ in range(100):
            Table(noted * 50, 1)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    after = sys.getrefcount(array)  # which `assert` raises
    assert after == before
    assert kept < 100_000  # one table has 20,000


# --- processes ---------------------------------------------------------------------------------------------------------------

PROGRAM = """
    import numpy
    import dynograd
    from dynograd.kernels.build.bound_calls_numba import Table
    from dynograd.kernels.build.launches import noting

    dynograd.set_num_threads(2)
    x = dynograd.ones(300, 300)
    with noting() as noted:
        y = dynograd.mv(x, x[0])
        z = dynograd.ones(8, 8).sum()
    y.array[...] = numpy.nan
    Table(noted, 2).run()
    assert (y.array == 300).all()
    print(dynograd.kernel_cache_statistics()["compiled"])
"""


def test_a_second_process_compiles_nothing(tmp_path):
    environment = {**os.environ, "DYNOGRAD_CACHE_DIR": str(tmp_path), "DYNOGRAD_PACK": "0"}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    counts = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert int(counts[0]) > 0
    assert int(counts[1]) == 0


def _print_costs():
    """`python -m tests.kernels.test_bound_calls`: microseconds, the least of seven."""
    threads._threads = 1
    x = floats(4, 16)
    with dynograd.no_grad(), noting() as noted:
        for _ in range(100):
            F.layer_norm(F.softmax(x, 1), (16,))
    table = Table(noted, 1)

    def least(function, count):
        return min(timeit.repeat(function, number=count, repeat=7)) / count * 1e6

    print(f"bind {least(lambda: Table(noted, 1), 10) / len(noted):.2f} a launch")
    print(f"run {least(table.run, 100) / len(table):.3f} a row of layer_norm or softmax of (4, 16)")
    print(f"run {least(lambda: table.run(0, 1), 1000):.2f} one row alone")
    print(f"rebind {least(lambda: table.rebind(x.array, x.array), 100):.2f} in {len(table)} rows")


if __name__ == "__main__":
    _print_costs()
