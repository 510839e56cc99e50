"""ZeroRedundancyOptimizer: the numbers of the optimizer that it divides, with a part of its memory."""

import numpy as np
import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.distributed.joins import Join
from dynograd.optim import ZeroRedundancyOptimizer

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1},
    "AdamW.amsgrad": {"lr": 0.01, "amsgrad": True},
    "RMSprop": {"lr": 0.01, "momentum": 0.5},
    "Adagrad": {"lr": 0.1},
    "NAdam": {"lr": 0.01},
}


def model():
    dynograd.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 70), nn.Tanh(), nn.Linear(70, 3))  # many elements, and few


def batches(steps=4):
    generator = np.random.default_rng(0)
    return [dynograd.tensor(generator.standard_normal((6, 4)), dtype=dynograd.float32) for _ in range(steps)]


def train(own, optimizer, data):
    scheduler = dynograd.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for x in data:
        optimizer.zero_grad()
        own(x).square().mean().backward()
        optimizer.step()
        scheduler.step()
    return [parameter.tolist() for parameter in own.parameters()]


def groups_of(own):
    return [{"params": own[0].parameters()}, {"params": own[2].parameters(), "lr": 0.03}]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_optimizer(name, ranks):
    kind, options = getattr(dynograd.optim, name.split(".")[0]), OPTIMIZERS[name]

    def program():
        own = model()
        optimizer = ZeroRedundancyOptimizer(groups_of(own), kind, **options)
        first = train(own, optimizer, batches()[:2])
        optimizer.consolidate_state_dict(to=0)
        saved = [optimizer.state_dict() if distributed.get_rank() == 0 else None]
        distributed.broadcast_object_list(saved, 0)
        again = ZeroRedundancyOptimizer(groups_of(own), kind, **options)
        again.load_state_dict(saved[0])
        elements = sum(v.numel() for s in optimizer.optim.state.values() for v in s.values() if getattr(v, "ndim", 0))
        return first, saved[0], train(own, again, batches()[2:]), elements

    own = model()
    optimizer = kind(groups_of(own), **options)
    first = train(own, optimizer, batches()[:2])
    state = optimizer.state_dict()
    again = kind(groups_of(own), **options)
    again.load_state_dict(state)
    second = train(own, again, batches()[2:])
    results = distributed.simulate(program, ranks=ranks)
    for result in results:
        assert result[0] == first and result[2] == second
        assert result[1]["param_groups"] == state["param_groups"] and result[1]["state"].keys() == state["state"].keys()
        for number, entries in state["state"].items():
            assert result[1]["state"][number].keys() == entries.keys()
            for entry, value in entries.items():
                np.testing.assert_allclose(
                    np.asarray(result[1]["state"][number][entry]), np.asarray(value), rtol=0, atol=0
                )
    whole = sum(v.numel() for s in optimizer.state.values() for v in s.values() if getattr(v, "ndim", 0))
    assert sum(result[3] for result in results) == whole
    assert max(result[3] for result in results) <= whole / ranks + 2 * len(OPTIMIZERS)


def test_ranks_that_have_run_out_take_part():
    counts = [1, 3]

    def program():
        own = nn.parallel.DistributedDataParallel(model())
        optimizer = ZeroRedundancyOptimizer(own.parameters(), dynograd.optim.AdamW, lr=0.01)
        with Join([own, optimizer], divide_by_initial_world_size=True):
            for x in batches()[: counts[distributed.get_rank()]]:
                optimizer.zero_grad()
                own(x).square().mean().backward()
                optimizer.step()
        return [parameter.tolist() for parameter in own.parameters()]

    own = model()
    optimizer = dynograd.optim.AdamW(own.parameters(), lr=0.01)
    for step, x in enumerate(batches()[: max(counts)]):
        optimizer.zero_grad()
        (own(x).square().mean() * sum(step < count for count in counts) / 2).backward()
        optimizer.step()
    for result in distributed.simulate(program, ranks=2):
        for value, expected in zip(result, own.parameters()):
            np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w: ZeroRedundancyOptimizer([w], dynograd.optim.LBFGS), "LBFGS looks at whole parameters"),
        (
            lambda w: ZeroRedundancyOptimizer([w], "AdamW"),
            "expected optimizer_class to be an Optimizer class, got 'AdamW'",
        ),
        (
            lambda w: ZeroRedundancyOptimizer([w], dynograd.optim.SGD, lr=0.1).state_dict(),
            "not been consolidated on this rank .*consolidate_state_dict",
        ),
        (
            lambda w: ZeroRedundancyOptimizer([w], dynograd.optim.SGD, lr=0.1).load_state_dict(
                {"state": {}, "param_groups": [{"params": [0, 1]}]}
            ),
            r"groups of \[2\] parameters, this optimizer of \[1\]",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises((TypeError, RuntimeError, ValueError), match=words):
        distributed.simulate(lambda: call(dynograd.ones(2, requires_grad=True)), ranks=1)


def test_a_closure_runs_with_recording_on():
    def program():
        w = dynograd.tensor([1.0, 2.0], requires_grad=True)
        optimizer = ZeroRedundancyOptimizer([w], dynograd.optim.SGD, lr=0.5)

        def closure():
            loss = w.sum()
            loss.backward()
            return loss

        with dynograd.no_grad():
            assert optimizer.step(closure).item() == 3.0
        return w.tolist()

    assert distributed.simulate(program, ranks=2) == [[0.5, 1.5]] * 2
