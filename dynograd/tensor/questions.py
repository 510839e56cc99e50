"""What programs ask of tensors and dtypes: whether two share a shape or memory, what their sum would be, in which order dims lie."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.base import dtypes
from dynograd.errors import ShapeError
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "get_device",
    "is_distributed",
    "is_inference",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "result_type",
    "typename",
]


def result_type(*operands: Any, **named: Any) -> dtypes.dtype:
    """The dtype of what an arithmetic op makes of two tensors or numbers; by name they are PyTorch's `tensor`, `other`, `scalar`, ...

    Args:
        operands: two tensors or numbers.
        named: the same, by PyTorch's names.
    Returns:
        A dtype.
    Raises:
        TypeError: not two operands.

    >>> dynograd.result_type(tensor([1, 2]), 1.5), dynograd.result_type(tensor([1.0]), tensor(2, dtype=dynograd.float64))
    (dynograd.float32, dynograd.float32)
    """
    arguments = (*operands, *named.values())
    if len(arguments) != 2 or named.keys() - {"tensor", "tensor1", "tensor2", "other", "scalar", "scalar1", "scalar2"}:
        raise TypeError(
            f"result_type() takes two tensors or numbers (tensor, other), got {len(operands)} by place and {sorted(named)} by name."
        )
    return dtypes.result_dtype(*[getattr(operand, "array", operand) for operand in arguments])


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape.

    Args:
        input, other: tensors.
    Returns:
        A bool.

    >>> dynograd.is_same_size(dynograd.zeros(2, 1), dynograd.zeros(2))
    False
    """
    return input.array.shape == other.array.shape


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of `input` is true.

    Args:
        input: tensor of one element.
    Returns:
        A bool.
    Raises:
        ShapeError: `input` has several elements, or none.

    >>> dynograd.is_nonzero(tensor([0.5]))
    True
    """
    if input.array.size != 1:
        raise ShapeError(
            f"is_nonzero: expected a tensor of one element, got shape {tuple(input.array.shape)}. Use any() or all() on more."
        )
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Whether the dtype of `input` has negative numbers.

    Args:
        input: tensor.
    Returns:
        A bool.

    >>> dynograd.is_signed(tensor([1])), dynograd.is_signed(tensor([True]))
    (True, False)
    """
    return input.dtype.is_signed


def is_inference(input: Tensor) -> bool:
    """False; see `Tensor.is_inference`.

    Args:
        input: tensor.
    Returns:
        False.

    >>> dynograd.is_inference(tensor([1.0]))
    False
    """
    return input.is_inference()


def is_distributed(input: Tensor) -> bool:
    """Whether `input` is spread over processes: never.

    Args:
        input: tensor.
    Returns:
        False.

    >>> dynograd.is_distributed(tensor([1.0]))
    False
    """
    return False


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same elements of one memory, in one order.

    Args:
        tensor: another tensor.
    Returns:
        A bool.

    >>> x = tensor([1.0, 2.0])
    >>> x.is_set_to(x.view(2)), x.is_set_to(x.clone())
    (True, False)
    """
    first, second = self.array, tensor.array
    if first.shape != second.shape or first.strides != second.strides or first.dtype != second.dtype:
        return False
    return arrays.base_of(first) is arrays.base_of(second) and arrays.address_of(first) == arrays.address_of(second)


def get_device(input: Tensor) -> int:
    """The index of the GPU that holds `input`, or -1.

    Args:
        input: tensor.
    Returns:
        An int.

    >>> dynograd.get_device(tensor([1.0]))
    -1
    """
    return input.get_device()


def typename(obj: Any) -> str:
    """The name of a tensor's old type, or of an object's class with its module.

    Args:
        obj: anything.
    Returns:
        A string.

    >>> dynograd.typename(dynograd.zeros(1).long())
    'dynograd.LongTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return module + kind.__qualname__


def dim_order(self: Tensor, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
    """The dims from the one with the widest steps through memory to the one with the shortest.

    Args:
        ambiguity_check: refuse tensors for which several orders are right; or a list of the memory formats that count.
    Returns:
        A tuple of ints.

    >>> dynograd.zeros(2, 3, 4).transpose(0, 1).dim_order()
    (1, 0, 2)
    """
    steps = arrays.strides_in_elements(self.array)
    return tuple(sorted(range(len(steps)), key=lambda dim: -steps[dim]))


def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The same memory and history as an instance of a subclass of Tensor.

    >>> class Named(dynograd.Tensor):
    ...     pass
    >>> type(tensor([1.0]).as_subclass(Named)).__name__
    'Named'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            f"as_subclass: expected a subclass of Tensor, got {cls!r}. Derive it: class Mine(dynograd.Tensor)."
        )
    result = object.__new__(cls)
    seen: Any = self.view_as(self) if self.requires_grad else wrap(self.array)
    result.array, result.node, result._requires_grad, result._grad = seen.array, seen.node, seen._requires_grad, None
    result._meta = seen._meta
    return result


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Writes `callable(a, b, c)` of each three elements of this tensor, `x` and `y` (slow: Python for each element).

    Args:
        x, y (*): tensors, broadcast to this one.
        callable: function of three numbers that returns one.
    Returns:
        The tensor itself.

    >>> tensor([1.0]).map2_(tensor([2.0]), tensor([3.0]), lambda a, b, c: a + b * c)
    tensor([7.])
    """
    same: list[Any] = [self, x.expand_as(self), y.expand_as(self)]
    numbers = [array.reshape(-1).tolist() for array in same]
    numbers_out = [callable(a, b, c) for a, b, c in zip(*numbers)]
    values = wrap(arrays.to_device(arrays.from_python(numbers_out, self.dtype), arrays.place_of(self.array)))
    return self.copy_(values.reshape(self.shape))


def _reversed(self: Tensor) -> Tensor:
    """`reversed(x)`: the first dim in reverse order."""
    return self.flip(0) if self.array.ndim else self


def install_questions() -> None:
    """Puts these methods on Tensor."""
    for method in (is_nonzero, is_same_size, is_set_to, dim_order, as_subclass, map2_, is_distributed):
        setattr(Tensor, method.__name__, method)
    for name in ("is_ipu", "is_maia", "is_mkldnn", "is_mtia", "is_vulkan", "is_xla", "is_xpu"):
        setattr(Tensor, name, property(lambda self: False, doc="False: no tensor here is of that kind."))
    Tensor.__reversed__ = _reversed  # type: ignore[assignment, method-assign]
