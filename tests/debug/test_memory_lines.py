"""Memory by line and module, who holds it, and a leak found by two snapshots."""

from __future__ import annotations

import gc

import pytest

import dynograd as dg
from dynograd import debug, nn


def line_of(lines: dict[str, int], word: str) -> int:
    """Bytes of the lines of the function `word`."""
    return sum(nbytes for line, nbytes in lines.items() if f" in {word}" in line)


def test_the_peak_by_line_is_the_sum_of_what_is_alive_then():
    def program():
        a = dg.ones(1000)
        b = a * 2  # 4,000
        c = b.exp()  # 8,000: the peak
        del b
        d = c.sum()
        return d

    with dg.memory.tracking() as tracked:
        program()
    assert tracked.peak_bytes == 8000 and sum(tracked.peak().values()) == 8000
    assert list(tracked.peak().values()) == [4000, 4000] and line_of(tracked.peak(), "program") == 8000
    assert "7.8 KiB at the peak" in str(tracked)


def test_modules_and_the_lines_of_backward():
    gc.collect()  # models of other tests
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh())

    def forward(x):
        return net(x).sum()

    with dg.memory.tracking() as tracked:
        loss = forward(dg.ones(4, 8))
        forward_bytes = tracked.now
        loss.backward()
        gradients = sum(p.grad.nbytes for p in net.parameters())
        lines = dg.memory.snapshot()
    assert tracked.peak_by_module().keys() >= {"0", "1"}
    assert forward_bytes >= 4 * 16 * 4
    of_gradients = [holding for holding in lines.holdings if holding.what.startswith("gradient of 0.")]
    assert sum(holding.nbytes for holding in of_gradients) == gradients
    assert any(holding.line and " in forward" in holding.line for holding in of_gradients)


def test_kinds_of_holdings():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = dg.optim.Adam(net.parameters())
    before = dg.memory.snapshot()
    loss = net(dg.ones(8, 4)).exp().sum()
    saved = (dg.memory.snapshot() - before).by_kind()
    assert saved["saved"] > 0
    loss.backward()
    optimizer.step()
    kinds = dg.memory.snapshot().by_kind()
    assert {"parameter", "buffer", "gradient", "state"} <= kinds.keys()
    assert (dg.memory.snapshot() - before).by_kind().get("saved", 0) == 0


def test_a_leak_is_found_by_two_snapshots():
    net, losses = nn.Linear(32, 32), []

    def step():
        loss = net(dg.randn(16, 32)).square().mean()  # kept with its graph
        losses.append(loss)

    with dg.memory.tracking():
        step()
        earlier = dg.memory.snapshot()
        for _ in range(3):
            step()
        leak = dg.memory.snapshot() - earlier
    assert leak.nbytes >= 3 * 16 * 32 * 4
    line, nbytes = next(iter(leak.by_line().items()))
    assert " in step" in line and nbytes >= 3 * 16 * 32 * 4
    assert "losses[1]" in " ".join(leak.holders(0))
    assert (
        "saved by" in str(leak)
        and "on a line that was not noted" not in str(leak).split("the largest")[0].split("\n")[3]
    )


def test_a_snapshot_keeps_nothing_alive():
    kept = [dg.zeros(5000)]
    snapshot = dg.memory.snapshot()
    assert any(holding.nbytes == 20_000 for holding in snapshot.holdings)
    position = next(number for number, holding in enumerate(snapshot.holdings) if holding.nbytes == 20_000)
    kept.clear()
    gc.collect()
    assert snapshot.holdings[position].owner() is None and snapshot.holders(position) == []


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.memory = {}


def test_who_holds():
    model, log = Model(), []
    texts = debug.who_holds(model.layers[0].weight)
    assert any(text.startswith("model.layers.0.weight, a variable of test_who_holds") for text in texts), texts
    h = model.layers[0].weight.exp()
    log.append(h.sum())
    model.memory["last"] = [h]
    texts = debug.who_holds(h)
    assert any(text.startswith("h, a variable of test_who_holds (test_memory_lines.py:") for text in texts)
    assert any(text.startswith("saved by ExpBackward0 for the gradient of ") for text in texts)
    del h
    texts = debug.who_holds(model.memory["last"][0])
    assert any(text.startswith("model.memory['last'][0], a variable of") for text in texts), texts
    function = (lambda kept: lambda: kept)(dg.ones(3))
    assert any("function" in text or "cell" in text for text in debug.who_holds(function())), debug.who_holds(
        function()
    )


def test_the_graph_that_keeps_memory_alive():
    losses = []

    def step():
        w = dg.ones(100, requires_grad=True)
        with dg.autograd.detect_anomaly(check_nan=False):
            h = (w * 2).exp()  # saved
            losses.append(h.sum())
        return h.detach()

    texts = debug.who_holds(step())
    assert any(
        text.startswith("saved by ExpBackward0 (test_memory_lines.py:") and "for the gradient of losses[0]" in text
        for text in texts
    ), texts


def test_errors():
    with pytest.raises(TypeError, match="who_holds: expected a tensor, got int"):
        debug.who_holds(3)
    with pytest.raises(AttributeError, match="module 'dynograd.memory' has no attribute 'nothing'"):
        _ = dg.memory.nothing
