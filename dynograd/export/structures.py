"""Functions that call functions of tensors: `cond`, `while_loop`, `scan`, `map` and `vmap`. In a program each is one call, and what it calls are bodies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature
from typing import Any

from dynograd.compat.inner import higher_order
from dynograd.export.encoding import Tree, tensors_in
from dynograd.tensor import top_level
from dynograd.transforms.trees import flatten, map_tree, same_structure
from dynograd.transforms.vmap import first_example, map_examples

__all__ = ["STRUCTURES", "difference_of", "entering"]

Arguments = dict[str, Any]
Examples = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments with which a body is called."""


def _row_of(tree: Tree, dim: int = 0) -> Tree:
    return map_tree(lambda leaf: leaf.select(dim, 0), tree)


def _of_cond(arguments: Arguments) -> dict[str, Examples]:
    return dict.fromkeys(("true_fn", "false_fn"), (tuple(arguments.get("operands", ())), {}))


def _of_loop(arguments: Arguments) -> dict[str, Examples]:
    return dict.fromkeys(("cond_fn", "body_fn"), (tuple(arguments["carried_inputs"]), {}))


def _of_scan(arguments: Arguments) -> dict[str, Examples]:
    return {"combine_fn": ((arguments["init"], _row_of(arguments["xs"], arguments.get("dim", 0))), {})}


def _of_map(arguments: Arguments) -> dict[str, Examples]:
    return {"f": ((_row_of(arguments["xs"]), *arguments.get("args", ())), {})}


def _of_vmap(arguments: Arguments) -> dict[str, Examples]:
    return {"func": first_example(*[arguments[name] for name in ("func", "in_dims", "args", "kwargs")])}


STRUCTURES: dict[Any, Callable[[Arguments], dict[str, Examples]]] = {
    top_level.cond: _of_cond,
    top_level.while_loop: _of_loop,
    higher_order.scan: _of_scan,
    higher_order.map: _of_map,
    map_examples: _of_vmap,
}
"""By function: from its arguments by name the names of those that are functions, each with an example of what it is called with."""


_FUNCTIONS = "true_fn false_fn cond_fn body_fn combine_fn f func".split()


def difference_of(function: Any, arguments: Arguments, results: dict[str, Tree]) -> str:
    """What keeps a structure from being one call, as its bodies gave these results; "" where nothing does."""
    if function is top_level.cond:
        return _unlike("what true_fn and false_fn give", *[results[name] for name in ("true_fn", "false_fn")])
    if function is top_level.while_loop:
        carried, after = tuple(arguments["carried_inputs"]), results["body_fn"]
        after = tuple(after) if isinstance(after, (tuple, list)) else (after,)
        return _unlike("the carried inputs and what body_fn gives", carried, after, _with_shape)
    if function is higher_order.scan:
        what = "init and the state that combine_fn gives"
        return _unlike(what, arguments["init"], results["combine_fn"][0], _with_shape)
    return ""


def _look(leaf: Any) -> tuple[Any, ...]:
    return leaf.dtype.name, leaf.ndim


def _with_shape(leaf: Any) -> tuple[Any, ...]:
    return leaf.dtype.name, tuple(leaf.shape)


def _unlike(what: str, first: Tree, other: Tree, look: Callable[[Any], tuple[Any, ...]] = _look) -> str:
    """Where two structures are other than tensors alike."""
    for tree in (first, other):
        for leaf in flatten(tree):
            if leaf is not None and next(tensors_in(leaf), None) is None:
                return f"{what} must be tensors, got {type(leaf).__name__} {leaf!r}"
    if not same_structure(first, other):
        return f"{what} must be nested alike"
    looks = [[look(leaf) for leaf in tensors_in(tree)] for tree in (first, other)]
    return "" if looks[0] == looks[1] else f"{what} must be alike, got {looks[0]} and {looks[1]}"


def entering(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], context: Callable[[], AbstractContextManager[Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a structure; what it calls then runs within a context."""

    def wrapped(body: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> object:
            with context():
                return body(*args, **kwargs)

        return run

    bound = signature(function).bind(*args, **kwargs)
    bound.arguments.update({name: wrapped(bound.arguments[name]) for name in _FUNCTIONS if name in bound.arguments})
    return bound.args, bound.kwargs
