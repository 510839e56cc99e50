"""Dual: a tensor with the direction in which it moves. The reader of the table of ops that computes derivatives forward.

A Dual belongs to a level, one call of `jvp`; of several levels the latest is taken apart first, and what is inside may be a Dual
of an earlier one. Primals and tangents are Tensors, so the tape records both, and a backward pass that is recorded while a level
is active sees what its nodes saved as Duals again: reverse over forward, forward over reverse and forward over forward all work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dynograd import arrays, interpreter
from dynograd.autograd.nodes import Node, OutputNode, next_seq
from dynograd.base.interrupts import InterruptSafe
from dynograd.interpreter import TENSORS
from dynograd.interpreter.tensor_parts import base_of, full_meta, link_view, set_record, steps_of, view_of
from dynograd.interpreter.view_history import edge_of, follow_base, replay
from dynograd.ops.op import Op
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms import rules
from dynograd.transforms.batching.batched import Batched, all_lowered, all_raised, levels_of, make_batched

__all__ = ["Dual", "Level", "awaits_nodes"]


class Level(InterruptSafe["Level"]):
    """One running call of `jvp`: the Duals that backward passes inside it must see again, and what it turned into Duals."""

    def __init__(self) -> None:
        self.number = 0
        self.forms: dict[Node, dict[str, Any]] = {}
        self.awaited: list[
            tuple[Any, dict[str, Any]]
        ] = []  # the same of results of compiled steps, whose nodes are still to come
        self.promoted: list[Any] = []

    def _enter(self) -> Level:
        _active.levels.append(self)
        self.number = len(_active.levels)
        return self

    def _leave(self) -> None:
        if self in _active.levels:
            _active.levels.remove(self)
        self.number = 0
        self.forms.clear()
        self.awaited.clear()
        for tensor in self.promoted:
            if "level" in tensor.__dict__:
                _become(tensor, tensor.primal)
        self.promoted.clear()


class _Active(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_active = _Active()


def awaits_nodes() -> bool:
    """Whether a running `jvp` needs the nodes of ops of a compiled step, since a backward pass inside it may come."""
    return any([level.awaited for level in _active.levels])


class Dual(Tensor):
    """A primal tensor and its tangent. To everything that is no op it looks like the primal."""

    # Without slots of its own, so that a plain tensor can turn into a Dual when one is written into it.
    __slots__ = ()

    has_tangent = True
    level: Level
    primal: Tensor
    tangent: Tensor

    array = property(lambda self: self.primal.array, lambda self, value: setattr(self.primal, "array", value))
    _requires_grad = property(
        lambda self: self.primal.requires_grad, lambda self, value: setattr(self.primal, "_requires_grad", value)
    )
    _grad = property(lambda self: self.primal._grad, lambda self, value: setattr(self.primal, "_grad", value))

    @property
    def node(self) -> Any:
        """The edge that gradients of the primal go along: its node, or the primal itself when it is a leaf."""
        return edge_of(self.primal)

    @node.setter
    def node(self, value: Any) -> None:
        self.primal.node = value

    @property
    def requires_grad(self) -> bool:
        return self.primal.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.primal.requires_grad = value

    is_leaf = property(lambda self: self.primal.is_leaf)
    grad_fn = property(lambda self: self.primal.grad_fn)

    def __repr__(self, **options: Any) -> str:
        return f"Dual({self.primal!r}, tangent={self.tangent!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("pickle: a tensor inside jvp cannot be pickled. Return it from the function first.")

    @staticmethod
    def __dynograd_alike__(like: Dual, result: Tensor) -> Tensor:
        """What is made like the primal: a number has no tangent."""
        follow = getattr(type(like.primal), "__dynograd_alike__", None)
        return result if follow is None else follow(like.primal, result)

    def __dynograd_become__(self, view: Dual) -> Dual:
        """Has the shape of a view of it from now on."""
        self.primal, self.tangent = view.primal, view.tangent
        return self

    @staticmethod
    def __dynograd_op__(op: Op, arguments: dict[str, Any]) -> Any:
        return _run_op(op, arguments)

    @staticmethod
    def __dynograd_function__(function: Any, args: tuple, kwargs: dict) -> Any:
        return _run_function(function, args, kwargs)

    @staticmethod
    def __dynograd_write__(target: Tensor, value: Tensor, who: str, write: Callable[..., Any]) -> Any:
        return _write(target, value, who, write)


def make_dual(level: Level, primal: Tensor, tangent: Tensor) -> Dual:
    result: Any = object.__new__(Dual)
    result._meta = None
    result.level, result.primal, result.tangent = level, primal, tangent
    return result


def make_moving(level: Level, primal: Any, tangent: Any) -> Any:
    """`make_dual` where either may be batched: the Dual is inside, a batch of moving tensors."""
    if hasattr(type(primal), "__dynograd_rows__"):  # ragged: its packed elements move
        return primal.with_packed(make_moving(level, primal.packed, getattr(tangent, "packed", tangent)))
    levels = levels_of(primal, tangent)
    if not levels:
        return make_dual(level, primal, tangent)
    return all_raised(make_dual(level, all_lowered(primal, levels), all_lowered(tangent, levels)), levels)


def is_moving(value: Any) -> bool:
    """Whether there is a Dual in `value`."""
    while type(value) is Batched:
        value = value.inner
    return type(value) is Dual


def highest_level(values: Any) -> Level | None:
    """The latest level that is still running among the Duals of `values`."""
    level = None
    for value in values:
        if getattr(value, "_meta", None) is not None:
            follow_base(value)
        while type(value) is Dual:
            if value.level.number and (level is None or value.level.number > level.number):
                level = value.level
            value = value.primal
    return level


def split(level: Level | None, value: Any) -> tuple[Any, Any]:
    """Primal and tangent at `level`; a Dual of a level that is over counts as its primal."""
    if type(value) is Batched:
        primal, way = split(level, value.inner)
        return make_batched(value.level, primal), None if way is None else make_batched(value.level, way)
    if hasattr(type(value), "__dynograd_rows__"):
        primal, way = split(level, value.packed)
        return value.with_packed(primal), None if way is None else value.with_packed(way)
    if getattr(value, "_meta", None) is not None:
        follow_base(value)
    while type(value) is Dual and not value.level.number:
        value = value.primal
    if type(value) is Dual and value.level is level:
        return value.primal, value.tangent
    return value, None


# --- ops ---------------------------------------------------------------------------------------------------------------------


def _run_op(op: Op, arguments: dict[str, Any]) -> Any:
    values: list[Any] = []
    for name in op.array_names:
        value = arguments[name]
        values += value if name == op.list_name and isinstance(value, (list, tuple)) else [value]
    if any([type(value) is Batched for value in values]):
        return Batched.__dynograd_op__(op, arguments)
    for value in values:
        if hasattr(type(value), "__dynograd_rows__"):  # ragged: moving tensors are inside
            return type(value).__dynograd_op__(op, arguments)
    level = highest_level(values)
    primals, tangents = dict(arguments), {}
    for name in op.array_names:
        if name == op.list_name:
            pairs = [split(level, element) for element in arguments[name]]
            primals[name], tangents[name] = [primal for primal, _ in pairs], [way for _, way in pairs]
        else:
            primals[name], tangents[name] = split(level, arguments[name])
    if level is None or not op.differentiable:
        return op.function(**primals)
    if op.decomposition is not None and op.jvp_rule is None:
        decomposition = op.decomposition(**arguments)
        return (
            decomposition
            if op.outputs in (None, "list") or hasattr(decomposition, "_fields")
            else rules.packed(op, decomposition)
        )
    out = op.function(**primals)
    ways = rules.tangents_of(op, primals, tangents, out)
    many = isinstance(out, tuple)
    outputs = list(out) if many else [out]
    duals = [
        make_dual(level, output, way) if way is not None and output.array.dtype.kind in "fcV" else output
        for output, way in zip(outputs, ways, strict=True)
    ]
    if op.view:
        base, statics = arguments[op.array_names[0]], tuple(arguments[name] for name in op.static_names)
        for number, output in enumerate(duals):
            if type(output) is Dual:
                link_view(output, base, op, statics, number if many else None)
    result = (type(out)(*duals) if hasattr(out, "_fields") else tuple(duals)) if many else duals[0]
    _remember(level, op, arguments, result, outputs)
    return result


def _remember(level: Level, op: Op, arguments: dict[str, Any], result: Any, outputs: list[Any]) -> None:
    """Notes for a backward pass inside the level which of the things that the new node saved were Duals."""
    for primal in outputs:
        while type(primal) is Dual:
            primal = primal.primal
        if not primal.requires_grad:
            continue
        awaited = type(primal) not in TENSORS
        node = None if awaited else _node_of(primal)
        if awaited or node is not None:
            forms = {name: _snapshot(arguments[name]) for name in op.array_names}
            forms["output"] = _snapshot(result)
            if node is None:
                level.awaited.append((primal, forms))
            else:
                level.forms[node] = forms
            return


def _node_of(primal: Tensor) -> Node | None:
    """The node of the op that has given it."""
    node: Any = primal.node
    return node.edges[0] if isinstance(node, OutputNode) else node


def _settle(level: Level) -> None:
    """Notes what was awaited, where the nodes are there."""
    awaited, level.awaited = level.awaited, []
    for primal, forms in awaited:
        if type(primal) not in TENSORS:
            level.awaited.append((primal, forms))
        elif (node := _node_of(primal)) is not None:
            level.forms[node] = forms


@contextmanager
def forms_of_copy(node: Node, copied: Node, change: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, a copy of a node has saved the same Duals, with `change` of their tangents."""
    noted = []
    for level in _active.levels:
        if level.awaited:
            _settle(level)
        forms = level.forms.get(node)
        if forms is not None:
            level.forms[copied] = {name: _changed(form, change) for name, form in forms.items()}
            noted.append(level)
    try:
        yield
    finally:
        for level in noted:
            level.forms.pop(copied, None)


def _changed(form: Any, change: Callable[[Any], Any]) -> object:
    if type(form) is Dual:
        primal: Any = _changed(form.primal, change)
        return make_dual(form.level, primal, change(form.tangent))
    return [_changed(element, change) for element in form] if isinstance(form, list) else form


def _snapshot(value: Any) -> Any:
    if type(value) is Dual:
        return make_dual(value.level, _snapshot(value.primal), value.tangent)
    if isinstance(value, (list, tuple)):
        return [_snapshot(element) for element in value]
    return None


def _as_saved(node: Node, name: str, value: Any) -> Any:
    """What a node saved, as the recorded backward sees it: with the tangents it had."""
    for level in reversed(_active.levels):
        if level.awaited:
            _settle(level)
        forms = level.forms.get(node)
        if forms is not None and name in forms:
            return _lifted(value, forms[name])
    return value


def _lifted(value: Any, form: Any) -> Any:
    if isinstance(form, list):
        lifted = [_lifted(element, part) for element, part in zip(value, form, strict=True)]
        return tuple(lifted) if isinstance(value, tuple) else lifted
    if type(form) is Dual and isinstance(value, Tensor):
        return make_dual(form.level, _lifted(value, form.primal), form.tangent)
    return value


interpreter.saved_forms.append(_as_saved)


def _run_function(function: Any, args: tuple, kwargs: dict) -> Any:
    """A user's `autograd.Function` on Duals: its forward on the primals, its backward, twice, for the tangents."""
    if any([type(argument) is Batched for argument in args]):
        return Batched.__dynograd_function__(function, args, kwargs)
    level = highest_level(args)
    pairs = [split(level, argument) for argument in args]
    primals = [primal for primal, _ in pairs]
    if function.jvp is not None and not any([hasattr(type(primal), "__dynograd_function__") for primal in primals]):
        return _by_own_jvp(function, level, pairs, kwargs)
    out = function.apply(*primals, **kwargs)
    many = isinstance(out, (tuple, list))

    def again(*moving: Any) -> Any:
        remaining = iter(moving)
        return function.apply(*[primal if way is None else next(remaining) for primal, way in pairs], **kwargs)

    chosen = [(primal, way) for primal, way in pairs if way is not None]
    ways = rules.by_two_backwards(again, [primal for primal, _ in chosen], [way for _, way in chosen])
    outputs = list(out) if many else [out]
    assert level is not None
    duals = [
        output if way is None else make_dual(level, output, way) for output, way in zip(outputs, ways, strict=True)
    ]
    return tuple(duals) if many else duals[0]


def _by_own_jvp(function: Any, level: Any, pairs: list[tuple[Any, Any]], kwargs: dict) -> Any:
    """By the Function's own `jvp`, which is told zeros (or None, as it wishes) for tensors that do not move."""
    out, context = function.applied(tuple(primal for primal, _ in pairs), kwargs)
    ways = []
    for primal, way in pairs:
        if way is None and isinstance(primal, Tensor) and primal.array.dtype.kind in "fcV" and context.materialize:
            way = wrap(arrays.zeros_like(primal.array))
        ways.append(way)
    jvp = function.jvp(context, *ways)
    moved = list(jvp) if isinstance(jvp, (tuple, list)) else [jvp]
    many = isinstance(out, (tuple, list))
    outputs = list(out) if many else [out]
    if len(moved) != len(outputs):
        raise RuntimeError(
            f"{function.__name__}.jvp: returned {len(moved)} tangents, expected {len(outputs)}: one per output, None for those that do "
            f"not move."
        )
    duals = [
        output if way is None or not isinstance(output, Tensor) else make_dual(level, output, rules.shaped(way, output))
        for output, way in zip(outputs, moved, strict=True)
    ]
    return tuple(duals) if many else duals[0]


# --- writes ------------------------------------------------------------------------------------------------------------------


def _write(target: Tensor, value: Tensor, who: str, write: Callable[..., Any]) -> Tensor:
    """Writes a Dual, or into one: `write` does it for the primals; tangents are exchanged, never written into."""
    if type(value) is Batched:
        return Batched.__dynograd_write__(target, value, who, write)
    level = highest_level((target, value))
    if level is None:
        write(split(None, target)[0], split(None, value)[0], who)
        return target
    if not (type(target) is Dual and target.level is level):
        _promote(level, target)
    primal, way = split(level, value)
    place: Any = target
    write(place.primal, primal, who)
    if way is None:
        way = wrap(arrays.zeros_like(place.primal.array))
    else:
        way = rules.shaped(way, place.primal)
    record: Any = view_of(place)
    if record is None:
        place.tangent = way
        root = place
    else:
        root = record[0]
        whole = rules.clone(root.tangent)
        write(replay(whole, steps_of(record)), way, who)
        root.tangent = whole
    full_meta(root).written = next_seq()  # its views are to follow
    return target


_SLOTS = ("array", "node", "_requires_grad", "_grad")


def _promote(level: Level, target: Any) -> None:
    """Turns a tensor that is about to hold a Dual, and its base, into Duals that do not move yet; views of these follow (`_follow`)."""
    root = base_of(target)
    if root is None:
        root = target
    if not (type(root) is Dual and root.level is level):
        shadow = _shadow(root)
        full_meta(shadow).written = full_meta(root).written
        _turn(level, root, shadow, wrap(arrays.zeros_like(shadow.array)))
    if target is not root:
        _follow(target, root)


def _turn(level: Level, member: Any, shadow: Any, tangent: Any) -> None:
    attributes = dict(member.__dict__) if type(member) is not Dual else {}
    member.__dict__.clear()
    member.__class__ = Dual
    member.__dict__.update(attributes)
    member.level, member.primal, member.tangent = level, shadow, tangent
    level.promoted.append(member)


def _follow(view: Any, root: Any) -> bool:
    """A view of what has been turned into a Dual is turned into one, and moves as its base does now. Whether it is a Dual now."""
    level, record = root.level, view_of(view)
    if not level.number:
        return False
    assert record is not None
    if not (type(view) is Dual and view.level is level):
        shadow = _shadow(view)
        set_record(shadow, (root.primal, *record[1:]))
        _turn(level, view, shadow, None)
    elif record[5] == root._meta.written:
        return True
    written = root._meta.written
    view.tangent = replay(root.tangent, steps_of(record))
    set_record(view, (*record[:5], written))
    return True


Dual.__dynograd_follow__ = staticmethod(_follow)  # type: ignore[attr-defined]


def _shadow(operand: Any) -> Any:
    """Another tensor with the same memory and history."""
    if type(operand) is Dual:
        return make_dual(operand.level, operand.primal, operand.tangent)
    tensor = wrap(operand.array)
    for name in _SLOTS:
        setattr(tensor, name, getattr(operand, name))
    return tensor


def _become(tensor: Any, primal: Any) -> None:
    """Turns a Dual back into what its primal is."""
    follow_base(primal)
    for name in ("level", "primal", "tangent"):
        del tensor.__dict__[name]
    tensor.__class__ = type(primal)
    if type(primal) is Dual:
        tensor.__dict__.update(level=primal.level, primal=primal.primal, tangent=primal.tangent)
        return
    for name in _SLOTS:
        setattr(tensor, name, getattr(primal, name))


assert Dual not in TENSORS
