"""Pairs and triples of ops that stand together in every network, in one pass over memory: dynograd's own names.

PyTorch leaves these to its compiler. Each gives what the ops one by one give (sums in float32 may differ in the last bits), takes
every dtype and shape that they take, and differentiates as often.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.activations import gelu, relu, silu
from dynograd.ops.norm.normalizations import _check_normalized as check_normalized
from dynograd.ops.norm.normalizations import layer_norm
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["add_layer_norm", "bias_gelu", "bias_relu", "bias_silu", "swiglu"]

FAMILY = Row(out=None, functional=True)

_ACTIVATIONS: dict[str, Any] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": lambda input: gelu(input, "tanh"),
    "silu": silu,
}


# --- bias and activation -------------------------------------------------------------------------------------------------------


@op(name="bias_activation", functional=False)
def biased_activation(input: Array, bias: Array, name: str) -> Array:
    """The activation `name` of `input + bias`, in float32."""
    return kernel("fused_activations", "bias_activation_forward", input)(name, input, bias)


@biased_activation.fast_backward
def biased_activation_fast_backward(g: Any, saved: Any, name: Any) -> Gradients:
    return kernel("fused_activations", "bias_activation_backward", g)(name, g, saved.input, saved.bias)


@biased_activation.decomposition
def biased_activation_decomposition(input: Any, bias: Any, name: str) -> Array:
    return _ACTIVATIONS[name](input + bias)


@composed()
def bias_gelu(input: Any, bias: Any, approximate: str = "none") -> Array:
    """`gelu(input + bias)` in one pass.

    Args:
        input (*, C): floating tensor.
        bias (C,): runs along the last dim.
        approximate: "none" or "tanh", as in `gelu`.
    Returns:
        A tensor of the shape of `input`.
    Raises:
        ShapeError: `bias` has not one number for each of the last dim.

    >>> dynograd.nn.functional.bias_gelu(tensor([[-1.0, 1.0]]), tensor([0.0, 1.0]))
    tensor([[-0.1587,  1.9545]])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"bias_gelu: approximate argument must be either 'none' or 'tanh', got {approximate!r}.")
    return _biased("bias_gelu", "gelu" if approximate == "none" else "gelu_tanh", input, bias)


@composed()
def bias_relu(input: Any, bias: Any) -> Array:
    """`relu(input + bias)` in one pass; `bias` (C,) runs along the last dim.

    Args:
        input (*, C): floating tensor.
        bias (C,): runs along the last dim.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.nn.functional.bias_relu(tensor([[-1.0, 1.0]]), tensor([0.0, 1.0]))
    tensor([[0., 2.]])
    """
    return _biased("bias_relu", "relu", input, bias)


@composed()
def bias_silu(input: Any, bias: Any) -> Array:
    """`silu(input + bias)` in one pass; `bias` (C,) runs along the last dim.

    Args:
        input (*, C): floating tensor.
        bias (C,): runs along the last dim.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.nn.functional.bias_silu(tensor([[-1.0, 1.0]]), tensor([0.0, 1.0]))
    tensor([[-0.2689,  1.7616]])
    """
    return _biased("bias_silu", "silu", input, bias)


def _biased(who: str, name: str, input: Any, bias: Any) -> Array:
    shape, own = tuple(input.shape), tuple(bias.shape)
    if len(own) != 1 or not shape or own[0] != shape[-1]:
        raise ShapeError(
            f"{who}: expected a bias of shape ({shape[-1] if shape else 'C'},) for input of shape {shape}, got {own}. The bias runs "
            f"along the last dim; add others with +."
        )
    x, b = getattr(input, "array", input), getattr(bias, "array", bias)
    if kernel("fused_activations", "in_one_pass", x)(x, b):
        return biased_activation(input, bias, name)
    return biased_activation_decomposition(input, bias, name)


# --- gates ---------------------------------------------------------------------------------------------------------------------


@op(name="swiglu")
def gated(gate: Array, input: Array) -> Array:
    """`silu(gate) * input`, in float32."""
    return kernel("fused_activations", "swiglu_forward", input)(gate, input)


@gated.fast_backward
def gated_fast_backward(g: Any, saved: Any) -> Gradients:
    return kernel("fused_activations", "swiglu_backward", g)(g, saved.gate, saved.input)


@gated.decomposition
def gated_decomposition(gate: Any, input: Any) -> Array:
    return silu(gate) * input


@composed(covers="swiglu")
def swiglu(gate: Any, input: Any) -> Array:
    """`silu(gate) * input` in one pass: the gated unit of transformers' feed-forward layers.

    Args:
        gate, input: floating tensors of one shape.
    Returns:
        A tensor of that shape.
    Source: Shazeer, GLU variants improve transformer, 2020 (arXiv:2002.05202), equation 6.

    >>> dynograd.nn.functional.swiglu(tensor([0.0, 1.0]), tensor([3.0, 2.0]))
    tensor([0.0000, 1.4621])
    """
    a, x = getattr(gate, "array", gate), getattr(input, "array", input)
    if getattr(a, "shape", None) == getattr(x, "shape", ()) and kernel("fused_activations", "in_one_pass", x)(a, x):
        return gated(gate, input)
    return gated_decomposition(gate, input)


# --- residual and norm -----------------------------------------------------------------------------------------------------------


@op(name="add_layer_norm", outputs="output total", extras="sums mean rstd", cast={"cpu": "around", "cuda": "wide"})
def summed_normalized(
    input: Array, residual: Array, weight: Array | None, bias: Array | None, rank: int, eps: float
) -> Array:
    """(layer norm of the sum, the sum) of `input` and `residual`, in float32."""
    forward = kernel("fused_activations", "add_layer_norm_forward", input)
    out, total, mean, rstd = forward(input, residual, weight, bias, rank, eps)
    return (out, total), total, mean, rstd


@summed_normalized.fast_backward
def summed_normalized_fast_backward(g: Any, saved: Any, rank: Any, eps: Any) -> Gradients:
    backward = kernel("fused_activations", "add_layer_norm_backward", g[0])
    gx, gw, gb = backward(g[0], g[1], saved.sums, saved.mean, saved.rstd, saved.weight, rank)
    return gx, gx, gw, gb


@summed_normalized.decomposition
def summed_normalized_decomposition(
    input: Any, residual: Any, weight: Any, bias: Any, rank: int, eps: float
) -> tuple[Array, Array]:
    total = input + residual
    return layer_norm(total, tuple(total.shape[len(total.shape) - rank :]), weight, bias, eps), total


@composed(covers="add_layer_norm")
def add_layer_norm(
    input: Any, residual: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Array, ...]:
    """(`layer_norm(input + residual)`, `input + residual`) in one pass: what stands between the parts of a transformer layer.

    Args:
        input, residual: of one shape.
        normalized_shape, weight, bias, eps: as in `layer_norm`.
    Returns:
        Two tensors of the shape of `input`.
    Raises:
        ShapeError: `residual` has another shape, or `input` does not end in `normalized_shape`.

    >>> dynograd.nn.functional.add_layer_norm(tensor([[1.0, 2.0]]), tensor([[0.0, 1.0]]), (2,))[1]
    tensor([[1., 3.]])
    """
    who = "add_layer_norm"
    if tuple(input.shape) != tuple(residual.shape):
        raise ShapeError(
            f"{who}: expected input and residual of one shape, got {tuple(input.shape)} and {tuple(residual.shape)}. Expand one of "
            f"them, or use layer_norm(input + residual)."
        )
    rank = check_normalized(who, input, normalized_shape, weight, bias)
    arrays = [getattr(operand, "array", operand) for operand in (input, residual, weight, bias) if operand is not None]
    if kernel("fused_activations", "in_one_pass", arrays[0])(*arrays):
        return tuple(summed_normalized(input, residual, weight, bias, rank, eps))
    return summed_normalized_decomposition(input, residual, weight, bias, rank, eps)
