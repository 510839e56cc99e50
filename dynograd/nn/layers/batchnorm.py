"""Normalization with running statistics: over the batch, or per example and channel."""

from __future__ import annotations

from typing import Any

from dynograd.base.dtypes import int64
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.distributed import groups
from dynograd.distributed.differentiable import all_gather
from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_number, check_positive, check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.ops.layout.joins import cat, stack
from dynograd.tensor.creation import ones, tensor, zeros
from dynograd.tensor.tensor import Tensor

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """What batch and instance norm share: scale and shift, running statistics, the check of the input's rank."""

    ranks: tuple[int, ...] = ()
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_sizes(who, num_features=num_features)
        check_number(who, "eps", eps)
        if momentum is not None:
            check_number(who, "momentum", momentum)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_features, **options)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, **options)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **options) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **options) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None)

    def reset_running_stats(self) -> None:
        """Sets the running mean to 0, the running variance to 1 and the number of batches to 0.

        >>> layer = dynograd.nn.BatchNorm1d(2)
        >>> _ = layer(dynograd.ones(3, 2))
        >>> layer.reset_running_stats()
        >>> layer.running_mean, layer.num_batches_tracked
        (tensor([0., 0.]), tensor(0))
        """
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets scale to 1, shift to 0, and the running statistics to their start.

        >>> layer = dynograd.nn.BatchNorm1d(2)
        >>> layer.reset_parameters()
        >>> layer.weight.detach(), layer.bias.detach()
        (tensor([1., 1.]), tensor([0., 0.]))
        """
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked  # files from before it was counted
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in self.ranks:
            ranks = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ShapeError(
                f"{type(self).__name__}: expected {ranks} input (got {input.dim()}D input of shape {tuple(input.shape)}). "
                f"Reshape it, or use the layer of another rank."
            )

    def _check_channels(self, input: Any, dim: int) -> None:
        if input.shape[dim] != self.num_features and (self.affine or self.track_running_stats):
            raise ShapeError(
                f"{type(self).__name__}: expected input's size at dim={dim} to match num_features ({self.num_features}), but got "
                f"{input.shape[dim]} (shape {tuple(input.shape)}). Channels come first; build "
                f"{type(self).__name__}({input.shape[dim]})."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    """Batch normalization; subclasses say which ranks they take.

    In training the batch's mean and variance are used, and running ones follow them; evaluation uses the running ones.
    `momentum=None` averages over all batches instead.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_channels(input, 1)
        if not self.eps > 0:
            check_positive(type(self).__name__, eps=self.eps)
        training, tracked = self.training, self.track_running_stats
        mean = self.running_mean
        factor = 0.0 if self.momentum is None else self.momentum
        if training and tracked and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        used = not training or tracked
        return F.batch_norm(
            input,
            mean if used else None,
            self.running_var if used else None,
            self.weight,
            self.bias,
            training or mean is None,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalizes each channel over the batch and positions to mean 0 and variance 1, then scales and shifts.

    In training the batch's mean and (biased) variance are used, and `running_mean` and `running_var` follow them;
    evaluation uses these.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics; without, evaluation uses the batch's too.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C) or (N, C, L); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
        ValueError: eps is not above 0.
    Source: Ioffe and Szegedy, Batch normalization, 2015 (arXiv:1502.03167).

    >>> dynograd.nn.BatchNorm1d(1)(tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalizes each channel over the batch and positions to mean 0 and variance 1, then scales and shifts.

    In training the batch's mean and (biased) variance are used, and `running_mean` and `running_var` follow them;
    evaluation uses these.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics; without, evaluation uses the batch's too.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, H, W); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
        ValueError: eps is not above 0.
    Source: Ioffe and Szegedy, Batch normalization, 2015 (arXiv:1502.03167).

    >>> dynograd.nn.BatchNorm2d(1)(tensor([[[[1.0, 3.0]]]])).detach()
    tensor([[[[-1.0000,  1.0000]]]])
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalizes each channel over the batch and positions to mean 0 and variance 1, then scales and shifts.

    In training the batch's mean and (biased) variance are used, and `running_mean` and `running_var` follow them;
    evaluation uses these.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics; without, evaluation uses the batch's too.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, D, H, W); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
        ValueError: eps is not above 0.
    Source: Ioffe and Szegedy, Batch normalization, 2015 (arXiv:1502.03167).

    >>> dynograd.nn.BatchNorm3d(1)(tensor([[[[[1.0, 3.0]]]]])).detach()
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all processes of a group: in training their batches count as one, of which sizes may differ.

    A program of one process, or without a group: plain batch norm.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics; without, evaluation uses the batch's too.
        process_group: the processes whose batches count as one; all when left out.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, *); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
    Source: Ioffe and Szegedy, Batch normalization, 2015 (arXiv:1502.03167).

    >>> dynograd.nn.SyncBatchNorm(1)(tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    ranks = tuple(range(2, 9))

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        batch_counts = self.training or self.running_mean is None
        if not batch_counts or not groups.is_initialized() or groups.get_world_size(self.process_group) < 2:
            return super().forward(input)
        self._check_input_dim(input)
        self._check_channels(input, 1)
        dims = [dim for dim in range(input.dim()) if dim != 1]
        shape = [1, -1, *[1] * (input.dim() - 2)]
        x = input.float() if input.dtype.itemsize < 4 else input
        channels = x.shape[1]
        own = x.numel() // max(channels, 1)
        mean = x.sum(dims) / max(own, 1)
        squares = (x - mean.reshape(shape)).square().sum(dims)
        everyone = stack(all_gather(cat([mean, squares, mean.new_tensor([float(own)])]), self.process_group))
        means, squares, counts = everyone.split([channels, channels, 1], 1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        variance = (squares + counts * (means - mean).square()).sum(0) / total
        if self.training and self.track_running_stats:
            self._follow(mean.detach(), variance.detach(), float(total))
        normed = (x - mean.reshape(shape)) * (variance + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            normed = normed * self.weight.reshape(shape)
        if self.bias is not None:
            normed = normed + self.bias.reshape(shape)
        return normed.to(input.dtype)

    def _follow(self, mean: Tensor, variance: Tensor, total: float) -> None:
        """Moves the running statistics towards those of the batch of all processes."""
        self.num_batches_tracked.add_(1)
        factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.mul_(1 - factor).add_(mean.to(self.running_mean.dtype), alpha=factor)
        unbiased = variance * (total / max(total - 1, 1))
        self.running_var.mul_(1 - factor).add_(unbiased.to(self.running_var.dtype), alpha=factor)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with each BatchNorm in it replaced by a SyncBatchNorm that shares its parameters and statistics.

        Args:
            module: a module; its submodules are replaced in place.
            process_group: the processes whose batches count as one; all when left out.
        Returns:
            `module`, or a SyncBatchNorm where it is a BatchNorm itself.

        >>> model = dynograd.nn.Sequential(dynograd.nn.BatchNorm1d(2))
        >>> type(dynograd.nn.SyncBatchNorm.convert_sync_batchnorm(model)[0]).__name__
        'SyncBatchNorm'
        """
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            tracked = module.track_running_stats
            converted = cls(module.num_features, module.eps, module.momentum, module.affine, tracked, process_group)
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _InstanceNorm(_NormBase):
    """Instance normalization; subclasses say which ranks they take: without and with a batch."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.dim() == self.ranks[0]
        self._check_channels(input, 0 if single else 1)
        out = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Normalizes each channel of each example over its positions to mean 0 and variance 1.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics: evaluation uses them then.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, L) or (C, L); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
    Source: Ulyanov et al., Instance normalization, 2016 (arXiv:1607.08022).

    >>> dynograd.nn.InstanceNorm1d(1)(tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each example over its positions to mean 0 and variance 1.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics: evaluation uses them then.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, H, W) or (C, H, W); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
    Source: Ulyanov et al., Instance normalization, 2016 (arXiv:1607.08022).

    >>> dynograd.nn.InstanceNorm2d(1)(tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalizes each channel of each example over its positions to mean 0 and variance 1.

    Args:
        num_features: C, the channels (dim 1).
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None averages over all batches.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        track_running_stats: keep running statistics: evaluation uses them then.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank or with other channels.
    Source: Ulyanov et al., Instance normalization, 2016 (arXiv:1607.08022).

    >>> dynograd.nn.InstanceNorm3d(1)(tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    ranks = (4, 5)
