"""DLPack and the CUDA array interface of tensors on the device; where new tensors go."""

import numpy
import pytest

import dynograd as dg
from dynograd.arrays import dlpack


def test_there_and_back_shares_memory():
    for dtype in (dg.float32, dg.bfloat16, dg.int64, dg.bool):
        x = dg.arange(6).reshape(2, 3).to("cuda", dtype).T
        y = dg.from_dlpack(x)
        assert y.is_cuda and y.data_ptr() == x.data_ptr() and y.stride() == x.stride() and y.dtype is dtype
        assert y.cpu().float().tolist() == x.cpu().float().tolist()
        assert x.__dlpack_device__() == (dlpack.CUDA, 0)


def test_memory_lives_as_long_as_its_taker():
    before = len(dlpack._lent)
    y = dg.from_dlpack(dg.ones(10, device="cuda"))
    assert float(y.sum()) == 10 and len(dlpack._lent) == before + 1
    del y
    assert len(dlpack._lent) == before


def test_cuda_array_interface():
    x = dg.zeros(2, 3, device="cuda")
    result = x.__cuda_array_interface__
    assert result["shape"] == (2, 3) and result["data"] == (x.data_ptr(), False) and result["typestr"] == "<f4"


def test_default_device():
    with dg.device("cuda"):
        assert dg.zeros(2).is_cuda and dg.randn(2).is_cuda and dg.nn.Linear(2, 2).weight.is_cuda
        assert dg.tensor([1.0], device="cpu").is_cpu
    dg.set_default_device("cuda")
    try:
        assert dg.ones(1).is_cuda
    finally:
        dg.set_default_device("cpu")
    assert dg.ones(1).is_cpu and numpy.asarray(dg.ones(1)).tolist() == [1]


def test_the_cpu_may_ask_for_a_copy():
    x = dg.arange(3, device="cuda")
    assert numpy.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="on cuda:0 .* copy=False"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        dg.from_dlpack(x, device="cpu", copy=False)
    assert (
        dg.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
        and dg.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    )


class OfCupy:
    """An array as CuPy has them: `__dlpack__` with a stream and versioned capsules; the memory may be said not to be written."""

    def __init__(self, tensor, read_only=False):
        self.tensor, self.read_only, self.streams = tensor, read_only, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.streams.append(stream)
        capsule = self.tensor.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if self.read_only:
            address = dlpack._api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
            dlpack._ManagedVersioned.from_address(address).flags |= 1
        return capsule


def test_arrays_as_cupy_has_them():
    x = dg.arange(6.0, device="cuda").reshape(2, 3).T
    array = OfCupy(x)
    y = dg.from_dlpack(array)
    assert y.data_ptr() == x.data_ptr() and y.stride() == x.stride() and array.streams == [1]  # CUDA's default stream
    with dg.cuda.stream(dg.cuda.Stream()):
        dg.from_dlpack(array)
    assert array.streams[1] not in (None, 1)
    assert "versioned" in repr(x.__dlpack__(max_version=(1, 0))) and "versioned" not in repr(x.__dlpack__())


def test_memory_that_must_not_be_written_is_copied():
    x = dg.ones(3, device="cuda")
    y = dg.from_dlpack(OfCupy(x, read_only=True))
    y += 1
    assert y.is_cuda and x.tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="memory that must not be written cannot be used on cuda:0 without a copy"):
        dg.from_dlpack(OfCupy(x, read_only=True), copy=False)
