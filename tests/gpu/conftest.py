"""Tests of kernels on a device: a GPU, or in their own process the emulated one (`DYNOGRAD_CUDA=emulated pytest tests/gpu`).

In any other process only the files that need no device are collected. At the end it is said how many kernels were seen, and how.
"""

import os

import pytest

from dynograd.cuda import driver, faults

EMULATED = driver.is_emulated()
WITHOUT_DEVICE = ("test_compiling.py", "test_launching.py")
_seen: dict[str, set] = {"compiled": set(), "launched on the stand-in": set()}
_of_workers: dict[str, set] = {}


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix == ".py" and collection_path.name not in WITHOUT_DEVICE and not _has_device():
        return True
    return None


def _has_device():
    return EMULATED or driver.known() is not None


@pytest.fixture
def gpu_kernels_seen():
    """Sets of what was seen, by how; the summary counts them."""
    return _seen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """A kernel that fails on a card takes the context of its process along: every later test would fail too."""
    result = yield
    device = None if EMULATED else driver.known()
    if device is None:
        return result
    try:
        device.synchronize(0)
    except faults.CudaError as error:
        if not faults.is_sticky(error.code):
            raise
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)  # another worker takes over
        pytest.exit(f"{item.nodeid}: {error}", returncode=1)
    return result


def _all_seen():
    from dynograd.kernels.build import launching_cuda

    seen = {name: {repr(result) for result in results} for name, results in _seen.items()}
    for title in launching_cuda.exercised:
        seen.setdefault("simulated" if "_simt" in title else "interpreted", set()).add(title)
    return seen


def pytest_sessionfinish(session):
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["gpu_kernels"] = {name: sorted(result) for name, result in _all_seen().items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for name, result in getattr(node, "workeroutput", {}).get("gpu_kernels", {}).items():
        _of_workers.setdefault(name, set()).update(result)


def _never_run(seen):
    """Titles of kernels that no test ran."""
    from tests.support import kernel_variants

    ran = set().union(*seen.values())
    return sorted(
        {kernel.title for name in kernel_variants.modules() for kernel, _ in kernel_variants.kernels_of(name)} - ran
    )


def pytest_terminal_summary(terminalreporter, config):
    seen = _all_seen()
    for name, result in _of_workers.items():
        seen.setdefault(name, set()).update(result)
    counts = ", ".join(f"{len(actual)} {name}" for name, actual in sorted(seen.items()) if actual)
    if counts:
        terminalreporter.write_line(f"GPU kernels: {counts}")
    if EMULATED and [arg.rstrip("/") for arg in config.args] == ["tests/gpu"]:
        never = _never_run(seen)
        terminalreporter.write_line(
            f"GPU kernels that no test runs: {len(never)}{': ' if never else ''}{', '.join(never)}"
        )


@pytest.fixture(autouse=True)
def precision_of_products():
    """float32 throughout (a card's convolutions and recurrent layers may round to TF32), and as before at the end."""
    from dynograd.kernels.build import precision

    before, convolutions = precision.get_float32_matmul_precision(), precision.allows_tf32("cudnn")
    precision.set_allow_tf32("cudnn", False)
    yield
    precision.set_float32_matmul_precision(before)
    precision.set_allow_tf32("cudnn", convolutions)
