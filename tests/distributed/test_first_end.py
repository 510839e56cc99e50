"""Which process of a job the launcher hears end first, by the pipes that processes hold open."""

import os

import pytest

from dynograd.distributed import board as boards
from dynograd.distributed.board import Board
from dynograd.distributed.jobs.first_end import FirstEnd

R, E, F = boards.RUNNING, boards.ENDED, boards.FAILED

# (states, whether they wait in a collective, in which order their pipes are closed): who has ended first, by its pid
ENDS = {
    "one dies, and the others are ended": ([R, R, R], [1, 0, 1], [[1], [0], [2]], 101),
    "it waited itself": ([R, R, R], [1, 0, 1], [[2], [1], [0]], 102),
    "two are heard of at once: one that nobody could wait for": ([R, R, R], [1, 0, 1], [[0, 1]], 101),
    "who ends well is none": ([E, R, E], [0, 0, 0], [[0], [1]], 101),
    "all end well": ([E, E, E], [0, 0, 0], [[0], [1], [2]], None),
    "one has said why": ([R, F, R], [0, 0, 0], [[1], [0]], None),
}


@pytest.mark.parametrize("name", ENDS)
def test_who_ended_first(name, tmp_path):
    states, waits, order, pid = ENDS[name]
    path = tmp_path / "board"
    board = Board(path, 3)
    first = FirstEnd(path, 3)
    pipes = [os.open(boards.pipe_of(path, place), os.O_WRONLY | os.O_NONBLOCK) for place in range(3)]
    board.records["pid"], board.records["state"], board.records["waits"] = [100, 101, 102], states, waits
    for together in order:
        for place in together:
            os.close(pipes[place])
        if not first.hear():
            break
    with first:
        pass
    assert first.pid == pid
    board.close()
