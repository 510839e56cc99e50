"""utils.checkpoint: the same gradients, with less kept."""

from __future__ import annotations

import contextlib
import warnings

import numpy
import pytest

import dynograd as dg
from dynograd.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

WAYS = [{"use_reentrant": False}, {"use_reentrant": True}, {"use_reentrant": False, "early_stop": False}]


def leaf(*values):
    return dg.tensor(values, dtype=dg.float64, requires_grad=True)


class Counted:
    """A function that counts how often it runs."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, factor=1.0):
        self.calls += 1
        return (x.exp() * factor).sin()


def kept_bytes(tensor):
    """Bytes of arrays that the graph of `tensor` holds."""
    result, pending, seen = 0, [tensor.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in seen or not hasattr(node, "saved_names"):
            continue
        seen.add(node)
        saved = [getattr(node, name, None) for name in node.saved_names]
        result += sum(element.nbytes for element in saved if getattr(element, "ndim", 0))
        pending += [element for element, _ in node.next_functions]
    return result


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_gradients_and_random_numbers_are_those_of_a_plain_run(options):
    def step(checkpointed):
        dg.manual_seed(0)
        block = dg.nn.Sequential(dg.nn.Linear(8, 16), dg.nn.ReLU(), dg.nn.Dropout(0.5), dg.nn.Linear(16, 8))
        x = dg.randn(4, 8, requires_grad=True)
        y = checkpoint(block, x, **options) if checkpointed else block(x)
        y.square().sum().backward()
        return [x.grad, *[parameter.grad for parameter in block.parameters()], dg.rand(2)]

    assert all(dg.equal(element, other) for element, other in zip(step(False), step(True), strict=True))


def test_nothing_is_kept_inside_and_it_runs_once_more():
    x, function = leaf(*numpy.linspace(0, 1, 100)), Counted()
    plain, lean = function(x).sum(), checkpoint(function, x, use_reentrant=False).sum()
    assert kept_bytes(plain) >= 1600 and kept_bytes(lean) == 0 and function.calls == 2
    lean.backward(retain_graph=True)
    assert function.calls == 3
    lean.backward()
    assert function.calls == 4
    (twice,) = dg.autograd.grad(plain, x)
    numpy.testing.assert_array_equal(x.grad.numpy(), 2 * twice.numpy())


def test_keywords_grad_and_second_order_without_reentry():
    x, function = leaf(0.3, -0.2), Counted()

    def orders(y):
        (first,) = dg.autograd.grad(y.sum(), x, create_graph=True)
        return first.tolist(), dg.autograd.grad(first.sum(), x)[0].tolist()

    expected = orders(function(x, 2.0))
    assert orders(checkpoint(function, x, factor=2.0, use_reentrant=False)) == expected


def test_nested_ones():
    x, function = leaf(0.3, -0.2, 0.5), Counted()

    def outer(x):
        return checkpoint(function, checkpoint(function, x, use_reentrant=False), use_reentrant=False).square()

    lean = checkpoint(outer, x, use_reentrant=False).sum()
    assert kept_bytes(lean) == 0
    (result,) = dg.autograd.grad(lean, x)
    (expected,) = dg.autograd.grad(function(function(x)).square().sum(), x)
    assert result.tolist() == expected.tolist()


def test_it_stops_early_unless_told_otherwise():
    reached = []

    def function(x):
        y = x.exp()
        reached.append(len(reached))
        return y + 1  # saves nothing: not run again

    def steps(x):
        y = x.sin()
        z = y.exp()
        reached.append("end")
        return z

    x = leaf(0.1)
    checkpoint(steps, x, use_reentrant=False).backward()
    assert reached == ["end"]
    with set_checkpoint_early_stop(False):
        checkpoint(steps, x, use_reentrant=False).backward()
    assert reached == ["end"] * 3
    assert function(x).item() > 2


def test_contexts_for_both_runs():
    seen = []

    @contextlib.contextmanager
    def noting(name):
        seen.append(name)
        yield

    x = leaf(0.5)
    y = checkpoint(dg.sin, x, use_reentrant=False, context_fn=lambda: (noting("forward"), noting("again")))
    assert seen == ["forward"]
    y.backward()
    assert seen == ["forward", "again"]


def test_autocast_is_as_it_was():
    x = dg.rand(4, 4, requires_grad=True)
    kinds = []

    def product(x):
        y = x @ x
        kinds.append(y.dtype)
        return y.float().sin()

    with dg.autocast("cpu"):
        y = checkpoint(product, x, use_reentrant=False).sum()
    y.backward()
    assert kinds == [dg.bfloat16] * 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_sequential(reentrant):
    x, functions = leaf(0.3, 0.4), [dg.sin, dg.exp, dg.cos, dg.tanh, dg.sigmoid]
    y = checkpoint_sequential(functions, 2, x, use_reentrant=reentrant)
    y.sum().backward()
    z = x.detach().requires_grad_()
    z.sin().exp().cos().tanh().sigmoid().sum().backward()
    assert x.grad.tolist() == z.grad.tolist()
    with pytest.raises(ValueError, match="expected 1 to 5 segments for 5 functions, got 6"):
        checkpoint_sequential(functions, 6, x, use_reentrant=reentrant)


def test_no_grad_and_arguments_that_are_no_tensors():
    x = leaf(0.5)
    with dg.no_grad():
        assert not checkpoint(dg.sin, x, use_reentrant=False).requires_grad
    y = checkpoint(lambda x, k, n: x.exp() * k if n is None else n, x, 3, None, use_reentrant=False)
    y.backward()
    assert x.grad.item() == pytest.approx(3 * numpy.exp(0.5))
    result = dg.vmap(lambda x: checkpoint(dg.sin, x, use_reentrant=False))(dg.ones(3))
    assert result.shape == (3,)


def test_a_function_that_does_something_else_the_second_time_is_noticed():
    def changing(change):
        runs = []

        def function(x):
            runs.append(1)
            return x.exp() if len(runs) == 1 else change(x)

        return checkpoint(function, leaf(1.0, 2.0), use_reentrant=False, early_stop=False)

    with pytest.raises(CheckpointError, match=r"Number of tensors saved during forward: 1.*recomputation: 2"):
        changing(lambda x: x.exp().sin()).sum().backward()
    with pytest.raises(CheckpointError, match=r"at position 0: saved \(2,\) float64, recomputed \(1,\) float64"):
        changing(lambda x: x[:1].exp()).sum().backward()


def test_what_reentry_cannot_do():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\)"):
        dg.autograd.grad(checkpoint(dg.sin, x, use_reentrant=True), x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: factor"):
        checkpoint(Counted(), x, factor=2.0, use_reentrant=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(dg.sin, x, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(dg.sin, x)
    with pytest.warns(UserWarning, match="Gradients will be None"):
        checkpoint(dg.sin, x.detach(), use_reentrant=True)
    with pytest.raises(ValueError, match="determinism_check should be 'default' or 'none'"):
        checkpoint(dg.sin, x, use_reentrant=False, determinism_check="strict")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint(dg.sin, x, use_reentrant=False)
