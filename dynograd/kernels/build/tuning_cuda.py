"""Choosing among a kernel's block sizes by measuring them on the card, once: `tuned(kernel, configs, key)`.

The choice is kept in the kernel cache by kernel, classes of sizes, dtypes and card, so that every later run launches the same
machine code and gives the same bits. `DYNOGRAD_TUNE=0` takes the first configuration always; so does emulation, and so does a
CUDA graph that is being captured where nothing was chosen before.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import allocator, driver, streams, thread_state
from dynograd.errors import DynogradError
from dynograd.kernels.build import kernel_cache

_ROUNDS = 5  # of measuring, after one that compiles: the middle one counts
_FIRST = 0  # the configuration that is taken where nothing can be measured


def shape_class(size: int) -> int:
    """Sizes of one class have one choice: those up to the same power of two, and exact multiples of 16 apart from others.

    >>> shape_class(512) == shape_class(400), shape_class(512) == shape_class(511), shape_class(512) == shape_class(528)
    (True, False, False)
    """
    return -max(size - 1, 0).bit_length() if size % 16 else max(size - 1, 0).bit_length()


def tuned(
    kernel: Callable[..., None], configs: Sequence[dict[str, Any]], key: tuple[str, ...], restore: tuple[str, ...] = ()
) -> Tuned:
    """A kernel that is called without its block sizes: `product(grid, a, b, c, m, n, k, ACC=...)`.

    Args:
        configs: constants (with `num_warps`, `num_stages`) to choose from; the first is taken where nothing may be measured.
        key: the arguments whose sizes decide, in classes (`shape_class`); dtypes and other constants always do.
        restore: arrays that the kernel changes in place (adds to); they are put back after each measurement.

    In a call, `grid` may be a function of the chosen configuration.
    """
    return Tuned(kernel, configs, key, restore)


class Tuned:
    """See `tuned`."""

    def __init__(
        self,
        kernel: Callable[..., None],
        configs: Sequence[dict[str, Any]],
        key: tuple[str, ...],
        restore: tuple[str, ...],
    ) -> None:
        self.entry, self.kernel, self.configs = kernel, kernel.kernel, [dict(config) for config in configs]
        self._places = tuple([self.kernel.names.index(name) for name in key])
        self._restored = tuple([self.kernel.names.index(name) for name in restore])
        self._chosen: dict[Any, int] = {}
        self._lock = threading.RLock()

    def __call__(self, grid: Any, *arguments: Any, **constants: Any) -> None:
        """Launches the kernel with the configuration chosen for these sizes."""
        config = self.choice(grid, arguments, constants)
        self.entry(grid(config) if callable(grid) else grid, *arguments, **constants, **config)

    def choice(self, grid: Any, arguments: tuple[Any, ...], constants: dict[str, Any]) -> dict[str, Any]:
        """The configuration for these arguments; the first time for their class it is measured, or read from the cache."""
        exact = (
            *[arguments[place] for place in self._places],
            *[argument.dtype if type(argument) is CudaArray else type(argument) for argument in arguments],
            *map(str, constants.values()),
            next((argument.device_index for argument in arguments if type(argument) is CudaArray), 0),
        )
        index = self._chosen.get(exact)
        if index is None:
            index = self._choose(exact, grid, arguments, constants)
        return self.configs[index]

    def _choose(self, exact: Any, grid: Any, arguments: tuple[Any, ...], constants: dict[str, Any]) -> int:
        used = driver.get(self.kernel.title)
        if (
            used.emulated
            or len(self.configs) == 1
            or os.environ.get("DYNOGRAD_TUNE", "1").lower() in ("0", "off", "no")
        ):
            return _FIRST
        with self._lock:
            name = self._name(exact, used)
            chosen = self._read(name)
            if chosen is None:
                if thread_state.current.captured_device >= 0:
                    return _FIRST
                times = self.measure(grid, arguments, constants, exact[-1])
                chosen = min(range(len(times)), key=times.__getitem__)
                kernel_cache.write(name, json.dumps({"chosen": chosen, "milliseconds": times}).encode())
            self._chosen[exact] = chosen
            return chosen

    def _name(self, exact: Any, used: Any) -> str:
        count = len(self._places)
        device = exact[-1]
        card = (used.name(device), used.capability(device), used.attribute(device, "multiprocessor_count"))
        classes = [shape_class(size) for size in exact[:count]]
        rest = [str(part) for part in exact[count:-1]]
        return kernel_cache.digest_of("tuned 1", self.kernel.stamp(), repr(self.configs), repr((classes, rest, card)))

    def _read(self, name: str) -> int | None:
        payload = kernel_cache.read(name)
        if payload is None:
            return None
        try:
            chosen = json.loads(payload)["chosen"]
        except (KeyError, TypeError, ValueError):
            chosen = None
        if type(chosen) is int and 0 <= chosen < len(self.configs):
            return chosen
        kernel_cache.discard(name)
        return None

    def measure(self, grid: Any, arguments: tuple[Any, ...], constants: dict[str, Any], device: int) -> list[float]:
        """Milliseconds of each configuration, measured in turns; infinity for one that does not run here.

        Raises:
            DynogradError: none of them runs.
        """
        used, stream = driver.get(self.kernel.title), streams.current_handle(device)
        kept = [(arguments[place], self._copy(arguments[place], used, stream)) for place in self._restored]
        events = [used.create_event(device, True, False) for _ in range(2)]
        times: list[list[float]] = [[] for _ in self.configs]
        failure: DynogradError | None = None
        for turn in range(_ROUNDS + 1):
            for config, seen in zip(self.configs, times, strict=True):
                if turn and not seen:
                    continue  # it failed before
                try:
                    used.record_event(device, events[0], stream)
                    self.entry(grid(config) if callable(grid) else grid, *arguments, **constants, **config)
                    used.record_event(device, events[1], stream)
                except DynogradError as error:  # too much shared memory, say
                    failure = error
                    continue
                used.synchronize_event(device, events[1])
                seen.append(used.elapsed(*events))
                for array, copy in kept:
                    used.copy_within(array.pointer, copy.pointer, array.nbytes, stream)
        for event in events:
            used.destroy_event(device, event)
        if failure is not None and not any(times):
            raise failure
        return [statistics.median(seen[1:]) if seen else float("inf") for seen in times]

    def _copy(self, array: CudaArray, used: Any, stream: int) -> Any:
        copy = allocator.allocate(array.nbytes, array.device_index)
        used.copy_within(copy.pointer, array.pointer, array.nbytes, stream)
        return copy

    def __repr__(self) -> str:
        return f"<tuned {self.kernel!r}: {len(self.configs)} configurations>"
