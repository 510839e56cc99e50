"""`autobatch` where it is not simple: hooks, checkpoints, threads, ragged tensors, depth, values read at odd moments."""

import sys
import threading

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.autograd.modes import MODES
from dynograd.transforms.autobatch.record.pending import Lazy
from dynograd.utils.checkpoint import checkpoint


def layer(width=3):
    dynograd.manual_seed(0)
    return nn.Linear(width, width)


def inputs(count, width=3):
    return [dynograd.arange(width) * 0.1 + k for k in range(count)]


def gradients(net):
    return [parameter.grad.numpy() for parameter in net.parameters()]


def close(results, expected):
    for element, other in zip(results, expected, strict=True):
        numpy.testing.assert_allclose(element, other, rtol=1e-5, atol=1e-6)


def plain_step(net, xs):
    net.zero_grad()
    sum((net(x) ** 2).sum() for x in xs).backward()
    return gradients(net)


# --- hooks --------------------------------------------------------------------------------------------------------------------------


def test_waiting_values_are_read_inside_hooks():
    net, xs, seen = layer(), inputs(4), []
    expected = plain_step(net, xs)
    net.zero_grad()
    with dynograd.autobatch(always=True):
        waiting = [x * 3 for x in xs]

        def look(g):
            assert type(waiting[2]) is Lazy or seen
            seen.append(float(waiting[2].sum()) + float((g * 2).sum()))
            assert type(g * 2) is dynograd.Tensor  # ops inside hooks run at once

        hidden = [net(x) for x in xs]
        hidden[1].register_hook(look)
        loss = sum((element**2).sum() for element in hidden)
        loss.backward()
        later = waiting[3] + 1
    with dynograd.no_grad():
        assert seen == pytest.approx([float(xs[2].sum() * 3 + 4 * net(xs[1]).sum())], rel=1e-5)
    assert later.tolist() == pytest.approx((xs[3] * 3 + 1).tolist())
    close(gradients(net), expected)


def test_hooks_of_modules_and_parameters():
    net, xs, seen = layer(), inputs(3), []
    expected = plain_step(net, xs)
    net.zero_grad()
    net.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    net.register_forward_pre_hook(lambda module, args: seen.append(float(args[0].sum())))
    net.weight.register_hook(lambda g: seen.append("weight"))
    net.bias.register_post_accumulate_grad_hook(lambda leaf: seen.append("bias"))
    with dynograd.autobatch(always=True):
        loss = sum((net(x) ** 2).sum() for x in xs)
    loss.backward()
    assert seen[:6] == [pytest.approx(0.3), (3,), pytest.approx(3.3), (3,), pytest.approx(6.3), (3,)]
    assert sorted(seen[6:]) == ["bias", "weight"]
    close(gradients(net), expected)


# --- checkpoints, several scopes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_scope_inside_a_checkpoint(reentrant):
    net, xs = layer(), inputs(4)
    expected = plain_step(net, xs)
    net.zero_grad()

    def step(*given):
        with dynograd.autobatch(always=True):
            return dynograd.stack([(net(x) ** 2).sum() for x in given]).sum()

    leaves = [x.clone().requires_grad_() for x in xs]
    checkpoint(step, *leaves, use_reentrant=reentrant).backward()
    close(gradients(net), expected)
    assert all(leaf.grad is not None for leaf in leaves)


def test_batched_inside_a_checkpoint_and_a_checkpoint_inside_batched():
    net, xs = layer(), inputs(4)

    def one(x):
        h = net(x)
        while float(h.detach().abs().sum()) > 2:
            h = h / 2
        return (h**2).sum()

    def run(way):
        net.zero_grad()
        if way == "loop":
            losses = [one(x) for x in xs]
        elif way == "outside":
            losses = [checkpoint(lambda: sum(dynograd.batched(one, always=True)(xs)), use_reentrant=False)]
        else:
            losses = dynograd.batched(lambda x: checkpoint(one, x, use_reentrant=False), always=True)(xs)
        sum(losses).backward()
        return gradients(net)

    expected = run("loop")
    close(run("outside"), expected)
    close(run("inside"), expected)


def test_second_order_through_batched():
    weight = dynograd.tensor(2.0, dtype=dynograd.float64, requires_grad=True)

    def one(x):
        y = weight * x
        while y.item() < 10:
            y = y * y
        return y

    def run(all_of):
        (g,) = dynograd.autograd.grad(sum(all_of(xs)), weight, create_graph=True)
        (again,) = dynograd.autograd.grad(g, weight)
        return g.item(), again.item()

    xs = [dynograd.tensor(float(k), dtype=dynograd.float64) for k in (1, 2, 3, 9)]
    assert run(dynograd.batched(one, always=True)) == pytest.approx(
        run(lambda given: [one(x) for x in given]), rel=1e-12
    )


# --- threads --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decides", [False, True])
def test_data_parallel_threads(decides):
    net, xs = layer(), inputs(8)

    def one(x):
        h = net(x)
        if decides and h.sum() > 0:
            h = h * 2
        return (h**2).sum()

    net.zero_grad()
    sum(one(x) for x in xs).backward()
    expected = gradients(net)
    net.zero_grad()
    losses = [None] * 4

    def work(number):
        mine = xs[2 * number : 2 * number + 2]
        if decides:
            losses[number] = sum(dynograd.batched(one)(mine))
            return
        with dynograd.autobatch(always=True):
            losses[number] = sum(one(x) for x in mine)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sum(losses).backward()
    close(gradients(net), expected)


# --- ragged tensors beside dense ones --------------------------------------------------------------------------------------------------


def test_ragged_and_dense_tensors_inside_a_scope():
    net, xs = layer(), inputs(4)
    rows = dynograd.nested.nested_tensor([dynograd.ones(2, 3), dynograd.zeros(4, 3)], layout=dynograd.jagged)

    def body():
        total = sum((net(x) ** 2).sum() for x in xs)
        return total + (net(rows) * 0.5).values().sum() + net(rows[0] + xs[0]).sum()

    expected = body()
    expected.backward()
    grads = gradients(net)
    net.zero_grad()
    with dynograd.autobatch(always=True):
        result = body()
    result.backward()
    assert result.item() == pytest.approx(expected.item(), rel=1e-5)
    close(gradients(net), grads)


# --- depth and size ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def deep():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield 4_000
    sys.setrecursionlimit(before)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["autobatch", "batched"])
def test_deep_trees(deep, way):
    cell, word = nn.BinaryTreeLSTMCell(2, 2), dynograd.ones(2)
    tree = word
    for _ in range(deep):
        tree = (tree, word)

    def state(tree):
        return cell(None, state(tree[0]), state(tree[1])) if isinstance(tree, tuple) else cell(tree)

    if way == "autobatch":
        with dynograd.autobatch(always=True):
            loss = state(tree)[0].sum()
    else:
        loss, other = dynograd.batched(lambda one: state(one)[0].sum())([tree, (word, word)])
        loss = loss + 0 * other
    loss.backward()
    assert numpy.isfinite(loss.item()) and all(numpy.isfinite(gradient).all() for gradient in gradients(cell))


@pytest.mark.parametrize("way", ["one kind", "many kinds", "cells"])
def test_what_waits_is_bounded(way):
    cell, x, most = nn.LSTMCell(2, 2), dynograd.ones(2), []
    with dynograd.autobatch(limit=1500, always=True) as report:
        recorder = MODES.recorder
        for _ in range(1200):
            state, y = None, x
            for k in range(12):
                if way == "cells":
                    state = cell(x, state)
                elif way == "one kind":
                    x * 2.0
                else:
                    y = y + 1.0 if k % 2 else y * 0.5
            most.append(sum(bucket.count() for bucket in recorder.waiting))
    assert any("limit" in why for why, _ in report.flushes) and report.calls >= 14_000
    assert max(most) <= 1500 + 13 * 1024


# --- writes ---------------------------------------------------------------------------------------------------------------------------


def test_in_place_writes_of_every_kind_to_a_waiting_value():
    def body(x, net):
        y = net(x)
        kept = y * 2
        y += kept * 2
        y[0] = x[1]
        y[1:].mul_(0.5)
        z = y.view(3, 1).clone()
        z.squeeze_(1)
        z.clamp_(min=-5.0).masked_fill_(x > 4, 0.0)
        z = z * y
        alias = z.detach()
        alias.add_(1)
        return (z + kept).sum(), kept

    net, xs = layer(), inputs(6)
    expected = [body(x, net) for x in xs]
    sum(loss for loss, _ in expected).backward()
    grads = gradients(net)
    net.zero_grad()
    with dynograd.autobatch(always=True):
        results = [body(x, net) for x in xs]
    sum(loss for loss, _ in results).backward()
    for element, other in zip(results, expected):
        close([part.detach().numpy() for part in element], [part.detach().numpy() for part in other])
    close(gradients(net), grads)


def test_an_index_is_taken_when_its_lookup_is_recorded():
    table, token = nn.Embedding(5, 3), dynograd.tensor(1)
    for _ in range(2):
        token.fill_(1)
        with dynograd.autobatch(always=True):
            table(dynograd.tensor(0))
            before = table(token)
            token.fill_(3)
            after = table(token)
        assert dynograd.equal(before, table.weight[1])
        assert dynograd.equal(after, table.weight[3])


def test_a_decorated_function_gives_its_value():
    @dynograd.autobatch()
    def sums(rows):
        return [(row * 2).sum() for row in rows]

    assert [total.item() for total in sums([dynograd.ones(3), dynograd.ones(5)])] == [6.0, 10.0]


def test_static_arguments_are_keys_that_tell_kinds_apart():
    from dynograd.transforms.autobatch.record.forms import frozen

    values = [(1, 2), [1, 2], (1, 2.0), [1, 2.0], 1, 1.0, True, "1", None, slice(1, 2), ((1,), 2), [[1], 2]]
    keys = [frozen(value) for value in values]
    assert len(set(keys)) == len(values) and len({repr(key) for key in keys}) == len(values)
    assert [frozen(value) for value in values] == keys


@pytest.mark.parametrize("wrong", [0, 8, 9, 10, 11, 13, 15])
def test_running_sums_hold_up_to_a_term_that_failed(wrong):
    table = dynograd.nn.Embedding(4, 2)
    indices = [9 if place == wrong else place % 4 for place in range(16)]
    with pytest.raises(IndexError, match="index 9 is outside"), dynograd.autobatch(always=True):
        total, totals = dynograd.zeros(()), []
        for index in indices:
            total = total + table(dynograd.tensor(index)).sum()
            totals.append(total)
        for place, so_far in enumerate(totals):
            if place < wrong:
                expected = table.weight.detach().numpy()[indices[: place + 1]].sum()
                assert float(so_far) == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
            else:
                with pytest.raises(IndexError, match="index 9 is outside"):
                    float(so_far)


def test_many_terms_are_one_running_sum():
    weight = dynograd.ones(3, requires_grad=True)
    with dynograd.autobatch(always=True) as report:
        total, numbers = dynograd.zeros(()), range(40)
        for number in numbers:
            total = total + (weight * float(number)).tanh().sum()
    assert [sizes for label, sizes in report.groups.items() if "running sum" in label] == [[32]]
    assert report.launches < 20
    numpy.testing.assert_allclose(total.item(), 3 * numpy.tanh(numpy.arange(40.0)).sum(), rtol=1e-6)


TRANSFORMED = {
    "vmap of grad": lambda x: dynograd.func.vmap(dynograd.func.grad(lambda q: q.sin()))(x),
    "jvp of grad": lambda x: dynograd.func.jvp(dynograd.func.grad(lambda q: q.sin().sum()), (x,), (x.detach(),))[1],
    "grad": lambda x: dynograd.func.grad(lambda q: (q.sin() * q).sum())(x),
    "hessian": lambda x: dynograd.func.hessian(lambda q: q.sin().sum())(x),
    "jacfwd": lambda x: dynograd.func.jacfwd(lambda q: q.sin() * q)(x),
    "vjp": lambda x: dynograd.func.vjp(lambda q: q.sin() * q, x)[0],
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_of_waiting_values_are_differentiated(name):
    def run():
        x = dynograd.arange(3.0).requires_grad_()
        waiting = x * 1.5
        result = TRANSFORMED[name](waiting)
        return x, result

    x, expected = run()
    expected.square().sum().backward()
    with dynograd.autobatch():
        y, result = run()
    result.square().sum().backward()
    numpy.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    numpy.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-5)
