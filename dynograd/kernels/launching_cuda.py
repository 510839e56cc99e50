"""Kernels for the GPU and how they are launched.

`@triton_kernel(variants=[...])` makes a function in Triton's language into a kernel, `@simt_kernel(variants=[...])` one in
numba-cuda's. A kernel is called with its grid first: `rows_sum((rows,), x, y, columns, BLOCK=1024, num_warps=4)`.

Arguments: a CudaArray is a pointer to its first element, an int an i32 (i64 where it needs one), a float a float32, `Double(x)`
a float64, a bool a truth; keyword arguments are compile-time constants, and `num_warps`, `num_stages`. A variant gives the types
that the offline tests compile: `dict(x="*fp32", y="*fp32", columns="i32", BLOCK=1024, num_warps=4)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import driver

__all__ = ["Double", "SimtKernel", "TritonKernel", "simt_kernel", "triton_kernel"]

class Double(float):
    """A float argument that the kernel takes as float64."""

    __slots__ = ()


class TritonKernel:
    """A kernel in Triton's language; see the module's text for how it is called."""

    def __init__(self, function: Callable[..., Any], variants: list[dict[str, Any]]) -> None:
        import triton

        self.name, self.module = function.__name__, function.__module__
        self.function = triton.jit(function)
        self.variants = variants

    def __call__(self, grid: tuple[int, ...], *arguments: Any, num_warps: int = 4, num_stages: int = 3, **constants: Any) -> None:
        """Puts the kernel on the current stream of the arrays' device."""
        if 0 in grid:
            return
        if driver.is_emulated():
            from dynograd.kernels import emulation_cuda

            emulation_cuda.run_triton(self.function, grid, arguments, constants)
            return
        raise NotImplementedError("launch")

    def __repr__(self) -> str:
        return f"<triton kernel {self.name}>"


class SimtKernel:
    """A kernel in numba-cuda's language on pointers; called with its grid and the threads of a block: `k((n,), 128, x, y)`."""

    def __init__(self, function: Callable[..., Any], variants: list[dict[str, Any]]) -> None:
        self.name, self.module, self.function, self.variants = (
            function.__name__, function.__module__, function, variants,
        )  # fmt: skip

    def __call__(self, grid: tuple[int, ...], threads: int, *arguments: Any) -> None:
        if 0 in grid:
            return
        if driver.is_emulated():
            from dynograd.kernels import emulation_cuda

            emulation_cuda.run_simt(self.function, grid, threads, arguments)
            return
        raise NotImplementedError("launch")

    def __repr__(self) -> str:
        return f"<simt kernel {self.name}>"


def triton_kernel(*, variants: list[dict[str, Any]]) -> Callable[[Callable[..., Any]], TritonKernel]:
    """Makes a function in Triton's language into a kernel."""
    return lambda function: TritonKernel(function, variants)


def simt_kernel(*, variants: list[dict[str, Any]]) -> Callable[[Callable[..., Any]], SimtKernel]:
    """Makes a function in numba-cuda's language into a kernel."""
    return lambda function: SimtKernel(function, variants)
