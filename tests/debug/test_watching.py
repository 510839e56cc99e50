"""`watch`: ten planted illnesses are named, numbers are NumPy's, and steps that are not looked at run as they do without it."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import dynograd as dg
from dynograd import debug, nn
from dynograd.optim import hooks


class Net(nn.Module):
    """Six layers, one of which is made ill."""

    def __init__(self, middle=None, activation=nn.Tanh):
        super().__init__()
        self.first, self.act = nn.Linear(4, 8), activation()
        self.middle = middle or nn.Linear(8, 8)
        self.third, self.last = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        x = self.act(self.first(x))  # called here
        return self.last(self.third(self.middle(x)))


def train(net, steps=3, lr=0.01, loss=lambda y: y.square().mean(), groups=None):
    dg.manual_seed(1)
    optimizer = dg.optim.SGD(groups or net.parameters(), lr=lr)
    with debug.watch(net, every=1, alarm=None) as watcher:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(net(dg.randn(16, 4))).backward()
            optimizer.step()
    return watcher


def dead():
    net = Net(activation=nn.ReLU)
    with dg.no_grad():
        net.first.bias.fill_(-50)
    return train(net)


def exploding():
    class Steep(nn.Module):
        def forward(self, x):
            return x * 1e5

    net = Net()
    net.third = nn.Sequential(nn.Linear(8, 8), Steep())
    return train(net, lr=1e-14)


def frozen():
    net = Net()
    net.middle.requires_grad_(False)
    return train(net)


def unused():
    net = Net()
    net.spare = nn.Linear(3, 3)
    return train(net)


def learning_rate_too_large():
    net = Net()
    middle = list(net.middle.parameters())
    others = [p for p in net.parameters() if all(p is not q for q in middle)]
    return train(net, groups=[{"params": others}, {"params": middle, "lr": 100.0}])


def saturated():
    net = Net(activation=nn.Sigmoid)
    with dg.no_grad():
        net.first.weight.mul_(500)
    return train(net)


def detached():
    class Cut(Net):
        def forward(self, x):
            return self.last(self.third(self.middle(self.act(self.first(x))).detach()))

    return train(Cut())


def not_finite():
    class Log(nn.Module):
        def forward(self, x):
            return x.relu().log()

    return train(Net(middle=nn.Sequential(nn.Linear(8, 8), Log())), steps=1)


def constant():
    net = Net()
    with dg.no_grad():
        net.first.weight.zero_()
    return train(net)


def vanishing():
    net = Net()
    with dg.no_grad():
        net.middle.weight.mul_(1e-10)
    return train(net)


ILLNESSES = [
    (dead, "dead", "act"),
    (exploding, "exploding", "third.0"),
    (frozen, "frozen", "middle"),
    (unused, "unused", "spare"),
    (learning_rate_too_large, "fast", "middle"),
    (saturated, "saturated", "act"),
    (detached, "no gradient", "middle"),
    (not_finite, "not finite", "middle.1"),
    (constant, "constant", "first"),
    (vanishing, "vanishing", "first"),
]


@pytest.mark.parametrize("ill, kind, layer", ILLNESSES, ids=[row[0].__name__ for row in ILLNESSES])
def test_an_illness_is_named(ill, kind, layer):
    watcher = ill()
    assert (kind, layer) in {(alarm.kind, alarm.layer) for alarm in watcher.alarms}, str(watcher)
    assert all(f"step {alarm.step}, {alarm.layer}" in str(watcher) for alarm in watcher.alarms)


def test_a_healthy_model_raises_no_alarm():
    assert train(Net(), steps=12).alarms == []


def test_numbers_are_those_of_numpy():
    dg.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
    optimizer = dg.optim.SGD(net.parameters(), lr=0.5)
    x = dg.randn(7, 3)
    before = [p.detach().numpy().copy() for p in net.parameters()]
    with debug.watch(net, alarm=None) as watcher:
        net(x).square().sum().backward()
        optimizer.step()
    linear, relu = watcher.rows[-1]
    h = x.numpy() @ before[0].T + before[1]
    y = np.maximum(h, 0)
    grads = [p.grad.numpy() for p in net.parameters()]
    norm = np.sqrt(sum((p**2).sum() for p in before))
    expected = {
        "mean": h.mean(),
        "spread": h.std(),
        "gradient": np.sqrt(np.mean((2 * y) ** 2)),
        "weights": norm,
        "weight_gradient": np.sqrt(sum((g**2).sum() for g in grads)),
        "update": 0.5 * np.sqrt(sum((g**2).sum() for g in grads)) / norm,
    }
    for name, value in expected.items():
        assert getattr(linear, name) == pytest.approx(value, rel=1e-5), name
    assert relu.zeros == pytest.approx((y == 0).mean()) and relu.dead == pytest.approx((y == 0).all(0).mean())
    assert watcher.series("gradient", "0") == [(0, linear.gradient)]
    with pytest.raises(KeyError, match=r"watch: expected one of the layers \['0', '1'\], got 'x'"):
        watcher.series("gradient", "x")


def test_the_line_of_an_alarm_is_the_users():
    alarm = next(alarm for alarm in saturated().alarms if alarm.kind == "saturated")
    assert alarm.line.endswith("in forward")


def test_only_every_so_many_steps_are_looked_at():
    net, hooked = Net(), []
    net.first.register_forward_pre_hook(
        lambda *_: hooked.append(any([module._forward_hooks for module in net.children()]))
    )
    with debug.watch(net, every=4, alarm=None) as watcher:
        for _ in range(9):
            net(dg.ones(2, 4)).sum().backward()
    assert hooked == [True, False, False, False] * 2 + [True]
    net.first._forward_pre_hooks.clear()
    with debug.watch(net, every=4, alarm=None) as watcher:
        for _ in range(9):
            net(dg.ones(2, 4)).sum().backward()
        with dg.no_grad():
            net(dg.ones(2, 4))  # no step of training
    assert [rows[0].step for rows in watcher.rows] == [0, 4, 8]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_all_calls_before_a_step_of_the_optimizer_are_one_step():
    """Of several examples, of a scope of autobatch, and where gradients of several batches are added up."""
    net = Net()
    optimizer = dg.optim.SGD(net.parameters(), lr=0.01)
    with debug.watch(net, every=2, alarm=None) as watcher:
        for _ in range(5):
            optimizer.zero_grad()
            with dg.autobatch():
                loss = sum(net(dg.randn(1, 4)).square().sum() for _ in range(6))
            loss.backward()
            optimizer.step()
            assert not any(module._forward_hooks for module in net.modules())
    assert [rows[0].step for rows in watcher.rows] == [0, 2, 4]
    for rows in watcher.rows:
        for row in rows:
            assert row.used and row.gradient and math.isfinite(row.mean) and row.update != 0, watcher
            assert row.kind == "Tanh" or (row.weight_gradient and row.update)


def test_between_two_looks_no_module_has_a_hook():
    net = Net()
    optimizer, other = dg.optim.SGD(net.parameters(), lr=0.01), dg.optim.SGD([dg.ones(2, requires_grad=True)])
    seen = []
    with debug.watch(net, every=3, alarm=None) as watcher:
        for _ in range(7):
            seen.append(bool(net._forward_pre_hooks))
            net(dg.randn(2, 4)).square().sum().backward()
            other.step()  # has nothing of the model
            optimizer.step()
    assert seen == [True, False, False, True, False, False, True]
    assert watcher.calls == 7 and [rows[0].step for rows in watcher.rows] == [0, 3, 6]


def test_gradients_and_steps_stay_the_same():
    def weights(watched):
        dg.manual_seed(3)
        net = Net()
        optimizer = dg.optim.AdamW(net.parameters())
        watcher = debug.watch(net, every=2, alarm=None) if watched else None
        for _ in range(6):
            optimizer.zero_grad()
            net(dg.randn(5, 4)).square().mean().backward()
            optimizer.step()
        if watcher is not None:
            watcher.close()
        return [p.detach().numpy() for p in net.parameters()]

    for plain, watched in zip(weights(False), weights(True), strict=True):
        assert np.array_equal(plain, watched)


def test_a_writer_gets_each_number():
    class Writer:
        def __init__(self):
            self.names = []

        def add_scalar(self, name, value, step):
            self.names.append((name, step))

    net, writer = Net(), Writer()
    with debug.watch(net, alarm=None, writer=writer):
        net(dg.ones(2, 4)).sum().backward()
    assert ("gradient/middle", 0) in writer.names and ("saturated/act", 0) in writer.names


def test_an_alarm_warns_by_default():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with dg.no_grad():
        net[0].bias.fill_(-100)
    watcher = debug.watch(net)
    net(dg.ones(4, 2)).sum().backward()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watcher.close()
    texts = [str(warning.message) for warning in caught]
    assert any(
        text.startswith("watch: step 0, 1 (test_watching.py:") and "100% of its units give zero" in text
        for text in texts
    ), texts


def test_who_lets_the_watcher_go_is_no_longer_watched():
    net = Net()
    debug.watch(net, alarm=None)
    net(dg.ones(2, 4)).sum().backward()
    assert not any(module._forward_hooks for module in net.children()) and not net._forward_pre_hooks
    assert not hooks.are_there(dg.optim.SGD(net.parameters()))


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((dg.ones(2),), TypeError, "watch: expected a module, got Tensor"),
        ((nn.ReLU(), 0), ValueError, "watch: expected every >= 1 and keep >= 1, got every=0, keep=1000"),
    ],
)
def test_errors(arguments, error, message):
    model, *every = arguments
    with pytest.raises(error, match=message):
        debug.watch(model, **({"every": every[0]} if every else {}))
