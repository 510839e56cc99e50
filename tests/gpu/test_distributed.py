"""Several ranks with a GPU each: collectives by NCCL's stand-in, and through the memory of the host."""

import sys
import warnings

import pytest

import dynograd as dg
from dynograd import distributed, nn
from dynograd.cuda import driver
from tests.distributed.rows import cases, failure
from tests.support import standin_nccl

COUNT = dg.cuda.device_count()
pytestmark = [
    pytest.mark.skipif(COUNT < 2, reason="needs two devices: DYNOGRAD_CUDA=emulated:3"),
    pytest.mark.skipif(not driver.is_emulated(), reason="the stand-in for NCCL reads the memory of emulated devices"),
]
RANKS = min(COUNT, 3)


@pytest.fixture(params=["by NCCL", "by the host"])
def engine(request, monkeypatch):
    if request.param == "by NCCL":
        monkeypatch.setitem(sys.modules, "nccl", None)
        monkeypatch.setitem(sys.modules, "nccl.core", None)
        standin_nccl.install()
    else:
        monkeypatch.setitem(sys.modules, "nccl", None)
        monkeypatch.delitem(sys.modules, "nccl.core", raising=False)
    standin_nccl.calls.clear()
    yield request.param
    assert bool(standin_nccl.calls) == (request.param == "by NCCL")


def run(program, *arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "distributed: arrays of GPUs go through the memory of the host")
        return distributed.simulate(program, *arguments, ranks=RANKS)


def test_what_ranks_get(engine):
    def program():
        return [text for name, dtype in cases(RANKS) if (text := failure(name, dtype, RANKS))]

    failures = [text for part in run(program) for text in part]
    assert not failures, "\n".join(failures)
