"""Reductions that have no meaning for numbers of a dtype say so."""

import re

import pytest

import dynograd
from dynograd import distributed
from dynograd.distributed import ReduceOp
from dynograd.errors import DtypeError

REFUSED = [  # (the op, the dtype, what is said)
    (ReduceOp.BAND, "float32", "all_reduce: ReduceOp.BAND joins bits of whole numbers, got dynograd.float32."),
    (ReduceOp.MIN, "complex64", "all_reduce: complex numbers have no order for ReduceOp.MIN, got dynograd.complex64."),
    (ReduceOp.AVG, "int32", "all_reduce: the average of whole numbers is none; got dynograd.int32 with ReduceOp.AVG."),
]


@pytest.mark.parametrize("op, dtype, words", REFUSED)
def test_reductions_without_a_meaning(op, dtype, words):
    def program():
        distributed.all_reduce(dynograd.ones(2, dtype=getattr(dynograd, dtype)), op)

    with pytest.raises(DtypeError, match=re.escape(words)):
        distributed.simulate(program)
