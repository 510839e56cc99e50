"""A linear layer and its cross-entropy as one module, for many classes."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn.checks import check_sizes
from dynograd.nn.layers.linear import Linear
from dynograd.nn.layers.loss import _WeightedLoss
from dynograd.ops.loss.linear_losses import LinearCrossEntropyOptions
from dynograd.tensor.tensor import Tensor

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of the scores of `linear`, which are never held for all rows at once; see `F.linear_cross_entropy`.

    Args:
        in_features: the last size of the input.
        num_classes: C.
        out_features: dims of a loss at several places: targets are (N, *out_features).
        bias: `linear` has one.
        device, dtype: of the parameters.
        reduction: "mean", "sum" or "none".
        weight (C,): a factor for each class.
        ignore_index: targets of this number do not count; None is -100.
        label_smoothing: share of the target's probability that is spread evenly over the classes, from 0 to 1.
        options: the size of chunks.
    Shape: input (N, in_features), target (N, *out_features); gives () for "mean" and "sum", the target's shape for "none".
    Raises:
        ShapeError: `weight` of another size.
        RuntimeError: label_smoothing outside [0, 1].

    >>> loss = dynograd.nn.LinearCrossEntropyLoss(8, 1000)
    >>> loss(dynograd.zeros(4, 8), tensor([0, 1, 2, 999])).detach()
    tensor(6.9078)
    """

    options: Any  # those of its function, not names of fields as in other losses

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(
                f"LinearCrossEntropyLoss: expected weight shape to be ({num_classes},), got {tuple(weight.shape)}."
            )
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(
                f"LinearCrossEntropyLoss: expected label_smoothing to be in range [0, 1], got {label_smoothing}."
            )
        super().__init__(weight, reduction=reduction)
        check_sizes("LinearCrossEntropyLoss", in_features=in_features, num_classes=num_classes)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, num_classes * prod(out_features), bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, linear = (self.num_classes, *self.out_features), self.linear
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape(*shape, linear.in_features) if self.out_features else linear.weight,
            target,
            linear_bias=linear.bias.reshape(*shape) if linear.bias is not None and self.out_features else linear.bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
