"""PyTorch's import paths below torch.utils.data, data pipes, and collation with functions of the user's."""

import importlib
import random

import pytest

import dynograd as torch
from dynograd.data import DataLoader, default_collate
from dynograd.data.collate import collate, default_collate_fn_map
from dynograd.data.datapipes import (
    DataChunk,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    ShufflerIterDataPipe,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)

NAMES = """
utils.data: BatchSampler ChainDataset ConcatDataset DFIterDataPipe DataChunk DataLoader Dataset DistributedSampler IterDataPipe
    IterableDataset MapDataPipe RandomSampler Sampler SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset
    WeightedRandomSampler _DatasetKind argument_validation default_collate default_convert functional_datapipe get_worker_info
    guaranteed_datapipes_determinism non_deterministic random_split runtime_validation runtime_validation_disabled
utils.data.dataloader: DataLoader default_collate default_convert get_worker_info _BaseDataLoaderIter _SingleProcessDataLoaderIter
    _MultiProcessingDataLoaderIter _DatasetKind _InfiniteConstantSampler
utils.data.dataset: Dataset IterableDataset TensorDataset StackDataset ConcatDataset ChainDataset Subset random_split
utils.data.sampler: Sampler SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler BatchSampler
utils.data.distributed: DistributedSampler
utils.data.datapipes: IterDataPipe MapDataPipe
utils.data.datapipes._decorator: functional_datapipe non_deterministic
utils.data.datapipes.datapipe: DFIterDataPipe DataChunk IterDataPipe MapDataPipe
utils.data.datapipes.iter.combinatorics: ShufflerIterDataPipe
utils.data._utils.collate: default_collate default_convert collate default_collate_fn_map
utils.data._utils.worker: get_worker_info WorkerInfo
utils.data._utils.pin_memory: pin_memory
"""


def test_names():
    module = None
    for word in NAMES.split():
        if word.endswith(":"):
            module = importlib.import_module("dynograd." + word[:-1])
        else:
            assert hasattr(module, word), (module.__name__, word)
    assert torch.utils.data.dataloader.default_collate is default_collate
    assert torch.utils.data._utils.collate.default_collate is default_collate


def test_iterators_are_of_the_named_classes():
    from dynograd.utils.data import dataloader

    assert isinstance(iter(DataLoader([1])), dataloader._SingleProcessDataLoaderIter)
    assert isinstance(iter(DataLoader([1], num_workers=1)), dataloader._MultiProcessingDataLoaderIter)
    assert issubclass(dataloader._SingleProcessDataLoaderIter, dataloader._BaseDataLoaderIter)


def test_functions_of_the_users_collate_their_types():
    def unite(batch, *, collate_fn_map):
        return set().union(*batch)

    samples = [{"n": 1, "s": {3}, "t": (2.0, {5})}, {"n": 2, "s": {4}, "t": (3.0, {5})}]
    with pytest.raises(TypeError, match=r"sample\['s'\] is set"):
        default_collate(samples)
    created = collate(samples, collate_fn_map={**default_collate_fn_map, (set, frozenset): unite})
    assert (created["n"].tolist(), created["s"], created["t"][1]) == ([1, 2], {3, 4}, {5})
    default_collate_fn_map[set] = unite
    try:
        for workers in (0, 1):
            (batch,) = DataLoader(samples, 2, num_workers=workers)
            assert batch["s"] == {3, 4}
    finally:
        del default_collate_fn_map[set]
    assert default_collate_fn_map[int]([1, 2]).tolist() == [1, 2]


class Drawn:
    """A sample that is collated by drawing a number."""


def test_functions_of_the_users_draw_the_same_whatever_draws_beside_them(monkeypatch):
    monkeypatch.setitem(default_collate_fn_map, Drawn, lambda batch, *, collate_fn_map: random.random())
    epochs = []
    for seed in (1, 2):
        random.seed(seed)
        epochs.append(list(DataLoader([Drawn()] * 6, 2, generator=torch.Generator().manual_seed(0))))
    assert epochs[0] == epochs[1] and len(set(epochs[0])) == 3


def test_data_pipes():
    @functional_datapipe("plus")
    class Plus(IterDataPipe):
        def __init__(self, source, more=1):
            self.source, self.more = source, more

        def __iter__(self):
            for element in self.source:
                yield element + self.more

    assert list(Plus([1, 2]).plus(more=3)) == [5, 6]
    assert [batch.tolist() for batch in DataLoader(Plus([1, 2, 3]), 2)] == [[2, 3], [4]]
    with pytest.raises(ValueError, match="plus: it is already taken"):
        functional_datapipe("plus")(Plus)
    with pytest.raises(AttributeError, match=r"no attribute 'batch'.*generator function"):
        Plus([1]).batch()
    with pytest.raises(TypeError, match="IterDataPipe or MapDataPipe"):
        functional_datapipe("x")(int)

    @functional_datapipe("at")
    class At(MapDataPipe):
        def __init__(self, source):
            self.source = source

        def __getitem__(self, index):
            return self.source[index]

        def __len__(self):
            return len(self.source)

    assert At([5, 6]).at()[1] == 6
    assert [batch.tolist() for batch in DataLoader(At([5, 6]), 2)] == [[5, 6]]
    assert issubclass(DFIterDataPipe, IterDataPipe)
    assert list(DataChunk([1, 2]).raw_iterator()) == DataChunk([1, 2])
    Plus([1]).reset()
    for decorator in (argument_validation, runtime_validation):
        assert decorator(len) is len
    assert non_deterministic(Plus) is Plus
    assert non_deterministic(lambda: True)(Plus) is Plus
    with guaranteed_datapipes_determinism(), runtime_validation_disabled():
        pass


def test_a_shuffled_stream():
    """The order is PyTorch's for a seed."""
    pipe = ShufflerIterDataPipe(range(10), buffer_size=4)
    assert list(pipe.set_seed(3)) == [1, 4, 2, 3, 0, 8, 7, 5, 9, 6] and len(pipe) == 10
    torch.manual_seed(0)
    first, second = list(pipe), list(pipe)
    torch.manual_seed(0)
    assert list(pipe) == first != second and sorted(first) == sorted(second) == list(range(10))
    assert list(pipe.set_shuffle(False)) == list(range(10))
    assert sorted(IterDataPipe.functions["shuffle"]("abc")) == ["a", "b", "c"]


def test_bad_buffers_of_shuffled_streams():
    with pytest.raises(ValueError, match="shuffle: buffer_size must be larger than 0, got 0"):
        ShufflerIterDataPipe([1], buffer_size=0)
    with pytest.raises(TypeError):
        len(ShufflerIterDataPipe(iter([1])))
