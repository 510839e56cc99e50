"""DLPack both ways on the CPU; memory of a GPU is in tests/gpu/test_dlpack.py."""

import gc

import numpy
import pytest

import dynograd as dg
from dynograd.arrays import dlpack

DTYPES = [
    *"float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128 float8_e4m3fn".split(),
    "float8_e5m2",
]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_there_and_back_shares_memory(name, max_version):
    x = dg.arange(6).reshape(2, 3).to(getattr(dg, name))
    capsule = x.__dlpack__(max_version=max_version)
    assert repr(capsule).split('"')[1] == ("dltensor" if max_version in (None, (0, 8)) else "dltensor_versioned")
    for y in (dg.from_dlpack(x), dg.from_dlpack(capsule)):
        assert y.dtype is x.dtype and y.shape == x.shape and y.data_ptr() == x.data_ptr()
        assert y.numpy().tobytes() == x.numpy().tobytes()


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


def test_a_versioned_capsule_is_taken_once_and_gives_back():
    before = len(dlpack._lent)
    capsule = dg.ones(3).bfloat16().__dlpack__(max_version=(1, 0))
    y = dg.from_dlpack(capsule)
    with pytest.raises(ValueError, match="PyCapsule"):
        dg.from_dlpack(capsule)
    assert len(dlpack._lent) == before + 1
    del y
    dg.ones(3).bfloat16().__dlpack__(max_version=(1, 0))  # that nobody takes
    gc.collect()
    assert len(dlpack._lent) == before


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_memory_that_must_not_be_written(dtype):
    array = numpy.ones(3).astype(getattr(dg, dtype).numpy)
    array.flags.writeable = False
    x = dg.from_numpy(array)
    y = dg.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr() == array.ctypes.data and not y.numpy().flags.writeable
    for write in (lambda: y.add_(1), lambda: y.zero_(), lambda: y.copy_(dg.zeros(3)), lambda: y.__setitem__(0, 5)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(BufferError):  # a capsule without a version cannot say it
        x.__dlpack__()
    assert dg.from_dlpack(x, copy=True).add_(1).tolist() == [2, 2, 2] and array.tolist() == [1, 1, 1]


def test_flags():
    for x in (dg.ones(3), dg.ones(3).bfloat16()):
        for copy, flag in ((None, 0), (True, 2)):
            capsule = x.__dlpack__(max_version=(1, 0), copy=copy)
            address = dlpack._api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
            managed = dlpack._ManagedVersioned.from_address(address)
            assert managed.major == 1 and managed.flags in (0, flag)


class Producer:
    """A library's array: its `__dlpack__` takes the arguments that are named."""

    def __init__(self, tensor, *names):
        self.tensor, self.names = tensor, names

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        unknown = [name for name in options if name not in self.names]
        if unknown:
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
        return self.tensor.__dlpack__(**options)


@pytest.mark.parametrize("names", [(), ("stream",), ("stream", "max_version", "dl_device", "copy")])
def test_libraries_of_each_version_of_the_protocol(names):
    x = dg.arange(3)
    assert dg.from_dlpack(Producer(x, *names)).data_ptr() == x.data_ptr()


def test_a_newer_major_version_is_refused():
    capsule = dg.ones(3).bfloat16().__dlpack__(max_version=(1, 0))
    address = dlpack._api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    dlpack._ManagedVersioned.from_address(address).major = 2
    with pytest.raises(BufferError, match=r"version 2.1 of DLPack; dynograd knows version 1"):
        dg.from_dlpack(capsule)


def test_empty():
    assert dg.from_dlpack(dg.zeros(0, 3)).shape == (0, 3)


def test_copies_are_made_when_asked_for_and_only_then():
    x = dg.arange(3)
    for created in (dg.from_dlpack(x, copy=True), dg.from_dlpack(x.__dlpack__(copy=True))):
        assert created.tolist() == [0, 1, 2] and created.data_ptr() != x.data_ptr()
    for created in (
        dg.from_dlpack(x, copy=False),
        dg.from_dlpack(x, device="cpu"),
        dg.from_dlpack(x.__dlpack__(dl_device=(1, 0))),
    ):
        assert created.data_ptr() == x.data_ptr()
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
