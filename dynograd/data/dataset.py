"""Data sets: what `dataset[i]` (map style) or `iter(dataset)` (iterable style) gives a DataLoader.

Any object with `__getitem__` and `__len__` will do; the classes here add names for the two styles and ways to combine them.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from dynograd import arrays
from dynograd.base.random_streams import Generator
from dynograd.errors import user_level
from dynograd.tensor.randomness import randperm
from dynograd.tensor.tensor import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)
_PLAIN = (list, tuple, range, str, bytes, dict, Tensor)


class Dataset(Generic[T_co]):
    """A map from indices (or keys) to samples. Subclasses write `__getitem__` and, for the usual samplers, `__len__`.

    A subclass may also write `__getitems__(indices)`, which returns the list of samples of a whole batch at once.
    `first + second` is their concatenation.

    Raises:
        NotImplementedError: in use: a subclass without `__getitem__`.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> (Squares() + Squares())[6]
    4
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__}: a Dataset needs __getitem__(self, index). Define it in your class."
        )

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A stream of samples. Subclasses write `__iter__`.

    With `num_workers` > 0 every worker iterates over its own copy: share the work by `get_worker_info()`, else each sample
    comes once per worker.

    Raises:
        NotImplementedError: in use: a subclass without `__iter__`.

    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> [batch.tolist() for batch in dynograd.data.DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__}: an IterableDataset needs __iter__(self). Define it in your class."
        )

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Row i of each tensor, as a tuple.

    Args:
        tensors (N, *): at least one; also ragged.
    Raises:
        ValueError: no tensor.
        AssertionError: the tensors differ in their first size.

    >>> TensorDataset(tensor([[1, 2], [3, 4]]), tensor([0, 1]))[1]
    (tensor([3, 4]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset: expected at least one tensor, got none.")
        sizes = [len(tensor) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(
                f"TensorDataset: Size mismatch between tensors: their first sizes are {', '.join(map(str, sizes))}. "
                f"Give tensors with one row per sample."
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset):
    """Sample i of each data set: a tuple when they are given by position, a dict when they are given by name.

    Args:
        args: data sets of one length.
        kwargs: or data sets by name.
    Raises:
        ValueError: no data set, both kinds of arguments, or different lengths.

    >>> StackDataset(image=["a", "b"], label=[0, 1])[1]
    {'image': 'b', 'label': 1}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: expected data sets by position (tuple) or by name (dict), got both. Choose one."
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: expected at least one data set, got none.")
        self.datasets: tuple | dict = args or kwargs
        sizes = [len(dataset) for dataset in self._members()]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"StackDataset: Size mismatch between datasets: their lengths are {', '.join(map(str, sizes))}."
            )
        self._length = sizes[0]

    def _members(self) -> list:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, fields: Iterable) -> Any:
        return dict(zip(self.datasets, fields)) if isinstance(self.datasets, dict) else tuple(fields)

    def __getitem__(self, index: Any) -> Any:
        return self._sample([dataset[index] for dataset in self._members()])

    def __getitems__(self, indices: list) -> list:
        columns = []
        for dataset in self._members():
            column = read_all(dataset, indices)
            if len(column) != len(indices):
                raise ValueError(
                    f"StackDataset: Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)} "
                    f"from __getitems__ of {type(dataset).__name__}."
                )
            columns.append(column)
        return [self._sample(fields) for fields in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Data sets one after the other.

    Args:
        datasets: data sets with a length, at least one.
    Raises:
        AssertionError: no data sets, or one that is an IterableDataset (ChainDataset takes those).

    >>> ConcatDataset([["a", "b"], ["c"]])[-1]
    'c'
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable.")
        for number, dataset in enumerate(self.datasets):
            if isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ConcatDataset does not support IterableDataset, got one at position {number}. Use ChainDataset."
                )
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable) -> list[int]:
        """The running sum of lengths.

        Args:
            sequence: data sets.
        Returns:
            a list of ints.

        >>> ConcatDataset.cumsum(["ab", "c"])
        [2, 3]
        """
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __getitem__(self, idx: int) -> T_co:
        size = self.cumulative_sizes[-1]
        if idx < -size:
            raise ValueError(
                f"ConcatDataset: absolute value of index should not exceed dataset length, got index {idx} for length {size}."
            )
        if idx >= size:
            raise IndexError(f"ConcatDataset: index {idx} is out of range for length {size}.")
        if idx < 0:
            idx += size
        number = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[number][idx - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """Iterable data sets one after the other.

    Args:
        datasets: IterableDatasets.
    Raises:
        AssertionError: in use: one that is none (ConcatDataset takes those).

    >>> class Letters(IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(Letters() + Letters())
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator:
        for number, dataset in enumerate(self.datasets):
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset only supports IterableDataset, got {type(dataset).__name__} at position {number}. "
                    f"Use ConcatDataset."
                )
            yield dataset

    def __iter__(self) -> Iterator:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[T_co]):
    """The samples of `dataset` at `indices`, in that order.

    Args:
        dataset: a map-style data set.
        indices: which samples.
    Raises:
        NotImplementedError: a subclass that writes `__getitem__` and not `__getitems__`, which a DataLoader asks first.

    >>> Subset(["a", "b", "c"], [2, 0])[0]
    'c'
    """

    def __init__(self, dataset: Dataset[T_co] | Sequence[T_co], indices: Sequence[int]) -> None:
        if type(self).__getitem__ is not Subset.__getitem__ and type(self).__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{type(self).__name__} overrides __getitem__ but not __getitems__, which a DataLoader asks first. Add "
                f"`def __getitems__(self, indices): return [self[index] for index in indices]`."
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        dataset: Any = self.dataset
        return dataset[[self.indices[i] for i in idx] if isinstance(idx, list) else self.indices[idx]]

    def __getitems__(self, indices: list) -> list:
        return read_all(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T_co] | Sequence[T_co], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Subsets that share the samples of `dataset` at random, none twice.

    Args:
        dataset: a map-style data set with a length.
        lengths: how many samples each gets; or fractions that sum to 1, rounded down, the rest given one by one from the first.
        generator: where the order comes from; the default generator by default.
    Returns:
        a list of Subsets.
    Raises:
        ValueError: lengths that do not sum to the length of `dataset`, or fractions outside [0, 1].

    >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    sized: Any = dataset
    counts: list[Any] = list(lengths)
    size = len(sized)
    if math.isclose(sum(counts), 1) and sum(counts) <= 1:
        counts = _counts(size, counts)
    if sum(counts) != size:
        raise ValueError(
            f"random_split: Sum of input lengths does not equal the length of the input dataset! "
            f"lengths {counts} sum to {sum(counts)}, the dataset has {size}. Fractions that sum to 1 fit any length."
        )
    order = randperm(size, generator=generator).tolist()
    return [Subset(dataset, order[end - count : end]) for end, count in zip(itertools.accumulate(counts), counts)]


def _counts(size: int, fractions: Sequence[float]) -> list[int]:
    for number, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_split: Fraction at index {number} is not between 0 and 1, got {fraction}.")
    counts = [math.floor(size * fraction) for fraction in fractions]
    for extra in range(size - sum(counts)):
        counts[extra % len(counts)] += 1
    for number, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {number} is 0. This might result in an empty dataset.",
                stacklevel=user_level(),
            )
    return counts


def reads_batches(dataset: Any) -> bool:
    """Whether `__getitems__` is more than a loop over `__getitem__` (whose samples a loader seeds and names one by one)."""
    if type(dataset) is Subset:
        return reads_batches(dataset.dataset)
    if type(dataset) is StackDataset:
        return any(reads_batches(member) for member in dataset._members())
    return callable(getattr(dataset, "__getitems__", None))


def read_all(dataset: Any, indices: list) -> list:
    """The samples at `indices`, at once where the data set can."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


def is_plain(dataset: Any) -> bool:
    """Whether reading a sample runs no code but Python's, NumPy's and dynograd's own, so that it cannot be random."""
    kind = type(dataset)
    if kind is Subset:
        return is_plain(dataset.dataset) and is_plain(dataset.indices)
    if kind is ConcatDataset:
        return all(is_plain(member) for member in dataset.datasets)
    if kind is StackDataset:
        return all(is_plain(member) for member in dataset._members())
    if kind is TensorDataset:
        return all(is_plain(tensor) for tensor in dataset.tensors)
    return kind in _PLAIN or arrays.is_array(dataset)
