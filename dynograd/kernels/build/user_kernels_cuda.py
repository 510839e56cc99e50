"""Kernels that users write, on Tensors: Triton's `kernel[grid](x, y, n, BLOCK=128)` and numba-cuda's `kernel[blocks, threads](x, y)`.

Triton's launcher asks a driver object for the current device, the stream and the loading of machine code. Its own one wants
PyTorch (3.6), or puts work on the default stream (3.9); `install` gives it `Driver`, which answers from dynograd's device layer and
needs no C compiler. In emulation the interpreter and the simulator are taught to take Tensors instead.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.cuda import allocator, driver, streams
from dynograd.errors import DeviceError
from dynograd.kernels.build.launch_arguments_cuda import FORMATS, array_of, parameter_block
from dynograd.kernels.emulation import emulation_cuda


def install() -> None:
    """Makes users' kernels take Tensors; called when CUDA is first used. Does nothing where the compilers are not installed."""
    used = driver.get("cuda")
    try:
        import triton
    except ImportError:
        return
    if used.emulated:
        emulation_cuda.take_tensors()
        return
    driver_of_triton = _driver_class()(used)
    triton.runtime.driver.set_active(driver_of_triton)
    triton.runtime.driver._default = driver_of_triton  # so that reset_active() does not look for PyTorch


def _driver_class() -> type:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class Driver(DriverBase):
        """What Triton asks of a driver, from dynograd's device layer."""

        def __init__(self, used: Any) -> None:
            self.utils = _Utils(used)
            self.launcher_cls = _Launcher
            self.get_current_device = streams.current_device
            self.set_current_device = streams.set_current_device
            self.get_current_stream = streams.current_handle
            self.get_device_capability = used.capability

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            major, minor = self.get_device_capability(streams.current_device())
            return GPUTarget("cuda", major * 10 + minor, 32)

        def get_active_torch_device(self) -> Any:
            raise RuntimeError("this kernel runs on dynograd's tensors; there is no torch device.")

        get_device_interface = get_active_torch_device

        def map_python_to_cpp_type(self, kind: str) -> str:
            from triton.backends.nvidia import driver as stock

            return stock.ty_to_cpp(kind)

        def get_benchmarker(self) -> Callable[..., Any]:
            return _benchmark

        def get_empty_cache_for_benchmark(self) -> None:
            return None

        def clear_cache(self, cache: Any) -> None: ...

        def assemble_tensormap_to_arg(self, information: Any, arguments: Any) -> Any:
            return arguments

        def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int) -> Any:
            raise RuntimeError("kernels with a profile are not supported by dynograd.")

    return Driver


class _Utils:
    """Loading machine code. What else Triton has in C (tensor descriptors) is compiled by it when it is first asked for."""

    def __init__(self, used: Any) -> None:
        self._used = used

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """(module, function, registers, bytes of local memory, most threads of a block)"""
        used = self._used
        module = used.load_module(device, binary)
        function = used.get_function(module, name)
        if shared > 48 << 10:
            used.set_max_shared(function, shared)
        facts = [
            used.function_attribute(function, attribute)
            for attribute in ("num_regs", "local_size_bytes", "max_threads_per_block")
        ]
        return module, function, facts[0], facts[1], facts[2]

    def unload_module(self, module: int) -> None:
        """Kernels stay loaded until the process ends."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        names = {"max_shared_mem": "max_shared_memory_per_block_optin", "multiprocessor_count": "multiprocessor_count"}
        return {name: self._used.attribute(device, attribute) for name, attribute in names.items()} | {"warpSize": 32}

    def __getattr__(self, name: str) -> Any:
        from triton.backends.nvidia import driver as stock

        return getattr(stock.CudaUtils(), name)


class _Launcher:
    """The launch of one compiled kernel, called by Triton with everything that its signature has."""

    def __init__(self, source: Any, facts: Any) -> None:
        kinds = list(source.signature.values())
        simple = all(
            [kind == "constexpr" or kind[0] == "*" or kind in FORMATS for kind in kinds if isinstance(kind, str)]
        )
        self._other = None
        if not simple or not all([isinstance(kind, str) for kind in kinds]):
            from triton.backends.nvidia import driver as stock

            self._other = stock.CudaLauncher(source, facts)  # tuples and tensor descriptors
            return
        self._name, self._kinds = facts.name, kinds
        words = [_word(kind) for kind in kinds if kind != "constexpr"]
        self._pack = struct.Struct("<" + "".join(words) + "QQ").pack_into
        self._places = [place for place, kind in enumerate(kinds) if kind != "constexpr"]
        self._threads, self._shared = (facts.num_warps * 32, 1, 1), facts.shared
        self._scratch, self._alignment = facts.global_scratch_size, facts.global_scratch_align
        if getattr(facts, "num_ctas", 1) > 1 or getattr(facts, "launch_cooperative_grid", False):
            raise DeviceError(f"{self._name}: launches of clusters and cooperative grids are not supported.")

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: int,
        packed: Any,
        launch: Any,
        enter: Any,
        leave: Any,
        *arguments: Any,
    ) -> None:
        if self._other is not None:
            self._other(x, y, z, stream, function, packed, launch, enter, leave, *arguments)
            return
        if not x or not y or not z:
            return
        device = streams.current_device()
        words = [self._value(arguments[place], self._kinds[place], device) for place in self._places]
        used = driver.get(self._name)
        scratch = 0
        if self._scratch:
            memory = allocator.allocate(x * y * z * self._scratch + self._alignment, device)
            scratch = -(-memory.pointer // self._alignment) * self._alignment
        if enter is not None:
            enter(launch)
        block = parameter_block()
        self._pack(block[0], 0, *words, scratch, 0)
        streams.current_handle(device)  # makes the device current in this thread
        used.launch(function, (x, y, z), self._threads, self._shared, stream, block[1])
        if leave is not None:
            leave(launch)

    def _value(self, value: Any, kind: str, device: int) -> Any:
        if kind[0] != "*":
            return value
        array = array_of(value, self._name)
        if array is None:
            return 0 if value is None else value.data_ptr() if hasattr(value, "data_ptr") else value
        if array.device_index != device:
            raise DeviceError(
                f"{self._name}: an argument of shape {array.shape} is on {array.device}, but the current device is cuda:{device}. "
                f"Launch inside `with dynograd.cuda.device({array.device_index}):`."
            )
        return array.pointer


def _word(kind: str) -> str:
    letter = "Q" if kind[0] == "*" else FORMATS[kind]
    return f"{letter}{8 - struct.calcsize(letter)}x"


def _benchmark(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> Any:
    """Milliseconds of a call: what `triton.autotune` chooses by."""
    device = streams.current_device()
    used, stream = driver.get("autotune"), streams.current_handle(device)
    events = [used.create_event(device, True, False) for _ in range(2)]
    times = []
    for turn in range(13):
        used.record_event(device, events[0], stream)
        call()
        used.record_event(device, events[1], stream)
        used.synchronize_event(device, events[1])
        if turn >= 3:
            times.append(used.elapsed(*events))
    for event in events:
        used.destroy_event(device, event)
    if quantiles is None:
        return float(numpy.median(times))
    return [float(quantile) for quantile in numpy.quantile(times, quantiles)]
