"""`vjp`, `grad`, `jacrev`, `jacfwd` and `hessian`: functions in, functions (or values) out, built on the tape and on jvp.

The arguments get places of their own on the tape, joined to the history that they had, so these functions nest in each other and
in `jvp`, and their results can be differentiated by an ordinary backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES, enable_grad
from dynograd.base.signatures import without_private
from dynograd.interpreter import differentiation as tape
from dynograd.tensor.methods import public_function
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.batching.batched import (
    Batched,
    BatchError,
    active_levels,
    all_lowered,
    all_raised,
    enclosed,
    make_batched,
)
from dynograd.transforms.duals import Dual, is_moving, make_dual
from dynograd.transforms.jvp import jvp
from dynograd.transforms.rules import fresh
from dynograd.transforms.trees import flatten, map_tree, rebuild, same_structure
from dynograd.transforms.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "vjp"]


def vjp(func: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """`func(*primals)`, and the function (cotangents) -> cotangents times the Jacobian of `func` there.

    Args:
        func: takes `*primals` and gives tensors, also nested in tuples, lists and dicts.
        *primals: floating tensors, or nested tuples, lists and dicts of them.
        has_aux: `func` gives (output, aux); aux is handed on as it is.
    Returns:
        (output, vjp_fn), and aux when `has_aux`. `vjp_fn` takes cotangents in the structure of the output and gives a tuple with
        one entry per primal; it may be called many times.

    >>> x = tensor([1.0, 2.0])
    >>> output, pull = dynograd.func.vjp(lambda x: x * x, x)
    >>> pull(tensor([1.0, 1.0]))
    (tensor([2., 4.]),)
    """
    record = _Recorded("vjp", func, primals, tuple(range(len(primals))), {}, has_aux)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        operands = cotangents[0] if len(cotangents) == 1 else cotangents
        if not same_structure(operands, record.output):
            raise RuntimeError(
                f"vjp_fn: expected cotangents in the structure of the output, {map_tree(lambda _: '*', record.output)}, got "
                f"{map_tree(lambda _: '*', operands)}."
            )
        parts = record.pull(flatten(operands), retain_graph, create_graph)
        return rebuild(primals, parts)

    return (record.result(), pull, record.aux) if has_aux else (record.result(), pull)


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of `func`, which must return a 0-d tensor.

    Args:
        func: a function of tensors, or of nested tuples, lists and dicts of them.
        argnums: with respect to which positional arguments; a tuple gives a tuple of gradients.
        has_aux: `func` gives (loss, aux), and the new function (gradient, aux).
    Returns:
        A function of the same arguments; its result has the shape of the argument, and can be differentiated again.
    Raises:
        ShapeError: in a call, `func` gave a tensor with dims.

    >>> dynograd.func.grad(lambda x: (x**3).sum())(tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        slopes, value = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like `grad`; the new function gives (gradient, value), or (gradient, (value, aux)).

    Args:
        func, argnums, has_aux: as in `grad`.
    Returns:
        A function of the same arguments.

    >>> dynograd.func.grad_and_value(lambda x: x**3)(tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        record = _Recorded("grad", func, args, _places("grad", argnums, args), kwargs, has_aux)
        loss = record.output
        if not isinstance(loss, Tensor):
            raise RuntimeError(
                f"grad: expected func to return a scalar tensor, got {type(loss).__name__}. Return other results with has_aux=True."
            )
        if loss.array.ndim:
            raise RuntimeError(
                f"grad: expected func to return a scalar tensor, got a tensor with {loss.array.ndim} dims (shape {tuple(loss.shape)}). "
                f"Reduce it, e.g. with .sum(), or use jacrev."
            )
        if loss.is_complex():
            raise RuntimeError(
                f"grad: can be implicitly created only for real scalar outputs, but func returned {loss.dtype}. Take .real or .abs() of it."
            )
        parts = rebuild(record.chosen, record.pull([_one_like(loss)], False, None))
        slopes = parts[0] if isinstance(argnums, int) else parts
        value = record.result()
        return slopes, ((value, record.aux) if has_aux else value)

    return gradient


@without_private
def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that gives the Jacobian of `func`: a backward of all rows at once, one for each element of the output.

    The better choice when the output is smaller than the input.

    Args:
        func: a function of tensors that gives a tensor, or tuples, lists and dicts of them.
        argnums: with respect to which positional arguments; a tuple gives a tuple of Jacobians (for each output).
        has_aux: `func` gives (output, aux), and the new function (Jacobian, aux).
        chunk_size: how many rows at a time (1: one after the other, which takes the least memory); None: as many as are worth it.
    Returns:
        A function of the same arguments; the shape of its result is the output's followed by the argument's.

    >>> dynograd.func.jacrev(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        record = _Recorded("jacrev", func, args, _places("jacrev", argnums, args), kwargs, has_aux)
        outputs = flatten(record.output)
        _check_real("jacrev", "inputs", record.inner)
        _check_real("jacrev", "outputs", outputs)
        results = []
        for number, output in enumerate(outputs):
            parts = _by_units(
                "jacrev",
                lambda *ways: record.pull(list(ways), True, None),
                outputs,
                number,
                [(*output.shape, *inner.shape) for inner in record.inner],
                list(record.inner),
                chunk_size,
                "same",
            )
            tree = rebuild(record.chosen, parts)
            results.append(tree[0] if isinstance(argnums, int) else tree)
        result = rebuild(record.output, results)
        return (result, record.aux) if has_aux else result

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The function that gives the Jacobian of `func`: a jvp of all columns at once, one for each element of the input.

    The better choice when the input is smaller than the output.

    Args:
        func: a function of tensors that gives a tensor, or tuples, lists and dicts of them.
        argnums: with respect to which positional arguments; a tuple gives a tuple of Jacobians (for each output).
        has_aux: `func` gives (output, aux), and the new function (Jacobian, aux).
        randomness: as in `vmap`: what random functions inside `func` do.
    Returns:
        A function of the same arguments; the shape of its result is the output's followed by the argument's.

    >>> dynograd.func.jacfwd(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        places = _places("jacfwd", argnums, args)
        chosen = tuple(args[place] for place in places)

        def of_chosen(*values: Any) -> Any:
            full = list(args)
            for place, value in zip(places, values, strict=True):
                full[place] = value
            return func(*full, **kwargs)

        leaves = flatten(chosen)
        _check_real("jacfwd", "inputs", leaves)
        shapes: list[Any] = []
        seen: list[Any] = []

        def push(*ways: Any) -> list[Any]:
            output, moved, *rest = jvp(of_chosen, chosen, rebuild(chosen, list(ways)), has_aux=has_aux)
            seen[:] = [output, rest[0] if rest else None]
            return flatten(moved)

        if any(leaf.numel() > 1 for leaf in leaves) or not leaves:
            output, aux = of_chosen(*chosen) if has_aux else (of_chosen(*chosen), None)
        else:
            output = aux = None
        columns = [
            _by_units("jacfwd", push, leaves, number, shapes, [], None, randomness) for number in range(len(leaves))
        ]
        if output is None:
            output, aux = seen if seen else (of_chosen(*chosen) if has_aux else (of_chosen(*chosen), None))
        _check_real("jacfwd", "outputs", flatten(output))
        results = []
        for number, output_leaf in enumerate(flatten(output)):
            parts = [
                _last(columns[leaf][number], output_leaf, inner)
                if columns[leaf]
                else _stacked([], (*output_leaf.shape, *inner.shape), -1, output_leaf)
                for leaf, inner in enumerate(leaves)
            ]
            tree = rebuild(chosen, parts)
            results.append(tree[0] if isinstance(argnums, int) else tree)
        result = rebuild(output, results)
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of `func`: forward mode over backward.

    Args:
        func: a function of tensors that gives one element.
        argnums: with respect to which positional arguments; a tuple gives a tuple of tuples.
    Returns:
        A function of the same arguments; the shape of its result is the argument's, twice.

    >>> dynograd.func.hessian(lambda x: (x**3).sum())(tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _check_real(who: str, what: str, tensors: Any) -> None:
    for place, tensor in enumerate(tensors):
        if isinstance(tensor, Tensor) and tensor.is_complex():
            raise RuntimeError(
                f"{who}: Expected all {what} to be real but received complex tensor at flattened input idx: {place} ({tensor.dtype}). "
                f"Use view_as_real and view_as_complex, or autograd.functional.jacobian."
            )


def _by_units(
    who: str,
    linear: Callable[..., list[Any]],
    arguments: list[Any],
    number: int,
    shapes: list[Any],
    like: list[Any],
    chunk_size: int | None,
    randomness: str,
) -> list[Any]:
    """`linear(*zeros, unit, *zeros)` for every unit vector of argument `number`, stacked along dim 0 (then reshaped to `shapes`).

    All at once in `vmap`; one after the other when there are few, or when the function reads values and so cannot be batched.
    """
    chosen = arguments[number]
    count = chosen.numel()
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size <= 0):
        raise ValueError(f"{who}: chunk_size should be None or greater than 0, got {chunk_size!r}.")

    def unit(place: int, many: int) -> Any:
        tensor = wrap(arrays.zeros((many, count), chosen.dtype, chosen.device))
        tensor.array.reshape(-1)[place :: count + 1] = 1
        return tensor

    def zeros() -> list[Any]:
        return [wrap(arrays.zeros_like(argument.array)) for argument in arguments]

    def run(seed: Any) -> list[Any]:
        ways = zeros()
        ways[number] = seed.reshape(tuple(chosen.shape))
        return tuple(linear(*ways))  # type: ignore[return-value]

    parts: list[Any] | None = None
    if count >= _FEW and chunk_size != 1:
        step = min(count, chunk_size or max(_FEW, _AT_ONCE // max(1, count)))
        try:
            pieces = [
                vmap(run, randomness=randomness)(unit(start, min(step, count - start)))
                for start in range(0, count, step)
            ]
            parts = [
                rows_of_input[0] if len(rows_of_input) == 1 else public_function("cat")(list(rows_of_input), 0)
                for rows_of_input in zip(*pieces, strict=True)
            ]
        except BatchError:
            parts = None
    if parts is None:
        rows = [run(unit(place, 1)) for place in range(count)]
        parts = [public_function("stack")(list(row), 0) for row in zip(*rows, strict=True)] if rows else []
    if not shapes:
        return parts
    if not parts:
        return [_stacked([], shape, 0, tensor) for shape, tensor in zip(shapes, like, strict=True)]
    return [part.reshape(tuple(shape)) for part, shape in zip(parts, shapes, strict=True)]


_FEW = 3  # below, rows one after the other are faster
_AT_ONCE = 1 << 22  # elements of the unit vectors that are alive at a time


def _last(part: Any, output: Any, inner: Any) -> Any:
    """Columns that lie along dim 0 as the last dims, in the shape of what they belong to."""
    rank = part.ndim
    moved = part.permute((*range(1, rank), 0)) if rank > 1 else part
    return moved.reshape((*output.shape, *inner.shape))


# --- one recorded call -------------------------------------------------------------------------------------------------------


class _Recorded:
    """A call of `func` on the tape, with respect to the arguments at `places`."""

    def __init__(
        self,
        who: str,
        func: Callable[..., Any],
        args: tuple,
        places: tuple[int, ...],
        kwargs: dict[str, Any],
        has_aux: bool,
    ) -> None:
        self.recording = MODES.grad != 0
        self.chosen = tuple(args[place] for place in places)
        for leaf in flatten(self.chosen):
            if not isinstance(leaf, Tensor) or not (leaf.dtype.is_floating_point or leaf.dtype.is_complex):
                shown = leaf.dtype if isinstance(leaf, Tensor) else type(leaf).__name__
                raise RuntimeError(
                    f"{who}: expected floating tensors to differentiate with respect to, got {shown}. Choose others with argnums, "
                    f"or close over it."
                )
        with enable_grad():
            self.levels = active_levels()
            inner = map_tree(lambda leaf: fresh(enclosed(leaf)), self.chosen)
            self.inner = flatten(inner)
            full = list(args)
            for place, leaf in zip(places, inner, strict=True):
                full[place] = leaf
            result = func(*full, **kwargs)
        self.aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{who}: with has_aux=True, func must return a tuple (output, aux), got {type(result).__name__}."
                )
            result, self.aux = result
        self.output = result
        for leaf in flatten(result):
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"{who}: expected func to return only tensors, got {type(leaf).__name__} ({leaf!r})."
                )
        reached = [*flatten(result), *_tensors(self.aux)]
        self.outside = self.recording and _reach_others(reached, self.inner)
        self.moving = any(is_moving(tensor) for tensor in reached)
        if self.aux is not None:
            self.aux = map_tree(self._settled, self.aux)

    def result(self) -> Any:
        """The output, without the part of its history that is this call's alone."""
        return map_tree(self._settled, self.output)

    def _settled(self, leaf: Any) -> Any:
        return _without_history(leaf) if isinstance(leaf, Tensor) and not self.outside else leaf

    def pull(self, cotangents: Sequence[Any], retain_graph: bool, create_graph: bool | None) -> list[Any]:
        """Gradients of the chosen leaves, zeros where the output does not depend on one."""
        outputs = flatten(self.output)
        for number, (output, seed) in enumerate(zip(outputs, cotangents, strict=True)):
            if not isinstance(seed, Tensor) or seed.shape != output.shape:
                shown = tuple(seed.shape) if isinstance(seed, Tensor) else type(seed).__name__
                raise RuntimeError(f"vjp_fn: expected cotangent {number} of shape {tuple(output.shape)}, got {shown}.")
        recorded = any(cotangent.requires_grad for cotangent in cotangents)
        if create_graph is None:
            create_graph = self.recording and MODES.grad != 0 and (self.outside or recorded)
        keeping = create_graph
        if self.moving or any(is_moving(cotangent) for cotangent in cotangents):
            create_graph = True
        pairs = [(output, seed) for output, seed in zip(outputs, cotangents, strict=True) if output.requires_grad]
        if not pairs:
            return [wrap(arrays.zeros_like(tensor.array)) for tensor in self.inner]
        levels = self.levels  # the tape knows whole batches
        grad = tape.grad(
            [all_lowered(tensor, levels) for tensor, _ in pairs],
            [all_lowered(tensor, levels) for tensor in self.inner],
            [all_lowered(seed, levels) for _, seed in pairs],
            retain_graph=retain_graph or create_graph,
            create_graph=create_graph,
            allow_unused=True,
            materialize_grads=True,
        )
        return [all_raised(gradient if keeping else _without_history(gradient), levels) for gradient in grad]


def _without_history(tensor: Any) -> Any:
    if type(tensor) is Batched:
        return make_batched(tensor.level, _without_history(tensor.inner))
    if type(tensor) is Dual:
        return make_dual(tensor.level, _without_history(tensor.primal), _without_history(tensor.tangent))
    return tensor.detach() if tensor.requires_grad else tensor


def _one_like(loss: Any) -> Tensor:
    return wrap(arrays.full((), 1, loss.dtype, loss.device))


def _tensors(tree: Any) -> list[Any]:
    return [] if tree is None else [tensor for tensor in flatten(tree) if isinstance(tensor, Tensor)]


def _leaf(tensor: Any) -> Any:
    while type(tensor) in (Dual, Batched) or hasattr(type(tensor), "__dynograd_rows__"):
        if type(tensor) in (Dual, Batched):
            tensor = tensor.primal if type(tensor) is Dual else tensor.inner
        else:
            tensor = tensor.packed
    return tensor


def _reach_others(outputs: list[Any], inner: list[Any]) -> bool:
    """Whether the history of outputs, or of how they move, leads to leaves other than those of `inner`."""
    tensors = tuple([tensor for output in outputs for tensor in _parts(output) if tensor.requires_grad])
    own = tuple([_leaf(tensor) for tensor in inner])
    if MODES.plan is not None and tensors:
        return MODES.plan.ask(_lead_to_others, tensors, own)
    return _lead_to_others(tensors, own)


def _parts(output: Any) -> list[Any]:
    """The tensors that it is made of."""
    if type(output) is Batched:
        return _parts(output.inner)
    return [*_parts(output.primal), *_parts(output.tangent)] if type(output) is Dual else [output]


def _lead_to_others(tensors: tuple[Any, ...], own: tuple[Any, ...]) -> bool:
    places = set(map(id, own))
    pending: list[Any] = [tensor if tensor.node is None else tensor.node for tensor in tensors]
    seen = set()
    while pending:
        edge = pending.pop()
        if edge is None or id(edge) in seen:
            continue
        seen.add(id(edge))
        if not edge.seq and id(edge) not in places:
            return True
        pending += edge.edges
    return False


def _places(who: str, argnums: Any, args: tuple) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(numbers, tuple) or not all(isinstance(number, int) for number in numbers):
        raise RuntimeError(f"{who}: argnums must be an int or a tuple of ints, got {argnums!r}.")
    if not numbers:
        raise RuntimeError(f"{who}: argnums must be non-empty.")
    places = []
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{who}: got argnum={number}, but only {len(args)} positional inputs.")
        places.append(number % len(args))
    if len(set(places)) != len(places):
        raise RuntimeError(f"{who}: argnums elements must be unique, got {argnums}.")
    return tuple(places)


def _stacked(parts: list[Any], shape: tuple[int, ...], dim: int, like: Tensor) -> Any:
    """Rows or columns of a Jacobian as one tensor of `shape`."""
    if not prod(shape):
        return wrap(arrays.zeros(tuple(shape), like.dtype))
    return public_function("stack")(parts, dim).reshape(tuple(shape))
