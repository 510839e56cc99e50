"""Runs a compiled kernel in parts on all threads, calling its machine code by address.

The parts and a serial call are the same machine code, so their bits agree, and nothing of the kernel is compiled twice. A
launcher is compiled per list of argument types; kernels share them. It hands Numba's thread pool a worker that calls the kernel
at an address: two internals of Numba (`numba_parallel_for`, a compiled function's address), pinned by
`tests/kernels/test_drivers_numba.py`; where they are missing, kernels run in one part. Importing this loads Numba.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding
import numba
import numpy
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynograd.kernels.build import threads

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


def slot_of(kinds: tuple[Any, ...]) -> int:
    """A number for a list of argument types, the same in every process."""
    return int.from_bytes(hashlib.sha256(str(kinds).encode()).digest()[:8], "little") >> 2


def address_of(function: Any, kinds: tuple[Any, ...]) -> int:
    """Where the machine code of a compiled function for these argument types lies; 0 where this Numba does not tell."""
    try:
        function.compile(kinds)
        overload = function.overloads[kinds]
        return int(overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name))
    except (AttributeError, KeyError):
        return 0


def launcher(arity: int, compile_source: Callable[..., Any]) -> Any:
    """`launch(table, *arguments, count, parts, num_threads)`: False where the table lacks the arguments' types.

    `table` is an int64 array of pairs: `slot_of` the arguments' types, the address of the kernel compiled for them.
    """
    launch = _launchers.get(arity)
    if launch is None:
        names = ", ".join(f"a{index}" for index in range(arity))
        source = (
            f"def launch(table, {names}, count, parts, num_threads):\n"
            f"    slot = slot_of_types(({names},))\n"
            "    for place in range(0, table.size, 2):\n"
            "        if table[place] == slot:\n"
            f"            run(table[place + 1], ({names},), count, parts, num_threads)\n"
            "            return True\n"
            "    return False\n"
        )
        launch = compile_source(source, "launch", {"slot_of_types": _slot_of_types, "run": _run}, key=_own_text())
        _launchers[arity] = launch
    return launch


_launchers: dict[int, Any] = {}


def _own_text() -> str:
    """What the machine code of launchers is made from, besides their own text."""
    return inspect.getsource(sys.modules[__name__])


@intrinsic
def _slot_of_types(context, arguments):
    slot = slot_of(tuple(arguments))
    return types.int64(arguments), lambda context, builder, signature, values: _WORD(slot)


@intrinsic
def _run(context, address, arguments, count, parts, num_threads):
    """Calls the kernel at `address` for each part of 0..count in the pool; `arguments` is a tuple."""
    kinds = (*arguments, types.int64, types.int64)

    def generate(context, builder, signature, values):
        address, packed, count, parts, num_threads = values
        own = cgutils.unpack_tuple(builder, packed, len(kinds) - 2)
        values = [address, count, parts, *own]
        block_type = ir.LiteralStructType([value.type for value in values])
        block = cgutils.alloca_once(builder, block_type)
        for index, value in enumerate(values):
            builder.store(value, cgutils.gep_inbounds(builder, block, 0, index))
        worker = _worker(context, builder, block_type, kinds)
        run_type = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_WORD] * 3)
        run = cgutils.get_or_insert_function(builder.module, run_type, "numba_parallel_for")
        args, dims, steps = (
            cgutils.alloca_once_value(builder, value) for value in (ir.Constant(_BYTES, None), parts, _WORD(1))
        )
        pointers = (worker, args, dims, steps, block)
        builder.call(
            run, [*(builder.bitcast(pointer, _BYTES) for pointer in pointers), _WORD(1), _WORD(1), num_threads]
        )
        return ir.Constant(_BYTES, None)

    whole = types.int64
    return types.void(whole, arguments, whole, whole, whole), generate


def _worker(context: Any, outer: Any, block_type: Any, kinds: tuple[Any, ...]) -> Any:
    """The function that the pool calls: args[0] counts up from 0 by steps[0] = 1, dims[0] parts are to be done."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _WORD.as_pointer(), _WORD.as_pointer(), _BYTES])
    worker = ir.Function(outer.module, kind, name=outer.module.get_unique_name("worker"))
    worker.linkage = "internal"
    builder = ir.IRBuilder(worker.append_basic_block("entry"))
    args, dims, _, data = worker.args
    block = builder.bitcast(data, block_type.as_pointer())
    address, count, parts, *own = (
        builder.load(cgutils.gep_inbounds(builder, block, 0, index)) for index in range(len(kinds) + 1)
    )
    pointer = builder.inttoptr(address, context.call_conv.get_function_type(types.none, kinds).as_pointer())
    first = builder.ptrtoint(builder.load(args), _WORD)
    with cgutils.for_range(builder, builder.load(dims)) as loop:
        part = builder.add(first, loop.index)
        start = builder.sdiv(builder.mul(count, part), parts)
        stop = builder.sdiv(builder.mul(count, builder.add(part, _WORD(1))), parts)
        context.call_conv.call_function(builder, pointer, types.none, kinds, [*own, start, stop])
    builder.ret_void()
    return worker


# --- the pool ----------------------------------------------------------------------------------------------------------------

turns: threading.Lock | None = (
    None  # held around a launch where Numba's pool ends the program when two threads enter it
)
_most = 0


def pool_threads() -> int:
    """How many threads a launch may use now; starts Numba's pool when it is first asked. 0: this Numba has no pool for us."""
    global _most, turns
    if not _most:
        from numba.np.ufunc import parallel

        with _short_spin():
            parallel._launch_threads()
        if parallel.threading_layer() == "workqueue":  # neither OpenMP nor TBB
            turns = threading.Lock()
        known = llvmlite.binding.address_of_symbol("numba_parallel_for")
        _most = numba.config.NUMBA_NUM_THREADS if known else -1
    count = threads.get_num_threads()
    return max(0, count if count < _most else _most)


# Turns of the loop in which a thread of the pool waits for its next part before it sleeps, some 50 microseconds. Alone on two cores a program is as
# fast as with GNU OpenMP's own 300,000; with one core busy elsewhere a step of 1 ms takes 2.9 ms, not 4 to 5 (docs/performance.md).
_SPINS = "3000"


@contextlib.contextmanager
def _short_spin() -> Iterator[None]:
    """GNU OpenMP reads this when it is loaded; what the user has set is left, and no program that is started later sees it."""
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        os.environ.pop("GOMP_SPINCOUNT", None)


def table_of(pairs: dict[int, int]) -> Any:
    """The flat form of a kernel's addresses by slot."""
    return numpy.array([number for pair in pairs.items() for number in pair], numpy.int64)
