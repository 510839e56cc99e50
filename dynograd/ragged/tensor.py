"""RaggedTensor: rows of different lengths without padding.

`packed` holds the elements of all rows behind one another along one dim; `partition` says where each row begins. A ragged tensor of shape
(B, j, D) has packed elements (total, D). Dim d of the tensor is dim d - 1 of `packed`, and dim `place`, the ragged one, is the one along
which rows lie behind one another: `x.transpose(1, 2)` of shape (B, D, j) has packed elements (D, total) and place 2. With several
levels (documents of sentences of words, (B, j, j, D)) `packed` is ragged itself. Rows with several ragged dims (images of
different sizes) are flat behind one another, with `Shapes` as partition and place 0.

Gradients are those of the packed elements. What ops do with ragged tensors is told by the rules beside this file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from dynograd import arrays
from dynograd.base import layouts
from dynograd.base.hints import DeviceLike
from dynograd.base.shapes import Size, normalize_dim
from dynograd.errors import DeviceError, ShapeError
from dynograd.ops.op import registry
from dynograd.ragged.gradients import Differentiable
from dynograd.ragged.padding import mask_of, padded, padded_to
from dynograd.ragged.partitions import Partition, RaggedSize, Shapes, checked_lengths, checked_offsets
from dynograd.ragged.parts import part_of
from dynograd.ragged.shown import Example, refusal, shown_array, sizes_text, text_of
from dynograd.tensor import printing
from dynograd.tensor.tensor import Tensor

if TYPE_CHECKING:
    from dynograd.ragged.pictures import RowStatistics

__all__ = ["RaggedTensor", "from_values", "is_ragged", "make", "when_first"]


class RaggedTensor(Differentiable):
    """Rows of different lengths as one tensor: every op takes it, computes on the real elements only, and has gradients.

    Made from rows by `ragged_tensor([a, b, c])`, from packed elements by `RaggedTensor(values, lengths=...)` or `offsets=...`, from a padded
    batch by `ragged_from_padded(x, lengths)`.

    Args:
        values (total, *): the elements of all rows, one row behind the other; shared, not copied.
        lengths (B,): of each row; may be 0.
        offsets (B + 1,): instead of lengths, where each row begins, and where the last one ends.
        dim: which dim is ragged; `values` has it as dim - 1.

    >>> x = dynograd.RaggedTensor(tensor([1.0, 2.0, 3.0]), lengths=[2, 0, 1])
    >>> x.sum(1)
    tensor([3., 0., 3.])
    >>> x * 2
    ragged_tensor([
      [2., 4.],
      [],
      [6.]])
    """

    __slots__ = ()

    packed: Any
    if False:  # known to mypy and not to editors, as in `tensor/installed_methods.pyi`
        partition: Partition
        place: int

    def __new__(
        cls,
        values: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | Sequence[int] | None = None,
        *,
        dim: int = 1,
    ) -> Any:
        return from_values("RaggedTensor", values, lengths, offsets, dim)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    # --- what it shows ------------------------------------------------------------------------------------------------

    @property
    def array(self) -> Any:  # type: ignore[override]
        """What the tensor shows as its array: shape and dtype; the values are in `values`."""
        inner = self.packed.array
        if (
            type(inner) is arrays.CudaArray
        ):  # as many dims, on that device; a GPU's arrays have no type of their own to say more
            return inner[(None,) * (self.ndim - inner.ndim)]
        return shown_array(self, inner.dtype)

    @array.setter
    def array(self, value: Any) -> None:
        raise refusal("assigning .array")

    @property
    def _example_array(self) -> Any:
        """What one row shows as its array: to a `vmap` over the rows."""
        inner = self.innermost
        shown = shown_array(Example(self.shape[1:], self.ndim - 1), inner.array.dtype)
        shown.everything = inner.array  # for checks of values
        return shown

    @property
    def shape(self) -> Size:
        """The shape, with a name (`j1`) for the size of each ragged dim.

        >>> dynograd.ragged_tensor([[1, 2], [3]]).shape
        dynograd.Size([2, j1])
        """
        part = self.partition
        if isinstance(part, Shapes):
            sizes: list[Any] = [
                RaggedSize(part.sizes_of(dim), dim) if size is None else size for dim, size in enumerate(part.fixed, 1)
            ]
            return Size((part.count, *sizes))
        flat: list[Any] = list(self.packed.shape)
        flat[self.place - 1] = part
        named: list[Any] = [
            size if isinstance(size, int) else RaggedSize(getattr(size, "partition", size), dim)
            for dim, size in enumerate(flat, 1)
        ]
        return Size((part.count, *named))

    @property
    def ndim(self) -> int:
        """How many dims there are, the ragged ones among them."""
        part = self.partition
        return 1 + (len(part.fixed) if isinstance(part, Shapes) else self.packed.ndim)

    dtype = property(lambda self: self.packed.dtype, doc="The dtype of the elements.")  # type: ignore[assignment]
    device = property(lambda self: self.packed.device, doc="Where the elements lie.")  # type: ignore[assignment]
    itemsize = property(lambda self: self.packed.itemsize, doc="Bytes of an element.")  # type: ignore[assignment]
    nbytes = property(lambda self: self.packed.nbytes, doc="Bytes of all real elements.")  # type: ignore[assignment]
    is_nested = property(lambda self: True, doc="True: it is what PyTorch calls a nested tensor.")  # type: ignore[assignment]
    layout = property(lambda self: layouts.jagged, doc="`dynograd.jagged`.")  # type: ignore[assignment]
    _ragged_idx = property(lambda self: self.place)

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        dim = axis if dim is None else dim
        return self.shape if dim is None else self.shape[normalize_dim("size", dim, self.ndim)]

    def dim(self) -> int:
        """How many dims there are, the ragged ones among them.

        Returns:
            An int.
        """
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """How many real elements there are."""
        return self.packed.numel()

    nelement = numel

    def element_size(self) -> int:
        """Bytes of an element.

        Returns:
            An int.
        """
        return self.packed.element_size()

    def is_contiguous(self, memory_format: object = None) -> bool:
        return self.packed.is_contiguous()

    def stride(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        raise refusal("stride")

    def storage_offset(self) -> int:
        """Where the first element lies in the memory of `values`.

        Returns:
            An int.
        """
        return self.packed.storage_offset()

    def data_ptr(self) -> int:
        return self.packed.data_ptr()

    def is_pinned(self, device: DeviceLike = None) -> bool:
        return self.packed.is_pinned()

    # --- parts ----------------------------------------------------------------------------------------------------------

    @property
    def values(self) -> Any:
        """The elements of all rows, one row behind the other: `x.values`, or `x.values()` as in PyTorch."""
        return self.packed if isinstance(self.packed, RaggedTensor) else part_of(self.packed)

    @property
    def offsets(self) -> Any:
        """(B + 1,) int64: where each row begins, and where the last one ends; `x.offsets()` too. A copy: rows stay when it changes."""
        return part_of(self.partition.tensor("offsets", self.device).clone())

    @property
    def lengths(self) -> Any:
        """(B,) int64: the length of each row; `x.lengths()` too. A copy: rows stay when it changes."""
        return part_of(self.partition.tensor("lengths", self.device).clone())

    def with_packed(self, packed: Tensor, place: int | None = None) -> RaggedTensor:
        """Other elements in the same rows.

        Args:
            packed: as many elements, in other dims or another dtype.
            place: which dim is ragged; None is that of this tensor.
        Returns:
            A `RaggedTensor`.
        """
        return make(packed, self.partition, self.place if place is None else place)

    @property
    def innermost(self) -> Tensor:
        """The elements of all rows of all levels, as a plain tensor."""
        inner = self.packed
        return inner.innermost if isinstance(inner, RaggedTensor) else inner

    def rows_around(self) -> Callable[[Tensor], RaggedTensor]:
        """A function that puts other elements into the rows of all levels; it does not keep those of this tensor."""
        part, place, inner = self.partition, self.place, self.packed
        below = inner.rows_around() if isinstance(inner, RaggedTensor) else None
        return lambda elements: make(elements if below is None else below(elements), part, place)

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The rows, as views (`dim` 0), or the slices of another dim.

        Args:
            dim: 0, or a dim whose size is the same in all rows.
        Returns:
            A tuple of tensors; ragged ones of a dim other than 0.

        >>> dynograd.ragged_tensor([[1, 2], [3]]).unbind()
        (tensor([1, 2]), tensor([3]))
        """
        return registry["unbind"].function(self, dim)

    def to_padded(self, value: float = 0.0, length: int | None = None) -> Tensor:
        """Rows made equally long: a dense tensor.

        Args:
            value: what stands behind the end of each row.
            length: how long; None is the longest row. Longer rows are an error.
        Returns:
            (B, length, *).
        Raises:
            ShapeError: a row is longer than `length`.

        >>> dynograd.ragged_tensor([tensor([1, 2]), tensor([3])]).to_padded(-1)
        tensor([[ 1,  2],
                [ 3, -1]])
        """
        return padded(self, value, length)

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """PyTorch's name of `to_padded`.

        Args:
            padding: what stands behind the end of each row.
            output_size: (B, length, *); None is as long as the longest row.
        Returns:
            (B, length, *).
        """
        return padded_to(self, padding, output_size)

    def mask(self, length: int | None = None) -> Tensor:
        """Which elements of `to_padded()` are real.

        Args:
            length: as in `to_padded`.
        Returns:
            (B, length) bool.

        >>> dynograd.ragged_tensor([[1, 2], [3]]).mask()
        tensor([[ True,  True],
                [ True, False]])
        """
        return mask_of(self, length)

    def tolist(self) -> list[Any]:
        """The rows as nested lists of Python numbers.

        Returns:
            A list of lists.

        >>> dynograd.ragged_tensor([[1, 2], [3]]).tolist()
        [[1, 2], [3]]
        """
        return [row.tolist() for row in self.detach().unbind()]

    def numpy(self, *, force: bool = False) -> Any:
        """The rows as a list of NumPy arrays.

        Args:
            force: also where the tensor requires grad or lies on a GPU.
        Returns:
            A list of arrays.
        """
        return [row.numpy(force=force) for row in self.unbind()]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """The rows as an array of objects, where that is asked for (`dtype=object`)."""
        if dtype is None or numpy.dtype(dtype).kind != "O":
            raise refusal("__array__")
        rows = numpy.empty(self.partition.count, object)
        for number, row in enumerate(self.detach().numpy()):
            rows[number] = row
        return rows

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"item: a ragged tensor with {self.numel()} elements cannot be converted to Scalar. Use tolist(), or pick one element."
            )
        return self.packed.item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError(
                f"bool: the truth value of a ragged tensor with {self.numel()} elements is ambiguous. Use any() or all()."
            )
        return bool(self.packed)

    def __len__(self) -> int:
        return self.partition.count

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind())

    def statistics(self) -> RowStatistics:
        """How long the rows are: a line of text, and a histogram in notebooks.

        >>> x = dynograd.ragged_tensor([tensor([1.0, 2.0, 3.0]), tensor([4.0])])
        >>> print(x.statistics())
        2 rows of 1 to 3 elements (mean 2.0, median 2.0); padded, 33% would be padding
        """
        from dynograd.ragged.pictures import RowStatistics

        return RowStatistics(self)

    def _repr_html_(self) -> str:
        """For notebooks: the rows as bars, coloured by their values."""
        from dynograd.ragged.pictures import rows_html

        return rows_html(self)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in ("partition", "place")]

    def __repr__(self, **options: Any) -> str:
        lines, shortened = text_of(self)
        packed = self.packed
        while isinstance(packed, RaggedTensor):
            packed = packed.packed
        told: dict[str, Any] = {
            "dtype": printing.dtype_suffix(self.dtype, self.numel()),
            "device": None if self.device.type == "cpu" else f"'{self.device}'",
            "size": tuple(self.shape) if shortened or not self.partition.count else None,
            **(sizes_text(self.partition) if shortened else {}),
            "grad_fn": packed.node if packed.requires_grad else None,
            "requires_grad": True if packed.requires_grad and packed.node is None else None,
        }
        text = f"ragged_tensor([\n{lines}])" if lines else "ragged_tensor([])"
        return printing.with_suffixes(
            text[:-1], {name: suffix for name, suffix in told.items() if suffix is not None}, 2
        )

    # --- copies and moves -------------------------------------------------------------------------------------------------

    def pin_memory(self, device: DeviceLike = None) -> RaggedTensor:
        return self.with_packed(self.packed.pin_memory())

    def record_stream(self, stream: object) -> None:
        self.packed.record_stream(stream)

    def share_memory_(self) -> RaggedTensor:
        self.packed.share_memory_()
        return self

    def __copy__(self) -> RaggedTensor:
        return self.with_packed(self.packed)

    def __deepcopy__(self, memo: dict) -> RaggedTensor:
        if id(self) not in memo:
            memo[id(self)] = self.with_packed(self.packed.__deepcopy__(memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return make, (self.packed, self.partition, self.place)

    def __call__(self) -> RaggedTensor:
        # The values of a tensor of several levels are ragged, and `x.values()` gives them too. Editors would show a docstring of each variable.
        return self

    # `dispatch.py` puts its functions here
    __dynograd_op__: Any = None
    __dynograd_write__: Any = None
    __dynograd_rows__ = True


def from_values(who: str, values: Any, lengths: Any, offsets: Any, dim: int) -> RaggedTensor:
    """A ragged tensor that shares `values`; see `RaggedTensor`."""
    if not isinstance(values, Tensor):
        raise TypeError(
            f"{who}: expected values to be a Tensor, got {type(values).__name__}. Use tensor(...) or ragged_tensor([...])."
        )
    if not values.ndim:
        raise ShapeError(f"{who}: values needs at least one dim, along which the rows lie; got a 0-dim tensor.")
    if (lengths is None) == (offsets is None):
        raise TypeError(f"{who}: give either lengths or offsets, got {'neither' if lengths is None else 'both'}.")
    place = normalize_dim(who, dim, values.ndim + 1)
    if not place:
        raise ShapeError(f"{who}: dim 0 counts the rows and cannot be ragged; got dim={dim}.")
    for name, numbers in (("lengths", lengths), ("offsets", offsets)):
        if isinstance(numbers, Tensor) and numbers.device != values.device and numbers.device.type != "cpu":
            raise DeviceError(
                f"{who}: {name} are on {numbers.device} but values on {values.device}. Give {name} on the device of the values, or on the CPU."
            )
    if isinstance(values, RaggedTensor) and place != 1:
        raise ShapeError(f"{who}: the rows of ragged values lie along their dim 0, so dim must be 1, got {dim}.")
    total = values.shape[place - 1]
    if lengths is not None:
        part = lengths if isinstance(lengths, Partition) else checked_lengths(who, lengths, total)
    else:
        part = checked_offsets(who, offsets, total)
    return make(getattr(values, "whole", values), part, place)


def make(packed: Any, partition: Partition, place: int = 1) -> RaggedTensor:
    """A ragged tensor, unchecked."""
    if when_first:
        _begin()
    x: Any = object.__new__(RaggedTensor)
    x._meta = None
    x.packed, x.partition, x.place = packed, partition, place
    return x


when_first: list[
    Callable[[], None]
] = []  # called before the first ragged tensor is made, by one thread while others wait
_beginning = threading.RLock()
_begins = [False]


def _begin() -> None:
    with _beginning:
        while when_first and not _begins[0]:  # what is called may make ragged tensors itself
            _begins[0] = True
            try:
                when_first[-1]()
                when_first.pop()
            finally:
                _begins[0] = False


def is_ragged(value: object) -> bool:
    """Whether `value` is a RaggedTensor.

    Args:
        value: anything.
    Returns:
        True or False.

    >>> dynograd.is_ragged(dynograd.ragged_tensor([[1], []])), dynograd.is_ragged(tensor([1]))
    (True, False)
    """
    return isinstance(value, RaggedTensor)
