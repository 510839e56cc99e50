"""`backward` and `grad`: checks what the user asked, then runs the tape."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.engine import run_backward
from dynograd.autograd.modes import MODES, recording
from dynograd.autograd.nodes import Node, OutputNode, Partial
from dynograd.base.values import TENSORS
from dynograd.errors import GradientError
from dynograd.interpreter.shared import tensor_class
from dynograd.kernels import kernel

if TYPE_CHECKING:
    from dynograd.tensor.tensor import Tensor


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulates gradients of `tensors` into `.grad` of the leaves (or of `inputs` only).

    Args:
        tensors: a tensor or several.
        grad_tensors: what to multiply with, one per tensor, in its shape; may be left out for one-element tensors.
        retain_graph: keep what ops saved, for another backward; as `create_graph` unless given.
        create_graph: record the computation, so that gradients can be differentiated.
        grad_variables: the old name of `grad_tensors`.
        inputs: the leaves that get a gradient; None: all.
    Raises:
        GradientError: a tensor does not require grad, or what its graph saved is gone.
        ShapeError: a tensor has several elements and no entry in `grad_tensors`, or one of another shape.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> dynograd.autograd.backward((x * 3).sum())
    >>> x.grad
    tensor([3., 3.])
    """
    seeds = grad_tensors if grad_tensors is not None else grad_variables
    if MODES.plan is None:
        _settle(tensors)
    tensors, seeds = _plain("backward", tensors, seeds)
    if inputs is None:
        if MODES.plan is not None:
            listed = tuple(_listed(tensors)), None if seeds is None else tuple(_listed(seeds))
            if MODES.plan.backward(*listed, _keeps(retain_graph, create_graph), create_graph):
                return
            _settle(tensors)
        create_graph = create_graph or _others(tensors, seeds)
        roots = _roots("backward", tensors, seeds, create_graph)
        run_backward(roots, retain_graph=_keeps(retain_graph, create_graph), create_graph=create_graph)
        return
    chosen = [_root(x, "backward", None)[0] for x in _listed(inputs)]
    if not chosen:
        raise GradientError("backward: 'inputs' argument to backward() cannot be empty.")
    gradients = differentiated("backward", tensors, chosen, seeds, retain_graph, create_graph)
    for x, g in zip(chosen, gradients, strict=True):
        if g is not None and is_tensor(x):
            x._grad = g if x._grad is None else x._grad + g


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Gradients of the sum of `outputs` with respect to `inputs`; leaves' `.grad` stay as they are.

    Args:
        outputs, inputs: tensors, or gradient edges (`autograd.graph.get_gradient_edge`) that stand for them.
        grad_outputs: what to multiply with, one per output; may be left out for one-element outputs.
        retain_graph: keep what ops saved, for another backward; as `create_graph` unless given.
        create_graph: record the computation, so that the results can be differentiated.
        only_inputs: kept for compatibility; True.
        allow_unused: give None for an input that the outputs do not depend on, instead of an error; as `materialize_grads` unless given.
        is_grads_batched: each of `grad_outputs` has one more dim in front, and so have the results: one backward of all rows.
        materialize_grads: give zeros instead of None; they require grad under `create_graph`.
    Returns:
        A tuple with a tensor for each input, in its shape.
    Raises:
        GradientError: an output does not require grad, or does not depend on an input.
        ValueError: no inputs, or materialize_grads with allow_unused=False.

    >>> x = tensor(3.0, requires_grad=True)
    >>> (slope,) = dynograd.autograd.grad(x**3, x, create_graph=True)
    >>> dynograd.autograd.grad(slope, x)
    (tensor(18.),)
    """
    if materialize_grads and allow_unused is not None and not allow_unused:
        raise ValueError(
            "grad: Expected allow_unused to be True or not passed when materialize_grads=True, but got allow_unused=False."
        )
    chosen = _listed(inputs)
    if any([hasattr(type(operand), "__dynograd_root__") for operand in (*chosen, *_listed(outputs))]):
        plain, seeds = _plain("grad", outputs, grad_outputs)
        gradients = grad(
            plain, [_root(x, "grad", None)[0] for x in chosen], seeds, retain_graph,
            create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads,
        )  # fmt: skip
        return tuple(
            [
                x.__dynograd_gradient__(g) if g is not None and hasattr(type(x), "__dynograd_root__") else g
                for x, g in zip(chosen, gradients, strict=True)
            ]
        )
    if is_grads_batched:
        return _batched_grad(outputs, chosen, grad_outputs, create_graph, allow_unused, materialize_grads)
    if not chosen:
        raise ValueError("grad: grad requires non-empty inputs.")
    results = differentiated("grad", outputs, chosen, grad_outputs, retain_graph, create_graph)
    for position, (x, g) in enumerate(zip(chosen, results, strict=True)):
        if g is not None:
            continue
        if materialize_grads:
            like = _like(x)
            if like is None:
                raise GradientError(
                    f"grad: materialize_grads: the gradient edge of {x.node} (input {position}) knows no shape. Take it from the tensor: "
                    f"dynograd.autograd.graph.get_gradient_edge(tensor)."
                )
            zeros = _wrap(arrays.zeros(tuple(like.shape), like.dtype, like.device))
            results[position] = zeros.requires_grad_() if create_graph else zeros
        elif not allow_unused:
            raise GradientError(
                f"grad: One of the differentiated Tensors appears to not have been used in the graph: input {position}"
                f"{_of_shape(x)}. Set allow_unused=True if this is the desired behavior (it then gives None)."
            )
    return tuple(results)


def differentiated(
    who: str, outputs: Any, inputs: list[Any], seeds: Any, retain: bool | None, create_graph: bool
) -> list[Any]:
    """A tensor for each input, or None where no path leads.

    Args:
        who: asks: "grad", "backward", or (a plan) "leaves": a backward pass of all of them, whose hooks run when they get what is given here.
    """
    own = _own if who == "grad" else _copied
    recorded = MODES.plan is not None

    def run(outputs: Any, inputs: Any, seeds: Any, own: Any) -> list[Any]:
        _settle(outputs)
        through_ops = create_graph or _others(outputs, seeds)
        roots = _roots("backward" if who == "leaves" else who, outputs, seeds, through_ops)
        edges = [_target(who, x) for x in inputs]
        return [
            None
            if g is None
            else _wrap(own(g))
            if not is_tensor(g)
            else g
            if create_graph or who != "grad"
            else _without_history(g)
            for g in _gradients(roots, edges, _keeps(retain, through_ops), through_ops, not recorded)
        ]

    if not recorded:
        return run(outputs, inputs, seeds, own)
    listed = tuple(_listed(outputs)), tuple(inputs), None if seeds is None else tuple(_listed(seeds))
    gradients = MODES.plan.gradients(run, *listed, own, (_keeps(retain, create_graph), bool(create_graph), who))
    return gradients if who == "leaves" else _with_hooks(inputs, gradients, create_graph)


def _with_hooks(inputs: list[Any], gradients: list[Any], create_graph: bool) -> list[Any]:
    """Gradients of a recorded pass, of which hooks of the leaves among `inputs` make what they like."""
    hooked: dict[int, Any] = {}
    for x, g in zip(inputs, gradients, strict=True):
        hooks = getattr(getattr(x, "_meta", None), "hooks", None)
        if g is None or hooks is None or id(x) in hooked:
            continue
        before, MODES.grad = MODES.grad, recording() if create_graph else 0
        try:
            hooked[id(x)] = x.run_hooks(g)
        finally:
            MODES.grad = before
    return [hooked.get(id(x), g) for x, g in zip(inputs, gradients, strict=True)] if hooked else gradients


def _keeps(retain_graph: bool | None, create_graph: bool) -> bool:
    """Whether what ops saved is kept."""
    return bool(create_graph if retain_graph is None else retain_graph)


def _batched_grad(
    outputs: Any,
    inputs: list[Any],
    seeds: Any,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """Gradients for each row of the seeds, all in one backward."""
    operands = [seeds] if is_tensor(seeds) else list(seeds or ())
    if len(operands) != len(_listed(outputs)) or not all(is_tensor(tensor) for tensor in operands):
        raise GradientError(
            "grad: with is_grads_batched=True, grad_outputs must be one Tensor per output, with the rows along dim 0."
        )
    unused: list[int] = []

    def rows(*parts: Any) -> tuple[Tensor, ...]:
        gradients = grad(outputs, inputs, parts, True, create_graph, True, allow_unused, False, materialize_grads)
        unused[:] = [place for place, gradient in enumerate(gradients) if gradient is None]
        kept = [gradient for gradient in gradients if gradient is not None]
        return tuple(kept if create_graph else [tensor.detach() for tensor in kept])

    vmap = sys.modules["dynograd"].func.vmap  # it lies above this layer, so it is looked up and not imported
    rows_of_gradients = list(vmap(rows)(*operands))
    for place in unused:
        rows_of_gradients.insert(place, None)
    return tuple(rows_of_gradients)


def is_tensor(value: Any) -> bool:
    return isinstance(value, tensor_class[0])


def _wrap(array: Any) -> Tensor:
    return tensor_class[0].wrap(array)


def _root(tensor: Any, who: str, seed: Any) -> tuple[Any, Any]:
    """Of a tensor made of another one (packed elements of rows, entries of a sparse tensor) that one, and its part of the gradient `seed`."""
    root = getattr(type(tensor), "__dynograd_root__", None)
    return (tensor, seed) if root is None else root(tensor, who, seed)


def _plain(who: str, tensors: Any, seeds: Any) -> tuple[Any, Any]:
    """Tensors and their gradients where none is made of another one."""
    listed = _listed(tensors)
    if not any([hasattr(type(tensor), "__dynograd_root__") for tensor in listed]):
        return tensors, seeds
    gradients = [None] * len(listed) if seeds is None else _listed(seeds)
    if len(gradients) != len(listed):
        return tensors, seeds  # `_roots` says so
    pairs = [_root(tensor, who, seed) for tensor, seed in zip(listed, gradients)]
    return [tensor for tensor, _ in pairs], None if seeds is None else [seed for _, seed in pairs]


def _listed(value: Any) -> list[Any]:
    """Tensors and gradient edges in a list; a single one too."""
    if is_tensor(value) or hasattr(value, "ownership_token"):
        return [value]
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(
            f"backward: expected a Tensor, or a sequence of them, got {type(value).__name__}. Make one with dynograd.tensor(...)."
        )
    return list(value)


def _like(tensor: Any) -> Tensor | None:
    """A tensor with the shape and dtype of a tensor or gradient edge; None where the edge was taken from a node."""
    if not hasattr(tensor, "ownership_token"):
        return tensor
    return None if tensor.ownership_token is None else tensor.ownership_token[1]


def _of_shape(tensor: Any) -> str:
    like = _like(tensor)
    return "" if like is None else f" of shape {tuple(like.shape)}"


def _settle(outputs: Any) -> None:
    """Values that are still to come are computed now."""
    for operand in () if type(outputs) in TENSORS else _listed(outputs):
        settle = getattr(type(operand), "__dynograd_settle__", None)
        if settle is not None:
            settle(operand)


def _gradients(
    roots: Any, edges: list[Any], retain_graph: bool, create_graph: bool, hooks_of_leaves: bool
) -> list[Any]:
    """Gradients along `edges`; an edge that is a part of another (`whole`) gets its part of that one's."""
    edges = [edge.edges[0].edge_of_output(edge) if type(edge) is OutputNode else edge for edge in edges]
    wholes = [edge.whole() if hasattr(edge, "whole") else edge for edge in edges]
    result = (
        run_backward(
            roots,
            retain_graph=retain_graph,
            create_graph=create_graph,
            targets=wholes,
            hooks_of_leaves=hooks_of_leaves,
        )
        or []
    )
    return [
        g if whole is edge or g is None else edge.part_of(g)
        for edge, whole, g in zip(edges, wholes, result, strict=True)
    ]


def _others(outputs: Any, seeds: Any) -> bool:
    """Whether a type that takes over ops is among the tensors: backward then has to run on tensors, so that it sees it."""
    if seeds is None and type(outputs) in TENSORS:
        return False
    groups = [_listed(group) for group in (outputs, seeds) if group is not None]
    return any(is_tensor(tensor) and type(tensor) not in TENSORS for group in groups for tensor in group)


def _without_history(g: Any) -> Tensor:
    """A gradient that was recorded only so that a type that takes over ops could see it; one that moves keeps its tangent."""
    inner = g
    while _is_batch(inner):
        inner = inner.inner
    return g if hasattr(inner, "primal") else g.detach()


def _is_batch(tensor: Any) -> bool:
    return hasattr(type(tensor), "__dynograd_in_turn__")


def _own(g: Any) -> Array:
    """A gradient that is a stretched view or a number, as an array of its own."""
    g = arrays.as_result(g)
    return g if arrays.owns_memory(g) else _copied(g)


def _copied(g: Any) -> Array:
    g = arrays.as_result(g)
    return kernel("copies", "copied", g)(g)


class _Output:
    """One output of a node, of an edge that knows no tensor: its gradient is a part of the node's where that has several."""

    def __init__(self, edge: Any) -> None:
        self.node, self.number = getattr(edge.node, "variable", edge.node), edge.output_nr

    def whole(self) -> Node | Tensor:
        return self.node

    def part_of(self, g: Any) -> Array | Tensor | None:
        return g.parts.get(self.number) if isinstance(g, Partial) else g


def _target(who: str, tensor: Any) -> Node | Tensor | _Output:
    if hasattr(tensor, "ownership_token"):
        return _Output(tensor) if tensor.ownership_token is None else tensor.ownership_token[0]
    if not is_tensor(tensor):
        raise TypeError(f"{who}: expected inputs to be Tensors, got {type(tensor).__name__}.")
    if not tensor.requires_grad:
        raise GradientError(
            f"{who}: One of the differentiated Tensors does not require grad (shape {tuple(tensor.array.shape)}). "
            f"Call requires_grad_() on it before the forward."
        )
    return tensor if tensor.node is None else tensor.node


def _roots(who: str, outputs: Any, seeds: Any, create_graph: bool) -> list[tuple[Any, Any]]:
    tensors: Sequence[Any] = (outputs,) if is_tensor(outputs) else _listed(outputs)
    operands: Sequence[Any] = (None,) * len(tensors) if seeds is None else tuple(_listed(seeds))
    if len(operands) != len(tensors):
        raise GradientError(f"{who}: got {len(tensors)} tensors and {len(operands)} gradients.")
    roots = []
    for tensor, seed in zip(tensors, operands, strict=True):
        if hasattr(tensor, "ownership_token"):
            if tensor.ownership_token is None:
                raise GradientError(
                    f"{who}: the gradient edge of {tensor.node} knows no shape, from which a gradient could begin. Take it from the tensor: "
                    f"dynograd.autograd.graph.get_gradient_edge(tensor)."
                )
            roots.append((tensor.ownership_token[0], _seed(who, tensor.ownership_token[1], seed, create_graph)))
            continue
        if not is_tensor(tensor):
            raise TypeError(f"{who}: expected a Tensor, got {type(tensor).__name__}.")
        if _is_batch(tensor):
            raise GradientError(
                f"{who}: this tensor has another value for each example of a running vmap (shape {tuple(tensor.shape)} per example). "
                f"Use func.grad or func.vjp inside vmap, or call {who} on what vmap returned."
            )
        if not tensor.requires_grad:
            raise GradientError(
                f"{who}: element 0 of tensors does not require grad and does not have a grad_fn: nothing that requires grad went "
                f"into it (shape {tuple(tensor.array.shape)}). Check for no_grad(), detach() or integer tensors on the way; "
                f"dynograd.explain(loss) names the line, of a loss made inside `with dynograd.debug.provenance():`."
            )
        roots.append((tensor if tensor.node is None else tensor.node, _seed(who, tensor, seed, create_graph)))
    return roots


def _seed(who: str, tensor: Tensor, seed: Any, create_graph: bool) -> Tensor | Array:
    array = tensor.array
    if seed is None:
        if array.size != 1:
            raise GradientError(
                f"{who}: grad can be implicitly created only for scalar outputs, got shape {tuple(array.shape)}. "
                f"Reduce it first, e.g. loss.sum() or loss.mean(), or pass gradient= of that shape."
            )
        if array.dtype.kind == "c":
            raise GradientError(
                f"{who}: grad can be implicitly created only for real scalar outputs but got {tensor.dtype}. Pass gradient= (or "
                f"grad_outputs=), or take y.real or y.abs() first."
            )
        ones = arrays.ones_like(array)
        return _wrap(ones) if create_graph else ones
    if not is_tensor(seed):
        raise TypeError(f"{who}: gradients must be Tensors or None, got {type(seed).__name__}.")
    if seed.array.shape != array.shape:
        raise GradientError(
            f"{who}: Mismatch in shape: the gradient has shape {tuple(seed.array.shape)} and the output {tuple(array.shape)}."
        )
    if seed.device != tensor.device:
        raise GradientError(
            f"{who}: invalid gradient: expected device {tensor.device}, that of the output, but got {seed.device}. Move it there, "
            f"e.g. gradient.to(y.device)."
        )
    if seed.dtype is not tensor.dtype and (seed.dtype.is_complex or tensor.dtype.is_complex):
        raise GradientError(
            f"{who}: for complex Tensors, both gradient and output are required to have the same dtype: the gradient has "
            f"{seed.dtype} and the output {tensor.dtype}. Convert it, e.g. gradient.to(y.dtype)."
        )
    if create_graph:
        return seed if seed.array.dtype == array.dtype else seed.to(tensor.dtype)
    return arrays.cast(seed.array, tensor.dtype)
