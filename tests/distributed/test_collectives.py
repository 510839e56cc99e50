"""Collectives and messages in threads, beside NumPy."""

import pytest

from dynograd import distributed, tensor
from dynograd.distributed import ReduceOp
from dynograd.distributed.nn import functional
from tests.distributed import differentiable_cases
from tests.distributed.rows import cases, failure


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_what_ranks_get(ranks):
    failures = []
    for name, dtype in cases(ranks):
        failures += [text for text in distributed.simulate(failure, name, dtype, ranks=ranks) if text]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_gradients(ranks):
    failures = [text for part in distributed.simulate(differentiable_cases.failures, ranks=ranks) for text in part]
    assert not failures, "\n".join(failures)


ERRORS = [
    (lambda x: functional.all_reduce(x, ReduceOp.MAX), "all_reduce: expected op to be ReduceOp.SUM or ReduceOp.AVG"),
    (lambda x: functional.reduce(x, 0, ReduceOp.MIN), "reduce: expected op .* got .*MIN"),
    (lambda x: functional.reduce_scatter(x, [x, x], ReduceOp.PRODUCT), "reduce_scatter: expected op"),
    (lambda x: functional.scatter([x]), "scatter: expected a tensor for each of 2 processes, got 1"),
    (lambda x: functional.gather(x, 2), "gather: .*dst"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_of_those_with_gradients(number):
    call, words = ERRORS[number]
    with pytest.raises(ValueError, match=words):
        distributed.simulate(call, tensor([1.0]), ranks=2)
