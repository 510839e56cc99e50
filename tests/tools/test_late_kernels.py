"""Kernels that a step needs, in the order in which it meets their types; and the programs that are asked run at every size."""

import numpy

from dynograd.kernels.build.compiling_numba import compiled
from tools.late_kernels import PROGRAMS, SIZES, late_kernels


def test_what_other_sizes_need_first_is_late():
    @compiled
    def total(x):
        return x.size

    def step(batch, length):
        total(numpy.zeros((1,) * batch))
        if length == 2:
            total(numpy.zeros((1,) * batch, numpy.float32))

    first, second, late = late_kernels(step, [(1, 1), (1, 1), (2, 1), (1, 2), (2, 1)])
    assert len(first) == 1 and "float64, 1" in first[0] and "total" in first[0] and second == []
    assert [(size, "float64, 2" in name, "float32, 1" in name) for name, size in late.items()] == [
        ((2, 1), True, False),
        ((1, 2), False, True),
    ]
    assert late_kernels(step, [(2, 1), (1, 2)])[::2] == ([], {})


def test_a_program_runs_at_every_size_and_needs_nothing_in_its_second_step():
    _, second, late = late_kernels(PROGRAMS["mlp"](), SIZES)
    assert second == [] and {*late.values()} <= {*SIZES[1:]}
