"""Lazy modules: those that learn their input's size at the first forward, and are the plain class of their kind from then on."""

from __future__ import annotations

from typing import Any, ClassVar

from dynograd.autograd.modes import no_grad
from dynograd.base.dtypes import int64
from dynograd.base.hints import DeviceLike, DtypeLike, Sizes
from dynograd.errors import ShapeError
from dynograd.nn.layers import batchnorm, conv
from dynograd.nn.layers.linear import Linear
from dynograd.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from dynograd.tensor.creation import tensor
from dynograd.tensor.tensor import Tensor

__all__ = ["LazyLinear"]


class LazyModuleMixin:
    """Makes a module lazy: it holds uninitialised parameters, and `initialize_parameters(*inputs)` gives them shapes.

    That runs once, before the first forward; then the module's class becomes `cls_to_become`. Loading a state_dict
    gives the shapes too.

    Args: those of the other base class.

    >>> class Scale(dynograd.nn.modules.lazy.LazyModuleMixin, dynograd.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = dynograd.nn.UninitializedParameter()
    ...
    ...     def initialize_parameters(self, x):
    ...         self.factor.materialize(x.shape[-1:])
    ...         dynograd.nn.init.ones_(self.factor)
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(dynograd.ones(2, 3)).shape
    dynograd.Size([2, 3])
    """

    cls_to_become: ClassVar[Any] = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _initialize_hook: Any
    _load_hook: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)  # type: ignore[attr-defined]
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)  # type: ignore[attr-defined]

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialises the parameters for the inputs of the first forward; each lazy class writes its own.

        Args:
            args, kwargs: the arguments of that forward.
        Raises:
            NotImplementedError: the class has none.

        >>> layer = dynograd.nn.LazyLinear(2)
        >>> layer.initialize_parameters(dynograd.ones(4, 3))
        >>> layer.weight.shape
        dynograd.Size([2, 3])
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}.")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module has no shape yet.

        Returns:
            bool.

        >>> dynograd.nn.LazyLinear(2).has_uninitialized_params()
        True
        """
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        with no_grad():
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            left = [name for name, tensor in (*module._parameters.items(), *module._buffers.items()) if is_lazy(tensor)]
            raise RuntimeError(
                f"module {type(module).__name__} has not been fully initialized: initialize_parameters left {', '.join(left)} without a "
                f"shape. Call materialize(shape) on each there."
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, own in (*self._parameters.items(), *self._buffers.items()):
            value = state_dict.get(prefix + name)
            if is_lazy(own) and value is not None and not is_lazy(value):
                own.materialize(value.shape)

    def _await(self, group: str, names: list[str], device: Any, dtype: Any) -> None:
        """Registers the uninitialised ones; `names` that are left out stay None."""
        kind = UninitializedParameter if group == "_parameters" else UninitializedBuffer
        for name in names:
            getattr(self, group)[name] = kind(device=device, dtype=dtype)

    def _materialize(self, **shapes: tuple[int, ...]) -> None:
        for name, shape in shapes.items():
            tensor = getattr(self, name)
            if is_lazy(tensor):
                tensor.materialize(shape)
        self.reset_parameters()

    _size_name = ""
    """The field that is 0 until the size is known."""

    def reset_parameters(self) -> None:
        """Draws the plain class's initial values, once the size is known; before, it does nothing.

        >>> layer = dynograd.nn.LazyLinear(2)
        >>> layer.reset_parameters()
        >>> layer.weight
        <UninitializedParameter>
        """
        if not self.has_uninitialized_params() and getattr(self, self._size_name) != 0:
            super().reset_parameters()  # type: ignore[misc]


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes `in_features` from the last size of its first input.

    Until then its parameters have no shape: move it and convert it, but make the optimizer after the first call.

    Args:
        out_features: the last size of the output.
        bias: whether to add a bias.
        device, dtype: of the parameters.
    Shape: input (*, in_features); gives (*, out_features).

    >>> layer = dynograd.nn.LazyLinear(2)
    >>> layer(dynograd.ones(4, 3)).shape
    dynograd.Size([4, 2])
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear
    _size_name = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__(0, 0, False)
        self._await("_parameters", ["weight", "bias"] if bias else ["weight"], device, dtype)
        self.out_features = out_features

    def initialize_parameters(self, input: Tensor) -> None:
        """Gives weight and bias their shapes: (out_features, last size of the input) and (out_features,).

        Args:
            input (*, in_features): that of the first call.

        >>> layer = dynograd.nn.LazyLinear(2)
        >>> layer.initialize_parameters(dynograd.ones(4, 3))
        >>> layer.in_features
        3
        """
        if self.has_uninitialized_params():
            self.in_features = int(input.shape[-1])
            self._materialize(weight=(self.out_features, self.in_features), bias=(self.out_features,))
        self.in_features = self.in_features or int(self.weight.shape[-1])  # a state_dict gave the shapes


class _LazyConvNd(LazyModuleMixin):
    """What lazy convolutions and transposed ones share."""

    _size_name = "in_channels"
    rank: int
    transposed: bool
    groups: int
    out_channels: int
    kernel_size: tuple[int, ...]

    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        if out_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: out_channels must be divisible by groups, got {out_channels} and {self.groups}."
            )
        self._await("_parameters", ["weight", "bias"] if bias else ["weight"], device, dtype)
        self.out_channels = out_channels

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Gives weight and bias their shapes, with the channels of the input.

        Args:
            input (N, C, *): that of the first call, or (C, *).
            args, kwargs: further arguments of that call, which do not matter.
        Raises:
            ShapeError: an input of another rank.
            ValueError: channels that `groups` does not divide.

        >>> layer = dynograd.nn.LazyConv1d(2, 3)
        >>> layer.initialize_parameters(dynograd.ones(5, 4, 6))
        >>> layer.weight.shape
        dynograd.Size([2, 4, 3])
        """
        who = type(self).__name__
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D (batched) input to {who}, but got input of size: "
                f"{tuple(input.shape)}."
            )
        channels = int(input.shape[-1 - self.rank])
        if channels % self.groups:
            raise ValueError(f"{who}: in_channels must be divisible by groups, got {channels} and {self.groups}.")
        outer, inner = (channels, self.out_channels) if self.transposed else (self.out_channels, channels)
        if self.has_uninitialized_params():
            self.in_channels = channels
            self._materialize(weight=(outer, inner // self.groups, *self.kernel_size), bias=(self.out_channels,))
        self.in_channels = self.in_channels or channels  # a state_dict gave the shapes


class _LazyPlainConvNd(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class _LazyConvTransposeNd(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class _LazyNormBase(LazyModuleMixin):
    """What lazy batch and instance norms share."""

    _size_name = "num_features"
    ranks: tuple[int, ...]

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self._await("_parameters", ["weight", "bias"] if bias else ["weight"], device, dtype)
        if track_running_stats:
            self._await("_buffers", ["running_mean", "running_var"], device, dtype)
            self._buffers["num_batches_tracked"] = tensor(0, dtype=int64, device=device)

    def initialize_parameters(self, input: Tensor) -> None:
        """Gives scale, shift and running statistics their shapes, with the channels of the input.

        Args:
            input (N, C, *): that of the first call.
        Raises:
            ShapeError: an input of another rank.

        >>> layer = dynograd.nn.LazyBatchNorm1d()
        >>> layer.initialize_parameters(dynograd.ones(5, 4))
        >>> layer.running_mean.shape
        dynograd.Size([4])
        """
        self._check_input_dim(input)  # type: ignore[attr-defined]
        single = isinstance(self, batchnorm._InstanceNorm) and input.dim() == self.ranks[0]
        waiting = self.has_uninitialized_params()
        per_feature = self._parameters["weight"] if self.affine else self._buffers["running_mean"]
        loaded = per_feature is not None and not waiting
        self.num_features = int(per_feature.shape[0] if loaded else input.shape[0 if single else 1])
        if waiting:
            size = (self.num_features,)
            self._materialize(weight=size, bias=size, running_mean=size, running_var=size)


def _lazy(plain: Any, base: type, what: str) -> type:
    first = "(C, ...)" if base is not _LazyNormBase or "Instance" in plain.__name__ else None
    where = "dim 1" if first is None else f"dim 1 (dim 0 of {first} without a batch)"
    rank, arguments = plain.__name__[-2], "2, 3" if base is not _LazyNormBase else ""
    sizes = "5, 4" + ", 3" * int(rank)
    doc = f"""{"An" if plain.__name__[0] == "I" else "A"} `{plain.__name__}` that takes `{what}` from {where} of its first input.

    Until then its parameters have no shape: move it and convert it, but make the optimizer after the first call, as for each lazy
    module. From then on its class is `{plain.__name__}`.

    {_arguments(plain, what)}
    Shape: as for `{plain.__name__}`.
    Raises:
        ShapeError: in the first call: an input of another rank.

    >>> layer = dynograd.nn.Lazy{plain.__name__}({arguments})
    >>> output = layer(dynograd.ones({sizes}))
    >>> type(layer).__name__, layer.{what}
    ('{plain.__name__}', 4)
    """
    return type(
        f"Lazy{plain.__name__}", (base, plain), {"cls_to_become": plain, "__doc__": doc, "__module__": __name__}
    )


def _arguments(plain: Any, what: str) -> str:
    """The section of the plain class's docstring that explains the arguments, without the size that is learned."""
    lines = (plain.__doc__ or "").partition("    Args:\n")[2].partition("    Shape:")[0].rstrip().split("\n")
    lines = [line.replace("in_channels, ", "").replace("of input and output, each", "of the output,") for line in lines]
    return "\n".join(["Args:", *[line for line in lines if not line.lstrip().startswith(f"{what}:")]])


for _kind, _base, _what, _home in (
    ("Conv", _LazyPlainConvNd, "in_channels", conv),
    ("ConvTranspose", _LazyConvTransposeNd, "in_channels", conv),
    ("BatchNorm", _LazyNormBase, "num_features", batchnorm),
    ("InstanceNorm", _LazyNormBase, "num_features", batchnorm),
):
    for _rank in (1, 2, 3):
        _made = _lazy(getattr(_home, f"{_kind}{_rank}d"), _base, _what)
        globals()[_made.__name__] = _made
        __all__ += [_made.__name__]
