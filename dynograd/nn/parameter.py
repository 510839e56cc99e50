"""Parameter and Buffer: tensors that a Module registers when they are assigned to it; and those whose shape is not known yet.

`nn/layers/lazy.py` has the modules that hold the latter until their first forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from dynograd.base import devices, dtypes
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.shapes import Size
from dynograd.interpreter.override_protocol import disabled_torch_function
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

_MEMORY: Any = Tensor.__dict__["array"]


class Parameter(Tensor):
    """A tensor that belongs to a module: listed by `parameters()`, saved in `state_dict()`, and requiring grad.

    Args:
        data: its values, in shared memory; an empty tensor when left out.
        requires_grad: whether backward fills `grad`.
    Raises:
        TypeError: no tensor, or a ragged one.

    >>> dynograd.nn.Parameter(tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter: expected a Tensor, got {type(data).__name__}. Make one with dynograd.tensor(...)."
            )
        if getattr(type(data), "__dynograd_rows__", False):
            raise TypeError(
                f"Parameter: a parameter has one size, but this is a ragged tensor of shape {tuple(data.shape)}. Make one of its elements, "
                f"self.values = Parameter(x.values()), and RaggedTensor(self.values, lengths) in forward."
            )
        parameter = Tensor.__new__(cls, data)
        if requires_grad:
            parameter.requires_grad = True
        return parameter

    def __deepcopy__(self, memo: dict) -> Parameter:
        """The values in memory of their own, without `.grad` and attributes: a copied module starts without gradients. Parts stay parts."""
        if id(self) not in memo:
            from dynograd.distributed.splits import keep_splits

            parameter = memo[id(self)] = Tensor.__new__(type(self), self.detach().clone())
            parameter._requires_grad = self._requires_grad
            keep_splits(parameter, self)
        return memo[id(self)]

    def __repr__(self, **options: Any) -> str:
        return "Parameter containing:\n" + super().__repr__(**options)


class Buffer(Tensor):
    """A tensor that belongs to a module and is no parameter, such as a running mean.

    Args:
        data: its values, in shared memory; an empty tensor when left out.
        persistent: whether `state_dict()` holds it.

    >>> layer = dynograd.nn.Identity()
    >>> layer.mean = dynograd.nn.Buffer(dynograd.zeros(2))
    >>> list(layer.state_dict())
    ['mean']
    """

    __slots__ = ("persistent",)
    persistent: bool
    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        buffer = Tensor.__new__(cls, Tensor() if data is None else data)
        buffer.persistent = persistent
        return buffer


class UninitializedTensorMixin:
    """A tensor with a dtype and a device but no shape: it can be moved, converted and materialised, and nothing else.

    Raises:
        ValueError, RuntimeError: anything else is asked of it.

    >>> isinstance(dynograd.nn.UninitializedBuffer(), dynograd.nn.parameter.UninitializedTensorMixin)
    True
    """

    __slots__ = ()

    cls_to_become: ClassVar[Any]
    _requires_grad: bool

    @property
    def array(self) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized parameter: {type(self).__name__} has no values yet. Lazy modules get theirs at the first "
            f"forward: call the model with a dummy batch before, or call materialize(shape)."
        )

    @array.setter
    def array(self, value: Tensor) -> None:
        _MEMORY.__set__(self, value)

    @property
    def shape(self) -> Size:
        raise RuntimeError(
            f"Can't access the shape of an uninitialized parameter or buffer ({type(self).__name__}). Lazy modules learn theirs at the "
            f"first forward: call the model with a dummy batch before."
        )

    @property
    def data(self) -> Tensor:
        return wrap(_MEMORY.__get__(self))

    @data.setter
    def data(self, value: Tensor) -> None:
        self.take_memory(value)

    def take_memory(self, source: Tensor) -> None:
        """Takes over the dtype and device of another uninitialised one, as `Module.to` does.

        Args:
            source: another uninitialised parameter or buffer.

        >>> weight = dynograd.nn.UninitializedParameter()
        >>> weight.take_memory(dynograd.nn.UninitializedParameter(dtype=dynograd.float64))
        >>> weight.dtype
        dynograd.float64
        """
        self.array = source.data.array

    @property
    def dtype(self) -> dtypes.dtype:
        return self.data.dtype

    @property
    def device(self) -> devices.device:
        return self.data.device

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def get_device(self) -> int:
        """The number of the GPU it is for, -1 on the CPU.

        Returns:
            int.

        >>> dynograd.nn.UninitializedParameter().get_device()
        -1
        """
        return self.data.get_device()

    def materialize(self, shape: Any, device: DeviceLike = None, dtype: DtypeLike = None) -> None:
        """Becomes a plain parameter or buffer of `shape` in place, with any values.

        Args:
            shape: the sizes, or the size of the one dim.
            device, dtype: new ones; as they are when left out.

        >>> weight = dynograd.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape
        dynograd.Size([2, 3])
        """
        self.array = empty(
            shape, device=self.device if device is None else device, dtype=self.dtype if dtype is None else dtype
        ).array
        self.__class__ = self.cls_to_become

    def detach(self) -> Any:
        """The same object: there are no values whose history could be left behind.

        Returns:
            this one.

        >>> weight = dynograd.nn.UninitializedParameter()
        >>> weight.detach() is weight
        True
        """
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Another one with a dtype or on a device, as `Tensor.to`.

        Args:
            args, kwargs: those of `Tensor.to`.
        Returns:
            an uninitialised parameter or buffer.

        >>> dynograd.nn.UninitializedParameter().to(dynograd.float64).dtype
        dynograd.float64
        """
        return self._like(self.data.to(*args, **kwargs))

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Nothing to copy from another one without values; from a tensor it is an error.

        Args:
            source: another uninitialised parameter or buffer.
            non_blocking: accepted.
        Returns:
            this one.
        Raises:
            ValueError: `source` has values.

        >>> weight = dynograd.nn.UninitializedParameter()
        >>> weight.copy_(dynograd.nn.UninitializedParameter())
        <UninitializedParameter>
        """
        if not is_lazy(source):
            _ = self.array
        return self

    def share_memory_(self) -> Any:
        """An error: there is no memory yet.

        Raises:
            RuntimeError: always.

        >>> dynograd.nn.UninitializedParameter().share_memory_()
        Traceback (most recent call last):
            ...
        RuntimeError: Can't share memory on an uninitialized parameter or buffer (UninitializedParameter). Call the ...
        """
        raise RuntimeError(
            f"Can't share memory on an uninitialized parameter or buffer ({type(self).__name__}). Call the model with a dummy batch before."
        )

    def _like(self, data: Tensor) -> Any:
        kind: Any = type(self)
        tensor = kind(requires_grad=self._requires_grad, device=data.device, dtype=data.dtype)
        tensor.__dict__.update(self.__dict__)
        return tensor

    def __repr__(self, **options: Any) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._like(self.data)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        place = str(self.device) if self.is_cuda else None
        return _rebuild, (type(self), self._requires_grad, place, self.dtype)


def _converter(name: str) -> Callable[..., Any]:
    def convert(self: Any, *args: Any) -> Tensor:
        return self._like(getattr(self.data, name)(*args))

    convert.__name__ = name
    convert.__doc__ = f"As `Tensor.{name}`, without values."
    return convert


for _name in ("half", "float", "double", "bfloat16", "char", "short", "int", "long", "type", "cpu", "cuda"):
    setattr(UninitializedTensorMixin, _name, _converter(_name))


def _rebuild(kind: Any, requires_grad: bool, device: Any, dtype: Any) -> Any:
    return kind(requires_grad=requires_grad, device=device, dtype=dtype)


def _start(kind: Any, tensor: Any) -> Any:
    tensor.__class__ = kind
    return tensor


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet; `materialize(shape)` makes it a `Parameter`.

    Args:
        requires_grad: whether backward fills `grad`.
        device, dtype: those of the parameter it will be.

    >>> weight = dynograd.nn.UninitializedParameter()
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', dynograd.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: DeviceLike = None, dtype: DtypeLike = None) -> Self:
        return _start(cls, Parameter(empty(0, device=device, dtype=dtype), requires_grad))

    def __init__(self, requires_grad: bool = True, device: DeviceLike = None, dtype: DtypeLike = None) -> None:
        pass


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet; `materialize(shape)` makes it a `Buffer`.

    Args:
        requires_grad: whether backward fills `grad`.
        device, dtype: those of the buffer it will be.
        persistent: whether `state_dict()` holds it.

    >>> mean = dynograd.nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> type(mean).__name__, mean.shape
    ('Buffer', dynograd.Size([3]))
    """

    __slots__ = ()
    cls_to_become = Buffer
    persistent: bool

    def __new__(
        cls, requires_grad: bool = False, device: DeviceLike = None, dtype: DtypeLike = None, persistent: bool = True
    ) -> Self:
        buffer = Buffer(empty(0, device=device, dtype=dtype), persistent=persistent)
        if requires_grad:
            buffer.requires_grad = True
        return _start(cls, buffer)

    def __init__(
        self, requires_grad: bool = False, device: DeviceLike = None, dtype: DtypeLike = None, persistent: bool = True
    ) -> None:
        pass

    def _like(self, data: Tensor) -> Any:
        buffer = super()._like(data)
        buffer.persistent = self.persistent
        return buffer


def is_lazy(param: Any) -> bool:
    """Whether `param` is an `UninitializedParameter` or `UninitializedBuffer`.

    Args:
        param: anything.
    Returns:
        bool.

    >>> dynograd.nn.parameter.is_lazy(dynograd.nn.LazyLinear(2).weight)
    True
    """
    return isinstance(param, UninitializedTensorMixin)
