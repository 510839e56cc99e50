"""Kernels that users write, on Tensors; with gradients through `autograd.Function`."""

import numpy
import pytest
import triton
import triton.language as tl

import dynograd
from dynograd.errors import DeviceError
from dynograd.kernels.build.simt_language import cuda as numba_cuda


@triton.jit
def swish_kernel(x, y, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < count).to(tl.float32)
    tl.store(y + place, value * tl.sigmoid(value), mask=place < count)


@triton.jit
def swish_backward_kernel(x, g, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < count).to(tl.float32)
    s = tl.sigmoid(value)
    tl.store(out + place, tl.load(g + place, mask=place < count) * s * (1 + value * (1 - s)), mask=place < count)


@numba_cuda.jit
def doubled(x, y):
    i, j = numba_cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = 2 * x[i, j]


class Swish(dynograd.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = dynograd.empty_like(x)
        swish_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = dynograd.empty_like(x)
        swish_backward_kernel[(1,)](x, g.contiguous(), out, x.numel(), BLOCK=128)
        return out


class Doubled(dynograd.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = dynograd.empty_like(x)
        doubled[(2, 1), (2, 4)](x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        out = dynograd.empty_like(g)
        doubled[(2, 1), (2, 4)](g, out)
        return out


def swish(x):
    return x / (1 + numpy.exp(-x))


@pytest.mark.parametrize("dtype, close", [("float32", 1e-6), ("float64", 1e-6), ("bfloat16", 1e-2), ("float16", 1e-3)])
def test_triton_kernel_on_tensors(dtype, close):
    x = dynograd.randn(100).to(getattr(dynograd, dtype))
    on_device, y = x.to("cuda"), dynograd.zeros(100, dtype=x.dtype, device="cuda")
    swish_kernel[(2,)](on_device, y, 100, BLOCK=64)
    expected = swish(x.double().numpy())
    assert abs(y.cpu().double().numpy() - expected).max() < close * max(1, abs(expected).max())


def test_grids_of_functions_and_views():
    x = dynograd.randn(101).to("cuda")
    y = dynograd.zeros(100, device="cuda")
    swish_kernel[lambda meta: (triton.cdiv(meta["count"], meta["BLOCK"]),)](x[1:], y, 100, BLOCK=32)
    assert abs(y.cpu().numpy() - swish(x.cpu().numpy()[1:])).max() < 1e-5


def test_triton_kernel_with_a_gradient():
    x = dynograd.randn(7, 13).to("cuda").requires_grad_()
    y = Swish.apply(x)
    y.sum().backward()
    other = x.detach().cpu().requires_grad_()
    (other * other.sigmoid()).sum().backward()
    assert dynograd.allclose(y.cpu(), other * other.sigmoid(), atol=1e-6)
    assert dynograd.allclose(x.grad.cpu(), other.grad, atol=1e-6)


def test_numba_kernel_on_tensors():
    x = dynograd.randn(3, 4).to("cuda")
    y = dynograd.zeros(4, 3, device="cuda")
    doubled[(2, 1), (2, 4)](x.t(), y)
    assert (y.cpu() == 2 * x.cpu().t()).all()


def test_numba_kernel_with_a_gradient():
    x = dynograd.randn(3, 4).to("cuda").requires_grad_()
    (Doubled.apply(x) * 3).sum().backward()
    assert (x.grad.cpu() == 6).all()


def test_cpu_tensors_are_refused():
    y = dynograd.zeros(8, device="cuda")
    with pytest.raises(DeviceError, match=r"swish_kernel: an argument of shape .*8.* is on the CPU.*to\('cuda'\)"):
        swish_kernel[(1,)](dynograd.randn(8), y, 8, BLOCK=8)


def test_the_interface_that_other_libraries_read():
    x = dynograd.zeros(3, 4, device="cuda")
    result = x.t().__cuda_array_interface__
    assert (result["shape"], result["strides"], result["typestr"], result["data"]) == (
        (4, 3),
        (4, 16),
        "<f4",
        (x.data_ptr(), False),
    )
    assert x.__cuda_array_interface__["strides"] is None
    assert not hasattr(dynograd.zeros(3), "__cuda_array_interface__")
    x.requires_grad_()
    with pytest.raises(RuntimeError, match=r"requires grad.*x\.detach\(\)"):
        _ = x.__cuda_array_interface__
    assert x.detach().__cuda_array_interface__["data"][0] == x.data_ptr()
