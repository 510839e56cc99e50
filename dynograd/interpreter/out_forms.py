"""`out=`: the public functions of ops that write their result into tensors they are given.

Inside the library, as methods and as operators, ops have no `out=`; the functions under `dynograd.`, `dynograd.linalg.` and the like do,
where PyTorch's have one, as the field `out` of their rows says. `public_forms` writes those functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import stamp
from dynograd.base import dtypes
from dynograd.errors import DeviceError, DtypeError, GradientError, user_level
from dynograd.interpreter import TENSORS
from dynograd.interpreter.public_forms import public_form
from dynograd.interpreter.tensor_parts import is_silent
from dynograd.ops.op import Op
from dynograd.tensor.inplace import guards, refuse_overlap, refuse_repeats, write_result
from dynograd.tensor.inplace_forms import quick_out, straight_form
from dynograd.tensor.storages import resize_
from dynograd.tensor.tensor import Tensor


def has_out(entry: Op) -> bool:
    """Whether the op's public function takes `out=`."""
    return entry.row["out"] is not None


def out_forms(functions: dict[str, Any]) -> dict[str, Any]:
    """The public functions by name; those of ops with `out=` in that form."""
    return {name: out_form(function) for name, function in functions.items()}


def out_form(function: Any) -> Any:
    """The form of an op's function that users call; with `out=` where PyTorch's has it."""
    form = _forms.get(function)
    if form is None:
        entry = getattr(function, "op", None)
        form = function
        if isinstance(entry, Op) and has_out(entry) and "out" not in entry.parameter_names:
            form = public_form(function, entry, lambda: _into_of(function, entry))
        elif isinstance(entry, Op) and (function is entry.forward or entry.row["aliases"]):
            form = public_form(function, entry)
        _forms[function] = form
    return form


_forms: dict[Any, Any] = {}


def _into_of(function: Any, entry: Op) -> Callable[..., Any]:
    """`into(out, ...)`, which writes what the function gives for the other arguments."""
    straight = straight_form(entry, entry.name)

    def into(out: Any, *args: Any, **kwargs: Any) -> Any:
        if guards:
            guards[0](out)
        if straight is not None and type(out) in TENSORS and straight(out, args, kwargs):
            if not is_silent(out):
                stamp(out.array)
            return out
        return _written(entry, out, function, args, kwargs)

    return into if straight is None else quick_out(into, entry)


def _written(entry: Op, out: Any, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)` written into `out`, where that is allowed.

    Raises:
        InplaceError: `out` lies in the memory of an operand.
        DtypeError: `out` has another dtype, in ops that do not cast.
    """
    name, ways = entry.name, (entry.row["out"] or "").split()
    targets = [
        operand.array for operand in (out if isinstance(out, (tuple, list)) else (out,)) if type(operand) in TENSORS
    ]
    for argument in args:
        for operand in argument if type(argument) in (list, tuple) else (argument,):
            if type(operand) in TENSORS:
                for target in targets:
                    if "apart" in ways:
                        refuse_repeats(name, target)
                    refuse_overlap(name, target, operand.array, "apart" in ways)
    if "dtype" in ways and isinstance(out, Tensor):
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = out.dtype
    result = function(*args, **kwargs)
    if "exact" in ways:
        operands, outcome = (operand if isinstance(operand, tuple) else (operand,) for operand in (out, result))
        for target, part in zip(operands, outcome, strict=False):
            if isinstance(target, Tensor) and target.dtype is not part.dtype and not _is_part_of_complex(args, part):
                raise DtypeError(
                    f"{name}: Expected out tensor to have dtype {part.dtype}, but got {target.dtype} instead. "
                    f"Make out with dtype={part.dtype}."
                )
    return write_out(name, out, result)


def _is_part_of_complex(args: tuple, result: Tensor) -> bool:
    """Whether a real result comes of complex numbers, as that of `abs` does: it may be cast."""
    return not result.dtype.is_complex and any(
        type(operand) in TENSORS and operand.dtype.is_complex for operand in args
    )


# --- writing a result ----------------------------------------------------------------------------------------------------------


def write_out(who: str, out: Any, result: Any, warn: bool = True) -> Any:
    """Writes a result (or several) into `out` and returns it: sizes, dtypes and devices as `out=` has them in PyTorch.

    An `out` of another size is resized, with a warning when it held elements (functions that make tensors do not warn).

    Raises:
        DtypeError: the result cannot be cast to the dtype of `out`.
        GradientError: something requires grad; writing into `out` is not recorded.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            shown = f"{len(out)} of them" if isinstance(out, (tuple, list)) else type(out).__name__
            raise TypeError(f"{who}(): argument 'out' must be a tuple of {len(result)} Tensors, got {shown}.")
        written = [
            _write_one(who, target, part, f"out[{place}]", warn)
            for place, (target, part) in enumerate(zip(out, result))
        ]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    return _write_one(who, out, result, "out", warn)


def _write_one(who: str, out: Any, result: Any, name: str, warn: bool) -> Any:
    if not isinstance(out, Tensor):
        raise TypeError(f"{who}(): argument '{name}' must be Tensor, not {type(out).__name__}.")
    if MODES.grad and (out.requires_grad or result.requires_grad):
        which = name if out.requires_grad else "one of the arguments"
        raise GradientError(
            f"{who}(): functions with out=... arguments don't support automatic differentiation, but {which} requires grad. "
            f"Leave out= away, or wrap the call in no_grad()."
        )
    if type(out) not in TENSORS or type(result) not in TENSORS:
        return write_result(out, result, who)
    check_out(who, out, result.dtype, result.device, name)
    if guards:
        guards[0](out)
    array = result.array
    if array.shape != out.array.shape:
        if out.array.size and warn:
            warnings.warn(
                f"{who}: an output with one or more elements was resized since it had shape {list(out.array.shape)}, which does not "
                f"match the required output shape {list(array.shape)}. This behavior is deprecated: give {name} that shape, or no "
                f"elements, e.g. {name}.resize_(0).",
                UserWarning,
                stacklevel=user_level(),
            )
        if arrays.may_overlap(out.array, array):
            array = arrays.copy(array)
        with_grad, out._requires_grad = out.requires_grad, False
        resize_(out, array.shape)
        out._requires_grad = with_grad
    refuse_repeats(who, out.array)
    arrays.write(out.array, arrays.cast(array, out.dtype))
    if not is_silent(out):
        stamp(out.array)
    return out


def check_out(who: str, out: Tensor, dtype: dtypes.dtype, device: Any, name: str = "out") -> None:
    """Raises where a result of `dtype` on `device` cannot be written into `out`."""
    if out.device != device:
        raise DeviceError(
            f"{who}: Expected all tensors to be on the same device, but got {name} on {out.device} and other tensors on {device}. "
            f"Make {name} with device='{device}'."
        )
    if not dtypes.can_cast(dtype, out.dtype):
        raise DtypeError(
            f"{who}: result type {dtype} can't be cast to the desired output type {out.dtype} of {name}. "
            f"Make {name} with dtype={dtype}."
        )


def out_dtype(dtype: Any, out: Any) -> Any:
    """The dtype that a creation function is asked for: that of `out`, unless one is given.

    Raises:
        DtypeError: one is given, and it is not that of `out`.
    """
    if not isinstance(out, Tensor):
        return dtype
    if dtype is not None and dtypes.as_dtype(dtype) is not out.dtype:
        raise DtypeError(
            f"dtype {dtypes.as_dtype(dtype)} does not match dtype of out parameter ({out.dtype}). Leave dtype away, or give out that dtype."
        )
    return out.dtype
