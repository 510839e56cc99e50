"""What holds in every test: the same random numbers in every run, and no setting left behind for the next test."""

import gc
import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("dynograd", derandomize=True, database=None, deadline=None)
settings.load_profile("dynograd")

os.environ.setdefault("DYNOGRAD_QUIET", "1")  # kernels being compiled: tests read stderr, and count threads

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # so a shell starts what runs in its background, and some tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """What is imported by now stays: no collection of garbage need look at it again, and tests that collect do it often.

    A test process keeps much alive, so that collections would take a fifth of the time if they came as often as by default.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(7000, 10, 10)


@pytest.fixture(scope="module", autouse=True)
def nothing_old_to_collect():
    """The same of what the tests of the module before have left: collections are of what this module's tests make."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.unfreeze()  # for libraries that count at the end what was never freed


@pytest.fixture(autouse=True)
def fixed_seed_and_settings():
    import dynograd
    from tests.support.cases import fresh

    fresh()
    threads = dynograd.get_num_threads()
    if "PYTEST_XDIST_WORKER" in os.environ:  # test processes side by side: a pool in each would only make them wait
        dynograd.set_num_threads(1)
    dtype = dynograd.get_default_dtype()
    grad_enabled = dynograd.is_grad_enabled()
    yield
    dynograd.set_num_threads(threads)
    dynograd.set_default_dtype(dtype)
    dynograd.set_grad_enabled(grad_enabled)
