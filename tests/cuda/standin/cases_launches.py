"""Launching: what reaches the driver, and what is said when it refuses or a kernel goes wrong."""

import os
import threading

import pytest

from dynograd import cuda
from dynograd.cuda import bindings, driver, streams
from dynograd.errors import DeviceError

SECTION = (1, 2, 3)


def test_what_a_launch_hands_over(lib, kernels):
    import ctypes

    lib.standin_want(3)
    side = cuda.Stream()
    with cuda.stream(side):
        kernels.launch("recorded", 7, 1 << 40, 9, grid=(4, 5, 6), block=(64, 2, 1), shared=1024)
    lib.standin_want(0)
    seen = (ctypes.c_uint64 * 24)()
    lib.standin_last(seen)
    assert list(seen[:11]) == [4, 5, 6, 64, 2, 1, 1024, side.cuda_stream, 7, 1 << 40, 9]


def test_functions(kernels):
    used = driver.get("test")
    function = kernels.function("recorded")
    assert used.function_name(function) == "recorded"
    assert used.function_attribute(function, "num_regs") == 32
    assert used.function_attribute(function, "max_threads_per_block") == 1024
    assert used.blocks_per_multiprocessor(function, 256, 0) == 8
    used.set_max_shared(function, 100_000)
    assert used.function_attribute(function, "max_dynamic_shared_size_bytes") == 100_000
    kernels.launch("recorded", shared=99_000)
    with pytest.raises(cuda.CudaError, match=r"kernel 'recorded' with 999,999 bytes of shared memory"):
        used.set_max_shared(function, 999_999)
    module = used.load_module(0, b"image")
    used.unload_module(0, module)


def test_a_launch_that_is_refused(kernels):
    with pytest.raises(
        cuda.CudaError, match=r"kernel 'other' with grid \(1, 1, 1\), block \(2048, 1, 1\) and 0 bytes.*INVALID_VALUE"
    ):
        kernels.launch("other", block=(2048, 1, 1))
    kernels.launch("other")  # nothing is broken


def test_damaged_and_missing_kernels():
    used = driver.get("test")
    with pytest.raises(cuda.CudaError, match="loading a kernel.*INVALID_IMAGE.*damaged. Delete the kernel cache"):
        used.load_module(0, b"damaged")
    with pytest.raises(cuda.CudaError, match="kernel 'missing'.*has no function of that name") as error:
        used.get_function(used.load_module(0, b"image"), "missing")
    assert error.value.code == 500 and error.value.name == "CUDA_ERROR_NOT_FOUND"


def test_launches_from_many_threads(lib, kernels, block, read):
    def work(place):
        side = cuda.Stream()
        with cuda.stream(side):
            for _ in range(200):
                kernels.fill(blocks[place], place)
        side.synchronize()

    blocks = [block(64) for _ in range(6)]
    kernels.function("fill_f32")
    before = lib.standin_calls(b"cuLaunchKernel")
    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lib.standin_calls(b"cuLaunchKernel") == before + 1200
    assert [read(each)[-1] for each in blocks] == list(range(6))


# ---------------------------------------------------------------- faults


def test_an_illegal_access_is_reported_late_with_what_is_known(kernels, block):
    kernels.launch("trap")
    kernels.launch("innocent")
    with pytest.raises(cuda.CudaError) as error:
        cuda.synchronize()
    text = str(error.value)
    for part in ("CUDA_ERROR_ILLEGAL_ADDRESS (700)", "read or wrote memory that is not its own", "earlier, asynchronous call",
                 "launched last was 'innocent'", "DYNOGRAD_CUDA_SYNC=1", "restart it"):  # fmt: skip
        assert part in text, text
    with pytest.raises(cuda.CudaError, match="kernel 'innocent'.*ILLEGAL_ADDRESS"):
        kernels.launch("innocent")
    assert isinstance(error.value, RuntimeError)


def test_a_kernel_on_memory_that_is_not_there_is_an_illegal_access(kernels, block):
    kernels.launch("fill_f32", 4096, 1.0, 10)
    with pytest.raises(cuda.CudaError, match="ILLEGAL_ADDRESS.*launched last was 'fill_f32'"):
        cuda.current_stream().synchronize()


def test_with_synchronous_launches_kernel_and_line_are_named(monkeypatch, kernels):
    monkeypatch.setenv("DYNOGRAD_CUDA_SYNC", "1")
    found, _ = bindings.connect()
    assert found.synchronous
    monkeypatch.setattr(driver, "_driver", found)
    found.use(0), streams.current_handle(0)
    trap = found.get_function(found.load_module(0, b"image"), "trap")
    with pytest.raises(cuda.CudaError) as error:
        found.launch(trap, (1, 1, 1), (32, 1, 1), 0, 0, 0)
    line = error.traceback[0].lineno + 1
    text = str(error.value)
    assert text.startswith(f"kernel 'trap', launched by {__file__}:{line}, in test_with_synchronous_launches"), text
    assert "asynchronous" not in text and "ILLEGAL_ADDRESS" in text and "restart it" in text


# ---------------------------------------------------------------- no usable driver


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"STANDIN_VERSION": "11040"}, "driver is too old: it offers CUDA 11.4, dynograd needs 12.0"),
        ({"STANDIN_INIT": "100"}, "the NVIDIA driver sees no CUDA device"),
        ({"STANDIN_INIT": "100", "CUDA_VISIBLE_DEVICES": "7"}, "CUDA_VISIBLE_DEVICES is '7'"),
        ({"STANDIN_DEVICES": "0"}, "the NVIDIA driver sees no CUDA device"),
        (
            {"STANDIN_INIT": "803"},
            "SYSTEM_DRIVER_MISMATCH (803): the driver's library and its kernel module differ. Restart",
        ),
        ({"STANDIN_INIT": "999"}, "CUDA_ERROR_UNKNOWN (999)"),
    ],
)
def test_drivers_that_cannot_be_used(monkeypatch, settings, words):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(driver, "_driver", None)
    monkeypatch.setattr(driver, "_reason", "")
    assert not cuda.is_available() and cuda.device_count() == 0 and cuda.memory_allocated() == 0
    assert words in cuda.unavailable_reason()
    with pytest.raises(DeviceError) as error:
        cuda.current_device()
    assert words in str(error.value) and "is_available()" in str(error.value)
    cuda.synchronize(), cuda.empty_cache(), cuda.manual_seed(0)
    assert cuda.get_arch_list() == [] and not cuda.is_bf16_supported() and cuda.driver_version() is None


def test_missing_packages(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    found, reason = bindings.connect()
    assert found is None and "pip install 'dynograd[gpu]'" in reason


def test_a_device_that_cannot_be_opened(monkeypatch, lib):
    found, _ = bindings.connect()
    streams.set_current_device(0)
    lib.standin_fail(b"cuDevicePrimaryCtxRetain", 1, 46)
    from dynograd.cuda.thread_state import current

    monkeypatch.setattr(current, "context", -1)
    with pytest.raises(
        cuda.CudaError, match=r"cuda:0: CUDA error CUDA_ERROR_DEVICE_UNAVAILABLE \(46\): another process"
    ):
        found.use(0)
    found.use(0)  # the next try works


# ---------------------------------------------------------------- fork


def in_a_fork(work):
    """What `work` returned in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, str(text).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


def test_use_after_a_fork_is_a_clear_error(kernels, block):
    from dynograd.cuda import allocator

    one, event, side = block(1000), cuda.Event(), cuda.Stream()
    event.record()
    for work in (
        lambda: block(1000),
        lambda: allocator.allocate(123_456, 0),
        lambda: kernels.fill(one, 1),
        lambda: cuda.Stream(),
        lambda: side.synchronize(),
        lambda: event.query(),
        lambda: cuda.synchronize(),
        lambda: cuda.get_device_name(),
    ):
        text = in_a_fork(work)
        assert (
            text.startswith("DeviceError") and "forked" in text and "'spawn'" in text and "CPU tensors only" in text
        ), text
    assert (
        in_a_fork(lambda: (cuda.is_available(), cuda.device_count(), "forked" in cuda.unavailable_reason()))
        == "(False, 0, True)"
    )
    kernels.fill(one, 1)  # the parent goes on
    cuda.synchronize()


def test_a_forked_child_can_use_cpu_tensors_and_drop_what_it_inherited(block):
    import gc

    import dynograd

    held = [block(1000), cuda.Event(), cuda.CUDAGraph()]
    held[1].record()

    def work():
        held.clear()
        gc.collect()
        return dynograd.ones(3).sum().item()

    assert in_a_fork(work) == "3.0"


def last_launch(lib, count):
    import ctypes

    seen = (ctypes.c_uint64 * 24)()
    lib.standin_last(seen)
    return list(seen[: 8 + count])


def test_later_launches_of_an_op_hand_over_what_the_first_did(lib):
    import dynograd

    memory = dynograd.empty(4, 40, device="cuda")
    x, odd = memory[0, :32], memory[1, 1:33]
    dynograd.add(x, x), dynograd.mul(x, 2.0)
    lib.standin_want(4)
    try:
        grids = []
        for operand in (x, x, odd, x):
            dynograd.add(operand, x)
            seen = last_launch(lib, 4)
            grids.append(seen[:8])
            assert seen[9:] == [operand.data_ptr(), x.data_ptr(), 32]
        assert grids.count(grids[0]) == 4
        side = cuda.Stream()
        with cuda.stream(side):
            dynograd.add(x, x)
        assert last_launch(lib, 0)[7] == side.cuda_stream
        for number, word in ((3.0, 0x40400000), (1e300, 0x7F800000), (-0.0, 0x80000000)):
            dynograd.mul(x, number)
            assert last_launch(lib, 4)[10] & 0xFFFFFFFF == word
    finally:
        lib.standin_want(0)
