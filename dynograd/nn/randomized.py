"""Functions of `nn.functional` that draw: `rrelu`, and max pooling over windows at random places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from dynograd.base.hints import Sizes
from dynograd.base.random_streams import Generator
from dynograd.base.signatures import without_private
from dynograd.errors import ShapeError
from dynograd.ops.conv.spatial_sizes import per_dim
from dynograd.ops.elementwise.activations import leaky_relu
from dynograd.ops.image.poolings import picked
from dynograd.ragged import is_ragged
from dynograd.tensor.creation import arange
from dynograd.tensor.randomness import rand
from dynograd.tensor.tensor import Tensor

__all__ = ["fractional_max_pool2d", "fractional_max_pool3d", "rrelu", "rrelu_"]


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """`input` where positive, else `input` times a slope that is drawn from [lower, upper] for each element.

    Args:
        input: of any shape.
        lower, upper: between which slopes are drawn.
        training: False takes the mean of the bounds instead.
        inplace: overwrite `input`.
        generator: where numbers come from; the global one when left out.
    Returns:
        of the shape of `input`.
    Raises:
        RuntimeError: `lower` is above `upper`.
    Source: Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015 (arXiv:1505.00853).

    >>> dynograd.nn.functional.rrelu(tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, got lower={lower} and upper={upper}."
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = _uniform(input, tuple(input.shape), lower, upper, generator)
    out = input.where(input >= 0, input * slopes)
    return input.copy_(out) if inplace else out


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """`rrelu`, written into `input`.

    Args:
        input: of any shape.
        lower, upper: between which slopes are drawn.
        training: False takes the mean of the bounds instead.
        generator: where numbers come from; the global one when left out.
    Returns:
        `input`.
    Raises:
        RuntimeError: `lower` is above `upper`.

    >>> x = tensor([-1.0, 2.0])
    >>> dynograd.nn.functional.rrelu_(x, 0.1, 0.3) is x, x
    (True, tensor([-0.2000,  2.0000]))
    """
    return rrelu(input, lower, upper, training, True, generator)


@without_private
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The largest value of each of `output_size` windows over images, at random places that cover the image.

    Args:
        input (N, C, H, W) or (C, H, W): the images.
        kernel_size: sizes of the windows, or one for both.
        output_size: how many windows in each dim, or one number for both.
        output_ratio: or their share of the sizes of `input`, between 0 and 1.
        return_indices: also give the places of the largest values among H * W.
        _random_samples (N, C, 2): the numbers of [0, 1) that choose the windows of W and of H; drawn when left out.
    Returns:
        (N, C, *output_size) or (C, *output_size); with `return_indices` a pair of them, values and int64 places.
    Raises:
        ValueError: neither or an impossible one of `output_size` and `output_ratio`.
        ShapeError: windows that do not fit, or numbers of another shape.
    Source: Graham, Fractional max-pooling, 2014 (arXiv:1412.6071).

    >>> x = dynograd.arange(36.0).reshape(1, 6, 6)
    >>> dynograd.nn.functional.fractional_max_pool2d(x, 2, 3).shape
    dynograd.Size([1, 3, 3])
    """
    if is_ragged(input):
        return _of_ragged(fractional_max_pool2d, dict(locals()))
    pooled = _pooled("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


@without_private
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """`fractional_max_pool2d` of volumes.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): the volumes.
        kernel_size: sizes of the windows, or one for all.
        output_size: how many windows in each dim, or one number for all.
        output_ratio: or their share of the sizes of `input`, between 0 and 1.
        return_indices: also give the places of the largest values among D * H * W.
        _random_samples (N, C, 3): the numbers of [0, 1) that choose the windows of D, H and W; drawn when left out.
    Returns:
        (N, C, *output_size) or (C, *output_size); with `return_indices` a pair of them, values and int64 places.
    Raises:
        ValueError: neither or an impossible one of `output_size` and `output_ratio`.
        ShapeError: windows that do not fit, or numbers of another shape.
    Source: Graham, Fractional max-pooling, 2014 (arXiv:1412.6071).

    >>> x = dynograd.arange(216.0).reshape(1, 6, 6, 6)
    >>> dynograd.nn.functional.fractional_max_pool3d(x, 2, 3).shape
    dynograd.Size([1, 3, 3, 3])
    """
    if is_ragged(input):
        return _of_ragged(fractional_max_pool3d, dict(locals()))
    pooled = _pooled("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


def _of_ragged(function: Any, arguments: dict[str, Any]) -> Any:
    """Images of one size together; `_random_samples` has numbers for each of them."""
    samples, shape = arguments["_random_samples"], tuple(arguments["input"].shape)
    if samples is not None and tuple(samples.shape[:1]) != shape[:1]:
        raise ShapeError(
            f"{function.__name__}: Expect _random_samples of {shape[0]} rows, got {tuple(samples.shape)} for input of shape {shape}."
        )
    from dynograd.ragged.families.groups import grouped_function

    return grouped_function(function, arguments, of_rows=("_random_samples",))


def _pooled(
    who: str, rank: int, input: Any, kernel_size: Any, output_size: Any, ratio: Any, samples: Any
) -> tuple[Tensor, Tensor]:
    shape = tuple(input.shape)
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(f"{who}: Expected {rank + 1}D or {rank + 2}D tensor, but got input of shape {shape}.")
    own = shape[-rank:]
    taps = per_dim(who, "kernel_size", kernel_size, rank, 1)
    sizes = _sizes(who, own, output_size, ratio)
    for size, tap, count in zip(own, taps, sizes, strict=True):
        if tap + count - 1 > size:
            raise ShapeError(
                f"{who}: pool size {tap} too large relative to input size {size}: {count} windows at different places need "
                f"{tap + count - 1}. Ask for fewer or smaller windows."
            )
    lead = (1, *shape)[-rank - 2 : -rank]
    if samples is None:
        samples = _uniform(input, (*lead, rank), 0.0, 1.0, None)
    elif input.dim() == rank + 1 and tuple(samples.shape[1:]) == (*lead[1:], rank):
        samples = samples[:1]  # one image without a batch dim; PyTorch reads the first row
    elif tuple(samples.shape) != (*lead, rank):
        raise ShapeError(
            f"{who}: Expect _random_samples of shape {(*lead, rank)}; got {tuple(samples.shape)} for input of shape {shape}."
        )
    places = None  # of all elements of all windows among the last dims: (N, C, *windows, *taps)
    for dim, (size, tap, count) in enumerate(zip(own, taps, sizes, strict=True)):
        chosen = samples[..., dim if rank == 3 else 1 - dim]
        steps = _starts(chosen, size, tap, count).unsqueeze(-1) + arange(tap, device=input.device)
        stretched = [1] * (2 * rank)
        stretched[dim], stretched[rank + dim] = count, tap
        steps = steps.reshape(*lead, *stretched)
        places = steps if places is None else places * size + steps
    flat = places.reshape(*shape[:-rank], *sizes, prod(taps))  # type: ignore[union-attr]
    windows = picked(input.detach(), flat.flatten(-rank - 1), rank).reshape(flat.shape)
    indices = flat.gather(-1, windows.argmax(-1, keepdim=True)).squeeze(-1)
    return picked(input, indices, rank), indices


def _sizes(who: str, own: tuple[int, ...], output_size: Any, ratio: Any) -> tuple[int, ...]:
    if output_size is None and ratio is None:
        raise ValueError(f"{who}: requires specifying either an output_size or an output_ratio.")
    if output_size is not None:
        return per_dim(who, "output_size", output_size, len(own), 1)
    ratios = tuple(ratio) if isinstance(ratio, (tuple, list)) else (ratio,) * len(own)
    if len(ratios) != len(own):
        raise ValueError(f"{who}: requires output_ratio to be one number or {len(own)}, got {len(ratios)}: {ratios}.")
    return tuple([int(size * fraction) for size, fraction in zip(own, ratios, strict=True)])


def _starts(samples: Any, size: int, tap: int, count: int) -> Tensor:
    """Where each window of a dim begins: steps of (size - tap) / (count - 1) on average, the last one at the end. (N, C, count)."""
    if count == 1:
        return (samples.unsqueeze(-1) * 0).long() + (size - tap)
    pace = (size - tap) / (count - 1)
    numbers = arange(count, device=samples.device)
    first = samples.unsqueeze(-1)
    starts = ((first + numbers) * pace).long() - (first * pace).long()
    return starts.where(numbers < count - 1, numbers * 0 + (size - tap))


def _uniform(like: Any, shape: tuple[int, ...], low: float, high: float, generator: Any) -> Tensor:
    samples = rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    return samples if (low, high) == (0.0, 1.0) else samples * (high - low) + low
