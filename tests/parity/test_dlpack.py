"""DLPack with PyTorch and JAX in one process: memory is shared, dtypes stay."""

import gc

import numpy
import pytest

import dynograd as dg

COMMON = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def values(name):
    return dg.tensor([[0, 1, 2], [1, 0, 3]]).to(getattr(dg, name))


@pytest.mark.parametrize("name", [*COMMON, *FLOAT8])
def test_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make peers")
    x = values(name)
    there = torch.from_dlpack(x)
    assert there.data_ptr() == x.data_ptr() and str(there.dtype) == f"torch.{name}" and there.shape == (2, 3)
    assert torch.utils.dlpack.from_dlpack(dg.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert torch.from_dlpack(x.t()).stride() == (1, 3)
    back = dg.from_dlpack(there)
    assert back.data_ptr() == x.data_ptr() and back.dtype is x.dtype
    own = torch.arange(6).reshape(2, 3).to(getattr(torch, name)).t()
    here = dg.from_dlpack(own)
    assert here.data_ptr() == own.data_ptr() and here.stride() == own.stride() and here.dtype is getattr(dg, name)
    assert dg.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(own)).data_ptr() == own.data_ptr()
    copy = torch.from_dlpack(x, copy=True)
    assert copy.data_ptr() != x.data_ptr()


def test_a_write_is_seen_on_the_other_side():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make peers")
    x = dg.zeros(3)
    torch.from_dlpack(x)[0] = 5
    y = torch.zeros(3)
    dg.from_dlpack(y)[1] = 7
    assert x.tolist() == [5, 0, 0] and y.tolist() == [0, 7, 0]
    del y
    gc.collect()


@pytest.mark.parametrize("name", [*COMMON, *FLOAT8])
def test_jax(jax, name):
    x = values(name)
    there = jax.dlpack.from_dlpack(x)
    assert there.dtype == getattr(jax.numpy, name if name != "bool" else "bool_") and there.shape == (2, 3)
    assert numpy.asarray(there).tobytes() == x.numpy().tobytes()
    back = dg.from_dlpack(there)
    assert back.dtype is x.dtype and back.numpy().tobytes() == x.numpy().tobytes()
    assert back.data_ptr() == there.unsafe_buffer_pointer()


def test_jax_computes_on_tensors_and_the_other_way_round(jax):
    x = dg.arange(1000.0)
    y = jax.jit(lambda x: x * 2 + 1)(jax.numpy.from_dlpack(x))
    z = dg.from_dlpack(y)
    del y
    gc.collect()
    assert dg.equal(z, x * 2 + 1)
