"""DistributedDataParallel: some ranks with a part of the batch each train as one process with the whole."""

import numpy as np
import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.nn.parallel import DistributedDataParallel

STEPS = 3


class Branching(nn.Module):
    """Uses another layer in each part of the batch, and one in none."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(5)])

    def forward(self, x, which):
        return sum(self.layers[int(number)](row).square().sum() for row, number in zip(x, which)) / len(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)

    def forward(self, x):
        return nn.functional.cross_entropy(self.embedding(x) @ self.embedding.weight.t(), (x + 1) % 7)


class Words(nn.Module):
    """The mean over all tokens of sentences of different lengths."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(9, 4), nn.Linear(4, 9)

    def forward(self, sentences):
        values = self.layer(self.embedding(sentences)).values()
        return nn.functional.cross_entropy(values, (sentences.values() + 1) % 9)


class Trees(nn.Module):
    """Trees of words, with a cell for each inner node, in groups."""

    def __init__(self):
        super().__init__()
        self.words, self.cell, self.score = nn.Embedding(9, 4), nn.Linear(8, 4), nn.Linear(4, 1)

    def forward(self, trees):
        with dynograd.autobatch():
            return sum(self.score(self.state(tree)).square().sum() for tree in trees) / len(trees)

    def state(self, tree):
        if isinstance(tree, int):
            return self.words(dynograd.tensor(tree))
        return self.cell(dynograd.cat([self.state(tree[0]), self.state(tree[1])])).tanh()


def numbers(step, count, *shape):
    generator = np.random.default_rng(step)
    return dynograd.tensor(generator.standard_normal((count, *shape)))


def words(step, count):
    generator = np.random.default_rng(step)
    return [dynograd.tensor(generator.integers(0, 8, length)) for length in generator.integers(1, 7, count)]


def trees(step, count):
    generator = np.random.default_rng(step)

    def tree(depth):
        if depth == 0 or generator.random() < 0.3:
            return int(generator.integers(0, 9))
        return tree(depth - 1), tree(depth - 1)

    return [(tree(3), tree(2)) for _ in range(count)]


def _of_numbers(step, count, part):
    return (numbers(step, count, 4)[part],)


# name: (module, arguments of a forward for one part of a batch, average)
ROWS = {
    "linear": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), _of_numbers, "ranks"),
    "uneven": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), _of_numbers, "samples"),
    "branches": (
        Branching,
        lambda step, count, part: (
            numbers(step, count, 4)[part],
            np.random.default_rng(step).integers(0, 4, count)[part],
        ),
        "ranks",
    ),
    "tied": (
        Tied,
        lambda step, count, part: (dynograd.tensor(np.random.default_rng(step).integers(0, 7, count)[part]),),
        "ranks",
    ),
    "frozen": (lambda: _frozen(), _of_numbers, "ranks"),
    "words": (Words, lambda step, count, part: (dynograd.ragged_tensor(words(step, count)[part]),), "tokens"),
    "trees": (Trees, lambda step, count, part: (trees(step, count)[part],), lambda trees: len(trees)),
}


def _frozen():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    return model


def _trained(name, rank, size, wrap, **options):
    make, arguments, average = ROWS[name]
    dynograd.manual_seed(0)
    model = make().double()
    wrapped = DistributedDataParallel(model, average=average, **options) if wrap else model
    optimizer = dynograd.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    count = 12
    is_even = average == "ranks"
    ends = [count * place // size for place in range(size + 1)] if is_even else [*range(0, 2 * size, 2), count]
    part = slice(ends[rank], ends[rank + 1]) if wrap else slice(None)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = wrapped(*arguments(step, count, part))
        loss = loss if loss.ndim == 0 else loss.square().mean()
        loss.backward()
        optimizer.step()
    return [parameter.detach().numpy().copy() for parameter in model.parameters()], [
        parameter.grad is None for parameter in model.parameters()
    ]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", ROWS)
def test_ranks_train_as_one_process(name, ranks):
    expected, without = _trained(name, 0, 1, False)
    for options in ({}, {"overlap": True, "bucket_cap_mb": 1e-4}):
        results = distributed.simulate(
            lambda options=options: _trained(name, distributed.get_rank(), ranks, True, **options), ranks=ranks
        )
        for parameters, is_none in results:
            assert is_none == without
            for parameter, other, of_first in zip(parameters, expected, results[0][0]):
                np.testing.assert_allclose(parameter, other, rtol=1e-12, atol=1e-12)
                assert parameter.tobytes() == of_first.tobytes()


@pytest.mark.parametrize("overlap", [False, True])
def test_gradients_of_micro_batches_travel_once(overlap):
    def program():
        rank = distributed.get_rank()
        model = DistributedDataParallel(nn.Linear(2, 1, bias=False), overlap=overlap)
        with model.no_sync():
            model(dynograd.ones(1, 2) * rank).sum().backward()
            own = model.module.weight.grad.tolist()
        model(dynograd.ones(1, 2)).sum().backward()
        return own, model.module.weight.grad.tolist()

    assert distributed.simulate(program, ranks=2) == [([[0.0, 0.0]], [[1.5, 1.5]]), ([[1.0, 1.0]], [[1.5, 1.5]])]


def test_ranks_begin_with_the_state_of_the_first():
    def program():
        dynograd.manual_seed(distributed.get_rank())
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        model[1].running_mean += distributed.get_rank()
        wrapped = DistributedDataParallel(model)
        begun = [tensor.tolist() for tensor in model.state_dict().values()]
        wrapped(dynograd.randn(4, 2)).sum().backward()
        wrapped(dynograd.randn(4, 2))  # the buffers that the first rank had before this pass
        return begun, model[1].num_batches_tracked.item()

    first, second = distributed.simulate(program, ranks=2)
    assert first == second


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            lambda: DistributedDataParallel(nn.Linear(2, 1 + distributed.get_rank())),
            "Linear of rank 1 differs from that of rank 0: .*'weight', \\(2, 2\\)",
        ),
        (
            lambda: DistributedDataParallel(nn.Linear(2, 1), average="words"),
            "expected average to be 'ranks', 'samples', 'tokens' or a function, got 'words'",
        ),
        (
            lambda: DistributedDataParallel(nn.Linear(2, 1), bucket_cap_mb=0),
            "bucket_cap_mb must be above 0, got 0",
        ),
        (
            lambda: DistributedDataParallel(Branching(), average="tokens")([1], [2]),
            "average='tokens' needs a tensor among the forward's arguments, got list, list",
        ),
    ],
)
def test_what_is_refused(program, words):
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        distributed.simulate(program, ranks=2)


def test_a_hook_joins_gradients_its_own_way():
    def hook(state, bucket):
        state.append([tuple(gradient.shape) for gradient in bucket.gradients()])
        joined = bucket.buffer().bfloat16()
        distributed.all_reduce(joined, distributed.ReduceOp.AVG)
        return joined.float()

    def program():
        calls = []
        model = DistributedDataParallel(nn.Linear(2, 1))
        model.register_comm_hook(calls, hook)
        model(dynograd.ones(1, 2) * (distributed.get_rank() + 1)).sum().backward()
        return model.module.weight.grad.tolist(), calls

    assert distributed.simulate(program, ranks=2) == [([[1.5, 1.5]], [[(1,), (1, 2)]])] * 2


@pytest.mark.parametrize("divides_by_all", [True, False])
def test_ranks_with_different_numbers_of_batches(divides_by_all):
    counts = [2, 4, 1]

    def program():
        rank = distributed.get_rank()
        dynograd.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()
        wrapped = DistributedDataParallel(model)
        optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
        with wrapped.join(divide_by_initial_world_size=divides_by_all):
            for step in range(counts[rank]):
                optimizer.zero_grad()
                wrapped(numbers(10 * step + rank, 5, 4)).square().mean().backward()
                optimizer.step()
        return [tensor.tolist() for tensor in model.state_dict().values()]

    dynograd.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()
    optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
    own = [[buffer.clone() for buffer in model.buffers()] for _ in counts]
    for step in range(max(counts)):
        optimizer.zero_grad()
        active = [rank for rank, count in enumerate(counts) if step < count]
        before = own[active[0]]  # the first process that goes on hands its buffers round
        for rank in active:
            for buffer, value in zip(model.buffers(), before):
                buffer.copy_(value)
            loss = model(numbers(10 * step + rank, 5, 4)).square().mean()
            (loss / (len(counts) if divides_by_all else len(active))).backward()
            own[rank] = [buffer.clone() for buffer in model.buffers()]
        optimizer.step()
    results = distributed.simulate(program, ranks=3)
    for result in results:
        for value, expected in zip(result, model.state_dict().values()):
            np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_all_raise_when_one_has_run_out():
    def program():
        model = DistributedDataParallel(nn.Linear(1, 1))
        with model.join(throw_on_early_termination=True):
            for _ in range(1 + distributed.get_rank()):
                model(dynograd.ones(1, 1)).sum().backward()

    with pytest.raises(RuntimeError, match="exhausted inputs: \\[0\\]|exhausted all inputs before others"):
        distributed.simulate(program, ranks=2)


@pytest.mark.parametrize("dims", [0, 1, 2])
def test_batches_of_all_ranks_are_normed_as_one(dims):
    counts = [3, 1, 4]
    batch = numbers(0, sum(counts), 2, *[3] * dims)

    def trained(layer, x):
        for _ in range(2):
            layer(x).pow(3).sum().backward()
        return [layer.weight.grad, layer.bias.grad], [tensor.tolist() for tensor in layer.state_dict().values()]

    def program():
        start = sum(counts[: distributed.get_rank()])
        x = batch[start : start + counts[distributed.get_rank()]].clone().requires_grad_()
        layer = nn.SyncBatchNorm(2).double()
        gradients, state = trained(layer, x)
        for gradient in gradients:
            distributed.all_reduce(gradient)
        return [x.grad.tolist(), [gradient.tolist() for gradient in gradients], state, layer.eval()(x).tolist()]

    x = batch.clone().requires_grad_()
    layer = (
        nn.BatchNorm3d(2).double() if dims == 3 else [nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d][dims](2).double()
    )
    gradients, state = trained(layer, x)
    results = distributed.simulate(program, ranks=3)
    np.testing.assert_allclose(np.concatenate([result[0] for result in results]), x.grad.numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        np.concatenate([result[3] for result in results]), layer.eval()(x).detach().numpy(), rtol=1e-9, atol=1e-11
    )
    for result in results:
        for gradient, expected in zip(result[1], gradients):
            np.testing.assert_allclose(gradient, expected.numpy(), rtol=1e-9, atol=1e-11)
        for value, expected in zip(result[2], state):
            np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-11)
