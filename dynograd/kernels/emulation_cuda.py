"""Runs GPU kernels on host memory: Triton's in Triton's interpreter (repaired), numba-cuda's in its simulator."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.launching_cuda import Double

__all__ = ["run_simt", "run_triton"]


class _Memory:
    """A CudaArray as Triton's interpreter wants a tensor to be; nothing is copied."""

    __slots__ = ("array", "dtype")

    def __init__(self, array: CudaArray) -> None:
        self.array, self.dtype = array, array.dtype

    def data_ptr(self) -> int:
        return self.array.pointer

    def untyped_storage(self) -> _Memory:
        return self

    def cpu(self) -> _Memory:
        return self

    def copy_(self, other: Any) -> _Memory:
        return self

    def new_empty(self, count: int, device: Any = None) -> _Memory:
        return self

    def set_(self, *parts: Any) -> _Memory:
        return self

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple([step // self.array.itemsize for step in self.array.strides])


def run_triton(function: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
    _repair()
    given = [
        _Memory(one) if isinstance(one, CudaArray) else float(one) if isinstance(one, Double) else one
        for one in arguments
    ]
    with numpy.errstate(all="ignore"):
        function[grid](*given, **constants)


def run_simt(function: Any, grid: tuple[int, ...], threads: int, arguments: tuple[Any, ...]) -> None:
    import numba

    numba.config.ENABLE_CUDASIM = True
    from numba import cuda

    given = [_memory_of(one) if isinstance(one, CudaArray) else one for one in arguments]
    cuda.jit(function)[grid, threads](*given)


def _memory_of(array: CudaArray) -> Any:
    """The memory from the first element to the end of its storage, flat."""
    rest = array.storage.pointer + array.storage.nbytes - array.pointer
    raw = (ctypes.c_char * rest).from_address(array.pointer)
    return numpy.frombuffer(raw, array.dtype, rest // array.dtype.itemsize)


_repaired = False


def _repair() -> None:
    """Mends Triton's interpreter where it differs from the compiler: see the functions."""
    global _repaired
    if _repaired:
        return
    _repaired = True
    import inspect

    import triton.language as tl
    import triton.runtime.interpreter as interpreter

    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    dot, splat, cast, patch_tensor, patch_language = (
        builder.create_dot, builder.create_splat, builder.cast_impl, interpreter._patch_lang_tensor,
        interpreter._patch_lang,
    )  # fmt: skip

    def widened(data: Any) -> Any:
        return (data.astype(numpy.uint32) << 16).view(numpy.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        """bfloat16 operands are multiplied as numbers, not as bit patterns."""
        if a.dtype.scalar == tl.bfloat16:
            a = handle(widened(a.data), tl.float32)
        if b.dtype.scalar == tl.bfloat16:
            b = handle(widened(b.data), tl.float32)
        return dot(self, a, b, d, *rest)

    def create_splat(self: Any, kind: Any, value: Any) -> Any:
        """A splatted truth stays a truth."""
        if value.data.dtype == numpy.bool_:
            return handle(numpy.full(kind.shape, value.data, dtype=numpy.bool_), tl.int1)
        return splat(self, kind, value)

    def cast_impl(self: Any, source: Any, kind: Any) -> Any:
        """float32 is rounded to the nearest bfloat16."""
        before, after = source.dtype.scalar, kind.scalar
        if before == tl.float32 and after == tl.bfloat16:
            bits = numpy.ascontiguousarray(source.data, dtype=numpy.float32).view(numpy.uint32)
            rounded = ((bits + numpy.uint32(0x7FFF) + ((bits >> 16) & numpy.uint32(1))) >> 16).astype(numpy.uint16)
            return handle(numpy.where(numpy.isnan(source.data), numpy.uint16(0x7FC0), rounded), tl.bfloat16)
        if before == tl.bfloat16 and after == tl.float32:
            return handle(widened(source.data), tl.float32)
        return cast(self, source, kind)

    def patched_tensor(tensor: Any, scope: Any) -> None:
        """Scalars can be bounds of `range`."""
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    builder.create_dot, builder.create_splat, builder.cast_impl = create_dot, create_splat, cast_impl
    interpreter._patch_lang_tensor = patched_tensor

    known: dict[int, frozenset[int]] = {}
    active: list[Any] = []

    def languages(function: Any) -> frozenset[int]:
        key = id(function.__globals__)
        if key not in known:
            known[key] = frozenset(
                id(value) for value in function.__globals__.values() if inspect.ismodule(value) and value in (tl, tl.core)
            )
        return known[key]

    class Outer:
        def __init__(self, scope: Any, patched: set[int]) -> None:
            self.scopes, self.patched = [scope], patched

        def restore(self) -> None:
            for scope in reversed(self.scopes):
                scope.restore()
            active.clear()

    class Inner:
        def restore(self) -> None: ...

    def patch_once(function: Any) -> Any:
        """The language is patched once a launch, not once a nested function."""
        wanted = languages(function)
        if active:
            if not wanted <= active[0].patched:
                active[0].scopes.append(patch_language(function))
                active[0].patched |= wanted
            return Inner()
        active.append(Outer(patch_language(function), set(wanted)))
        return active[0]

    interpreter._patch_lang = patch_once
