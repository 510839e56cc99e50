"""The launcher on the stand-in libcuda: what arrives at the driver, and which launches share machine code."""

import ctypes
import math
import struct
import threading

import launched_kernels as kernels
import numpy
import pytest
import triton.language as tl

from dynograd import cuda
from dynograd.arrays.cuda_arrays import empty, from_numpy
from dynograd.errors import DeviceError, DtypeError, KernelCompileError
from dynograd.kernels.build import launching_cuda
from dynograd.kernels.build.launch_arguments_cuda import Double
from tests.support import standin_cuda

assert "Stand-in" in cuda.get_device_name(0), "these cases need the stand-in libcuda: run tests/gpu/test_launching.py"


@pytest.fixture
def lib():
    control = standin_cuda.control()
    control.standin_want(12)
    yield control
    control.standin_want(0)


def last(lib):
    """(grid, threads, shared bytes, stream, words) of the last launch."""
    out = (ctypes.c_uint64 * 64)()
    lib.standin_last(out)
    return tuple(out[:3]), out[3], out[6], out[7], list(out[8:20])


def new(*shape, dtype="float32", device=0):
    return empty(shape, dtype, device)


def as_float(word):
    return struct.unpack("<f", struct.pack("<I", word & 0xFFFFFFFF))[0]


def as_double(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


def variants(entry):
    return sum(len(launcher.found) for launcher in entry.kernel.launchers.values())


def test_words_arrive_as_packed(lib):
    x, y = new(64), new(64, dtype="float64")
    for flag, columns, single, wide in ((True, -7, 1.5, 0.1), (False, 3, -0.0, 1e300)):
        kernels.every_kind((5, 2), x, flag, columns, None, single, Double(wide), y, BLOCK=16, num_warps=2)
        grid, threads, _, stream, words = last(lib)
        assert (grid, threads, stream) == ((5, 2, 1), 64, cuda.current_stream().cuda_stream)
        assert words[0] == x.pointer and words[5] == y.pointer
        assert words[1] == flag
        assert words[2] & 0xFFFFFFFF == columns & 0xFFFFFFFF
        assert math.copysign(as_float(words[3]), single) == single and as_float(words[3]) == single
        assert as_double(words[4]) == wide
        assert words[6] == words[7] == 0  # scratch memory


def test_an_optional_pointer_may_be_none_or_not(lib):
    x, y = new(64), new(64)
    kernels.every_kind((1,), x, True, 1, y, 1.0, Double(2), y, BLOCK=16)
    assert last(lib)[4][3] == y.pointer
    kernels.every_kind((1,), x, True, 1, None, 1.0, Double(2), y, BLOCK=16)
    assert as_float(last(lib)[4][3]) == 1.0


def test_ints_are_32_bits_wide_until_one_is_not(lib):
    x, y = new(64), new(64)
    for value in (5, -1, (1 << 31) - 1, -(1 << 31)):
        kernels.rows((1,), x, y, 3, value, BLOCK=32)
        assert last(lib)[4][3] == value & 0xFFFFFFFF
    element = variants(kernels.rows)
    for value in (1 << 31, -(1 << 31) - 1, (1 << 63) - 1):
        kernels.rows((1,), x, y, 3, value, BLOCK=32)
        assert last(lib)[4][3] == value & ((1 << 64) - 1)
    assert variants(kernels.rows) == element + 1
    with pytest.raises(OverflowError, match=r"rows: count=9223372036854775808 does not fit in 64 bits"):
        kernels.rows((1,), x, y, 3, 1 << 63, BLOCK=32)


def test_floats_beyond_float32_become_infinite(lib):
    x = new(8)
    for value, seen in (
        (1e39, math.inf),
        (-1e300, -math.inf),
        (3.4028235e38, 3.4028234663852886e38),
        (math.inf, math.inf),
    ):
        kernels.fill_f32((1,), x, value, 8)
        assert as_float(last(lib)[4][1]) == seen
    kernels.fill_f32((1,), x, math.nan, 8)
    assert math.isnan(as_float(last(lib)[4][1]))


def test_numbers_of_numpy_are_numbers(lib):
    x = new(8)
    kernels.fill_f32((1,), x, numpy.float32(2.5), numpy.int64(8))
    words = last(lib)[4]
    assert (words[0], as_float(words[1]), words[2]) == (x.pointer, 2.5, 8)
    kernels.fill_f32((1,), x, numpy.float64(0.5), 8)
    assert as_float(last(lib)[4][1]) == 0.5


def test_alignment_of_addresses_decides_the_machine_code(lib):
    x, y = new(256), new(256)
    before = variants(kernels.add_f32)
    kernels.add_f32((1,), x, y, y, 100, BLOCK=128)
    kernels.add_f32((1,), y[4:], x[8:], x, 77, BLOCK=128)
    assert variants(kernels.add_f32) == before + 1
    kernels.add_f32((1,), x[1:], y, y, 100, BLOCK=128)
    assert last(lib)[4][0] == x.pointer + 4
    assert variants(kernels.add_f32) == before + 2
    kernels.add_f32((1,), x[2:], y, y, 100, BLOCK=128)
    assert variants(kernels.add_f32) == before + 2
    kernels.add_f32((1,), x, y[1:], y, 100, BLOCK=128)
    assert variants(kernels.add_f32) == before + 3


def test_lengths_make_no_variants_but_declared_strides_do():
    x, y = new(4096), new(4096)
    kernels.rows((1,), x, y, 16, 1, BLOCK=64)
    before = variants(kernels.rows)
    for count in range(1, 200):
        kernels.rows((1,), x, y, 32, count, BLOCK=64)
    assert variants(kernels.rows) == before
    for stride in (17, 33, 1):
        kernels.rows((1,), x, y, stride, 16, BLOCK=64)
    assert variants(kernels.rows) == before + 1


def test_constants_dtypes_and_their_types_make_variants():
    x, y = new(64), new(64)
    before = variants(kernels.every_kind)
    for constants in (dict(BLOCK=32), dict(BLOCK=64), dict(BLOCK=32, num_warps=1), dict(BLOCK=32, KIND=tl.float64)):
        for _ in range(2):
            kernels.every_kind((1,), x, True, 1, None, 1.0, Double(2), y, **constants)
    kernels.every_kind((1,), x, True, 1, None, 1.0, Double(2), new(64, dtype="bfloat16"), BLOCK=32)
    kernels.every_kind((1,), x, True, 1, None, 1.0, Double(2), y, BLOCK=True + 31, KIND=tl.float32)
    assert variants(kernels.every_kind) == before + 5
    kernels.every_kind((1,), x, True, 1, None, 1.0, Double(2), y, BLOCK=1)
    kernels.every_kind((1,), x, True, 1, None, 1.0, Double(2), y, BLOCK=True)
    assert variants(kernels.every_kind) == before + 7


def test_kernels_of_numba_get_pointers_and_arrays(lib):
    x, total = new(100), new(1)
    kernels.counted((3,), 64, x, total, 100, 0.5)
    grid, threads, _, _, words = last(lib)
    assert (grid, threads) == ((3, 1, 1), 64)
    assert words[:8] == [x.pointer, 0, 0, 1, 4, total.pointer, 1, 4]
    assert words[8] == 100 and as_float(words[9]) == 0.5
    kernels.counted((3,), 128, x, total, 1 << 40, 0.5)
    assert (last(lib)[1], last(lib)[4][8]) == (128, 1 << 40)


def test_threads_do_not_mix_their_words():
    wrong = []

    def work(number):
        a = from_numpy(numpy.full(32, number, numpy.float32), 0)
        b = from_numpy(numpy.arange(32, dtype=numpy.float32), 0)
        out = new(32)
        for round_ in range(1000):
            kernels.add_f32((1,), out, a, b, 32, BLOCK=32)
            if round_ % 100 == 0 and not (out.numpy() == number + numpy.arange(32)).all():
                wrong.append((number, round_))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_each_device_has_its_own_function_and_becomes_current(lib):
    here, there = new(32, device=0), new(32, device=1)
    for _ in range(2):
        for x in (here, there):
            kernels.fill_f32((1,), x, 3.0, 32)
            assert last(lib)[4][0] == x.pointer
            assert (x.numpy() == 3).all()
    with pytest.raises(DeviceError, match=r"add_f32.*cuda:0 and cuda:1"):
        kernels.add_f32((1,), here, there, here, 32, BLOCK=32)


def test_current_stream_is_used(lib):
    x = new(32)
    stream = cuda.Stream()
    with cuda.stream(stream):
        kernels.fill_f32((1,), x, 3.0, 32)
    assert last(lib)[3] == stream.cuda_stream


def test_an_empty_grid_launches_nothing(lib):
    x = new(8)
    kernels.fill_f32((1,), x, 1.0, 8)
    before = lib.standin_calls(b"cuLaunchKernel")
    kernels.fill_f32((0,), x, 1.0, 8)
    kernels.fill_f32((3, 0), x, 1.0, 8)
    assert lib.standin_calls(b"cuLaunchKernel") == before


def test_large_shared_memory_is_asked_for(lib):
    a, b, c = new(128, 384, dtype="float16"), new(128, 384, dtype="float16"), new(128, 128)
    kernels.products((1,), a, b, c, SIZE=128, STEPS=3, num_warps=8)
    assert last(lib)[2] > 48 << 10


def test_scratch_memory_is_given_to_kernels_that_ask(lib):
    x, y = new(64, 64), new(64, 64)
    before = cuda.memory_allocated(0)
    kernels.described((3,), x, y, 64, BLOCK=64)
    scratch = last(lib)[4][3]
    assert scratch and scratch % 128 == 0 and scratch not in (x.pointer, y.pointer)
    assert cuda.memory_allocated(0) == before


def test_first_use_in_a_capture_is_refused_and_later_ones_are_captured():
    x = from_numpy(numpy.zeros(32, numpy.float32), 0)
    stream = cuda.Stream()
    graph = cuda.CUDAGraph()
    with (
        pytest.raises(DeviceError, match=r"rows.*CUDA graph was captured.*Run the step once before"),
        cuda.graph(graph, stream=stream),
    ):
        kernels.rows((1,), x, x, 5, 16, BLOCK=8)
    kernels.fill_f32((1,), x, 1.0, 32)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, stream=stream):
        kernels.fill_f32((1,), x, 7.0, 32)
    graph.replay()
    cuda.synchronize()
    assert (x.numpy() == 7).all()


def test_a_kernel_that_does_not_compile_is_named_and_the_next_one_runs():
    x = new(8)
    for _ in range(2):
        with pytest.raises(KernelCompileError, match=r"launched_kernels\.wrong\(x: \*fp32 /16, y: \*fp32 /16.*sm_90"):
            kernels.wrong((1,), x, x)
    kernels.fill_f32((1,), x, 2.0, 8)
    assert (x.numpy() == 2).all()


@pytest.mark.parametrize(
    "call, error, said",
    [
        (
            lambda x: kernels.fill_f32((1,), x, 1.0),
            TypeError,
            r"fill_f32\(\) missing 1 required positional argument: 'count'",
        ),
        (lambda x: kernels.rows((1,), x, x, 1, 1), TypeError, "missing 1 required keyword-only argument: 'BLOCK'"),
        (lambda x: kernels.rows((1,), x, x, 1, 1, BLOK=1), TypeError, "unexpected keyword argument 'BLOK'"),
        (
            lambda x: kernels.fill_f32((1,), x, "1", 8),
            TypeError,
            r"fill_f32: value is a str; kernels take CudaArrays and numbers",
        ),
        (lambda x: kernels.fill_f32((1,), numpy.zeros(8), 1.0, 8), DeviceError, "fill_f32: out is a CPU array"),
        (
            lambda x: kernels.fill_f32((1,), new(8, dtype="complex64"), 1.0, 8),
            DtypeError,
            "arrays of complex64.*x.real",
        ),
        (lambda x: kernels.counted((1,), 2048, x, x, 8, 1.0), ValueError, "a block has 1 to 1024 threads, not 2048"),
        (lambda x: kernels.counted((1,), 32, None, x, 8, 1.0), TypeError, "None is no argument"),
    ],
)
def test_wrong_calls(call, error, said):
    for _ in range(2):
        with pytest.raises(error, match=said):
            call(new(8))


def test_how_many_kernels_were_launched():
    titles = [entry.kernel for entry in vars(kernels).values() if hasattr(entry, "kernel") and variants(entry)]
    assert len(titles) >= 6
    assert launching_cuda.exercised == set()  # nothing ran in emulation
    print(f"launched {sum(map(variants, [title.entry for title in titles]))} variants of {len(titles)} kernels")
