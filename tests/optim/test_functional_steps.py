"""Steps on lists: what they refuse, scaled gradients, and that they are the steps of the classes."""

import numpy as np
import pytest

import dynograd as dg
from dynograd.optim.adam import adam
from dynograd.optim.helpers import _default_to_fused_or_foreach
from dynograd.optim.sgd import sgd

ADAM = {"amsgrad": False, "beta1": 0.9, "beta2": 0.999, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}
SGD = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False}


def states(*params):
    return [dg.zeros_like(p) for p in params], [dg.zeros_like(p) for p in params], [], [dg.tensor(0.0) for _ in params]


def test_mistakes():
    w, g = dg.ones(2), dg.ones(2)
    means, squares, _, steps = states(w)
    rows = [
        (
            (([w], [g], means, squares, [], [1])),
            RuntimeError,
            "adam: API has changed, `state_steps` argument must contain a list of singleton",
        ),
        (
            ([w], [], means, squares, [], steps),
            dg.errors.ShapeError,
            "adam: got 1 params and 0 of grads. Give one for each",
        ),
        (([w], [g], means, squares * 2, [], steps), dg.errors.ShapeError, "adam: got 1 params and 2 of exp_avg_sq"),
        (
            ([w], [dg.ones(3)], means, squares, [], steps),
            dg.errors.ShapeError,
            r"gradient has shape \(3,\), but its parameter has shape \(2,\)",
        ),
        (([w], [g], means, squares, [], []), dg.errors.ShapeError, "adam: got 1 params and 0 of step"),
    ]
    for arguments, error, text in rows:
        with pytest.raises(error, match=text):
            adam(*arguments, **ADAM)
    assert dg.equal(w, dg.ones(2))


def test_a_step_is_that_of_the_class():
    p = dg.rand(30, 20, requires_grad=True)
    w, lists = p.detach().clone(), states(p)
    optimizer = dg.optim.AdamW([p], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        p.grad = dg.rand(30, 20)
        optimizer.step()
        adam([w], [p.grad], *lists, **ADAM, decoupled_weight_decay=True)
        np.testing.assert_allclose(w.numpy(), p.detach().numpy(), rtol=1e-6)
    assert lists[-1][0] == 3


def test_scaled_and_infinite_gradients():
    w, v, buffers = dg.ones(2), dg.ones(2), [None]
    sgd([w], [dg.ones(2) * 8], buffers, grad_scale=dg.tensor(8.0), found_inf=dg.tensor(0.0), **SGD)
    assert dg.allclose(w, dg.tensor(0.9)) and dg.allclose(buffers[0], dg.tensor(1.0))
    sgd([v], [dg.ones(2)], [None], found_inf=dg.tensor(1.0), **SGD)
    assert dg.equal(v, dg.ones(2))


def test_sparse_gradients_and_parameters_that_require_grad():
    table = dg.nn.Embedding.from_pretrained(dg.ones(3, 2), freeze=False, sparse=True)
    table(dg.tensor([1])).sum().backward()
    buffers = [None]
    for expected in (0.9, 0.71):
        sgd([table.weight], [table.weight.grad], buffers, has_sparse_grad=True, **SGD)
        assert dg.allclose(table.weight[1], dg.tensor(expected)) and buffers[0].is_sparse
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"):
        adam([table.weight], [table.weight.grad], *states(table.weight), **ADAM)


def test_a_step_that_is_recorded():
    lr = dg.tensor(0.5, requires_grad=True)
    p = dg.ones(2, requires_grad=True)
    w, lists = p.clone(), states(p)
    adam([w], [p * 2], *lists, **{**ADAM, "lr": lr}, differentiable=True)
    (w.sum() + lists[0][0].sum()).backward()
    assert lr.grad is not None and p.grad is not None and lists[0][0].requires_grad


def test_what_is_updated_together_when_nothing_is_said():
    w = dg.ones(2)
    assert _default_to_fused_or_foreach([w], differentiable=False) == (False, False)
    assert _default_to_fused_or_foreach([w], differentiable=False, use_fused=True) == (True, False)
    assert _default_to_fused_or_foreach([w], differentiable=True, use_fused=True) == (False, False)
    assert _default_to_fused_or_foreach([w, w.int()], differentiable=False, use_fused=True) == (False, False)
