"""autograd.graph: hooks of saved tensors and nodes, edges, hooks of several tensors."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest

import dynograd as dg
from dynograd.autograd.graph import (
    GradientEdge,
    Node,
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)
from dynograd.errors import GradientError, InplaceError


def leaf(*values: float) -> dg.Tensor:
    return dg.tensor(values, dtype=dg.float64, requires_grad=True)


# --- saved tensors -----------------------------------------------------------------------------------------------------------

PROGRAMS = {
    "elementwise": lambda x: (x.exp() * x).sin().sum(),
    "kernels": lambda x: dg.softmax(dg.cat([x, x * 2]).reshape(2, 3), 1).pow(2).sum(),
    "products": lambda x: (dg.outer(x, x) @ x).sum(),
    "several outputs": lambda x: sum((element.exp() * k).sum() for k, element in enumerate((x * x).split(2), 1)),
    "decomposition": lambda x: dg.nn.functional.layer_norm(dg.outer(x, x), (3,)).pow(3).sum(),
    "in place": lambda x: (x * 1).mul_(x).sin_().exp_().sum(),
    "views": lambda x: (lambda z: (z[1:].mul_(x[:2]), z)[1])(x * 1).pow(2).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_both_orders_go_through_the_hooks(name):
    program, counts = PROGRAMS[name], [0, 0]

    def pack(tensor):
        assert not tensor.requires_grad
        counts[0] += 1
        return tensor.numpy().copy()

    def unpack(kept):
        counts[1] += 1
        return dg.tensor(kept)

    def gradients():
        x = leaf(0.3, 0.7, 1.1)
        y = program(x)
        (first,) = dg.autograd.grad(y, x, create_graph=True)
        return first.detach().numpy(), dg.autograd.grad(first.pow(2).sum(), x)[0].numpy()

    expected = gradients()
    with saved_tensors_hooks(pack, unpack):
        result = gradients()
    assert counts[0] > 0 and counts[1] > 0
    numpy.testing.assert_allclose(result[0], expected[0], rtol=1e-12)
    numpy.testing.assert_allclose(result[1], expected[1], rtol=1e-12)


def test_only_the_innermost_hooks_are_asked_and_numbers_are_not_saved_tensors():
    seen = []
    x = leaf(2.0)
    with saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        x.sin()
        with saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            (x * x).sum()
        x * 3.0
    x.sin()
    assert seen == ["outer", "inner", "inner"]


def test_a_function_s_saved_tensors_are_packed():
    class Exp(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx, g):
            _, y, none = ctx.saved_tensors
            assert none is None
            return g * y

    kept = []
    x = leaf(0.5)
    with saved_tensors_hooks(lambda t: kept.append(t.clone()) or len(kept) - 1, lambda number: kept[number] * 10):
        y = Exp.apply(x)
    y.sum().backward()
    assert len(kept) == 2 and x.grad.item() == pytest.approx(10 * y.item())


def test_packed_tensors_are_freed_with_the_graph():
    gc.disable()
    try:
        x = leaf(1.0)
        with saved_tensors_hooks(lambda t: Held(t), lambda kept: kept.tensor):
            y = x.exp()
        watched = weakref.ref(y.grad_fn.output.held)
        y.sum().backward()
        assert watched() is None
    finally:
        gc.enable()


class Held:
    def __init__(self, tensor):
        self.tensor = tensor


def test_hooks_may_be_entered_twice():
    packed = []
    hooks = saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t)
    x = leaf(2.0)
    with hooks:
        with hooks:
            x.exp()
        x.exp()
        assert len(packed) == 2
    x.exp()
    assert len(packed) == 2


def test_what_hooks_must_not_do():
    x = leaf(1.0)
    with (
        saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input"),
    ):
        x.sin()
    with saved_tensors_hooks(lambda t: 5, lambda number: number):
        y = x.sin()
    with pytest.raises(TypeError, match=r"expected to be a Tensor but got result of type int"):
        y.backward()
    with disable_saved_tensors_hooks("not in here"), pytest.raises(RuntimeError, match="not in here"), save_on_cpu():
        pass
    with save_on_cpu(), pytest.raises(RuntimeError, match="too late"), disable_saved_tensors_hooks("too late"):
        pass


def test_save_on_cpu_copies():
    x = leaf(1.0, 2.0)
    y = x * 1
    with save_on_cpu(pin_memory=False):
        z = (y * y).sum()
    y.data.zero_()
    z.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_hooks_that_keep_the_memory_do_not_see_a_later_write_of_their_own_op():
    x = leaf(2.0, 3.0)
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * 1
        y.mul_(x)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_mutation_of_saved_tensors_can_be_allowed():
    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        y.zero_()
    z.backward()
    assert x.grad.tolist() == [6.0]


def test_increment_version_is_a_write():
    x = leaf(3.0)
    y = x * 1
    z = y * y
    before = y._version
    increment_version(y)
    assert y._version == before + 1
    with pytest.raises(InplaceError):
        z.backward()


# --- nodes -------------------------------------------------------------------------------------------------------------------


def test_walking_the_graph():
    x = leaf(1.0, 2.0)
    element, two = ((x * 3).exp() + 1).unbind(0)
    node = two.grad_fn
    assert element.grad_fn is node and (element.output_nr, two.output_nr) == (0, 1) and isinstance(node, Node)
    names = []
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert names == ["UnbindBackward0", "AddBackward0", "ExpBackward0", "MulBackward0", "AccumulateGrad"]
    assert (x * 3).grad_fn.next_functions[0][0].variable is x
    for swapped in (3 * x, 3 + x):  # the tensor stands first, as in PyTorch
        assert swapped.grad_fn.next_functions[0][0].variable is x
    assert (x * 3).grad_fn.next_functions[0] == (x * 4).grad_fn.next_functions[0]
    assert x.grad_fn is None


def test_nodes_show_what_they_saved():
    x = leaf(1.0, 2.0)
    y = x.exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist() and y.grad_fn._saved_result.requires_grad
    product = x * y
    assert product.grad_fn._saved_self is x and product.grad_fn._saved_other.grad_fn is y.grad_fn
    assert dg.softmax(x, 0).grad_fn._saved_dim == 0
    assert not hasattr(y.grad_fn, "_saved_nothing")
    y.sum().backward()
    with pytest.raises(GradientError, match="already been freed"):
        _ = y.grad_fn._saved_result


def test_metadata_belongs_to_the_node():
    y = leaf(1.0) * 2
    y.grad_fn.metadata["mine"] = 5
    assert y.grad_fn.metadata["mine"] == 5
    with dg.autograd.detect_anomaly():
        z = leaf(1.0) * 2
    assert "test_graph.py" in z.grad_fn.metadata["traceback"]


def test_hooks_of_nodes():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    handle = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward(retain_graph=True)
    assert seen == [([30.0, 30.0], [10.0, 10.0])] and x.grad.tolist() == [30.0, 30.0]
    handle.remove()
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, inputs[1]))
    (g,) = dg.autograd.grad(y.sum(), x, create_graph=True)
    assert len(seen) == 1 and g.tolist() == [31.0, 31.0]
    y.grad_fn.register_hook(lambda inputs, outputs: inputs[:1])
    with pytest.raises(GradientError, match="the hook returned 1 gradients, expected 2"):
        y.sum().backward()


def test_hooks_of_a_node_with_several_outputs():
    x = leaf(1.0, 2.0)
    element, two = (x * 3).unbind(0)
    seen = []
    element.grad_fn.register_hook(
        lambda inputs, outputs: seen.append([None if g is None else g.item() for g in outputs])
    )
    element.grad_fn.register_prehook(lambda grads: tuple(None if g is None else g * 2 for g in grads))
    two.backward()
    assert seen == [[None, 2.0]] and x.grad.tolist() == [0.0, 6.0]


def test_hooks_of_a_leaf_s_node():
    x = leaf(1.0)
    node = x.view(1).grad_fn.next_functions[0][0]
    seen = []
    node.register_prehook(lambda grads: (grads[0] * 2,))
    node.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].item())))
    (x * 5).backward()
    assert seen == [((), 10.0)] and x.grad.tolist() == [10.0]


# --- edges -------------------------------------------------------------------------------------------------------------------


def test_gradient_edges_stand_for_tensors():
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = get_gradient_edge(y)
    assert isinstance(edge, GradientEdge) and edge.node is y.grad_fn and edge.output_nr == 0
    loss = (y * y).sum()
    assert dg.autograd.grad(loss, edge, retain_graph=True)[0].tolist() == [4.0, 8.0]
    assert dg.autograd.grad(loss, [edge, get_gradient_edge(x)], retain_graph=True)[1].tolist() == [8.0, 16.0]
    assert dg.autograd.grad(edge, x, dg.ones(2, dtype=dg.float64), retain_graph=True)[0].tolist() == [2.0, 2.0]
    dg.autograd.backward([get_gradient_edge(loss)])
    assert x.grad.tolist() == [8.0, 16.0]
    two = get_gradient_edge((x * 3).unbind(0)[1])
    assert two.output_nr == 1 and dg.autograd.grad(two, x)[0].tolist() == [0.0, 3.0]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(dg.ones(2))
    with pytest.raises(GradientError, match="to not have been used"):
        dg.autograd.grad((x * 1).sum(), edge)


def test_edges_from_nodes_stand_for_inputs():
    x = leaf(1.0, 2.0)
    y = x * 2
    a, b = y.unbind()
    loss = 3 * a + 4 * b
    edges = [GradientEdge(part.grad_fn, part.output_nr) for part in (a, b, y)]
    edges.append(GradientEdge(y.grad_fn.next_functions[0][0], 0))
    gradients = dg.autograd.grad(loss, edges, retain_graph=True)
    assert [g.tolist() for g in gradients] == [3.0, 4.0, [3.0, 4.0], [6.0, 8.0]]
    with pytest.raises(GradientError, match="to not have been used in the graph: input 0. Set"):
        dg.autograd.grad((x * 1).sum(), edges[2])
    with pytest.raises(GradientError, match="MulBackward0.*knows no shape.*get_gradient_edge"):
        dg.autograd.grad(edges[2], x)
    with pytest.raises(GradientError, match="materialize_grads.*MulBackward0.*input 0.*knows no shape"):
        dg.autograd.grad((x * 1).sum(), edges[2], materialize_grads=True)


def test_a_hook_of_several_tensors_comes_once_per_backward():
    x, y, unused = leaf(1.0), leaf(2.0), leaf(3.0)
    seen = []

    def note(grads):
        seen.append([None if g is None else g.item() for g in grads])

    handle = register_multi_grad_hook([x, y, unused], note)
    (x * y + x).sum().backward()
    (x * y).sum().backward()
    dg.autograd.grad((x * y).sum(), x)
    assert seen == [[3.0, 1.0, None], [2.0, 1.0, None], [2.0, None, None]]
    handle.remove()
    (x * y).sum().backward()
    assert len(seen) == 3
    first = []
    with register_multi_grad_hook([x, y], lambda g: first.append(g.item()), mode="any"):
        (x * y).sum().backward()
        (x * y).sum().backward()
    assert len(first) == 2
    with pytest.raises(ValueError, match="mode to be one of"):
        register_multi_grad_hook([x], note, mode="some")


def test_grad_of_several_rows_at_once():
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    rows = dg.eye(3, dtype=dg.float64)
    (result,) = dg.autograd.grad(y, x, rows, is_grads_batched=True)
    assert result.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]] and not result.requires_grad
    unused = leaf(1.0)
    result = dg.autograd.grad(x * x, [unused, x], rows, is_grads_batched=True, allow_unused=True, create_graph=True)
    assert result[0] is None and result[1].requires_grad
    with pytest.raises(GradientError, match="one Tensor per output"):
        dg.autograd.grad(x * x, x, is_grads_batched=True)


def test_grad_inside_vmap():
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    result = dg.vmap(lambda v: dg.autograd.grad(y, x, v, retain_graph=True)[0])(dg.eye(3, dtype=dg.float64))
    assert result.diagonal().tolist() == [2.0, 4.0, 6.0] and not result.requires_grad
    with pytest.raises(GradientError, match=r"another value for each example.*func\.grad"):
        dg.vmap(lambda scale: dg.autograd.grad((x * scale).sum(), x)[0])(dg.ones(2, dtype=dg.float64))


def test_retained_gradients_are_those_after_all_hooks():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    y.backward()
    assert y.grad.tolist() == [6.0] and x.grad.tolist() == [12.0]


def unpacked_by(unpack):
    x = dg.ones(2, requires_grad=True)
    with saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = x * dg.full((2,), 3.0)
    y.sum().backward()
    return x.grad


def test_unpacked_tensors_become_what_was_packed():
    for unpack in (lambda tensor: tensor.double(), lambda tensor: tensor.long(), lambda tensor: dg.tensor(3.0)):
        g = unpacked_by(unpack)
        assert g.dtype is dg.float32 and g.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("unpack", "message"),
    [
        (lambda tensor: dg.ones(3), r"gave a tensor of shape \(3,\), expected that of what was packed, \(2,\)"),
        (lambda tensor: dg.ones(1, 2), r"gave a tensor of shape \(1, 2\)"),
        (lambda tensor: tensor.to("meta"), "gave a tensor on meta, expected cpu"),
    ],
)
def test_unpacked_tensors_fit_what_was_packed(unpack, message):
    with pytest.raises(GradientError, match=message):
        unpacked_by(unpack)
