"""Streams, events, what is current, and copies: order on lazy streams, and who waits."""

import threading

import numpy
import pytest

from dynograd import cuda
from dynograd.cuda import allocator, copies, driver, faults, pinned, streams
from dynograd.errors import DeviceError, OutOfMemoryError

# ---------------------------------------------------------------- what is current


def test_current_device_and_stream_are_per_thread():
    side = cuda.Stream()
    cuda.set_device(1)
    seen = []
    with cuda.stream(side):
        thread = threading.Thread(
            target=lambda: seen.append((cuda.current_device(), cuda.current_stream(0).cuda_stream))
        )
        thread.start()
        thread.join()
        assert (cuda.current_device(), cuda.current_stream()) == (0, side)
    assert seen == [(0, 0)] and cuda.current_device() == 1
    assert cuda.current_stream().cuda_stream == 0 and cuda.current_stream() == cuda.default_stream(1)


def test_with_blocks_restore_what_was_current():
    element, two, far = cuda.Stream(), cuda.Stream(), cuda.Stream(device=1)
    with cuda.stream(element):
        with far:
            assert cuda.current_device() == 1 and streams.current_handle(1) == far.cuda_stream
            with two, cuda.device(1):
                assert cuda.current_stream(0) == two and cuda.current_stream() == far
        assert cuda.current_device() == 0 and cuda.current_stream() == element
        with cuda.stream(None), cuda.device(-1), cuda.device(None):
            assert cuda.current_stream() == element
        with pytest.raises(KeyError), cuda.stream(two):
            raise KeyError
        assert streams.current_handle(0) == element.cuda_stream
    assert streams.current_handle(0) == 0 and streams.current_handle(1) == 0
    with element, element:
        assert cuda.current_stream() == element
    assert cuda.current_stream() == cuda.default_stream()


def test_devices_can_be_named_in_every_way():
    import dynograd

    for name in (1, "cuda:1", dynograd.device("cuda:1")):
        with cuda.device(name):
            assert cuda.current_device() == 1
        assert cuda.get_device_name(name) == "Stand-in GPU 1"
    cuda.set_device("cuda:1")
    cuda.set_device(-1)
    assert cuda.current_device() == 1 and cuda.get_device_name("cuda") == "Stand-in GPU 1"
    with pytest.raises(ValueError, match="expected a CUDA device, got 'cpu'"):
        cuda.set_device("cpu")
    with pytest.raises(DeviceError, match="'cuda:5' was asked for, but cuda:0 to cuda:1 exist"):
        cuda.set_device(5)


def test_device_of():
    import types

    with cuda.device_of(types.SimpleNamespace(device="cuda:1")):
        assert cuda.current_device() == 1
    with cuda.device_of(types.SimpleNamespace(device="cpu")):
        assert cuda.current_device() == 0


def test_a_thread_gets_the_context_of_each_device_it_uses(lib):
    result = []

    def work():
        for device in (1, 0, 1):
            copies.fill(allocated[device].pointer, 3, 512, device)
            result.append(streams.current_handle(device))

    allocated = [allocator.allocate(512, device) for device in (0, 1)]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert result == [0, 0, 0]
    cuda.synchronize(0), cuda.synchronize(1)


def test_going_back_and_forth_between_devices_switches_the_context(kernels, block, read):
    a, b = block(10, 0), block(10, 1)
    for _ in range(3):
        kernels.fill(a, 1, device=0)
        kernels.fill(b, 2, device=1)
    assert read(a).tolist() == [1.0] * 10 and read(b).tolist() == [2.0] * 10


def test_streams_are_dealt_out_in_turn():
    handles = [cuda.Stream().cuda_stream for _ in range(64)]
    assert len(set(handles)) == 32 and handles[:32] == handles[32:] and 0 not in handles
    high = cuda.Stream(priority=-1)
    assert high.priority == -1 and high.cuda_stream not in handles
    assert cuda.Stream(priority=-99).priority == -5 and cuda.Stream(priority=7).priority == 0


def test_external_streams():
    side = cuda.Stream()
    same = cuda.ExternalStream(side.cuda_stream)
    assert same == side and hash(same) == hash(side) and side.__cuda_stream__() == (0, side.cuda_stream)
    assert same != cuda.default_stream() and same != 3 and "cuda:0" in repr(same)
    with cuda.stream(same):
        assert streams.current_handle(0) == side.cuda_stream


# ---------------------------------------------------------------- order


def test_streams_run_on_their_own(lib, kernels, block):
    side = cuda.Stream()
    element = block(10)
    kernels.fill(element, 1)
    assert not cuda.current_stream().query() and side.query()
    cuda.current_stream().synchronize()
    assert cuda.current_stream().query()


@pytest.mark.parametrize("how", ["wait_stream", "wait_event", "event_wait", "host"])
def test_ways_to_wait(kernels, block, read, how):
    main, side = cuda.current_stream(), cuda.Stream()
    element, out = block(10), block(10)
    kernels.fill(element, 5)
    if how == "wait_stream":
        side.wait_stream(main)
    elif how == "wait_event":
        side.wait_event(main.record_event())
    elif how == "event_wait":
        event = cuda.Event()
        event.record()
        event.wait(side)
    else:
        main.record_event().synchronize()
    with cuda.stream(side):
        kernels.add(out, element, element)
    side.synchronize()
    with cuda.stream(side):
        assert read(out).tolist() == [10.0] * 10


def test_without_waiting_the_values_are_wrong(kernels, block, read):
    side = cuda.Stream()
    element, out = block(10), block(10)
    kernels.fill(element, 5)
    with cuda.stream(side):
        kernels.add(out, element, element)
        assert read(out).tolist() != [10.0] * 10


def test_events(lib, kernels, block):
    start, end, plain = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True), cuda.Event()
    assert plain.query() and plain.device is None and "not recorded" in repr(plain)
    plain.synchronize(), plain.wait()  # never recorded: nothing to wait for
    start.record()
    for _ in range(4):
        kernels.fill(block(10), 1)
    end.record()
    assert not end.query()
    with pytest.raises(DeviceError, match="has not passed yet"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) == 5
    with pytest.raises(ValueError, match=r"end_event measures no time. Make it with Event\(enable_timing=True\)"):
        start.elapsed_time(plain)
    with pytest.raises(ValueError, match="end_event was never recorded"):
        start.elapsed_time(cuda.Event(enable_timing=True))
    with pytest.raises(DeviceError, match="belongs to cuda:0, the stream to cuda:1"):
        end.record(cuda.default_stream(1))
    with pytest.raises(DeviceError, match="interprocess"):
        cuda.Event(interprocess=True)
    plain.record()
    assert "cuda:0" in repr(plain)


def test_events_are_used_again(lib):
    cuda.Event().record()
    created = lib.standin_calls(b"cuEventCreate")
    for _ in range(100):
        cuda.Event().record()
        cuda.Stream().wait_stream(cuda.current_stream())
    assert lib.standin_calls(b"cuEventCreate") <= created + 1


def test_synchronizations_are_counted():
    before = driver.synchronizations()
    cuda.synchronize()
    cuda.current_stream().synchronize()
    event = cuda.current_stream().record_event()
    event.synchronize()
    event.query()
    assert driver.synchronizations() == before + 3


def test_reads_can_be_found(block, read):
    element = block(10)
    assert cuda.get_sync_debug_mode() == 0
    try:
        cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="synchronizing CUDA operation"):
            read(element)
        cuda.set_sync_debug_mode(2)
        with pytest.raises(DeviceError, match=r"set_sync_debug_mode\('error'\) forbids"):
            read(element)
        cuda.synchronize()  # asked for, so allowed
        with pytest.raises(ValueError, match="expected 'default', 'warn', 'error' or 0, 1, 2, got 'loud'"):
            cuda.set_sync_debug_mode("loud")
    finally:
        cuda.set_sync_debug_mode("default")
    read(element)


def test_what_is_noted_on_the_device_is_looked_at_after_waiting(monkeypatch):
    seen = []
    monkeypatch.setattr(faults, "after_waiting", [lambda: seen.append(cuda.is_current_stream_capturing())])
    cuda.synchronize(1)
    cuda.default_stream(0).synchronize()
    cuda.current_stream().record_event().synchronize()
    assert seen == [False] * 3


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("count", [1, 1000, 5_000_000])
def test_there_and_back(lib, block, read, write, count):
    numbers = numpy.arange(count, dtype=numpy.float32)
    element = block(count)
    waits, pageable = driver.synchronizations(), lib.standin_pageable()
    write(element, numbers)
    numbers += 1  # the source may be changed at once
    assert driver.synchronizations() == waits and lib.standin_pageable() == pageable
    assert (read(element) == numbers - 1).all()
    assert driver.synchronizations() == waits + 1


def test_small_copies_share_pinned_memory_that_no_other_gets_before_they_are_done(monkeypatch, lib, block, read, write):
    """Everything is still queued when the last one is asked for: each must have kept its own bytes."""
    monkeypatch.setattr(copies, "RING", 1 << 12)
    cuda.empty_cache()
    blocks = [block(count) for count in (1, 250, 1000, 3, 700) * 40]
    events = lib.standin_calls(b"cuEventRecord")
    for number, element in enumerate(blocks):
        write(element, numpy.full(element.nbytes // 4, number))
    assert lib.standin_calls(b"cuEventRecord") < events + len(blocks) // 2
    for number, element in enumerate(blocks):
        assert (read(element) == number).all()
    monkeypatch.undo()
    cuda.empty_cache()
    assert pinned.statistics()["held"] == 0


def test_copies_to_several_devices_in_turn(monkeypatch, block, read, write):
    """Looking after pinned memory asks for events of the other device, and makes that one current."""
    monkeypatch.setattr(copies, "RING", 1 << 12)
    monkeypatch.setattr(copies, "SMALL", 1 << 11)
    cuda.empty_cache()
    for count in (300, 5000):
        blocks = [block(count, place % 2) for place in range(40)]
        for number, element in enumerate(blocks):
            write(element, numpy.full(count, number))
            if number % 5 == 0:
                cuda.synchronize(number % 3 % 2)
        for number, element in enumerate(blocks):
            assert (read(element) == number).all()
    monkeypatch.undo()
    del blocks, element


def test_small_copies_of_many_threads(block, read, write):
    def work(place):
        for number in range(300):
            write(blocks[place], numpy.full(64, 1000 * place + number))

    blocks = [block(64) for _ in range(6)]
    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read(element).tolist() for element in blocks] == [[1000.0 * place + 299] * 64 for place in range(6)]


def test_large_copies_are_staged_in_pieces(monkeypatch, lib, block, read, write):
    monkeypatch.setattr(copies, "STAGED", 1 << 12)
    cuda.empty_cache()
    numbers = numpy.arange(100_000, dtype=numpy.float32)
    element = block(numbers.size)
    write(element, numbers)
    assert (read(element) == numbers).all()
    assert 0 < pinned.statistics()["held"] <= (copies.IN_FLIGHT + 1) * copies.STAGED + copies.SMALL


def test_pinned_memory_is_copied_without_a_detour(lib, block, read):
    source = pinned.allocate(4000)
    numbers = numpy.asarray(source).view(numpy.float32)
    assert pinned.owner_of(numbers[3:]) is source and pinned.owner_of(numpy.zeros(3)) is None
    numbers[:] = 3
    element, waits = block(1000), driver.synchronizations()
    copies.from_host(element.pointer, source.pointer, 4000, 0, source)
    numbers[:] = 4  # the copy is still under way: the caller's fault, and seen
    back = pinned.allocate(4000)
    copies.to_host(back.pointer, element.pointer, 4000, 0, back, wait=False)
    assert driver.synchronizations() == waits
    cuda.synchronize()
    assert (numpy.asarray(back).view(numpy.float32) == 4).all()


def test_pinned_memory_is_not_given_away_while_a_copy_reads_it(lib, block):
    source = pinned.allocate(4096)
    at, element = source.pointer, block(1024)
    copies.from_host(element.pointer, at, 4096, 0, source)
    del source
    other = pinned.allocate(4096)
    assert other.pointer != at
    cuda.synchronize()
    del other
    assert at in {pinned.allocate(4096).pointer, *[each.pointer for each in [pinned.allocate(4096) for _ in range(3)]]}


def test_pinned_memory_is_kept_and_goes_back(lib):
    cuda.empty_cache()
    for _ in range(20):
        pinned.allocate(10_000)
    assert pinned.statistics() == {"held": 16384, "idle": 0}  # the last block has not been looked at yet
    cuda.empty_cache()
    assert pinned.statistics() == {"held": 0, "idle": 0}
    assert pinned.allocate(0).pointer == 0
    lib.standin_fail(b"cuMemHostAlloc", 1, 2)
    pinned.allocate(100)  # tried again
    cuda.empty_cache()


def test_pinned_memory_that_is_not_there(lib, monkeypatch):
    monkeypatch.setattr(driver.get("test"), "allocate_pinned", lambda nbytes: 0)
    with pytest.raises(OutOfMemoryError, match="no pinned host memory for 5,000,000 bytes"):
        pinned.allocate(5_000_000)


@pytest.mark.parametrize("ahead", [0, None])
def test_copies_between_devices_keep_both_orders(kernels, block, read, ahead):
    a, b, out = block(1000, 0), block(1000, 1), block(1000, 1)
    waits = driver.synchronizations()
    kernels.fill(a, 1, device=0)
    kernels.fill(b, 9, device=1)  # still to run when the copy is asked for: the copy must come after
    copies.between(b.pointer, 1, a.pointer, 0, a.nbytes)
    kernels.fill(a, 5, device=0)  # and this after the copy
    kernels.add(out, b, b, device=1)
    assert driver.synchronizations() == waits
    if ahead is not None:  # as far as the other lets it
        cuda.synchronize(ahead)
    assert read(out).tolist() == [2.0] * 1000 and read(a).tolist() == [5.0] * 1000


def test_copies_and_fills_on_a_device(block, read, kernels):
    a, b = block(100), block(100)
    kernels.fill(a, 3)
    copies.between(b.pointer, 0, a.pointer, 0, a.nbytes)
    copies.fill(a.pointer, 0, 200, 0)
    copies.within(a.pointer + 200, b.pointer, 0, 0)
    assert read(b).tolist() == [3.0] * 100 and read(a).tolist() == [0.0] * 50 + [3.0] * 50


def test_a_refused_copy_is_an_error(lib, block, write):
    lib.standin_fail(b"cuMemcpyHtoDAsync", 1, 1)
    with pytest.raises(cuda.CudaError, match=r"copy to device: CUDA error CUDA_ERROR_INVALID_VALUE \(1\)"):
        write(block(10), numpy.zeros(10))


def test_facts_about_the_devices(lib):
    assert cuda.is_available() and cuda.device_count() == 2 and cuda.unavailable_reason() == ""
    facts = cuda.get_device_properties("cuda:1")
    assert (facts.name, facts.major, facts.minor, facts.multi_processor_count) == ("Stand-in GPU 1", 9, 0, 132)
    assert facts.total_memory == 8 << 30 and facts.shared_memory_per_block_optin == 227 * 1024 and facts.warp_size == 32
    assert facts.uuid == "08080808-0808-0808-0808-080808080808"
    assert cuda.get_device_capability() == (9, 0) and cuda.is_bf16_supported() and cuda.get_arch_list() == ["sm_90"]
    assert cuda.can_device_access_peer(0, 1) and not cuda.can_device_access_peer(1, "cuda:1")
    assert cuda.driver_version() == "12.8" and cuda.is_initialized()
    free, total = cuda.mem_get_info()
    assert free <= total == 8 << 30
    cuda.init(), cuda.ipc_collect()
    assert cuda.host_memory_stats().keys() == {"held", "idle"}


def test_seeding_seeds_the_one_stream_of_all_devices():
    import dynograd

    for seed in (cuda.manual_seed, cuda.manual_seed_all):
        seed(11)
        assert dynograd.initial_seed() == 11 == cuda.initial_seed()
    state = cuda.get_rng_state()
    first = dynograd.rand(3).tolist()
    cuda.set_rng_state(state)
    assert dynograd.rand(3).tolist() == first
    states = cuda.get_rng_state_all()
    cuda.seed(), cuda.seed_all()
    assert len(states) == 2 and cuda.initial_seed() != 11
    cuda.set_rng_state_all(states)
    assert cuda.initial_seed() == 11
