"""`torch.nn.grad`: gradients of convolutions with respect to their input and weight, as functions."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import enable_grad
from dynograd.interpreter.differentiation import grad
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _functions_for(rank: int) -> tuple[Any, Any]:
    name = f"conv{rank}d"
    convolve = public_functions()[name]

    def of_input(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        x = weight.new_zeros(input_size)
        return _gradient(convolve, x, weight, 0, grad_output, stride, padding, dilation, groups)

    def of_weight(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        weight = input.new_zeros(weight_size)
        return _gradient(convolve, input, weight, 1, grad_output, stride, padding, dilation, groups)

    of_input.__name__ = of_input.__qualname__ = f"{name}_input"
    dims = ", ".join(("D", "H", "W")[3 - rank :]) if rank > 1 else "L"
    sizes, kernel, out = ", 5" * rank, ", 3" * rank, ", 3" * rank
    options = """    stride, padding, dilation, groups: those of the convolution.
    Returns:"""
    of_input.__doc__ = f"""The gradient of `{name}` with respect to its input.

    Args:
        input_size: the input's shape, (N, C, {dims}).
        weight (out, C / groups, *): that of the convolution.
        grad_output (N, out, *): the gradient of the result.
    {options}
        of shape `input_size`; it can be differentiated again.
    Raises:
        ShapeError: shapes that do not fit each other.
        GradientError: `grad_output` has another shape than the result.

    >>> from dynograd.nn.grad import {name}_input
    >>> g = {name}_input((1, 2{sizes}), dynograd.ones(4, 2{kernel}), dynograd.ones(1, 4{out}))
    >>> g.shape
    dynograd.Size([1, 2{sizes}])
    """
    of_weight.__name__ = of_weight.__qualname__ = f"{name}_weight"
    of_weight.__doc__ = f"""The gradient of `{name}` with respect to its weight.

    Args:
        input (N, C, {dims}): that of the convolution.
        weight_size: the weight's shape, (out, C / groups, *).
        grad_output (N, out, *): the gradient of the result.
    {options}
        of shape `weight_size`; it can be differentiated again.
    Raises:
        ShapeError: shapes that do not fit each other.
        GradientError: `grad_output` has another shape than the result.

    >>> from dynograd.nn.grad import {name}_weight
    >>> g = {name}_weight(dynograd.ones(1, 2{sizes}), (4, 2{kernel}), dynograd.ones(1, 4{out}))
    >>> g.shape
    dynograd.Size([4, 2{kernel}])
    """
    return of_input, of_weight


def _gradient(convolve: Any, x: Tensor, weight: Tensor, place: int, grad_output: Tensor, *options: Any) -> Tensor:
    """The gradient is linear in `grad_output` and the other operand, so it carries their history."""
    stride, padding, dilation, groups = options
    operands = [x, weight]
    operands[place] = operands[place].requires_grad_()
    with enable_grad():
        result = convolve(*operands, None, stride, padding, dilation, groups)
    differentiable = any([operand.requires_grad for operand in (operands[1 - place], grad_output)])
    return grad(result, operands[place], grad_output, create_graph=differentiable)[0]


conv1d_input, conv1d_weight = _functions_for(1)
conv2d_input, conv2d_weight = _functions_for(2)
conv3d_input, conv3d_weight = _functions_for(3)
