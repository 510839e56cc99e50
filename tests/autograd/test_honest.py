"""honest_where: what was not selected contributes exact zeros to gradients. The first programs are old issues of PyTorch's."""

from __future__ import annotations

import math
import threading

import numpy
import pytest

import dynograd as dg
from dynograd.autograd import honest_where, is_honest_where_enabled, set_honest_where

NAN, INF = math.nan, math.inf


def leaf(values):
    return dg.tensor(values, dtype=dg.float64, requires_grad=True)


def log_of_exp_overwritten(x):
    f = (x.exp() + 1).log()
    f[1] = 0
    return f + 0


def squares_of_missing_values(w):
    predicted = dg.tensor([[0.0], [1.0]], dtype=dg.float64) @ w.T
    expected = dg.tensor([[NAN, 0.0], [1.0, 1.0]], dtype=dg.float64)
    return dg.square(predicted - expected)[~dg.isnan(expected)]


def products_replaced(b):
    y = dg.tensor([INF, 1.0], dtype=dg.float64) * b
    return dg.where(dg.isfinite(y), y, 0.0)


def norms_of_some_rows(x):
    return dg.where(dg.tensor([False, True]), dg.linalg.vector_norm(x, 3, 1), 0.0)


# number of the issue: (function, where, its gradient there)
ISSUES = {
    "68425": (lambda a: dg.where(a <= 0, dg.exp(a), 1 + a), [1000.0], [1.0]),
    "18287": (lambda x: dg.where(x < 1, x.cos(), dg.zeros_like(x)), [0.0, INF], [0.0, 0.0]),
    "52248": (lambda a: dg.where(dg.tensor(False), a / 0, dg.ones(1, dtype=dg.float64)), [1.5], [0.0]),
    "17455": (log_of_exp_overwritten, [0.0, 1000.0], [0.5, 0.0]),
    "16317": (lambda x: dg.where(x > 0, x**0.5, dg.zeros_like(x)), [-1.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "23156": (products_replaced, [2.0, 3.0], [0.0, 1.0]),
    "64305": (squares_of_missing_values, [[1.0], [2.0]], [[0.0], [2.0]]),
    "108618": (lambda x: dg.where(x > 2, dg.log2(x), 2 * x), [0.0, 2.0, 4.0], [2.0, 2.0, 0.25 / math.log(2)]),
}
# Others: masks as factors, clamps, norms at zero, whole rows, sums over rows of a product, broadcast operands.
PROGRAMS = {
    "factor": (lambda x: (x > 0) * x.sqrt().nan_to_num(), [0.0, 4.0], [0.0, 0.25]),
    "masked_fill": (lambda x: x.log().masked_fill(x <= 0, 0.0), [-1.0, 0.0, 2.0], [0.0, 0.0, 0.5]),
    "clamp": (lambda x: x.exp().clamp(max=1), [-1.0, 1000.0], [math.exp(-1), 0.0]),
    "maximum": (
        lambda x: dg.maximum(x.exp().reciprocal(), dg.full((2,), 0.1, dtype=dg.float64)),
        [0.0, 1000.0],
        [-1.0, 0.0],
    ),
    "index": (lambda x: x.sqrt()[1:], [0.0, 4.0], [0.0, 0.25]),
    "chain": (lambda x: dg.where(x > 0, (x.log() * x.sqrt()).exp().pow(2), 0.0)[:1], [-1.0, 1.0], [0.0, 0.0]),
    "norm": (
        lambda x: dg.where(dg.tensor([False, True]), x.pow(2).sum(1).sqrt(), 0.0),
        [[0.0, 0.0], [3.0, 4.0]],
        [[0.0, 0.0], [0.6, 0.8]],
    ),
    "norm of rows": (norms_of_some_rows, [[0.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]),
    "std": (
        lambda x: dg.where(dg.tensor([False, True]), x.std(1), 0.0),
        [[0.0, 0.0], [3.0, 4.0]],
        [[0.0, 0.0], [-0.5 * 2**0.5, 0.5 * 2**0.5]],
    ),
    "softmax": (
        lambda s: dg.where(
            dg.tensor([[False], [True]]), dg.softmax(s + dg.tensor([[-INF], [0.0]], dtype=dg.float64), 1), 0.0
        )[:, 0],
        [[1.0, 2.0], [1.0, 1.0]],
        [[0.0, 0.0], [0.25, -0.25]],
    ),
    "product": (
        lambda w: dg.where(
            dg.tensor([[False], [True]]), dg.tensor([[INF, 1.0], [1.0, 2.0]], dtype=dg.float64) @ w, 0.0
        ),
        [[1.0, 2.0], [3.0, 4.0]],
        [[1.0, 1.0], [2.0, 2.0]],
    ),
    "broadcast divisor": (
        lambda x: dg.where(dg.tensor([False, True, True]), x / dg.tensor([0.0, 1.0, 2.0], dtype=dg.float64), 0.0),
        [3.0],
        [1.5],
    ),
    "half": (lambda x: dg.where(x > 0, x.half().sqrt(), 0.0).double(), [-1.0, 4.0], [0.0, 0.25]),
    "layer_norm": (
        lambda x: dg.where(dg.tensor([[False], [True]]), dg.nn.functional.layer_norm(x, (2,), eps=0.0), 0.0)[1],
        [[NAN, 1.0], [1.0, 3.0]],
        [[0.0, 0.0], [0.0, 0.0]],
    ),
}


@pytest.mark.parametrize("name", [*ISSUES, *PROGRAMS])
def test_gradients_are_those_of_what_was_selected(name):
    function, at, expected = {**ISSUES, **PROGRAMS}[name]
    with honest_where():
        x = leaf(at)
        y = function(x).sum()
    y.backward()  # outside: the graph remembers
    numpy.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-3 if name == "half" else 1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ISSUES)
def test_without_it_the_gradients_are_as_ever(name):
    function, at, expected = ISSUES[name]
    x = leaf(at)
    function(x).sum().backward()
    assert not numpy.allclose(x.grad.numpy(), expected)


@pytest.mark.parametrize("name", [*ISSUES, "norm", "factor", "chain", "norm of rows"])
def test_second_order_and_forward_mode(name):
    function, at, expected = {**ISSUES, **PROGRAMS}[name]
    with honest_where():
        x = leaf(at)
        (first,) = dg.autograd.grad(function(x).sum(), x, create_graph=True)
        numpy.testing.assert_allclose(first.detach().numpy(), expected, atol=1e-12)
        if first.requires_grad:
            (second,) = dg.autograd.grad((first * 2).sum(), x)
            assert dg.isfinite(second).all()
        moved = dg.func.jvp(function, (x.detach(),), (dg.ones_like(x.detach()),))[1]
    assert moved.sum().item() == pytest.approx(numpy.sum(expected), abs=1e-12)


def test_hessian_and_vmap():
    with honest_where():
        at = dg.tensor([-1.0, 0.0, 4.0], dtype=dg.float64)
        result = dg.func.hessian(lambda x: dg.where(x > 0, x.sqrt(), 0.0).sum())(at)
        numpy.testing.assert_allclose(result.numpy(), numpy.diag([0.0, 0.0, -1 / 32]), atol=1e-12)
        rows = dg.vmap(dg.func.grad(lambda x: dg.where(x > 0, x.sqrt(), 0.0)))(at)
        assert rows.tolist() == [0.0, 0.0, 0.25]


def test_what_was_selected_keeps_its_infinite_gradient():
    with honest_where():
        x = leaf([0.0, 4.0])
        x.sqrt().sum().backward()
        assert x.grad.tolist() == [INF, 0.25]
        w = leaf([[1.0], [1.0]])
        (dg.tensor([[INF, 1.0], [1.0, 2.0]], dtype=dg.float64) @ w).sum().backward()
        assert w.grad.tolist() == [[INF], [3.0]]
        x = leaf([[0.0, 0.0], [2.0, 0.0]])
        dg.linalg.vector_norm(x, 3, 1).sum().backward()
    x2 = leaf([[0.0, 0.0], [2.0, 0.0]])
    dg.linalg.vector_norm(x2, 3, 1).sum().backward()
    numpy.testing.assert_array_equal(x.grad.numpy(), x2.grad.numpy())


def test_gradients_where_all_is_finite_have_the_same_bits():
    def gradients():
        dg.manual_seed(0)
        x = dg.randn(8, 16, requires_grad=True)
        w = dg.randn(16, 4, requires_grad=True)
        h = dg.nn.functional.layer_norm((x @ w).tanh(), (4,))
        return dg.autograd.grad((h.softmax(1) * h).sum() + x.std(), (x, w))

    plain = gradients()
    with honest_where():
        honest = gradients()
    assert all(dg.equal(element, other) for element, other in zip(plain, honest, strict=True))


def test_it_goes_together_with_hooks_of_saved_tensors_and_anomaly_mode():
    for honest_first in (True, False):
        contexts = [honest_where, lambda: dg.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)]
        first, second = contexts if honest_first else contexts[::-1]
        with first(), second(), dg.autograd.detect_anomaly():
            x = leaf([-1.0, 0.0, 4.0])
            y = dg.where(x > 0, x.sqrt(), 0.0).sum()
            y.backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.25]


def test_the_switch():
    assert not is_honest_where_enabled()
    results = []

    def program():
        x = leaf([0.0, 4.0])
        dg.where(x > 0, x.sqrt(), 0.0).sum().backward()
        results.append(x.grad.tolist())

    set_honest_where(True)
    try:
        assert is_honest_where_enabled()
        program()
        thread = threading.Thread(target=program)
        thread.start()
        thread.join()
        with honest_where(False):
            assert not is_honest_where_enabled()
            program()
        with dg.no_grad(), dg.enable_grad():
            program()
    finally:
        set_honest_where(False)
    program()
    assert [result[0] == result[0] for result in results] == [True, True, False, True, False]
    assert dg.autograd.modes.MODES.watchers == ()
