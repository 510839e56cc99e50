"""What the cases share: control of the stand-in, kernels on it, and a clean device for each case."""

import ctypes
import gc
import os

import numpy
import pytest

from dynograd import cuda
from dynograd.cuda import allocator, copies, driver, streams
from tests.support import standin_cuda

if "STANDIN_DEVICES" not in os.environ:  # only in a process that tests/cuda/test_on_standin.py starts
    collect_ignore_glob = ["*"]
else:
    gc.freeze()  # what is imported is not looked at again each time a case collects


@pytest.fixture
def lib():
    return standin_cuda.control()


@pytest.fixture(autouse=True)
def clean_device():
    assert "Stand-in" in cuda.get_device_name(0), "these cases need the stand-in libcuda"
    yield
    gc.collect()
    standin_cuda.control().standin_heal()
    standin_cuda.control().standin_eager(0)
    streams.set_current_device(0)
    for index in range(cuda.device_count()):
        cuda.set_per_process_memory_fraction(1.0, index)
        cuda.synchronize(index)
    cuda.empty_cache()
    for index in range(cuda.device_count()):
        assert cuda.memory_allocated(index) == 0, "a case has left memory behind"


class Kernels:
    """Launches the kernels that the stand-in knows."""

    def __init__(self):
        self.made = {}

    def function(self, name, device=0):
        if (name, device) not in self.made:
            used = driver.get("test")
            self.made[name, device] = used.get_function(used.load_module(device, b"image"), name)
        return self.made[name, device]

    def launch(self, name, *words, device=0, grid=(1, 1, 1), block=(32, 1, 1), shared=0):
        function = self.function(name, device)
        stream = streams.current_handle(device)
        slots = (ctypes.c_uint64 * max(len(words), 1))()
        for place, word in enumerate(words):
            if isinstance(word, float):
                ctypes.c_float.from_address(ctypes.addressof(slots) + 8 * place).value = word
            else:
                slots[place] = word
        addresses = (ctypes.c_void_p * len(slots))(*[ctypes.addressof(slots) + 8 * i for i in range(len(slots))])
        driver.get("test").launch(function, grid, block, shared, stream, ctypes.addressof(addresses))

    def fill(self, block, value, device=0):
        self.launch("fill_f32", block.pointer, float(value), block.nbytes // 4, device=device)

    def add(self, out, a, b, device=0):
        self.launch("add_f32", out.pointer, a.pointer, b.pointer, out.nbytes // 4, device=device)


@pytest.fixture(scope="session")
def kernels():
    return Kernels()


@pytest.fixture
def block():
    return lambda count, device=0: allocator.allocate(4 * count, device)


@pytest.fixture
def read():
    """The float32 values of a block."""

    def values(one, device=None):
        created = numpy.empty(one.nbytes // 4, numpy.float32)
        copies.to_host(created.ctypes.data, one.pointer, one.nbytes, one.device if device is None else device)
        return created

    return values


@pytest.fixture
def write():
    def values(one, numbers):
        argument = numpy.ascontiguousarray(numbers, numpy.float32)
        copies.from_host(one.pointer, argument.ctypes.data, argument.nbytes, one.device)

    return values
