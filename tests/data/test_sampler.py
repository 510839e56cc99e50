"""Samplers: which indices, in which order, in which batches."""

import collections

import numpy as np
import pytest

import dynograd as dg
from dynograd.data import (
    BatchSampler,
    BucketBatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TokenBatchSampler,
    WeightedRandomSampler,
)


def seeded(seed):
    return dg.Generator().manual_seed(seed)


def test_sampler_is_a_base_to_subclass():
    class Fixed(Sampler[int]):
        def __init__(self, source):
            super().__init__(source)

        def __iter__(self):
            return iter([4, 2])

    assert list(Fixed("ab")) == [4, 2]
    with pytest.raises(NotImplementedError, match="needs __iter__"):
        iter(Sampler())


def test_sequential_sampler():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert len(SequentialSampler("abc")) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda generator: RandomSampler(range(50), generator=generator),
        lambda generator: RandomSampler(range(50), replacement=True, generator=generator),
        lambda generator: SubsetRandomSampler(list(range(50)), generator=generator),
        lambda generator: WeightedRandomSampler([1.0] * 50, 50, generator=generator),
        lambda generator: BucketBatchSampler(range(1, 51), 4, generator=generator),
        lambda generator: TokenBatchSampler(range(1, 51), 100, generator=generator),
    ],
)
def test_random_samplers_follow_their_generator(make):
    first = list(make(seeded(1)))
    assert first == list(make(seeded(1)))
    assert first != list(make(seeded(2)))
    dg.manual_seed(5)
    by_default = make(None)
    epochs = [list(by_default), list(by_default)]
    assert epochs[0] != epochs[1]
    dg.manual_seed(5)
    assert epochs == [list(sampler) for sampler in [make(None)] * 2]


@pytest.mark.parametrize("size, wanted", [(5, 5), (5, 3), (5, 12), (1, 1)])
def test_random_sampler_without_replacement_goes_round(size, wanted):
    sampler = RandomSampler(range(size), num_samples=wanted)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == wanted
    counts = collections.Counter(drawn)
    assert set(counts) <= set(range(size))
    assert max(counts.values()) - min([counts[index] for index in range(size)]) <= 1


def test_random_sampler_with_replacement_draws_as_many_as_asked():
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=2500))
    assert len(drawn) == 2500
    assert set(drawn) == {0, 1, 2}


def test_random_sampler_sees_a_growing_source():
    source = [0, 1]
    sampler = RandomSampler(source)
    source += [2, 3]
    assert sorted(sampler) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: RandomSampler([1], replacement=1), TypeError, "boolean value, but got replacement=1"),
        (lambda: RandomSampler([1], num_samples=0), ValueError, "positive integer value, but got num_samples=0"),
        (lambda: RandomSampler([1], num_samples=1.5), ValueError, "num_samples=1.5"),
        (lambda: RandomSampler([]), ValueError, "num_samples=0: the dataset is empty"),
        (lambda: WeightedRandomSampler([1.0], 0), ValueError, "num_samples=0"),
        (lambda: WeightedRandomSampler([1.0], True), ValueError, "num_samples=True"),
        (lambda: WeightedRandomSampler([1.0], 1, replacement=2), ValueError, "replacement=2"),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError, r"1d sequence but given weights have shape \(1, 1\)"),
        (lambda: BatchSampler([1], 0, False), ValueError, "positive integer value, but got batch_size=0"),
        (lambda: BatchSampler([1], True, False), ValueError, "batch_size=True"),
        (lambda: BatchSampler([1], 1, None), ValueError, "drop_last=None"),
        (lambda: BucketBatchSampler([1], 0), ValueError, "batch_size=0"),
        (lambda: BucketBatchSampler([1], 1, pool=0), ValueError, "pool=0"),
        (lambda: BucketBatchSampler([1], 1, max_tokens=-1), ValueError, "max_tokens=-1"),
        (lambda: BucketBatchSampler([1], 1, drop_last=True, max_tokens=4), ValueError, "drop_last=True"),
        (lambda: BucketBatchSampler([], 1), ValueError, r"got shape \(0,\)"),
        (lambda: BucketBatchSampler([1, -1], 1), ValueError, "number >= 0 per sample"),
        (lambda: BucketBatchSampler(["a"], 1), ValueError, "number >= 0 per sample"),
        (lambda: DistributedSampler("ab", 2, 2), ValueError, r"Invalid rank 2, .* interval \[0, 1\]"),
    ],
)
def test_samplers_refuse(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_subset_random_sampler_gives_each_once():
    assert sorted(SubsetRandomSampler([9, 5, 7])) == [5, 7, 9]
    assert len(SubsetRandomSampler([9, 5, 7])) == 3


def test_weighted_sampler_draws_in_proportion():
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    counts = collections.Counter(drawn)
    assert counts[0] == 0
    assert 2.5 < counts[2] / counts[1] < 3.6
    assert sorted(WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batch_sampler_cuts_and_counts(size, drop_last):
    sampler = BatchSampler(SequentialSampler(range(size)), 3, drop_last)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert [index for batch in batches for index in batch] == list(range(size - size % 3 if drop_last else size))
    assert all(len(batch) == 3 for batch in batches[:-1])


def test_may_repeat_is_known_where_it_matters():
    for sampler, expected in [
        (SequentialSampler("ab"), False),
        (RandomSampler("ab"), False),
        (RandomSampler("ab", num_samples=3), True),
        (RandomSampler("ab", replacement=True), True),
        (WeightedRandomSampler([1.0], 1), True),
        (BatchSampler(SequentialSampler("ab"), 1, False), False),
        (BatchSampler([0, 0], 1, False), True),
        (BucketBatchSampler([1], 1), False),
    ]:
        assert sampler.may_repeat is expected


LENGTHS = np.random.default_rng(0).integers(1, 100, 1003)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size, pool", [(8, None), (8, 8), (8, 20), (1, 1), (2000, None)])
def test_bucket_sampler_gives_each_sample_once(shuffle, drop_last, batch_size, pool):
    sampler = BucketBatchSampler(LENGTHS, batch_size, shuffle, drop_last, pool)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    drawn = [index for batch in batches for index in batch]
    assert len(set(drawn)) == len(drawn) == (1003 // batch_size * batch_size if drop_last else 1003)
    assert sum(len(batch) != batch_size for batch in batches) <= 1


def test_bucket_sampler_pads_little_and_mixes_epochs():
    def padding(batches):
        return sum(LENGTHS[batch].max() * len(batch) for batch in batches) / LENGTHS.sum() - 1

    sampler = BucketBatchSampler(dg.tensor(LENGTHS), 16)
    first, second = list(sampler), list(sampler)
    assert padding(first) < 0.05 < 0.5 < padding(BatchSampler(RandomSampler(LENGTHS), 16, False))
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    longest = [LENGTHS[batch].max() for batch in first]
    assert np.abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.5  # batches are not given by length


def test_bucket_sampler_set_epoch_fixes_the_order():
    sampler = BucketBatchSampler(LENGTHS, 16)
    sampler.set_epoch(3)
    third = list(sampler)
    sampler.set_epoch(4)
    assert list(sampler) != third
    sampler.set_epoch(3)
    assert list(sampler) == third


def test_bucket_sampler_keeps_a_token_budget():
    sampler = BucketBatchSampler([*LENGTHS, 700], 64, max_tokens=500)
    assert len(sampler) == len(list(sampler))
    batches = list(sampler)
    lengths = np.append(LENGTHS, 700)
    assert sorted(index for batch in batches for index in batch) == list(range(1004))
    assert all(len(batch) * lengths[batch].max() <= 500 or len(batch) == 1 for batch in batches)
    assert max(len(batch) for batch in batches) <= 64


@pytest.mark.parametrize("size, drop_last", [(10, False), (11, False), (11, True), (12, True), (2, False)])
def test_distributed_samplers_share_an_epoch(size, drop_last):
    samplers = [DistributedSampler(range(size), 3, rank, drop_last=drop_last, seed=7) for rank in range(3)]
    parts = [list(sampler) for sampler in samplers]
    assert [len(part) for part in parts] == [len(sampler) for sampler in samplers]
    assert len({len(part) for part in parts}) == 1
    drawn = [index for part in parts for index in part]
    if drop_last:
        assert len(set(drawn)) == len(drawn) == size // 3 * 3
    else:
        assert set(drawn) == set(range(size))


def test_distributed_sampler_changes_with_the_epoch_only():
    sampler = DistributedSampler(range(20), 2, 0)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(DistributedSampler(range(4), 2, 1, shuffle=False)) == [1, 3]


def test_distributed_sampler_reads_the_launcher(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(
        RuntimeError,
        match="num_replicas is not given, there is no process group, and the environment has no WORLD_SIZE",
    ):
        DistributedSampler(range(4))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert list(DistributedSampler(range(4), shuffle=False)) == [1, 3]


def test_distributed_sampler_reads_the_group_before_the_launcher(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    dg.distributed.init_process_group("gloo", world_size=1, rank=0)
    try:
        assert list(DistributedSampler(range(4), shuffle=False)) == [0, 1, 2, 3]
    finally:
        dg.distributed.destroy_process_group()


# --- batches by tokens -----------------------------------------------------------------------------------------------------

LOGNORMAL = np.clip(np.random.default_rng(1).lognormal(3, 0.6, 3000), 1, 300).astype(int)


@pytest.mark.parametrize(
    "max_tokens, batch_size, pool", [(512, None, None), (64, None, 100), (2000, 16, None), (100, 1, 7)]
)
def test_token_batches_keep_to_their_budget(max_tokens, batch_size, pool):
    sampler = TokenBatchSampler(LOGNORMAL, max_tokens, batch_size, pool=pool)
    for _ in range(2):
        expected = len(sampler)
        batches = list(sampler)
        assert len(batches) == expected
        assert sorted(index for batch in batches for index in batch) == list(range(3000))
        for batch in batches:
            assert len(batch) * LOGNORMAL[batch].max() <= max_tokens or len(batch) == 1
            assert len(batch) <= (batch_size or 3000)


def test_token_batches_pad_little():
    """With a pool of many batches less than a tenth is padding; in batches of any sentences it is most."""

    def padding(batches):
        return 1 - LOGNORMAL.sum() / sum(len(batch) * LOGNORMAL[batch].max() for batch in batches)

    assert padding(TokenBatchSampler(LOGNORMAL, 1000)) < 0.1
    assert padding(BatchSampler(RandomSampler(LOGNORMAL), 32, False)) > 0.5


def test_token_batches_of_zero_lengths():
    assert list(TokenBatchSampler([0, 0, 0], 5, shuffle=False)) == [[0, 1, 2]]
    assert list(TokenBatchSampler([0, 0, 0], 5, batch_size=2, shuffle=False)) == [[0, 1], [2]]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"max_tokens": 0}, "TokenBatchSampler: max_tokens should be a positive integer value, but got max_tokens=0"),
        ({"max_tokens": 5, "batch_size": -1}, "TokenBatchSampler: batch_size .* got batch_size=-1"),
        ({"max_tokens": 5, "pool": 0}, "TokenBatchSampler: pool .* got pool=0"),
        ({"max_tokens": 5, "lengths": [-1]}, "TokenBatchSampler: lengths should be one number >= 0 per sample"),
        ({"max_tokens": 5, "lengths": []}, "at least one"),
    ],
)
def test_token_batch_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        TokenBatchSampler(**({"lengths": [1, 2]} | options))


def test_token_batches_of_an_epoch_are_the_same_again():
    sampler = TokenBatchSampler(LOGNORMAL, 500)
    orders = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        len(sampler)
        orders.append(list(sampler))
    assert orders[0] == orders[2] != orders[1]
