"""Views of which their base does not know: each follows a recorded write into its base when it is asked for its history."""

import copy
import gc
import pickle
import threading

import numpy
import pytest

import dynograd as dg
from dynograd.autograd.modes import unwatch, watch
from dynograd.autograd.nodes import next_seq
from dynograd.nn import Parameter
from dynograd.utils.checkpoint import checkpoint


class Marked(dg.Tensor):
    pass


VIEWS = {
    "a row": lambda base: [base[1]],
    "a view of a view": lambda base: [base.t()[2, 1:]],
    "one of several": lambda base: [base.unbind(1)[2]],
    "several of a view": lambda base: list(base.t().split(2)),
    "of a subclass": lambda base: [
        base.view(4).as_subclass(Marked) if base.numel() == 4 else base[0].as_subclass(Marked)
    ],
    "made without grad": lambda base: [base[1].detach(), base[1]],
    "with a hook": lambda base: [_hooked(base[1])],
    "by place": lambda base: [base.as_strided((2, 2), (1, 1), 3)],
    "in no_grad": lambda base: dg.no_grad()(lambda: [base[1]])() if not base.requires_grad else [base[1]],
}


def _hooked(view):
    if view.requires_grad:
        view.retain_grad()
    return view


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("frozen", [False, True], ids=["", "frozen"])
def test_living_views_follow_a_write_into_their_base(name, frozen):
    w = dg.arange(6.0, dtype=dg.float64).view(2, 3).requires_grad_()
    base = w * 1.0
    views = VIEWS[name](base)
    ring = [*views]  # only the collector could free it
    ring.append(ring)
    if frozen:
        gc.freeze()
    try:
        count = gc.get_freeze_count()
        factor = base.detach().clone()
        with_history = base * factor
        base.mul_(factor)
        assert count - 1000 < gc.get_freeze_count() <= count  # some were freed
    finally:
        if frozen:
            gc.unfreeze()
    assert base.tolist() == with_history.tolist()
    for view, expected in zip(views, VIEWS[name](with_history)):
        assert view.tolist() == expected.tolist()
        assert view.requires_grad == expected.requires_grad
        if view.requires_grad:
            result, reference = (
                dg.autograd.grad(element.sum(), w, retain_graph=True)[0] for element in (view, expected)
            )
            assert result.tolist() == reference.tolist()


def test_views_of_what_needs_no_grad_follow_too():
    w = dg.tensor([2.0], requires_grad=True)
    base = dg.zeros(3)
    view, part = base.view(1, 3), base[1:]
    with dg.no_grad():
        apart = base[:2]
    base[1] = 3 * w[0]
    assert view.requires_grad and part.requires_grad and apart.requires_grad
    (view.sum() + part.sum() + apart.sum()).backward()
    assert w.grad.tolist() == [9.0]


class Doubled(dg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def _filled(view):
    target = dg.zeros(2)
    target.copy_(view)
    return target


def _assigned(view):
    target = dg.zeros(3)
    target[1:] = view
    return target


def _added(view):
    view += 1
    return view


ASKED = {
    "an op": lambda v: v * 2,
    "an op with a number first": lambda v: 1 - v,
    "an op of one operand": lambda v: v.exp(),
    "where": lambda v: dg.where(dg.tensor([True, False]), v, 0.0),
    "addcmul": lambda v: dg.addcmul(dg.zeros(2), v, dg.ones(2)),
    "another dtype": lambda v: v.double(),
    "a reduction": lambda v: v.sum(),
    "a view": lambda v: v.view(2, 1),
    "an index": lambda v: v[0],
    "an index tensor": lambda v: v[dg.tensor([1, 0])],
    "several views": lambda v: v.split(1)[1],
    "iteration": lambda v: next(iter(v)),
    "a list": lambda v: dg.cat([v, dg.zeros(1)]),
    "a list of one": lambda v: dg.stack([v]),
    "a tuple": lambda v: dg.hstack((v, v)),
    "a product": lambda v: v @ dg.ones(2, 2),
    "linear": lambda v: dg.nn.functional.linear(dg.ones(1, 2), v.view(1, 2)),
    "softmax": lambda v: dg.nn.functional.softmax(v, 0)[:1],
    "add_ of a constant": lambda v: dg.zeros(2).add_(v),
    "copy_": _filled,
    "setitem": _assigned,
    "a write into it": _added,
    "a Function": lambda v: Doubled.apply(v),
    "checkpoint": lambda v: checkpoint(lambda t: t * 2, v, use_reentrant=False),
    "vmap": lambda v: dg.func.vmap(lambda t: t * 2)(v),
    "clone": lambda v: v.clone(),
    "itself": lambda v: v,
    "the view of it that there was": lambda v: v.other,
}


@pytest.mark.parametrize("requires_grad", [False, True], ids=["of a constant", "of what has a history"])
@pytest.mark.parametrize("name", ASKED)
def test_a_view_follows_when_it_is_an_operand(name, requires_grad):
    """The same gradients as where the view is made after the writes."""
    results = []
    for late in (False, True):
        w = dg.tensor([2.0, 3.0], requires_grad=True)
        base = w.sum() * dg.ones(3) if requires_grad else dg.zeros(3)
        view, other = base[1:], base[1:].view(2)
        base[1] = 3 * w[0]
        base.mul_(w[1])
        if late:
            view, other = base[1:], base[1:].view(2)
        view.other = other
        out = ASKED[name](view)
        assert out.requires_grad, name
        out.sum().backward()
        results.append((out.tolist(), w.grad.tolist()))
    assert results[0] == results[1]


QUESTIONS = {
    "requires_grad": lambda v: v.requires_grad,
    "is_leaf": lambda v: v.is_leaf,
    "grad_fn": lambda v: type(v.grad_fn).__name__,
    "output_nr": lambda v: v.output_nr,
    "repr": repr,
    "get_gradient_edge": lambda v: type(dg.autograd.graph.get_gradient_edge(v).node).__name__,
    "numpy": lambda v: _refused(v.numpy),
    "deepcopy": lambda v: _refused(lambda: copy.deepcopy(v)),
    "dlpack": lambda v: _refused(lambda: v.__dlpack__()),
    "out=": lambda v: _refused(lambda: dg.add(v, 1, out=dg.zeros(2))),
    "resize_": lambda v: _refused(lambda: v.resize_(1)),
    "pickle": lambda v: pickle.loads(pickle.dumps(v)).requires_grad,
    "retain_grad": lambda v: v.retain_grad() or v.retains_grad,
    "register_hook": lambda v: type(v.register_hook(print)).__name__,
    "requires_grad_": lambda v: v.requires_grad_().is_leaf,
    "requires_grad = False": lambda v: _refused(lambda: setattr(v, "requires_grad", False)),
    "grad of it": lambda v: dg.autograd.grad((v * 2).sum(), v)[0].tolist(),
    "asked in no_grad": lambda v: dg.no_grad()(lambda: v.requires_grad)(),
}


def _refused(call):
    with pytest.raises((RuntimeError, BufferError)) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("number", [False, True], ids=["one", "of several"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_view_follows_when_it_is_asked(question, number):
    answers = []
    for late in (False, True):
        w = dg.tensor(2.0, requires_grad=True)
        base = dg.zeros(3)

        def views(base=base):
            return base.split(2)[0] if number else base[:2]

        view = views()
        base[1] = 3 * w
        if late:
            view = views()
        answers.append(QUESTIONS[question](view))
    assert answers[0] == answers[1]


def test_what_was_computed_before_the_write_keeps_its_history():
    w = dg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = w * 1
    view = base[1:]
    before = view * 2
    base.mul_(10)
    after = view * 3
    assert dg.autograd.grad(before.sum(), w, retain_graph=True)[0].tolist() == [0.0, 2.0, 2.0]
    assert dg.autograd.grad(after.sum(), w)[0].tolist() == [0.0, 30.0, 30.0]


def test_a_view_keeps_a_base_that_nobody_else_has():
    w = dg.tensor([1.0, 2.0], requires_grad=True)
    base = w * 1
    first, second = base[:1], base.view(2, 1)
    base.mul_(3)
    del base
    first.mul_(5)
    second.sum().backward()
    assert w.grad.tolist() == [15.0, 3.0]


def test_views_of_a_tensor_that_changes_its_own_shape():
    w = dg.tensor([1.0, 2.0], requires_grad=True)
    base = w * 1
    view = base[1:]
    base.unsqueeze_(0)
    late = base[0, :1]
    base.mul_(3)
    view.mul_(5)
    assert view._base is late._base is base._base
    (view.sum() + late.sum() + base.sum()).backward()
    assert w.grad.tolist() == [6.0, 30.0]


def test_writes_into_memory_that_nobody_shares_leave_no_trace():
    w = dg.tensor([2.0], requires_grad=True)
    out = dg.zeros(3)
    for number in range(3):
        out[number] = number * w[0]
    assert out._meta is None
    out.sum().backward()
    assert w.grad.tolist() == [3.0]


@pytest.mark.parametrize("kept", [False, True], ids=["views that die", "views that live"])
def test_rounds_of_views_and_writes_make_a_few_objects_each(kept):
    """The places in time are counted: each node has one."""
    w = dg.ones(2, requires_grad=True)
    base, views, rounds = w * 1, [], 1000
    begin, objects = next_seq(), len(gc.get_objects())
    for _ in range(rounds):
        view = base.view(2, 1)
        if kept:
            views.append(view)
        base.add_(w)
    assert next_seq() - begin < 12 * rounds and len(gc.get_objects()) - objects < 12 * rounds
    view.sum().backward()
    assert w.grad.tolist() == [rounds + 1.0] * 2
    assert all([view.grad_fn is not None for view in views])
    assert next_seq() - begin < 16 * rounds


def test_what_is_a_view_of_what():
    base = dg.zeros(2, 3)
    row, turned = base[0], base.t()
    assert row._base is base and turned[1]._base is base and base._base is None
    assert base.data._base is None and base.detach()._base is None
    parameter = Parameter(base.view(6))
    assert parameter._base is None
    assert base.data[0]._base is not base


def test_views_of_tensors_that_wait_for_their_value():
    x = dg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    v = y[0:2]
    with dg.autobatch(always=True):
        waiting = x * 2
        part, again = waiting[0:2], waiting.detach()
        y.mul_(10)
        (v.sum() + part.sum() + again.sum()).backward()
    assert x.grad.tolist() == [12.0, 12.0, 0.0]


def test_views_that_a_jvp_has_not_seen_move_with_their_base():
    """`before` and `row` were plain when their base began to move."""

    def function(x):
        base = dg.zeros(3)
        before, row = base[1:], base[0:2]
        base[1] = x
        seen = (before * 2, dg.cat([row, row]), Doubled.apply(row))
        base.mul_(x)
        return (*seen, before.clone(), row)

    outputs, ways = dg.func.jvp(function, (dg.tensor(3.0),), (dg.tensor(1.0),))
    assert [out.tolist() for out in outputs] == [[6, 0], [0, 3, 0, 3], [0, 6], [9, 0], [0, 9]]
    assert [way.tolist() for way in ways] == [[2, 0], [0, 1, 0, 1], [0, 2], [6, 0], [0, 6]]


@pytest.mark.parametrize("way", ["index", "split"])
def test_a_write_while_another_thread_makes_views(way):
    w = dg.ones(4, dtype=dg.float64, requires_grad=True)
    base, views, done = w * 1, [], threading.Event()

    def make():
        while not done.is_set() and len(views) < 4000:
            views.extend([base[1:3]] if way == "index" else base.split(2)[1:])
            views.append(views[-1].view(2, 1))

    maker = threading.Thread(target=make)
    maker.start()
    writes = 0
    while maker.is_alive() and writes < 300:
        base.mul_(1.0)
        writes += 1
    done.set()
    maker.join()
    base.mul_(3.0)
    expected = [0.0, 1.0, 1.0, 0.0] if way == "index" else [0.0, 0.0, 1.0, 1.0]
    for view in views:
        (gradient,) = dg.autograd.grad(view.sum(), base, retain_graph=True)
        assert numpy.array_equal(gradient.numpy(), expected)


@pytest.mark.parametrize("way", [lambda t: t[1:], lambda t: t.split(1)[1], lambda t: t.view(2, 1).view(2)[1:]])
def test_a_write_while_a_view_is_being_made(way):
    """As another thread may do it: when the view's node is there already."""
    w = dg.tensor([1.0, 2.0], requires_grad=True)
    base = w * 1
    kept = base.view(2)  # so that the base has views

    def write(node):
        unwatch(write)
        base.mul_(3)

    watch(write)
    view = way(base)
    (view.sum() + kept.sum()).backward()
    assert w.grad.tolist() == [3.0, 6.0]


def test_batch_norm_in_training_as_the_first_call_of_a_scope():
    layer = dg.nn.BatchNorm1d(2)
    with dg.autobatch(always=True):
        for k in (1, 2):
            layer(dg.tensor([[1.0, 2.0], [3.0, 6.0]]) * k)
    assert layer.running_mean.tolist() == [0.5799999833106995, 1.159999966621399]
    assert layer.num_batches_tracked.item() == 2
