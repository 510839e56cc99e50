"""Batches of several processes with as many tokens in each."""

import numpy as np
import pytest

from dynograd import distributed
from dynograd.data import DistributedTokenBatchSampler

LENGTHS = np.random.default_rng(0).lognormal(3, 0.8, 2000).astype(int) + 1


def epochs(lengths, ranks, **options):
    return [list(DistributedTokenBatchSampler(lengths, 800, ranks, rank, **options)) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[:5], np.full(100, 900), np.zeros(7, int)])
def test_processes_have_as_many_batches_and_tokens(lengths, ranks):
    batches = epochs(lengths, ranks)
    assert len({len(of_rank) for of_rank in batches}) == 1
    for step in zip(*batches):
        tokens = [lengths[batch].sum() for batch in step]
        assert all(step) and max(tokens) - min(tokens) <= max(lengths[batch].max() for batch in step)
        assert sum(tokens) <= 800 * ranks or sum(map(len, step)) == ranks
    seen = sorted(index for of_rank in batches for batch in of_rank for index in batch)
    assert set(seen) == set(range(len(lengths))) and len(seen) < len(lengths) + ranks


def test_a_step_has_as_many_tokens_as_it_may():
    for shuffle in (True, False):
        batches = [list(DistributedTokenBatchSampler([5] * 24, 10, 2, rank, shuffle=shuffle)) for rank in range(2)]
        assert [[len(batch) for batch in of_rank] for of_rank in batches] == [[2] * 6] * 2


def test_tokens_of_a_step_are_nearly_equal():
    steps = list(zip(*epochs(LENGTHS, 4)))[:-1]
    tokens = np.array([[LENGTHS[batch].sum() for batch in step] for step in steps])
    assert (tokens.max(1) / tokens.mean(1)).mean() < 1.01
    assert tokens.mean() > 0.97 * 800


def test_the_order_depends_on_the_epoch_alone():
    sampler = DistributedTokenBatchSampler(LENGTHS, 800, 2, 0, seed=3)
    first, again = list(sampler), list(sampler)
    sampler.set_epoch(1)
    assert first == again != list(sampler) and len(first) > 1


def test_the_last_samples_can_be_left_out():
    assert epochs([900] * 5, 2, shuffle=False, drop_last=True) == [[[0], [2]], [[1], [3]]]
    assert epochs([900] * 5, 2, shuffle=False) == [[[0], [2], [0]], [[1], [3], [4]]]


def test_a_process_knows_its_place():
    samplers = distributed.simulate(lambda: DistributedTokenBatchSampler([1, 2, 3], 5), ranks=3)
    assert [(sampler.rank, sampler.num_replicas) for sampler in samplers] == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": 0}, "DistributedTokenBatchSampler: max_tokens should be a positive integer"),
        ({"rank": 2}, r"DistributedTokenBatchSampler: Invalid rank 2, rank should be in the interval \[0, 1\]"),
        ({"lengths": [-1]}, "DistributedTokenBatchSampler: lengths should be one number >= 0 per sample"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        DistributedTokenBatchSampler(**({"lengths": [1, 2], "max_tokens": 5, "num_replicas": 2, "rank": 0} | options))
