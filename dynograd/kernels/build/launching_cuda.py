"""Kernels for the GPU and how they are launched.

`@triton_kernel(variants=[...])` makes a function in Triton's language into a kernel, `@simt_kernel(variants=[...])` one in
numba-cuda's. A kernel is called with its grid first: `rows_sum((rows,), x, y, columns, BLOCK=1024, num_warps=4)`.

Arguments: a CudaArray is a pointer to its first element, an int an i32 (i64 where it needs one), a float a float32, `Double(x)`
a float64, a bool a truth, None a constant; keyword arguments are compile-time constants, and `num_warps`, `num_stages`. A variant
gives the types that the offline tests compile: `dict(x="*fp32", y="*fp32", columns="i32", BLOCK=1024, num_warps=4)`; also
`aligned=False` (addresses that are no multiples of 16), `spills=` (bytes allowed; 0), `capability=(9, 0)` (the least it is for).

A launch costs little because nothing is looked up twice: for each set of constants and of kinds of arguments a function is
generated that checks devices, finds the machine code by dtypes and alignment, packs the arguments and calls the driver.
"""

from __future__ import annotations

import hashlib
import inspect
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.base.generated_sources import run_source
from dynograd.cuda import allocator, driver, streams, thread_state
from dynograd.errors import DeviceError
from dynograd.kernels.build.launch_arguments_cuda import (
    INT32,
    INT64,
    PLAIN,
    ROLES,
    Double,
    alignment_mask,
    packed_as,
    parameter_blocks,
    type_of,
)
from dynograd.kernels.emulation import emulation_cuda


class _Kernel:
    """What kernels of both languages share: the function that a caller calls, and finding machine code for what it was given."""

    def __init__(
        self, function: Callable[..., Any], variants: list[dict[str, Any]], divisible: tuple[str, ...]
    ) -> None:
        self.name, self.module, self.variants, self.divisible = (
            function.__name__, function.__module__, variants, frozenset(divisible),
        )  # fmt: skip
        self.defaults: dict[str, Any] = {}
        self.names: list[str] = []  # of the arguments
        self.constants: list[str] = []
        self.arrays: frozenset[str] = frozenset()
        self.most = 0  # threads of a block that there is machine code for; 0: whatever is asked for
        self.lock = threading.RLock()
        self.runners: dict[Any, Callable[..., None]] = {}
        self.launchers: dict[Any, _Launcher] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            (self.constants if _is_constexpr(parameter.annotation) else self.names).append(name)
            if parameter.default is not inspect.Parameter.empty:
                self.defaults[name] = parameter.default

    @property
    def title(self) -> str:
        """Its module and name."""
        return f"{self.module}.{self.name}"

    def compiled(
        self, types: dict[str, str], aligned: frozenset[str], constants: Any, capability: tuple[int, int]
    ) -> Any:
        """The `Binary` for these types and constants.

        Raises:
            KernelCompileError: the compiler refuses it.
        """
        raise NotImplementedError

    def stamp(self) -> str:
        """What tells the kernel's text from an earlier one."""
        raise NotImplementedError

    def in_emulation(self, constants: dict[str, Any]) -> Callable[..., None]:
        """A function (grid, *arguments) that runs the kernel on host memory."""
        raise NotImplementedError

    def call(self, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...]) -> None:
        """A launch whose arguments were not expected. The first one on a GPU teaches `entry` what to expect."""
        arguments = tuple(
            [
                argument if type(argument) in ROLES else self._plain(argument, place)
                for place, argument in enumerate(arguments)
            ]
        )
        kinds = (*map(type, arguments), *map(type, constants))
        used = driver.get(self.title)
        if used.emulated:
            key = (*constants, *map(type, constants))
            runner = self.runners.get(key)
            if runner is None:
                runner = self.runners[key] = self.in_emulation(dict(zip(self.constants, constants, strict=True)))
                exercised.add(self.title)
            used.put(lambda: runner(grid, *arguments))
            return
        launcher = self.launchers.get(kinds)
        if launcher is None:
            with self.lock:
                roles = "".join([ROLES[type(argument)] for argument in arguments])
                launcher = self.launchers.setdefault(kinds, _Launcher(self, roles, kinds[len(arguments) :]))
                if len(self.launchers) == 1:
                    self.entry.__globals__.update(launcher.names_used)
                    self.entry.__code__ = launcher.code
        launcher.launch(grid, *arguments, *constants)

    def settled(self, arguments: tuple[Any, ...], constants: dict[str, Any]) -> tuple[Any, ...] | None:
        """(packer, function, threads, shared bytes, the driver's launch) of a launch with such arguments that has been done.

        It holds for arrays of the same layouts at addresses that are multiples of 16, the same ints in `divisible` arguments
        and numbers that the packer takes. None in emulation, and where the launch needs more than that.
        """
        values = tuple([constants.get(name, self.defaults.get(name)) for name in self.constants])
        launcher = self.launchers.get((*map(type, arguments), *map(type, values)))
        return None if launcher is None else launcher.settled(arguments, values)

    def _plain(self, argument: Any, place: int) -> Any:
        """A number of NumPy's as Python's.

        Raises:
            TypeError: no kernel takes such an argument.
        """
        if isinstance(argument, (bool, numpy.bool_)):
            return bool(argument)
        if isinstance(argument, (int, numpy.integer)):
            return int(argument)
        if isinstance(argument, (float, numpy.floating)):
            return float(argument)
        if isinstance(argument, numpy.ndarray):
            raise DeviceError(f"{self.title}: {self.names[place]} is a CPU array; the kernel runs on a GPU.")
        raise TypeError(
            f"{self.title}: {self.names[place]} is a {type(argument).__name__}; kernels take CudaArrays and numbers."
        )

    def make_entry(self) -> Callable[..., None]:
        """The function that callers call."""
        names = f"({''.join(f'{name}, ' for name in self.names)})"
        constants = f"({''.join(f'{name}, ' for name in self.constants)})"
        text = f"{self.heading()}\n    _call(_grid, {names}, {constants})\n"
        space = {
            "_call": self.call,
            "__name__": self.module,
            **{f"_d_{name}": default for name, default in self.defaults.items()},
        }
        entry = run_source(text, f"kernel {self.name}", space)[self.name]
        entry.kernel = self
        self.entry = entry
        return entry

    def heading(self, keywords: bool = True) -> str:
        """`def name(grid, ...):`"""

        def one(name: str) -> str:
            return f"{name}=_d_{name}" if name in self.defaults else name

        star = ["*"] if keywords and self.constants else []
        return f"def {self.name}({', '.join(['_grid', *map(one, self.names), *star, *map(one, self.constants)])}):"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.title}>"


exercised: set[str] = set()  # titles of the kernels that this process has run in emulation


class TritonKernel(_Kernel):
    """A kernel in Triton's language."""

    def __init__(
        self,
        function: Callable[..., Any],
        variants: list[dict[str, Any]],
        divisible: tuple[str, ...],
        exact: bool = False,
    ) -> None:
        import triton

        super().__init__(function, variants, divisible)
        self.exact = exact
        self.function = triton.jit(function)
        self.own = tuple(self.constants)
        self.constants += [name for name in ("num_warps", "num_stages") if name not in self.own]
        self.defaults = {"num_warps": 4, "num_stages": 3, **self.defaults}

    def compiled(
        self, types: dict[str, str], aligned: frozenset[str], constants: Any, capability: tuple[int, int]
    ) -> Any:
        from dynograd.kernels.build import compiling_cuda

        own = {name: constants[name] for name in self.own}
        own |= {name: None for name, kind in types.items() if kind == "None"}
        types = {name: kind for name, kind in types.items() if kind != "None"}
        return compiling_cuda.compile_triton(
            self.function, types, aligned, own, constants["num_warps"], constants["num_stages"], capability, self.exact
        )

    def stamp(self) -> str:
        return self.title + self.function.cache_key

    def in_emulation(self, constants: dict[str, Any]) -> Callable[..., None]:
        return emulation_cuda.triton_runner(self.function, {name: constants[name] for name in self.own})


class SimtKernel(_Kernel):
    """A kernel in numba-cuda's language on pointers; called with its grid and the threads of a block: `k((n,), 128, x, y)`.

    `shared=` gives the bytes that `cuda.shared.array(0, ...)` has; it is no matter of the machine code.
    """

    def __init__(
        self, function: Callable[..., Any], variants: list[dict[str, Any]], arrays: tuple[str, ...], most: int = 0
    ) -> None:
        super().__init__(function, variants, ())
        self.function, self.arrays, self.most = function, frozenset(arrays), most
        self.constants, self.defaults = ["threads", "shared"], {"shared": 0}

    def compiled(
        self, types: dict[str, str], aligned: frozenset[str], constants: Any, capability: tuple[int, int]
    ) -> Any:
        from dynograd.kernels.build import compiling_cuda

        if "None" in types.values():
            raise TypeError(f"{self.title}: None is no argument for a kernel of numba-cuda.")
        most = self.most or 1024
        if not 0 < constants["threads"] <= most:
            raise ValueError(f"{self.title}: a block has 1 to {most} threads, not {constants['threads']}.")
        threads = self.most or constants["threads"]
        return compiling_cuda.compile_simt(self.function, tuple(types.values()), threads, capability)

    def stamp(self) -> str:
        from dynograd.kernels.build.compiling_numba import _stamp_of

        return self.title + _stamp_of(self.function)

    def in_emulation(self, constants: dict[str, Any]) -> Callable[..., None]:
        return emulation_cuda.simt_runner(self.function, constants["threads"], constants["shared"])

    def heading(self, keywords: bool = True) -> str:
        if not keywords:
            return super().heading()
        return f"def {self.name}({', '.join(['_grid', 'threads', *self.names])}, *, shared=0):"


def _is_constexpr(annotation: Any) -> bool:
    return "constexpr" in (annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))


# --- the launch on a GPU -----------------------------------------------------------------------------------------------------


class _Launcher:
    """The launch function of a kernel for these kinds of arguments (`roles`) and types of constants."""

    def __init__(self, kernel: _Kernel, roles: str, constant_types: tuple[type, ...]) -> None:
        self.kernel, self.roles = kernel, roles
        self.found: dict[Any, Any] = {}
        self.kept: list[Any] = []
        self.driver = driver.get(kernel.title)
        self.names_used = {
            "_active": thread_state.current, "_local": parameter_blocks, "_variants": self.found, "_variant": self._variant,
            "_wide": self._wide, "_rare": self._rare, "_put": self.driver.launch, "_too_wide": (struct.error, OverflowError),
            "_current_handle": streams.current_handle, "_current_device": streams.current_device,
            "_mixed": self._mixed, "_mask": alignment_mask, "_call": kernel.call,
            "_A": CudaArray, "_i": int, "_f": float, "_d": Double, "_b": bool, "_N": type(None),
            **{f"_t_{name}": kind for name, kind in zip(kernel.constants, constant_types, strict=True)},
            **{f"_d_{name}": default for name, default in kernel.defaults.items()},
        }  # fmt: skip
        self.code = self._compile(self._text(constant_types, guarded=True))[kernel.name].__code__
        self.launch = self._compile(self._text(constant_types, guarded=False))[kernel.name]

    def _compile(self, text: str) -> dict[str, Any]:
        names = dict(self.names_used, __name__=self.kernel.module)
        return run_source(text, f"launch of {self.kernel.name} {self.roles}", names)

    def _text(self, constant_types: tuple[type, ...], guarded: bool) -> str:
        """A launch, unrolled. Guarded: under the kernel's own signature, for any arguments (others go to `call`)."""
        kernel, roles = self.kernel, self.roles
        arrays = [name for name, role in zip(kernel.names, roles, strict=True) if role == "A"]
        words = [
            _array_words(name) if name in kernel.arrays else f"_p_{name}" if role == "A" else name
            for name, role in zip(kernel.names, roles, strict=True)
            if role != "N"
        ]
        special = [
            f"not {name} & 15"
            for name, role in zip(kernel.names, roles, strict=True)
            if role == "i" and name in kernel.divisible
        ]
        names = f"({''.join(f'{name}, ' for name in kernel.names)})"
        constants = f"({''.join(f'{name}, ' for name in kernel.constants)})"
        if guarded:
            guard = [f"type({name}) is _{role}" for name, role in zip(kernel.names, roles, strict=True)]
            guard += [f"type({name}) is _t_{name}" for name in kernel.constants]
            lines = [kernel.heading(), f"    if not ({' and '.join(guard)}): return _call(_grid, {names}, {constants})"]
        else:
            lines = [f"def {kernel.name}({', '.join(['_grid', *kernel.names, *kernel.constants])}):"]
        lines += ["    if 0 in _grid: return", "    if len(_grid) != 3: _grid = (*_grid, 1, 1)[:3]"]
        if arrays:
            lines += [f"    _l_{name} = {name}.layout" for name in arrays]
            lines.append(f"    _device = _l_{arrays[0]}.device")
            if len(arrays) > 1:
                others = " or ".join([f"_l_{name}.device != _device" for name in arrays[1:]])
                lines.append(f"    if {others}: raise _mixed({', '.join(arrays)})")
            lines += [f"    _p_{name} = {name}.pointer" for name in arrays]
            pointers = [f"_p_{name}" for name in arrays]
            lines.append(f"    _low = ({' | '.join(pointers)}) & 15")
            lines.append(f"    if _low: _low = _mask({', '.join(pointers)})")
        else:
            lines += ["    _device = _current_device()", "    _low = 0"]
        # Constants of Triton's types are told apart by their ids, which costs less than their hash; `_variant` keeps them alive.
        marks = [
            name if kind in PLAIN else f"id({name})"
            for name, kind in zip(kernel.constants, constant_types, strict=True)
            if kind is not type(None)
        ]
        key = f"({', '.join(['_device', '_low', *[f'_l_{name}.dtype' for name in arrays], *special, *marks])})"
        packing = f"_pack(_block[0], 0, {', '.join([*words, '0', '0'])})"
        lines += [
            f"    _found = _variants.get({key})",
            f"    if _found is None: _found = _variant({key}, {names}, {constants}, _device)",
            "    _pack, _function, _threads, _shared, _special = _found",
            "    _stream = _active.active.get(_device)",
            "    if _stream is None: _stream = _current_handle(_device)",
            "    _block = _local.block",
        ]
        if set(roles) & set("ifd"):
            lines += [
                f"    try: {packing}",
                f"    except _too_wide: return _wide(_grid, {names}, {constants}, _device, _low)",
            ]
        else:
            lines.append(f"    {packing}")
        lines += [
            f"    if _special is not None: return _rare(_grid, _device, _block, {len(words)}, _found)",
            "    _put(_function, _grid, _threads, _shared, _stream, _block[1])",
        ]
        return "\n".join(lines) + "\n"

    def settled(self, arguments: tuple[Any, ...], constants: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """See `_Kernel.settled`."""
        arrays = [argument for argument in arguments if type(argument) is CudaArray]
        if not arrays or any([argument.pointer & 15 for argument in arrays]):
            return None
        named = zip(self.kernel.names, arguments, strict=True)
        special = [
            not argument & 15 for name, argument in named if type(argument) is int and name in self.kernel.divisible
        ]
        marks = [
            argument if type(argument) in PLAIN else id(argument) for argument in constants if argument is not None
        ]
        variant = self.found.get(
            (arrays[0].layout.device, 0, *[argument.dtype for argument in arrays], *special, *marks)
        )
        if variant is None or variant[4] is not None:
            return None
        return (*variant[:4], self.driver.launch)

    def _mixed(self, *arguments: Any) -> DeviceError:
        return cuda_arrays.mixed_devices(self.kernel.title, *arguments)

    # --- finding the machine code -----------------------------------------------------------------------------------------

    def _variant(
        self, key: Any, arguments: tuple[Any, ...], constants: tuple[Any, ...], device: int, wide: bool = False
    ) -> Any:
        """(packer, function, threads, shared bytes, binary where scratch memory or a cluster is needed); compiled if need be."""
        kernel = self.kernel
        with kernel.lock:
            variant = self.found.get(key)
            if variant is not None:
                return variant
            types, aligned = self._types(arguments, wide)
            if getattr(thread_state.current, "captured_device", -1) >= 0:
                raise DeviceError(
                    f"{kernel.title}: its first use with these types was while a CUDA graph was captured, when no kernel can be "
                    f"loaded. Run the step once before the capture."
                )
            named = dict(zip(kernel.constants, constants, strict=True))
            binary = kernel.compiled(types, aligned, named, self.driver.capability(device))
            most = self.driver.attribute(device, "max_shared_memory_per_block_optin")
            shared = binary.shared + named.get("shared", 0)
            if shared > most:
                raise DeviceError(
                    f"{kernel.title}: needs {shared:,} bytes of shared memory; a block on cuda:{device} has {most:,}."
                )
            module = self.driver.load_module(device, binary.cubin)
            function = self.driver.get_function(module, binary.entry)
            if shared > 48 << 10:
                self.driver.set_max_shared(function, shared)
            pack = struct.Struct("<" + "".join(map(packed_as, types.values())) + "QQ").pack_into
            threads = (binary.threads or named["threads"], 1, 1)
            rare = binary if binary.scratch or binary.cluster > 1 else None
            variant = self.found[key] = (pack, function, threads, shared, rare)
            self.kept.append(constants)
            return variant

    def _types(self, arguments: tuple[Any, ...], wide: bool) -> tuple[dict[str, str], frozenset[str]]:
        types, aligned = {}, set()
        for name, value in zip(self.kernel.names, arguments, strict=True):
            types[name] = type_of(value) if wide or type(value) is not int else "i32"
            if type(value) is CudaArray:
                if name in self.kernel.arrays:
                    types[name] = f"[]{types[name][1:]}"
                elif not value.pointer & 15:
                    aligned.add(name)
            elif type(value) is int and name in self.kernel.divisible and not value & 15:
                aligned.add(name)
        return types, frozenset(aligned)

    def _wide(
        self, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...], device: int, low: int
    ) -> None:
        """A launch with an int beyond 32 bits, or a float beyond float32's range (which becomes an infinity)."""
        values = []
        for name, value in zip(self.kernel.names, arguments, strict=True):
            if type(value) is int and value not in INT64:
                raise OverflowError(f"{self.kernel.title}: {name}={value} does not fit in 64 bits.")
            if type(value) is float:
                with numpy.errstate(over="ignore"):
                    value = float(numpy.float32(value))
            values.append(value)
        widths = tuple([type(value) is int and value not in INT32 for value in values])
        special = tuple([
            type(value) is int and not value & 15 and name in self.kernel.divisible
            for name, value in zip(self.kernel.names, values, strict=True)
        ])  # fmt: skip
        dtypes = tuple([value.dtype for value in values if type(value) is CudaArray])
        marks = [constant if type(constant) in PLAIN else id(constant) for constant in constants]
        key = ("wide", device, low, dtypes, widths, special, *marks)
        pack, function, threads, shared, rare = self.found.get(key) or self._variant(
            key, tuple(values), constants, device, wide=True
        )
        block = parameter_blocks.block
        words: list[Any] = []
        for name, value in zip(self.kernel.names, values, strict=True):
            if name in self.kernel.arrays:
                words += [0, 0, value.size, value.itemsize, value.pointer, value.size, value.itemsize]
            elif value is not None:
                words.append(value.pointer if type(value) is CudaArray else value)
        pack(block[0], 0, *words, 0, 0)
        if rare is not None:
            self._rare(grid, device, block, len(words), (pack, function, threads, shared, rare))
        else:
            self.driver.launch(function, grid, threads, shared, streams.current_handle(device), block[1])

    def _rare(self, grid: tuple[int, ...], device: int, block: Any, count: int, variant: Any) -> None:
        """A launch of a kernel that asks for scratch memory. The parameters are packed already."""
        _, function, threads, shared, binary = variant
        if binary.cluster > 1:
            raise DeviceError(f"{self.kernel.title}: kernels for clusters of blocks are not supported (num_ctas).")
        programs = 1
        for size in grid:
            programs *= size
        memory = allocator.allocate(programs * binary.scratch + binary.scratch_alignment, device)
        stream = streams.current_handle(device)
        start = -(-memory.pointer // binary.scratch_alignment) * binary.scratch_alignment
        struct.pack_into("<Q", block[0], 8 * count, start)
        self.driver.launch(function, grid, threads, shared, stream, block[1])


def _array_words(name: str) -> str:
    return f"0, 0, _l_{name}.size, _l_{name}.itemsize, _p_{name}, _l_{name}.size, _l_{name}.itemsize"


# --- making kernels ----------------------------------------------------------------------------------------------------------


def triton_kernel(
    *, variants: list[dict[str, Any]], divisible: tuple[str, ...] = (), exact: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes a function in Triton's language into a kernel; what it was made of is its attribute `kernel`.

    Args:
        divisible: int arguments for which multiples of 16 have machine code of their own (such as the stride of rows: with it rows
            are read in wide pieces). Others are never looked at, so that new lengths compile nothing.
        exact: products and sums are rounded one by one, as on the CPU, not contracted.
    """
    return lambda function: TritonKernel(function, variants, divisible, exact).make_entry()


def simt_kernel(
    *, variants: list[dict[str, Any]], arrays: tuple[str, ...] = (), most: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes a function in numba-cuda's language into a kernel. Its variants also give `threads` (128).

    Args:
        arrays: arguments that are arrays to the kernel, one-dimensional and contiguous, as `cuda.atomic` wants them (`[]fp32` in
            a variant). Others are bare pointers, which costs less.
        most: the machine code is for blocks of up to so many threads; without it each size of a block has its own.
    """
    return lambda function: SimtKernel(function, variants, arrays, most).make_entry()


def triton_source(source: str, name: str, divisible: tuple[str, ...] = ()) -> Callable[..., None]:
    """The kernel `name` of a generated text; it may use `tl` and `math_triton`. Tracebacks find the text by `<dynograd kernel NAME>`."""
    import triton.language as tl

    from dynograd.kernels.formula import math_triton

    title = f"kernel {name} {hashlib.sha256(source.encode()).hexdigest()[:8]}"
    names = {"tl": tl, "math_triton": math_triton, "__name__": __name__}
    return TritonKernel(run_source(source, title, names)[name], [], divisible).make_entry()
