"""`explain`: where a value comes from, why it is not a number, why a gradient is missing or zero, where a dim was born."""

from __future__ import annotations

from dynograd import arrays
from dynograd.autograd.nodes import frame_at
from dynograd.debug import gradients, nonfinite, shapes, suspicions
from dynograd.debug.explanations import SUSPECT, Explanation, explanation, history
from dynograd.debug.names import Names
from dynograd.debug.recording import Value, array_of, current, provenance
from dynograd.debug.texts import at, range_of, shape_of
from dynograd.errors import ShapeError
from dynograd.nn import Parameter
from dynograd.tensor.tensor import Tensor

__all__ = ["explain"]


def explain(x: Tensor, *, dim: int | None = None, depth: int = 6) -> Explanation:
    """Where a value comes from, from what `debug.provenance()` noted.

    Args:
        x: a tensor of any shape. Of one that is not a number everywhere the op that first gave such a value is named, and what
            it was given; of a parameter, or another leaf, why its gradient is missing, zero or not a number; of `p.grad` the same.
        dim: of this dim, where its size was born.
        depth: how many ops back are listed.
    Returns:
        An `Explanation`: printed, it is a text; notebooks show a table.
    Raises:
        TypeError: `x` is no tensor.
        ShapeError: `x` has no such dim.

    >>> layer = dynograd.nn.Linear(2, 2)
    >>> with dynograd.debug.provenance():
    ...     loss = layer(dynograd.ones(1, 2)).detach().sum() + layer.bias.sum()
    ...     loss.backward()
    >>> dynograd.explain(layer.weight).problem, dynograd.explain(layer.weight).op
    ('no gradient', 'detach')
    """
    if not isinstance(x, Tensor):
        raise TypeError(
            f"explain: expected a tensor, got {type(x).__name__}. Of a missing gradient pass the parameter: explain(model.weight)."
        )
    scope = current()
    names = Names([] if scope is None else list(scope.roots), frame_at(2))
    if dim is not None and not -x.ndim <= dim < x.ndim:
        raise ShapeError(f"explain: expected a dim of a tensor of shape {tuple(x.shape)}, got dim={dim}.")
    leaf = x if x.is_leaf and (x.requires_grad or isinstance(x, Parameter)) else names.leaf_with(x)
    value = None if scope is None else scope.value_of(x if leaf is None else leaf)
    if dim is not None:
        return shapes.explanation_of(x, value, dim % x.ndim, names)
    if leaf is not None and (leaf.requires_grad or is_finite_now(leaf)):
        return gradients.explanation_of(leaf, value, scope, names)
    if value is None:
        return Explanation("", unseen(x))
    if not value.is_finite() or not is_finite_now(x):
        return nonfinite.explanation_of(value, names, depth)
    return _of_healthy(x, value, scope, names, depth)


def _of_healthy(x: Tensor, value: Value, scope: provenance | None, names: Names, depth: int) -> Explanation:
    """Of a value that is a number everywhere: what gave it, and what is suspicious about that."""
    steps = history(value, names, depth)
    suspicion = suspicions.of_value(value)
    if suspicion is not None:
        return explanation(SUSPECT, suspicion.text, suspicion.call, steps)
    title = at(value.call) if value.call is not None else names.of_value(value)
    reason = f"{title} gave {shape_of(value)} {range_of(value)}."
    cut = suspicions.without_gradient(value)
    if cut is not None:
        return explanation("", f"{reason} {cut.text}", cut.call, steps)
    passed = scope is not None and any([passage.node is x.grad_fn for passage in scope.passages])
    if passed and x.ndim and not x.retains_grad:
        reason += " Backward keeps no gradient for it, since an op made it: retain_grad() makes it do so."
    return explanation("", reason, value.call, steps)


def unseen(x: Tensor) -> str:
    """What can be said of a tensor that no scope has seen."""
    hint = "Run what makes it inside `with dynograd.debug.provenance():`."
    if x.grad_fn is None:
        return f"A tensor of shape {tuple(x.shape)} that no op is known to have made. {hint}"
    return f"A tensor of shape {tuple(x.shape)} that {x.grad_fn.name()} gave, on a line that nobody noted. {hint}"


def is_finite_now(x: Tensor) -> bool:
    """Whether all elements are numbers; of what has no values, True."""
    return x.device.type == "meta" or bool(arrays.is_finite(array_of(x)))
