"""Branches and loops that a program says with `cond`, `while_loop`, `scan` and `map`: while it is recorded, each becomes one value of the record."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.compat.inner import higher_order
from dynograd.onnx.noting import aside, notes_of_thread, recording_of_thread
from dynograd.onnx.records import Body, Structure, record_of
from dynograd.onnx.refusals import refusal
from dynograd.ops.readers import Entry, Reader, join
from dynograd.plans.recording import Recording
from dynograd.tensor import top_level
from dynograd.tensor.tensor import Tensor
from dynograd.utils import _pytree

__all__ = ["STRUCTURES", "Watching", "body_of", "note"]


class Watching(Reader):
    """Sees functions while a thread records a program for export, and has handlers answer in their place.

    Args:
        handlers: by function: what is called with the record, the function as it is, and the arguments.
    """

    name = "plan"
    changes_calls = False

    def __init__(self, handlers: dict[types.FunctionType, Callable[..., Any]]) -> None:
        super().__init__()
        self.handlers = handlers

    def turn_on(self, holder: Any = None) -> None:
        for function in self.handlers:
            join(function)
        super().turn_on(holder)

    def sees(self, entry: Entry) -> bool:
        return entry.function in self.handlers

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> object:
        plan = recording_of_thread()
        if plan is None:
            return below(*args, **kwargs)
        return self.handlers[entry.function](plan, below, *args, **kwargs)


def body_of(plan: Recording, function: Callable[..., Any], tensors: Sequence[Tensor], name: str) -> Body:
    """A function of these tensors, recorded apart; what it takes from around it is a value of the record around it."""

    def copying(*own: Tensor) -> list[Tensor]:
        return [result.clone() for result in function(*[tensor.clone() for tensor in own])]

    record = record_of(copying, tensors, name, is_body=True)
    captured = {}
    for place, (value, tensor) in enumerate(zip(record.graph.inputs, record.outside)):
        if value.kind != "argument" and _is_of(plan, tensor):
            captured[place] = plan._described(tensor)
    return Body(record, captured)


def _is_of(plan: Recording, tensor: Tensor) -> bool:
    """Whether a tensor is a value of the record, or of one around it."""
    notes = notes_of_thread()
    return notes is not None and (id(tensor) in plan.places or notes.is_known(plan, tensor))


def note(
    plan: Recording,
    kind: str,
    operands: Sequence[Tensor],
    bodies: list[Body],
    results: Sequence[Tensor],
    **options: Any,
) -> list[Tensor]:
    """Notes a structure; gives its results, which are tensors of their own."""
    notes = notes_of_thread()
    assert notes is not None
    with aside():
        own = [result.clone() for result in results]
    described = [plan._described(operand) for operand in operands]
    notes.structures.append((plan, Structure(kind, user_line(), described, bodies, own, options)))
    return own


def _looks(tensors: Sequence[Tensor]) -> list[tuple[Any, int]]:
    return [(tensor.dtype, tensor.ndim) for tensor in tensors]


def _check(name: str, what: str, tensors: Sequence[Any], others: Sequence[Any], with_sizes: bool = False) -> None:
    if any([not isinstance(tensor, Tensor) for tensor in (*tensors, *others)]):
        kinds = [type(tensor).__name__ for tensor in (*tensors, *others) if not isinstance(tensor, Tensor)]
        raise refusal(
            f"{name}: {what} must be tensors, got {kinds[0]}", user_line(), "Make it a tensor: dynograd.tensor(1.0)."
        )
    sizes = [[tuple(tensor.shape) for tensor in each] if with_sizes else [] for each in (tensors, others)]
    if _looks(tensors) != _looks(others) or sizes[0] != sizes[1]:
        shown = [", ".join([f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in each]) for each in (tensors, others)]
        raise refusal(
            f"{name}: {what} must be alike, got {shown[0]} and {shown[1]}",
            user_line(),
            "Give both the same dtypes and shapes.",
        )


def _cond(plan: Recording, below: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> object:
    if not isinstance(pred, Tensor) or not _is_of(plan, pred):
        return below(pred, true_fn, false_fn, operands)
    leaves, form = _pytree.tree_flatten(tuple(operands))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    forms: list[Any] = []

    def of_tensors(function: Any) -> Callable[..., list[Any]]:
        def run(*own: Tensor) -> list[Any]:
            rest = iter(own)
            filled = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            results, its_form = _pytree.tree_flatten(function(*_pytree.tree_unflatten(filled, form)))
            forms.append(its_form)
            return results

        return run

    branches = [of_tensors(true_fn), of_tensors(false_fn)]
    with aside():
        results = [branch(*tensors) for branch in branches]
    _check("cond", "what true_fn and false_fn give", results[0], results[1])
    bodies = [body_of(plan, branch, tensors, "cond") for branch in branches]
    with aside():
        holds = bool(pred)
    own = note(plan, "If", [pred, *tensors], bodies, results[0 if holds else 1])
    return _pytree.tree_unflatten(own, forms[0])


def _while_loop(plan: Recording, below: Any, cond_fn: Any, body_fn: Any, carried_inputs: Any) -> object:
    carried = list(carried_inputs)
    _check("while_loop", "carried inputs", carried, carried)

    def body(*own: Tensor) -> list[Any]:
        result = body_fn(*own)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    with aside():
        _check("while_loop", "carried inputs and what body_fn gives", carried, body(*carried), with_sizes=True)
        results = below(cond_fn, body_fn, tuple(carried))
    bodies = [
        body_of(plan, body, carried, "while_loop"),
        body_of(plan, lambda *own: [cond_fn(*own)], carried, "while_loop"),
    ]
    return tuple(note(plan, "Loop", carried, bodies, results))


def _scan(
    plan: Recording,
    below: Any,
    combine_fn: Any,
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
    **options: Any,
) -> tuple[Any, Any]:
    states, state_form = _pytree.tree_flatten(init)
    columns, form = _pytree.tree_flatten(xs)
    _check("scan", "init", states, states)
    forms: list[Any] = []

    def step(*own: Tensor) -> list[Any]:
        state = _pytree.tree_unflatten(own[: len(states)], state_form)
        state, output = combine_fn(state, _pytree.tree_unflatten(own[len(states) :], form))
        outputs, its_form = _pytree.tree_flatten(output)
        forms.append(its_form)
        return [*_pytree.tree_leaves(state), *outputs]

    with aside():
        rows = [column.select(dim, 0) for column in columns]
        _check(
            "scan",
            "init and the state that combine_fn gives",
            states,
            step(*states, *rows)[: len(states)],
            with_sizes=True,
        )
        last, outputs = below(combine_fn, init, xs, dim=dim, reverse=reverse, **options)
    bodies = [body_of(plan, step, [*states, *rows], "scan")]
    results = [*_pytree.tree_leaves(last), *_pytree.tree_leaves(outputs)]
    axis = dim % columns[0].ndim
    own = note(plan, "Scan", [*states, *columns], bodies, results, states=len(states), axis=axis, reverse=reverse)
    return _pytree.tree_unflatten(own[: len(states)], state_form), _pytree.tree_unflatten(own[len(states) :], forms[0])


def _map(plan: Recording, below: Any, f: Any, xs: Any, *args: Any) -> object:
    return _scan(plan, higher_order.scan, lambda state, x: ((), f(x, *args)), (), xs)[1]


_HANDLERS: dict[Any, Callable[..., Any]] = {
    top_level.cond: _cond,
    top_level.while_loop: _while_loop,
    higher_order.scan: _scan,
    higher_order.map: _map,
}
STRUCTURES = Watching(_HANDLERS)
