"""freeze: equal samples out of a few shared arrays, in workers too, whose own memory does not grow."""

import collections
import multiprocessing
import os
import pickle

import numpy as np
import pytest

import dynograd as dg
from dynograd.data import DataLoader, Dataset, freeze

Pair = collections.namedtuple("Pair", "words label")
SAMPLES = {
    "ints": [3, -1, 2**40],
    "huge ints": [3, 2**70],
    "floats": [0.5, float("inf")],
    "bools": [True, False],
    "text": ["a", "", "äöü 語", "\ud800"],
    "bytes": [b"a", b"", b"\0\xff"],
    "none": [None, None],
    "mixed": [1, "a", None],
    "lists of ints": [[1, 2], [], [3]],
    "lists of huge ints": [[1, 2**70]],
    "lists of floats": [[1.0], [2.5, 3.5]],
    "lists of ints and floats": [[1, 2.5], [3]],
    "empty lists": [[], []],
    "lists of words": [["a", "b"], [], ["c"]],
    "lists of lists": [[[1], [2, 3]], [[]]],
    "tuples": [("a", 1, [1, 2]), ("b", 2, [])],
    "tuples of different sizes": [(1,), (1, 2)],
    "pairs": [Pair(["a"], 0), Pair(["b", "c"], 1)],
    "dicts": [{"x": 1, "y": {"z": "a"}}, {"x": 2, "y": {"z": "b"}}],
    "dicts with other keys": [{"x": 1}, {"y": 2}],
    "empty dicts": [{}, {}],
    "complex": [1j, 2j],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_equal(name):
    samples = SAMPLES[name]
    frozen = freeze(samples)
    again = pickle.loads(pickle.dumps(frozen))
    for element in (frozen, again):
        assert len(element) == len(samples)
        got = [element[index] for index in range(len(samples))]
        assert got == samples and repr(got) == repr(samples)
        assert list(map(type, got)) == list(map(type, samples))
        assert element[-1] == samples[-1]


@pytest.mark.parametrize(
    "rows",
    [
        [np.arange(3.0), np.zeros(0)],
        [np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)],
        [np.float32([1, 2]), np.float64([3])],
        [np.array(3), np.array(4)],
        [dg.arange(3), dg.arange(0)],
        [dg.ones(2, dtype=dg.bfloat16), dg.zeros(1, dtype=dg.bfloat16)],
        [dg.tensor(1.0), dg.tensor(2.0)],
    ],
)
def test_arrays_and_tensors_are_equal_and_the_readers_own(rows):
    frozen = freeze(rows)
    for index, row in enumerate(rows):
        got = frozen[index]
        assert (type(got), got.dtype, got.shape) == (type(row), row.dtype, row.shape)
        assert got.tolist() == row.tolist()
        got += 1
        assert frozen[index].tolist() == row.tolist()


def test_tensors_that_are_trained_stay_as_they_are():
    rows = [dg.ones(2), dg.ones(3, requires_grad=True)]
    assert [row.requires_grad for row in freeze(rows)] == [False, True]


def test_edges():
    assert len(freeze([])) == 0
    for index in (0, 3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range for length {0 if index == 0 else 3}"):
            freeze([] if index == 0 else [1, 2, 3])[index]
    with pytest.raises(TypeError, match=r"got generator. Pass list"):
        freeze(element for element in "abc")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read_the_same(method):
    frozen = freeze([(f"sentence {index}", [index] * (index % 5)) for index in range(20)])
    loader = DataLoader(frozen, 4, num_workers=2, multiprocessing_context=method, collate_fn=list)
    assert [sample for batch in loader for sample in batch] == [frozen[index] for index in range(20)]


class Private(Dataset):
    """Reads a sample, and says how much memory the reading process has for itself alone, in bytes."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitems__(self, indices):
        for index in indices:
            self.samples[index]
        with open("/proc/self/smaps_rollup") as file:
            lines = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
        return [int(lines["Private_Dirty"].split()[0]) * 1024] * len(indices)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="looks at /proc")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="about forked workers")
def test_workers_do_not_grow():
    """Half a million strings: reading them all copies the list's pages into the worker, but not the frozen arrays'."""
    samples = [f"sentence number {index} of many" for index in range(500_000)]

    def growth(dataset):
        loader = DataLoader(Private(dataset), 5000, num_workers=1, collate_fn=lambda batch: batch[0])
        memory = list(loader)
        return memory[-1] - memory[0]

    assert growth(samples) > 20e6
    assert growth(freeze(samples)) < 2e6


def test_bytes_are_those_of_its_arrays():
    numbers = dg.arange(1000.0)
    small, large = (freeze([numbers[:size] for _ in range(4)]) for size in (10, 1000))
    assert large.nbytes - small.nbytes >= 4 * 990 * 4
