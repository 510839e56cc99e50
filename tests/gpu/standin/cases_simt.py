"""Kernels of numba-cuda on the stand-in libcuda: compiled, loaded and launched as on a card, with the blocks and memory they ask for."""

import ctypes

import numpy
import pytest

from dynograd import cuda
from dynograd.arrays.cuda_arrays import empty, from_numpy
from dynograd.kernels.loss import chains_cuda, chains_simt, ctc_cuda, ctc_simt
from dynograd.kernels.segment import segments_cuda, segments_simt
from tests.support import standin_cuda

assert "Stand-in" in cuda.get_device_name(0), "these cases need the stand-in libcuda: run tests/gpu/test_launching.py"


def last():
    """(grid, threads, shared bytes) of the last launch."""
    out = (ctypes.c_uint64 * 64)()
    standin_cuda.control().standin_last(out)
    return tuple(out[:3]), out[3], out[6]


def numbers(*shape, dtype="int64"):
    return from_numpy(numpy.zeros(shape, dtype), 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("labels, threads", [(4, 32), (40, 64)])
def test_ctc(dtype, labels, threads):
    steps, count, classes = 9, 3, 5
    x = empty((steps, count, classes), dtype, 0)
    argument = x, numbers(count, labels), numbers(count), numbers(count)
    kept = ctc_cuda.ctc_forward(*argument, 0, False)[1:]
    assert kept[0].shape == (count, steps, 2, labels + 1)
    result = ctc_cuda.ctc_backward(empty((count,), dtype, 0), *argument, *kept, 0, True)
    assert last() == ((steps * count, 1, 1), ctc_simt.ROW_THREADS, 1024)
    assert result.shape == x.shape
    for kernels in (ctc_simt.ctc_alphas, ctc_simt.ctc_chances):
        blocks = [(variant[2][0], variant[3]) for variant in variants(kernels[x.itemsize])]
        assert (threads, ctc_simt.bytes_of(labels + 1, x.itemsize)) in blocks


def variants(entry):
    return [result for launcher in entry.kernel.launchers.values() for result in launcher.found.values()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_segments(dtype):
    values, starts, ends = empty((1000, 3), dtype, 0), numbers(50), numbers(50)
    size = values.itemsize
    output = segments_cuda.reduce_segments(values, starts, ends, "max")
    assert last() == ((7, 1, 1), 256, 256 * size)
    segments_cuda.segment_gradients(output, values, output, starts, ends, "max")
    segments_cuda.spread_segments(output, starts, ends, 1000)
    assert last()[1:] == (256, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chains(dtype):
    weights = [empty(shape, dtype, 0) for shape in ((12, 40), (40, 40), (40,), (40,))]
    argument = *weights, numbers(12), numbers(3), numbers(3), 1
    result, *kept = chains_cuda.chain_likelihoods(*argument)
    assert result.shape == (3,) and 64 in [
        variant[2][0] for variant in variants(chains_simt.likelihoods[weights[0].itemsize])
    ]
    slopes = chains_cuda.chain_gradients(empty((3,), dtype, 0), *argument, *kept)
    assert [slope.shape for slope in slopes] == [weight.shape for weight in weights]
    chains_cuda.best_paths(*weights, numbers(3), numbers(3), 1)


def test_how_many_kernels_were_launched():
    entries = [
        kernels[size]
        for kernels in (
            chains_simt.likelihoods, chains_simt.gradients, chains_simt.best_paths, ctc_simt.ctc_alphas, ctc_simt.ctc_chances, ctc_simt.ctc_gradients, segments_simt.reduce_segments,
            segments_simt.spread_segments, segments_simt.segment_gradients,
        )
        for size in (4, 8)
    ]  # fmt: skip
    assert all(map(variants, entries))
    print(f"launched {sum(len(variants(entry)) for entry in entries)} variants of {len(entries)} kernels")
