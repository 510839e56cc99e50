"""`jvp`: the value of a function and how it moves when its inputs move, in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynograd import arrays
from dynograd.errors import DtypeError, GradientError, ShapeError
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.duals import Level, make_moving, split
from dynograd.transforms.trees import flatten, map_tree, same_structure

__all__ = ["jvp", "linearize"]


def jvp(
    func: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`func(*primals)`, and the Jacobian of `func` there times `tangents`.

    Costs about two or three times the function, whatever the number of inputs, and keeps nothing for later. The result can be
    differentiated again, by backward and by another jvp. Inside `func`, numbers read from a tensor (`item()`, `if x > 0`) are the
    primal's; in-place ops and item assignment move tangents too.

    Args:
        func: takes `*primals` and gives tensors, also nested in tuples, lists and dicts.
        primals: a tuple with one entry per argument: floating tensors, or nested structures of them.
        tangents: directions, in the structure, shapes and dtypes of `primals`.
        strict: an output that does not depend on the primals is an error; otherwise its tangent is 0.
        has_aux: `func` gives (output, aux); aux is handed on as it is.
    Returns:
        (output, tangent of the output), and aux when `has_aux`.
    Raises:
        ShapeError, DtypeError: a tangent unlike its primal.

    >>> x = tensor([1.0, 2.0])
    >>> dynograd.func.jvp(lambda x: x * x, (x,), (tensor([1.0, 0.0]),))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    _check(primals, tangents)
    with Level() as level:
        duals = map_tree(lambda primal, way: _enter(level, primal, way), tuple(primals), tuple(tangents))
        result = func(*duals)
        aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"jvp: with has_aux=True, func must return a tuple (output, aux), got {type(result).__name__}. "
                    f"Return both, or leave has_aux out."
                )
            result, aux = result
        for leaf in flatten(result):
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"jvp: expected func to return only tensors, got {type(leaf).__name__} ({leaf!r}). "
                    f"Return other results beside the tensors with has_aux=True."
                )
        output = map_tree(lambda leaf: split(level, leaf)[0], result)
        ways = map_tree(lambda leaf: _leave(level, leaf, strict), result)
        if has_aux:
            return output, ways, map_tree(lambda leaf: split(level, leaf)[0] if isinstance(leaf, Tensor) else leaf, aux)
        return output, ways


def linearize(func: Callable[..., Any], *primals: object) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)`, and the function (*tangents) -> Jacobian times tangents.

    Args:
        func: takes `*primals` and gives tensors.
        *primals: floating tensors, or nested tuples, lists and dicts of them.
    Returns:
        (output, a function that takes one tangent per primal and gives that of the output).

    >>> x = tensor([1.0, 2.0])
    >>> output, push = dynograd.func.linearize(lambda x: x * x, x)
    >>> push(tensor([1.0, 1.0]))
    tensor([2., 4.])
    """
    output = func(*primals)

    def push(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return output, push


def _enter(level: Level, primal: Any, way: Any) -> Any:
    if type(primal) is Tensor and not primal.requires_grad:
        primal = wrap(primal.array)  # so that requires_grad_() inside the function is not seen outside
    return make_moving(level, primal, way)


def _leave(level: Level, leaf: Any, strict: bool) -> Any:
    primal, way = split(level, leaf)
    if way is not None:
        return way
    if strict:
        raise GradientError(
            f"jvp: with strict=True, an output of shape {tuple(primal.shape)} is independent of the inputs. This is not allowed with "
            f"strict=True; with strict=False its tangent is 0. Look for detach() or integer tensors on the way."
        )
    if hasattr(type(primal), "__dynograd_rows__"):
        return primal.with_packed(_leave(level, primal.packed, strict))
    return wrap(arrays.zeros_like(primal.array))


def _check(primals: Any, tangents: Any) -> None:
    for name, operands in (("primals", primals), ("tangents", tangents)):
        if not isinstance(operands, (tuple, list)):
            raise RuntimeError(
                f"jvp: expected {name} to be a tuple, got {type(operands).__name__}. It should be valid to call f(*{name}): "
                f"write ({name[:-1]},) for a single one."
            )
    if not flatten(primals):
        raise RuntimeError("jvp: expected at least one primal tensor, got none.")
    if len(primals) != len(tangents) or not same_structure(list(primals), list(tangents)):
        raise RuntimeError(
            f"jvp: expected primals and tangents to have the same structure, got {len(primals)} primals and {len(tangents)} tangents "
            f"({_outline(primals)} and {_outline(tangents)})."
        )
    for place, (primal, way) in enumerate(zip(flatten(list(primals)), flatten(list(tangents)), strict=True)):
        for name, value in (("primals", primal), ("tangents", way)):
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"jvp: expected {name} to hold only tensors, got {type(value).__name__} ({value!r}) at {place}."
                )
        if primal.shape != way.shape:
            raise ShapeError(
                f"jvp: expected tangent {place} to have the shape of its primal, {tuple(primal.shape)}, got {tuple(way.shape)}."
            )
        if primal.dtype is not way.dtype:
            raise DtypeError(
                f"jvp: expected tangent {place} to have the dtype of its primal, {primal.dtype}, got {way.dtype}."
            )
        if not (primal.dtype.is_floating_point or primal.dtype.is_complex):
            raise DtypeError(
                f"jvp: primal {place} is {primal.dtype}; only floating tensors move. Close over it: lambda x: f(x, index)."
            )


def _outline(tree: Any) -> Any:
    return map_tree(lambda _: "*", tree)
