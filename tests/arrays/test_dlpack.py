"""DLPack both ways on the CPU; memory of a GPU is in tests/gpu/test_dlpack.py."""

import gc

import numpy
import pytest

import dynograd as dg
from dynograd.arrays import dlpack

DTYPES = [
    *"float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
]


@pytest.mark.parametrize("name", DTYPES)
def test_there_and_back_shares_memory(name):
    x = dg.arange(6).reshape(2, 3).to(getattr(dg, name))
    y = dg.from_dlpack(x)
    assert y.dtype is x.dtype and y.shape == x.shape and y.data_ptr() == x.data_ptr()
    assert dg.equal(x.float() if name == "bfloat16" else x, y.float() if name == "bfloat16" else y)


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[::2], lambda x: x[:, 1:], lambda x: x[0, 0]])
def test_strides(view):
    x = view(dg.arange(24).reshape(4, 6))
    y = dg.from_dlpack(x)
    assert dg.equal(x, y) and y.stride() == x.stride()


def test_backward_strides_come_from_numpy():
    y = dg.from_dlpack(numpy.arange(6)[::-1])
    assert y.tolist() == [5, 4, 3, 2, 1, 0]


def test_numpy_takes_tensors_and_gives_arrays():
    x = dg.arange(4)
    array = numpy.from_dlpack(x)
    array[0] = 9
    assert x[0] == 9
    source = numpy.arange(3.0)
    y = dg.from_dlpack(source)
    y[1] = 7
    assert source[1] == 7
    assert dg.from_dlpack(source, copy=True).data_ptr() != source.ctypes.data


def test_memory_lives_as_long_as_its_taker():
    before = len(dlpack._lent)
    y = dg.from_dlpack(dg.ones(1000).bfloat16())
    gc.collect()
    assert float(y[0]) == 1 and len(dlpack._lent) == before + 1
    del y
    gc.collect()
    assert len(dlpack._lent) == before


def test_a_capsule_that_nobody_takes_gives_its_memory_back():
    before = len(dlpack._lent)
    capsule = dg.to_dlpack(dg.ones(3).bfloat16())
    assert len(dlpack._lent) == before + 1
    del capsule
    assert len(dlpack._lent) == before


def test_a_capsule_is_taken_once():
    capsule = dg.to_dlpack(dg.ones(3))
    assert dg.from_dlpack(capsule).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="PyCapsule"):
        dg.from_dlpack(capsule)


def test_empty():
    assert dg.from_dlpack(dg.zeros(0, 3)).shape == (0, 3)


def test_copies_are_made_when_asked_for_and_only_then():
    x = dg.arange(3)
    for made in (dg.from_dlpack(x, copy=True), dg.from_dlpack(x.__dlpack__(copy=True))):
        assert made.tolist() == [0, 1, 2] and made.data_ptr() != x.data_ptr()
    for made in (
        dg.from_dlpack(x, copy=False),
        dg.from_dlpack(x, device="cpu"),
        dg.from_dlpack(x.__dlpack__(dl_device=(1, 0))),
    ):
        assert made.data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match=r"on cpu .* got dl_device=\(2, 0\).*x.to\(device\)"):
        x.__dlpack__(dl_device=(2, 0))


def test_pytorchs_names():
    x = dg.arange(3)
    assert dg.utils.dlpack.from_dlpack(dg.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()


def test_errors():
    with pytest.raises(BufferError, match=r"use tensor.detach\(\)"):
        dg.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(TypeError, match="expected an array with __dlpack__ or a capsule, got list"):
        dg.from_dlpack([1])


def test_buffers_and_strides():
    raw = bytearray(8)
    x = dg.frombuffer(raw, dtype=dg.int16, offset=2, count=2)
    x[0] = 258
    assert raw[2:4] == b"\x02\x01"
    y = dg.empty_strided((2, 3), (1, 2)).fill_(1)
    assert y.stride() == (1, 2) and float(y.sum()) == 6
    with pytest.raises(RuntimeError, match="differ in length"):
        dg.empty_strided((2,), (1, 1))


def test_default_device():
    assert dg.get_default_device() == dg.device("cpu")
    with dg.device("cuda:5"):
        assert dg.get_default_device() == dg.device("cuda:5")
        with dg.device("cpu"):
            assert dg.zeros(1).is_cpu
    assert dg.get_default_device() == dg.device("cpu")
