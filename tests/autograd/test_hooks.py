"""Hooks on tensors and leaves, and retain_grad."""

from __future__ import annotations

import pytest

import dynograd as dg
from dynograd.errors import GradientError


def leaf(*values: float) -> dg.Tensor:
    return dg.tensor(values, requires_grad=True)


def test_hooks_see_and_change_gradients():
    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (y * 3).sum().backward()
    assert seen == [3.0] and x.grad.tolist() == [61.0]


def test_removed_hooks_do_not_run():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 100)
    handle.remove()
    with x.register_hook(lambda g: g * 7):
        pass
    x.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_hooks_run_under_create_graph_and_in_grad():
    x = leaf(3.0)
    x.register_hook(lambda g: g * 2)
    (g,) = dg.autograd.grad((x * x).sum(), x, create_graph=True)
    assert g.tolist() == [12.0] and g.requires_grad


def test_post_accumulate_hooks_get_the_leaf():
    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * 3).sum().backward()
    assert seen == [3.0]
    with pytest.raises(GradientError, match="expected a leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_retain_grad_fills_inner_gradients():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad and not x.retains_grad
    (y * 5).sum().backward()
    assert y.grad.tolist() == [5.0]
    with pytest.raises(GradientError, match="requires_grad=False"):
        dg.ones(1).retain_grad()


def test_bad_hooks_are_told():
    x = leaf(1.0, 2.0)
    with pytest.raises(GradientError, match="doesn't require gradient"):
        dg.ones(1).register_hook(print)
    handle = x.register_hook(lambda g: g.sum())
    with pytest.raises(GradientError, match=r"changed the size of value.*\(2,\)"):
        x.sum().backward()
    handle.remove()
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="return a Tensor or None"):
        x.sum().backward()
