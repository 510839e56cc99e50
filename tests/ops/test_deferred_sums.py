"""Gradients of weights that many small calls share: the sums of the calls' gradients, whatever else goes into the same leaf."""

import numpy
import pytest

import dynograd
from dynograd.autograd import detect_anomaly
from dynograd.ops.reduce.deferred_sums import FEW, LEAST, MOST

F = dynograd.nn.functional
OUT, IN = 128, 160
assert OUT * IN >= LEAST


def made(seed, *shape, dtype=numpy.float64):
    return dynograd.from_numpy(numpy.random.default_rng(seed).normal(size=shape).astype(dtype))


def weight(seed=0):
    return made(seed, OUT, IN).requires_grad_()


CALLS = {
    "vectors": [(IN,)] * 5,
    "few rows": [(3, IN), (1, IN), (2, 4, IN)],
    "no rows": [(0, IN), (2, IN)],
    "many calls": [(FEW, IN)] * (MOST // FEW + 3),
    "few and many rows": [(3, IN), (FEW + 1, IN), (2, IN)],
}


@pytest.mark.parametrize("name", CALLS)
def test_linear(name):
    w, bias = weight(), made(1, OUT).requires_grad_()
    inputs = [made(2 + number, *shape) for number, shape in enumerate(CALLS[name])]
    scales = [made(100 + number, *shape[:-1], OUT) for number, shape in enumerate(CALLS[name])]
    sum((F.linear(x, w, bias) * scale).sum() for x, scale in zip(inputs, scales, strict=True)).backward()
    pairs = [(x.numpy().reshape(-1, IN), g.numpy().reshape(-1, OUT)) for x, g in zip(inputs, scales, strict=True)]
    numpy.testing.assert_allclose(w.grad.numpy(), sum(g.T @ x for x, g in pairs), rtol=1e-11, atol=1e-11)
    numpy.testing.assert_allclose(bias.grad.numpy(), sum(g.sum(0) for _, g in pairs), rtol=1e-11, atol=1e-11)


def table_gradient(indices, scales, padding_idx):
    expected = numpy.zeros((OUT, IN))
    for index, g in zip(indices, scales, strict=True):
        for where, row in zip(index.reshape(-1), g.reshape(-1, IN), strict=True):
            if where != padding_idx:
                expected[where] += row
    return expected


@pytest.mark.parametrize("padding_idx", [None, 3])
@pytest.mark.parametrize("calls", [[()], [()] * 40, [(2, 3), (5,)], [(FEW,)] * (MOST // FEW + 2)])
def test_embedding(calls, padding_idx):
    table = weight()
    random = numpy.random.default_rng(5)
    indices = [random.integers(0, 9, shape) for shape in calls]
    scales = [random.normal(size=(*shape, IN)) for shape in calls]
    loss = sum(
        (F.embedding(dynograd.from_numpy(numpy.array(index)), table, padding_idx) * dynograd.from_numpy(scale)).sum()
        for index, scale in zip(indices, scales, strict=True)
    )
    loss.backward()
    numpy.testing.assert_allclose(
        table.grad.numpy(), table_gradient(indices, scales, padding_idx), rtol=1e-11, atol=1e-11
    )


def tied(w):
    """The weight as a table, as a layer twice, and by itself: three kinds of gradients for one leaf."""
    x = F.embedding(dynograd.tensor([1, 2, 2]), w)
    return (F.linear(x, w).tanh().sum() + F.linear(x[0] * 2, w).sum() + (w * w).sum()) * 0.1


def expected_of_tied():
    w = weight()
    picked = dynograd.eye(OUT, dtype=dynograd.float64)[dynograd.tensor([1, 2, 2])]
    x = picked @ w
    loss = ((x @ w.T).tanh().sum() + (x[0] * 2 @ w.T).sum() + (w * w).sum()) * 0.1
    loss.backward()
    return w.grad.numpy()


def backward_once(w):
    tied(w).backward()
    return w.grad


def backward_twice(w):
    tied(w).backward()
    tied(w).backward()
    return w.grad / 2


def retained(w):
    loss = tied(w)
    loss.backward(retain_graph=True)
    loss.backward()
    return w.grad / 2


def by_grad(w):
    return dynograd.autograd.grad(tied(w), w)[0]


def with_a_graph(w):
    return dynograd.autograd.grad(tied(w), w, create_graph=True)[0].detach()


def seen_by_a_hook(w):
    seen = []
    w.register_hook(lambda g: seen.append(g.clone()))
    tied(w).backward()
    assert numpy.array_equal(seen[0].numpy(), w.grad.numpy())
    return seen[0]


def under_anomaly(w):
    with detect_anomaly():
        tied(w).backward()
    return w.grad


WAYS = [backward_once, backward_twice, retained, by_grad, with_a_graph, seen_by_a_hook, under_anomaly]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_one_leaf_in_several_roles(way):
    numpy.testing.assert_allclose(way(weight()).numpy(), expected_of_tied(), rtol=1e-11, atol=1e-11)


def test_a_sparse_gradient_joins():
    w = weight()
    (F.embedding(dynograd.tensor([1]), w, sparse=True).sum() + F.linear(dynograd.ones(IN).double(), w).sum()).backward()
    expected = numpy.ones((OUT, IN))
    expected[1] += 1
    numpy.testing.assert_allclose(w.grad.to_dense().numpy(), expected)


def test_a_leafs_hook_may_write_what_another_leafs_gradient_is_made_of():
    x, w = made(1, 2, IN).requires_grad_(), weight()
    expected = numpy.repeat(x.detach().numpy().sum(0, keepdims=True), OUT, 0)

    def overwrite(leaf):
        with dynograd.no_grad():
            leaf.zero_()

    x.register_post_accumulate_grad_hook(overwrite)
    F.linear(x, w).sum().backward()
    numpy.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-11)


def test_the_gradient_belongs_to_the_leaf():
    w = weight()
    for _ in range(2):
        F.linear(made(3, IN), w).sum().backward()
    first = w.grad.clone()
    F.linear(made(3, IN), w).sum().backward()
    numpy.testing.assert_allclose(w.grad.numpy(), first.numpy() * 1.5, rtol=1e-11)


def test_anomaly_mode_looks_at_the_parts():
    w = weight()
    with detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values in its 1th output"):
        (F.linear(made(1, IN) * float("inf"), w) * 0.0).sum().backward()  # 0 * inf


class Overwriting(dynograd.autograd.Function):
    """The identity, whose backward writes zeros into the activation that the layer after it has read."""

    @staticmethod
    def forward(ctx, x):
        ctx.made = x.clone()
        return ctx.made

    @staticmethod
    def backward(ctx, g):
        ctx.made.data.zero_()
        return g


def by_function(x):
    return Overwriting.apply(x)


def by_hook(x):
    created = x * 1.0
    created.register_hook(lambda g: (created.data.zero_(), None)[1])
    return created


@pytest.mark.parametrize("between", [by_function, by_hook], ids=lambda one: one.__name__)
def test_code_that_runs_within_the_pass_may_write_what_a_sum_is_made_of(between):
    x, w = made(1, 2, IN).requires_grad_(), weight()
    expected = numpy.repeat(x.detach().numpy().sum(0, keepdims=True), OUT, 0)
    F.linear(between(x), w).sum().backward()
    numpy.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-11)
