"""Network and Traffic: the volumes of the model are those that communicators really move, and times follow from them."""

import numpy as np
import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.distributed import Network, ReduceOp, Traffic
from dynograd.distributed.communicators import threads
from dynograd.nn.parallel import DistributedDataParallel

COUNT = 4 * 3 * 4 * 5  # bytes that all numbers of ranks divide

CALLS = {
    "all_reduce": lambda c, x: c.all_reduce([x], ReduceOp.SUM),
    "all_gather": lambda c, x: c.all_gather(x[: x.size // c.size].copy(), list(x.reshape(c.size, -1).copy())),
    "all_to_all": lambda c, x: c.all_to_all(list(x.reshape(c.size, -1)), list(x.reshape(c.size, -1).copy())),
    "reduce_scatter": lambda c, x: c.reduce_scatter(
        list(x.reshape(c.size, -1)), x[: x.size // c.size].copy(), ReduceOp.SUM
    ),
    "barrier": lambda c, x: c.barrier(),
}


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("kind", CALLS)
def test_volumes_are_those_that_are_moved(kind, ranks, monkeypatch):
    sent = [0] * ranks

    def counting(name):
        move = getattr(threads.Simulated, name)

        def moved(self, arrays, *rest):
            own = arrays[self.rank] if name == "all_to_all" else arrays
            total = sum([array.nbytes for array in arrays]) if name == "all_to_all" else own.nbytes * self.size
            sent[self.rank] += total - own.nbytes
            move(self, arrays, *rest)

        return moved

    for name in ("all_to_all", "all_gather"):
        monkeypatch.setattr(threads.Simulated, name, counting(name))

    def program():
        with Traffic() as traffic:
            communicator = traffic.group.communicator
            CALLS[kind](communicator, np.ones(COUNT // 4, np.float32))
        assert [call[0] for call in traffic.calls] == [kind]
        return traffic.volume()

    assert distributed.simulate(program, ranks=ranks) == pytest.approx(sent)


def test_a_step_is_planned_for_many_ranks():
    def program():
        model = DistributedDataParallel(nn.Sequential(nn.Linear(100, 100), nn.Linear(100, 10)))
        model(dynograd.ones(2, 100)).sum().backward()
        with Traffic() as traffic:
            model(dynograd.ones(2, 100)).sum().backward()
        return traffic

    (traffic, _) = distributed.simulate(program, ranks=2)
    size = 4 * (100 * 100 + 100 + 100 * 10 + 10)
    used = 8 * 4  # which parameters were used
    assert traffic.volume() == size + used and traffic.volume(1) == 0
    assert traffic.volume(1024) == pytest.approx(2 * (size + used) * 1023 / 1024)
    network = Network(latency=1e-3, bandwidth=1e6)
    assert traffic.seconds(network, 4) == pytest.approx(2 * 6e-3 + 1.5e-6 * (size + used))
    assert traffic.seconds(Network(latency=1e-3, bandwidth=1e6, per_host=2), 4) == pytest.approx(
        12e-3 + 3e-6 * (size + used)
    )
    assert traffic.seconds(network, 1) == 0


def test_many_ranks_are_simulated():
    def program():
        model = DistributedDataParallel(nn.Linear(3, 1, bias=False))
        model(dynograd.ones(1, 3) * distributed.get_rank()).sum().backward()
        return model.module.weight.grad.tolist()

    assert distributed.simulate(program, ranks=64) == [[[31.5] * 3]] * 64
