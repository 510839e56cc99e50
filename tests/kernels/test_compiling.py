"""Compiled and chunked kernels: the Numba internals they stand on, parts, caching by source text, and the plain fall-back."""

import logging
import multiprocessing
import os
import threading

import numpy as np
import pytest
from numba.core import dispatcher

from dynograd.base import cache_files
from dynograd.kernels.build import compiling_numba, kernel_cache, threads
from dynograd.kernels.build.compiling_numba import Chunked, chunked, compile_source, compiled


@chunked(noalias=True)
def scaled_rows(x, factor, y, start, stop):
    for r in range(start, stop):
        row, result = x[r], y[r]
        for c in range(row.size):
            result[c] = row[c] * factor + np.float32(1)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)


def expected(x):
    return x * np.float32(2) + np.float32(1)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 64])
def test_parts_cover_every_item_once(rows, parts):
    x = np.random.rand(rows, 5).astype(np.float32)
    y = np.full_like(x, np.nan)
    scaled_rows(x, np.float32(2), y, count=rows, work=0, parts=parts)
    assert np.array_equal(y, expected(x))


def test_large_work_runs_in_the_pool_with_the_same_bits(two_threads):
    x = np.random.rand(512, 300).astype(np.float32)
    serial, parallel = np.empty_like(x), np.empty_like(x)
    scaled_rows(x, np.float32(2), serial, count=512, work=0)
    scaled_rows(x, np.float32(2), parallel, count=512, work=x.size)
    assert np.array_equal(serial, parallel)


def test_numba_tells_nothing_to_a_program_that_logs_everything(caplog):
    with caplog.at_level(logging.DEBUG):
        assert not logging.getLogger("numba.core.ssa").isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize("work, count, wanted", [(0, 4, 1), (65535, 4, 1), (65536, 4, 2), (10**9, 4, 4), (10**9, 1, 1)])
def test_parts_follow_the_work(monkeypatch, work, count, wanted):
    monkeypatch.setattr(threads, "_threads", count)
    assert threads.parts(work) == wanted


def test_numba_has_the_internals_we_use():
    created = compiled(lambda x: x + 1)
    assert isinstance(created._compiler, dispatcher._FunctionCompiler)
    assert {"load_overload", "save_overload", "enable", "disable", "flush", "cache_path"} <= set(dir(created._cache))
    careful = compiled(lambda x: x + 1, noalias=True)
    assert isinstance(careful._compiler, compiling_numba._NoAliasCompiler)


def test_noalias_reaches_the_machine_code():
    def added(x, y, z):
        for i in range(x.size):
            z[i] = x[i] + y[i]

    arrays = [np.ones(4, np.float32) for _ in range(3)]
    texts = []
    for noalias in (False, True):
        created = compiled(added, noalias=noalias, key=f"test {noalias} {os.getpid()}")
        created(*arrays)
        (text,) = created.inspect_llvm().values()
        head = next(line for line in text.splitlines() if line.startswith("define") and "cpython" not in line)
        texts.append(head.count("noalias"))
    assert texts[1] > texts[0]


def test_without_the_internals_kernels_still_run(monkeypatch):
    class Closed:
        """A dispatcher that lets nobody in."""

        __slots__ = ("dynograd_key", "py_func")

    monkeypatch.setattr(compiling_numba, "_NoAliasCompiler", None)
    monkeypatch.setattr(compiling_numba, "PIPELINE", {})
    monkeypatch.setattr(compiling_numba, "_CHUNKED_PIPELINE", {})
    created = compiled(lambda x: x + 1, noalias=True)
    assert created(1) == 2
    plain = chunked(scaled_rows.serial.py_func)
    x, y = np.random.rand(8, 5).astype(np.float32), np.empty((8, 5), np.float32)
    plain(x, np.float32(2), y, count=8, work=0, parts=2)  # in one part
    assert np.array_equal(y, expected(x))
    compiling_numba._attach(Closed(), True, "")


SOURCE = """
def filled(x, start, stop):
    for i in range(start, stop):
        x[i] = {value}
"""


def test_generated_source_is_cached_by_its_text(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    monkeypatch.setattr(kernel_cache, "_counts", dict.fromkeys(kernel_cache._counts, 0))
    monkeypatch.setattr(kernel_cache, "_names", [])
    for value in (1.0, 1.0, 2.0):
        kernel = compile_source(SOURCE.format(value=value), "filled", chunk=True)
        assert isinstance(kernel, Chunked)
        x = np.zeros(3)
        kernel(x, count=3, work=3)
        assert x.tolist() == [value] * 3
    assert kernel_cache.statistics().items() >= {"compiled": 2, "loaded": 1, "packed": 0, "damaged": 0}.items()


def test_generated_source_depends_on_what_it_calls(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    text = "def caller(x):\n    return helper(x) + 1.0\n"
    for amount in (1.0, 2.0):
        helper = compile_source(f"def helper(x):\n    return x + {amount}\n", "helper")
        assert compile_source(text, "caller", {"helper": helper})(0.0) == amount + 1.0


def test_a_function_written_anew_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})

    def first():
        def amount(x):
            return x + 1.0

        return amount

    def second():
        def amount(x):
            return x + 2.0

        return amount

    second.__code__ = second.__code__.replace(co_qualname=first.__code__.co_qualname, co_name="first")
    results = [compiled(make())(0.0) for make in (first, second)]
    assert results == [1.0, 2.0]


def test_an_entry_that_cannot_be_loaded_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    monkeypatch.setattr(kernel_cache, "_counts", dict.fromkeys(kernel_cache._counts, 0))
    monkeypatch.setattr(kernel_cache, "_names", [])
    for _ in range(2):
        x = np.zeros(2)
        compile_source(SOURCE.format(value=4.0), "filled", chunk=True)(x, count=2, work=2)
        assert x.tolist() == [4.0, 4.0]
        for entry in (tmp_path / "kernels").glob("*.kernel"):
            kernel_cache.write(entry.stem, kernel_cache.joined(b"a pickle it is not, with a digest that fits", b""))
    assert kernel_cache.statistics()["damaged"] == 1


def test_an_error_in_generated_source_shows_its_line():
    kernel = compile_source("def broken(x):\n    return x[0].nonsense\n", "broken")
    with pytest.raises(Exception, match="nonsense"):
        kernel(np.zeros(2))


def test_several_threads_at_once(two_threads):
    x = np.random.rand(400, 200).astype(np.float32)
    results = [np.empty_like(x) for _ in range(8)]

    def work(result):
        for _ in range(20):
            scaled_rows(x, np.float32(2), result, count=400, work=x.size)

    started = [threading.Thread(target=work, args=(result,)) for result in results]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert all(np.array_equal(result, expected(x)) for result in results)


def _child(queue):
    x = np.ones((400, 200), np.float32)
    y = np.empty_like(x)
    scaled_rows(x, np.float32(2), y, count=400, work=x.size)
    queue.put((threads.get_num_threads(), float(y.sum())))


def test_a_forked_child_computes_serially(two_threads):
    x = np.ones((400, 200), np.float32)
    scaled_rows(x, np.float32(2), np.empty_like(x), count=400, work=x.size)  # the pool runs in the parent
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == (1, 400 * 200 * 3.0)
    child.join()
    assert child.exitcode == 0
