"""Threads that may not compile."""

import threading

import pytest

from dynograd.errors import KernelCompileError
from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.build.kernel_cache import only_kept, use_only_kept
from dynograd.kernels.small.few_cpu import often_called


def test_what_is_not_kept_is_an_error_and_few_elements_are_numpys(monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE", "0")

    @compiled
    def tripled(x):
        return 3 * x

    with use_only_kept():
        with pytest.raises(KernelCompileError, match="the kernel tripled of .* is neither in a pack nor in the cache"):
            tripled(2.0)
        assert often_called() is None
    assert tripled(2.0) == 6.0 and often_called() is not None
    with use_only_kept():
        assert tripled(3.0) == 9.0  # it is there now


def test_other_threads_may_compile():
    seen = []
    with use_only_kept():
        thread = threading.Thread(target=lambda: seen.append(only_kept()))
        thread.start()
        thread.join()
        assert only_kept() and seen == [False]
    assert not only_kept()
