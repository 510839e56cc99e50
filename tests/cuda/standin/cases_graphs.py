"""CUDA graphs: capture, replay, their memory, and what may not happen meanwhile."""

import gc
import threading

import numpy
import pytest

from dynograd import cuda
from dynograd.cuda import allocator, copies, driver, pinned, streams
from dynograd.errors import DeviceError


@pytest.fixture
def captured(kernels, block):
    """Captures; returns (graph, input, output): the output is twice the input, by way of a temporary."""

    def capture():
        source = block(1000)
        kernels.fill(source, 1)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            temporary, out = block(1000), block(1000)
            kernels.fill(temporary, 0)
            kernels.add(temporary, source, temporary)
            kernels.add(out, source, temporary)
            del temporary
        return graph, source, out

    return capture


def test_capture_and_replay(kernels, read, captured):
    graph, source, out = captured()
    for value in (1, 5, 7):
        kernels.fill(source, value)
        graph.replay()
        assert read(out).tolist() == [2.0 * value] * 1000
    assert not cuda.is_current_stream_capturing()


def test_nothing_runs_during_the_capture(lib, kernels, block, read):
    element = block(10)
    kernels.fill(element, 1)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        assert cuda.is_current_stream_capturing()
        kernels.fill(element, 2)
    assert read(element)[0] == 1
    launches = lib.standin_calls(b"cuLaunchKernel")
    graph.replay()
    assert read(element)[0] == 2 and lib.standin_calls(b"cuLaunchKernel") == launches


def test_a_replay_waits_for_nothing_and_follows_the_current_stream(kernels, captured, read):
    graph, _source, out = captured()
    side, waits = cuda.Stream(), driver.synchronizations()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        graph.replay()
        assert driver.synchronizations() == waits
        assert read(out)[0] == 2


def test_memory_of_a_graph_is_its_own(kernels, block, captured):
    _graph, _source, out = captured()
    inside = {out.pointer}
    live = [block(1000) for _ in range(2000)]
    assert not inside & {element.pointer for element in live}
    at = out.pointer
    del out
    gc.collect()
    more = [block(1000) for _ in range(2000)]
    assert at not in {element.pointer for element in more}  # the graph lives: a replay writes there


def test_memory_goes_back_when_graph_and_tensors_are_gone(lib, kernels, block):
    cuda.empty_cache()
    before = cuda.memory_reserved()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        out = block(3_000_000)
        kernels.fill(out, 1)
    assert cuda.memory_reserved() >= before + 12_000_000 and cuda.memory_allocated() >= 12_000_000
    graph.reset()
    cuda.empty_cache()
    assert cuda.memory_allocated() >= 12_000_000  # `out` is still there
    del out
    cuda.empty_cache()
    assert cuda.memory_reserved() == before
    with pytest.raises(DeviceError, match="nothing has been captured"):
        graph.replay()
    with cuda.graph(graph):  # and it can be used again
        kernels.launch("recorded")
    graph.replay()


def test_temporaries_share_memory_inside_a_graph(block, kernels):
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        seen = set()
        for _ in range(10):
            element = block(1_000_000)
            kernels.fill(element, 1)
            seen.add(element.pointer)
            del element
    assert len(seen) == 1


def test_blocks_from_outside_that_die_during_a_capture_are_kept(kernels, block, read):
    element, out = block(1000), block(1000)
    kernels.fill(element, 4)
    at = element.pointer
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        kernels.add(out, element, element)
        del element
    others = [block(1000) for _ in range(3000)]
    assert at not in {other.pointer for other in others}
    graph.replay()
    assert read(out).tolist() == [8.0] * 1000
    del others
    graph.reset()
    others = [block(1000) for _ in range(3100)]
    assert at in {other.pointer for other in others}


def test_idle_blocks_are_there_again_after_a_capture(lib, kernels, block):
    element, two = block(1000), block(1000)
    at = element.pointer
    del element
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        kernels.fill(two, 1)
    assert block(1000).pointer == at


def test_captures_begun_by_hand(kernels, block, read):
    side, graph = cuda.Stream(), cuda.CUDAGraph()
    with cuda.stream(side):
        before, dying = block(1000), block(1000)
        graph.capture_begin(capture_error_mode="thread_local")
        del dying
        inside, temporary = block(1000), block(1000)
        kernels.fill(inside, 3)
        del temporary
        graph.capture_end()
        after = block(1000)
        assert [element.home.keeper is not None for element in (before, inside, after)] == [False, True, False]
        graph.replay()
        assert read(inside)[9] == 3


def test_what_side_streams_use_is_not_used_again_in_a_capture(kernels, block):
    """Nothing says that the side stream is done with it."""
    side, graph = cuda.Stream(), cuda.CUDAGraph()
    with cuda.graph(graph):
        main, element = cuda.current_stream(), block(1_000_000)
        at = element.pointer
        side.wait_stream(main)
        with cuda.stream(side):
            kernels.fill(element, 1)
        allocator.record_stream(element, side.cuda_stream)
        del element
        other = block(1_000_000)
        assert other.pointer != at
        kernels.fill(other, 2)
        main.wait_stream(side)
    graph.replay()
    cuda.synchronize()
    graph.reset()


def test_graphs_can_share_memory(kernels, block, read):
    pool = cuda.graph_pool_handle()
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(first, pool=pool):
        element = block(1_000_000)
        kernels.fill(element, 3)
        at = element.pointer
        del element
    with cuda.graph(second, pool=first.pool()):
        other = block(1_000_000)
        kernels.fill(other, 6)
    assert other.pointer == at
    first.replay(), second.replay()
    assert read(other)[5] == 6
    with pytest.raises(DeviceError, match="the pool is on cuda:0, the capture on cuda:1"), cuda.device(1):
        cuda.CUDAGraph().capture_begin  # noqa: B018
        with cuda.graph(cuda.CUDAGraph(), pool=pool):
            pass


def test_side_streams_join_a_capture(kernels, block, read):
    side = cuda.Stream()
    element, two, out = block(100), block(100), block(100)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        main = cuda.current_stream()
        kernels.fill(element, 1)
        side.wait_stream(main)
        with cuda.stream(side):
            kernels.fill(two, 2)
        main.wait_stream(side)
        kernels.add(out, element, two)
    graph.replay()
    assert read(out)[0] == 3


def test_a_side_stream_that_is_not_joined_again(kernels, block):
    side, two = cuda.Stream(), block(100)
    with pytest.raises(cuda.CudaError, match="STREAM_CAPTURE_UNJOINED.*wait_stream"), cuda.graph(cuda.CUDAGraph()):
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            kernels.fill(two, 2)
    kernels.fill(two, 2)


@pytest.mark.parametrize(
    "work, words",
    [
        (lambda one: cuda.synchronize(), "STREAM_CAPTURE_UNSUPPORTED.*Do it before"),
        (lambda one: cuda.current_stream().synchronize(), "STREAM_CAPTURE_UNSUPPORTED"),
        (
            lambda one: copies.to_host(numpy.empty(10).ctypes.data, one.pointer, 40, 0),
            "reading values cannot be captured.*after the replay",
        ),
        (
            lambda one: copies.from_host(one.pointer, numpy.empty(10).ctypes.data, 40, 0),
            "copy from host memory cannot be captured",
        ),
        (lambda one: cuda.empty_cache(), "empty_cache: a CUDA graph is being captured"),
        (lambda one: cuda.CUDAGraph().capture_begin(), "Captures cannot be nested"),
        (lambda one: one.missing, "no attribute"),
    ],
)
def test_what_cannot_be_captured(kernels, block, work, words):
    element = block(10)
    kernels.fill(element, 1)
    graph = cuda.CUDAGraph()
    with pytest.raises((DeviceError, AttributeError), match=words), cuda.graph(graph):
        work(element)
    assert not cuda.is_current_stream_capturing() and cuda.current_stream() == cuda.default_stream()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):  # the next capture works
        kernels.fill(element, 2)
    graph.replay()
    cuda.synchronize()


def test_loading_kernels_and_pinned_memory_in_a_capture(kernels, block, read):
    used, element = driver.get("test"), block(1024)
    source = pinned.allocate(4096)
    numpy.asarray(source).view(numpy.float32)[:] = 1
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        used.get_function(used.load_module(0, b"image"), "late")
        copies.from_host(element.pointer, source.pointer, 4096, 0, source)
        pinned.allocate(1 << 20)
    for value in (3, 4):
        numpy.asarray(source).view(numpy.float32)[:] = value
        graph.replay()
        assert read(element)[7] == value


def test_constants_from_the_host_are_kept_with_the_graph(block, read):
    element, graph = block(1024), cuda.CUDAGraph()
    table = numpy.full(1024, 5, numpy.float32)
    copies.from_host(
        element.pointer, table.ctypes.data, 4096, 0
    )  # leaves a pinned block whose event may not be asked for
    with cuda.graph(graph):
        copies.from_host(element.pointer, table.ctypes.data, 4096, 0, constant=True)
    table[:] = 6
    others = [pinned.allocate(4096) for _ in range(10)]
    for other in others:
        numpy.asarray(other).view(numpy.float32)[:] = 7
    graph.replay()
    assert read(element)[100] == 5
    graph.replay()
    graph.reset()  # waits for the replay before the table goes
    assert read(element)[100] == 5


def test_wrong_uses(kernels, captured):
    graph = captured()[0]
    with pytest.raises(DeviceError, match="captured already. Call reset"), cuda.graph(graph):
        pass
    with pytest.raises(DeviceError, match="default stream cannot be captured"):
        cuda.CUDAGraph().capture_begin()
    with pytest.raises(DeviceError, match="no capture was begun"):
        cuda.CUDAGraph().capture_end()
    with pytest.raises(
        ValueError, match="expected capture_error_mode 'global', 'thread_local' or 'relaxed', got 'lax'"
    ):
        cuda.CUDAGraph().capture_begin(capture_error_mode="lax")


def test_other_threads_allocate_meanwhile(kernels, block):
    """With new memory of every size, on another stream: nothing that they do ends the capture."""
    problems = []

    def work():
        try:
            with cuda.stream(side):
                for size in range(1, 3_000_000, 100_000):
                    element = block(size)
                    kernels.fill(element, 1)
                    allocator.record_stream(element, other.cuda_stream)
                    del element
        except Exception as error:
            problems.append(error)

    side, other = cuda.Stream(), cuda.Stream()
    kernels.function("fill_f32")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        kernels.launch("recorded")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not problems
    graph.replay()


def test_out_of_memory_in_a_capture(monkeypatch, kernels, block):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 << 20))
    block(10_000_000)  # idle: given back for the graph
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        element = block(8_000_000)
    with pytest.raises(cuda.OutOfMemoryError, match="tried to allocate 40.00 MiB"), cuda.graph(cuda.CUDAGraph()):
        block(10_000_000)
    assert streams.current_handle(0) == 0
    cuda.reset_accumulated_memory_stats()
    del element
    graph.reset()
