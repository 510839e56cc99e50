"""Kernels that users write, on the stand-in libcuda: Triton's own way of launching, through dynograd's driver."""

import ctypes
import os
import struct
import subprocess
import sys

import pytest
import triton
import triton.language as tl

import dynograd
from dynograd import cuda
from dynograd.errors import DeviceError
from tests.support import standin_cuda

pytestmark = pytest.mark.filterwarnings(
    "ignore:TRITON_DEFAULT_FP_FUSION"
)  # Triton 3.9 says so of kernels it compiles itself
assert "Stand-in" in cuda.get_device_name(0), "these cases need the stand-in libcuda: run tests/gpu/test_launching.py"


@triton.jit
def add_f32(out, a, b, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    tl.store(out + place, tl.load(a + place, mask=inside) + tl.load(b + place, mask=inside), mask=inside)


@triton.jit
def every_kind(x, flag, count, single, wide, missing, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK)).to(tl.float32) * single + wide + count
    if flag:
        value += 1
    tl.store(x + tl.arange(0, BLOCK), value)


def last():
    control = standin_cuda.control()
    out = (ctypes.c_uint64 * 64)()
    control.standin_last(out)
    return tuple(out[:3]), out[3], out[7], list(out[8:20])


@pytest.fixture(autouse=True)
def words_are_kept():
    standin_cuda.control().standin_want(8)
    yield
    standin_cuda.control().standin_want(0)


def test_tensors_go_through_tritons_launch():
    a, b, out = dynograd.ones(64).cuda(), dynograd.full((64,), 2.0).cuda(), dynograd.zeros(64).cuda()
    for _ in range(2):
        add_f32[(1,)](out, a, b, 64, BLOCK=64)
        assert last()[3][:4] == [out.data_ptr(), a.data_ptr(), b.data_ptr(), 64]
        assert (out.cpu() == 3).all()


def test_words_of_every_kind():
    x = dynograd.zeros(64, dtype=dynograd.bfloat16, device="cuda")
    every_kind[(3, 2)](x, True, 1 << 40, 1.5, -7, None, BLOCK=64, num_warps=8)
    grid, threads, stream, words = last()
    assert (grid, threads, stream) == ((3, 2, 1), 256, cuda.current_stream().cuda_stream)
    assert words[:3] == [x.data_ptr(), 1, 1 << 40]
    assert struct.pack("<Q", words[3])[:4] == struct.pack("<f", 1.5)
    assert words[4] & 0xFFFFFFFF == -7 & 0xFFFFFFFF


def test_streams_and_devices():
    stream = cuda.Stream()
    x = dynograd.zeros(64).cuda()
    with cuda.stream(stream):
        add_f32[(1,)](x, x, x, 64, BLOCK=64)
    assert last()[2] == stream.cuda_stream
    there = dynograd.zeros(64).to("cuda:1")
    with pytest.raises(DeviceError, match=r"add_f32: .*is on cuda:1, but the current device is cuda:0.*device\(1\)"):
        add_f32[(1,)](there, there, there, 64, BLOCK=64)
    with cuda.device(1):
        add_f32[(1,)](there, there, there, 64, BLOCK=64)
    assert last()[3][0] == there.data_ptr()
    with pytest.raises(DeviceError, match="is on the CPU"):
        add_f32[(1,)](dynograd.zeros(64), x, x, 64, BLOCK=64)


def test_autotuned_kernels_choose_by_our_events():
    configs = [triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 64}, num_warps=2)]
    tuned = triton.autotune(configs, key=["count"])(add_f32)
    a, out = dynograd.ones(64).cuda(), dynograd.zeros(64).cuda()
    tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](out, a, a, 64)
    assert tuned.best_config in configs and (out.cpu() == 2).all()


def test_no_c_compiler_is_needed(tmp_path):
    path = tmp_path / "kernel_file.py"
    path.write_text(
        "import triton, triton.language as tl, dynograd\n"
        "@triton.jit\n"
        "def fill_f32(x, value, count):\n"
        "    tl.store(x + tl.program_id(0), value)\n"
        "x = dynograd.zeros(64).cuda()\n"
        "fill_f32[(64,)](x, 5.0, 64)\n"
        "assert (x.cpu() == 5).all()\n"
    )
    environment = os.environ | {
        "CC": "/bin/false", "TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(standin_cuda.ROOT),
    }  # fmt: skip
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
