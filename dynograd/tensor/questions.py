"""What programs ask of tensors and dtypes: whether two share a shape or memory, what their sum would be, in which order dims lie."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.base import dtypes, memory_formats
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
        ambiguity_check: refuse tensors for which several orders are right; or a list of the memory formats that count: then those
            whose order is none of these formats', or that of several.
    Returns:
        A tuple of ints.
    Raises:
        RuntimeError: the order is ambiguous, and that was to be checked.

    >>> dynograd.zeros(2, 3, 4).transpose(0, 1).dim_order()
    (1, 0, 2)
    """
    shape, steps = self.array.shape, arrays.strides_in_elements(self.array)
    order = tuple(sorted(range(len(steps)), key=lambda dim: -steps[dim]))
    if ambiguity_check is False:
        return order
    if ambiguity_check is not True and not (
        isinstance(ambiguity_check, (list, tuple))
        and all([isinstance(format, memory_formats.memory_format) for format in ambiguity_check])
    ):
        raise TypeError(
            f"dim_order: ambiguity_check must be a bool or a list of memory formats, got {ambiguity_check!r}. Give True or "
            f"[dynograd.contiguous_format, dynograd.channels_last]."
        )
    if ambiguity_check is True:
        is_clear = len({steps[dim] for dim in order}) == len(order) and 1 not in shape
    else:
        is_clear = (
            sum(
                [
                    self.is_contiguous(memory_format=format)
                    for format in ambiguity_check
                    if getattr(format, "rank", 0) in (0, len(shape))
                ]
            )
            == 1
        )
    if not is_clear:
        raise RuntimeError(
            f"dim_order: the tensor of shape {tuple(shape)} with strides {steps} does not have a unique order of its dims, or it is not that of "
            f"exactly one of the memory formats (ambiguity_check={ambiguity_check}). Leave ambiguity_check out to get one of them."
        )
    return order


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


def _reversed(self: Tensor) -> Tensor:
    """`reversed(x)`: the first dim in reverse order."""
    return self.flip(0) if self.array.ndim else self


def install_questions() -> None:
    """Puts these methods on Tensor."""
    for method in (is_nonzero, is_same_size, is_set_to, dim_order, as_subclass, is_distributed):
        setattr(Tensor, method.__name__, method)
    for name in ("is_ipu", "is_maia", "is_mkldnn", "is_mtia", "is_vulkan", "is_xla", "is_xpu"):
        setattr(Tensor, name, property(lambda self: False, doc="False: no tensor here is of that kind."))
    Tensor.__reversed__ = _reversed  # type: ignore[assignment, method-assign]
