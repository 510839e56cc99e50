"""The in-place forms of ops: `add_` and its like, augmented operators, and the methods that change a tensor's own shape."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any

from dynograd import arrays
from dynograd.arrays import CudaArray, ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import stamp
from dynograd.inplace import (
    REPEATED,
    check_writable,
    copy_,
    fill_,
    guards,
    refuse_overlap,
    refuse_repeats,
    set_item,
    write_result,
    written,
    zero_,
)
from dynograd.interpreter import TENSORS
from dynograd.interpreter.fusion import into_of
from dynograd.interpreter.promotion import number_array, scalars32, scalars64, whole_of
from dynograd.interpreter.shared import F32, F64, I64
from dynograd.kernels import ufuncs
from dynograd.kernels.loops_cpu import ONE_PASS
from dynograd.kernels.ufuncs import COMPOSED
from dynograd.ops.conversions import copied
from dynograd.ops.op import Op, registry
from dynograd.tensor import Tensor, wrap

__all__ = ["FACES", "install_inplace"]


def inplace_form(entry: Op, name: str) -> Any:
    """The method `name_` of an op: computes the functional form and writes it into the tensor."""
    function = entry.function
    who = name + "_"
    op = registry.get(name)
    direct = _direct_form(op, entry)
    elementwise = op is not None and op.kind == "elementwise"
    named_dim = "dim" in entry.signature.parameters
    quick: Any = None

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs and named_dim and "axis" in kwargs:
            kwargs["dim"] = kwargs.pop("axis")
        if guards:
            if any(
                [hasattr(type(one), "__dynograd_settle__") for one in args]
            ):  # an operand that waits: so may the write
                return write_result(self, function(self, *args, **kwargs), who)
            guards[0](self)
        if direct is not None and type(self) in TENSORS and not (self._requires_grad and MODES.grad):
            nonlocal quick
            array = self.array
            if quick is None and type(array) is ndarray:
                quick = _quick_form(op, array)
            if array.base is not None and 0 in array.strides:
                refuse_repeats(who, array)
            if (quick is not None and quick(array, args, kwargs)) or direct(array, args, kwargs):
                meta = self._meta
                if meta is None or not meta.silent:
                    stamp(array)
                return self
        if type(self) in TENSORS:
            array = self.array
            if guards and name in WRITES and written(self, name, args, kwargs):
                return self
            if 0 in array.strides and who not in REPEATED:
                refuse_repeats(who, array)
            if elementwise:
                for one in args:
                    if type(one) in TENSORS and (one.array.base is not None or array.base is not None):
                        refuse_overlap(who, array, one.array)
        if type(self) not in TENSORS or any([isinstance(one, Tensor) and type(one) not in TENSORS for one in args]):
            # tangents are computed with the old values, which their history must keep
            old = copied(self)
            return write_result(self, function(old, *[old if one is self else one for one in args], **kwargs), who)
        return write_result(self, function(self, *args, **kwargs), who)

    @functools.wraps(function)
    def writing(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not guards and type(self) in TENSORS and written(self, name, args, kwargs):
            return self
        return method(self, *args, **kwargs)

    made = writing if name in WRITES else method
    made.__name__ = made.__qualname__ = who
    made.__doc__ = f"In-place form of `{name}`."
    return made


def _quick_form(op: Any, like: Any) -> Any:
    """`quick(array, args, kwargs)`: what `direct` does with small arrays of one shape and numbers; False leaves it to `direct`."""
    fast, least, _ = into_of(op, like)
    if fast is not None and len(op.array_names) == 2 and not op.static_names:
        return _quick_pair(op, fast, least)
    functions = ufuncs.FLAT.get(op.name)
    return _never if functions is None else _quick_flat(op, functions)


def _quick_pair(op: Any, fast: Any, least: int) -> Any:
    whole = op.name in ("add", "sub", "mul")

    def quick(array: Any, args: Any, kwargs: Any) -> bool:
        kind = array.dtype
        if len(args) != 1 or kwargs or type(array) is not ndarray:
            return False
        (other,) = args
        if kind is F32 or kind is F64:
            if array.size >= least:
                return False
            if type(other) in TENSORS:
                operand = other.array
                if operand.dtype is not kind or operand.shape != array.shape or (other._requires_grad and MODES.grad):
                    return False
                if operand is not array and (operand.base is not None or array.base is not None):
                    refuse_overlap(f"{op.name}_", array, operand)
            elif type(other) is float or type(other) is int:
                operand = (scalars32 if kind is F32 else scalars64).get(other)
                if operand is None:
                    operand = number_array(other, kind)
            else:
                return False
        elif whole and kind is I64 and type(other) is int:
            operand = whole_of(other)
        else:
            return False
        try:  # noqa: SIM105  (a context manager takes 0.3 us)
            fast(array, operand, out=array)
        except arrays.FLOATING_WARNINGS:  # raised when everything is written
            pass
        return True

    return quick


def _quick_flat(op: Any, functions: Any) -> Any:
    """Of the ops that have a function with numbers at the end (`ufuncs.FLAT`)."""
    count = len(op.array_names) - 1 - (op.name == "lerp")
    numbers = functions.count - 1 - count
    statics = _STATICS.get(op.name, ())
    last = statics[-1][0] if len(statics) == 1 else ""

    def quick(array: Any, args: Any, kwargs: Any) -> bool:
        kind = array.dtype
        if not (COMPOSED <= array.size < ONE_PASS) or not (kind is F32 or kind is F64) or type(array) is not ndarray:
            return False
        if kwargs:
            if len(kwargs) > 1 or last not in kwargs:
                return False
            args = (*args, kwargs[last])
        elif last and len(args) == count:
            args = (*args, statics[-1][1])
        if len(args) != count + numbers:
            return False
        shape = array.shape
        operands = []
        for one in args[:count]:
            if type(one) not in TENSORS or (one._requires_grad and MODES.grad):
                return False
            other = one.array
            if other.dtype is not kind or other.shape != shape:
                return False
            if other is not array and (other.base is not None or array.base is not None):
                return False
            operands.append(other)
        known = scalars32 if kind is F32 else scalars64
        for one in args[count:]:
            if (type(one) is not float and type(one) is not int) or one != one:
                return False
            found = known.get(one)
            operands.append(number_array(one, kind) if found is None else found)
        try:  # noqa: SIM105
            functions[kind.char](array, *operands, out=array)
        except arrays.FLOATING_WARNINGS:
            pass
        return True

    return quick


def _never(array: Any, args: Any, kwargs: Any) -> bool:
    return False


def _direct_form(op: Op | None, face: Op) -> Any:
    """`direct(array, args, kwargs)` computes an elementwise op into the array's own memory; False leaves it to the general way.

    For float arrays, numbers, and operands of the same dtype that are not recorded. None for ops of another kind.
    """
    if op is None or op.kind != "elementwise" or op.promote not in ("arithmetic", "float"):
        return None
    statics = _STATICS.get(op.name, ())
    if len(statics) != len(op.static_names) or (op is not face and op.name not in FACES):
        return None
    count = len(op.array_names) - 1
    fast: Any = None
    least: int | None = None
    compute: Any = None

    def direct(array: Any, args: Any, kwargs: Any) -> bool:
        nonlocal fast, least, compute
        on_gpu = type(array) is CudaArray
        if not on_gpu and type(array) is not ndarray:
            return False  # one without values, on the device meta
        if least is None and not on_gpu:
            fast, least, compute = into_of(op, array)
        values = args[count:]
        if len(args) < count or len(values) > len(statics) or array.dtype.kind != "f":
            return False
        given: tuple = ()
        if statics:
            found = dict(statics)
            found.update(zip(found, values))
            for key, value in kwargs.items():
                if key not in found:
                    return False
                found[key] = value
            given = tuple(found.values())
            if not all([type(value) in (int, float) or value is None for value in given]) or set(given) == {None}:
                return False
        elif kwargs:
            return False
        kind = array.dtype
        operands = [array]
        for one in args[:count]:
            if type(one) in TENSORS:
                other = one.array
                if other.dtype is not kind or (one._requires_grad and MODES.grad):
                    return False
                if other is not array and (other.base is not None or array.base is not None):
                    refuse_overlap(f"{op.name}_", array, other)
                if other.shape != array.shape and other.ndim and not _stretches(other.shape, array.shape):
                    return False
            elif type(one) in (int, float) and (on_gpu or kind.itemsize > 2):
                other = one if on_gpu else number_array(one, kind)
            else:
                return False
            operands.append(other)
        if on_gpu:
            from dynograd.kernels import elementwise_cuda

            return elementwise_cuda.into(op.name, operands, given)
        if array.size >= least:  # type: ignore[operator]
            return compute(operands, given) or _by_numpy(fast, operands)
        return _by_numpy(fast, operands)

    return direct


def _by_numpy(fast: Any, operands: list[Any]) -> bool:
    if fast is None:
        return False
    with contextlib.suppress(*arrays.FLOATING_WARNINGS):  # raised when everything is written
        fast(*operands, out=operands[0])
    return True


def _stretches(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(shape) <= len(wanted) and all(
        [size in (1, full) for size, full in zip(shape[::-1], wanted[::-1], strict=False)]
    )


def reshaping_form(function: Any, who: str) -> Any:
    """The method that changes a tensor's own shape (`unsqueeze_`): it becomes a view of what it was."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not MODES.grad and self._requires_grad and self.node is None:
            self.array = function(self.detach(), *args, **kwargs).array
            return self
        check_writable(self, who)
        before = wrap(self.array)
        before.node, before._requires_grad, before._meta = self.node, self._requires_grad, self._meta
        for view in before._meta.views or () if before._meta is not None else ():
            living = view()
            if living is not None and living._meta.base is self:
                living.meta().base = before
        after = function(before, *args, **kwargs)
        self.array, self.node, self._requires_grad, self._meta = (
            after.array,
            after.node,
            after._requires_grad,
            after._meta,
        )
        if self._meta is not None and self._meta.base is not None:
            self._meta.base._meta.views.append(weakref.ref(self))
        return self

    method.__name__ = method.__qualname__ = who
    method.__doc__ = f"In-place form of `{who[:-1]}`: the tensor itself changes its shape."
    return method


_RESHAPING = ("as_strided", "squeeze", "unsqueeze", "transpose", "t", "swapaxes", "swapdims")
# Ops whose public function, called with tensors and numbers in the op's own order, is the op.
FACES = frozenset("add sub mul div maximum minimum relu sigmoid abs neg addcmul addcdiv clamp".split())
# Those with a kernel that writes into the tensor's own memory.
WRITES = frozenset(
    "index_add index_copy index_fill index_put masked_fill masked_scatter put scatter scatter_add".split()
)
# Their static arguments, with the public function's defaults.
_STATICS = {"addcmul": (("value", 1),), "addcdiv": (("value", 1),), "clamp": (("min", None), ("max", None))}
_AUGMENTED = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}


def install_inplace(table: dict[str, Op]) -> None:
    """Puts every `name_` method, the augmented operators and item assignment on Tensor."""
    for key, entry in list(table.items()):
        if not entry.inplace or key.endswith(".public"):
            continue
        face = table.get(f"{key}.public", entry)
        setattr(Tensor, f"{entry.name}_", inplace_form(face, entry.name))
    for name in _RESHAPING:
        setattr(Tensor, f"{name}_", reshaping_form(getattr(Tensor, name), f"{name}_"))
    for operator, name in _AUGMENTED.items():
        if hasattr(Tensor, name):
            setattr(Tensor, operator, getattr(Tensor, name))
    for method in (copy_, fill_, zero_):
        setattr(Tensor, method.__name__, method)
    Tensor.__setitem__ = set_item  # type: ignore[attr-defined,index]
