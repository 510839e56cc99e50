"""`dynograd.cuda` where there is no GPU, and with the emulated driver: names, answers and errors."""

import ctypes
import os
import subprocess
import sys

import pytest

import dynograd as dg
from dynograd import cuda
from dynograd.cuda import allocator, bindings, driver, faults, pinned, streams, thread_state
from dynograd.cuda.emulated import EmulatedDriver
from dynograd.errors import DeviceError


@pytest.fixture
def nothing(monkeypatch):
    """No driver, whatever this machine has."""
    monkeypatch.setattr(driver, "_driver", None)
    monkeypatch.setattr(driver, "_reason", "no NVIDIA driver was found")
    thread_state.forget()
    yield
    thread_state.forget()


@pytest.fixture
def emulated(monkeypatch):
    """Two emulated devices."""
    created = EmulatedDriver(2)
    monkeypatch.setattr(driver, "_driver", created)
    monkeypatch.setattr(driver, "_reason", "")
    for module, name in (
        (allocator, "_memories"),
        (streams, "_dealt"),
        (streams, "_turn"),
        (streams, "_idle_events"),
        (pinned, "_shelves"),
    ):
        monkeypatch.setattr(module, name, {})
    thread_state.forget()
    yield created
    thread_state.forget()


# ---------------------------------------------------------------- without a device

ANSWERS = [
    ("is_available", (), False), ("device_count", (), 0), ("is_initialized", (), False), ("is_bf16_supported", (), False),
    ("get_arch_list", (), []), ("driver_version", (), None), ("is_current_stream_capturing", (), False),
    ("manual_seed", (1,), None), ("manual_seed_all", (1,), None), ("seed", (), None), ("seed_all", (), None), ("synchronize", (), None),
    ("empty_cache", (), None), ("ipc_collect", (), None), ("memory_allocated", (), 0), ("max_memory_allocated", ("cuda:0",), 0),
    ("memory_reserved", (), 0), ("max_memory_reserved", (), 0), ("reset_peak_memory_stats", (), None),
    ("reset_accumulated_memory_stats", (), None), ("get_rng_state_all", (), []), ("set_rng_state_all", ([],), None),
    ("set_stream", (None,), None), ("set_device", (-1,), None),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, answer", ANSWERS, ids=[row[0] for row in ANSWERS])
def test_questions_have_answers_without_a_device(nothing, name, arguments, answer):
    seed = dg.initial_seed()
    assert getattr(cuda, name)(*arguments) == answer
    assert dg.initial_seed() == seed


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="module 'dynograd.cuda' has no attribute 'initialised'"):
        cuda.initialised  # noqa: B018


REQUESTS = [
    ("current_device", ()), ("set_device", (0,)), ("init", ()), ("get_device_name", ()), ("get_device_properties", ()),
    ("get_device_capability", ()), ("mem_get_info", ()), ("Stream", ()), ("set_per_process_memory_fraction", (0.5,)),
    ("can_device_access_peer", (0, 1)), ("default_stream", ()), ("device", (0,)), ("ExternalStream", (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments", REQUESTS, ids=[row[0] for row in REQUESTS])
def test_requests_say_why_not(nothing, name, arguments):
    with pytest.raises(
        DeviceError, match=r"no CUDA device is available \(no NVIDIA driver was found\)\. Use device='cpu'"
    ):
        getattr(cuda, name)(*arguments)


def test_what_needs_no_device_works_without_one(nothing):
    assert cuda.Event().query() and cuda.memory_stats()["num_ooms"] == 0 and "cuda:0" in cuda.memory_summary()
    with cuda.stream(None), cuda.device(None), cuda.nvtx.range("step"):
        cuda.nvtx.mark("here")
    assert cuda.nvtx.range_push("a") == 0 and cuda.nvtx.range_push("b") == 1
    assert cuda.nvtx.range_pop() == 1 and cuda.nvtx.range_pop() == 0 and cuda.nvtx.range_pop() == -1
    assert cuda.nvtx.range_push("a") == 0 and cuda.nvtx.range_pop() == 0
    assert cuda.nvtx.range_start("x") == 0 and cuda.nvtx.range_end(0) is None
    with pytest.raises(DeviceError, match="no CUDA device"):
        allocator.allocate(10, 0)
    with pytest.raises(DeviceError, match="nothing has been captured"):
        cuda.CUDAGraph().replay()


def test_all_names_are_there():
    assert sorted(cuda.__all__) == sorted(set(cuda.__all__))
    assert all([hasattr(cuda, name) for name in cuda.__all__])


@pytest.mark.parametrize(
    "platform, error, words", [("darwin", None, "Linux only, and this is darwin"), ("linux", OSError, "libcuda.so.1 cannot be loaded")]
)  # fmt: skip
def test_no_driver(monkeypatch, platform, error, words):
    def refuse(name):
        raise error(name)

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    result, reason = bindings.connect()
    assert result is None and words in reason


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CUDA", "off")
    monkeypatch.setattr(driver, "_driver", None)
    monkeypatch.setattr(driver, "_reason", "")
    assert not cuda.is_available() and cuda.unavailable_reason() == "DYNOGRAD_CUDA=off"


def test_importing_loads_nothing_of_cuda():
    code = """
import sys, dynograd, dynograd.cuda
bad = sorted(name for name in sys.modules if name.split(".")[0] in ("cuda", "triton", "numba"))
assert not bad, bad
assert dynograd.cuda.driver._driver is None and not dynograd.cuda.driver._reason
"""
    environment = {name: value for name, value in os.environ.items() if name != "DYNOGRAD_CUDA"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("code", sorted(faults._FAULTS))
def test_every_error_code_is_told_in_words(code):
    error = faults.describe(code, "here")
    assert (
        str(error).startswith("here: CUDA error CUDA_ERROR_")
        and f"({code}):" in str(error)
        and str(error).endswith(".")
    )
    assert error.code == code and error.name in str(error)
    assert faults.is_sticky(code) == ("restart it" in str(error))


def test_unknown_codes_keep_the_drivers_name():
    assert "CUDA_ERROR_NEW (12345)" in str(faults.describe(12345, "x", "CUDA_ERROR_NEW"))


@pytest.mark.parametrize(
    "nbytes, text", [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.00 KiB"), (5 << 20, "5.00 MiB"), (1 << 40, "1024.00 GiB")]
)  # fmt: skip
def test_amounts(nbytes, text):
    assert allocator._amount(nbytes) == text


# ---------------------------------------------------------------- emulated devices


def test_emulated_devices(emulated):
    assert cuda.device_count() == 2 and cuda.is_available() and not cuda.is_initialized() and not cuda._initialized
    assert cuda.get_device_properties(1).name == "dynograd emulated device"
    side = cuda.Stream(1)
    with side:
        block = allocator.allocate(1000, 1)
        assert cuda.current_device() == 1 and cuda.memory_allocated() == 1024
    assert cuda.is_initialized() and cuda._initialized and cuda.memory_allocated(0) == 0
    del block
    cuda.synchronize()
    cuda.empty_cache()
    assert cuda.memory_reserved(1) == 0 and cuda.mem_get_info(1)[0] == cuda.mem_get_info(1)[1]


def test_emulated_graphs_record_and_replay(emulated):
    from dynograd.cuda import copies

    block, other = allocator.allocate(8, 0), allocator.allocate(8, 0)
    copies.fill(block.pointer, 1, 8, 0)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        copies.within(other.pointer, block.pointer, 8, 0)
        with pytest.raises(DeviceError, match="waiting cannot be captured"):
            cuda.synchronize()
    for value in (3, 4):
        copies.fill(block.pointer, value, 8, 0)
        graph.replay()
        assert ctypes.string_at(other.pointer, 8) == bytes([value] * 8)
    graph.reset()


def test_emulated_events_measure_time(emulated):
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record(), end.record()
    assert start.elapsed_time(end) >= 0 and end.query()


def test_emulated_wrong_index(emulated):
    with pytest.raises(DeviceError, match="'cuda:2' was asked for, but cuda:0 to cuda:1 exist"):
        cuda.set_device(2)
    with pytest.raises(DeviceError, match="there are 2 CUDA devices"):
        emulated.use(2)
