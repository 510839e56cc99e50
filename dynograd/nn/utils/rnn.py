"""Sequences of different lengths: padded tensors, packed ones, and the way between them.

A `PackedSequence` holds the real tokens only, time step by time step, longest sequence first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy

from dynograd.arrays import Array
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ragged import RaggedTensor, ragged_from_padded
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "PackedSequence",
    "ragged_from_packed",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

_ops = public_functions()


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None


class PackedSequence(_Packed):
    """The tokens of several sequences, time step by time step, the longest sequence first.

    Make one with `pack_padded_sequence` or `pack_sequence`.

    Args:
        data (tokens, *): the tokens.
        batch_sizes (T,): how many sequences reach each step.
        sorted_indices (B,): the number, before sorting, of each sequence; None where they were sorted.
        unsorted_indices (B,): the reverse, computed when left out.

    >>> packed = dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: object, **kwargs: object) -> PackedSequence:
        """The same sequences with `data` converted or moved; this object where nothing changes.

        Args:
            args, kwargs: those of `Tensor.to`.
        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).to(dynograd.float64).data
        tensor([1., 3., 2.], dtype=dynograd.float64)
        """
        return self._moved(self.data.to(*args, **kwargs))

    def _moved(self, data: Any) -> PackedSequence:
        """With other data, and the orders on its device; sizes of steps stay on the CPU."""
        if data is self.data:
            return self
        orders = [None if order is None else order.to(data.device) for order in self[2:]]
        return type(self)(data, self.batch_sizes, *orders)

    def _converted(self, name: str) -> PackedSequence:
        return self._moved(getattr(self.data, name)())

    def float(self) -> PackedSequence:
        """The same sequences with `data` in float32.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).float().data
        tensor([1., 3., 2.])
        """
        return self._converted("float")

    def double(self) -> PackedSequence:
        """The same sequences with `data` in float64.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).double().data.dtype
        dynograd.float64
        """
        return self._converted("double")

    def half(self) -> PackedSequence:
        """The same sequences with `data` in float16.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).half().data.dtype
        dynograd.float16
        """
        return self._converted("half")

    def long(self) -> PackedSequence:
        """The same sequences with `data` in int64.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1.0, 2.0]), tensor([3.0])]).long().data
        tensor([1, 3, 2])
        """
        return self._converted("long")

    def int(self) -> PackedSequence:
        """The same sequences with `data` in int32.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1.0, 2.0]), tensor([3.0])]).int().data
        tensor([1, 3, 2], dtype=dynograd.int32)
        """
        return self._converted("int")

    def short(self) -> PackedSequence:
        """The same sequences with `data` in int16.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1.0, 2.0]), tensor([3.0])]).short().data
        tensor([1, 3, 2], dtype=dynograd.int16)
        """
        return self._converted("short")

    def char(self) -> PackedSequence:
        """The same sequences with `data` in int8.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1.0, 2.0]), tensor([3.0])]).char().data
        tensor([1, 3, 2], dtype=dynograd.int8)
        """
        return self._converted("char")

    def byte(self) -> PackedSequence:
        """The same sequences with `data` in uint8.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1.0, 2.0]), tensor([3.0])]).byte().data
        tensor([1, 3, 2], dtype=dynograd.uint8)
        """
        return self._converted("byte")

    def cpu(self) -> PackedSequence:
        """The same sequences on the CPU.

        Returns:
            PackedSequence.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).cpu().data.device
        device(type='cpu')
        """
        return self.to("cpu")

    def cuda(self, *args: object, **kwargs: object) -> PackedSequence:
        """The same sequences on a GPU; `batch_sizes` stays on the CPU.

        Args:
            args, kwargs: those of `Tensor.cuda`.
        Returns:
            PackedSequence.
        Raises:
            DeviceError: there is no GPU.

        >>> packed = dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
        >>> packed = packed.cuda() if dynograd.cuda.is_available() else packed
        """
        return self._moved(self.data.cuda(*args, **kwargs))

    @property
    def is_cuda(self) -> bool:
        """Whether `data` lies on a GPU.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).is_cuda
        False
        """
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """False: packed sequences are not kept in pinned memory.

        Returns:
            False.

        >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).is_pinned()
        False
        """
        return False

    def pin_memory(self) -> PackedSequence:
        """The same object: packed sequences are not kept in pinned memory.

        Returns:
            this PackedSequence.

        >>> packed = dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
        >>> packed.pin_memory() is packed
        True
        """
        return self


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`.

    Args:
        permutation (N,): each of 0 to N - 1 once, or None.
    Returns:
        (N,), or None.

    >>> dynograd.nn.utils.rnn.invert_permutation(tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = creation.empty_like(permutation)
    inverse[permutation] = creation.arange(permutation.numel(), device=permutation.device)
    return inverse


def lengths_of(batch_sizes: Any) -> Tensor:
    """The length of each packed sequence, longest first.

    Args:
        batch_sizes (T,): how many sequences reach each step.
    Returns:
        (B,), int64.

    >>> dynograd.nn.utils.rnn.lengths_of(tensor([2, 2, 1]))
    tensor([3, 2])
    """
    sizes = batch_sizes.array
    return creation.from_numpy(kernel("recurrent_packing", "lengths_of", sizes)(sizes))


def _rows_of(sizes: Any, order: Any, steps: int, batch: int, batch_first: bool) -> Tensor:
    """(N,) for each packed token its row in the padded batch with its first two dims flattened."""
    ranks = None if order is None else order.cpu().array
    return creation.from_numpy(kernel("recurrent_packing", "places", sizes)(sizes, ranks, steps, batch, batch_first))


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs the real tokens of a padded batch.

    Args:
        input (T, B, *): padded sequences; (B, T, *) with `batch_first`.
        lengths (B,): of each sequence, each at least 1; a tensor or a list.
        batch_first: `input` is (B, T, *).
        enforce_sorted: check that lengths do not grow; with False they are sorted here.
    Returns:
        PackedSequence of (sum of lengths, *).
    Raises:
        ShapeError: fewer than 2 dims, another number of lengths, a length that is not in [1, T], or lengths that grow.

    >>> x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])
    >>> packed = dynograd.nn.utils.rnn.pack_padded_sequence(x, [3, 2], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1., 4., 2., 5., 3.]), tensor([2, 2, 1]))
    """
    counts = [int(count) for count in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if input.dim() < 2:
        raise ShapeError(
            f"pack_padded_sequence: expected input with at least 2 dims (T, B, *), got shape {tuple(input.shape)}."
        )
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else (input.shape[0], input.shape[1])
    if len(counts) != batch:
        raise ShapeError(
            f"pack_padded_sequence: expected `len(lengths)` to be equal to batch_size, got {len(counts)} and {batch}."
        )
    for place, length in enumerate(counts):
        if not 1 <= length <= steps:
            raise ShapeError(
                f"pack_padded_sequence: Length of all samples has to be greater than 0 and at most {steps} (the padded length), "
                f"but lengths[{place}] is {length}."
            )
    row_lengths = numpy.array(counts, numpy.int64)
    order = None
    if enforce_sorted:
        for place in range(1, batch):
            if counts[place] > counts[place - 1]:
                raise ShapeError(
                    f"pack_padded_sequence: `lengths` array must be sorted in decreasing order when `enforce_sorted` is True, but "
                    f"lengths[{place - 1}]={counts[place - 1]} < lengths[{place}]={counts[place]}. Pass enforce_sorted=False."
                )
    else:
        ranks = kernel("recurrent_packing", "longest_first", row_lengths)(row_lengths)
        order, row_lengths = creation.from_numpy(ranks), row_lengths[ranks]
    sizes = kernel("recurrent_packing", "sizes_of", row_lengths)(row_lengths)
    flat = input.reshape(steps * batch, *input.shape[2:])
    rows = _rows_of(sizes, order, steps, batch, batch_first).to(input.device)
    order = None if order is None else order.to(input.device)
    return PackedSequence(flat.index_select(0, rows), creation.from_numpy(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """The padded batch of a packed one, with its lengths: the inverse of `pack_padded_sequence`.

    Args:
        sequence: a PackedSequence.
        batch_first: give (B, T, *).
        padding_value: what stands behind the ends.
        total_length: T; the longest length when left out.
    Returns:
        (padded, lengths): (T, B, *) or (B, T, *), and (B,), in the order before packing.
    Raises:
        TypeError: no PackedSequence.
        ValueError: total_length is shorter than the longest sequence.

    >>> packed = dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
    >>> dynograd.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"pad_packed_sequence: expected a PackedSequence, got {type(sequence).__name__}.")
    sizes = sequence.batch_sizes.array
    batch = int(sizes[0]) if sizes.size else 0
    steps = sizes.size
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"pad_packed_sequence: Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}."
            )
        steps = total_length
    data = sequence.data
    rest = tuple(data.shape[1:])
    base = creation.full((steps * batch, *rest), padding_value, dtype=data.dtype, device=data.device)
    order = sequence.sorted_indices
    if order is None:
        order = invert_permutation(sequence.unsorted_indices)
    rows = _rows_of(sizes, order, steps, batch, batch_first)
    padded = base.index_copy(0, rows.to(data.device), data)
    lengths = lengths_of(sequence.batch_sizes)
    if sequence.unsorted_indices is not None:
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return padded.reshape(*((batch, steps) if batch_first else (steps, batch)), *rest), lengths


def pad_sequence(
    sequences: Iterable[Tensor] | Tensor,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """One padded tensor from sequences of different lengths.

    Args:
        sequences: tensors (L, *), alike after the first dim; at least one.
        batch_first: give (B, T, *).
        padding_value: what stands behind the ends.
        padding_side: "right", or "left" to align the ends.
    Returns:
        (T, B, *), or (B, T, *) with `batch_first`; T is the longest length.
    Raises:
        ShapeError: no sequence, or sequences that differ after the first dim.
        TypeError: what is no tensor.
        ValueError: another side.

    >>> dynograd.nn.utils.rnn.pad_sequence([tensor([1, 2, 3]), tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if isinstance(sequences, RaggedTensor) and sequences.place == 1 and padding_side == "right":
        padded = sequences.to_padded(padding_value)
        return padded if batch_first else padded.transpose(0, 1)
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    sequences = list(sequences)
    if not sequences:
        raise ShapeError("pad_sequence: received an empty list of sequences. Give at least one.")
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: expected padding_side to be 'left' or 'right', got {padding_side!r}.")
    for place, sequence in enumerate(sequences):
        if not isinstance(sequence, Tensor):
            raise TypeError(
                f"pad_sequence: expected sequences to be Tensors, but number {place} is {type(sequence).__name__}. Use tensor(...)."
            )
    shapes = [sequence.shape for sequence in sequences]
    rest = shapes[0][1:]
    for place, shape in enumerate(shapes):
        if shape[1:] != rest:
            raise ShapeError(
                f"pad_sequence: sequences must agree after the first dim: sequence 0 has shape {tuple(shapes[0])}, sequence "
                f"{place} has {tuple(shape)}."
            )
    lengths = [shape[0] for shape in shapes]
    longest = max(lengths)
    arrays = _plain_arrays(sequences)
    if arrays and _holds(arrays[0].dtype, padding_value):
        return wrap(_padded_array(arrays, lengths, longest, batch_first, padding_value, padding_side == "left"))
    filler = sequences[0].new_full((longest - min(lengths), *rest), padding_value)
    pieces = []
    for sequence, length in zip(sequences, lengths, strict=True):
        if length == longest:
            pieces.append(sequence)
        elif padding_side == "left":
            pieces += (filler[: longest - length], sequence)
        else:
            pieces += (sequence, filler[: longest - length])
    padded = _ops["cat"](pieces).view(len(lengths), longest, *rest)
    return padded if batch_first else padded.transpose(0, 1).contiguous()


def _plain_arrays(tensors: list[Any]) -> list[Any]:
    """The arrays of tensors on the CPU of one dtype that need no gradient; none where some are not so."""
    kind = tensors[0].array.dtype if type(tensors[0]) is Tensor else None
    arrays = [tensor.array for tensor in tensors if type(tensor) is Tensor and not tensor.requires_grad]
    if len(arrays) < len(tensors) or any(
        [type(array) is not numpy.ndarray or array.dtype is not kind for array in arrays]
    ):
        return []
    return arrays


def _holds(dtype: Any, value: float) -> bool:
    """Whether arrays of the dtype can have the value without a question."""
    return not value or dtype.kind == "f" or (dtype.kind in "iu" and type(value) is int and 0 < value < 128)


def _padded_array(
    arrays: list[Any], lengths: list[int], longest: int, batch_first: bool, value: float, left: bool
) -> Array:
    count = len(arrays)
    shape = (count, longest) if batch_first else (longest, count)
    out = numpy.full(shape + arrays[0].shape[1:], value, arrays[0].dtype)
    by_sequence = out if batch_first else out.swapaxes(0, 1)
    for number, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if left:
            by_sequence[number, longest - length :] = array
        else:
            by_sequence[number, :length] = array
    return out


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each cut to its length.

    Args:
        padded_sequences (T, B, *): (B, T, *) with `batch_first`.
        lengths (B,): of each sequence.
        batch_first: the batch is (B, T, *).
    Returns:
        a list of B tensors (L, *).
    Raises:
        ShapeError: another number of lengths.

    >>> dynograd.nn.utils.rnn.unpad_sequence(tensor([[1, 2, 3], [4, 0, 0]]), tensor([3, 1]), batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    if len(rows) != len(lengths):
        raise ShapeError(
            f"unpad_sequence: {len(rows)} sequences (shape {tuple(padded_sequences.shape)}) but {len(lengths)} length(s)."
        )
    counts: Any = lengths
    return [row[: int(count)] for row, count in zip(rows, counts, strict=True)]


def pack_sequence(sequences: Sequence[Tensor] | Tensor, enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of different lengths.

    Args:
        sequences: tensors (L, *), alike after the first dim, each L at least 1.
        enforce_sorted: check that lengths do not grow; with False they are sorted here.
    Returns:
        PackedSequence.
    Raises:
        ShapeError: an empty sequence, lengths that grow, sequences that differ after the first dim.

    >>> dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed batch, in the order before packing.

    Args:
        packed_sequences: a PackedSequence.
    Returns:
        a list of B tensors (L, *).

    >>> packed = dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
    >>> dynograd.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def ragged_from_packed(sequence: PackedSequence) -> RaggedTensor:
    """The sequences of a packed batch as a ragged tensor, in the order they had before packing.

    `pack_sequence(x, enforce_sorted=False)` is the way back.

    Args:
        sequence: a PackedSequence.
    Returns:
        (B, j, *), ragged.

    >>> packed = dynograd.nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
    >>> dynograd.nn.utils.rnn.ragged_from_packed(packed)
    ragged_tensor([
      [1, 2],
      [3]])
    """
    padded, lengths = pad_packed_sequence(sequence, batch_first=True)
    return ragged_from_padded(padded, lengths)


_show_plainly(globals())
