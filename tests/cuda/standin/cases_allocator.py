"""The caching allocator: sizes, reuse, statistics, streams, limits, threads."""

import gc
import itertools
import threading

import pytest

from dynograd import cuda
from dynograd.cuda import allocator, driver, streams
from dynograd.errors import DeviceError, OutOfMemoryError

MIB = 1 << 20


@pytest.mark.parametrize(
    "asked, size",
    [(1, 512), (512, 512), (513, 1024), (4096, 4096), (4097, 4608), (8192, 8192), (8193, 9216), (16384, 16384), (100_000, 106_496),
     (MIB, MIB), (MIB + 1, MIB + MIB // 8), (64 * MIB, 64 * MIB), (64 * MIB + 1, 66 * MIB), (1 << 40, 1 << 40)],
)  # fmt: skip
def test_size_classes(asked, size):
    assert allocator.size_class(asked) == size and size % 512 == 0
    assert allocator.size_class(size) == size


def test_no_size_wastes_more_than_an_eighth_beyond_4_kib():
    for asked in range(4097, 300_000, 371):
        assert asked <= allocator.size_class(asked) <= asked * 9 / 8 + 512


def test_a_freed_block_is_the_next_of_its_class_on_its_stream():
    element = allocator.allocate(1000, 0)
    at = element.pointer
    assert at % 512 == 0
    del element
    assert allocator.allocate(600, 0).pointer == at  # the same class
    side = cuda.Stream()
    with cuda.stream(side):
        assert allocator.allocate(1000, 0).pointer != at
    assert allocator.allocate(1000, 1).pointer != at


def test_views_keep_their_block_and_none_dies_twice():
    blocks = [allocator.allocate(4096, 0) for _ in range(50)]
    assert len({block.pointer for block in blocks}) == 50
    spans = sorted([(block.pointer, block.pointer + block.home.size) for block in blocks])
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_empty_blocks_need_no_memory(lib):
    before = lib.standin_calls(b"cuMemAllocFromPoolAsync")
    block = allocator.allocate(0, 1)
    assert (block.pointer, block.nbytes, block.device) == (0, 0, 1)
    del block
    assert lib.standin_calls(b"cuMemAllocFromPoolAsync") == before


def test_ten_thousand_blocks_leak_nothing_and_ask_the_driver_once(lib):
    cuda.empty_cache()
    live, asked = lib.standin_live(), lib.standin_calls(b"cuMemAllocFromPoolAsync")
    for size in [100, 5000, 60_000] * 3334:
        allocator.allocate(size, 0)
    assert cuda.memory_allocated() == 0
    assert lib.standin_calls(b"cuMemAllocFromPoolAsync") == asked + 1  # one slab serves the small sizes
    cuda.empty_cache()
    assert lib.standin_live() == live and cuda.memory_reserved() == 0


def test_statistics():
    cuda.reset_peak_memory_stats()
    cuda.reset_accumulated_memory_stats()
    a = allocator.allocate(3 * MIB, 0)
    b = allocator.allocate(MIB, 0)
    assert cuda.memory_allocated() == 4 * MIB == cuda.memory_reserved()
    del a
    assert cuda.memory_allocated() == MIB and cuda.memory_reserved() == 4 * MIB
    assert cuda.max_memory_allocated() == 4 * MIB == cuda.max_memory_reserved()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == MIB
    c = allocator.allocate(3 * MIB, 0)
    stats = cuda.memory_stats()
    assert (stats["requests.all"], stats["requests.hits"], stats["num_device_alloc"], stats["num_ooms"]) == (3, 1, 2, 0)
    assert "4.00 MiB" in cuda.memory_summary() and "cuda:0" in cuda.memory_summary()
    assert cuda.memory_allocated(1) == 0 == cuda.memory_allocated("cuda:1")
    del b, c


def test_a_somewhat_larger_block_is_used_before_new_memory_is_taken():
    big = allocator.allocate(10 * MIB, 0)
    at = big.pointer
    del big
    element = allocator.allocate(8 * MIB + 1, 0)
    assert element.pointer == at and cuda.memory_allocated() == 10 * MIB
    del element
    assert allocator.allocate(10 * MIB, 0).pointer == at  # it went home to its own class
    assert allocator.allocate(5 * MIB, 0).pointer != at


def test_idle_memory_of_other_sizes_is_given_back_when_it_is_much(lib):
    """Lengths that differ from step to step do not pile up: at most 64 MiB, or a quarter of what is used, lies idle."""
    for step in range(60):
        allocator.allocate((8 + step) * MIB, 0)
        assert cuda.memory_reserved() <= allocator.IDLE + 2 * (8 + step) * MIB
    assert lib.standin_calls(b"cuMemFreeAsync") > 10


def test_slabs_go_back_only_when_all_their_blocks_are_idle(lib):
    cuda.empty_cache()
    blocks = [allocator.allocate(60_000, 0) for _ in range(100)]  # three slabs or more
    assert cuda.memory_reserved() == 3 * allocator.SLAB
    kept = blocks[50]
    del blocks
    cuda.empty_cache()
    assert cuda.memory_reserved() == allocator.SLAB
    again = [allocator.allocate(60_000, 0) for _ in range(100)]
    assert kept.pointer not in {element.pointer for element in again}
    assert len({element.pointer for element in again}) == 100
    del kept, again
    cuda.empty_cache()
    assert cuda.memory_reserved() == 0


def test_out_of_memory_frees_the_caches_first(lib, monkeypatch):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 * MIB))
    side = cuda.Stream()
    with cuda.stream(side):
        allocator.allocate(30 * MIB, 0)  # idle, in another stream's shelf
    small = [allocator.allocate(1000, 0)]
    element = allocator.allocate(40 * MIB, 0)
    assert cuda.memory_stats()["num_ooms"] == 0
    with pytest.raises(OutOfMemoryError) as error:
        allocator.allocate(30 * MIB, 0)
    text = str(error.value)
    for part in ("CUDA out of memory on cuda:0", "tried to allocate 30.00 MiB", "40.00 MiB allocated", "42.00 MiB reserved",
                 "of 64.00 MiB are free", "batches", "no_grad"):  # fmt: skip
        assert part in text, text
    assert isinstance(error.value, (RuntimeError, MemoryError)) and isinstance(error.value, cuda.OutOfMemoryError)
    del element, error
    assert allocator.allocate(50 * MIB, 0).nbytes == 50 * MIB  # all goes on
    assert cuda.memory_stats()["num_ooms"] == 1
    cuda.reset_accumulated_memory_stats()
    del small


def test_idle_memory_is_given_back_without_waiting(monkeypatch):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 * MIB))
    allocator.allocate(50 * MIB, 0)
    waits = driver.synchronizations()
    assert allocator.allocate(30 * MIB, 0).pointer and driver.synchronizations() == waits


def test_blocks_that_other_streams_still_use_are_waited_for_before_giving_up(monkeypatch, kernels):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 * MIB))
    side = cuda.Stream()
    element = allocator.allocate(50 * MIB, 0)
    with cuda.stream(side):
        kernels.fill(element, 1)
    allocator.record_stream(element, side.cuda_stream)
    del element
    gc.collect()
    monkeypatch.setattr(gc, "collect", lambda: 0)
    assert allocator.allocate(30 * MIB, 0).nbytes == 30 * MIB


def test_out_of_memory_collects_cycles(monkeypatch):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 * MIB))
    loop = [allocator.allocate(50 * MIB, 0)]
    loop.append(loop)
    gc.disable()
    try:
        del loop
        assert allocator.allocate(30 * MIB, 0).nbytes == 30 * MIB
    finally:
        gc.enable()


def test_a_failing_call_is_tried_again_after_giving_back(lib):
    lib.standin_fail(b"cuMemAllocFromPoolAsync", 1, 2)
    assert allocator.allocate(3 * MIB, 0).pointer


def test_another_error_of_the_driver_is_named(lib):
    lib.standin_fail(b"cuMemAllocFromPoolAsync", 1, 999)
    with pytest.raises(
        cuda.CudaError, match=r"cuda:0: allocation of 3,145,728 bytes: CUDA error CUDA_ERROR_UNKNOWN \(999\)"
    ):
        allocator.allocate(3 * MIB, 0)


def test_memory_fraction(monkeypatch):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 * MIB))
    cuda.set_per_process_memory_fraction(0.25)
    allocator.allocate(10 * MIB, 0)
    element = allocator.allocate(16 * MIB, 0)
    with pytest.raises(OutOfMemoryError, match=r"limit of set_per_process_memory_fraction is 16\.00 MiB"):
        allocator.allocate(4 * MIB, 0)
    cuda.set_per_process_memory_fraction(1.0)
    assert allocator.allocate(4 * MIB, 0).pointer
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        cuda.set_per_process_memory_fraction(2)
    cuda.reset_accumulated_memory_stats()
    del element


@pytest.mark.parametrize("index", [2, 17, -1])
def test_wrong_index(index):
    with pytest.raises(DeviceError, match=rf"'cuda:{index}' was asked for, but cuda:0 to cuda:1 exist"):
        allocator.allocate(100, index)


def test_a_block_used_on_another_stream_is_kept_until_that_is_done(lib, kernels, block, read):
    side = cuda.Stream()
    element = block(100_000)
    at = element.pointer
    kernels.fill(element, 1)
    side.wait_stream(cuda.current_stream())
    out = block(100_000)
    with cuda.stream(side):
        kernels.add(out, element, element)
    allocator.record_stream(element, side.cuda_stream)
    del element
    for _ in range(3):
        other = block(100_000)
        assert other.pointer != at  # the side stream has not run yet
        kernels.fill(other, 7)
        del other
    side.synchronize()
    assert read(out).tolist() == [2.0] * 100_000
    kept = [block(100_000) for _ in range(2)]
    assert at in {each.pointer for each in kept}


def test_without_record_stream_the_race_is_seen(lib, kernels, block, read):
    """The stand-in shows a missing wait: what makes the test above mean something."""
    side = cuda.Stream()
    element, out = block(100_000), block(100_000)
    kernels.fill(element, 1)
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        kernels.add(out, element, element)
    del element
    other = block(100_000)
    kernels.fill(other, 7)
    cuda.current_stream().synchronize()
    side.synchronize()
    assert read(out).tolist() == [14.0] * 100_000


def test_steps_in_steady_state_ask_nothing_of_the_driver(lib, kernels, block):
    def step():
        a, b = block(5000), block(5000)
        kernels.fill(a, 1)
        kernels.add(b, a, a)

    step()
    before = {
        name: lib.standin_calls(name) for name in (b"cuMemAllocFromPoolAsync", b"cuMemFreeAsync", b"cuCtxSetCurrent")
    }
    waits, launches = driver.synchronizations(), lib.standin_calls(b"cuLaunchKernel")
    for _ in range(100):
        step()
    assert {name: lib.standin_calls(name) for name in before} == before
    assert driver.synchronizations() == waits and lib.standin_calls(b"cuLaunchKernel") == launches + 200
    cuda.synchronize()
    assert driver.synchronizations() == waits + 1


def test_many_threads():
    """Shelves are shared by all threads; no block is given to two, and the counts come out even."""
    failures, barrier = [], threading.Barrier(8)

    def work(seed):
        streams.current_handle(0)
        barrier.wait()
        kept = {}
        for step in range(3000):
            size = (step * 7919 + seed * 104729) % 9000 + 1
            block = allocator.allocate(size, step % 2)
            if block.pointer in owners:
                failures.append(block)
            owners[block.pointer] = seed
            kept[step % 13] = block
            old = kept.pop((step * 5 + 3) % 13, None)
            if old is not None:
                del owners[old.pointer]
                old = None
        for block in kept.values():
            del owners[block.pointer]
        kept.clear()

    owners = {}
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and not owners
    assert cuda.memory_allocated(0) == 0 == cuda.memory_allocated(1)


def test_devices_without_memory_pools(lib, monkeypatch):
    used = driver.get("test")
    monkeypatch.setattr(used, "_has_pools", [False, False])
    cuda.empty_cache()
    calls = lib.standin_calls(b"cuMemAlloc")
    allocator.allocate(3 * MIB, 0)
    assert lib.standin_calls(b"cuMemAlloc") == calls + 1
    cuda.empty_cache()
