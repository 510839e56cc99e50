"""Arrays by address in compiled kernels: one compiled body for arrays of any number of dims, order and flags.

`handle(array)` is what Python passes (an int, at no cost), and `address(handle)` its data's address in the kernel. The caller keeps the
array alive. `vector8` (bytes), `vector32` and `vector64` (floats) make vectors of an address and a count. `call(address_of(function, kinds),
arguments)` calls compiled code without compiling it again as part of the caller.
"""

import ctypes

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

# An array object begins with Python's own header, then the address of its data: ctypes.data takes a microsecond to say the same.
_probe = np.zeros(3)
_HEADER = object.__basicsize__
_BY_IDENTITY = ctypes.c_void_p.from_address(id(_probe) + _HEADER).value == _probe.ctypes.data


def _slow_handle(array):
    return array.ctypes.data


handle = id if _BY_IDENTITY else _slow_handle


def handle_of_place(place):
    """A handle whose data's address is the number that stands at the address `place`, at any time; None where there are none such."""
    return place - _HEADER if _BY_IDENTITY else None


@intrinsic
def address(typing_context, handle):
    """Where the data of the array with this handle begins."""

    def generate(context, builder, signature, arguments):
        if not _BY_IDENTITY:
            return arguments[0]
        place = builder.add(arguments[0], ir.Constant(ir.IntType(64), _HEADER))
        return builder.load(builder.inttoptr(place, ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def word_at(typing_context, address):
    """The whole number at an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate


def make_vector(scalar):
    """What makes vectors of elements of that type of an address and their count."""
    kind = types.Array(scalar, 1, "C")

    @intrinsic
    def vector(typing_context, address, count):
        def generate(context, builder, signature, arguments):
            result = context.make_array(kind)(context, builder)
            element = context.get_data_type(scalar)
            size = context.get_constant(types.intp, context.get_abi_sizeof(element))
            arrayobj.populate_array(
                result,
                data=builder.inttoptr(arguments[0], element.as_pointer()),
                shape=[arguments[1]],
                strides=[size],
                itemsize=size,
                meminfo=None,
            )
            return result._getvalue()

        return kind(types.int64, types.int64), generate

    return vector


vector8, vector32, vector64 = (make_vector(scalar) for scalar in (types.uint8, types.float32, types.float64))


def address_of(function, kinds):
    """Where the machine code of a compiled function without result lies, for arguments of these Numba types."""
    function.compile(kinds)
    finish = getattr(function.overloads[kinds].entry_point, "finish", None)
    if finish is not None:  # it was a part of another kernel until now
        finish()
    overload = function.overloads[kinds]
    return overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name)


@intrinsic
def call(typing_context, address, arguments):
    """Calls machine code without result as Numba itself would; `arguments` is a tuple of exactly the types it was compiled for."""
    kinds = tuple(arguments)

    def generate(context, builder, signature, values):
        function = context.call_conv.get_function_type(types.none, kinds)
        pointer = builder.inttoptr(values[0], function.as_pointer())
        unpacked = cgutils.unpack_tuple(builder, values[1], len(kinds))
        context.call_conv.call_function(builder, pointer, types.none, kinds, unpacked)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), generate
