"""Collectives and messages in threads, beside NumPy."""

import pytest

from dynograd import distributed
from tests.distributed.rows import cases, failure


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_what_ranks_get(ranks):
    failures = []
    for name, dtype in cases(ranks):
        failures += [text for text in distributed.simulate(failure, name, dtype, ranks=ranks) if text]
    assert not failures, "\n".join(failures)
