"""A gradient for each example of a batch, left at the parameters by an ordinary `backward`: PyTorch's `torch.nn.utils._per_sample_grad`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynograd.nn.functional_call import functional_call
from dynograd.nn.module import Module
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.trees import flatten, map_tree, rebuild
from dynograd.transforms.vmap import vmap

__all__ = ["call_for_per_sample_grads"]


class _OneForEach(Function):
    """A parameter for each of `size` examples, one memory for all; what comes back is its `grad_sample`."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, size: int, factor: int) -> Tensor:
        ctx.parameter, ctx.factor = parameter, factor
        return parameter.detach().expand(size, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, None, None]:
        gradient, before = g * ctx.factor, getattr(ctx.parameter, "grad_sample", None)
        ctx.parameter.grad_sample = gradient if before is None else before + gradient
        return None, None, None


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """The module's call, after which `backward` writes one gradient per example into `grad_sample` of each parameter, and none into `grad`.

    Each example runs through the module as a batch of one, all of them at once by `vmap`: layers that mix examples (batch norm in training) see
    one at a time.

    Args:
        module: parameters that require gradients have `grad_sample` (examples, *shape) afterwards.
        batch_size: the number of examples; tensors of another size along the batch's dim are the same for all. None: that of all tensors.
        loss_reduction: "sum"; "mean" where the loss is a mean over the examples, whose factor 1 / examples is taken out again.
        batch_first: the batch is dim 0 of arguments and results, else dim 1.
    Returns:
        A function of the module's arguments.
    Raises:
        RuntimeError: another reduction, no module, no positive size, sizes that differ, or gradients of an earlier call are still there.

    >>> from dynograd.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> layer = dynograd.nn.Linear(2, 1)
    >>> call_for_per_sample_grads(layer)(tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    >>> layer.weight.grad_sample
    tensor([[[1., 2.]],
    <BLANKLINE>
            [[3., 4.]]])
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise RuntimeError(
            f"call_for_per_sample_grads: batch_size is None or a positive integer, got {batch_size!r}. None reads it off the arguments."
        )
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                f"call_for_per_sample_grads: {name} has a grad_sample already, to which this call would add. Set it to None first."
            )
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> object:
        leaves = flatten((args, kwargs))
        size = _size_of(leaves, dim) if batch_size is None else batch_size
        factor = size if loss_reduction == "mean" else 1
        weights = {
            name: _OneForEach.apply(parameter, size, factor)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        split = [isinstance(leaf, Tensor) and leaf.ndim > dim and leaf.shape[dim] == size for leaf in leaves]
        examples = [leaf for leaf, is_split in zip(leaves, split, strict=True) if is_split]

        def of_one(weights: dict[str, Any], *parts: Tensor) -> object:
            rest = iter(parts)
            values = [
                next(rest).unsqueeze(dim) if is_split else leaf for leaf, is_split in zip(leaves, split, strict=True)
            ]
            own_args, own_kwargs = rebuild((args, kwargs), values)
            return map_tree(functools.partial(_the_only, dim), functional_call(module, weights, own_args, own_kwargs))

        return vmap(of_one, (0, *[dim] * len(examples)), dim, "different")(weights, *examples)

    return call


def _size_of(leaves: list[Any], dim: int) -> int:
    sizes = sorted({leaf.shape[dim] for leaf in leaves if isinstance(leaf, Tensor)})
    if len(sizes) == 1:
        return sizes[0]
    which = f"batches of {sizes[0]} and {sizes[-1]}" if sizes else "no tensor"
    raise RuntimeError(
        f"call_for_per_sample_grads: expected arguments with one batch size, got {which}. Pass batch_size=; tensors of other sizes are then the "
        f"same for all examples."
    )


def _the_only(dim: int, result: object) -> Tensor:
    if not isinstance(result, Tensor) or result.ndim <= dim or result.shape[dim] != 1:
        shape = f"shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise RuntimeError(
            f"call_for_per_sample_grads: a batch of one example should give results of size 1 along dim {dim}, got {shape}. Compute the loss outside "
            f"the module."
        )
    return result.squeeze(dim)
