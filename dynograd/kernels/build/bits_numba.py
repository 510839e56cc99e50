"""Floats as the integers of the same bits, and back, in compiled kernels: `x.view(dtype)`, which takes Numba 36 ms more to compile."""

from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["float32_of", "float64_of", "int32_of", "int64_of"]


def _same_bits(source: Any, target: Any) -> Any:
    @intrinsic
    def cast(typing_context, value):
        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return cast


int32_of, float32_of = _same_bits(types.float32, types.int32), _same_bits(types.int32, types.float32)
int64_of, float64_of = _same_bits(types.float64, types.int64), _same_bits(types.int64, types.float64)
