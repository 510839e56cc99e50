"""What nccl4py itself takes, where it is installed: the stand-in has its signatures, and it finds the memory and the dtypes of our arrays."""

import importlib.util
import inspect

import pytest

import dynograd as dg
from dynograd.cuda import streams
from dynograd.distributed.communicators import device_watch, nccl
from tests.support import standin_nccl

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nccl") is None, reason="nccl4py is not installed: the extra nccl"
)
METHODS = "init destroy abort get_async_error get_last_error allreduce reduce reduce_scatter allgather broadcast send recv".split()
FUNCTIONS = ("get_unique_id", "get_error_string", "group")


def parameters(function):
    return [(name, kind.kind, kind.default) for name, kind in inspect.signature(function).parameters.items()]


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_the_stand_in_are_called_like_those_of_nccl4py(name):
    from nccl import core

    ours, theirs = getattr(standin_nccl.Communicator, name), getattr(core.Communicator, name)
    assert parameters(ours) == parameters(theirs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_stand_in_are_called_like_those_of_nccl4py(name):
    from nccl import core

    theirs = [name for name, _, default in parameters(getattr(core, name)) if default is inspect.Parameter.empty]
    ours = [name for name, _, default in parameters(getattr(standin_nccl, name)) if default is inspect.Parameter.empty]
    assert len(ours) == len(theirs)


def test_constants():
    from nccl import core
    from nccl.bindings import nccl as bindings

    for name in nccl._OPS.values():
        assert int(getattr(core, name)) == int(getattr(standin_nccl, name))
    assert (int(bindings.Result.Success), int(bindings.Result.InProgress)) == device_watch._RUNNING
    for state in (bindings.Result.Success, bindings.Result.RemoteError):
        assert core.get_error_string(state) == standin_nccl.get_error_string(int(state))
    assert isinstance(core.UniqueId.from_bytes(bytes(128)), core.UniqueId)


@pytest.mark.skipif(not dg.cuda.is_available(), reason="needs a device: DYNOGRAD_CUDA=emulated:2")
@pytest.mark.parametrize("name", nccl._NUMBERS)
def test_it_finds_the_numbers_of_arrays(name):
    from nccl import core
    from nccl.core.buffer import NcclBuffer

    index = dg.cuda.device_count() - 1
    x = dg.zeros(7, dtype=getattr(dg, name), device=f"cuda:{index}")
    buffer = NcclBuffer(nccl._lent(x.array))
    assert buffer.ptr == x.data_ptr() and buffer.count == 7 and buffer.device_id == index
    assert buffer.dtype == getattr(core, name.upper())


@pytest.mark.skipif(not dg.cuda.is_available(), reason="needs a device: DYNOGRAD_CUDA=emulated:2")
def test_it_takes_our_streams():
    from nccl.core.cuda import get_stream_ptr

    stream = streams.Stream(0)
    assert get_stream_ptr(stream) == stream.cuda_stream
