"""Names of PyTorch's top level that are no ops of their own: shapes that broadcast, in-place methods as functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynograd.autograd import modes
from dynograd.base import shapes, stubs
from dynograd.base.signatures import signature_of
from dynograd.errors import ShapeError
from dynograd.interpreter.out_forms import write_out
from dynograd.kernels.build import determinism
from dynograd.ops.op import registry
from dynograd.tensor.inplace import write_result
from dynograd.tensor.methods import public_function
from dynograd.tensor.tensor import Tensor

__all__ = [
    "broadcast_shapes",
    "cond",
    "detach",
    "frobenius_norm",
    "get_deterministic_debug_mode",
    "is_anomaly_check_nan_enabled",
    "norm_except_dim",
    "nuclear_norm",
    "set_anomaly_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_warn_always",
    "set_flush_denormal",
    "while_loop",
]

# In-place methods that are no ops, and that PyTorch also has as functions.
_METHODS = ("detach_", "fill_", "resize_as_", "zero_")


def broadcast_shapes(*shapes_: Any) -> shapes.Size:
    """The shape that tensors of these shapes broadcast to; a number stands for a shape of one dim.

    Args:
        shapes_: tuples of ints, or ints.
    Returns:
        A `Size`.
    Raises:
        ShapeError: they do not broadcast.

    >>> dynograd.broadcast_shapes((2, 1), (3,), ())
    dynograd.Size([2, 3])
    """
    operands = [shapes.as_shape("broadcast_shapes", (shape,)) for shape in shapes_]
    for shape in operands:
        shapes.check_sizes("broadcast_shapes", shape)
    common: tuple[int, ...] = ()
    for place, shape in enumerate(operands):
        try:
            common = shapes.broadcast_shapes("broadcast_shapes", common, shape)
        except ShapeError as error:
            sizes = zip(reversed(shape), reversed(common))
            back = next(back for back, pair in enumerate(sizes, 1) if 1 not in pair and pair[0] != pair[1])
            raise ShapeError(
                f"broadcast_shapes: Attempting to broadcast a dimension of length {shape[-back]} at {-back}! Mismatching argument at index "
                f"{place} had {tuple(shape)}; but expected shape should be broadcastable to {list(common)}. Only 1 stretches."
            ) from error
    return shapes.Size(common)


def inplace_functions() -> dict[str, Any]:
    """In-place methods that PyTorch also has as functions, by name: `dynograd.relu_(x)` is `x.relu_()`."""
    names = [
        f"{entry.name}_" for entry in registry.values() if "function" in (entry.inplace, entry.row["inplace_view"])
    ]
    return {name: _taking_input(getattr(Tensor, name)) for name in (*names, *_METHODS)}


def _taking_input(method: Any) -> Callable[..., Any]:
    """A method as a function, whose tensor has the name `input`."""
    signature = signature_of(method)
    first, *rest = signature.parameters.values()
    if first.name != "self":
        return method

    @functools.wraps(method)
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return method(input, *args, **kwargs)

    function.__signature__ = signature.replace(parameters=[first.replace(name="input"), *rest])  # type: ignore[attr-defined]
    return function


def install_more_methods(functions: dict[str, Any]) -> None:
    """Puts methods on Tensor whose function does not take the tensor first."""

    def polygamma(self: Tensor, n: int) -> Tensor:
        return functions["polygamma"](n, self)

    def polygamma_(self: Tensor, n: int) -> Tensor:
        return write_result(self, functions["polygamma"](n, self), "polygamma_")

    polygamma.__doc__ = f"The method form of `polygamma`, with the tensor first. Of `polygamma`:\n\n    {functions['polygamma'].__doc__}"
    polygamma_.__doc__ = (
        f"In-place form of `polygamma`, with the tensor first. Of `polygamma`:\n\n    {functions['polygamma'].__doc__}"
    )
    for method in (polygamma, polygamma_):
        method.__qualname__ = f"Tensor.{method.__name__}"
        setattr(Tensor, method.__name__, method)


# --- older names, and control flow as functions --------------------------------------------------------------------------------


def detach(input: Tensor) -> Tensor:
    """The same memory without history: `input.detach()`.

    Args:
        input: tensor of any shape.
    Returns:
        A tensor that shares `input`'s memory and requires no grad.

    >>> dynograd.detach(tensor([1.0], requires_grad=True))
    tensor([1.])
    """
    return input.detach()


def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Any = None) -> Tensor:
    """The root of the sum of squares over `dim` (all unless given); `linalg.norm` is the newer name.

    Args:
        input: tensor of any shape.
        dim: an int or several; () for all.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, real.

    >>> dynograd.frobenius_norm(tensor([[3.0, 4.0]]))
    tensor(5.)
    """
    result = public_function("linalg_vector_norm")(input, 2, dim if dim != () else None, keepdim)
    return result if out is None else write_out("frobenius_norm", out, result)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False, *, out: Any = None) -> Tensor:
    """The sum of the singular values of the matrices in two dims.

    Args:
        input (*, M, N): matrices.
        dim: the two dims of the matrices.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, real.

    >>> dynograd.nuclear_norm(tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    result = public_function("linalg_matrix_norm")(input, "nuc", dim, keepdim)
    return result if out is None else write_out("nuclear_norm", out, result)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but `dim`, which are kept with size 1 (weight normalisation). `dim` -1: over all of them.

    Args:
        v: floating tensor.
        pow: the order of the norm.
        dim: which dim; negative counts from the end.
    Returns:
        v's number of dims, with size 1 in all but `dim`.

    >>> dynograd.norm_except_dim(tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    rank = v.array.ndim
    if dim == -1:
        return public_function("linalg_vector_norm")(v, pow)
    kept = shapes.normalize_dim("norm_except_dim", dim, rank)
    return public_function("linalg_vector_norm")(v, pow, tuple([dim for dim in range(rank) if dim != kept]), True)


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: tuple | list = ()) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: functions of the operands.
        operands: their arguments.
    Returns:
        What the function returns.

    >>> dynograd.cond(tensor(True), lambda x: x + 1, lambda x: x - 1, (tensor(2.0),))
    tensor(3.)
    """
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: tuple | list) -> tuple:
    """Runs `body_fn` on what it gave before, for as long as `cond_fn` holds of it.

    Args:
        cond_fn, body_fn: functions of the inputs.
        carried_inputs: the first ones.
    Returns:
        A tuple of the last ones.

    >>> dynograd.while_loop(lambda x: x < 10, lambda x: (x * 2,), (tensor(3.0),))
    (tensor(12.),)
    """
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return carried


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """`autograd.set_detect_anomaly`, at once.

    Args:
        mode: whether backward names the op that failed, or gave NaN.
        check_nan: look for NaN.

    >>> dynograd.set_anomaly_enabled(False)
    """
    modes.set_detect_anomaly(mode, check_nan)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN.

    >>> dynograd.is_anomaly_check_nan_enabled()
    True
    """
    return modes.MODES.check_nan


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by level: 0 or "default", 1 or "warn", 2 or "error".

    Args:
        debug_mode: the level.

    >>> dynograd.set_deterministic_debug_mode("default")
    >>> dynograd.get_deterministic_debug_mode()
    0
    """
    levels = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in levels:
        raise ValueError(
            f"set_deterministic_debug_mode: expected default, warn or error (0, 1, 2), got {debug_mode!r}."
        )
    level = levels[debug_mode]
    determinism.use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2; see `set_deterministic_debug_mode`.

    >>> dynograd.get_deterministic_debug_mode()
    0
    """
    if determinism.is_deterministic_algorithms_warn_only_enabled():
        return 1
    return 2 * determinism.are_deterministic_algorithms_enabled()


def set_warn_always(b: bool) -> None:
    """Accepted for PyTorch's sake, where it makes warnings come each time: here the filters of Python's `warnings` decide that for all.

    Args:
        b: True or False.

    >>> dynograd.set_warn_always(True)
    >>> dynograd.is_warn_always_enabled()
    True
    >>> dynograd.set_warn_always(False)
    """
    if not isinstance(b, bool):
        raise TypeError(f"set_warn_always: expected True or False, got {b!r}.")
    _warns_always[0] = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told; False before.

    Returns:
        True or False.

    >>> dynograd.is_warn_always_enabled()
    False
    """
    return _warns_always[0]


_warns_always = [False]
set_flush_denormal = stubs.function("set_flush_denormal")
