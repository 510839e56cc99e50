"""Losses of classes, and random numbers."""

from __future__ import annotations

from typing import Any

from dynograd.base.random_streams import Generator
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Results, dtype_of, dynograd
from dynograd.tensor.tensor import Tensor


@operator("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    target = target.to(dynograd.int64)
    kept = dynograd.ones_like(target, dtype=x.dtype)
    if ignore_index is not None:
        kept = (target != ignore_index).to(x.dtype)
        target = dynograd.where(target == ignore_index, dynograd.zeros_like(target), target)
    if weight is not None:
        kept = kept * weight[target]
    loss = -dynograd.gather(x, 1, target.unsqueeze(1)).squeeze(1) * kept
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / kept.sum()


@operator("SoftmaxCrossEntropyLoss", outputs=0)
def softmax_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean", n_outputs: int = 1,
) -> Results:  # fmt: skip
    logarithms = dynograd.log_softmax(x, 1)
    loss = nll_loss(logarithms, target, weight, ignore_index=ignore_index, reduction=reduction)
    return loss if n_outputs == 1 else (loss, logarithms)


def _seeded(seed: float | None) -> Generator | None:
    if seed is None:
        return None
    return dynograd.Generator().manual_seed(int(seed))


@operator("RandomNormal")
def random_normal(
    *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return (dynograd.randn(shape, generator=_seeded(seed)) * scale + mean).to(dtype_of(dtype))


@operator("RandomUniform")
def random_uniform(
    *, shape: Any, dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    return (dynograd.rand(shape, generator=_seeded(seed)) * (high - low) + low).to(dtype_of(dtype))


@operator("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    y = dynograd.randn(x.shape, generator=_seeded(seed)) * scale + mean
    return y.to(x.dtype if dtype is None else dtype_of(dtype))


@operator("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    y = dynograd.rand(x.shape, generator=_seeded(seed)) * (high - low) + low
    return y.to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    return dynograd.bernoulli(x, generator=_seeded(seed)).to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    chances = dynograd.softmax(x, -1)
    return dynograd.multinomial(chances, sample_size, True, generator=_seeded(seed)).to(dtype_of(dtype))
