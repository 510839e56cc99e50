"""Forms: what an op gives for operands of given kinds, found out once, on stand-ins for the operands.

A form is also why an op is not recorded: results whose shape depends on values, ops without a batch rule.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.interpreter.view_history import follow_base
from dynograd.ops.op import Op
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.autobatch.group.ready import ready_calls
from dynograd.transforms.autobatch.record.interned import Interned
from dynograd.transforms.autobatch.record.pending import KINDS, Kind
from dynograd.transforms.batching.batched import Batched
from dynograd.transforms.batching.calls import run_op

# Ops whose groups have a class of their own, and what is to be checked where one of their calls is run at once after all.
FORM_CLASSES: dict[str, Any] = {}
CHECKS: dict[str, Any] = {}

_LARGEST_STAND_IN = 1 << 24


class Form:
    """An op with static arguments on operands of given kinds. `refused` says why it is run at once instead of recorded."""

    __slots__ = (
        "__weakref__",
        "_text",
        "casting",
        "family_traits",
        "grad",
        "joins",
        "kinds",
        "label",
        "number",
        "op",
        "pack",
        "places",
        "ready",
        "refused",
        "single",
        "statics",
    )

    op: Any
    statics: dict[str, Any]
    kinds: tuple[Kind, ...]  # of the outputs
    single: bool
    pack: Any
    refused: str | None
    grad: int
    casting: Any  # what autocast did when the call was recorded
    calls = 1  # of the program's ops, in one
    run_ops: Any = None  # of sequences: runs a group op by op
    run_chained: Any = None  # of cells: runs a group as part of a chain, where it is fused

    def __init__(self, op: Any, statics: dict[str, Any], grad: int) -> None:
        self.op, self.statics, self.grad, self.refused = op, statics, grad, None
        self.kinds, self.single, self.pack = (), True, None
        self.casting = casting()
        self._text: tuple[Any, str] = None, ""
        self.label = op.name
        self.ready = ready_calls(op) if type(self) is Form else None
        self.family_traits: Any = (
            None  # as part of a family of forms that differ in the size of a dim; () where it can be in none
        )
        self.joins = False  # it puts its operands behind one another
        self.number: str | None = None  # the operand that is a number, perhaps another one in each call
        self.places: list[
            tuple[str, Any]
        ] = []  # array arguments: how many tensors of a list, None for one, (value,) for none

    def call(self, arguments: dict[str, Any]) -> Any:
        """The op on arguments by name, perhaps on Batcheds."""
        for name in self.op.array_names:
            value = arguments[name]
            if (type(value) is list and any([type(element) is Batched for element in value])) or type(value) is Batched:
                return run_op(self.op, arguments)
        return self.op.function(**arguments)

    def __repr__(self) -> str:
        key, text = self._text
        if key != (self.label, self.kinds):
            text = f"{self.label} -> {', '.join(map(repr, self.kinds))}"
            self._text = (self.label, self.kinds), text
        return text


FORMS: Interned[Form] = Interned(100_000)


def casting() -> Any:
    """What autocast does on this thread now, as part of a key."""
    module = sys.modules.get("dynograd.amp.autocasting")
    if module is None or not module.STATE.any:
        return None
    state = module.STATE
    return tuple([(device, state.dtypes[device]) for device, on in state.enabled.items() if on])


@contextlib.contextmanager
def cast_as(setting: Any) -> Iterator[None]:
    """Inside, autocast does what `casting()` has told."""
    autocast = sys.modules["dynograd.amp.autocasting"].autocast
    with contextlib.ExitStack() as stack:
        on = dict(setting or ())
        for device in ("cpu", "cuda"):
            stack.enter_context(autocast(device, dtype=on.get(device), enabled=device in on))
        yield


def kind_of(tensor: Any) -> Kind:
    if tensor._meta is not None:
        follow_base(tensor)
    array = tensor.array
    if type(array) is numpy.ndarray:
        kind = KINDS.recent.get((array.shape, array.dtype.num, tensor._requires_grad))
        if kind is not None:
            return kind
    return Kind.of(tuple(array.shape), array.dtype, bool(tensor._requires_grad), arrays.device_of(array))


def frozen(value: Any) -> Any:
    """A static argument as a key.

    Raises:
        TypeError: it cannot be one.
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is bool:
        return _TRUE if value else _FALSE
    if kind is tuple or kind is list:
        for element in value:
            if type(element) is not int:
                return kind, tuple([frozen(element) for element in value])
        return value if kind is tuple else (kind, *value)
    if kind is slice:
        return slice, value.start, value.stop, value.step
    if kind is float:
        return float, repr(value)
    if kind is numpy.ndarray:
        return kind, value.shape, value.dtype.num, value.tobytes()
    if isinstance(value, Tensor):
        raise TypeError("a tensor among the static arguments")
    hash(value)
    return kind, value


_TRUE, _FALSE = (bool, True), (bool, False)


def form_of(op: Op, key: Any, statics: dict[str, Any], operands: dict[str, Any]) -> Form:
    """The form under `key`. `operands` has, for each array argument: a Kind, a number, None, or a list of Kinds."""
    return FORMS.of(key, lambda: _new_form(op, statics, operands))


def _new_form(op: Op, statics: dict[str, Any], operands: dict[str, Any]) -> Form:
    form: Form = FORM_CLASSES.get(op.name, Form)(op, statics, MODES.grad)
    form.places = [
        (name, len(value) if isinstance(value, list) else None if isinstance(value, Kind) else (value,))
        for name, value in operands.items()
    ]
    if op.row["at_once"]:
        form.refused = op.row["at_once"]
        return form
    kinds = [operand for value in operands.values() for operand in (value if isinstance(value, list) else [value])]
    if sum([kind.size for kind in kinds if isinstance(kind, Kind)]) > _LARGEST_STAND_IN:
        form.refused = "its operands are so large that a group would gain nothing"
        return form
    kinds_found = None
    for low in (True, False):
        arguments = {name: _stand_ins(value, low) for name, value in operands.items()}
        try:
            result = op.function(**arguments, **statics)
        except MemoryError:  # it says nothing of the call
            raise
        except Exception as error:
            form.refused = f"a trial on stand-ins failed ({type(error).__name__}: {str(error)[:80]})"
            return form
        outputs = list(result) if isinstance(result, tuple) else [result]
        if not all([type(output) in TENSORS for output in outputs]):
            form.refused = "its result is no tensor"
            return form
        now = tuple([kind_of(output) for output in outputs])
        if kinds_found is not None and now != kinds_found:
            form.refused = "the shape of its result depends on values"
            return form
        kinds_found = now
        form.single = not isinstance(result, tuple)
        form.pack = getattr(type(result), "_make", tuple) if not form.single else None
    assert kinds_found is not None
    form.kinds = kinds_found
    form.joins = op.name in ("cat", "stack") and _puts_behind(form, kinds)
    return form


def _puts_behind(form: Form, kinds: list[Any]) -> bool:
    """Whether the result of a `cat` or `stack` has its operands one after the other in memory."""
    (kind,) = form.kinds
    dim = form.statics["dim"]
    alike = all([kind is kinds[0] for kind in kinds])
    return alike and type(dim) is int and math.prod(kind.shape[: dim % len(kind.shape)]) == 1


def _stand_ins(value: Any, low: bool) -> Any:
    if isinstance(value, list):
        return [_stand_ins(element, low) for element in value]
    if not isinstance(value, Kind):
        return value
    tensor = wrap(arrays.to_device(_values(value, low), value.device))
    tensor._requires_grad = value.grad
    return tensor


def stand_ins(kind: Kind) -> Any:
    """An array of values that most ops accept."""
    return _values(kind, True)


def _values(kind: Kind, low: bool) -> Any:
    """Numbers that most ops accept: whole ones 0 (1 where there may be a second), others a matrix that has an inverse."""
    shape, dtype = kind.shape, kind.dtype
    if dtype.kind in "iub":
        return numpy.full(shape, 0 if low else 1, dtype) if dtype.kind == "b" else numpy.zeros(shape, dtype)
    result = numpy.full(shape, 0.25 if low else 0.5, dtype)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        result = result + (2.0 * numpy.eye(shape[-1])).astype(dtype) * shape[-1]
    return result.astype(dtype)
