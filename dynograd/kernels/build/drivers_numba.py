"""Runs a compiled kernel in parts on all threads.

The parts and a serial call are the same machine code, so their bits agree, and nothing of the kernel is compiled twice: the wrapper
that Python calls hands Numba's thread pool a worker instead, if it is told to (`in_parts`). That takes one internal of Numba
(`numba_parallel_for`), pinned by `tests/kernels/test_drivers_numba.py`; where it is missing, kernels run in one part. Importing this
loads Numba.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import llvmlite.binding
import numba
import numpy
from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import RETCODE_NONE

from dynograd.kernels.build import threads

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


AT_ONCE = -1
"""What a chunked kernel takes for `start` to handle the items 0 to `stop` while no other Python thread runs.

Letting others run costs a launch of a few microseconds up to Python's switch interval where one of them computes in Python, as a server's event loop
does beside a model: it has the interpreter then, and gives it back when it is asked for it so long.
"""


def in_parts(parts: int, num_threads: int) -> int:
    """What a chunked kernel takes for `start` to handle the items 0 to `stop` in so many parts: less than 0."""
    order = _orders.get((parts, num_threads))
    if order is None:
        pool = llvmlite.binding.address_of_symbol("numba_parallel_for")
        numbers = numpy.array([pool, parts, num_threads], numpy.int64)
        # Of several threads that come here at once one's stays: another's would be gone while its kernel reads it.
        order = _orders.setdefault((parts, num_threads), (-int(numbers.ctypes.data), numbers))
    return order[0]


def parts_of(start: int) -> int:
    """In how many parts a kernel runs that was called with this `start`."""
    return ctypes.c_int64.from_address(8 - start).value if start < AT_ONCE else 1


_orders: dict[tuple[int, int], tuple[int, Any]] = {}  # with what lies at the address, which must stay


def add_splitter(module: Any, kernel: Any, lets_others_run: bool) -> ir.Function:
    """Adds a function to the module that calls the kernel (..., start, stop), or has the pool call it where `start` is from `in_parts`.

    With `lets_others_run` it gives the interpreter away meanwhile, unless `start` is `AT_ONCE`.
    """
    splitter = ir.Function(module, kernel.function_type, name=module.get_unique_name("splitter"))
    splitter.linkage = "internal"
    builder = ir.IRBuilder(splitter.append_basic_block("entry"))
    values = list(splitter.args)
    start = values[-2]
    with builder.if_then(builder.icmp_signed("==", start, _WORD(AT_ONCE))):
        builder.ret(builder.call(kernel, [*values[:-2], _WORD(0), values[-1]], attrs=("noinline",)))
    state = builder.call(_of_python(module, "PyEval_SaveThread", _BYTES, []), []) if lets_others_run else None

    def end(status: Any) -> None:
        if state is not None:
            builder.call(_of_python(module, "PyEval_RestoreThread", ir.VoidType(), [_BYTES]), [state])
        builder.ret(status)

    with builder.if_then(builder.icmp_signed("<", start, _WORD(0)), likely=False):
        orders = builder.inttoptr(builder.neg(start), _WORD.as_pointer())
        pool, parts, num_threads = (builder.load(builder.gep(orders, [_WORD(index)])) for index in range(3))
        block_type = ir.LiteralStructType([_WORD, *(value.type for value in values)])
        block = cgutils.alloca_once(builder, block_type)
        for index, value in enumerate([parts, *values]):
            builder.store(value, cgutils.gep_inbounds(builder, block, 0, index))
        args, dims, steps = (
            cgutils.alloca_once_value(builder, value) for value in (ir.Constant(_BYTES, None), parts, _WORD(1))
        )
        pointers = (_worker(module, kernel, block_type), args, dims, steps, block)
        run_type = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_WORD] * 3)
        builder.call(
            builder.inttoptr(pool, run_type.as_pointer()),
            [*(builder.bitcast(pointer, _BYTES) for pointer in pointers), _WORD(1), _WORD(1), num_threads],
        )
        end(ir.Constant(kernel.function_type.return_type, RETCODE_NONE.constant))
    end(builder.call(kernel, values, attrs=("noinline",)))
    return splitter


def _of_python(module: Any, name: str, result: Any, arguments: list[Any]) -> ir.Function:
    """A function of Python's C interface."""
    return cgutils.get_or_insert_function(module, ir.FunctionType(result, arguments), name)


def _worker(module: Any, kernel: Any, block_type: Any) -> ir.Function:
    """The function that the pool calls: args[0] counts up from 0 by steps[0] = 1, dims[0] parts are to be done."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _WORD.as_pointer(), _WORD.as_pointer(), _BYTES])
    worker = ir.Function(module, kind, name=module.get_unique_name("worker"))
    worker.linkage = "internal"
    builder = ir.IRBuilder(worker.append_basic_block("entry"))
    args, dims, _, data = worker.args
    block = builder.bitcast(data, block_type.as_pointer())
    parts, result, error, *own, _, count = (
        builder.load(cgutils.gep_inbounds(builder, block, 0, index)) for index in range(len(block_type.elements))
    )
    result, error = (builder.alloca(pointer.type.pointee) for pointer in (result, error))  # of this thread
    first = builder.ptrtoint(builder.load(args), _WORD)
    with cgutils.for_range(builder, builder.load(dims)) as loop:
        part = builder.add(first, loop.index)
        start = builder.sdiv(builder.mul(count, part), parts)
        stop = builder.sdiv(builder.mul(count, builder.add(part, _WORD(1))), parts)
        builder.call(kernel, [result, error, *own, start, stop], attrs=("noinline",))
    builder.ret_void()
    return worker


# --- the pool ----------------------------------------------------------------------------------------------------------------

# Held around a launch where Numba's pool ends the program when two threads enter it.
turns: threading.Lock | None = None
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


# Turns of the loop in which a thread of the pool waits for its next part before it sleeps: some 50 to 150 microseconds, which is the Python between two
# kernels. Longer waits take a busy machine's cores from others, shorter ones wake the thread for every kernel (docs/performance.md).
_SPINS = "10000"


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
