"""Random ops inside `autobatch`: every call draws where it would draw in the loop, however calls are grouped."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

WIDTH = 5


class Noisy(nn.Module):
    """Draws of several kinds in one cell."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    @dynograd.cell
    def forward(self, x):
        noise = dynograd.randn(WIDTH) * 0.1 + dynograd.rand_like(x)
        return F.dropout(self.layer(x) + noise, 0.4, self.training) * dynograd.bernoulli(x.detach().sigmoid())


def attention(x):
    q = dynograd.stack([x, LAYER(x), x.flip(0)]).view(1, 3, WIDTH)
    return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)


dynograd.manual_seed(0)  # weights do not depend on which tests are collected before
LAYER, CELL = nn.Linear(WIDTH, WIDTH), Noisy()
SEQUENTIAL = nn.Sequential(nn.Linear(WIDTH, 7), nn.ReLU(), nn.Dropout(0.3), nn.Linear(7, WIDTH), nn.Dropout(0.5))
STEPS = {
    "dropout": lambda x: F.dropout(LAYER(x), 0.5),
    "channels": lambda x: F.dropout1d(LAYER(x).view(WIDTH, 1).expand(WIDTH, 3), 0.5),
    "dropout_add": lambda x: F.dropout_add(LAYER(x), x, 0.5),
    "alpha": lambda x: F.alpha_dropout(LAYER(x), 0.5, training=True),
    "same operand": lambda x: F.dropout(dynograd.ones(WIDTH), 0.5) * LAYER(x),
    "attention": attention,
    "cell": CELL,
    "sequential": SEQUENTIAL,
}


def inputs(dtype=dynograd.float32):
    return [(dynograd.arange(WIDTH) * 0.1 + k).to(dtype) for k in range(7)]


def run(step, scope):
    dynograd.manual_seed(5)
    for element in (LAYER, CELL, SEQUENTIAL):
        element.zero_grad()
    report = None
    if scope == "batched":
        results = dynograd.batched(lambda x: step(step(x).view(-1)[:WIDTH]), always=True)(inputs())
    elif scope == "autobatch":
        with dynograd.autobatch(always=True) as report:
            results = [step(step(x).view(-1)[:WIDTH]) for x in inputs()]
    else:
        results = [step(step(x).view(-1)[:WIDTH]) for x in inputs()]
    after = dynograd.rand(2).tolist()
    sum((result * result).sum() for result in results).backward()
    grads = [parameter.grad for net in (LAYER, CELL, SEQUENTIAL) for parameter in net.parameters()]
    return (
        [result.detach().numpy() for result in results],
        [grad.numpy() for grad in grads if grad is not None],
        after,
        report,
    )


@pytest.mark.parametrize("name", STEPS)
def test_draws_are_those_of_the_loop(name):
    expected, gradients, after, _ = run(STEPS[name], None)
    result, others, now, report = run(STEPS[name], "autobatch")
    assert after == now and len(gradients) == len(others)
    for element, other in zip([*expected, *gradients], [*result, *others]):
        numpy.testing.assert_allclose(
            other, element, rtol=2e-5, atol=1e-6 * max(1, numpy.abs(element).max())
        )  # sums that cancel
    assert report.calls > 3 * report.launches and not any("one by one in" in why for _, why, _ in report.refused)
    if name in ("cell", "sequential"):
        assert report.launches <= 6  # two cells and the inputs between


def test_second_order_through_a_group_of_masks():
    def loss_of(scope):
        dynograd.manual_seed(1)
        w = dynograd.ones(WIDTH, dtype=dynograd.float64, requires_grad=True)

        def body():
            return sum((F.dropout(w * x, 0.5) ** 3).sum() for x in inputs(dynograd.float64))

        if scope:
            with dynograd.autobatch(always=True):
                loss = body()
        else:
            loss = body()
        (g,) = dynograd.autograd.grad(loss, w, create_graph=True)
        (g * g).sum().backward()
        return w.grad.numpy()

    numpy.testing.assert_allclose(loss_of(True), loss_of(False), rtol=1e-10)


def test_draws_in_examples_do_not_depend_on_the_others():
    def one(x):
        h = SEQUENTIAL(x)
        if h.sum() > 0:
            h = F.dropout(h, 0.5)
        return CELL(h).tolist()

    dynograd.manual_seed(9)
    everyone = dynograd.batched(one, always=True)(inputs())
    for concurrent, count in ((2, 7), (512, 3), (512, 1)):
        dynograd.manual_seed(9)
        result = dynograd.batched(one, concurrent=concurrent, always=True)(inputs()[:count])
        numpy.testing.assert_allclose(result, everyone[:count], rtol=1e-5)


def test_in_place_draws_end_a_cell():
    @dynograd.cell
    def noisy(x):
        return x + dynograd.empty(WIDTH).normal_() * 0 + (x * 0).uniform_() * 0

    with dynograd.autobatch(always=True) as report:
        result = [noisy(x) for x in inputs()]
    assert result[2].tolist() == pytest.approx(inputs()[2].tolist())
    assert any("in place" in why for _, why, _ in report.refused)
