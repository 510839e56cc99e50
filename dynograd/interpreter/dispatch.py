"""Ops called with something else than plain tensors."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy

from dynograd import arrays
from dynograd.arrays import FLOATING_WARNINGS, as_result, ndarray, quietly
from dynograd.autograd.modes import MODES, show
from dynograd.autograd.nodes import next_seq
from dynograd.base.dtypes import FLOATING, as_dtype
from dynograd.base.shapes import class_dim, normalize_dim, one_dim, reduced_dims, some_dims, truth_value, whole_number
from dynograd.interpreter.promotion import slow_of
from dynograd.interpreter.shared import C64, C128, F32, F64, NUMBERS, TENSORS, plain_of, tensor_class
from dynograd.interpreter.tensor_parts import link_view, tell_watchers, watchers
from dynograd.interpreter.view_history import follow_base
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Op

if TYPE_CHECKING:
    from dynograd.tensor.tensor import Tensor

overridden: list[Any] = []  # who knows of types that take functions over by PyTorch's protocol
_outline = attrgetter("shape", "dtype")
_NUMERIC = (bool, int, float, complex, numpy.generic)


def other_types(op: Op, args: tuple) -> Any:
    """An op called with something else than plain tensors.

    In this order: types with `__dynograd_op__` take over; raw arrays and numbers beside tensors become constant tensors;
    raw arrays alone are computed without a tape.
    """
    cls = tensor_class[0]
    if op.reflected is not None and isinstance(args[0], cls) and not is_operand(args[1]):
        result = reflected(op.reflected, *args)
        if result is not NotImplemented:
            return result
    names = list(op.signature.parameters)
    arguments = dict(zip(names, args, strict=True))
    values: list[Any] = []
    for name in op.array_names:
        value = arguments[name]
        if name == op.list_name and isinstance(value, (list, tuple)):
            values += value
        else:
            values.append(value)
    for value in values:
        handler = getattr(type(value), "__dynograd_op__", None)
        if handler is not None:
            return handler(op, arguments)
    for asked in overridden:
        result = asked(op, arguments, values)
        if result is not NotImplemented:
            return result
    has_tensor = any([isinstance(value, cls) for value in values])
    for name in op.array_names:
        value = arguments[name]
        if name == op.list_name:
            if not isinstance(value, (list, tuple)):
                if isinstance(value, cls) or not hasattr(value, "__iter__"):
                    raise TypeError(
                        f"{op.name}(): argument '{name}' must be tuple of Tensors, not {type(value).__name__}."
                    )
                value = list(value)
            arguments[name] = [_operand(op, name, element, has_tensor) for element in value]
        elif value is None and name in op.optional_names:
            continue
        else:
            arguments[name] = _operand(op, name, value, has_tensor)
    keywords = {name for name, parameter in op.signature.parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    if has_tensor:
        args = tuple(arguments[name] for name in names if name not in keywords)
        return op.function(*args, **{name: arguments[name] for name in keywords})
    if op.kind == "elementwise":
        return slow_of(op)(
            tuple(arguments[name] for name in op.array_names), tuple(arguments[name] for name in op.static_names)
        )
    return plain_of(op)(op.forward(**arguments))


def is_operand(value: Any) -> bool:
    """Whether ops compute with the value, or ask its type."""
    if isinstance(value, (tensor_class[0], *_NUMERIC)) or arrays.is_array(value):
        return True
    return hasattr(type(value), "__dynograd_op__") or hasattr(type(value), "__torch_function__")


def reflected(operator: str, self: Any, other: Any) -> object:
    """What the type of `other` makes of an operator by its own `__rmul__`, `__gt__`, ...; NotImplemented where it has none.

    Those of lists, strings and the like say less about a tensor than an op does.
    """
    method = getattr(type(other), operator, None)
    owner = getattr(method, "__objclass__", None)
    return NotImplemented if method is None or (owner and owner.__module__ == "builtins") else method(other, self)


def in_place(op: Op, target: Any, statics: tuple) -> Any:
    """The method `name_` of the op, for a call with `inplace=True`."""
    if not isinstance(target, tensor_class[0]):
        _operand(op, op.array_names[0], target, True)
    return getattr(target, f"{op.name}_")(*statics)


def in_whole_dtype(op: Op, dtype: Any, operand: Any, *statics: Any) -> Tensor:
    """The op of an operand converted to a dtype of whole numbers, and the result too, which is wider where an op adds such numbers up."""
    kind = as_dtype(dtype)
    return convert(op.function(convert(operand, kind), *statics), kind)


def no_dim(who: str) -> TypeError:
    return TypeError(f'{who}() missing 1 required positional arguments: "dim". Flatten first to scan all elements.')


def of_a_row(op: Op, number: Any, dim: Any) -> Tensor:
    """The op along the one dim that a 0-d tensor counts as having."""
    class_dim(op.name, dim, 0)
    return reshaped(op.function(reshaped(number, (1,)), 0), ())


def _operand(op: Op, name: str, value: Any, has_tensor: bool) -> Any:
    cls = tensor_class[0]
    if isinstance(value, cls):
        if type(value) not in TENSORS:
            TENSORS.add(type(value))
        return value
    if op.kind == "elementwise" and has_tensor and isinstance(value, numpy.generic):
        value = value.item()  # a number, as Python's are: it has no precision of its own
    if op.kind == "elementwise" and isinstance(value, _NUMERIC) and not isinstance(value, numpy.generic):
        is_condition = op.promote == "select" and name == op.array_names[0]
        if not is_condition and len(op.array_names) > 1:
            return _number_tensor(value) if has_tensor and type(value) not in NUMBERS else value
    if arrays.is_array(value):
        return cls.wrap(value) if has_tensor else as_result(value)
    if isinstance(value, _NUMERIC):
        raise TypeError(f"{op.name}(): argument '{name}' must be Tensor, not {type(value).__name__} ({value!r}).")
    raise TypeError(
        f"{op.name}(): argument '{name}' must be Tensor, not {type(value).__name__}. "
        f"Make one with dynograd.tensor(...) or dynograd.as_tensor(...)."
    )


def _number_tensor(value: Any) -> Any:
    array = arrays.from_python(value, None)
    array.flags.writeable = False  # which tells who records the op that it is a number
    return tensor_class[0].wrap(array)


def names_for_all() -> dict[str, Any]:
    from_tensor = tensor_class[0]
    return dict(
        TENSORS=TENSORS,
        NUMBERS=NUMBERS,
        MODES=MODES,
        C64=C64,
        C128=C128,
        F32=F32,
        F64=F64,
        ndarray=ndarray,
        as_result=as_result,
        asarray=numpy.asarray,
        SCALARS=arrays.SCALARS,
        outline=_outline,
        quietly=quietly,
        FLOATING_WARNINGS=FLOATING_WARNINGS,
        next_seq=next_seq,
        show=show,
        other_types=other_types,
        FLOATING=FLOATING,
        as_dtype=as_dtype,
        class_dim=class_dim,
        convert=convert,
        in_place=in_place,
        in_whole_dtype=in_whole_dtype,
        no_dim=no_dim,
        normalize_dim=normalize_dim,
        of_a_row=of_a_row,
        one_dim=one_dim,
        reduced_dims=reduced_dims,
        some_dims=some_dims,
        link_view=link_view,
        follow_base=follow_base,
        tell_watchers=tell_watchers,
        watchers=watchers,
        new_tensor=object.__new__,
        Tensor=from_tensor,
        truth_value=truth_value,
        whole_number=whole_number,
        new_node=object.__new__,
    )
