"""Data sets and the ways to combine them."""

import pytest

import dynograd as dg
from dynograd.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from dynograd.data.dataset import is_plain, reads_batches


class Squares(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index * index


class SquaresAtOnce(Squares):
    def __getitems__(self, indices):
        return [index * index for index in indices]


class Count(IterableDataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __iter__(self):
        return iter(range(self.size))


def test_dataset_without_getitem_says_what_is_missing():
    class Empty(Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Empty: a Dataset needs __getitem__"):
        Empty()[0]
    with pytest.raises(TypeError):
        len(Empty())
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(IterableDataset())


def test_dataset_classes_take_type_parameters():
    class Numbers(Dataset[int]):
        pass

    assert issubclass(Numbers, Dataset)


def test_tensor_dataset_gives_rows():
    dataset = TensorDataset(dg.tensor([[1.0, 2.0], [3.0, 4.0]]), dg.tensor([5, 6]))
    x, y = dataset[1]
    assert (x.tolist(), y.item(), len(dataset)) == ([3.0, 4.0], 6, 2)
    assert [tensor.shape for tensor in dataset[:1]] == [(1, 2), (1,)]


def test_tensor_dataset_of_different_sizes_names_them():
    with pytest.raises(AssertionError, match="Size mismatch between tensors: their first sizes are 3, 2"):
        TensorDataset(dg.zeros(3), dg.zeros(2))
    with pytest.raises(ValueError, match="at least one tensor"):
        TensorDataset()


def test_stack_dataset_by_position_and_by_name():
    assert StackDataset(Squares(3), "abc")[2] == (4, "c")
    assert StackDataset(square=Squares(3), letter="abc")[2] == {"square": 4, "letter": "c"}
    assert StackDataset(SquaresAtOnce(3), "abc").__getitems__([2, 0]) == [(4, "c"), (0, "a")]
    assert StackDataset(x=SquaresAtOnce(3)).__getitems__([1]) == [{"x": 1}]
    assert len(StackDataset("abc")) == 3


def test_stack_dataset_refuses_what_does_not_fit():
    class Short(SquaresAtOnce):
        def __getitems__(self, indices):
            return [0]

    for arguments, names, words in [
        ((), {}, "at least one"),
        (("ab",), {"x": "ab"}, "got both"),
        (("ab", "abc"), {}, "lengths are 2, 3"),
    ]:
        with pytest.raises(ValueError, match=words):
            StackDataset(*arguments, **names)
    with pytest.raises(ValueError, match="Expected 2, got 1 from __getitems__ of Short"):
        StackDataset(Short(3)).__getitems__([0, 1])


def test_concat_dataset_finds_every_sample():
    dataset = ConcatDataset(["ab", "", "cde"])
    assert [dataset[index] for index in range(5)] == list("abcde")
    assert [dataset[index] for index in range(-5, 0)] == list("abcde")
    assert (len(dataset), dataset.cumulative_sizes) == (5, [2, 2, 5])
    assert (Squares(2) + Squares(3))[4] == 4


def test_concat_dataset_refuses_indices_and_members():
    dataset = ConcatDataset(["ab"])
    with pytest.raises(ValueError, match="index -3 for length 2"):
        dataset[-3]
    with pytest.raises(IndexError, match="index 2 is out of range for length 2"):
        dataset[2]
    with pytest.raises(AssertionError, match="empty"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="position 1"):
        ConcatDataset(["ab", Count(2)])


def test_chain_dataset_goes_on_with_the_next():
    assert list(Count(2) + Count(3)) == [0, 1, 0, 1, 2]
    assert len(ChainDataset([Count(2), Count(3)])) == 5
    with pytest.raises(AssertionError, match="got str at position 0"):
        list(ChainDataset(["ab"]))
    with pytest.raises(AssertionError, match="got str"):
        len(ChainDataset(["ab"]))


def test_subset_reads_through():
    subset = Subset("abcd", [3, 1])
    assert (subset[0], subset[1], len(subset), subset.__getitems__([1, 0])) == ("d", "b", 2, ["b", "d"])
    assert Subset(dg.arange(5), [4, 2])[[0, 1]].tolist() == [4, 2]
    assert Subset(SquaresAtOnce(5), [3]).__getitems__([0]) == [9]


def test_subset_subclass_must_override_both():
    class Half(Subset):
        def __getitem__(self, index):
            return 0

    class Whole(Half):
        def __getitems__(self, indices):
            return [0 for _ in indices]

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half("ab", [0])
    assert Whole("ab", [0])[0] == 0


def test_batched_reading_is_seen_through_subsets_and_stacks():
    for dataset, expected in [
        (Squares(2), False),
        (SquaresAtOnce(2), True),
        (Subset(Squares(2), [0]), False),
        (Subset(Subset(SquaresAtOnce(2), [0]), [0]), True),
        (StackDataset(Squares(2), "ab"), False),
        (StackDataset(x=SquaresAtOnce(2)), True),
    ]:
        assert reads_batches(dataset) is expected


def test_random_split_shares_all_samples():
    parts = random_split(range(10), [3, 7], generator=dg.Generator().manual_seed(1))
    assert [len(part) for part in parts] == [3, 7]
    assert sorted(sample for part in parts for sample in part) == list(range(10))
    again = random_split(range(10), [3, 7], generator=dg.Generator().manual_seed(1))
    assert [part.indices for part in parts] == [part.indices for part in again]


@pytest.mark.parametrize(
    "size, fractions, counts", [(10, [0.5, 0.5], [5, 5]), (10, [0.33, 0.33, 0.34], [4, 3, 3]), (3, [1.0], [3])]
)
def test_random_split_by_fractions(size, fractions, counts):
    assert [len(part) for part in random_split(range(size), fractions)] == counts


def test_random_split_refuses_what_does_not_add_up():
    with pytest.raises(ValueError, match=r"lengths \[3, 3\] sum to 6, the dataset has 10"):
        random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match=r"Fraction at index 0 is not between 0 and 1, got -0\.5"):
        random_split(range(10), [-0.5, 1.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.9, 0.1])


def test_data_sets_that_cannot_be_random_are_known():
    rows = TensorDataset(dg.zeros(2))
    for dataset, expected in [
        ([1, 2], True),
        (rows, True),
        (dg.zeros(2), True),
        (Subset(rows, [0]), True),
        (rows + ConcatDataset([[1], (2,)]), True),
        (StackDataset(rows, "ab"), True),
        (Squares(2), False),
        (Subset(Squares(2), [0]), False),
        (rows + Squares(2), False),
        (StackDataset(rows, Squares(2)), False),
        (TensorDataset(Squares(2)), False),
        (Count(2), False),
    ]:
        assert is_plain(dataset) is expected
