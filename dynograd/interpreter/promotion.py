"""The slow way of elementwise ops: mixed dtypes, numbers, half types, and errors of broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import Array, CudaArray, as_result, ndarray, quietly
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, check_sizes
from dynograd.errors import DtypeError, refusal
from dynograd.interpreter.shared import C64, C128, F32, F64
from dynograd.kernels import kernel
from dynograd.kernels.elementwise import OF_COMPLEX
from dynograd.ops.op import Op

scalars32: dict[Any, Any] = {}
scalars64: dict[Any, Any] = {}
wholes: dict[int, Any] = {}


def scalar_of(number: Any, kind: Any) -> Array:
    """A Python number as a 0-d float array (NumPy adds those faster than numbers); repeated numbers are remembered."""
    try:
        array = numpy.array(number, kind)
    except OverflowError:
        array = numpy.array(float("inf") if number > 0 else float("-inf"), kind)
    array.flags.writeable = False
    known = scalars32 if kind is F32 else scalars64
    if number and len(known) < 256:  # 0.0 and -0.0 are one key
        known[number] = array
    return array


def whole_of(number: int) -> Array:
    """A Python int as a 0-d int64 array; repeated ones are remembered.

    Raises:
        OverflowError: it does not fit.
    """
    result = wholes.get(number)
    if result is None:
        result = numpy.array(number, numpy.int64)
        result.flags.writeable = False
        if len(wholes) < 256:
            wholes[number] = result
    return result


def complex_of(number: Any, kind: Any) -> Array | None:
    """A Python number as a 0-d complex array beside an operand of the float or complex dtype `kind`; None for other dtypes."""
    kind = _WITH_COMPLEX.get(kind)
    return None if kind is None else numpy.array(number, kind)


_WITH_COMPLEX = {F32: C64, F64: C128, C64: C64, C128: C128}


def number_array(number: Any, kind: Any) -> Array:
    """`scalar_of`, remembered."""
    result = (scalars32 if kind is F32 else scalars64).get(number)
    return scalar_of(number, kind) if result is None else result


def describe(operand: Any) -> Any:
    return (operand.shape, operand.dtype) if isinstance(operand, ndarray) or hasattr(operand, "shape") else ((), None)


def broadcast_failure(op: Op, operands: tuple, error: Exception) -> Exception:
    shapes = [operand.shape for operand in operands]
    return refusal(lambda: check_sizes(op.name, broadcast_shapes(op.name, *shapes))) or error


def slow_of(op: Op) -> Callable[..., Any]:
    """Forward with promotion: mixed dtypes, integers where floats come out, half types, numbers."""

    def slow(operands: tuple, statics: tuple) -> Any:
        for operand in operands:
            if type(operand) is CudaArray or hasattr(type(operand), "__dynograd_kernel__"):
                return kernel("elementwise", op.name, operand)(*operands, *statics)
        shapes = [operand.shape for operand in operands if hasattr(operand, "shape")]
        shape = check_sizes(op.name, broadcast_shapes(op.name, *shapes))
        kind = dtypes.result_dtype(*(operands[1:] if op.promote == "select" else operands))
        if op.promote == "float" and kind.category < dtypes.FLOATING:
            kind = dtypes.get_default_dtype()
        if op.promote == "integer" and kind.category > dtypes.INTEGER:
            raise DtypeError(
                f"{op.name}: expected integer or bool tensors, got {kind}. Convert with .long() or .bool() first."
            )
        if kind is dtypes.bool and op.name in dtypes.OF_NUMBERS:
            raise DtypeError(f"{op.name}: expected tensors of integers, got bool. Convert with .int() first.")
        if kind.category == dtypes.COMPLEX and op.row["ordered"]:
            dtypes.refuse_complex(
                op.name, next(operand for operand in operands if dtypes.result_dtype(operand).category == kind.category)
            )
        if op.name == "sub" and any([getattr(operand, "dtype", None) is _BOOL for operand in operands]):
            raise DtypeError(
                "sub: subtraction, the `-` operator, with a bool tensor is not supported. Use ~ or logical_not to invert a mask, ^ or "
                "logical_xor for two (two bool tensors have no difference), or convert with .int()."
            )
        if kind in dtypes.FLOAT8 and not op.row["float8"] and op.promote != "select":
            dtypes.refuse_float8(op.name, next(operand for operand in operands if dtypes.result_dtype(operand) is kind))
        compute = (
            dtypes.float32
            if kind in (dtypes.float16, dtypes.bfloat16, *dtypes.FLOAT8) and op.promote != "select"
            else kind
        )
        if op.promote == "logical":
            ready = [_as_array(operand, None) for operand in operands]
        elif op.promote == "select":
            ready = [_as_condition(op, operands[0]), *[_as_array(operand, kind) for operand in operands[1:]]]
        else:
            ready = [_as_array(operand, compute if _keeps_digits(op, operand) else kind) for operand in operands]
            if compute is not kind:
                ready = [arrays.cast(operand, compute) for operand in ready]
        try:
            name = op.name
            if kind.category == dtypes.COMPLEX and type(ready[0]) is ndarray:
                name = OF_COMPLEX.get(name, name)
            out = as_result(quietly(kernel("elementwise", name, ready[0]), *ready, *statics))
        except TypeError as error:
            if kind is dtypes.bool and op.name == "neg":
                raise DtypeError(
                    "neg: the `-` of a bool tensor is not supported. Use ~ or logical_not, or convert with .int()."
                ) from None
            raise DtypeError(
                f"{op.name}: not defined for {kind} ({error}). Convert to a supported dtype first."
            ) from None
        if op.promote in ("arithmetic", "float", "integer"):
            if compute is not kind:
                out = arrays.cast(out, kind)
        if out.shape != shape:
            raise AssertionError(f"{op.name} kernel returned shape {out.shape}, expected {shape}")
        return out

    return slow


def computes_on(op: Op, fast: Any, kind: Any) -> bool:
    """Whether the kernel `fast` of the op computes on complex numbers, or ints, what `slow_of` would."""
    if op.promote not in ("arithmetic", "compare") and (op.promote != "float" or kind.kind != "c"):
        return False
    if kind.kind == "c" and (op.row["ordered"] or op.name in OF_COMPLEX):
        return False
    try:
        quietly(fast, *[numpy.ones(1, kind) for _ in op.array_names], *[1] * len(op.static_names))
    except (DtypeError, TypeError):
        return False
    return True


_BOOL = dtypes.bool.numpy


def _as_array(operand: Any, kind: Any) -> Any:
    if arrays.is_array(operand):
        return operand if kind is None else arrays.cast(arrays.as_result(operand), kind)
    if kind is None:
        return arrays.from_python(operand, None)
    if kind.category == dtypes.INTEGER:
        if kind is dtypes.uint64:
            return numpy.array(int(operand) % 2**64, kind.numpy)
        return numpy.array(int(operand), dtype=numpy.int64).astype(kind.numpy)
    return arrays.from_python(operand, kind)


def _keeps_digits(op: Op, operand: Any) -> bool:
    """Numbers and 0-d tensors beside half tensors enter arithmetic in float32; to be compared they are rounded first."""
    return op.promote != "compare" and not getattr(operand, "ndim", 0)


def _as_condition(op: Op, condition: Any) -> Array:
    if condition.dtype.kind == "b":
        return arrays.as_result(condition)
    if condition.dtype.num == dtypes.uint8.num:
        return arrays.cast(condition, dtypes.bool)
    raise DtypeError(
        f"{op.name}: expected condition to be a boolean tensor, but got a tensor with dtype {dtypes.of_array(condition)}. "
        f"Compare first, e.g. condition != 0, or use condition.bool()."
    )
