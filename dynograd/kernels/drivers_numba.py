"""Kernels with many small parts in their machine code, run in parts on all threads by one driver that is compiled once.

A `chunked` kernel is compiled again, whole, as part of its driver. A `driven` one is called by its address, so that only the
kernel itself is compiled: half the time of a cold start. All driven kernels have the arguments (like, a, b, c, tables, start,
stop): an array of the elements' dtype, three integers (addresses, usually), and a flat int64 array. Importing this loads Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynograd.kernels import compiling_numba, threads
from dynograd.kernels.compiling_numba import compile_source, compiled

__all__ = ["Driven", "driven"]


def driven(key: str) -> Callable[[Callable[..., None]], Driven]:
    """Makes a kernel `f(like, a, b, c, tables, start, stop)` into a `Driven`; `key` as for `compiled`."""
    return lambda function: Driven(function, key)


class Driven:
    """A kernel over `count` items, called as a `Chunked` is: `kernel(like, a, b, c, tables, count=rows, work=products)`."""

    __slots__ = ("_addresses", "name", "serial")

    def __init__(self, function: Callable[..., None], key: str) -> None:
        self.name = function.__name__
        self.serial = compiled(function, key=key)
        self._addresses: dict[str, int] = {}

    def __call__(
        self, like: Any, a: int, b: int, c: int, tables: Any, *, count: int, work: int, parts: int = 0
    ) -> None:
        parts = min(parts or threads.parts(work), count)
        address = self._address(like, tables) if parts > 1 else 0
        if not address:
            self.serial(like, a, b, c, tables, 0, count)
            return
        compiling_numba._prepare_pool()
        turn = compiling_numba._one_at_a_time
        if turn is None:
            _drive(like, address, a, b, c, tables, count, parts)
        else:
            with turn:
                _drive(like, address, a, b, c, tables, count, parts)

    def _address(self, like: Any, tables: Any) -> int:
        """Of the machine code for `like`'s dtype; 0 where this Numba does not tell it, and the kernel runs in one part."""
        found = self._addresses.get(like.dtype.char)
        if found is None:
            whole = types.int64
            signature = (numba.typeof(like), whole, whole, whole, numba.typeof(tables), whole, whole)
            try:
                self.serial.compile(signature)
                made = self.serial.overloads[signature]
                found = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
            except (AttributeError, KeyError):
                found = 0
            self._addresses[like.dtype.char] = found
        return found

    def __repr__(self) -> str:
        return f"<driven kernel {self.name}>"


@intrinsic
def _call(context, address, arguments):
    """Calls the machine code of a kernel without result, as Numba itself calls it; `arguments` is a tuple."""
    kinds = tuple(arguments)

    def generate(context, builder, signature, values):
        function = context.call_conv.get_function_type(types.none, kinds)
        pointer = builder.inttoptr(values[0], function.as_pointer())
        context.call_conv.call_function(
            builder, pointer, types.none, kinds, cgutils.unpack_tuple(builder, values[1], len(kinds))
        )
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return types.void(types.int64, arguments), generate


_drive = compile_source(
    """def drive(like, address, a, b, c, tables, count, parts):
    for part in prange(parts):
        call(address, (like, a, b, c, tables, count * part // parts, count * (part + 1) // parts))
""",
    "drive",
    {"call": _call, "prange": numba.prange},
    parallel=True,
    key="1",
)
