"""Kernels, one of them a part of another one, and programs that call them: what a small pack is made of."""

import atexit

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled


@compiled
def doubled(x):
    return x * 2


@compiled
def doubled_sum(x):
    total = 0.0
    for i in range(x.size):
        total += doubled(x[i])
    return total


@compiled
def first(x):
    return x[0]


def number():
    atexit.register(print, "what a program says last")
    doubled(1.0)


PROGRAMS = {"sum": lambda: doubled_sum(np.ones(3)), "number": number}
