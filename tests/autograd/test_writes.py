"""Which writes into memory are noticed, of which bytes, and how they are counted."""

from __future__ import annotations

import numpy as np
import pytest

import dynograd as dg
from dynograd.autograd import writes
from dynograd.autograd.nodes import next_seq

BASE = np.zeros(24, np.float32)
# Two places of one memory, and whether they share a byte.
PLACES = [
    ("a half and the other", np.s_[:12], np.s_[12:], False),
    ("halves with one in common", np.s_[:12], np.s_[11:], True),
    ("an element and the one behind it", np.s_[5:6], np.s_[6:7], False),
    ("backwards, beside", np.s_[11::-1], np.s_[12:], False),
    ("backwards, the last one", np.s_[11::-1], np.s_[11:], True),
    ("backwards, the first one", np.s_[11::-1], np.s_[:1], True),
    ("backwards down to one, beside", np.s_[11:3:-1], np.s_[:4], False),
    ("backwards down to one, in common", np.s_[11:3:-1], np.s_[:5], True),
    ("nothing", np.s_[3:3], np.s_[:], False),
    ("all of it", np.s_[:], np.s_[5:6], True),
]


@pytest.mark.parametrize("written, read, shared", [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
@pytest.mark.parametrize("several", [False, True])
def test_a_write_is_seen_where_bytes_are_shared(written, read, shared, several):
    owner = BASE.copy()
    before = next_seq()
    if several:
        writes.stamp_all([owner[written]], "here")
    else:
        writes.stamp(owner[written], "here")
    assert (writes.written_since(owner[read], before) is not None) == shared
    assert writes.written_since(owner[read], next_seq()) is None
    assert writes.version(owner) == writes.version(owner[read]) == 1


def test_many_places_become_the_whole():
    """Up to a number of places are told apart; with one more, a write into any counts as one into all."""
    owner = np.zeros((200, 2), np.float32)
    before = next_seq()
    rows = 0
    while writes.written_since(owner[-1], before) is None:
        writes.stamp(owner[rows], "here")
        rows += 1
    assert rows == writes._REGIONS + 1 and writes.version(owner) == rows
    for row in range(writes._REGIONS):
        now = next_seq()
        writes.stamp(owner[row], "here")  # places are told apart anew
        assert writes.written_since(owner[row], now) and not writes.written_since(owner[-1], now)


def test_counts():
    array = BASE.copy()
    writes.note_again(array)
    assert writes.version(array) == 0  # nobody has asked
    writes.count_on(array, 5)
    before = next_seq()
    writes.note_again(array[2:])
    assert writes.version(array[:2]) == 6 and writes.written_since(array, before) is None
    writes.count_on(array, 3)
    writes.stamp_all([array[1:], array[:1]], "here")
    assert writes.version(array) == 5
    marked = writes.marks([array, array[:2]])
    writes.stamp_marks(marked, [None, array[:2]], "here")
    assert writes.version(array) == 6


def test_a_write_of_the_whole_comes_before_those_of_parts():
    array = BASE.copy()
    writes.stamp(array[:2], "a part")
    writes.stamp(array, "the whole")
    writes.stamp(array[:2], "a part")
    before = next_seq()
    writes.stamp_whole([entry for entry, _ in writes.marks([array])], "a step")
    assert writes.last_write[0] > before and writes.version(array) == 4
    for part in (array, array[:2], array[5:6]):
        assert "a step" in writes.written_since(part, before)
    before = next_seq()
    writes.stamp(array, "again")
    assert writes.version(array) == 5 and "again" in writes.written_since(array[3:], before)


@pytest.mark.parametrize("written", [np.s_[:], np.s_[2:5]])
def test_writes_count_as_made_later(written):
    array = BASE.copy()
    times = [next_seq()]
    writes.stamp(array[written], "here")
    times.append(next_seq())
    writes.note_later(array, times[1])
    assert writes.written_since(array, times[1]) is None
    writes.note_later(array, times[0])
    assert writes.last_write[0] > times[1]
    assert "here" in writes.written_since(array[written], times[1]) and writes.version(array) == 1
    assert (writes.written_since(array[:2], times[1]) is None) == (written.start == 2)


def test_a_step_writes_only_the_parameters_part_of_their_memory():
    """What the other part was saved for goes backward; what this part was saved for does not."""
    flat = dg.ones(4)
    p = flat[:2].requires_grad_()
    for part, passes in ((flat[2:], True), (flat[1:3], False)):
        w = dg.ones(2, requires_grad=True)
        loss = (w * part.detach()).sum()
        p.grad = dg.ones(2)
        dg.optim.SGD([p], lr=0.1).step()
        if passes:
            loss.backward()
            assert w.grad.tolist() == [1.0, 1.0]
        else:
            with pytest.raises(RuntimeError, match="written|modified"):
                loss.backward()
