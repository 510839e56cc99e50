"""Writes in place into what a compiled step has made: they go along the record, and give what they give as they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.errors import InplaceError
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, overwritten_between_steps, seen

F = nn.functional
STEPS = 8


def rows(n: int) -> Any:
    return torch.from_numpy(numpy.random.default_rng(n).standard_normal((5, 4)).astype("float32"))


def layers() -> Any:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))


def lines(text: str) -> Callable[..., Any]:
    """A function of (m, x, n) with these lines, which has the tensor `h` of `m(x)` and gives `h`."""
    body = "\n".join([f"    {line}" for line in text.split("\n")])
    space: dict[str, Any] = dict(torch=torch, F=F, kept=[])
    exec(compile(f"def f(m, x, n):\n    h = m(x)\n{body}\n    return h\n", "<lines>", "exec"), space)
    return space["f"]


# What is written in place, and how many steps of 8 go along the record at least.
WALKED = {
    "an augmented sum": "h += x",
    "a module": "h = m(h)",
    "a residual block": "i = h; h = m(h); h += i; F.relu(h, inplace=True)",
    "functions": "F.leaky_relu(h, 0.2, inplace=True); F.silu(h + x, inplace=True); h = h * 2; F.elu(h, inplace=True)",
    "dropout": "F.dropout(h, 0.5, inplace=True)",
    "a chain": "h.add_(x, alpha=0.1).mul_(2).clamp_(max=1).sub_(x)",
    "copies": "h.copy_(x[0]); h += m(x); h.fill_(2.0); h += m(x); h.zero_(); h += m(x)",
    "items": "h[0] = x[1]; h[:, 1] = 0.5; h[..., 2] = m(x)[:, 0]; h[1:3, ::2] *= 2; h[n % 1] += 1; h[-1, 0] = x.sum()",
    "a mask": "h[x > 0] = 0.5; h.masked_fill_(x < -1, 0.1)",
    "listed places": "h[[0, 2]] = x[:2]",
    "it gets a history": "h = x * 2; h += m(x); h.relu_()",
    "no history": "with torch.no_grad(): h = x * 2; h += 1; h.mul_(2); h[0] = 3.0; v = h.t(); v[1] += 1\nh = m(h)",
    "views before": "v = h.view(-1); t = h.t(); h += x; v.mul_(2); t[1].add_(x[:, 0]); h = h + v.view(5, 4) * t.t()",
    "pieces": "a, b = h.chunk(2, 1); a *= b; r = h.unbind(); r[2].mul_(3); h.unsqueeze(0)[0, :, 3] = x[:, 1]",
    "a view of what nobody has": "h = m(x).view(2, 10); h += 1; h = h[:, :4]; h *= 2",
    "a value is read before": "h = x * 2; s = h.sum().item(); h.tolist(); h += 1; h.tolist(); h *= 2; h += m(x)",
    "a value is read behind": "h += x; (h > 0).any().item(); h.mul_(0.5); str(h.detach())",
    "kept": "kept.append(h); h *= 2; kept.append(h); del kept[:-3]; h = h + 1; h -= kept[-1]",
    "a buffer": "with torch.no_grad(): o = torch.zeros(5, 4); k = x * 2; o[:, 0] = k[:, 0]; k += o; o += k\nh = m(o)",
    "a list of tensors": "h = x * 2; torch._foreach_add_([h], [x]); h = m(h)",
    "a sum into a transposed view": "h = m(h); t = h.t()[1:]; t.sub_(m(x).square().sum(), alpha=0.1); t = h.t(); t.add_(m(x).exp().sum())",
    "one element": "s = x.sum(0, keepdim=True)[:, :1].sum(0); s += torch.ones(()); s.mul_(x[:1, 0]); h = h * s",
    "another dtype": "h += x.double(); h.mul_(torch.tensor(2))",
    "a sum that it makes": "t = torch.zeros(5); t += h.sum(1); t -= (h * x).sum(1); h = h * t[:, None]",
    "rows that it makes": "t = torch.empty(5, 4)\nfor i in range(5): t[i] = m(h[i])\nh = t",
    "places that it makes": "i = torch.tensor([0, 2, 0, 1, 1]); t = x.new_zeros(3, 4).index_add_(0, i, h); t.scatter_add_(0, i[:, None], h); h = h + t[i]",
    "two that it makes": "t, u = torch.zeros(5, 4), torch.ones_like(x); n = torch.zeros(2, dtype=torch.long); n[0] = 1; t.add_(h); u.copy_(h * 2); h = t + u * n[0]",
    "rows at a number of the step": "h = h * 1; row = h[x.argmax() * 0 + 2]; row += x[0]; h[x.argmin() * 0].zero_(); h[:, x.argmax() * 0 + 1].mul_(2)",
    "what it makes is kept": "t = torch.zeros(5, 4); t += h; kept.append(t); del kept[:-3]; h = t.relu_()",
    "an alias in memory that was let go": "v = h.detach(); s = v * 1; del v; h += s",
    "created": "o = torch.zeros(5, 4); o[:, 0] = h[:, 1]; o[:, 2] = x[:, 0]; o[1] = 2.0; h = o * h",
    "created, in a loop": "o = torch.empty(3, 5, 4)\nfor i in range(3): h = m(h); o[i] = h\nh = o.sum(0) + o[-1]",
    "created, read meanwhile": "o = torch.ones(5, 4); o[:2] = h[:2]; o.sum().item(); o[2:] = h[:3]; str(o.detach()); h = o",
    "created and written before": "o = torch.full((5, 4), 3.0); o[0] = x[0]; o.add_(1); o[:, 1] = h[:, 0]; h = o * 2",
    "created, functions": "o = torch.zeros(5, 4); o.index_add_(0, torch.tensor([0, 2]), h[:2]).mul_(h); p = h.new_zeros(4); p += h[0]; p.copy_(h[0] * h[1]); h = o + p",
    "created, places": "o = torch.zeros_like(x); o[[3, 1]] = h[:2]; o.scatter_(1, torch.zeros(5, 1, dtype=torch.int64), h[:, 1:2]); o.masked_scatter_(torch.eye(5, 4) > 0, h); h = o",
    "created, kept": "o = torch.zeros(5, 4); o[0] = h[0]; kept.append(o); o[1] = h[1]; del kept[:-2]; h = o * h",
    "created, another dtype": "o = torch.zeros(5, 4, dtype=torch.float64); o[:, 1] = h[:, 0].double(); o[0] = x[0]; h = o.float()",
}
LEAVING = {
    "created in one branch": "o = torch.zeros(5, 4); o[0] = h[0] if n % 4 != 3 else x[0]; o[1] = h[1]; h = o * h",
    "created in some steps": "o = torch.zeros(5, 4) if n % 4 != 3 else h * 2; o[1] = h[1]; h = o * h",
    "created and viewed in one step": "o = torch.zeros(5, 4); v = o.numpy() if n == 5 else None; o[1] = h[1]; h = o * h; h = h if v is None else h + torch.from_numpy(v)",
    "a branch": "h *= 2; h = h * 1.5 if n % 4 == 3 else h; h += x",
    "a branch behind what it makes": "t = torch.zeros(5, 4); t += h; t = t * 2 if n % 4 == 3 else t; t += h; h = t",
    "what it makes is read in one step": "t = torch.zeros(5, 4); t += h; k = 1 if n != 5 else t.detach().numpy().sum().item(); t[0] = h[1] * k; h = t",
    "what it makes is written in one step": "t = torch.zeros(5, 4); t[0] = 1.0 if n == 5 else h[0]; h = h + t",
    "a branch behind views": "v = h[1]; v += 1; k = h + v; h = h.tanh() if n % 4 == 3 else h; v.mul_(2); h = h + k + v",
    "numpy in one step": "h = x * 2; a = h.numpy() if n == 5 else None; h += 1; h = m(h if a is None else torch.from_numpy(a.copy()))",
    "numpy of an alias in one step": "h = x * 2; a = h.detach().numpy() if n == 5 else None; v = h.detach() * 1; h[0].add_(1); h = m(h if a is None else torch.from_numpy(a.copy()))",
    "a view in one step": "v = h.view(-1); w = v * 1; v = v if n == 5 else None; h += 1; h = h * w.view(5, 4); h = h if v is None else h / v.view(5, 4)",
    "detached in one step": "h = x * 2; v = h.detach(); v = v if n == 5 else None; h += 1; h = m(h) if v is None else m(v)",
    "the graph is asked for": "h *= 2; h = h if n % 4 != 3 or h.grad_fn is not None else None; h += x",
}


class Twins:
    """A training step as it is written and compiled."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.sides: list[Any] = []
        for compile in (lambda step: step, lambda step: Compiled(step, always=True, **options)):
            torch.manual_seed(0)
            self.sides.append(self._side(function, compile))
        self.compiled = self.sides[1][0]

    def _side(self, function: Callable[..., Any], compile: Any) -> tuple[Any, Any]:
        model = layers()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

        def step(x: Any, n: int) -> Any:
            optimizer.zero_grad()
            result = function(model, x, n)
            result.square().mean().backward()
            optimizer.step()
            return result, result.detach()[:1]

        return compile(step), model

    def check(self, tolerance: float = 0.0) -> None:
        kept: list[list[Any]] = [[], []]
        for n in range(STEPS):
            sights = []
            for (step, model), own in zip(self.sides, kept):
                torch.manual_seed(n)
                own.append(step(rows(n), n))
                sights.append([seen(own), seen(model)])
            told = difference(*sights, tolerance)
            assert not told, f"step {n}: {told}\n{self.compiled.report()}"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", WALKED)
def test_writes_go_along_the_record(name: str, exact: bool) -> None:
    twins = Twins(lines(WALKED[name]), exact=exact)
    with overwritten_between_steps():
        twins.check(0.0 if exact else 1e-4)
    assert twins.compiled.walked == STEPS - 2, twins.compiled.report()


@pytest.mark.parametrize("name", LEAVING)
def test_the_record_is_left_behind_writes(name: str) -> None:
    twins = Twins(lines(LEAVING[name]), exact=True)
    with overwritten_between_steps():
        twins.check()
    assert 2 <= twins.compiled.walked < STEPS - 2, twins.compiled.report()


REFUSED = {
    "h = h.detach(); v = h.view(-1).detach(); h += 1; h = h + v.sum() + m(x)": "no view of it",
    "h = x * 2; a = h.numpy(); h += 1; h = m(h) + float(a.sum())": "whose memory NumPy has",
    "h = x.view(5, 4); h += 1; h = m(h)": "the memory of a tensor from outside",
    "k = h * 1; k.detach().mul_(2); h = k": "no view of it",
    "with torch.no_grad(): h += 1": "a history that the write is no part of",
    "y = h.exp(); k = y.sum(); y = y.detach(); y += 1": "backward needs as it was",
    "o = torch.zeros(5, 4); a = o.numpy(); o[0] = h[0]; h = o + float(a.sum())": "has a history",
    "h.normal_(); h = h + m(x)": "a tensor that the step has made",
    "t = torch.zeros_like(x); v = t[0]; k = t + 1; t += h; v.mul_(2); h = t + k * v": "a tensor that the step has made",
    "t = torch.ones(5, 4); t[:, :4] *= h; h = t * 2": "the memory of a tensor from outside",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_recorded_runs_as_it_is_written(text: str) -> None:
    twins = Twins(lines(text), exact=True)
    twins.check()
    assert twins.compiled.walked == 0 and REFUSED[text] in str(twins.compiled.report()), twins.compiled.report()


@pytest.mark.parametrize(
    "text", ["h = h.exp(); h += 1", "h = h.sigmoid(); h[0] = 1.0", "k = h * h; h.add_(1); h = k", "m[0].bias.add_(1)"]
)
def test_what_eager_refuses_is_refused(text: str) -> None:
    twins = Twins(lines(text))
    for n in range(4):
        for step, _ in twins.sides:
            with pytest.raises(InplaceError):
                step(rows(n), n)


@pytest.mark.parametrize("text", ["h += torch.ones(2, 5, 4)", "h = torch.ones(4).int(); h += 1.5", "h[9] = 1.0"])
def test_errors_are_those_of_the_op(text: str) -> None:
    twins = Twins(lines(text))
    for n in range(4):
        told = []
        for step, _ in twins.sides:
            with pytest.raises(Exception) as raised:
                step(rows(n), n)
            told.append(f"{raised.type} {raised.value}")
        assert told[0] == told[1]


def test_the_tensor_stays_the_same_object_and_views_share_its_memory() -> None:
    @torch.compile
    def f(x: Any) -> Any:
        h = x * 2
        view = h[1:]
        same = h.add_(1) is h
        view.mul_(2)
        return h, view, same, h._version, view._version

    for n in range(5):
        h, view, same, version, its_version = f(torch.full((3,), float(n)))
        assert same and version == its_version == 2
        assert h.tolist() == [2.0 * n + 1, 4.0 * n + 2, 4.0 * n + 2] and view.tolist() == h[1:].tolist()
        view.zero_()
        assert h.tolist() == [2.0 * n + 1, 0.0, 0.0] and view.data_ptr() == h[1:].data_ptr()
    assert f.walked == 3


def test_what_is_written_behind_a_step_does_not_reach_what_backward_needs() -> None:
    """In the step that is recorded the tensor lies where its op has saved it."""
    weight = torch.ones(3, requires_grad=True)

    @torch.compile
    def f(x: Any) -> Any:
        h = weight * x
        return h.relu_()

    for n in range(5):
        weight.grad = None
        h = f(torch.full((3,), n - 2.0))
        h.mul_(2)
        h.sum().backward()
        assert weight.grad.tolist() == [2 * max(n - 2.0, 0.0)] * 3
    assert f.walked == 3


@pytest.mark.parametrize("whole", [True, False])
def test_residual_networks_are_walked(whole: bool) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            self.second, self.last = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            out = self.relu(self.norm(self.first(x)))
            out = self.last(self.second(out))
            out += x
            return self.relu(out)

    results = []
    for compiling in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 4, 1), nn.ReLU(inplace=True), Block(), Block(), nn.Flatten(), nn.Linear(64, 3)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        network = torch.compile(model) if compiling and not whole else model

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()  # noqa: B023
            loss = F.cross_entropy(network(x), y)  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023
            return loss

        run = torch.compile(step) if compiling and whole else step
        generator = numpy.random.default_rng(0)
        losses = []
        for _ in range(7):
            x = torch.from_numpy(generator.standard_normal((2, 3, 4, 4)).astype("float32"))
            losses.append(run(x, torch.tensor([0, 2])).item())
        results.append([losses, seen(model)])
    assert not difference(*results, 1e-4)
    report = str(run.report() if whole else network.report())
    assert "7 calls, 5 along the record" in report, report


@pytest.mark.parametrize(
    ("text", "replayed"),
    [
        ("o = torch.zeros(5, 4); o[0] = h[1]; h = o * h", STEPS - 4),
        ("o = torch.zeros(5, 4); o[0] = x[0]; o[1] = h[1]; h = o * h", 0),
        ("o = torch.randn(5, 4); o[0] = h[1]; h = o * h", 0),
    ],
)
def test_created_tensors_are_replayed(text: str, replayed: int) -> None:
    function, results = lines(text), []
    for compiling in (False, True):
        torch.manual_seed(0)
        model = layers()

        def step(x: Any) -> Any:
            model.zero_grad()  # noqa: B023
            loss = function(model, x, 0).square().mean()  # noqa: B023
            loss.backward()
            return loss

        use = Compiled(step, always=True, replay=True) if compiling else step
        results.append([seen([use(rows(n)), [weight.grad for weight in model.parameters()]]) for n in range(STEPS)])
    assert not difference(*results, 1e-4)
    assert use.report().replayed == replayed, use.report()


def test_created_tensors_stay_the_same_objects() -> None:
    weight = torch.ones(3, requires_grad=True)

    @torch.compile
    def f(x: Any) -> Any:
        result = torch.zeros(3)
        before = result
        if x[0] > 2:
            result[2] = 5.0
        result[0] = 1.0
        result[1] = (weight * x)[1]
        return result, before is result, result._version

    results = []
    for n in [0, 1, 2, 3, 4, 5, 0, 4]:
        result, same, version = f(torch.full((3,), float(n)))
        assert same and version == (3 if n > 2 else 2)
        assert result.requires_grad and result.grad_fn is not None
        results.append((result.detach(), [1.0, float(n), 5.0 * (n > 2)]))
        del result  # what is still to be differentiated is not walked over
    assert all([result.tolist() == numbers for result, numbers in results])
    assert f.walked >= 2, f.report()


def test_what_a_step_makes_and_writes_into_is_recorded_whole() -> None:
    model = layers()

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        rows = torch.zeros(5, 4)
        for place in range(5):
            rows[place] = model(x[place])
        return rows.sum()

    for n in range(4):
        torch.testing.assert_close(step(rows(n)), model(rows(n)).sum())
    assert len(step.report().ways) == 1 and step.report().walked == 2


@pytest.mark.parametrize("keeps", [False, True])
def test_a_tensor_from_outside_of_which_a_view_was_read_may_be_written(keeps: bool) -> None:
    """As caches of keys count what is in them before they take more; a view that is read again afterwards is not recorded."""

    def step(cache: Any, place: Any, x: Any) -> tuple[Any, ...]:
        first = cache[0]
        filled = first.any(dim=-1).sum()
        if not keeps:
            del first
        cache.index_copy_(1, place, x * 2)
        return filled, (first if keeps else cache[0]).sum() * 3, cache.sum()

    compiled = Compiled(step, always=True)
    caches = torch.zeros(2, 8, 4), torch.zeros(2, 8, 4)
    with torch.no_grad():
        for n in range(8):
            results = [run(cache, torch.tensor([n]), rows(n)[:2, None]) for run, cache in zip((compiled, step), caches)]
            torch.testing.assert_close(*results)
            torch.testing.assert_close(*caches, rtol=0, atol=0)
            assert results[0][0] == n
    assert compiled.walked == (0 if keeps else 6), compiled.report()


@pytest.mark.parametrize("needs", [False, True])
def test_a_tensor_from_outside_of_which_a_node_has_a_view_may_be_written(needs: bool) -> None:
    """As the codes of a quantizer are moved whose distances lead to no gradient; where one does, eager refuses the backward pass."""
    layer, codes = torch.nn.Linear(3, 3), torch.randn(5, 3)

    def step(x: Any) -> Any:
        z = layer(x)
        products = z @ codes.t()
        nearest = products.argmax(1)
        with torch.no_grad():
            codes.copy_(codes * 0.9 + 0.1 * z.mean(0))
        loss = (z - codes[nearest]).square().sum() + (products.sum() if needs else 0.0)
        layer.zero_grad()
        loss.backward()
        return loss

    compiled, before = Compiled(step, always=True, exact=True), codes.clone()
    for n in range(8):
        outcomes = []
        for run in (step, compiled):
            codes.copy_(before)
            try:
                outcomes.append([run(rows(n)[:, :3]), codes.clone(), layer.weight.grad.clone()])
            except RuntimeError as error:
                outcomes.append(str(error))
        assert not needs or "modified by an inplace operation" in outcomes[0]
        assert outcomes[0] == outcomes[1] if needs else all(map(torch.equal, *outcomes))
        before = before + 0.1
    assert compiled.walked == (0 if needs else 6), compiled.report()


@pytest.mark.parametrize("adds", [False, True])
def test_masks_of_attention_may_be_others_in_each_call(adds: bool) -> None:
    q, k, v = [torch.randn(2, 2, 3, 8) for _ in range(3)]

    def step(x: Any, mask: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x, k, v, attn_mask=mask).sum()

    compiled = Compiled(step, always=True)
    with torch.no_grad():
        for n in range(6):
            mask = torch.arange(9).reshape(3, 3) % (n + 2) < 2
            mask = torch.where(mask, 0.0, -torch.inf) if adds else mask
            torch.testing.assert_close(compiled(q + n, mask), step(q + n, mask))
    assert compiled.walked == 4, compiled.report()
