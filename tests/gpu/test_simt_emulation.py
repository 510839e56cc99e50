"""The emulation of numba-cuda's kernels: threads that wait for each other, warps, shared memory, and the mistakes that it finds."""

from __future__ import annotations

import numpy
import pytest
from numba import float32, int32

from dynograd.arrays.cuda_arrays import from_numpy
from dynograd.cuda import driver
from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda

EVERYONE = 0xFFFFFFFF
emulated_only = pytest.mark.skipif(not driver.is_emulated(), reason="a GPU does not notice")


@simt_kernel(variants=[])
def turned(x, y, count):
    memory = cuda.shared.array(64, int32)
    i = cuda.threadIdx.x
    memory[i] = x[cuda.blockIdx.x * count + i]
    cuda.syncthreads()
    y[cuda.blockIdx.x * count + i] = memory[count - 1 - i]


@simt_kernel(variants=[])
def turned_too_early(x, y, count):
    memory = cuda.shared.array(64, int32)
    i = cuda.threadIdx.x
    memory[i] = x[i]
    y[i] = memory[count - 1 - i]


@simt_kernel(variants=[])
def parted(x, y, count):
    if cuda.threadIdx.x < count:
        cuda.syncthreads()
    else:
        cuda.syncthreads()


@simt_kernel(variants=[])
def masked_out(x, y, count):
    y[0] = cuda.shfl_sync(0xFFFF, x[0], 0)


@cuda.jit(device=True)
def sum_of_warp(value):
    step = 16
    while step > 0:
        value += cuda.shfl_xor_sync(EVERYONE, value, step)
        step //= 2
    return value


@simt_kernel(variants=[])
def warp_operations(x, y, count):
    lane = cuda.threadIdx.x % 32
    value = x[cuda.threadIdx.x]
    y[cuda.threadIdx.x] = sum_of_warp(value)
    y[count + cuda.threadIdx.x] = cuda.shfl_up_sync(EVERYONE, value, 3)
    y[2 * count + cuda.threadIdx.x] = cuda.shfl_down_sync(EVERYONE, value, 1)
    y[3 * count + cuda.threadIdx.x] = cuda.shfl_sync(EVERYONE, value, 5)
    y[4 * count + cuda.threadIdx.x] = cuda.popc(cuda.match_any_sync(EVERYONE, value % 3))
    y[5 * count + cuda.threadIdx.x] = cuda.popc(cuda.ballot_sync(EVERYONE, value > 40))
    cuda.syncwarp()
    if lane < 8:  # part of a warp
        y[6 * count + cuda.threadIdx.x] = cuda.shfl_sync(0xFF, value, 7)


@simt_kernel(variants=[])
def counted_in_block(x, y, count):
    y[cuda.threadIdx.x] = cuda.syncthreads_count(int32(x[cuda.threadIdx.x] > 40))
    memory, floats = cuda.shared.array(0, int32), cuda.shared.array(0, float32)  # the same memory
    memory[cuda.threadIdx.x] = 0
    floats[cuda.threadIdx.x] = 1
    cuda.syncthreads()
    y[count + cuda.threadIdx.x] = memory[count - 1 - cuda.threadIdx.x]


def run(kernel, count, size, blocks=1, **options):
    x, y = numpy.arange(blocks * count, dtype=numpy.int32), from_numpy(numpy.full(size, -1, numpy.int32), 0)
    kernel((blocks,), count, from_numpy(x, 0), y, count, **options)
    return y.numpy()


@pytest.mark.parametrize("count", [1, 7, 64])
def test_threads_wait_at_a_barrier(count):
    result = run(turned, count, 3 * count, 3).reshape(3, count)
    numpy.testing.assert_array_equal(result, numpy.arange(3 * count).reshape(3, count)[:, ::-1])


def test_lanes_of_a_warp_exchange_values():
    count = 64
    x = numpy.arange(count)
    warps = x.reshape(2, 32)
    results = run(warp_operations, count, 7 * count).reshape(7, 2, 32)
    expected = [
        warps.sum(1, keepdims=True) + 0 * warps, numpy.where(x % 32 < 3, x, x - 3).reshape(2, 32),
        numpy.where(x % 32 == 31, x, x + 1).reshape(2, 32), warps[:, 5:6] + 0 * warps,
        (warps[:, :, None] % 3 == warps[:, None] % 3).sum(2), (warps > 40).sum(1, keepdims=True) + 0 * warps,
        numpy.where(x % 32 < 8, x // 32 * 32 + 7, -1).reshape(2, 32),
    ]  # fmt: skip
    for element, other in zip(results, expected, strict=True):
        numpy.testing.assert_array_equal(element, other)


def test_shared_memory_is_as_large_as_asked_for():
    result = run(counted_in_block, 64, 128, shared=256).reshape(2, 64)
    assert set(result[0]) == {23} and set(result[1]) == {numpy.float32(1).view(numpy.int32)}


@emulated_only
def test_a_missing_barrier_is_seen():
    assert (run(turned_too_early, 32, 32) < 0).sum() == 16  # garbage


@emulated_only
@pytest.mark.parametrize(
    "kernel, said",
    [(parted, "wait for each other in different places"), (masked_out, "lane 16 is not in the mask 0xffff")],
)
def test_what_would_hang_is_an_error(kernel, said):
    with pytest.raises(RuntimeError, match=said):
        run(kernel, 32, 32) if kernel is masked_out else kernel((1,), 32, *[from_numpy(numpy.zeros(4, "i4"), 0)] * 2, 3)


@emulated_only
def test_memory_beyond_the_shared_part_is_an_error():
    with pytest.raises(IndexError):
        run(counted_in_block, 64, 128, shared=128)
