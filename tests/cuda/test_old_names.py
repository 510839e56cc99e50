"""Names of `torch.cuda` and its like that programs use in passing, with a GPU (here an emulated one) and without."""

import os
import subprocess
import sys
import textwrap

import pytest

import dynograd as torch
from dynograd.cuda import driver, thread_state
from dynograd.errors import DeviceError


@pytest.fixture
def nothing(monkeypatch):
    """No driver, whatever this machine has."""
    monkeypatch.setattr(driver, "_driver", None)
    monkeypatch.setattr(driver, "_reason", "no NVIDIA driver was found")
    thread_state.forget()
    yield
    thread_state.forget()


TYPES = "Float Double Half BFloat16 Long Int Short Char Byte Bool".split()


@pytest.mark.parametrize("name", TYPES)
def test_types_of_gpu_tensors_without_a_gpu(nothing, name):
    kind = getattr(torch.cuda, f"{name}Tensor")
    assert repr(kind) == f"dynograd.cuda.{name}Tensor" and kind.dtype is getattr(torch, f"{name}Tensor").dtype
    assert not isinstance(torch.zeros(2, dtype=kind.dtype), kind)
    for call in (
        lambda: kind(2),
        lambda: torch.zeros(2).type(kind),
        lambda: torch.zeros(2).type(f"torch.cuda.{name}Tensor"),
    ):
        with pytest.raises(DeviceError, match="no CUDA device is available"):
            call()


def test_a_default_type_of_gpu_tensors_without_a_gpu(nothing):
    with pytest.raises(DeviceError, match="no CUDA device is available"):
        torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    assert torch.zeros(1).dtype == torch.float32


def test_questions_in_passing(nothing, monkeypatch):
    monkeypatch.setitem(sys.modules, "nccl", None)
    assert torch.cuda.nccl.version() < (2, 0) and not torch.cuda.nccl.is_available([])
    assert torch.cuda.has_half and not torch.cuda.has_magma
    assert torch.accelerator.memory_allocated() == 0 and torch.accelerator.empty_cache() is None
    for call in (
        torch.cuda.cudart,
        torch.accelerator.current_stream,
        torch.accelerator.get_memory_info,
        torch.accelerator.get_device_capability,
        lambda: torch.cuda.make_graphed_callables(abs, ()),
        lambda: torch.Stream("cuda"),
    ):
        with pytest.raises(DeviceError, match="no CUDA device is available"):
            call()


def test_streams_and_events_of_the_cpu(nothing):
    stream, event = torch.Stream(), torch.Event(enable_timing=True)
    assert isinstance(stream, torch.Stream) and isinstance(event, torch.Event) and not isinstance(event, torch.Stream)
    assert stream.device == event.device == torch.device("cpu") and stream.query() and event.query()
    with stream as same:
        event.record(stream)
        stream.wait_event(event)
        stream.wait_stream(torch.Stream("cpu"))
        event.wait()
    assert same is stream and stream.record_event(event) is event and stream.record_event().query()
    assert stream.synchronize() is event.synchronize() is None


@pytest.mark.parametrize("kind, dtype", [("gpu", torch.float16), ("cpu", torch.bfloat16)])
def test_old_names_of_autocast(kind, dtype):
    device = "cuda" if kind == "gpu" else "cpu"
    get, put = getattr(torch, f"get_autocast_{kind}_dtype"), getattr(torch, f"set_autocast_{kind}_dtype")
    assert get() == torch.get_autocast_dtype(device) == dtype
    put(torch.float32)
    try:
        assert get() == torch.get_autocast_dtype(device) == torch.float32
    finally:
        put(dtype)


def test_autocast_of_the_cpu_by_its_old_names():
    assert not torch.is_autocast_cpu_enabled()
    torch.set_autocast_cpu_enabled(True)
    try:
        assert torch.is_autocast_cpu_enabled() and (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    finally:
        torch.set_autocast_cpu_enabled(False)


ON_A_GPU = """
    import dynograd as torch
    x = torch.cuda.FloatTensor([1, 2, 3])
    assert x.type() == "dynograd.cuda.FloatTensor" and isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x, torch.FloatTensor) and not isinstance(x.cpu(), torch.cuda.FloatTensor)
    assert torch.cuda.LongTensor(2, 3).shape == (2, 3) and torch.cuda.LongTensor(2, 3).is_cuda
    assert x.type("torch.LongTensor").device.type == "cpu" and x.type(torch.DoubleTensor).type() == "dynograd.DoubleTensor"
    assert x.type("torch.cuda.HalfTensor").type() == "dynograd.cuda.HalfTensor"
    assert torch.zeros(2).type(torch.cuda.LongTensor).type() == "dynograd.cuda.LongTensor"
    assert x.type(torch.float64).type() == "dynograd.cuda.DoubleTensor"
    torch.set_default_tensor_type(torch.cuda.DoubleTensor)
    assert torch.zeros(2).type() == "dynograd.cuda.DoubleTensor"
    torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.zeros(2).type() == "dynograd.FloatTensor"

    runtime = torch.cuda.cudart()
    free, total = runtime.cudaMemGetInfo(0)
    assert 0 < free <= total
    success = runtime.cudaError.success
    assert runtime.cudaProfilerStart() == runtime.cudaProfilerStop() == runtime.cudaDeviceSynchronize() == success == 0
    assert runtime.cudaGetErrorString(success) == "no error" and "700" in runtime.cudaGetErrorString(700)
    try:
        runtime.cudaMalloc
    except AttributeError as error:
        assert "cuda.cudart: cudaMalloc is not there" in str(error) and "cuda-bindings" in str(error)
    else:
        raise AssertionError

    stream, event = torch.Stream(priority=-1), torch.Event("cuda", enable_timing=True)
    assert type(stream) is torch.cuda.Stream and isinstance(stream, torch.Stream) and isinstance(event, torch.Event)
    with stream:
        event.record()
    torch.Stream("cpu").wait_event(event)
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.accelerator.get_memory_info()[1] == total
"""


def test_with_a_gpu():
    pytest.importorskip("triton")
    environment = os.environ | {"DYNOGRAD_CUDA": "emulated"}
    command = [sys.executable, "-c", textwrap.dedent(ON_A_GPU)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
