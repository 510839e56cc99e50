"""The choice among block sizes, on the stand-in libcuda: its times are made up here, its launches are counted."""

import json
import math

import launched_kernels as kernels
import numpy
import pytest

from dynograd import cuda
from dynograd.arrays.cuda_arrays import empty, from_numpy
from dynograd.cuda import driver
from dynograd.errors import DeviceError, KernelCompileError
from dynograd.kernels.build import kernel_cache
from dynograd.kernels.build.tuning_cuda import shape_class, tuned
from tests.support import standin_cuda

CONFIGS = [dict(BLOCK=32, num_warps=1), dict(BLOCK=64, num_warps=1), dict(BLOCK=128, num_warps=2)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))


@pytest.fixture
def times(monkeypatch):
    """What the events say next; {threads of a block, or grid: milliseconds}."""
    argument = {}
    used = driver.get("test")
    out = (standin_cuda.ctypes.c_uint64 * 64)()

    def elapsed(start, end):
        standin_cuda.control().standin_last(out)
        return argument[out[0]]  # the grid tells the configurations apart

    monkeypatch.setattr(used, "elapsed", elapsed)
    return argument


def grid(config):
    return (-(-256 // config["BLOCK"]),)


def adder(**options):
    return tuned(kernels.add_f32, CONFIGS, key=("count",), **options)


def chosen(one, count=256, dtype="float32"):
    x = empty((256,), dtype, 0)
    return one.choice(grid, (x, x, x, count), {})["BLOCK"]


def test_the_quickest_is_chosen_once_and_kept(times):
    times.update({8: 3.0, 4: 1.0, 2: 2.0})
    assert chosen(adder()) == 64
    times.update({8: 0.1})  # nothing is measured again, in this or another process
    assert chosen(adder()) == 64
    element = adder()
    assert chosen(element) == 64 and chosen(element, 250) == 32 and chosen(element, 192) == 64
    assert chosen(element, 256, "float64") == 32


def test_the_kernel_runs_with_the_choice_and_nothing_is_added_twice(times):
    times.update({8: 3.0, 4: 2.0, 2: 1.0})
    a = from_numpy(numpy.arange(256, dtype=numpy.float32), 0)
    b = from_numpy(numpy.full(256, 5, numpy.float32), 0)
    product = adder(restore=("out",))
    product(grid, a, a, b, 256)  # in place: each measurement is taken back
    assert (a.numpy() == numpy.arange(256) + 5).all()
    product(grid, a, a, b, 256)
    assert (a.numpy() == numpy.arange(256) + 10).all()


def test_tuning_can_be_turned_off(times, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_TUNE", "0")
    assert chosen(adder()) == 32
    assert not list(kernel_cache.folder().glob("*"))


def test_a_capture_measures_nothing(times):
    times.update({8: 3.0, 4: 1.0, 2: 2.0})
    x = from_numpy(numpy.zeros(256, numpy.float32), 0)
    element = adder()
    kernels.add_f32(grid(CONFIGS[0]), x, x, x, 256, **CONFIGS[0])
    with cuda.graph(cuda.CUDAGraph(), stream=cuda.Stream()):
        element(grid, x, x, x, 256)
        assert chosen(element) == 32
    assert chosen(element) == 64


def test_configurations_that_do_not_run_are_left_out(times):
    times.update({8: 3.0, 4: 1.0, 2: 2.0})
    configs = [dict(BLOCK=64), dict(BLOCK=100), dict(BLOCK=128)]  # 100 is no power of two
    element = tuned(kernels.add_f32, configs, key=("count",))
    assert chosen(element) == 64
    (entry,) = [name for name in kernel_cache.folder().glob("*") if b"milliseconds" in name.read_bytes()]
    assert json.loads(kernel_cache.read(entry.stem))["milliseconds"] == [1.0, math.inf, 2.0]
    with pytest.raises(KernelCompileError, match="add_f32"):
        chosen(tuned(kernels.add_f32, [dict(BLOCK=100), dict(BLOCK=99)], key=("count",)))


@pytest.mark.parametrize("payload", [b"{}", b"no json", b'{"chosen": 7}', b'{"chosen": "1"}'])
def test_a_damaged_entry_is_measured_again(times, payload):
    times.update({8: 3.0, 4: 1.0, 2: 2.0})
    chosen(adder())
    (entry,) = [name for name in kernel_cache.folder().glob("*") if b"milliseconds" in name.read_bytes()]
    kernel_cache.write(entry.stem, payload)
    assert chosen(adder()) == 64
    assert b"milliseconds" in kernel_cache.read(entry.stem)


def test_one_configuration_needs_no_measurement():
    assert chosen(tuned(kernels.add_f32, CONFIGS[2:], key=("count",))) == 128


def test_mixed_devices_are_refused(times):
    times.update({8: 3.0, 4: 1.0, 2: 2.0})
    x, y = empty((256,), "float32", 0), empty((256,), "float32", 1)
    with pytest.raises(DeviceError, match="cuda:0 and cuda:1"):
        adder()(grid, x, y, x, 256)


def test_shape_classes():
    assert shape_class(400) == shape_class(512) != shape_class(513)
    assert shape_class(511) == shape_class(401) != shape_class(512)
    assert shape_class(0) == shape_class(1) or shape_class(1) == 0
