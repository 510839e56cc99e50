"""DataLoader: what it gives, and that it gives the same with 0, 1 and several workers."""

import contextlib
import gc
import multiprocessing
import os
import random
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import dynograd as dg
from dynograd.data import (
    BatchSampler,
    BucketBatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    collate_pad,
    default_collate,
    generators,
    get_worker_info,
    transport,
)
from dynograd.data import fetch as fetching
from dynograd.data.seeding import Undisturbed, sample_seed, seed_all
from dynograd.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

ROOT = Path(__file__).parent.parent.parent
WORKERS = [
    {"num_workers": 0},
    {"num_workers": 1},
    {"num_workers": 3, "prefetch_factor": 1},
    {"num_workers": 2, "persistent_workers": True},
]


class Noisy(Dataset):
    """Each sample is its index and one number from each of the three global generators."""

    def __init__(self, size=11):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index, random.random(), np.random.standard_normal(), dg.rand(1).item()


class NoisyAtOnce(Noisy):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class NoisyStream(IterableDataset):
    """Worker w of n gives w, w + n, ...; samples come in random pairs."""

    def __init__(self, size=11):
        self.size = size

    def __len__(self):
        return self.size

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, self.size, step):
            yield index, random.random(), np.random.rand()


class Variable(Dataset):
    """Sequences of length index % 7 with a label."""

    def __len__(self):
        return 23

    def __getitem__(self, index):
        return dg.full((index % 7,), index), index % 2


def noisy_collate(samples):
    return [sample[0] for sample in samples], [random.random(), np.random.rand(), dg.rand(1).item()]


def identity(samples):
    return samples


class Drawing(Dataset):
    """Samples that draw so many numbers each."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return [random.random() for _ in range(self.count)]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_collate_fn_draws_is_that_of_its_batch(workers):
    """Whatever its samples have drawn."""
    drawn = []
    for count in (1, 3):
        dg.manual_seed(5)
        loader = DataLoader(Drawing(count), 2, collate_fn=lambda samples: random.random(), num_workers=workers)
        drawn.append(list(loader))
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 3


def plain(value):
    """Tensors as lists, so that == compares."""
    if isinstance(value, dg.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return {key: plain(element) for key, element in value.items()} if isinstance(value, dict) else value


def flat(lists):
    return [element for some in lists for element in some]


def epochs(dataset, count=2, seed=3, **options):
    dg.manual_seed(seed)
    loader = DataLoader(dataset, **options)
    return [[plain(batch) for batch in loader] for _ in range(count)]


# --- what it gives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, [[0], [1], [2], [3], [4]]),
        ({"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        ({"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        ({"batch_size": 9}, [[0, 1, 2, 3, 4]]),
        ({"batch_size": 9, "drop_last": True}, []),
        ({"batch_size": None}, [0, 1, 2, 3, 4]),
        ({"dataset": []}, []),
        ({"dataset": [], "batch_size": None}, []),
        ({"sampler": [4, 0, 0], "batch_size": 2}, [[4, 0], [0]]),
        ({"batch_sampler": [[1], (3, 2)]}, [[1], [3, 2]]),
        ({"batch_size": None, "sampler": BatchSampler(SequentialSampler(range(5)), 3, False)}, [[0, 1, 2], [3, 4]]),
    ],
)
def test_batches(options, expected, workers):
    dataset = TensorDataset(dg.arange(5)) if options.get("sampler") is None else dg.arange(5)
    if isinstance(dataset, TensorDataset):
        dataset = dataset.tensors[0].tolist()
    loader = DataLoader(**{"dataset": dataset, **options}, **workers)
    for _ in range(2):
        assert [plain(batch) for batch in loader] == expected
    assert len(loader) == len(expected)


class Foreign:
    """What fastai gives PyTorch's iterators: no DataLoader, but with the attributes that they read of one."""

    dataset, _dataset_kind, _auto_collation, _index_sampler = dg.arange(5), 0, False, [3, 1]
    drop_last, pin_memory, pin_memory_device = False, False, ""
    timeout, worker_init_fn, generator, prefetch_factor = 0, None, None, 2
    multiprocessing_context, persistent_workers = multiprocessing, True
    collate_fn = staticmethod(dg.Tensor.tolist)

    def __init__(self, num_workers=0, prefetch_factor=2, **options):
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.__dict__.update(options)

    def __iter__(self):
        return iter([dg.arange(2), dg.arange(3)])


@pytest.mark.parametrize("workers", WORKERS[:2])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [3, 1]),
        ({"_auto_collation": True, "_index_sampler": [[3, 1], [0]], "collate_fn": list}, [[3, 1], [0]]),
        ({"_dataset_kind": 1, "dataset": Foreign()}, [[0, 1], [0, 1, 2]]),
    ],
    ids=["samples", "batches", "stream"],
)
def test_iterators_take_loaders_of_packages(options, expected, workers):
    iterator = _MultiProcessingDataLoaderIter if workers["num_workers"] else _SingleProcessDataLoaderIter
    batches = list(iterator(Foreign(**workers, **options)))
    assert [np.asarray(batch).tolist() for batch in batches] == expected


class Whole(DataLoader):
    """Asks the data set for a batch at once, as packages of survival analysis do."""

    _auto_collation = False

    @property
    def _index_sampler(self):
        assert super()._auto_collation
        return self.batch_sampler


@pytest.mark.parametrize("workers", WORKERS)
def test_a_derived_loader_asks_for_whole_batches(workers):
    rows = dg.arange(5)
    assert [batch.tolist() for batch in Whole(rows, batch_size=2, collate_fn=lambda batch: batch, **workers)] == [
        [0, 1],
        [2, 3],
        [4],
    ]


def test_shuffle_gives_each_sample_once_and_a_new_order_each_epoch():
    first, second = epochs(range(30), batch_size=4, shuffle=True)
    assert sorted(flat(first)) == list(range(30))
    assert first != second
    assert epochs(range(30), batch_size=4, shuffle=True) == [first, second]
    assert epochs(range(30), batch_size=4, shuffle=True, seed=4) != [first, second]


def test_generator_fixes_the_order_whatever_the_default_generator_does():
    def order(seed):
        dg.rand(5)
        return [
            batch.item() for batch in DataLoader(range(9), shuffle=True, generator=dg.Generator().manual_seed(seed))
        ]

    assert order(1) == order(1) != order(2)


@pytest.mark.parametrize("workers", WORKERS)
def test_rows_of_tensors_are_what_stacking_gives(workers):
    dataset = TensorDataset(dg.randn(10, 3), dg.arange(10))
    expected = [default_collate([dataset[i] for i in range(first, min(first + 4, 10))]) for first in (0, 4, 8)]
    assert [plain(batch) for batch in DataLoader(dataset, 4, **workers)] == plain(expected)
    assert plain(list(DataLoader(Subset(dataset, [3, 1]), 2, **workers))) == plain(
        [default_collate([dataset[3], dataset[1]])]
    )


@pytest.mark.parametrize("workers", WORKERS)
def test_what_travels_from_a_worker_arrives_whole(workers):
    samples = [
        {
            "big": np.arange(40000.0).reshape(100, 400),
            "half": dg.ones(5000, dtype=dg.bfloat16),
            "text": "x" * 100000,
            "none": None,
        },
        {
            "big": np.arange(60000)[::2],
            "empty": dg.zeros(0, 3),
            "scalar": np.float32(1.5),
            "grad": dg.ones(3000, requires_grad=True),
        },
        {"fortran": np.asfortranarray(np.arange(20000.0).reshape(100, 200)), "text": ["a"] * 5, "bytes": b"\0" * 70000},
    ]
    samples[0]["again"] = samples[0]["big"]
    got = [batch[0] for batch in DataLoader(samples, collate_fn=identity, **workers)] * 1
    for sample, received in zip(samples, got, strict=True):
        assert list(received) == list(sample)
        for key, value in sample.items():
            assert type(received[key]) is type(value)
            if isinstance(value, (np.ndarray, dg.Tensor)):
                assert received[key].dtype == value.dtype
                assert np.array_equal(np.asarray(received[key].tolist()), np.asarray(value.tolist()))
            else:
                assert received[key] == value
    assert got[0]["again"] is got[0]["big"]
    assert got[1]["grad"].requires_grad


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_batches_belong_to_the_program(workers):
    batches = list(DataLoader([np.full(5000, float(index)) for index in range(20)], 2, **workers))
    for batch in batches:
        batch += 100.0
    assert [batch[:, 0].tolist() for batch in batches] == [[100.0 + i, 101.0 + i] for i in range(0, 20, 2)]


def test_batches_that_grow_and_shrink_use_their_slots_again():
    sizes = [1000, 5_000_000, 3, 200_000, 6_000_000, 1000]
    for batch, size in zip(DataLoader(sizes, None, num_workers=1, collate_fn=np.ones), sizes, strict=True):
        assert batch.shape == (size,)
        assert batch.all()


@pytest.mark.parametrize("is_full", [False, True])
def test_without_memory_files_a_full_dev_shm_is_noticed(monkeypatch, is_full):
    """Batches go through an unlinked file there, or, told once, through the pipe."""

    def fallocate(descriptor, offset, size):
        assert size > 0
        if is_full:
            raise OSError(28, "No space left on device")

    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(os, "posix_fallocate", fallocate if is_full else os.posix_fallocate)
    monkeypatch.setattr(transport, "_has_warned", False)
    loader = DataLoader([np.full(200_000, index) for index in range(5)], 2, num_workers=2)
    with (
        pytest.warns(UserWarning, match="No space left.*docker run --shm-size") if is_full else contextlib.nullcontext()
    ):
        batches = list(loader)
    assert [batch[:, -1].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_without_memory_files_arrays_still_arrive(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    batches = list(DataLoader([np.full(200_000, index) for index in range(5)], 2, num_workers=2))
    assert [batch[:, -1].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_when_memory_files_run_out_arrays_go_through_the_pipe(monkeypatch):
    def refuse(name):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    monkeypatch.setattr(transport, "_has_warned", False)
    loader = DataLoader([np.full(20_000, index) for index in range(5)], 2, num_workers=2)
    with pytest.warns(UserWarning, match=r"no shared memory .*Too many open files.*ulimit -n") as caught:
        batches = [*loader, *loader]
    assert (
        sum("no shared memory" in str(warning.message) for warning in caught) == 1
    )  # Python 3.12 warns of forks besides
    assert [batch[:, -1].tolist() for batch in batches] == [[0, 1], [2, 3], [4]] * 2


@pytest.mark.parametrize("workers", WORKERS)
def test_padded_batches(workers):
    sampler = BucketBatchSampler([i % 7 for i in range(23)], 4, generator=dg.Generator().manual_seed(1))
    got = list(DataLoader(Variable(), batch_sampler=sampler, collate_fn=collate_pad(padding_value=-1), **workers))
    assert len(got) == 6
    for padded, lengths, labels in got:
        assert padded.shape == (len(lengths), max(lengths.tolist()))
        assert (padded.numpy() != -1).sum(1).tolist() == lengths.tolist()
        assert labels.shape == lengths.shape


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method):
    expected = epochs(Noisy(9), 2, batch_size=2, shuffle=True)
    options = {"batch_size": 2, "shuffle": True, "multiprocessing_context": method}
    assert epochs(Noisy(9), 2, num_workers=2, persistent_workers=True, **options) == expected
    assert epochs(Noisy(9), 2, num_workers=4, batch_size=2, shuffle=True) == expected
    expected = epochs(Noisy(5), 1, batch_size=2)
    context = multiprocessing.get_context("fork")
    assert epochs(Noisy(5), 1, batch_size=2, num_workers=1, multiprocessing_context=context) == expected


def test_out_of_order_gives_every_batch_once():
    batches = list(DataLoader(range(40), 3, num_workers=3, in_order=False))
    assert sorted(flat(plain(batches))) == list(range(40))


# --- iterable data sets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("batch_size, drop_last", [(4, False), (4, True), (1, False), (None, False), (20, True)])
def test_streams(batch_size, drop_last, workers):
    count = workers["num_workers"] or 1
    parts = [list(range(first, 11, count)) for first in range(count)]
    if batch_size is None:
        expected = sorted(range(11))
    else:
        cut = [part[start : start + batch_size] for part in parts for start in range(0, len(part), batch_size)]
        expected = sorted(batch for batch in cut if len(batch) == batch_size or not drop_last)
    loader = DataLoader(
        NoisyStream(), batch_size, drop_last=drop_last, collate_fn=lambda x: x if batch_size else x[0], **workers
    )
    for _ in range(2):
        got = [[sample[0] for sample in batch] if batch_size else batch for batch in loader]
        assert sorted(got) == expected


def test_streams_of_workers_take_turns():
    got = [batch[0].tolist() for batch in DataLoader(NoisyStream(9), 2, num_workers=2)]
    assert got == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]


def test_a_stream_that_is_longer_than_it_said():
    class Liar(NoisyStream):
        def __len__(self):
            return 3

    loader = DataLoader(Liar(), 2)
    assert len(loader) == 2
    assert len(DataLoader(Liar(), 2, drop_last=True)) == 1
    assert len(DataLoader(Liar(), None)) == 3
    with pytest.warns(UserWarning, match="reported to be 3 .* but more than 4 samples"):
        assert len(list(loader)) == 6
    with pytest.warns(UserWarning, match="reported to be 3 .* but more than 4 samples"):
        loader = DataLoader(Liar(5), 2)
        assert len(loader) == 2 and len(list(loader)) == 3  # by the first batch that is too many


# --- random numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS[1:])
@pytest.mark.parametrize(
    "options",
    [
        {"dataset": Noisy(), "batch_size": 3, "shuffle": True},
        {"dataset": Noisy(), "batch_size": None},
        {"dataset": Noisy(), "batch_size": 3, "collate_fn": noisy_collate},
        {"dataset": Noisy(), "batch_size": 4, "sampler": [5] * 9},
        {"dataset": Noisy(), "sampler": WeightedRandomSampler([1.0] * 11, 9)},
        {"dataset": NoisyAtOnce(), "batch_size": 3},
        {"dataset": Subset(Noisy(), [7, 3, 5]), "batch_size": 2},
        {"dataset": StackDataset(Noisy(4), range(4)), "batch_size": 2},
    ],
)
def test_random_samples_are_the_same_with_any_number_of_workers(options, workers):
    dg.manual_seed(3)
    assert epochs(**options, **workers) == epochs(**options)


def test_a_stream_is_the_same_in_one_worker_as_in_none():
    expected = epochs(NoisyStream(), batch_size=3)
    for workers in (WORKERS[1], {"num_workers": 1, "persistent_workers": True}):
        assert epochs(NoisyStream(), batch_size=3, **workers) == expected
    smaller = [sample for batch in epochs(NoisyStream(), 1, batch_size=2)[0] for sample in zip(*batch)]
    assert smaller == [sample for batch in expected[0] for sample in zip(*batch)]


def test_random_samples_depend_on_seed_epoch_and_index_only():
    def by_index(**options):
        first, second = epochs(Noisy(), collate_fn=identity, **options)
        return [{sample[0]: sample for batch in epoch for sample in batch} for epoch in (first, second)]

    in_order = by_index(batch_size=2)
    assert by_index(batch_size=5, sampler=SequentialSampler(range(11))) == in_order
    assert by_index(batch_size=2, seed=4) != in_order
    samples = [*in_order[0].values(), *in_order[1].values()]
    for column in (1, 2, 3):
        assert len({sample[column] for sample in samples}) == 22


def test_a_sample_that_comes_twice_is_augmented_differently():
    ((batch,),) = epochs(Noisy(), 1, batch_size=4, sampler=[5, 5, 5, 5])
    assert len(set(batch[1])) == 4


@pytest.mark.parametrize("draws_before", [0, 1, 2])
def test_the_programs_generators_are_left_alone(draws_before):
    def state():
        return repr((random.getstate(), np.random.get_state(), dg.default_generator.state()))

    np.random.seed(5)
    random.seed(5)
    for _ in range(draws_before):
        np.random.standard_normal(), random.gauss(0, 1)
    for dataset in (Noisy(), NoisyStream()):
        iterator = iter(DataLoader(dataset, 2))
        next(iterator)
        before = state()
        next(iterator)
        assert state() == before
    np.random.seed(5)
    expected = np.random.standard_normal(draws_before + 3)[draws_before:]
    np.random.seed(5)
    for _ in range(draws_before):
        np.random.standard_normal()
    next(iter(DataLoader(Noisy(), 2)))
    assert [np.random.standard_normal() for _ in range(3)] == expected.tolist()


def test_the_programs_generators_are_left_alone_when_numpys_is_another_kind():
    usual = np.random.get_bit_generator()
    other = np.random.PCG64(3)
    np.random.set_bit_generator(other)
    try:
        expected = np.random.random(4)
        other.state = np.random.PCG64(3).state
        np.random.random(2)
        batch = next(iter(DataLoader(Noisy(), 2)))
        assert np.random.get_bit_generator() is other
        assert np.random.random(2).tolist() == expected[2:].tolist()
    finally:
        np.random.set_bit_generator(usual)
    dg.manual_seed(0)
    assert batch[0].tolist() == [0, 1]


def test_undisturbed_gives_back_after_an_error():
    before = random.getstate()
    with pytest.raises(ZeroDivisionError), Undisturbed():
        seed_all(1)
        raise ZeroDivisionError
    assert random.getstate() == before


def test_indices_of_any_kind_have_seeds():
    seeds = {sample_seed(1, index) for index in (0, 1, -1, 2**40, "a", "b", (0, 1), None)}
    assert len(seeds) == 8
    assert sample_seed(1, np.int64(5)) == sample_seed(1, 5) != sample_seed(1, 5, 0)


def test_worker_seeds_follow_pytorch():
    class Info(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            info = get_worker_info()
            return info.id, info.num_workers, info.seed, len(info.dataset), Info.initial

    def remember(worker_id):
        Info.initial = (dg.initial_seed(), worker_id)

    assert get_worker_info() is None
    got = [batch[0] for batch in DataLoader(Info(), num_workers=2, collate_fn=identity, worker_init_fn=remember)]
    assert [info[:2] for info in got] == [(0, 2), (1, 2)] * 2
    assert got[1][2] == got[0][2] + 1
    assert got[0][3] == 4
    assert got[1][4] == (got[1][2], 1)


def test_seeds_of_samples_fit_into_a_tensor():
    class Seeds(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            dg.rand(1)  # so that each sample is seeded
            return dg.initial_seed()

    seeds = dg.cat(list(DataLoader(Seeds(), batch_size=8, num_workers=2)))
    assert len(set(seeds.tolist())) == 64


# --- workers across epochs -------------------------------------------------------------------------------------------------


class Where(Dataset):
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return os.getpid(), self.epoch, index


def test_persistent_workers_stay_and_see_the_epoch():
    dataset = Where()
    loader = DataLoader(dataset, 2, num_workers=2, persistent_workers=True, collate_fn=identity)
    pids = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        samples = [sample for batch in loader for sample in batch]
        assert [sample[1:] for sample in samples] == [(epoch, index) for index in range(8)]
        pids.append({sample[0] for sample in samples})
    assert pids[0] == pids[1] == pids[2]
    assert os.getpid() not in pids[0]


def test_persistent_workers_start_an_epoch_after_a_break():
    loader = DataLoader(range(50), 2, num_workers=2, persistent_workers=True)
    for _ in range(4):
        assert next(iter(loader)).tolist() == [0, 1]
    assert flat(plain(list(loader))) == list(range(50))


def test_workers_that_do_not_persist_are_new_each_epoch():
    loader = DataLoader(Where(), 8, num_workers=1, collate_fn=identity)
    first, second = ({sample[0] for batch in loader for sample in batch} for _ in range(2))
    assert not first & second


def test_two_iterations_at_once():
    loader = DataLoader(range(6), 2, num_workers=1)
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=True)] == [
        ([i, i + 1],) * 2 for i in (0, 2, 4)
    ]


def test_a_finished_iteration_stays_finished():
    for workers in WORKERS:
        iterator = iter(DataLoader([1], **workers))
        assert len(iterator) == 1
        next(iterator)
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(iterator)


def test_a_worker_computes_in_one_thread_after_the_program_used_many():
    class Product(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            x = np.ones((200, 200), np.float32)
            return float((x @ x).sum()), os.environ["OMP_NUM_THREADS"]

    np.ones((500, 500)) @ np.ones((500, 500))
    for total, threads in DataLoader(Product(), None, num_workers=2):
        assert (total, threads) == (8e6, "1")


# --- the way out -----------------------------------------------------------------------------------------------------------


def descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_nothing_is_left_after_break_end_and_garbage_collection():
    loader = DataLoader([np.ones(5000)] * 20, 2, num_workers=2)
    list(loader)
    before = descriptors()
    for _ in range(5):
        for _ in loader:
            break
        next(iter(loader))
        list(loader)
    iterator = iter(loader)
    end = weakref.ref(iterator)
    del iterator
    gc.collect()
    assert end() is None
    assert multiprocessing.active_children() == []
    assert descriptors() == before


def test_nothing_is_left_after_an_error_in_the_program():
    def program():
        for _ in DataLoader(range(20), num_workers=2):
            raise KeyError

    with pytest.raises(KeyError):
        program()
    gc.collect()
    assert multiprocessing.active_children() == []


def test_importing_is_light():
    text = "import sys, dynograd.data; print([m for m in ('multiprocessing', 'socket', 'queue', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


_COLLATES = {
    "pad_sequence": "nn.utils.rnn.pad_sequence(rows, batch_first=True)",
    "pad": "dynograd.stack([nn.functional.pad(x, (0, 0, 0, 9 - len(x))) for x in rows])",
    "cat": "dynograd.cat(rows)",
    "places": "[out.__setitem__((n, slice(len(x))), x) for out in [dynograd.zeros(4, 9, 2)] for n, x in enumerate(rows)]",
    "pieces": "dynograd.stack([x[0].clone() for x in rows]), [x.sum(0) for x in rows], [x.split(1) for x in rows]",
    "plain": "dynograd.tensor([len(x) for x in rows]), [x.numpy() for x in rows], dynograd.as_tensor([1.0] * 4)",
}


@pytest.mark.parametrize("name", _COLLATES)
def test_workers_that_pad_and_copy_never_load_numba(name):
    """Which costs 0.5 s and 120 MB each; however many calls they make."""
    text = f"""
import sys
import numpy, dynograd
from dynograd import nn
from dynograd.kernels.small import few_cpu
few_cpu.SMALL_CALLS = 20
def collate(rows):
    batch = {_COLLATES[name]}
    return batch, "numba" in sys.modules
rows = [dynograd.tensor(numpy.ones((5 + n % 4, 2))) for n in range(4)]
for batch, loaded in dynograd.data.DataLoader(rows * 100, 4, collate_fn=collate, num_workers=1, multiprocessing_context="fork"):
    if loaded:
        print("loaded")
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


# --- arguments -------------------------------------------------------------------------------------------------------------

STREAM, RANDOM = NoisyStream(), RandomSampler("ab")


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative, got -1"),
        ({"timeout": -2}, ValueError, "timeout option should be non-negative, got -2"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
        ({"prefetch_factor": -1, "num_workers": 1}, ValueError, "prefetch_factor option should be positive, got -1"),
        ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
        ({"dataset": STREAM, "shuffle": True}, ValueError, "expected unspecified shuffle option, but got shuffle=True"),
        ({"dataset": STREAM, "sampler": [1]}, ValueError, r"unspecified sampler option, but got sampler=\[1\]"),
        (
            {"dataset": STREAM, "batch_sampler": [[1]]},
            ValueError,
            r"unspecified batch_sampler option, but got batch_sampler=\[\[1\]\]",
        ),
        ({"sampler": RANDOM, "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
        (
            {"batch_sampler": [[0]], "batch_size": 2},
            ValueError,
            "mutually exclusive with batch_size, .* got batch_size=2",
        ),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, ValueError, "positive integer value, but got batch_size=0"),
        ({"dataset": [], "shuffle": True}, ValueError, "num_samples=0"),
        (
            {"multiprocessing_context": "fork"},
            ValueError,
            r"only be used with multi-process loading \(num_workers > 0\)",
        ),
        (
            {"multiprocessing_context": "x", "num_workers": 1},
            ValueError,
            "valid start method in .* got multiprocessing_context='x'",
        ),
        (
            {"multiprocessing_context": 3, "num_workers": 1},
            TypeError,
            "valid context object .* multiprocessing_context=3",
        ),
    ],
)
def test_arguments_refused(options, error, words):
    with pytest.raises(error, match=words):
        DataLoader(**({"dataset": range(3)} | options))


def test_attributes_are_pytorchs():
    loader = DataLoader(range(4), 2, True, num_workers=2, pin_memory=True, timeout=3)
    assert (loader.batch_size, loader.num_workers, loader.prefetch_factor, loader.drop_last) == (2, 2, 2, False)
    assert isinstance(loader.sampler, RandomSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert (loader.collate_fn, loader.multiprocessing_context) == (default_collate, None)
    assert DataLoader(range(4)).prefetch_factor is None
    for name in ("batch_size", "dataset", "sampler", "batch_sampler", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.timeout = 5


def test_public_attributes_are_arguments_of_another_loader():
    loader = DataLoader(range(4), batch_sampler=BatchSampler(range(4), 3, False), collate_fn=tuple)
    arguments = {name: value for name, value in vars(loader).items() if not name.startswith("_")}
    for name in ("batch_size", "sampler", "drop_last"):  # what goes without a batch_sampler only
        del arguments[name]
    assert list(DataLoader(**arguments)) == [(0, 1, 2), (3,)]


def test_subclasses():
    class Mine(DataLoader):
        def __init__(self, dataset, **options):
            self.length = len(dataset)
            super().__init__(dataset, collate_fn=self.collate, **options)

        def collate(self, samples):
            return self.length, samples

    assert list(Mine("abc", batch_size=2, num_workers=1)) == [(3, ["a", "b"]), (3, ["c"])]


def test_long_lists_of_indices_are_shortened():
    assert fetching.shown([1, 2]) == "[1, 2]"
    assert fetching.shown(list(range(100))).endswith("63, ... 36 more]")


class DrawsLate(Dataset):
    """Only samples with certain indices draw, each from another generator; counts readings in this process."""

    readings = 0

    def __len__(self):
        return 200

    def __getitem__(self, index):
        DrawsLate.readings += 1
        drawn = {61: random.random, 62: np.random.rand, 150: lambda: dg.rand(1).item(), 199: random.random}.get(index)
        return index, drawn() if drawn else 0.0


@pytest.mark.parametrize("workers", WORKERS)
def test_samples_that_begin_to_draw_late_are_seeded_too(workers):
    dg.manual_seed(3)
    (expected,) = epochs(DrawsLate(), 1, batch_size=200)  # all within the trials
    (batches,) = epochs(DrawsLate(), 1, batch_size=5, **workers)
    seen = {index: value for batch in batches for index, value in zip(*batch)}
    drawn = dict(zip(*expected[0]))
    assert {index: seen[index] for index in drawn} == drawn
    assert len({drawn[index] for index in (61, 62, 150, 199)}) == 4


def test_samples_that_do_not_draw_are_read_once():
    DrawsLate.readings = 0
    list(DataLoader(Subset(DrawsLate(), range(60)), 5))
    assert DrawsLate.readings == 60
    DrawsLate.readings = 0
    list(DataLoader(DrawsLate(), 5))
    assert 200 < DrawsLate.readings <= 200 + 3 * 5  # once again for each generator


class DrawsOften(Dataset):
    """All samples but the first draw."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return index, random.random() + np.random.rand() if index else 0.0


@pytest.mark.parametrize("batch_size", [1, 2, 3, 40])
def test_what_a_sample_draws_does_not_depend_on_its_batch(batch_size):
    dg.manual_seed(7)
    (single,) = epochs(DrawsOften(), 1, batch_size=1)
    (batches,) = epochs(DrawsOften(), 1, batch_size=batch_size)
    assert [value for batch in batches for value in batch[1]] == [value for batch in single for value in batch[1]]
    assert len({value for batch in batches for value in batch[1]}) == 40


def test_names_of_samples_and_batches_in_annotations():
    class Pairs(DataLoader[tuple[int, int]]):
        pass

    assert DataLoader[int].__args__ == (int,) and DataLoader[int, list].__args__ == (int, list)
    assert [element.tolist() for element in next(iter(Pairs([(0, 1)])))] == [[0], [1]]


def test_one_batch_ahead_is_allowed():
    assert DataLoader([1, 2], num_workers=1, prefetch_factor=1).prefetch_factor == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_whether_pythons_generator_was_drawn_from(is_known, monkeypatch):
    """Told by its memory, and by its whole state where that looks otherwise than expected."""
    source = generators.PythonSource()
    assert source.is_known
    monkeypatch.setattr(source, "is_known", is_known)
    source.seed(3)
    source.mark()
    saved = source.save()
    assert not source.moved()
    first = random.random()
    assert source.moved()
    source.restore(saved)
    assert not source.moved() and random.random() == first


@pytest.mark.parametrize("batch_size, samples", [(2, 5), (None, 5)])
def test_samples_are_counted(batch_size, samples):
    loader = DataLoader(range(5), batch_size)
    list(loader)
    assert loader.statistics.samples == samples
