"""How an op that got a ragged tensor is computed.

It is looked up in `calls.RULES` by its key in the table of ops (`softmax.public` is the public face of `softmax`). Without a rule an
elementwise op computes on packed elements (`families/elementwise.py`), a composed one is run as it is, its parts finding their rules, and
anything else is run on rows of equal shape together (`families/groups.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.errors import RaggedSizeError
from dynograd.interpreter import named_outputs
from dynograd.ops.op import Op, registry
from dynograd.ragged.calls import RULES, Call, Refusal
from dynograd.ragged.families.elementwise import elementwise, repeated
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.levels import is_deep, lifted, names_upper_dims
from dynograd.ragged.invoking import run
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor

__all__ = ["goes_by_groups", "run_call", "run_op"]


def run_op(op: Op, arguments: dict[str, Any]) -> Any:
    """An op of the table that was given a ragged tensor."""
    if op.kind == "elementwise" and op.name not in RULES:
        result = _same_rows(op, arguments)
        if result is not None:
            return result
    return run_call(op.name, arguments)


def _same_rows(op: Op, arguments: dict[str, Any]) -> Any:
    """An elementwise op on ragged tensors that share their rows, and numbers: nothing has to be aligned. None: it is not so easy."""
    like: Any = None
    ready = dict(arguments)
    for name in op.array_names:
        value = arguments[name]
        if value.__class__ is RaggedTensor:
            packed = value.packed
            if like is None:
                like, rank = value, packed.ndim
            elif value.partition is not like.partition or value.place != like.place or packed.ndim != rank:
                return None
            ready[name] = packed
        elif value.__class__ is not float and value.__class__ is not int:
            return None
    result = op.function(**ready)
    return None if result.__class__ is tuple else make(result, like.partition, like.place)


def run_call(key: str, arguments: dict[str, Any]) -> Any:
    op = registry[key]
    call = Call(key, op, arguments)
    value = call.in_turn()
    if value is not None:  # a vmap over rows comes first
        return call.parts() if op.kind == "composed" else type(value).__dynograd_op__(op, arguments)
    rule = RULES.get(key)
    if rule is not None:
        result = rule.function(call)
        if result is not NotImplemented:
            return result
    if op.kind == "elementwise":
        result = elementwise(call)
        return grouped(call) if result is NotImplemented else result
    deep = any([is_deep(x) for x in call.ragged()])
    if deep and (rule is not None or not _knows_levels(call)):
        return lifted(call)
    if op.kind == "composed" and not goes_by_groups(op):
        try:
            return call.parts()
        except RaggedSizeError:
            if deep:  # below, its dims would have other numbers
                raise
    elif op.decomposition is not None and not goes_by_groups(op):
        results = op.decomposition(**arguments)
        return results if op.outputs in (None, "list") or hasattr(results, "_fields") else named_outputs(op)(*results)
    return grouped(call)


def goes_by_groups(op: Op) -> bool:
    """Whether the op reads whole matrices, images or signals of a batch: its rows go together by shape at once."""
    return op.row["ragged"] == "groups"


def _knows_levels(call: Call) -> bool:
    """Whether a composed op without a rule is run as it is on several levels: its dims have fixed numbers, or it is about the upper level."""
    return call.op.kind == "composed" and (call.op.row["ragged"] == "levels" or names_upper_dims(call))


def _write(target: Any, value: Any, who: str, write: Callable[..., Any]) -> Any:
    """Writes `value` into the elements of a ragged tensor; dense values are repeated for the elements of their row."""
    if not isinstance(target, RaggedTensor):
        if isinstance(value, RaggedTensor):
            raise Refusal(
                f"{who}: a ragged tensor (lengths {value.partition}) cannot be written into a dense one of shape {tuple(target.shape)}. Write "
                f"x.to_padded(), or write into a ragged tensor."
            )
        return None
    if not isinstance(value, RaggedTensor):
        inner = repeated(who, value, target) if isinstance(value, Tensor) else value
    else:
        target.partition.check_same(who, value.partition, ("the", "the written"))
        inner = value.packed
    if isinstance(inner, Tensor) and tuple(inner.shape) != tuple(target.packed.shape):
        inner = run("expand.public", inner, tuple(target.packed.shape))
    write(target.packed, inner, who)
    return target


RaggedTensor.__dynograd_op__ = staticmethod(run_op)
RaggedTensor.__dynograd_write__ = staticmethod(_write)
