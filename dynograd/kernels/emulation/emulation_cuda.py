"""Runs GPU kernels on host memory: Triton's in Triton's interpreter (repaired), numba-cuda's in its simulator."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.build.launch_arguments_cuda import Double, array_of, type_of


def triton_runner(function: Any, constants: dict[str, Any]) -> Callable[..., None]:
    """A function (grid, *arguments) that runs a `triton.jit` function, program by program.

    Arguments become what they are on a GPU: an int is int32 (int64 where it needs it), a float float32, a `Double` float64.
    """
    _repair()
    import triton.language as tl
    from triton.runtime import interpreter

    body = function.rewrite()
    names = [name for name in function.arg_names if name not in constants]
    builder = interpreter.interpreter_builder
    handle, tensor = interpreter.TensorHandle, tl.tensor
    pointers: dict[Any, Any] = {}

    def seen(value: Any) -> Any:
        if isinstance(value, CudaArray):
            kind = pointers.get(value.dtype)
            if kind is None:
                kind = pointers[value.dtype] = tl.str_to_ty(type_of(value), None)
            return tensor(handle(numpy.array([value.pointer], dtype=numpy.uint64), kind), kind)
        kind = type(value)
        if kind is bool:
            return tensor(handle(numpy.array([value]), tl.int1), tl.int1)
        if kind is int:
            if type_of(value) == "i64":
                return tensor(handle(numpy.array([value], dtype=numpy.int64), tl.int64), tl.int64)
            return tensor(handle(numpy.array([value], dtype=numpy.int32), tl.int32), tl.int32)
        if kind is Double:
            return tensor(handle(numpy.array([value], dtype=numpy.float64), tl.float64), tl.float64)
        if kind is float:
            return tensor(handle(numpy.array([value], dtype=numpy.float32), tl.float32), tl.float32)
        return value

    def run(grid: tuple[int, ...], *arguments: Any) -> None:
        if 0 in grid:
            return
        cuda_arrays.same_device(function.__name__, *arguments)
        with _running, numpy.errstate(all="ignore"):
            interpreter._patch_lang(function.fn)
            values = {name: seen(value) for name, value in zip(names, arguments, strict=True)}
            wide = (*grid, 1, 1)[:3]
            builder.set_grid_dim(*wide)
            for place in itertools.product(*map(range, wide)):
                builder.set_grid_idx(*place)
                body(**values, **constants)

    return run


def simt_runner(function: Any, threads: int, shared: int) -> Callable[..., None]:
    """A function (grid, *arguments) that runs a kernel of numba-cuda, block by block."""
    from dynograd.kernels.emulation.simt_emulation_cuda import run_blocks

    def run(grid: tuple[int, ...], *arguments: Any) -> None:
        if 0 in grid:
            return
        cuda_arrays.same_device(function.__name__, *arguments)
        memories = [_memory_of(argument) if isinstance(argument, CudaArray) else argument for argument in arguments]
        with _running, numpy.errstate(all="ignore"):
            run_blocks(function, grid, threads, shared, tuple(memories))

    return run


def _memory_of(array: CudaArray) -> Any:
    """The memory from the first element to the end of its storage, flat."""
    if not array.storage.nbytes:
        return numpy.empty(0, array.dtype)
    rest = array.storage.pointer + array.storage.nbytes - array.pointer
    raw = (ctypes.c_char * rest).from_address(array.pointer)
    return numpy.frombuffer(raw, array.dtype, rest // array.dtype.itemsize)


def _view_of(array: CudaArray) -> numpy.ndarray:
    """The memory of an array as a NumPy array."""
    if not array.size:
        return numpy.empty(array.shape, array.dtype)
    low = array.pointer + sum([min(0, (size - 1) * step) for size, step in zip(array.shape, array.strides)])
    high = (
        array.pointer
        + sum([max(0, (size - 1) * step) for size, step in zip(array.shape, array.strides)])
        + array.itemsize
    )
    raw: Any = (ctypes.c_char * (high - low)).from_address(low)
    return numpy.ndarray(array.shape, array.dtype, raw, array.pointer - low, array.strides)


class _Memory:
    """A CudaArray as Triton's interpreter wants a tensor to be; nothing is copied."""

    def __init__(self, array: CudaArray) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

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
        return self.shape

    def stride(self) -> tuple[int, ...]:
        return tuple([step // self.array.itemsize for step in self.array.strides])


def take_tensors() -> None:
    """Lets kernels that users write (`@triton.jit`, `@numba.cuda.jit`) take Tensors and CudaArrays."""
    from triton.runtime import interpreter

    _repair()
    executor = interpreter.GridExecutor
    execute = executor.__call__
    if getattr(execute, "takes_tensors", False):
        return

    def call(self: Any, *arguments: Any, **constants: Any) -> Any:
        def seen(value: Any) -> Any:
            array = array_of(value, self.fn.__name__)
            return value if array is None else _Memory(array)

        with _running, numpy.errstate(all="ignore"):
            return execute(self, *map(seen, arguments), **{name: seen(value) for name, value in constants.items()})

    call.takes_tensors = True  # type: ignore[attr-defined]
    executor.__call__ = call
    try:
        from dynograd.kernels.build.simt_language import simulated_kernel as kernel
    except ImportError:
        return
    simulate = kernel.FakeCUDAKernel.__call__

    def simulated(self: Any, *arguments: Any) -> Any:
        if self._device or kernel._kernel_context:
            return simulate(self, *arguments)
        arrays = [
            None if isinstance(value, numpy.ndarray) else array_of(value, self.fn.__name__) for value in arguments
        ]
        return simulate(
            self, *[value if array is None else _view_of(array) for value, array in zip(arguments, arrays, strict=True)]
        )

    kernel.FakeCUDAKernel.__call__ = simulated  # type: ignore[method-assign]


_running = threading.RLock()  # the interpreter's and the simulator's state is global
_repaired = False


def _repair() -> None:
    """Mends Triton's interpreter where it differs from the compiler: see the functions."""
    global _repaired
    if _repaired or os.environ.get("TRITON_INTERPRET") != "1":  # else the language is the compiler's in this process
        return
    _repaired = True
    import inspect

    import triton.language as tl
    import triton.runtime.interpreter as interpreter

    # adds and products are computed once, not again in 64 bits to see whether they overflow: a third of the time
    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    dot, splat, cast, patch_tensor, patch_language = (
        builder.create_dot, builder.create_splat, builder.cast_impl, interpreter._patch_lang_tensor,
        interpreter._patch_lang,
    )  # fmt: skip

    fma = builder.create_fma

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
        """float32 is rounded to the nearest bfloat16; whole numbers and float64 become one by way of float32."""
        before, after = source.dtype.scalar, kind.scalar
        if after == tl.bfloat16 and (before == tl.float64 or not before.is_floating()):
            source, before = cast(self, source, tl.float32), tl.float32
        if before == tl.float32 and after == tl.bfloat16:
            bits = numpy.ascontiguousarray(source.data, dtype=numpy.float32).view(numpy.uint32)
            rounded = ((bits + numpy.uint32(0x7FFF) + ((bits >> 16) & numpy.uint32(1))) >> 16).astype(numpy.uint16)
            return handle(numpy.where(numpy.isnan(source.data), numpy.uint16(0x7FC0), rounded), tl.bfloat16)
        if before == tl.bfloat16 and after in (tl.float32, tl.float64):
            wide = widened(source.data)
            return handle(wide if after == tl.float32 else wide.astype(numpy.float64), after)
        return cast(self, source, kind)

    def of_numbers(compare: Any) -> Any:
        def compared(self: Any, first: Any, other: Any) -> Any:
            """bfloat16 operands are compared as numbers, not as bit patterns."""
            sides = [
                handle(widened(x.data), tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (first, other)
            ]
            return compare(self, *sides)

        return compared

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded once."""
        if x.data.dtype != numpy.float32:
            return fma(self, x, y, z)
        exact = x.data.astype(numpy.float64) * y.data + z.data
        return handle(exact.astype(numpy.float32), z.dtype.scalar)

    def patched_tensor(tensor: Any, scope: Any) -> None:
        """Scalars can be bounds of `range`."""
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    builder.create_dot, builder.create_splat, builder.cast_impl = create_dot, create_splat, cast_impl
    # As on a GPU, and in Triton's own interpreter since 3.9: a NaN loses against a number unless asked otherwise, fma rounds once.
    builder.create_minnumf = lambda self, first, other: self.binary_op(first, other, numpy.fmin)
    builder.create_maxnumf = lambda self, first, other: self.binary_op(first, other, numpy.fmax)
    builder.create_fma = create_fma
    for name in [name for name in dir(builder) if name.startswith("create_fcmp")]:
        setattr(builder, name, of_numbers(getattr(builder, name)))
    interpreter._patch_lang_tensor = patched_tensor

    def sort(x: Any, dim: Any = None, descending: bool = False) -> Any:
        """The last dim in order, in one step: Triton's network of steps takes seconds here."""
        ordered = numpy.sort(x.handle.data, -1)
        return tl.core.tensor(handle(ordered[..., ::-1] if descending else ordered, x.dtype), x.type)

    tl.sort = sort

    known: dict[int, bool] = {}
    patched: set[int] = set()

    class Nothing:
        def restore(self) -> None: ...

    def patch_for_good(function: Any) -> Any:
        """The language is patched once a process, not once a launch and once a nested function: nothing else uses it here."""
        key = id(function.__globals__)
        if key not in known:
            known[key] = True
            used = {
                id(module)
                for module in function.__globals__.values()
                if inspect.ismodule(module) and module in (tl, tl.core)
            }
            if not used or not used <= patched:
                patch_language(function)
                patched.update(used)
        return Nothing()

    interpreter._patch_lang = patch_for_good
