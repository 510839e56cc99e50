"""dynograd.utils.data beside torch.utils.data: the same expressions give the same orders, lengths, kinds and types of error."""

import collections

import numpy as np
import pytest
import torch
import torch.utils.data

import dynograd
import dynograd.utils.data

LIBRARIES = [(torch, torch.utils.data), (dynograd, dynograd.utils.data)]
Pair = collections.namedtuple("Pair", "a b")


def plain(value):
    """Containers by kind, tensors as (dtype, shape, values)."""
    if hasattr(value, "tolist"):
        return str(getattr(value, "dtype", "")).split(".")[-1], list(getattr(value, "shape", ())), value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {key: plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(element) for element in value]
    return value


def stream(D, size=7):
    class Stream(D.IterableDataset):
        def __iter__(self):
            info = D.get_worker_info()
            first, step = (info.id, info.num_workers) if info else (0, 1)
            return iter(range(first, size, step))

    return Stream()


SAME = {
    "sequential": lambda T, D: list(D.SequentialSampler("abc")),
    "batch sampler": lambda T, D: (list(D.BatchSampler(range(7), 3, False)), len(D.BatchSampler(range(7), 3, True))),
    "distributed": lambda T, D: [
        list(D.DistributedSampler(range(7), 3, rank, shuffle=False, drop_last=drop)) for rank in range(3) for drop in (False, True)
    ],
    "distributed, padded twice": lambda T, D: [list(D.DistributedSampler(range(2), 5, rank, shuffle=False)) for rank in range(5)],
    "random, sorted": lambda T, D: sorted(D.RandomSampler(range(9))),
    "random, more": lambda T, D: (len(list(D.RandomSampler(range(3), num_samples=7))), len(D.RandomSampler("ab", True, 5))),
    "subset random": lambda T, D: sorted(D.SubsetRandomSampler([5, 3])),
    "weighted": lambda T, D: list(D.WeightedRandomSampler([0, 1.0, 0], 3)),
    "weighted without": lambda T, D: sorted(D.WeightedRandomSampler([1, 1.0, 2], 3, replacement=False)),
    "split": lambda T, D: [sorted(part.indices) for part in D.random_split(range(1), [1.0])],
    "split lengths": lambda T, D: [len(part) for part in D.random_split(range(10), [0.35, 0.35, 0.3])],
    "split counts": lambda T, D: [len(part) for part in D.random_split(range(10), [7, 3])],
    "concat": lambda T, D: [D.ConcatDataset([[1, 2], [3]])[i] for i in (0, 2, -1)],
    "concat sizes": lambda T, D: (D.ConcatDataset(["ab", "c"]).cumulative_sizes, len(D.ConcatDataset(["ab", "c"]))),
    "stack": lambda T, D: (D.StackDataset("ab", [1, 2])[1], D.StackDataset(x="ab", y=[1, 2])[0]),
    "stack at once": lambda T, D: D.StackDataset("ab", [1, 2]).__getitems__([1, 0]),
    "subset": lambda T, D: (D.Subset("abcd", [3, 1])[1], D.Subset("abcd", [3, 1]).__getitems__([0]), len(D.Subset("ab", [0]))),
    "chain": lambda T, D: list(D.ChainDataset([stream(D, 2), stream(D, 1)])),
    "tensors": lambda T, D: D.TensorDataset(T.arange(6).reshape(3, 2), T.tensor([1.0, 2.0, 3.0]))[1],
    "add": lambda T, D: (D.Subset("ab", [0]) + D.Subset("cd", [1]))[1],
    "loader": lambda T, D: list(D.DataLoader(range(7), 3)),
    "loader, drop": lambda T, D: (list(D.DataLoader(range(7), 3, drop_last=True)), len(D.DataLoader(range(7), 3, drop_last=True))),
    "loader, none": lambda T, D: list(D.DataLoader([np.ones(2), 3, "a"], None)),
    "loader, sampler": lambda T, D: list(D.DataLoader("abcd", 2, sampler=[3, 3, 0])),
    "loader, batches": lambda T, D: list(D.DataLoader("abcd", batch_sampler=[[0, 1], [3]])),
    "loader, workers": lambda T, D: list(D.DataLoader(range(9), 2, num_workers=2)),
    "loader, dict": lambda T, D: list(D.DataLoader({0: "a", 1: "b"}, 2)),
    "streams": lambda T, D: [list(D.DataLoader(stream(D), 2, num_workers=n, drop_last=drop)) for n in (0, 2) for drop in (False, True)],
    "streams, none": lambda T, D: list(D.DataLoader(stream(D), None, num_workers=2)),
    "collate": lambda T, D: D.default_collate([{"a": 1, "b": (2.0, "x"), "c": Pair(np.ones(2), b"y")}] * 2),
    "collate scalars": lambda T, D: D.default_collate([np.float32(1), np.float32(2)]),
    "collate bools": lambda T, D: D.default_collate([True, False]),
    "collate zero-dim": lambda T, D: D.default_collate([T.tensor(1), T.tensor(2)]),
    "collate deep": lambda T, D: D.default_collate([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
    "collate ordered": lambda T, D: D.default_collate([collections.OrderedDict(b=1, a=2)] * 2),
    "convert": lambda T, D: D.default_convert({"a": np.ones(2), "b": [1, np.int64(3)], "c": Pair(np.zeros(1), "t"), "d": (1, "x")}),
    "attributes": lambda T, D: [
        getattr(D.DataLoader(range(4), 2, num_workers=1), name)
        for name in ("batch_size", "num_workers", "prefetch_factor", "drop_last", "timeout", "pin_memory", "persistent_workers", "in_order")
    ],
    "paths": lambda T, D: D.dataloader.default_collate is D._utils.collate.default_collate is D.default_collate,
    "worker info outside": lambda T, D: D.get_worker_info(),
}  # fmt: skip

ERRORS = {
    "negative workers": lambda T, D: D.DataLoader([1], num_workers=-1),
    "negative timeout": lambda T, D: D.DataLoader([1], timeout=-1),
    "prefetch without workers": lambda T, D: D.DataLoader([1], prefetch_factor=2),
    "persistent without workers": lambda T, D: D.DataLoader([1], persistent_workers=True),
    "context without workers": lambda T, D: D.DataLoader([1], multiprocessing_context="fork"),
    "no such context": lambda T, D: D.DataLoader([1], num_workers=1, multiprocessing_context="x"),
    "batch size 0": lambda T, D: D.DataLoader([1], 0),
    "shuffle and sampler": lambda T, D: D.DataLoader([1], shuffle=True, sampler=[0]),
    "batch sampler and size": lambda T, D: D.DataLoader([1], 2, batch_sampler=[[0]]),
    "shuffled stream": lambda T, D: D.DataLoader(stream(D), shuffle=True),
    "stream with sampler": lambda T, D: D.DataLoader(stream(D), sampler=[1]),
    "length of a stream": lambda T, D: len(D.DataLoader(stream(D))),
    "set after": lambda T, D: setattr(D.DataLoader([1]), "batch_size", 2),
    "empty, shuffled": lambda T, D: D.DataLoader([], shuffle=True),
    "sizes differ": lambda T, D: D.TensorDataset(T.ones(2), T.ones(3)),
    "stack sizes differ": lambda T, D: D.StackDataset("ab", "c"),
    "concat nothing": lambda T, D: D.ConcatDataset([]),
    "concat far": lambda T, D: D.ConcatDataset(["ab"])[-3],
    "concat streams": lambda T, D: D.ConcatDataset([stream(D)]),
    "split sum": lambda T, D: D.random_split(range(3), [1, 1]),
    "weights 2-D": lambda T, D: D.WeightedRandomSampler([[1.0]], 1),
    "weighted, num_samples": lambda T, D: D.WeightedRandomSampler([1.0], 0),
    "rank": lambda T, D: D.DistributedSampler(range(3), 2, 2),
    "collate unknown": lambda T, D: D.default_collate([object()]),
    "collate sizes": lambda T, D: D.default_collate([[1, 2], [3]]),
    "collate shapes": lambda T, D: D.default_collate([T.ones(2), T.ones(3)]),
    "collate keys": lambda T, D: D.default_collate([{"a": 1}, {"b": 1}]),
    "dataset without getitem": lambda T, D: D.Dataset()[0],
    "out of range": lambda T, D: list(D.DataLoader([1], sampler=[5])),
    "out of range, in a worker": lambda T, D: list(D.DataLoader([1], sampler=[5], num_workers=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_same_values(name):
    theirs, ours = (plain(SAME[name](*library)) for library in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("name", ERRORS)
def test_same_kind_of_error(name):
    with pytest.raises(Exception) as theirs:
        ERRORS[name](*LIBRARIES[0])
    with pytest.raises(theirs.type):
        ERRORS[name](*LIBRARIES[1])


def test_every_public_name_is_there():
    assert set(torch.utils.data.__all__) <= set(dir(dynograd.utils.data))
