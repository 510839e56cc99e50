"""Hooks on tensors and leaves, and retain_grad."""

from __future__ import annotations

import warnings

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


def test_a_leaf_has_its_gradient_before_what_came_before_its_first_use_goes_backward():
    x, w, b = (dg.tensor([1.0, 2.0], requires_grad=True) for _ in range(3))
    order = []
    for name, tensor in (("x", x), ("w", w), ("b", b)):
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    h = x.sin()
    h.register_hook(lambda _: order.append("h"))
    k = h * w
    k.register_hook(lambda _: order.append("k"))
    (k + b).sum().backward()
    assert order == ["b", "k", "w", "h", "x"] or order == ["k", "b", "w", "h", "x"]


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


def test_grad_of_what_is_no_leaf_warns():
    x = leaf(1.0)
    y, z = x * 2, x * 3
    z.retain_grad()
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed.*retain_grad"):
        assert y.grad is None
    assert x.grad is None and z.grad is None and dg.ones(1).grad is None


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


def frozen(w: dg.Tensor) -> dg.Tensor:
    y = (w * 3 + w.exp()).sum()
    w.requires_grad_(False)
    return y


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_a_leaf_frozen_after_the_forward_gets_no_gradient(before, create_graph):
    w, calls = leaf(0.0), []
    if before:
        w.grad = dg.tensor([5.0])
    w.register_hook(calls.append)
    w.register_post_accumulate_grad_hook(lambda x: calls.append(x.requires_grad))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frozen(w).backward(create_graph=create_graph)
    assert (w.grad.tolist() if before else w.grad) == ([5.0] if before else None)
    assert calls[0].item() == 4.0 and calls[1] is False


def test_layers_frozen_after_the_forward_get_no_gradients():
    layer = dg.nn.Linear(2, 1)
    y = layer(dg.ones(1, 2)).sum()
    layer.requires_grad_(False)
    y.backward()
    assert layer.weight.grad is None and layer.bias.grad is None


def on_leaf(x, change):
    x.register_hook(change)
    return x * 2


def on_result(x, change):
    y = x * 2
    y.register_hook(change)
    return y


def on_one_of_many(x, change):
    first, _ = (x * 2).chunk(2)
    first.register_hook(change)
    return first


def on_node(x, change):
    y = x.neg()
    y.grad_fn.register_hook(lambda inputs, outputs: (change(inputs[0]),))
    return y


def before_node(x, change):
    y = x.neg()
    y.grad_fn.register_prehook(lambda outputs: (change(outputs[0]),))
    return y


def before_leaf(x, change):
    y = x.neg()
    y.grad_fn.next_functions[0][0].register_prehook(lambda outputs: (change(outputs[0]),))
    return y


def on_module(x, change):
    layer = dg.nn.Identity()
    layer.register_full_backward_hook(lambda module, inputs, outputs: (change(inputs[0]),))
    return layer(x)


def before_module(x, change):
    layer = dg.nn.Identity()
    layer.register_full_backward_pre_hook(lambda module, outputs: (change(outputs[0]),))
    return layer(x)


def in_autobatch(x, change):
    with dg.autobatch():
        y = x * 2
        _ = y.tolist()
        y.register_hook(change)
        return y * 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.double(), "changed the type of value: expected dynograd.float32 .* on cpu, got dynograd.float64"),
        (lambda g: g.to_sparse(), "changed the type of value: .* got dynograd.float32 .*sparse_coo"),
        (lambda g: g.to("meta"), "changed the type of value: .* on meta"),
        (lambda g: dg.ones(3), r"changed the size of value: expected \(\d,\), got \(3,\)"),
        (lambda g: 1.0, "to return a Tensor or None, got float"),
    ],
    ids=["dtype", "layout", "device", "shape", "number"],
)
@pytest.mark.parametrize(
    "place",
    [on_leaf, on_result, on_one_of_many, on_node, before_node, before_leaf, on_module, before_module, in_autobatch],
)
def test_hooks_return_gradients_of_the_same_kind(place, change, message):
    y = place(leaf(1.0, 2.0), change)
    with pytest.raises((GradientError, TypeError), match=message):
        y.sum().backward()


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda g: g, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda g: [g], TypeError, "expected tuple, but hook returned 'list'"),
        (lambda g: (g, g), GradientError, "returned 2 gradients, expected 1"),
    ],
)
def test_hooks_of_nodes_return_tuples(returned, error, message):
    y = leaf(1.0).neg()
    y.grad_fn.register_hook(lambda inputs, outputs: returned(inputs[0]))
    with pytest.raises(error, match=message):
        y.backward()


def test_hooks_of_nodes_give_nothing_where_nothing_was():
    y = leaf(1.0) * dg.ones(1)
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0], dg.ones(1)))
    with pytest.raises(GradientError, match="can't replace a None gradient with a non-None value"):
        y.backward()


def test_hooks_before_nodes_can_take_gradients_away():
    x = leaf(1.0)
    y = x.neg()
    y.grad_fn.register_prehook(lambda outputs: (None,))
    y.backward()
    assert x.grad is None


def test_post_accumulate_hooks_return_nothing():
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda leaf: 1)
    with pytest.raises(TypeError, match="expected the hook '<lambda>' to return None, got int"):
        x.sum().backward()


def test_prehooks_of_nodes_come_behind_the_hooks_of_their_tensors():
    x, seen = leaf(1.0), []
    y = x * 1
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        node.register_prehook(lambda grads: seen.append(grads[0].item()))
    for tensor in (y, x):
        tensor.register_hook(lambda g: g * 2)
    y.backward()
    assert seen == [2.0, 4.0] and x.grad.tolist() == [4.0]


def test_posthooks_of_leaves_get_what_came_and_run_last():
    x, seen = leaf(1.0), []
    x.grad = dg.tensor([100.0])
    y = x * 1
    accumulate = y.grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].item())))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.item()))
    x.register_hook(lambda g: g * 3)
    y.backward()
    assert seen == [103.0, ((), 3.0)]


def test_grad_does_not_run_the_hooks_of_nodes_that_it_does_not_run():
    x, seen = leaf(1.0), []
    y = x * 1
    z = y * 1
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        node.register_prehook(lambda grads: seen.append("before"))
        node.register_hook(lambda inputs, outputs: seen.append("after"))
    y.register_hook(lambda g: g * 5)
    x.register_hook(lambda g: g * 7)
    assert dg.autograd.grad(z, y, retain_graph=True)[0].item() == 5 and seen == []
    assert dg.autograd.grad(z, x)[0].item() == 35 and seen == ["before", "after"]


def test_hooks_that_return_something_for_the_inputs_of_a_leaf_are_told():
    y = leaf(1.0) * 1
    y.grad_fn.next_functions[0][0].register_hook(lambda inputs, outputs: (outputs[0],))
    with pytest.raises(GradientError, match="the hook returned 1 gradients, expected 0"):
        y.backward()


def test_callbacks_run_when_all_leaves_have_their_gradients():
    engine, x, seen = dg.autograd.Variable._execution_engine, leaf(2.0), []
    y = x * 3
    y.register_hook(lambda g: engine.queue_callback(lambda: seen.append(x.grad.item())))
    y.backward()
    assert seen == [3.0]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        engine.queue_callback(print)


@pytest.mark.parametrize("leaf", [True, False])
def test_hooks_of_one_tensor_get_one_object_until_one_returns_another(leaf):
    x = dg.ones(2, requires_grad=True)
    y = x if leaf else x * 1
    seen = []

    def mark(grad):
        grad.mark = "here"
        seen.append(grad)

    for hook in (seen.append, mark, lambda grad: grad * 5 if grad.mark else None, seen.append):
        y.register_hook(hook)
    (y * 3).sum().backward()
    assert [hasattr(grad, "mark") for grad in seen] == [True, True, False] and seen[0] is seen[1]
    assert [grad.tolist() for grad in seen] == [[3, 3], [3, 3], [15, 15]] and x.grad.tolist() == [15, 15]
