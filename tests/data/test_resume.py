"""state_dict and load_state_dict: an epoch that is interrupted anywhere goes on exactly, with any number of workers, any number of times."""

import json
import os
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dynograd as dg
from dynograd.data import (
    BatchSampler,
    BucketBatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    DistributedTokenBatchSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    TokenBatchSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from dynograd.errors import LoaderError

SIZE = 23


class Noisy(Dataset):
    """Each sample is its index and a number from each of the three global generators."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return index, random.random(), np.random.standard_normal(), dg.rand(1).item()


class NoisyStream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, SIZE, step):
            yield index, random.random(), np.random.rand()


class Shuffled(Sampler):
    """A user's sampler that shuffles its own list a little more each epoch, with Python's generator."""

    def __init__(self, size):
        self.indices = list(range(size))
        self.epochs = 0

    def __iter__(self):
        self.epochs += 1
        random.shuffle(self.indices)
        return iter(self.indices[: SIZE - self.epochs])

    def __len__(self):
        return SIZE


class WithNumpy(Sampler):
    """A user's batch sampler with a generator of its own, which it draws from as it goes."""

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def __iter__(self):
        for _ in range(6):
            yield self.rng.integers(0, SIZE, 3).tolist()

    def __len__(self):
        return 6


class WithGenerators(Sampler):
    """A user's batch sampler with generators of its own of other kinds, which it draws from as it goes."""

    def __init__(self):
        self.python, self.bits, self.old = (
            random.Random(5),
            np.random.Generator(np.random.MT19937(5)),
            np.random.RandomState(5),
        )

    def __iter__(self):
        for _ in range(6):
            numbers = self.python.gauss(0, 9), self.bits.normal() * 9, self.old.normal() * 9
            yield [int(number) % SIZE for number in numbers]

    def __len__(self):
        return 6


class Remembers(Sampler):
    """A user's sampler that tells its state; after load_state_dict its next __iter__ goes on in the middle."""

    def __init__(self):
        self.place, self.epoch, self.iterations = 0, 0, 0

    def __iter__(self):
        self.iterations += 1
        while self.place < SIZE:
            self.place += 1
            yield (self.place * 7 + self.epoch) % SIZE
        self.place = 0
        self.epoch += 1

    def state_dict(self):
        return {"place": self.place, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.place, self.epoch = state["place"], state["epoch"]


LENGTHS = [(7 * index) % 11 + 1 for index in range(SIZE)]
LOADERS = {
    "in order": lambda: {"batch_size": 3},
    "shuffled": lambda: {"batch_size": 3, "shuffle": True},
    "own generator": lambda: {"batch_size": 3, "shuffle": True, "generator": dg.Generator().manual_seed(8)},
    "single samples": lambda: {"batch_size": None, "shuffle": True},
    "with replacement": lambda: {"batch_size": 4, "sampler": RandomSampler(range(SIZE), True, 30)},
    "with replacement, own generator": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(SIZE), True, 30, generator=dg.Generator().manual_seed(2)),
    },
    "weighted": lambda: {"batch_size": 2, "sampler": WeightedRandomSampler(range(1, SIZE + 1), 17)},
    "subset": lambda: {"batch_size": 2, "sampler": SubsetRandomSampler(range(4, 19))},
    "buckets": lambda: {"batch_sampler": BucketBatchSampler(LENGTHS, 4, pool=8)},
    "tokens": lambda: {"batch_sampler": TokenBatchSampler(LENGTHS, 30, pool=8)},
    "tokens of processes": lambda: {"batch_sampler": DistributedTokenBatchSampler(LENGTHS, 15, 2, 1)},
    "distributed": lambda: {"batch_size": 2, "sampler": DistributedSampler(range(SIZE), 2, 1)},
    "user's list": lambda: {"batch_size": 3, "sampler": Shuffled(SIZE)},
    "user's batches": lambda: {"batch_sampler": WithNumpy()},
    "user's batches of several generators": lambda: {"batch_sampler": WithGenerators()},
    "user's within batches": lambda: {"batch_sampler": BatchSampler(Shuffled(SIZE), 4, True)},
    "user's with state": lambda: {"batch_size": 3, "sampler": Remembers()},
}
WORKERS = [{}, {"num_workers": 1}, {"num_workers": 2}, {"num_workers": 4, "prefetch_factor": 3}]


def plain(batch):
    return [element.tolist() if hasattr(element, "tolist") else element for element in batch]


def seeded():
    dg.manual_seed(3)
    random.seed(3)
    np.random.seed(3)


def states():
    return random.getstate(), np.random.get_state(legacy=False), dg.default_generator.state()


def set_states(saved):
    random.setstate(saved[0])
    np.random.set_state(saved[1])
    dg.default_generator.set_plain_state(saved[2])


def through_a_file(state):
    """What JSON makes of it: arrays as lists, tuples as lists."""
    return json.loads(json.dumps(state, default=lambda value: value.tolist()))


def train(loader, epochs, stop_after=None, epoch=0):
    """A training loop that draws, too; (batches, (epoch, state of the loader and of the generators) where it was stopped)."""
    seen = []
    while epoch < epochs:
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        for batch in loader:
            seen.append(plain(batch))
            dg.rand(2), random.random()
            if len(seen) == stop_after:
                return seen, (epoch, through_a_file(loader.state_dict()), states())
        epoch += 1
    return seen, None


def resumed(make, saved, workers, epochs, stop_after=None):
    """In another process everything would be new: a new loader, and generators that were elsewhere."""
    epoch, state, generators = saved
    dg.manual_seed(99), random.seed(99), np.random.seed(99)
    loader = DataLoader(Noisy(), **make(), **workers)
    loader.load_state_dict(state)
    set_states(generators)
    return train(loader, epochs, stop_after, epoch)


@pytest.mark.parametrize("name", LOADERS)
def test_an_interrupted_epoch_goes_on_exactly(name):
    make = LOADERS[name]
    seeded()
    whole, _ = train(DataLoader(Noisy(), **make()), 3)
    for number, stop_after in enumerate((1, len(whole) // 3, len(whole) // 2 + 1, len(whole) - 1)):
        before, after = WORKERS[number % 3], WORKERS[(number + 1) % 3]
        seeded()
        first, saved = train(DataLoader(Noisy(), **make(), **before), 3, stop_after)
        rest, _ = resumed(make, saved, after, 3)
        assert first + rest == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=int(os.environ.get("DYNOGRAD_DRILLS", 5)))
@given(data=st.data())
def test_any_number_of_interruptions_anywhere(name, data):
    make = LOADERS[name]
    seeded()
    whole, _ = train(DataLoader(Noisy(), **make()), 2)
    seeded()
    stop = data.draw(st.integers(1, len(whole) - 1))
    seen, saved = train(DataLoader(Noisy(), **make(), **data.draw(st.sampled_from(WORKERS))), 2, stop)
    while saved is not None:
        stop = data.draw(st.none() | st.integers(1, 6))
        more, saved = resumed(make, saved, data.draw(st.sampled_from(WORKERS)), 2, stop)
        seen += more
    assert seen == whole


def test_resuming_again_and_again():
    make = LOADERS["shuffled"]
    seeded()
    whole, _ = train(DataLoader(Noisy(), **make()), 2)
    seeded()
    seen, saved = train(DataLoader(Noisy(), **make()), 2, 1)
    turns = 0
    while saved is not None:
        more, saved = resumed(make, saved, WORKERS[turns % 3], 2, 1)
        seen += more
        turns += 1
    assert seen == whole
    assert turns == len(whole)


@pytest.mark.parametrize("batch_size, drop_last", [(3, False), (3, True), (None, False)])
@pytest.mark.parametrize(
    "workers", [({}, {"num_workers": 1}), ({"num_workers": 2}, {"num_workers": 2}), ({"num_workers": 3},) * 2]
)
def test_streams(workers, batch_size, drop_last):
    options = {"dataset": NoisyStream(), "batch_size": batch_size, "drop_last": drop_last}
    before, after = workers
    seeded()
    whole, _ = train(DataLoader(**options, **before), 2)
    for stop_after in (1, len(whole) // 2 - 1, len(whole) // 2, len(whole) - 1):
        seeded()
        first, (epoch, state, generators) = train(DataLoader(**options, **before), 2, stop_after)
        dg.manual_seed(99)
        loader = DataLoader(**options, **after)
        loader.load_state_dict(state)
        set_states(generators)
        rest, _ = train(loader, 2, epoch=epoch)
        assert first + rest == whole


@pytest.mark.parametrize("persistent", [False, True])
def test_loading_into_a_loader_that_is_at_work(persistent):
    """What `rewind` does: the same loader goes back."""
    seeded()
    loader = DataLoader(Noisy(), 3, shuffle=True, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [plain(batch) for batch in batches]
    for _ in range(2):
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        assert [plain(batch) for batch in loader] == rest


def test_an_epoch_that_was_left_is_over():
    seeded()
    loader = DataLoader(Noisy(), 3, shuffle=True)
    for _ in loader:
        break
    state, generators = loader.state_dict(), states()
    assert not state["in_progress"]
    expected = [plain(batch) for batch in loader]
    other = DataLoader(Noisy(), 3, shuffle=True)
    other.load_state_dict(state)
    set_states(generators)
    assert [plain(batch) for batch in other] == expected


def test_after_the_last_batch_nothing_comes():
    loader = DataLoader(range(6), 2)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert list(loader) == []
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


def test_out_of_order_every_batch_comes_once():
    loader = DataLoader(range(60), 2, num_workers=3, in_order=False)
    batches = iter(loader)
    first = [next(batches).tolist() for _ in range(11)]
    state = through_a_file(loader.state_dict())
    del batches
    other = DataLoader(range(60), 2, num_workers=2)
    other.load_state_dict(state)
    rest = [batch.tolist() for batch in other]
    assert sorted(index for batch in first + rest for index in batch) == list(range(60))


def test_a_batch_that_raised_does_not_come_again():
    class Faulty(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index == 3:
                raise KeyError(index)
            return index

    for workers in ({}, {"num_workers": 2}):
        loader = DataLoader(Faulty(), 2, **workers)
        batches = iter(loader)
        next(batches)
        with pytest.raises(KeyError):
            next(batches)
        loader.load_state_dict(loader.state_dict())
        assert [batch.tolist() for batch in loader] == [[4, 5], [6, 7]]


@pytest.mark.parametrize("sampler", [None, Shuffled(SIZE)], ids=["shuffle", "the user's"])
def test_the_order_is_drawn_before_the_program_goes_on(sampler):
    """As in an epoch that was not interrupted: what is drawn between `iter` and the first batch changes no order."""
    loader = DataLoader(range(SIZE), 3, shuffle=sampler is None, sampler=sampler)
    batches = iter(loader)
    state = loader.state_dict()
    expected = [batch.tolist() for batch in batches]
    loader = DataLoader(range(SIZE), 3, shuffle=sampler is None, sampler=sampler and Shuffled(SIZE))
    loader.load_state_dict(state)
    batches = iter(loader)
    dg.manual_seed(123)
    random.seed(123)
    assert [batch.tolist() for batch in batches] == expected


def test_a_samplers_own_state_is_asked_for_and_it_is_not_run_again():
    loader = DataLoader(range(SIZE), 3, sampler=Remembers(), num_workers=2)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    state = loader.state_dict()
    assert state["sampler"] == {"place": 12, "epoch": 0}  # although the workers are further
    sampler = Remembers()
    other = DataLoader(range(SIZE), 3, sampler=sampler)
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == [batch.tolist() for batch in batches]
    assert sampler.iterations == 1
    other.load_state_dict(other.state_dict())
    assert (sampler.place, sampler.epoch) == (0, 1)


@pytest.mark.parametrize(
    "sampler",
    [TokenBatchSampler(LENGTHS, 30, pool=8), DistributedTokenBatchSampler(LENGTHS, 15, 2, 1)],
    ids=["alone", "one of two processes"],
)
def test_the_length_of_token_batches_is_that_of_the_epoch_under_way(sampler):
    loader = DataLoader(Noisy(), batch_sampler=sampler)
    expected = len(loader)
    batches = iter(loader)
    next(batches)
    before = dg.default_generator.state()
    assert len(loader) == len(batches) == expected
    assert dg.default_generator.state() == before
    sampler.set_epoch(5)  # which has other batches
    assert len(batches) == expected
    assert 1 + len(list(batches)) == expected


def test_the_programs_generators_are_left_alone():
    loader = DataLoader(Noisy(), 3, sampler=Shuffled(SIZE))
    next(iter(loader))
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    before = repr(states())
    loader.load_state_dict(state)
    list(loader)
    assert repr(states()) == before


@pytest.mark.parametrize(
    "state, other, words",
    [
        ("text", {}, "expected what state_dict.* got str"),
        ({"epoch": 3}, {}, r"got a dict with \['epoch'\]"),
        (None, {"batch_size": 5}, "batch_size=4, this loader has 5.* leaving the state out"),
        (None, {"dataset": range(9)}, "samples=10, this loader has 9"),
    ],
)
def test_states_that_do_not_fit(state, other, words):
    if state is None:
        loader = DataLoader(range(10), 4)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    with pytest.raises(LoaderError, match=words):
        DataLoader(**({"dataset": range(10), "batch_size": 4} | other)).load_state_dict(state)


def test_a_streams_workers_must_be_as_many_as_before():
    loader = DataLoader(NoisyStream(), 2, num_workers=2)
    batches = iter(loader)
    next(batches)
    with pytest.raises(LoaderError, match="num_workers=2, this loader has 1"):
        DataLoader(NoisyStream(), 2, num_workers=1).load_state_dict(loader.state_dict())


def test_statistics_go_on():
    loader = DataLoader(TensorDataset(dg.arange(10)), 4)
    batches = iter(loader)
    next(batches)
    other = DataLoader(TensorDataset(dg.arange(10)), 4)
    other.load_state_dict(loader.state_dict())
    list(other)
    assert (other.statistics.batches, other.statistics.samples) == (3, 10)


class FailsFirst(Sampler):
    def __iter__(self):
        raise KeyError("no order")

    def __len__(self):
        return SIZE


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_sampler_is_raised_by_the_first_batch(workers):
    batches = iter(DataLoader(range(SIZE), 3, sampler=FailsFirst(), num_workers=workers))
    with pytest.raises(KeyError, match="no order"):
        next(batches)
