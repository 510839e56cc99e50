"""dtypes and PyTorch's promotion rules. bfloat16 is stored through ml_dtypes; everything else is NumPy's own.

The rule of promotion: kinds are ordered bool < integer < floating < complex. Among the operands of the highest kind,
tensors with dimensions beat 0-d tensors, which beat Python numbers; only the winners' dtypes are combined.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, NoReturn

import ml_dtypes
import numpy

from dynograd.base.shown_names import shown
from dynograd.errors import DtypeError

__all__ = [
    "bfloat16",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "chalf",
    "complex128",
    "complex32",
    "complex64",
    "double",
    "dtype",
    "finfo",
    "float",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float32",
    "float64",
    "get_default_dtype",
    "half",
    "iinfo",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "long",
    "promote_types",
    "set_default_dtype",
    "short",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]

BOOL, INTEGER, FLOATING, COMPLEX = range(4)
OF_NUMBERS = frozenset({"gcd", "lcm"})  # ops on integers that are numbers, not bits: bools are refused


class dtype:
    """The type of a tensor's elements: `dynograd.float32`, `dynograd.int64`, and so on. Programs use these and make none.

    Args:
        name: `float32`.
        numpy_type: what NumPy computes it in.
        category: bool, integer, floating or complex, in the order of promotion.

    >>> dynograd.float32.itemsize, dynograd.float32.is_floating_point
    (4, True)
    """

    __slots__ = ("category", "itemsize", "name", "numpy", "num")

    def __init__(self, name: str, numpy_type: object, category: builtins.int) -> None:
        self.name = name
        self.numpy = numpy.dtype(numpy_type)
        self.num = self.numpy.num
        self.itemsize = self.numpy.itemsize
        self.category = category

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether it holds real numbers in floating point.

        >>> dynograd.bfloat16.is_floating_point, dynograd.complex64.is_floating_point
        (True, False)
        """
        return self.category == FLOATING

    @property
    def is_complex(self) -> builtins.bool:
        """Whether it holds complex numbers.

        >>> dynograd.complex64.is_complex
        True
        """
        return self.category == COMPLEX

    @property
    def is_signed(self) -> builtins.bool:
        """Whether it holds negative numbers.

        >>> dynograd.uint8.is_signed, dynograd.float32.is_signed
        (False, True)
        """
        return self.numpy.kind not in "ub"

    def to_real(self) -> dtype:
        """The real dtype of the same precision.

        Returns:
            A dtype.

        >>> dynograd.complex64.to_real()
        dynograd.float32
        """
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """The complex dtype of the same precision.

        Returns:
            A dtype.

        >>> dynograd.float64.to_complex()
        dynograd.complex128
        """
        return {"float64": complex128, "complex128": complex128}.get(self.name, complex64)

    def __repr__(self) -> str:
        return shown(self.name)

    def __reduce__(self) -> tuple:
        return _by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self


QUANTIZED = (
    "quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use "
    "bfloat16, float16 or float8_e4m3fn."
)


class _Named(dtype):
    """A dtype that programs compare with, and of which there are no tensors."""

    __slots__ = ("way_out",)

    def __init__(self, name: str, itemsize: builtins.int, category: builtins.int, way_out: str) -> None:
        self.name, self.itemsize, self.category, self.num, self.way_out = name, itemsize, category, -1, way_out

    def __getattr__(self, name: str) -> NoReturn:  # asked for `numpy`, which is not set
        if name != "numpy":
            raise AttributeError(name)
        raise DtypeError(f"there are no tensors of dtype {self.name}: {self.way_out}")

    @property
    def is_signed(self) -> builtins.bool:
        return not self.name.startswith(("bits", "uint", "quint"))


float32 = float = dtype("float32", numpy.float32, FLOATING)
float64 = double = dtype("float64", numpy.float64, FLOATING)
float16 = half = dtype("float16", numpy.float16, FLOATING)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOATING)
uint8 = dtype("uint8", numpy.uint8, INTEGER)
uint16 = dtype("uint16", numpy.uint16, INTEGER)
uint32 = dtype("uint32", numpy.uint32, INTEGER)
uint64 = dtype("uint64", numpy.uint64, INTEGER)
int8 = dtype("int8", numpy.int8, INTEGER)
int16 = short = dtype("int16", numpy.int16, INTEGER)
int32 = int = dtype("int32", numpy.int32, INTEGER)
int64 = long = dtype("int64", numpy.int64, INTEGER)
bool = dtype("bool", numpy.bool_, BOOL)
complex64 = cfloat = dtype("complex64", numpy.complex64, COMPLEX)
complex128 = cdouble = dtype("complex128", numpy.complex128, COMPLEX)

complex32 = chalf = _Named("complex32", 4, COMPLEX, "complex numbers of 16-bit parts are not supported. Use complex64.")
_SMALL = "dtypes of fewer than 8 bits are not supported. Use int8 or uint8."
int1, int2, int3, int4, int5, int6, int7 = [_Named(f"int{bits}", 1, INTEGER, _SMALL) for bits in range(1, 8)]
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = [_Named(f"uint{bits}", 1, INTEGER, _SMALL) for bits in range(1, 8)]
bits8, bits16, bits1x8, bits2x4, bits4x2 = [
    _Named(f"bits{name}", 2 if name == "16" else 1, INTEGER, _SMALL) for name in "8 16 1x8 2x4 4x2".split()
]
float4_e2m1fn_x2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu = [
    _Named(f"float{name}", 1, FLOATING, "of 8 bits there are float8_e4m3fn and float8_e5m2, of fewer none.")
    for name in "4_e2m1fn_x2 8_e4m3fnuz 8_e5m2fnuz 8_e8m0fnu".split()
]
qint8, quint8, qint32, quint4x2, quint2x4 = [
    _Named(name, 4 if name == "qint32" else 1, INTEGER, QUANTIZED)
    for name in "qint8 quint8 qint32 quint4x2 quint2x4".split()
]
WITHOUT_TENSORS = {kind.name: kind for kind in list(globals().values()) if isinstance(kind, _Named)}
_FLOATS = (float32, float64, float16, bfloat16)
_INTEGERS = (uint8, int8, int16, int32, int64, uint16, uint32, uint64)
ALL = (*_FLOATS, *_INTEGERS, bool, complex64, complex128)
# Of one byte, to be stored and converted; they are no operands of arithmetic, as in PyTorch.
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOATING)
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, FLOATING)
FLOAT8 = (float8_e4m3fn, float8_e5m2)
BY_NUM: dict[builtins.int, dtype] = {kind.num: kind for kind in (*ALL, *FLOAT8)}
BY_NUM[numpy.dtype(numpy.longlong).num] = int64
BY_NUM[numpy.dtype(numpy.ulonglong).num] = uint64
_PYTHON_TYPES = {builtins.float: float64, builtins.int: int64, builtins.bool: bool, builtins.complex: complex128}
_NAMES = {kind.name: kind for kind in (*ALL, *FLOAT8)} | WITHOUT_TENSORS
_FIRST_OF_OTHERS = 256  # numbers of dtypes that NumPy does not bring
_default = [float32]


def _by_name(name: str) -> dtype:
    return _NAMES[name]


def of_array(array: Any) -> dtype:
    """The dtype of an array; raises `DtypeError` for element types that dynograd does not have."""
    kind = BY_NUM.get(array.dtype.num)
    if kind is None:
        raise DtypeError(
            f"tensor: arrays of {array.dtype} have no dynograd dtype. "
            f"Convert first, e.g. array.astype('float32'); supported are {', '.join(sorted(_NAMES))}."
        )
    return kind


def refuse_float8(who: str, array: Any) -> None:
    """Raises `DtypeError` for elements of one byte that only storage and conversion know."""
    kind = BY_NUM[array.dtype.num]
    if kind in FLOAT8:
        raise DtypeError(
            f'{who}: "{who}" not implemented for {kind}, a type to store and convert. Compute in another one, e.g. '
            f"{who}(x.float(), ...), and convert the result."
        )


def means_dtype(value: Any) -> builtins.bool:
    """Whether an argument that may be a device as well stands for a dtype: one of ours or a Python type."""
    return isinstance(value, dtype) or (isinstance(value, type) and value in _PYTHON_TYPES)


def as_dtype(value: Any) -> dtype:
    """The dtype meant by a dtype, a NumPy dtype or scalar type, a Python type or a name."""
    if type(value) is dtype:
        return value
    if isinstance(value, dtype):
        return BY_NUM[value.numpy.num]  # of which there are tensors; others say so
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    if isinstance(value, str) and value.split(".")[-1] in _NAMES:
        return _NAMES[value.split(".")[-1]]
    try:
        return BY_NUM[numpy.dtype(value).num]
    except (TypeError, KeyError):
        raise DtypeError(f"dtype: expected a dtype such as dynograd.float32, got {value!r}.") from None


def get_default_dtype() -> dtype:
    """The dtype of new floating tensors: float32 unless changed.

    Returns:
        A dtype.

    >>> dynograd.get_default_dtype()
    dynograd.float32
    """
    return _default[0]


def set_default_dtype(d: dtype) -> None:
    """Sets the dtype of tensors made from Python floats; only floating dtypes are allowed.

    Args:
        d: float16, bfloat16, float32 or float64.
    Raises:
        DtypeError: another dtype.

    >>> dynograd.set_default_dtype(dynograd.float64)
    >>> dynograd.zeros(1).dtype
    dynograd.float64
    >>> dynograd.set_default_dtype(dynograd.float32)
    """
    chosen = as_dtype(d)
    if chosen.category != FLOATING:
        raise DtypeError(f"set_default_dtype: expected a floating dtype, got {chosen}.")
    _default[0] = chosen


def default_complex() -> dtype:
    return complex128 if _default[0] is float64 else complex64


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both can be converted to.

    uint16, uint32 and uint64 are promoted as in NumPy and the array API standard, where PyTorch refuses them.

    Args:
        type1, type2: dtypes.
    Returns:
        A dtype.
    Raises:
        DtypeError: uint64 and a signed integer, which no integer dtype holds.

    >>> dynograd.promote_types(dynograd.int32, dynograd.float16)
    dynograd.float16
    >>> dynograd.promote_types(dynograd.int16, dynograd.uint16)
    dynograd.int32
    """
    if type1 is type2:
        return type1
    if type1 in FLOAT8 or type2 in FLOAT8:
        raise DtypeError(
            f"promote_types: promotion of float8 types is not supported, attempted to promote {type1} and {type2}. "
            f"Convert first, e.g. x.float()."
        )
    low, high = (type1, type2) if type1.category <= type2.category else (type2, type1)
    if high.category == COMPLEX:
        if low is float64 or low is complex128 or high is complex128:
            return complex128
        return complex64
    if high.category > low.category:
        return high
    if high.category == FLOATING:
        if {low, high} == {float16, bfloat16}:
            return float32
        return low if low.itemsize > high.itemsize else high
    if high.category == INTEGER and low.is_signed != high.is_signed:
        return _of_both_signs(*((low, high) if low.is_signed else (high, low)))
    return low if low.itemsize > high.itemsize else high


def _of_both_signs(signed: dtype, unsigned: dtype) -> dtype:
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is uint64:
        raise DtypeError(
            f"promote_types: no integer dtype holds both {signed} and {unsigned}. "
            f"Convert one of them first, e.g. x.to(dynograd.{signed.name}), or both to float64."
        )
    return {1: int16, 2: int32, 4: int64}[unsigned.itemsize]


def refuse_complex(who: str, array: Any) -> None:
    """Raises for complex numbers where elements are compared."""
    if array.dtype.kind == "c":
        raise DtypeError(
            f"{who}: not defined for complex numbers ({of_array(array)}), which have no order. Use x.abs(), or x.real and x.imag."
        )


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether a result of `from_` may be written into a tensor of `to` (never down to a lower kind).

    Args:
        from_: the dtype of the result.
        to: the dtype of the tensor.
    Returns:
        True or False.

    >>> dynograd.can_cast(dynograd.float64, dynograd.float32), dynograd.can_cast(dynograd.float32, dynograd.int64)
    (True, False)
    """
    return from_.category <= to.category and not (from_ is not bool and to is bool)


def of_scalar(value: Any) -> dtype:
    """The dtype that a Python or NumPy number stands for."""
    kind = type(value)
    if kind is builtins.bool:
        return bool
    if kind is builtins.int:
        return int64
    if kind is builtins.float:
        return _default[0]
    if kind is complex:
        return default_complex()
    if isinstance(value, numpy.generic):
        return of_scalar(value.item())  # a number, as Python's are: it has no precision of its own
    if isinstance(value, builtins.bool):
        return bool
    if isinstance(value, builtins.int):
        return int64
    if isinstance(value, builtins.float):
        return _default[0]
    raise TypeError(f"expected a number, got {value!r} of type {kind.__name__}.")


def result_dtype(*operands: Any) -> dtype:
    """PyTorch's promoted dtype of arrays (with or without dimensions) and Python numbers."""
    ranked: list[dtype | None] = [None, None, None]
    for operand in operands:
        number = getattr(getattr(operand, "dtype", None), "num", None)
        if number is None or isinstance(operand, numpy.generic):
            own, rank = of_scalar(operand), 2
        else:
            own, rank = BY_NUM[number], (0 if operand.ndim else 1)
        before = ranked[rank]
        ranked[rank] = own if before is None else promote_types(before, own)
    result: dtype | None = None
    for best in ranked:
        if best is None:
            continue
        if result is None:
            result = best
        elif best.category > result.category:
            imaginary = best.category == COMPLEX and result.category == FLOATING
            result = result.to_complex() if imaginary else best
    assert result is not None
    return result


class finfo:
    """Limits of a floating dtype: `eps`, `max`, `min`, `tiny`, `smallest_normal`, `resolution`, `bits`.

    Args:
        type: a floating or complex dtype; None is the default dtype.
    Raises:
        TypeError: another dtype.

    >>> dynograd.finfo(dynograd.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: dtype | None = None) -> None:
        kind = get_default_dtype() if type is None else as_dtype(type)
        if kind.category not in (FLOATING, COMPLEX):
            raise TypeError(f"finfo: expected a floating dtype, got {kind}. Use iinfo for integers.")
        info = ml_dtypes.finfo(kind.numpy) if kind.num >= _FIRST_OF_OTHERS else numpy.finfo(kind.numpy)
        self.dtype = kind.to_real().name
        self.bits = builtins.int(info.bits)
        for name in ("eps", "max", "min", "tiny", "smallest_normal"):
            setattr(self, name, builtins.float(getattr(info, name)))
        self.resolution = builtins.float(
            f"1e-{builtins.int(-math.log10(self.eps))}"
        )  # of the decimal digits that all numbers keep

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, finfo) and vars(self) == vars(other)

    def __hash__(self) -> builtins.int:
        return hash(("finfo", self.dtype, self.bits))

    eps: builtins.float
    max: builtins.float
    min: builtins.float
    tiny: builtins.float
    smallest_normal: builtins.float
    resolution: builtins.float


class iinfo:
    """Limits of an integer dtype: `max`, `min`, `bits`.

    Args:
        type: an integer dtype.
    Raises:
        TypeError: another dtype.

    >>> dynograd.iinfo(dynograd.int8).max
    127
    """

    def __init__(self, type: dtype | None) -> None:
        kind = as_dtype(type)
        if kind.category != INTEGER:
            raise TypeError(f"iinfo: expected an integer dtype, got {kind}. Use finfo for floating dtypes.")
        info = numpy.iinfo(kind.numpy)
        self.bits, self.max, self.min = info.bits, builtins.int(info.max), builtins.int(info.min)
        self.dtype = kind.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> builtins.int:
        return hash(("iinfo", self.dtype))
