"""Virtual shards: the same bits on 1, 2 and 4 ranks, and the gradients of the whole batch."""

import hashlib
import random

import numpy as np
import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.distributed import VirtualShards
from dynograd.nn.parallel import DistributedDataParallel


def numbers(seed, *shape, dtype="float32"):
    return dynograd.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def sentences(seed, count=10):
    rng = np.random.default_rng(seed)
    return dynograd.ragged_tensor([numbers(seed * 99 + i, int(n), 4) for i, n in enumerate(rng.integers(1, 6, count))])


class Branches(nn.Module):
    """Uses another layer for each kind of sample, and one never: gradients are absent here and there."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 1) for _ in range(4)])

    def forward(self, x):
        return dynograd.stack([self.layers[int(abs(row[0].item()) * 10) % 3](row) for row in x])


class Moving(nn.Module):
    """What it gives depends on a buffer that each call changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("mean", dynograd.zeros(4))

    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.5)
        return self.layer(x - self.mean)


class OfTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.output = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, x):
        return self.output(self.rnn(x)[0]).values()


# name: (module, batch of a step, options, whether the step equals that of one batch: random numbers and norms are each shard's own)
PROGRAMS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1)), lambda k: numbers(k, 12, 4), {}, True),
    "uneven": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)), lambda k: numbers(k, 11, 4), {}, True),
    "few": (lambda: nn.Linear(4, 1), lambda k: numbers(k, 3, 4), {}, True),
    "shards": (lambda: nn.Linear(4, 1), lambda k: numbers(k, 8, 4), {"average": "shards"}, True),
    "function": (lambda: nn.Linear(4, 1), lambda k: numbers(k, 10, 4), {"average": len}, True),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)),
        lambda k: numbers(k, 12, 4),
        {},
        False,
    ),
    "batch norm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), lambda k: numbers(k, 16, 4), {}, False),
    "buffer": (Moving, lambda k: numbers(k, 12, 4), {}, False),
    "branches": (Branches, lambda k: numbers(k, 8, 4), {}, True),
    "ragged": (OfTokens, sentences, {"average": "tokens"}, True),
    "bfloat16": (lambda: nn.Linear(4, 3).bfloat16(), lambda k: numbers(k, 16, 4).bfloat16(), {}, False),
    "float64": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)).double(),
        lambda k: numbers(k, 12, 4, dtype="float64"),
        {},
        True,
    ),
}


def train(name, shards=4, steps=4, parallel=False):
    module, batch, options, _ = PROGRAMS[name]
    dynograd.manual_seed(0)
    model = module()
    if parallel:
        model = DistributedDataParallel(model)
    optimizer = dynograd.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    cut = VirtualShards(model, shards, **options)
    for step in range(steps):
        optimizer.zero_grad()
        result = []
        for x in cut.of(batch(step)):
            loss = model(x).square().mean()
            loss.backward()
            result.append(loss)
        optimizer.step()
        losses.append(cut.mean(result))
    unused = [parameter.grad is None for parameter in model.parameters()]
    return digest(model), losses, unused, dynograd.rand(1).item()


def digest(model):
    return hashlib.sha256(
        b"".join([t.detach().cpu().float().numpy().tobytes() for t in model.state_dict().values()])
    ).hexdigest()


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_ranks_has_the_same_bits(name):
    alone = distributed.simulate(train, name, ranks=1)
    for ranks in (2, 4):
        assert distributed.simulate(train, name, ranks=ranks) == alone * ranks
    assert distributed.simulate(train, name, parallel=True, ranks=2) == alone * 2


@pytest.mark.parametrize("name", [name for name in PROGRAMS if PROGRAMS[name][3]])
def test_gradients_are_those_of_the_whole_batch(name):
    module, batch, options, _ = PROGRAMS[name]
    dynograd.manual_seed(0)
    model = module()
    model(batch(0)).square().mean().backward()

    def program():
        dynograd.manual_seed(0)
        own = module()
        own_first = next(own.parameters())
        own_first.grad = dynograd.ones_like(own_first)  # of a micro-batch before
        for x in VirtualShards(own, 4, **options).of(batch(0)):
            own(x).square().mean().backward()
        return [None if p.grad is None else p.grad.tolist() for p in own.parameters()]

    (result,) = distributed.simulate(program, ranks=1)
    tolerance = 1e-12 if name == "float64" else 2e-6
    for place, (grad, parameter) in enumerate(zip(result, model.parameters())):
        expected = parameter.grad
        if expected is None and place:
            assert grad is None
            continue
        expected = np.zeros(parameter.shape) if expected is None else expected.numpy()
        np.testing.assert_allclose(grad, expected + (place == 0), rtol=tolerance, atol=tolerance)


def test_shards_have_random_numbers_of_their_own():
    distributed.init_process_group()
    try:
        drawn = []
        shards = VirtualShards(nn.Linear(1, 1), 4)
        for _ in range(2):
            for _ in shards.of(dynograd.zeros(4, 1)):
                drawn.append((dynograd.rand(1).item(), random.random(), float(np.random.rand())))
    finally:
        distributed.destroy_process_group()
    for kind in zip(*drawn):
        assert len(set(kind)) == 8


def test_samples_of_all_kinds_are_cut():
    distributed.init_process_group()
    try:
        parts = list(VirtualShards(nn.Linear(1, 1), 2).of({"x": dynograd.arange(4)}, ["a", "b", "c", "d"], 3))
    finally:
        distributed.destroy_process_group()
    assert [(part[0]["x"].tolist(), *part[1:]) for part in parts] == [([0, 1], ["a", "b"], 3), ([2, 3], ["c", "d"], 3)]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda model: VirtualShards(model, 6), r"the number of processes \(2\) times a power of two, got 6"),
        (
            lambda model: VirtualShards(model, 4, average="ranks"),
            "'samples', 'tokens', 'shards' or a function, got 'ranks'",
        ),
        (lambda model: list(VirtualShards(model, 4).of(dynograd.zeros(4, 1), [1])), "of one length, got lengths 1, 4"),
        (lambda model: list(VirtualShards(model, 4).of(3)), "of one length, got none"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        distributed.simulate(lambda: call(nn.Linear(1, 1)), ranks=2)
