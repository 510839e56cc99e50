"""The in-place forms of ops: `add_` and its like, augmented operators, and the methods that change a tensor's own shape."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.arrays import CudaArray, ndarray, storages
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import stamp
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.signatures import SignatureLater
from dynograd.interpreter import TENSORS
from dynograd.interpreter.fusion import into_of
from dynograd.interpreter.promotion import number_array
from dynograd.interpreter.shared import F32, F64
from dynograd.interpreter.tensor_parts import is_silent
from dynograd.interpreter.writing import write_elementwise_into, write_into
from dynograd.kernels import kernel
from dynograd.ops.layout.conversions import copied
from dynograd.ops.op import Op, Writing, registry, standing
from dynograd.tensor.inplace import (
    REPEATED,
    beside_plans,
    check_writable,
    copy_,
    fill_,
    guards,
    has_no_history,
    refuse_overlap,
    refuse_repeats,
    renews,
    set_item,
    write_result,
    zero_,
)
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["install_inplace", "quick_out", "straight_form", "with_writer"]


def inplace_form(entry: Op, name: str) -> Callable[..., Any]:
    """The method `name_` of an op: computes the functional form and writes it into the tensor.

    Where there is a kernel that writes, or NumPy's function does, code that calls it stands before that (`interpreter/writing.py`).
    """
    function = entry.function
    who = name + "_"
    op = registry.get(name)
    straight = straight_form(entry, who)
    elementwise = op is not None and op.kind == "elementwise"
    named_dim = "dim" in entry.parameter_names

    @functools.wraps(function)
    def slow(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs and named_dim and "axis" in kwargs:
            kwargs["dim"] = kwargs.pop("axis")
        if type(self) not in TENSORS or any(
            [isinstance(argument, Tensor) and type(argument) not in TENSORS for argument in args]
        ):
            # tangents are computed with the old values, which their history must keep
            old = copied(self)
            return write_result(
                self, function(old, *[old if argument is self else argument for argument in args], **kwargs), who
            )
        array = self.array
        if straight is not None and straight(self, (self, *args), kwargs):
            if not is_silent(self):
                stamp(array)
            return self
        if 0 in array.strides and who not in REPEATED:
            refuse_repeats(who, array)
        if elementwise:
            for argument in args:
                if type(argument) in TENSORS and (argument.array.base is not None or array.base is not None):
                    refuse_overlap(who, array, argument.array)
        return write_result(self, function(self, *args, **kwargs), who)

    slow.__name__ = slow.__qualname__ = who
    slow.__doc__ = f"In-place form of `{name}`: the result is written into the tensor, which is returned. Of `{name}`:\n\n    {function.__doc__}"
    write = _writer(entry, op, name)
    quick = slow if write is None else standing(slow, lambda: write(slow), always=True, title=f"inplace/{who}")

    @functools.wraps(slow)
    def guarded(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if guards:
            if MODES.plan is not None:
                plan, operands = MODES.plan, (*args, *kwargs.values())
                if plan.may_store(self, operands):
                    return _renewed(self, function, args, kwargs, who)
                if plan.is_beside(self, operands):
                    guards[0](self)
                    with beside_plans():
                        return quick(self, *args, **kwargs)
                if renews(self, operands):
                    return _renewed(self, function, args, kwargs, who)
                settled = plan.settled(self, operands)
                known, named = settled[: len(args)], dict(zip(kwargs, settled[len(args) :]))
                if has_no_history(self, *known, *named.values()):
                    guards[0](self)
                    with beside_plans():
                        return quick(self, *known, **named)
                args, kwargs = known, named
            if any([hasattr(type(argument), "__dynograd_settle__") for argument in args]):  # it waits: so may the write
                return write_result(self, function(self, *args, **kwargs), who)
            guards[0](self)
        return quick(self, *args, **kwargs)

    return guarded if write is None else standing(guarded, lambda: asking(write(slow), guarded), title=f"asked/{who}")


def _renewed(target: Tensor, function: Any, args: tuple, kwargs: dict[str, Any], who: str) -> Tensor:
    """The in-place form for a tensor that a compiled step has made: what is computed apart is its value from then on."""
    if "axis" in kwargs and "dim" in inspect.signature(function).parameters:
        kwargs["dim"] = kwargs.pop("axis")
    if args:  # an array differs by step
        args = tuple([wrap(argument) if type(argument) is ndarray else argument for argument in args])
    result = function(target, *args, **kwargs)
    if MODES.plan is not None and MODES.plan.renew_at_once(target, result):
        return target
    if any([result is argument for argument in (target, *args)]):
        result = copied(result)
    return write_result(target, result, who)


def asking(writing: Writing, guarded: Callable[..., Any]) -> Writing:
    """The code, which leaves it to `guarded` where someone asks to be told of writes."""
    sources, names = writing

    def asked(source: Callable[[], str]) -> str:
        head, _, body = source().partition("\n")
        gives_up = next(
            line for line in body.splitlines() if "return general(" in line or "return named(general" in line
        )
        return "\n".join([head, "    if guards:", "        " + gives_up.strip().replace("general", "guarded", 1), body])

    names = names | {"guards": guards, "guarded": guarded}
    return {name: functools.partial(asked, source) for name, source in sources.items()}, names


def _writer(face: Op, op: Op | None, name: str) -> Callable[[Any], Writing] | None:
    """Writes the code that stands before the slow form; None where nothing writes into the tensor's own memory."""
    if name in WRITES:
        return lambda slow: write_into(slow, kernel("writes", name, ndarray(0)), *WRITES[name])
    if _writes_itself(face, op) and op.promote != "compare":  # type: ignore[union-attr]
        return lambda slow: write_elementwise_into(slow, op)  # type: ignore[arg-type]
    return None


def _writes_itself(face: Op, op: Op | None) -> bool:
    """Whether it is an elementwise op on floats, called with the op's own arguments."""
    if op is None or op.kind != "elementwise" or op.promote not in ("arithmetic", "float", "compare"):
        return False
    names = face.parameter_names
    return (op is face or face.row["direct"]) and all([name in names for name in (*op.array_names, *op.static_names)])


def quick_out(into: Any, face: Op) -> Callable[..., Any]:
    """`into(out, ...)` of an elementwise op with code before it that calls NumPy's function with `out`."""
    op = registry[face.name]
    if op.promote == "compare":
        return into
    into.__name__ = op.name
    into.__signature__ = SignatureLater(
        lambda: inspect.Signature(
            [
                inspect.Parameter("out", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                *face.signature.parameters.values(),
            ]
        )
    )
    return standing(into, lambda: asking(write_elementwise_into(into, op, "out", 2), into), title=f"out/{op.name}")


# --- elementwise ops straight into memory: large arrays, several shapes, the GPU -------------------------------------------------


def straight_form(face: Op, who: str) -> Callable[..., Any] | None:
    """`straight(out, args, kwargs)` computes an elementwise op into the memory of `out`; False leaves it to the general way.

    For floating tensors of one dtype, and numbers, that are not recorded. None for ops of another kind.
    """
    op = registry.get(face.name)
    if not _writes_itself(face, op):
        return None
    assert op is not None
    names = [name for name in face.parameter_names if name in face.array_names or name in face.static_names]
    places = [names.index(name) for name in op.array_names]
    extras: dict[str, Any] | None = None
    fewest = max(places) + 1
    compares = op.promote == "compare"
    parts: list[Any] = []

    def straight(out: Tensor, args: tuple, kwargs: dict[str, Any]) -> bool:
        nonlocal extras
        if extras is None:
            parameters = face.signature.parameters
            extras = {name: parameters[name].default for name in names if name not in op.array_names}
        target = out.array
        kind = target.dtype
        recorded = MODES.grad
        if recorded and out.requires_grad:
            return False
        if len(args) < fewest or (kwargs and not extras.keys() - names[: len(args)] >= kwargs.keys()):
            return False  # operands by name, or arguments that are wrong
        operands: list[Any] = []
        for place in places:
            argument = args[place]
            if type(argument) in TENSORS:
                if recorded and argument.requires_grad:
                    return False
                operands.append(argument.array)
            elif type(argument) is float or type(argument) is int:
                operands.append(argument)
            else:
                return False
        arguments = extras | dict(zip(names, args)) | kwargs
        for name, default in extras.items():
            if name not in op.static_names and arguments[name] is not default and arguments[name] != default:
                return False
        statics = tuple([arguments[name] for name in op.static_names])
        if statics and not all([type(value) in (int, float) or value is None for value in statics]):
            return False
        arrayed = [operand for operand in operands if type(operand) is not int and type(operand) is not float]
        if compares:
            if kind.kind != "b" or not arrayed:
                return False
            kind = arrayed[0].dtype
        if not arrayed or any([array.dtype is not kind for array in arrayed]) or set(statics) == {None}:
            return False
        for argument in arrayed:
            if argument is not target and (argument.base is not None or target.base is not None):
                refuse_overlap(who, target, argument)
        shapes = {array.shape for array in arrayed}
        if shapes != {target.shape} and broadcast_shapes(op.name, *shapes) != target.shape:
            return False
        if 0 in target.strides and storages.repeats(target):
            return False
        if type(target) is CudaArray:
            return not compares and kind.kind == "f" and _on_gpu(op.name, operands, statics, target)
        if (kind is not F32 and kind is not F64) or any(
            [type(operand) is not ndarray for operand in (target, *arrayed)]
        ):
            return False
        if not parts:
            parts.extend(into_of(op, ndarray(0, F32)))
        fast, least, compute = parts
        operands = [operand if type(operand) is ndarray else number_array(operand, kind) for operand in operands]
        if fast is not None and (compares or target.size < least):
            return _by_numpy(fast, operands, target)
        return not compares and (
            compute(operands, statics, target) or (fast is not None and _by_numpy(fast, operands, target))
        )

    return straight


def _by_numpy(function: Any, operands: list[Any], target: Any) -> bool:
    with contextlib.suppress(*arrays.FLOATING_WARNINGS):  # raised when everything is written
        function(*operands, out=target)
    return True


def _on_gpu(name: str, operands: list[Any], statics: tuple, target: Any) -> bool:
    from dynograd.kernels.elementwise import elementwise_cuda

    for operand in operands:
        if type(operand) is not float and type(operand) is not int:
            if type(operand) is not CudaArray or operand.device_index != target.device_index:
                return False
    return elementwise_cuda.into(name, operands, statics, target)


# --- a tensor's own shape ----------------------------------------------------------------------------------------------------------


def reshaping_form(function: Any, who: str) -> Callable[..., Any]:
    """The method that changes a tensor's own shape (`unsqueeze_`): it becomes a view of what it was."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        plain = getattr(type(self), "__dynograd_plain__", None)
        if plain is not None:
            self = plain(self)
        become = getattr(type(self), "__dynograd_become__", None)
        if become is not None:
            return become(self, function(self, *args, **kwargs))
        if not MODES.grad and self.requires_grad and self.node is None:
            self.array = function(self.detach(), *args, **kwargs).array
            return self
        check_writable(self, who)
        before = wrap(self.array)
        before.node, before._requires_grad, before._meta = self.node, self._requires_grad, self._meta
        after = function(before, *args, **kwargs)
        self.array, self.node, self._requires_grad = after.array, after.node, after._requires_grad
        self._meta = after._meta  # views of it that there are find what they are views of now by this
        return self

    method.__name__ = method.__qualname__ = who
    method.__doc__ = f"In-place form of `{who[:-1]}`: the tensor itself changes its shape, and is returned. Of `{who[:-1]}`:\n\n    {function.__doc__}"
    return method


# Ops with a kernel that writes into the tensor's own memory: which of their parameters are tensors, which tensors or numbers, and the code of
# the quick way. The code is that of methods; a row says what an op means.
_FEW = "type(dim) is int and entries['writes.{}'](key, id(index_array), id({}_array), dim, {})"
_TRIANGLE = "type(diagonal) is int and entries['writes.keep_triangle'](key, key, diagonal, {})"
_HELD = "(type({0}) is float or type({0}) is int) and -3.4e38 <= {0} <= 3.4e38"  # by float32
WRITES = {
    "index_add": ("index source", "", "", "alpha == 1 and " + _FEW.format("write_few_slices", "source", "kernels.ADD")),
    "index_copy": ("index source", "", "", _FEW.format("write_few_slices", "source", "kernels.WRITE")),
    "index_fill": ("index", "value"),
    "index_put": ("values", "", "indices"),
    "masked_fill": (
        "mask",
        "value",
        "",
        _HELD.format("value_array") + " and entries['writes.fill_few_where'](key, id(mask_array), value_array)",
    ),
    "masked_scatter": (
        "mask source",
        "",
        "",
        "entries['writes.write_few_where'](key, id(mask_array), id(source_array))",
    ),
    "put": ("index source",),
    "scatter": (
        "index",
        "src",
        "",
        "type(src_array) is ndarray and " + _FEW.format("write_few", "src", "kernels.WRITE"),
    ),
    "scatter_add": ("index src", "", "", _FEW.format("write_few", "src", "kernels.ADD")),
    "scatter_reduce": ("index src",),
    "tril": ("", "", "", _TRIANGLE.format(1)),
    "triu": ("", "", "", _TRIANGLE.format(0)),
}
_SMALL = "array.nbytes < 32768"
_WRITERS = {
    "copy_": (
        "other",
        "",
        "",
        f"{_SMALL} and other_array.ndim <= array.ndim and ((kind := array.dtype) is other_array.dtype or other_array.dtype.char + kind.char in CASTS)",
        "array[...] = other_array",
    ),
    "fill_": ("", "", "", f"{_HELD.format('value')} and entries['writes.fill'](key, value)"),
    "fill_diagonal_": ("",),
    "zero_": ("", "", "", "entries['writes.zero'](key)"),
}
_AUGMENTED = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__idiv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}


# With one call that draws its two numbers' distribution. Of what `blocks_of` gives the lowest bit says whether elements are float64.
_DRAWN = (
    "not takers and (blocks := entries['random.blocks_of'](key)) and "
    "entries['random.draw_{0}64' if blocks & 1 else 'random.draw_{0}32'](key, {1}, {2}, "
    "*(default_generator if generator is None else generator).key(blocks >> 1))"
)
_REAL = "(type({0}) is float or type({0}) is int)"
_NORMAL, _UNIFORM = _DRAWN.format("normal", "std", "mean"), _DRAWN.format("uniform", "a", "b")
DRAWS = {
    "normal_": f"{_REAL.format('std')} and {_REAL.format('mean')} and std >= 0 and {_NORMAL}",
    "uniform_": f"{_REAL.format('a')} and {_REAL.format('b')} and -30000 <= a <= b <= 30000 and not bounds and {_UNIFORM}",
}


def with_writer(method: Any) -> Callable[..., Any]:
    """A method that is no op, behind code that calls the kernel of writes with its name."""
    name = method.__name__

    def write() -> Writing:
        if name in DRAWS:
            return asking(write_into(method, None, "", "", "", DRAWS[name]), method)
        return asking(write_into(method, kernel("writes", name[:-1], ndarray(0)), *_WRITERS[name]), method)

    return standing(method, write, title=f"inplace/{name}")


def install_inplace(table: dict[str, Op]) -> None:
    """Puts every `name_` method, the augmented operators and item assignment on Tensor."""
    for key, entry in list(table.items()):
        if not entry.inplace or key.endswith(".public"):
            continue
        face = table.get(f"{key}.public", entry)
        setattr(Tensor, f"{entry.name}_", inplace_form(face, entry.name))
    for key, entry in table.items():
        if entry.row["inplace_view"] and not key.endswith(".public"):
            setattr(Tensor, f"{entry.name}_", reshaping_form(getattr(Tensor, entry.name), f"{entry.name}_"))
    for operator, name in _AUGMENTED.items():
        if hasattr(Tensor, name):
            setattr(Tensor, operator, getattr(Tensor, name))
    for method in (copy_, fill_, zero_):
        setattr(Tensor, method.__name__, with_writer(method))
    Tensor.__setitem__ = set_item  # type: ignore[assignment, method-assign]
