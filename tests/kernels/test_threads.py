"""set_num_threads and what it decides."""

import os
import subprocess
import sys

import pytest

import dynograd
from dynograd.kernels.build import threads


@pytest.fixture(autouse=True)
def restored():
    before = dynograd.get_num_threads()
    yield
    dynograd.set_num_threads(before)


def test_set_and_get():
    dynograd.set_num_threads(3)
    assert dynograd.get_num_threads() == 3
    dynograd.set_num_threads(1)
    assert threads.parts(10**9) == 1


@pytest.mark.parametrize("wrong", [1.5, "2", None, True])
def test_not_an_int(wrong):
    with pytest.raises(TypeError, match=f"set_num_threads: expected an int, got {type(wrong).__name__}"):
        dynograd.set_num_threads(wrong)


@pytest.mark.parametrize("wrong", [0, -2])
def test_not_positive(wrong):
    with pytest.raises(RuntimeError, match=f"expected a positive number of threads, got {wrong}"):
        dynograd.set_num_threads(wrong)


@pytest.mark.parametrize("text, wanted", [("3", 3), ("5,2", 5), ("0", None), ("many", None)])
def test_the_default_is_omp_num_threads_or_the_processors(text, wanted):
    result = subprocess.run(
        [sys.executable, "-c", "import dynograd; print(dynograd.get_num_threads())"],
        env={**os.environ, "OMP_NUM_THREADS": text},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(result.stdout) == (wanted or len(os.sched_getaffinity(0)))
