"""Steps on lists: what they refuse, scaled gradients, and that they are the steps of the classes."""

import functools
import importlib

import numpy as np
import pytest

import dynograd as dg
from dynograd.optim.adam import adam
from dynograd.optim.adamw import adamw
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


@pytest.mark.parametrize("step", [adamw, functools.partial(adam, decoupled_weight_decay=True)], ids=["adamw", "adam"])
def test_a_step_is_that_of_the_class(step):
    p = dg.rand(30, 20, requires_grad=True)
    w, lists = p.detach().clone(), states(p)
    optimizer = dg.optim.AdamW([p], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        p.grad = dg.rand(30, 20)
        optimizer.step()
        step([w], [p.grad], *lists, **ADAM)
        np.testing.assert_allclose(w.numpy(), p.detach().numpy(), rtol=1e-6)
    assert lists[-1][0] == 3


def test_a_step_is_a_write():
    w = dg.ones(2, requires_grad=True)
    loss = (w * w).sum()
    with dg.no_grad():
        sgd([w], [dg.ones(2)], [None], **SGD)
    with pytest.raises(
        dg.errors.InplaceError, match=r"modified by an inplace operation.*written by .*test_functional_steps"
    ):
        loss.backward()


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


# The states that a step on lists takes, in the order of its arguments; its options, and those of the class where they have other names.
RULES = {
    "Adadelta": ("square_avg acc_delta step", dict(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True), {}),
    "Adagrad": ("sum step", dict(lr=0.1, lr_decay=0.3, eps=1e-3, weight_decay=0.1, maximize=True), {}),
    "Adamax": ("exp_avg exp_inf step", dict(lr=0.1, eps=1e-3, weight_decay=0.1), {"betas": ("beta1", "beta2")}),
    "ASGD": ("ax mu eta step", dict(lr=0.1, lambd=0.2, alpha=0.5, t0=1.0, weight_decay=0.1), {}),
    "NAdam": (
        "exp_avg exp_avg_sq mu_product step",
        dict(lr=0.1, eps=1e-3, weight_decay=0.1, momentum_decay=0.3, decoupled_weight_decay=True),
        {"betas": ("beta1", "beta2")},
    ),
    "RAdam": ("exp_avg exp_avg_sq step", dict(lr=0.1, eps=1e-3, weight_decay=0.1), {"betas": ("beta1", "beta2")}),
    "RMSprop": (
        "square_avg grad_avg momentum_buffer step",
        dict(lr=0.1, alpha=0.7, eps=1e-3, weight_decay=0.1, momentum=0.5, centered=True),
        {},
    ),
    "Rprop": (
        "prev step_size step",
        dict(maximize=True),
        {"etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")},
    ),
}
PAIRS = {"betas": (0.6, 0.7), "etas": (0.3, 2.0), "step_sizes": (0.02, 0.3)}


@pytest.mark.parametrize("name", RULES)
def test_each_step_on_lists_is_that_of_its_class(name):
    names, options, pairs = RULES[name]
    module = importlib.import_module(f"dynograd.optim.{name.lower()}")
    random = np.random.default_rng(0)
    values, gradients = random.normal(size=(2, 5, 4)), random.normal(size=(8, 2, 5, 4))
    params = [dg.tensor(value, requires_grad=True) for value in values]
    optimizer = getattr(module, name)(params, **options, **{pair: PAIRS[pair] for pair in pairs})
    lists: list = []
    for number, grads in enumerate(gradients):
        if number == 1:  # from what one step of the class has left
            copies = [p.detach().clone() for p in params]
            lists = [[optimizer.state[p][state].clone() for p in params] for state in names.split()]
        for p, g in zip(params, grads):
            p.grad = dg.tensor(g)
        optimizer.step()
        if number:
            ends = {end: value for pair, both in pairs.items() for end, value in zip(both, PAIRS[pair])}
            getattr(module, name.lower())(copies, [dg.tensor(g) for g in grads], *lists, **options, **ends)
    for p, copy in zip(params, copies):
        np.testing.assert_allclose(copy.numpy(), p.detach().numpy(), rtol=1e-6)
    for state, tensors in zip(names.split(), lists):
        for p, tensor in zip(params, tensors):
            np.testing.assert_allclose(tensor.numpy(), optimizer.state[p][state].numpy(), rtol=1e-6)
