"""Which gradients stay where: leaves frozen between forward and backward, writes after `retain_grad`, hooks, copies. Beside torch."""

import copy
import pickle

import pytest
import torch

import dynograd


def shown(value):
    if isinstance(value, (tuple, list)):
        return [shown(element) for element in value]
    if hasattr(value, "detach"):
        return value.detach().tolist(), str(value.dtype).split(".")[-1], value.requires_grad
    return value


def outcome(case, t):
    """What the case gives, or that it is refused."""
    try:
        return shown(case(t))
    except (RuntimeError, TypeError, ValueError):
        return "refused"


def leaf(t, dtype="float32"):
    return t.ones(2, dtype=getattr(t, dtype), requires_grad=True)


def gradients(*tensors):
    return [x.grad for x in tensors]


# --- a leaf changed after the forward -----------------------------------------------------------------------------------------


def frozen(t, graph, **options):
    w = leaf(t)
    graph(w).sum().backward(retain_graph=True)
    y = graph(w).sum()
    w.requires_grad_(False)
    y.backward(**options)
    return w.grad


def frozen_with_hooks(t):
    calls, w = [], leaf(t)
    w.register_hook(lambda g: calls.append("hook"))
    w.register_post_accumulate_grad_hook(lambda x: calls.append("post"))
    y = (w * 3).sum()
    w.requires_grad_(False)
    y.backward()
    return calls, w.grad


def frozen_module(t):
    layer = t.nn.Linear(2, 1)
    y = layer(t.ones(1, 2)).sum()
    layer.requires_grad_(False)
    y.backward()
    return gradients(layer.weight, layer.bias)


def frozen_and_back(t):
    w = leaf(t)
    y = (w * 3).sum()
    w.requires_grad_(False).requires_grad_(True)
    y.backward()
    return w.grad


def detached(t):
    w = leaf(t)
    y = (w * w).sum()
    w.detach_()
    y.backward()
    return w.grad


def view_detached(t):
    return (leaf(t) * 2)[0].detach_()


def other_shape(t):
    w = leaf(t)
    (w * 3).sum().backward()
    w.data = t.ones(3)
    (w * 3).sum().backward()


CHANGED = {
    "one path": lambda t: frozen(t, lambda w: w * 3),
    "two paths": lambda t: frozen(t, lambda w: w * 3 + w * w),
    "outputs of one op": lambda t: frozen(t, lambda w: t.cat([part * 2 for part in w.chunk(2)])),
    "create_graph": lambda t: frozen(t, lambda w: w * w, create_graph=True),
    "hooks": frozen_with_hooks,
    "module": frozen_module,
    "and back": frozen_and_back,
    "detach_": detached,
    "detach_ of a view": view_detached,
    "other shape": other_shape,
    "integers": lambda t: setattr(leaf(t), "data", t.ones(2, dtype=t.int64)),
    "its own grad": lambda t: (lambda w: setattr(w, "grad", w))(leaf(t)),
    "grad elsewhere": lambda t: setattr(leaf(t), "grad", t.ones(2, device="meta")),
}


# --- writes ---------------------------------------------------------------------------------------------------------------------


def retained(t, write, view=None):
    w = leaf(t)
    y = w * 3
    kept = y if view is None else view(y)
    kept.retain_grad()
    write(t, y, kept)
    ((y if view is None else kept) * 7).sum().backward()
    return kept.retains_grad, kept.grad, w.grad


def hooks_and_retained(t):
    seen, w = [], leaf(t)
    y = w * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    y.mul_(10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 7).sum().backward()
    return seen, y.grad


def only_the_old(t):
    w = leaf(t)
    y = w * 3
    y.retain_grad()
    z = (y + 1).sum()
    y.mul_(10)
    z.backward()
    return y.grad, w.grad


def dirty(t):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return retained(t, lambda t, y, kept: Double.apply(y))


WRITTEN = {
    "mul_": lambda t: retained(t, lambda t, y, kept: y.mul_(10)),
    "twice": lambda t: retained(t, lambda t, y, kept: y.mul_(10).add_(2).mul_(3)),
    "item": lambda t: retained(t, lambda t, y, kept: y.__setitem__(0, 5.0)),
    "view of it": lambda t: retained(t, lambda t, y, kept: y[:1].mul_(10)),
    "base of a view": lambda t: retained(t, lambda t, y, kept: y.mul_(10), lambda y: y[:1]),
    "the view": lambda t: retained(t, lambda t, y, kept: kept.mul_(10), lambda y: y[:1]),
    "another view": lambda t: retained(t, lambda t, y, kept: y[1:].mul_(10), lambda y: y[:1]),
    "copy_": lambda t: retained(t, lambda t, y, kept: y.copy_(leaf(t) * 2)),
    "zero_": lambda t: retained(t, lambda t, y, kept: y.zero_()),
    "no_grad": lambda t: retained(t, lambda t, y, kept: t.no_grad()(y.mul_)(10)),
    "hooks": hooks_and_retained,
    "only the old": only_the_old,
    "Function": dirty,
}


def overwritten(t, write):
    w = leaf(t)
    y = w * 3
    write(t, y)
    (asked,) = t.autograd.grad((y * 7).sum(), w, retain_graph=True)
    (y * 7).sum().backward()
    return asked, w.grad


EVERYWHERE = {
    "zero_": lambda t, y: y.zero_(),
    "fill_": lambda t, y: y.fill_(2),
    "fill_ with a tensor": lambda t, y: y.fill_(t.tensor(2.0, requires_grad=True)),
    "copy_": lambda t, y: y.copy_(t.ones(2)),
    "copy_ of what requires grad": lambda t, y: y.copy_(leaf(t)),
    "copy_ of another dtype": lambda t, y: y.copy_(leaf(t, "float64")),
    "copy_ stretched": lambda t, y: y.copy_(t.ones(1, requires_grad=True)),
    "...": lambda t, y: y.__setitem__(..., 1.0),
    "()": lambda t, y: y.__setitem__((), t.ones(2)),
    ":": lambda t, y: y.__setitem__(slice(None), leaf(t)),
    "mask": lambda t, y: y.__setitem__(t.ones(2, dtype=t.bool), 1.0),
    "view": lambda t, y: y.view(2, 1).zero_(),
    "normal_": lambda t, y: y.normal_(),
    "uniform_": lambda t, y: y.uniform_(),
    "bernoulli_": lambda t, y: y.bernoulli_(0.5),
    "exponential_": lambda t, y: y.exponential_(),
    "cauchy_": lambda t, y: y.cauchy_(),
    "log_normal_": lambda t, y: y.log_normal_(),
    "geometric_": lambda t, y: y.geometric_(0.5),
    "random_": lambda t, y: y.random_(),
    "_foreach_zero_": lambda t, y: t._foreach_zero_([y]),
    "eq_": lambda t, y: y.eq_(1),
    "gt_": lambda t, y: y.gt_(1),
}


# --- what hooks and functions give ------------------------------------------------------------------------------------------------

GIVEN = {
    "double": lambda t, g: g.double(),
    "half": lambda t, g: g.half(),
    "whole numbers": lambda t, g: g.long(),
    "complex": lambda t, g: g + 0j,
    "meta": lambda t, g: t.ones(2, device="meta"),
    "sparse": lambda t, g: g.to_sparse(),
    "larger": lambda t, g: t.ones(3),
    "number of no dims": lambda t, g: t.ones(()),
    "text": lambda t, g: "a",
    "number": lambda t, g: 1.0,
    "same": lambda t, g: g * 2,
    "None": lambda t, g: None,
}


def leaf_hook(t, change):
    w = leaf(t)
    w.register_hook(lambda g: change(t, g))
    (w * 3).sum().backward()
    return w.grad


def leaf_hook_in_grad(t, change):
    w = leaf(t)
    w.register_hook(lambda g: change(t, g))
    return t.autograd.grad((w * w).sum(), w, create_graph=True)[0].detach()


def inner_hook(t, change):
    w = leaf(t)
    y = w * 3
    y.register_hook(lambda g: change(t, g))
    y.sum().backward()
    return w.grad


def hook_of_one_of_many(t, change):
    w = t.ones(4, requires_grad=True)
    a, b = w.chunk(2)
    a.register_hook(lambda g: change(t, g))
    (a * b).sum().backward()
    return w.grad


def node_hook(t, change):
    w = leaf(t)
    y = w.neg()
    y.grad_fn.register_hook(lambda inputs, outputs: (change(t, inputs[0]),))
    y.sum().backward()
    return w.grad


def node_prehook(t, change):
    w = leaf(t)
    y = w.neg()
    y.grad_fn.register_prehook(lambda outputs: (change(t, outputs[0]),))
    y.sum().backward()
    return w.grad


def leaf_prehook(t, change):
    w = leaf(t)
    y = w.neg()
    y.grad_fn.next_functions[0][0].register_prehook(lambda outputs: (change(t, outputs[0]),))
    y.sum().backward()
    return w.grad


def module_hook(t, change):
    w, layer = leaf(t), t.nn.Identity()
    layer.register_full_backward_hook(lambda module, inputs, outputs: (change(t, inputs[0]),))
    layer(w).sum().backward()
    return w.grad


def module_prehook(t, change):
    w, layer = leaf(t), t.nn.Identity()
    layer.register_full_backward_pre_hook(lambda module, outputs: (change(t, outputs[0]),))
    layer(w).sum().backward()
    return w.grad


HOOKS = (
    leaf_hook,
    leaf_hook_in_grad,
    inner_hook,
    hook_of_one_of_many,
    node_hook,
    node_prehook,
    leaf_prehook,
    module_hook,
    module_prehook,
)
# No tensor comes back; and torch's border of a module makes zeros of a gradient that is not there.
NO_ANSWER = {("leaf_hook_in_grad", "None"), ("module_prehook", "None")}


def function(t, change):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return change(t, g)

    w = leaf(t)
    Double.apply(w).sum().backward()
    return w.grad if w.grad is None or not w.grad.is_sparse else w.grad.to_dense()


def unpacked(t, change):
    w = leaf(t)
    with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: change(t, x)):
        y = w * t.full((2,), 4.0)
    y.sum().backward()
    return w.grad


def asked_with(t, change, dtype="float32"):
    y = (w := leaf(t, dtype)) * 3
    return t.autograd.grad(y, w, change(t, t.ones(2)))


def backward_of_complex(t):
    (leaf(t, "complex64") * 2).sum().backward()


def hook_without_tuple(t, returned):
    w = leaf(t)
    y = w.neg()
    y.grad_fn.register_hook(lambda inputs, outputs: returned(inputs[0]))
    y.sum().backward()


# --- copies ---------------------------------------------------------------------------------------------------------------------


def used(t, kind):
    w = kind(t.ones(2))
    w.requires_grad_()
    (w * 3).sum().backward()
    return w


def copied_layer(t):
    layer = t.nn.Linear(2, 1)
    layer(t.ones(1, 2)).sum().backward()
    other = copy.deepcopy(layer)
    before = gradients(other.weight, other.bias)
    other(t.ones(1, 2)).sum().backward()
    return before, gradients(other.weight, other.bias)


def written_after(t, *views):
    """Copies of views of one tensor, all of them as they are when the first has been written."""
    x = t.arange(6.0)
    parts = copy.deepcopy([view(x) for view in views])
    parts[0].fill_(9.0)
    return [(part, list(part.stride()), part.storage_offset(), part.untyped_storage().nbytes()) for part in parts]


def attributes(t, copied, kind):
    x = kind(t.ones(2))
    x.note = [1]
    return getattr(copied(x), "note", None)


def unpickled(x):
    return pickle.loads(pickle.dumps(x))


COPIED = {
    "tensor": lambda t: copy.deepcopy(used(t, t.clone)).grad,
    "parameter": lambda t: copy.deepcopy(used(t, t.nn.Parameter)).grad,
    "layer": copied_layer,
    "shallow": lambda t: copy.copy(used(t, t.nn.Parameter)).grad,
    "pickled": lambda t: unpickled(used(t, t.nn.Parameter)).grad,
    "pickled with history": lambda t: unpickled(leaf(t) * 2),
    "with history": lambda t: copy.deepcopy(leaf(t) * 2),
    "overlapping": lambda t: written_after(t, lambda x: x[:3], lambda x: x[2:]),
    "base and view": lambda t: written_after(t, lambda x: x, lambda x: x[1:]),
    "view and base": lambda t: written_after(t, lambda x: x[1:], lambda x: x),
    "transposed": lambda t: written_after(t, lambda x: x.view(2, 3).t(), lambda x: x.detach()),
    "stretched": lambda t: written_after(t, lambda x: x[2:3], lambda x: x[2:3].expand(4)),
    "data": lambda t: written_after(t, lambda x: x, lambda x: x.data),
    "parameters of one memory": lambda t: written_after(
        t, lambda x: x, lambda x: t.nn.Parameter(x[:2]), lambda x: t.nn.Parameter(x[:2])
    ),
    "attributes": lambda t: attributes(t, copy.deepcopy, t.clone),
    "attributes of a parameter": lambda t: attributes(t, copy.deepcopy, t.nn.Parameter),
    "attributes of a buffer": lambda t: attributes(t, copy.deepcopy, t.nn.Buffer),
    "buffer": lambda t: [copied(t.nn.Buffer(t.ones(1), persistent=False)).persistent for copied in (copy.copy, copy.deepcopy)],
    "tensor and storage": lambda t: (
        lambda pair: pair[0].untyped_storage().data_ptr() == pair[1].data_ptr()
    )(copy.deepcopy([x := t.ones(2), x.untyped_storage()])),
}  # fmt: skip

CASES = {
    **{f"changed: {name}": case for name, case in CHANGED.items()},
    **{f"written: {name}": case for name, case in WRITTEN.items()},
    **{f"everywhere: {name}": (lambda t, write=write: overwritten(t, write)) for name, write in EVERYWHERE.items()},
    **{
        f"{hook.__name__}: {argument}": (lambda t, hook=hook, change=change: hook(t, change))
        for hook in HOOKS
        for argument, change in GIVEN.items()
        if (hook.__name__, argument) not in NO_ANSWER
    },
    **{f"function: {argument}": (lambda t, change=change: function(t, change)) for argument, change in GIVEN.items()},
    **{f"unpacked: {argument}": (lambda t, change=change: unpacked(t, change)) for argument, change in GIVEN.items()},
    **{f"grad_outputs: {argument}": (lambda t, change=change: asked_with(t, change)) for argument, change in GIVEN.items()},
    "grad_outputs: real for complex": lambda t: asked_with(t, lambda t, g: g, "complex64"),
    "backward: complex": backward_of_complex,
    "node_hook: no tuple": lambda t: hook_without_tuple(t, lambda g: g),
    "node_hook: list": lambda t: hook_without_tuple(t, lambda g: [g]),
    "node_hook: too many": lambda t: hook_without_tuple(t, lambda g: (g, g)),
    "post_accumulate: number": lambda t: (
        w := leaf(t), w.register_post_accumulate_grad_hook(lambda x: 1), w.sum().backward()
    ),
    **{f"copied: {name}": case for name, case in COPIED.items()},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", CASES)
def test_as_torch(name):
    assert outcome(CASES[name], dynograd) == outcome(CASES[name], torch)
