"""Views of which their base does not know: found when a recorded write needs them, noted when they are made from then on."""

import gc
import subprocess
import sys
import threading

import pytest

import dynograd as dg
from dynograd.interpreter import tensor_parts
from dynograd.nn import Parameter


@pytest.fixture(params=[False, True], ids=["not yet watched", "watched"])
def watched(request, monkeypatch):
    monkeypatch.setattr(tensor_parts, "_watch", _counted(tensor_parts._watch))
    monkeypatch.setattr(tensor_parts, "_as_a_search", 1 << 60)
    held, tensor_parts.watching[:] = tensor_parts.watching[:], [True] if request.param else []
    yield request.param
    tensor_parts.watching[:] = held or tensor_parts.watching


def _counted(watch):
    def counted(cls):
        counted.calls += 1
        watch(cls)

    counted.calls = 0
    return counted


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
}


def _hooked(view):
    if view.requires_grad:
        view.retain_grad()
    return view


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("frozen", [False, True], ids=["", "frozen"])
def test_living_views_follow_a_write_into_their_base(name, frozen, watched):
    w = dg.arange(6.0, dtype=dg.float64).view(2, 3).requires_grad_()
    base = w * 1.0
    views = VIEWS[name](base)
    ring = [*views]  # only the collector could free it
    ring.append(ring)
    if frozen:
        gc.freeze()
    try:
        factor = base.detach().clone()
        with_history = base * factor
        base.mul_(factor)
    finally:
        gc.unfreeze()
    assert base.tolist() == with_history.tolist()
    for view, expected in zip(views, VIEWS[name](with_history)):
        assert view.tolist() == expected.tolist()
        assert view.requires_grad == expected.requires_grad
        if view.requires_grad:
            found, wanted = (dg.autograd.grad(one.sum(), w, retain_graph=True)[0] for one in (view, expected))
            assert found.tolist() == wanted.tolist()


def test_views_of_what_needs_no_grad_follow_too(watched):
    w = dg.tensor([2.0], requires_grad=True)
    base = dg.zeros(3)
    view, part = base.view(1, 3), base[1:]
    base[1] = 3 * w[0]
    assert view.requires_grad and part.requires_grad
    (view.sum() + part.sum()).backward()
    assert w.grad.tolist() == [6.0]


def test_writes_into_memory_that_nobody_shares_look_for_no_views():
    held, tensor_parts.watching[:] = tensor_parts.watching[:], []
    try:
        w = dg.tensor([2.0], requires_grad=True)
        out = dg.zeros(3)
        for number in range(3):
            out[number] = number * w[0]
        out.sum().backward()
        assert w.grad.tolist() == [3.0] and not tensor_parts.watching
    finally:
        tensor_parts.watching[:] = held


def test_the_search_is_made_once(watched):
    for _ in range(2):
        base = dg.ones(3, requires_grad=True) * 1
        view = base[1:]
        base.mul_(2.0)
        assert dg.autograd.grad(view.sum(), base, allow_unused=True)[0].tolist() == [0.0, 1.0, 1.0]
    assert tensor_parts._watch.calls == (0 if watched else 1)


def test_views_that_nobody_asks_for_are_noted_no_longer(monkeypatch):
    """... once that has cost as much as a search; those of before and of meanwhile are found again."""
    held = tensor_parts.watching[:]
    try:
        counted = _counted(tensor_parts._watch)
        monkeypatch.setattr(tensor_parts, "_watch", counted)
        tensor_parts.watching.clear()
        base = dg.ones(3, requires_grad=True) * 1
        early = base[1:]
        for turn in (1, 2, 3):
            base.mul_(2.0)
            assert counted.calls == 2 * turn - 1 and tensor_parts.watching
            base.mul_(2.0)
            assert counted.calls == 2 * turn - 1
            late = base[1:]
            tensor_parts._as_a_search = 100
            for _ in range(50):
                base[0]
            assert tensor_parts.watching
            base.mul_(2.0)
            for _ in range(101):
                base[0]
            assert not tensor_parts.watching
            unseen = base[2:]
            assert {id(one) for one in (early, late)} <= {id(one) for one in tensor_parts.living_views(base)}
            assert len(tensor_parts.living_views(base)) == len({id(one) for one in tensor_parts.living_views(base)})
            assert any(one is unseen for one in tensor_parts.living_views(base))
            for view, expected in ((early, [0.0, 1.0, 1.0]), (late, [0.0, 1.0, 1.0]), (unseen, [0.0, 0.0, 1.0])):
                assert dg.autograd.grad(view.sum(), base, retain_graph=True)[0].tolist() == expected
            tensor_parts.watching.clear()
    finally:
        tensor_parts.watching[:] = held


def test_dead_views_are_forgotten(watched):
    base = dg.zeros(3)
    tensor_parts.watching[:] = [True]
    kept = base[0]
    for _ in range(1000):
        base[1:]
    assert len(base._meta.views) < 100
    assert [one is kept for one in tensor_parts.living_views(base)] == [True]


def test_what_is_a_view_of_what(watched):
    base = dg.zeros(2, 3)
    row, turned = base[0], base.t()
    assert row._base is base and turned[1]._base is base and base._base is None
    assert base.data._base is None and base.detach()._base is None
    parameter = Parameter(base.view(6))
    assert parameter._base is None
    assert base.data[0]._base is not base


def test_a_search_passes_over_tensors_that_wait_for_their_value(watched):
    """What is a view of a tensor that waits has no record yet."""
    tensor_parts.watching.clear()
    x = dg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    v = y[0:2]
    with dg.autobatch(always=True):
        waiting = x * 2
        part, again = waiting[0:2], waiting.detach()
        y.mul_(10)
        (v.sum() + part.sum() + again.sum()).backward()
    assert x.grad.tolist() == [12.0, 12.0, 0.0]


def test_a_search_that_fails_leaves_nothing_half_done(watched, monkeypatch):
    class Interrupted:
        def get_freeze_count(self):
            return 0

        def get_objects(self):
            raise KeyboardInterrupt

    tensor_parts.watching.clear()
    x = dg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, other = x * 1, x * 1
    v, _ = y[0:2], other[1:]
    with monkeypatch.context() as broken:
        broken.setattr(tensor_parts, "gc", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            other.mul_(2)
    assert not tensor_parts.watching and type(other.grad_fn).__name__ == type(y.grad_fn).__name__
    y.mul_(10)
    v.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0, 0.0]


def test_a_second_thread_waits_for_the_search_of_the_first(watched, monkeypatch):
    """The first one has begun and has noted nothing yet when the second one asks."""
    begun, asked = threading.Event(), threading.Event()

    class Slow:
        def get_freeze_count(self):
            return 0

        def get_objects(self):
            begun.set()
            asked.wait(0.2)  # the second thread is not to get an answer meanwhile
            return gc.get_objects()

    tensor_parts.watching.clear()
    base = dg.ones(3) * 1
    view = base[1:]
    monkeypatch.setattr(tensor_parts, "gc", Slow())
    first = threading.Thread(target=tensor_parts.living_views, args=(base,))
    first.start()
    begun.wait()
    views = tensor_parts.living_views(base)
    asked.set()
    first.join()
    assert [one is view for one in views] == [True]


def test_batch_norm_in_training_as_the_first_call_of_a_scope():
    """In a process of its own: nothing has searched for views yet."""
    text = (
        "import dynograd as dg\n"
        "layer = dg.nn.BatchNorm1d(2)\n"
        "with dg.autobatch(always=True):\n"
        "    found = [layer(dg.tensor([[1.0, 2.0], [3.0, 6.0]]) * k) for k in (1, 2)]\n"
        "print(layer.running_mean.tolist(), layer.num_batches_tracked.item())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[0.5799999833106995, 1.159999966621399] 2", 0), done.stderr
