"""A few random programs in all ways, those that failed once, and that a difference is seen."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import tensor_programs, tensor_ways, ways
from tests.fuzz.__main__ import KINDS, SEEDS

FAILED_ONCE = [line.split() for line in SEEDS.read_text().splitlines()]


@pytest.mark.parametrize("seed", range(12))
def test_all_ways_agree(seed):
    assert ways.problems(seed) == []


@pytest.mark.parametrize("seed", range(3))
def test_all_ways_of_tensors_agree(seed):
    assert tensor_ways.problems(seed) == []


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_quick_ways_of_tensors_agree(first):
    """Those for which nothing is compiled."""
    quick = ["again", "autobatch", "vmap", "threads", "float32", "torch", "torch float32", "refused"]
    told = {seed: tensor_ways.problems(seed, quick) for seed in range(first, first + 20)}
    assert {seed: lines for seed, lines in told.items() if lines} == {}


def test_what_failed_once():
    for kind, seed in FAILED_ONCE:
        _, problems = KINDS[kind]
        assert problems(int(seed)) == [], (kind, seed)


def test_a_difference_in_a_way_of_tensors_is_seen(monkeypatch):
    def wrong(program):
        return {name: array + 1e-3 for name, array in tensor_ways.under_vmap(program, "float64").items()}

    monkeypatch.setitem(tensor_ways.ROUNDED, "vmap", wrong)
    told = tensor_ways.problems(1, ["vmap"])
    program = tensor_programs.make(1)
    assert len(told) == len(program.results) + 2
    assert {line.partition(":")[0] for line in told} == {"vmap"}


def test_a_difference_is_seen(monkeypatch):
    def wrong(program, rows, weights):
        values, of_weights, of_rows = ways.by_row(program, rows, weights)
        return values, of_weights, [gradient + 1e-3 for gradient in of_rows]

    monkeypatch.setitem(ways.WAYS, "ragged", wrong)
    assert [line.partition(":")[0] for line in ways.problems(3, ["ragged"])] == ["ragged"] * 4


def test_gradients_are_those_of_differences():
    """The way that all others are compared with, against numerical derivatives."""
    from tests.fuzz.programs import make

    for seed in (5, 11, 17):  # in-place programs among them, which PyTorch refuses
        rows, weights = ways.data(seed)
        program = make(seed)
        _, _, gradients = ways.by_row(program, rows, weights, dtype="float64")
        for row, gradient in zip(rows, gradients, strict=True):
            place = tuple(np.argwhere(np.abs(row) > 0.05)[0])
            sums = []
            for step in (1e-5, -1e-5):
                row[place] += step
                sums.append(sum(value.sum() for value in ways.by_row(program, rows, weights, dtype="float64")[0]))
                row[place] -= step
            if "detach" not in program.text:
                assert (sums[0] - sums[1]) / 2e-5 == pytest.approx(gradient[place], rel=1e-4, abs=1e-6)
