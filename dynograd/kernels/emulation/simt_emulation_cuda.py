"""Runs kernels of numba-cuda on host memory: each thread of a block is a Python generator that stops where threads wait for each other.

numba-cuda's own simulator gives every thread of a block a thread of Python's, polls them (5 ms a barrier) and knows no warps. Here a
barrier costs a microsecond a thread, runs are the same each time, and mistakes are found: warps run one after the other from barrier
to barrier, and threads of a warp from meeting to meeting, each time in the other order, so that what needs a barrier and has none sees
memory as it was before; shared memory starts as garbage; a block whose threads wait in different places is an error.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy

_OF_BLOCKS = {"syncthreads", "syncthreads_and", "syncthreads_count", "syncthreads_or"}
_OF_WARPS = {
    "all_sync", "any_sync", "ballot_sync", "match_any_sync", "shfl_down_sync", "shfl_sync", "shfl_up_sync",
    "shfl_xor_sync", "syncwarp",
}  # fmt: skip
_WARP = 32
_GARBAGE = 0xA5


# --- kernels as generators ---------------------------------------------------------------------------------------------------


@functools.cache
def generated(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool, dict[str, Any]]:
    """(the function with `cuda` for a name that can be set, whether it is a generator, its global names).

    It is one where it, or a device function that it calls, waits: `cuda.syncthreads()` becomes `(yield place, "syncthreads")`.
    """
    from dynograd.kernels.build.simt_language import numpy_support, types

    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.returns = None
    space = dict(function.__globals__)
    code = function.__code__
    space |= {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)}
    for name, value in space.items():
        if isinstance(value, types.Number):  # a cast, and the dtype of memory
            space[name] = numpy_support.as_dtype(value).type
    waits = _Waits(space)
    waits.visit(tree)
    ast.fix_missing_locations(tree)
    exec(compile(tree, code.co_filename, "exec"), space)
    return space[definition.name], waits.found, space


class _Waits(ast.NodeTransformer):
    """Makes places where threads wait into `yield`, and calls of device functions with such into `yield from`."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space, self.found = space, False
        self.spaces = space.setdefault("_spaces", [space])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "cuda":
            if function.attr in _OF_BLOCKS | _OF_WARPS:
                self.found = True
                parts = [ast.Constant(f"line {node.lineno}"), ast.Constant(function.attr), *node.args]
                return ast.copy_location(ast.Yield(ast.Tuple(parts, ast.Load())), node)
        if (
            isinstance(function, ast.Attribute)
            and function.attr == "array"
            and ast.unparse(function) == "cuda.shared.array"
        ):
            place = ast.Constant(f"{self.space['__name__']} {node.lineno} {node.col_offset}")
            node.keywords.append(ast.keyword("place", place))
        if isinstance(function, ast.Name):
            device = self.space.get(function.id)
            plain = getattr(device, "fn", getattr(device, "py_func", None))
            if plain is not None and inspect.isfunction(plain):
                emulated, generates, space = generated(plain)
                self.space[function.id] = emulated
                self.spaces += space["_spaces"]
            else:
                generates = inspect.isgeneratorfunction(device)
            if generates:
                self.found = True
                return ast.copy_location(ast.YieldFrom(node), node)
        return node


# --- blocks ------------------------------------------------------------------------------------------------------------------


def run_blocks(
    function: Callable[..., Any], grid: tuple[int, ...], threads: int, shared: int, arguments: tuple[Any, ...]
) -> None:
    """Runs a kernel block by block; `shared`: bytes of the memory that `cuda.shared.array(0, ...)` is."""
    emulated, generates, space = generated(function)
    module = _module((*grid, 1, 1)[:3], threads)
    for globals_of_part in space["_spaces"]:
        globals_of_part["cuda"] = module
    for number, block in enumerate(numpy.ndindex(*(*grid, 1, 1)[2::-1])):
        module.start(block[::-1], shared)
        if not generates:
            for thread in range(threads):
                module.thread(thread)
                emulated(*arguments)
            continue
        _run_block([emulated(*arguments) for _ in range(threads)], module, number & 1, function.__name__)


def _run_block(running: list[Iterator[Any]], module: Any, turn: int, name: str) -> None:
    """Each warp runs to where it waits for the others of its block, one warp after the other; within it each thread to where it waits."""
    waiting: dict[int, Any] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(running)))
    firsts = list(range(0, len(running), _WARP))
    while answers:
        for first in firsts[:: -1 if turn else 1]:
            lanes = range(first, min(first + _WARP, len(running)))
            ready = {thread: answers[thread] for thread in lanes if thread in answers}
            step = turn
            while ready:
                for thread in sorted(ready, reverse=bool(step)):
                    module.thread(thread)
                    try:
                        waiting[thread] = running[thread].send(ready[thread])
                    except StopIteration:
                        waiting.pop(thread, None)
                step ^= 1
                ready = _meet_in_warp([thread for thread in lanes if thread in waiting], waiting, name)
        turn ^= 1
        places = {state[:2] for state in waiting.values()}
        if len(places) > 1 or any(operation in _OF_WARPS for _, operation in places):
            raise RuntimeError(f"{name}: threads of a block wait for each other in different places: {sorted(places)}")
        values = [state[2] for state in waiting.values() if len(state) > 2]
        answer: Any = None
        for _, operation in places:
            if operation == "syncthreads_count":
                answer = sum(map(bool, values))
            elif operation != "syncthreads":
                answer = int(all(values) if operation == "syncthreads_and" else any(values))
        answers = dict.fromkeys(waiting, answer)


def _meet_in_warp(lanes: list[int], waiting: dict[int, Any], name: str) -> dict[int, Any]:
    """Answers for lanes when all of their mask that have not returned wait in the same place. A short block is a part of a warp."""
    answers: dict[int, Any] = {}
    meetings: dict[Any, list[int]] = {}
    for thread in lanes:
        place, operation, *arguments = waiting[thread]
        if operation in _OF_WARPS:
            mask = int(arguments[0]) & 0xFFFFFFFF if arguments else 0xFFFFFFFF
            if not mask >> thread % _WARP & 1:
                raise RuntimeError(
                    f"{name}, {place}: lane {thread % _WARP} is not in the mask {mask:#x} of its {operation}"
                )
            meetings.setdefault((place, operation, mask), []).append(thread)
    for (_, operation, mask), threads in meetings.items():
        if len(threads) == len(lanes) or len(threads) == sum([mask >> lane % _WARP & 1 for lane in lanes]):
            values = [waiting[lane][3] for lane in threads] if operation != "syncwarp" else [None] * len(threads)
            other = [waiting[lane][4] for lane in threads] if operation.startswith("shfl") else values
            answers.update(zip(threads, _met(operation, threads, values, other), strict=True))
    return answers


def _met(operation: str, threads: list[int], values: list[Any], other: list[Any]) -> list[Any]:
    """What each of the threads that met gets. A shuffle from a lane that is not there gives one's own value."""
    if operation == "syncwarp":
        return values
    if operation == "ballot_sync":
        return [sum([1 << thread % _WARP for thread, value in zip(threads, values, strict=True) if value])] * len(
            threads
        )
    if operation == "match_any_sync":
        masks: dict[Any, int] = {}
        for thread, value in zip(threads, values, strict=True):
            masks[value] = masks.get(value, 0) | 1 << thread % _WARP
        return [masks[value] for value in values]
    if operation in ("all_sync", "any_sync"):
        return [all(values) if operation == "all_sync" else any(values)] * len(threads)
    known = dict(zip(threads, values, strict=True))
    results = []
    for thread, value, by in zip(threads, values, other, strict=True):
        lane = thread % _WARP
        source = {"shfl_sync": int(by) % _WARP, "shfl_up_sync": lane - int(by), "shfl_down_sync": lane + int(by)}.get(
            operation, lane ^ int(by)
        )
        results.append(known.get(thread - lane + source, value) if 0 <= source < _WARP else value)
    return results


@functools.cache
def _module_type() -> type:
    from dynograd.kernels.build.simt_language import kernelapi

    class Module(kernelapi.FakeCUDAModule):  # type: ignore[misc]
        """What a kernel sees as `cuda`. One thread runs at a time, so that its indices are the module's."""

        threadIdx = blockIdx = None  # type: ignore[assignment]
        laneid = 0  # type: ignore[assignment]

        def __init__(self, grid: tuple[int, ...], threads: int) -> None:
            super().__init__(grid, (threads, 1, 1), 0)
            self.places = [kernelapi.Dim3(thread, 0, 0) for thread in range(threads)]

        def start(self, block: tuple[int, ...], shared: int) -> None:
            self.blockIdx = kernelapi.Dim3(*block)
            self._shared = _Shared(shared)  # type: ignore[assignment]

        def thread(self, number: int) -> None:
            self.threadIdx, self.laneid = self.places[number], number % _WARP

    return Module


def _module(grid: tuple[int, ...], threads: int) -> Any:
    return _module_type()(grid, threads)


class _Shared:
    """The shared memory of a block."""

    def __init__(self, size: int) -> None:
        self.memory, self.found = numpy.full(size, _GARBAGE, numpy.uint8), {}  # type: tuple[Any, dict[str, Any]]

    def array(self, shape: Any, dtype: Any, alignment: Any = None, place: str = "") -> Any:
        from dynograd.kernels.build.simt_language import numpy_support, types

        array = self.found.get(place)
        if array is None:
            kind = numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else numpy.dtype(dtype)
            if shape == 0:
                array = self.memory[: len(self.memory) // kind.itemsize * kind.itemsize].view(kind)
            else:
                array = numpy.empty(shape, kind)
                array.reshape(-1).view(numpy.uint8)[:] = _GARBAGE
            self.found[place] = array
        return array
