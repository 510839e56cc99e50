"""Calls lowered in parts: a rule as the ops that its function calls, an op as other ops.

The function runs twice on tensors without values (`Part`): first to see what it does, then each op in it becomes a call whose result comes to lie
in scratch memory, or where the whole call's result is to be. Neighbouring elementwise ones become one loop, as in a program. What reads a
value, or computes beside the ops, has no parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy

from dynograd.autograd.modes import MODES
from dynograd.autograd.packing import map_saved
from dynograd.kernels.build.launches import Launch
from dynograd.ops.op import Op
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import computes_apart
from dynograd.plans.lowering.forms import FORMS, Lowered, arguments_of, described, form, gradients_of
from dynograd.tensor.tensor import Tensor

__all__ = ["LOWERS", "lower_in_parts", "lower_rule", "op_in_parts", "rule_in_parts", "rules_in_parts"]

LOWERS: list[Callable[[list[Call], list[Any]], list[Lowered | None]]] = []
"""What lowers calls, the package's own, which knows all forms; the second argument are arrays that others read."""

_REFUSALS = ArithmeticError, AttributeError, LookupError, TypeError, ValueError


class _NoPartsError(TypeError):
    """The call does not consist of ops that are lowered."""


def _refuse(*args: Any, **options: Any) -> NoReturn:
    raise _NoPartsError


class Part(Tensor):
    """A tensor without values. They will be in `memory`; `array` has its layout and dtype."""

    __slots__ = ("lowering", "memory", "number")

    @staticmethod
    def __dynograd_op__(op: Op, arguments: dict[str, Any]) -> object:
        operands = _flat([arguments[name] for name in op.array_names])
        return next(value.lowering for value in operands if type(value) is Part).op(op, arguments, operands)

    __dynograd_function__ = __dynograd_write__ = staticmethod(_refuse)


for _read in "item tolist numpy __array__ __dlpack__ __bool__ __float__ __int__ __index__ __complex__".split():
    setattr(Part, _read, _refuse)
Part.__name__ = Part.__qualname__ = "Tensor"


class _Lowering:
    """The ops of one run of a call's function.

    Args:
        compute: raises what the whole call raises for wrong values.
        targets: where the results of ops are to lie, by the ops' numbers; None: nothing is to be lowered yet.
    """

    def __init__(self, compute: Callable[[], Any], targets: dict[int, Any] | None) -> None:
        self.compute, self.targets, self.count = compute, targets, 0
        self.calls: list[Call] = []
        self.before = Lowered()

    def part(self, memory: Any, array: Any = None, number: int | None = None) -> Part:
        part: Any = object.__new__(Part)
        part.array = _as_laid(memory, numpy.empty) if array is None else array
        if array is None:
            part.array[...] = part.array.dtype.kind not in "iub"
        part.node = part._grad = part._meta = None
        part._requires_grad = False
        part.lowering, part.memory, part.number = self, memory, number
        return part

    def part_of(self, value: Any) -> object:
        """A part in the place of an array of the call; numbers beside tensors are constants."""
        if not isinstance(value, numpy.ndarray):
            return value
        return self.part(value) if value.ndim or value.flags.writeable else Tensor.wrap(value)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Part:
        if self.targets is None:
            return self.part(numpy.empty(shape, dtype))
        memory = layouts.scratch(shape, dtype)
        self.before += layouts.fill(memory, 0) or _refuse()
        return self.part(memory)

    def op(self, op: Op, arguments: dict[str, Any], operands: list[Any]) -> object:
        if any([not _is_known(value) for value in operands]):
            raise _NoPartsError
        own = {name: _changed(value, _stand_in) for name, value in arguments.items() if name in op.array_names}
        result = op.function(**(arguments | own))
        outputs: list[Any] = []
        parts: list[Any] = []
        self.count += 1
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if type(tensor) is not Tensor:
                raise _NoPartsError
            memory = _viewed(tensor.array, operands)
            if memory is None:
                memory = self._new(tensor.array)
                outputs.append(memory)
                parts.append(self.part(memory, tensor.array, self.count))
            else:
                outputs.append(None)
                parts.append(self.part(memory, tensor.array))
        if self.targets is not None and any([output is not None for output in outputs]):
            own = {name: _changed(arguments[name], _memory_of) for name in op.array_names}
            inputs, statics = described(op, arguments | own)
            self.calls.append(Call("op", op.name, op, inputs, tuple(outputs), statics, self.compute))
        if not isinstance(result, (tuple, list)):
            return parts[0]
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)

    def _new(self, like: Any) -> numpy.ndarray:
        if self.targets is None:
            return like
        target = self.targets.get(self.count)
        if target is not None and target.dtype == like.dtype and target.shape == like.shape:
            return target
        return _as_laid(like, layouts.scratch)


def _is_known(value: Any) -> bool:
    """Whether it is a part or a constant, and not made beside the ops."""
    if value is None or type(value) is Part or isinstance(value, (bool, int, float)):
        return True
    return isinstance(value, (Tensor, numpy.ndarray)) and not value.ndim


def _flat(values: Any) -> list[Any]:
    result: list[Any] = []
    for value in values:
        result += _flat(value) if isinstance(value, (list, tuple)) else [value]
    return result


def _changed(value: Any, change: Callable[[Any], Any]) -> object:
    return [change(element) for element in value] if isinstance(value, (list, tuple)) else change(value)


def _stand_in(value: Any) -> object:
    return Tensor.wrap(value.array) if type(value) is Part else value


def _memory_of(value: Any) -> object:
    return value.memory if type(value) is Part else value.array if isinstance(value, Tensor) else value


class _Place:
    __slots__ = ("__array_interface__", "owner")


def _viewed(array: Any, operands: list[Any]) -> numpy.ndarray | None:
    """The part of an operand's memory that a result stands for; None: it has memory of its own."""
    for value in operands:
        if type(value) is Part and layouts.overlaps(array, value.array):
            place = _Place()
            place.owner = value.memory
            offset = _address(array) - _address(value.array)
            place.__array_interface__ = {
                "version": 3,
                "data": (_address(value.memory) + offset, False),
                "shape": array.shape,
                "strides": array.strides,
                "typestr": array.dtype.str,
            }
            return numpy.asarray(place)
    return None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _as_laid(like: Any, new: Callable[..., Any]) -> numpy.ndarray:
    """A new array with the strides of another, also where it has repetitions or gaps, or goes backwards."""
    if not like.size:
        return numpy.empty(like.shape, like.dtype)
    low, high = numpy.lib.array_utils.byte_bounds(like)
    return numpy.ndarray(like.shape, like.dtype, new((high - low,), numpy.uint8), _address(like) - low, like.strides)


# --- calls --------------------------------------------------------------------------------------------------------------------


def _in_parts(call: Call, run: Callable[[_Lowering], list[Any]], exact: bool, checked: bool) -> Lowered | None:
    """
    Args:
        run: gives what stands for the call's outputs.
        exact: whether the parts give the call's bits if they give their own.
        checked: whether another call has looked at what parts would look at first.
    """
    traced = _run(call, run)
    if traced is None:
        return None
    lowering, parts = traced
    launches, behind = Lowered(lowering.before, exact), list[Launch]()
    for part, output in zip(parts, call.outputs, strict=True):
        if output is None:
            continue
        if type(part) is not Part or part.array.shape != output.shape:
            return None
        put = [] if part.memory is output else layouts.copy(output, part.memory)
        if put is None:
            return None
        behind += put
    kept = [part.memory for part in parts if type(part) is Part]
    for lowered in LOWERS[0](lowering.calls, kept):
        if lowered is None or lowered.draw is not None or not (checked or lowered.check is None):
            return None
        launches += lowered
        launches.exact &= lowered.exact
    launches += behind
    return launches


def _run(call: Call, run: Callable[[_Lowering], list[Any]]) -> tuple[_Lowering, list[Any]] | None:
    """The ops of the call, and what stands for its outputs; None where its function does something else, too."""
    plan, grad = MODES.plan, MODES.grad
    MODES.plan, MODES.grad = None, 0
    try:
        with numpy.errstate(all="ignore"):
            targets: dict[int, Any] = {}
            for part, output in zip(run(_Lowering(call.compute, None)), call.outputs, strict=True):
                if output is not None and type(part) is Part and part.number is not None:
                    targets.setdefault(part.number, output)
            lowering = _Lowering(call.compute, targets)
            return lowering, run(lowering)
    except _REFUSALS:
        return None
    finally:
        MODES.plan, MODES.grad = plan, grad


class _Saved:
    """What a node saved, as parts."""

    def __init__(self, node: Any, lowering: _Lowering) -> None:
        self.node, self.lowering, self.needs = node, lowering, node.needs

    def __getattr__(self, name: str) -> object:
        value = getattr(self.node, name)
        if name in self.node.op.extras:
            raise _NoPartsError
        value = map_saved(value, self.lowering.part_of) if name in self.node.saved_names else value
        setattr(self, name, value)
        return value


def rule_in_parts(call: Call, rule: Callable[..., Any] | None = None) -> Lowered | None:
    """The ops that a rule calls, as under `create_graph`. What they check, the forward has checked.

    Args:
        rule: another one, up to rounding.
    """
    op, node = call.op, call.node
    exact = rule is None and op.fast_backward_rule is None
    rule = rule or op.backward_rule
    if rule is None or node is None:
        return None

    def run(lowering: _Lowering) -> list[Any]:
        if op.outputs is None:
            g = lowering.part_of(call.inputs[0])
        else:
            sent = gradients_of(call) or _refuse()
            g = tuple(
                [
                    lowering.part_of(sent[number])
                    if number in sent
                    else lowering.zeros(shape, kind)
                    if kind.kind == "f"
                    else None
                    for number, (shape, kind) in enumerate(node.outputs_like)
                ]
            )
        result = rule(g, _Saved(node, lowering), *node.attrs)
        if op.list_name:
            place = op.array_names.index(op.list_name)
            result = (*result[:place], *result[place], *result[place + 1 :])
        return list(result)

    return _in_parts(call, run, exact, True)


def lower_rule(call: Call) -> Lowered | None:
    """A rule without a form of its own in its parts, where a trial proves them: it may decide by values in a way that is not seen."""
    if call.kind != "rule" or (call.kind, call.name) in FORMS:
        return None
    if any([value.dtype.kind not in "fb" for value in call.inputs if isinstance(value, numpy.ndarray)]):
        return None
    lowered = rule_in_parts(call)
    try:
        proven = lowered is not None and computes_apart(call, lowered, False)
    except _REFUSALS:  # the rule refuses such numbers
        return None
    return lowered if proven else None


def rules_in_parts(*names: str) -> None:
    """Enters rules that are lowered so."""
    form("rule", *names)(rule_in_parts)


def lower_in_parts(call: Call, function: Callable[..., Any]) -> Lowered | None:
    """A function of an op's arguments that computes it by other ops, up to rounding."""

    def run(lowering: _Lowering) -> list[Any]:
        arguments = {name: map_saved(value, lowering.part_of) for name, value in arguments_of(call).items()}
        result = function(**arguments)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return _in_parts(call, run, False, False)


def op_in_parts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function by which calls of ops are lowered so."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        form("op", *names)(partial(lower_in_parts, function=function))
        return function

    return enter
