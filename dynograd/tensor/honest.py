"""`honest_where`: a mode in which what was not selected contributes nothing to a gradient.

The chain rule multiplies the gradient that arrives by a derivative, and where the first is exactly 0 and the second infinite or NaN,
floating point says NaN. In this mode it is 0: a value that does not reach the result (the unselected side of `where`, a masked or
overwritten element, a factor 0) has no gradient, whatever was computed there.

A node that is recorded in the mode changes its class; nothing else differs, so the mode costs nothing while it is off. Elementwise
ops look at each element before gradients of broadcast operands are summed. Other ops run their rule as always; when something that
is not finite comes out, the rule is asked again with other numbers in the place of what it saved, to see what depends on what.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.modes import MODES, Modes, unwatch, watch
from dynograd.autograd.nodes import Node, OutputNode, Partial
from dynograd.autograd.packing import map_saved
from dynograd.base import dtypes
from dynograd.interpreter import TENSORS
from dynograd.interpreter.derivatives import masked_rules
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["honest_where", "is_honest_where_enabled", "set_honest_where"]


@contextmanager
def honest_where(mode: bool = True) -> Iterator[None]:
    """Inside, gradients that are exactly 0 stay 0 on their way back, also through infinite and NaN derivatives.

    It holds for what is recorded inside, wherever `backward` is called: then in second derivatives too, and in forward mode
    (`func.jvp`) for functions called inside. What reaches the result keeps its gradient, infinite or NaN as it may be.

    >>> x = tensor([-1.0, 0.0, 4.0], requires_grad=True)
    >>> with dynograd.autograd.honest_where():
    ...     y = dynograd.where(x > 0, dynograd.sqrt(x), 0.0)
    >>> y.sum().backward()
    >>> x.grad
    tensor([0.0000, 0.0000, 0.2500])
    """
    before = MODES.honest
    _switch(mode)
    try:
        yield
    finally:
        _switch(before)


def set_honest_where(mode: bool = True) -> None:
    """Turns `honest_where` on or off for the whole program: for this thread and those that start later."""
    with _lock:
        _switch(mode)
        Modes.honest = bool(mode)
        Modes.watchers = (_make_honest,) if mode else ()
        Modes.grad = 2 if mode else 1


def is_honest_where_enabled() -> bool:
    """Whether gradients that are exactly 0 stay 0: see `honest_where`."""
    return MODES.honest


_lock = threading.Lock()


def _switch(mode: bool) -> None:
    if bool(mode) != MODES.honest:
        if mode:
            watch(_make_honest, first=True)  # before saved tensors are packed
        else:
            unwatch(_make_honest)
        MODES.honest = bool(mode)


# --- nodes -------------------------------------------------------------------------------------------------------------------

_classes: dict[type[Node], type[Node]] = {}


def _make_honest(node: Node) -> None:
    plain = type(node)
    result = _classes.get(plain)
    if result is None:
        result = _classes[plain] = _honest_class(plain)
    node.__class__ = result


def _honest_class(plain: type[Node]) -> type[Node]:
    if plain.__name__ == "FunctionNode" or issubclass(plain, OutputNode):
        return plain
    op = plain.op
    if op is not None and op.kind == "elementwise":
        first, second = masked_rules(op, _masked)
    elif (
        op is None or op.linear or (op.decomposition is not None and not op.fast_backward_rule and not op.backward_rule)
    ):
        first, second = plain.apply, plain.apply_graph
    else:
        first, second = _cleared(plain.apply), _cleared(plain.apply_graph)
    return type(
        plain.__name__, (plain,), {"__slots__": (), "apply": _in_the_mode(first), "apply_graph": _in_the_mode(second)}
    )


def _in_the_mode(rule: Any) -> Callable[..., Any]:
    """What the rule records is honest too."""

    def run(node: Any, g: Any) -> Any:
        if MODES.honest:
            return rule(node, g)
        _switch(True)
        try:
            return rule(node, g)
        finally:
            _switch(False)

    return run


# --- elementwise ops ---------------------------------------------------------------------------------------------------------


def _run(name: str, *args: Any) -> Tensor | Array:
    return registry[name].function(*args)


def _masked(part: Any, g: Any) -> Tensor | Array:
    """`part`, a derivative times `g`: 0 where `g` is 0 and it is not finite."""
    if _finite(part):
        return part
    return _run("where", _run("logical_or", _run("isfinite", part), _run("ne", g, 0)), part, 0.0)


def masked_tangent(part: Any, way: Any, rule: Any) -> Tensor:
    """`rule(way)`, a derivative times the tangent `way`: 0 where one of the two is 0 and the product is not finite."""
    if _finite(part):
        return part
    slope = rule(wrap(arrays.ones_like(way.array)))
    both = _run("logical_and", _run("ne", way, 0), _run("ne", slope, 0))
    return _run("where", _run("logical_or", _run("isfinite", part), both), part, 0.0)


def _finite(value: Any) -> bool:
    """Whether all elements are; False also where they cannot be read (a batch)."""
    if value is None:
        return True
    if not arrays.is_array(value):
        if type(value) not in TENSORS:
            return False
        value = value.array
    return arrays.is_finite(value)


# --- other ops ---------------------------------------------------------------------------------------------------------------


def _cleared(rule: Any) -> Callable[..., Any]:
    """The rule of an op that is not elementwise, without what is not finite and does not depend on a gradient that is not 0."""

    def run(node: Any, g: Any) -> Any:
        result = list(rule(node, g))
        bad = [place for place, part in enumerate(result) if not _finite(part)]
        if not bad:
            return result
        try:
            left, other = _asked_again(rule, node, g, _PROBES[0]), _asked_again(rule, node, g, _PROBES[1])
            clean = _asked_again(rule, node, g, None)
        except (RuntimeError, ValueError, ArithmeticError):
            left = other = clean = None  # the rule does not take other numbers
        for place in bad:
            part = result[place]
            if left is None:
                if _all_zero(g):
                    result[place] = _run("where", _run("isfinite", part), part, 0.0)
                continue
            first, second = left[place], other[place]
            untouched = _run("logical_and", _run("eq", first, 0), _run("eq", second, 0))
            same = _run("logical_and", _run("eq", first, second), _run("isfinite", clean[place]))
            part = _run(
                "where", _run("logical_or", _run("isfinite", part), _run("logical_not", same)), part, clean[place]
            )
            result[place] = _run(
                "where", _run("logical_or", _run("isfinite", part), _run("logical_not", untouched)), part, 0.0
            )
        return result

    return run


# (what stands for all numbers, what stands for those that are not finite), as seeds of made-up numbers
_PROBES = ((1, 1), (1, 2))


def _asked_again(rule: Any, node: Any, g: Any, probe: tuple[int, int] | None) -> Any:
    """The rule with other saved numbers: made-up ones, or (None) its own with 1 in place of what is not finite."""
    kept = [(name, getattr(node, name)) for name in node.saved_names]
    counter = iter(range(1000))

    def change(value: Any) -> Any:
        if not arrays.is_array(value) or value.dtype.kind not in "fcV":
            return value
        number = next(counter)
        if probe is None:
            return _run("where", _run("isfinite", value), value, 1.0)
        finite, other = (_made_up(value, 2 * number + 7919 * seed) for seed in probe)
        return _run("where", _run("isfinite", value), finite, other)

    try:
        for name, value in kept:
            setattr(node, name, map_saved(value, change))
        return list(rule(node, g if probe is None else _support(g)))
    finally:
        for name, value in kept:
            setattr(node, name, value)


def _made_up(like: Any, seed: int) -> Array:
    """Numbers between 0.5 and 1.5 that repeat nowhere soon."""
    count = like.size
    ramp = arrays.from_python([((place + seed) * 0.6180339887498949) % 1 + 0.5 for place in range(count)], None)
    result = arrays.cast(arrays.to_device(ramp, arrays.place_of(like)), dtypes.of_array(like))
    return result.reshape(like.shape)


def _support(g: Any) -> Any:
    """`g` with 1 in place of what is not finite."""
    if isinstance(g, Partial):
        return Partial({number: _support(part) for number, part in g.parts.items()})
    return _run("where", _run("isfinite", g), g, 1.0)


def _all_zero(g: Any) -> bool:
    parts = list(g.parts.values()) if isinstance(g, Partial) else [g]
    return all(not arrays.to_numpy(getattr(part, "array", part)).any() for part in parts)
