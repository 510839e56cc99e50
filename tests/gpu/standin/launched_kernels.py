"""Kernels for the cases of the launcher. The stand-in runs `add_f32` and `fill_f32` itself, from the parameters it is given."""

import triton.language as tl

from dynograd.kernels.build.launching_cuda import simt_kernel, triton_kernel
from dynograd.kernels.build.simt_language import cuda


@triton_kernel(variants=[])
def add_f32(out, a, b, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    tl.store(out + place, tl.load(a + place, mask=inside) + tl.load(b + place, mask=inside), mask=inside)


@triton_kernel(variants=[])
def fill_f32(out, value, count):
    tl.store(out + tl.program_id(0), value, mask=tl.program_id(0) < count)


@triton_kernel(variants=[])
def every_kind(x, flag, columns, missing, single, wide, y, BLOCK: tl.constexpr, KIND: tl.constexpr = tl.float32):
    place = tl.arange(0, BLOCK)
    value = tl.load(x + place * columns).to(KIND) * single + wide
    if flag:
        value += 1
    if missing is not None:
        value += tl.load(missing)
    tl.store(y + place, value)


@triton_kernel(variants=[], divisible=("stride",))
def rows(x, y, stride, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(x + place, mask=place < count), mask=place < count)


@triton_kernel(variants=[])
def products(a, b, c, SIZE: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, SIZE)[:, None]
    j = tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for step in range(STEPS):
        total += tl.dot(tl.load(a + step * SIZE * SIZE + i * SIZE + j), tl.load(b + step * SIZE * SIZE + i * SIZE + j))
    tl.store(c + i * SIZE + j, total)


@triton_kernel(variants=[])
def described(x, y, rows, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[rows, BLOCK], strides=[BLOCK, 1], block_shape=[BLOCK, BLOCK])
    i = tl.arange(0, BLOCK)
    tl.store(y + i[:, None] * BLOCK + i[None, :], source.load([0, 0]))


@triton_kernel(variants=[])
def wrong(x, y):
    tl.store(x, tl.load(y) @ 3)


@simt_kernel(variants=[], arrays=("total",))
def counted(x, total, count, factor):
    i = cuda.grid(1)
    if i < count:
        cuda.atomic.add(total, 0, x[i] * factor)
