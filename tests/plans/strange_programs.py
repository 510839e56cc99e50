"""Programs as in `programs.py`: older ways of writing PyTorch, and what is legal and seldom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dynograd as torch
from dynograd import nn
from tests.plans.programs import F, batch, program, watching


@program
def descent_by_hand(compile: Any) -> Any:
    """Of the word language model among PyTorch's examples: tied weights, clipped gradients, `p.data.add_(p.grad, alpha=...)`."""
    words, out = nn.Embedding(11, 8), nn.Linear(8, 11)
    out.weight = words.weight
    model = nn.Sequential(words, nn.Dropout(0.2), out)

    @compile
    def step(x: Any, y: Any) -> Any:
        model.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(x), 1), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.5)
        return loss

    return lambda n: step(batch(n, 5, classes=11), batch(n, 5, classes=11, seed=1)), watching(model)


@program
def descent_on_data(compile: Any) -> Any:
    model = nn.RNNCell(3, 4)

    @compile
    def step(line: Any) -> Any:
        state = torch.zeros(1, 4)
        for place in range(line.size()[0]):
            state = model(line[place], state)
        model.zero_grad()
        state.pow(2).sum().backward()
        for p in model.parameters():
            p.data.sub_(p.grad.data, alpha=0.05)
        return state.data

    return lambda n: step(batch(n, 3, 1, 3)), watching(model)


@program
def running_means(compile: Any) -> Any:
    """Writes into tensors from outside of what the step has computed, in ops that are made of several."""
    model = nn.Linear(4, 4)
    mean, square, most, any_above = torch.zeros(4), torch.eye(4), torch.zeros(4, 4), torch.zeros(4, 4, dtype=torch.bool)
    lines = torch.zeros(2, 4, dtype=torch.float64)

    @compile
    def step(x: Any) -> Any:
        with torch.no_grad():
            h = model(x).tanh()
            mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
            square.addmm_(h.T, h, beta=0.9, alpha=0.1)
            most.clamp_(min=h.max())
            any_above.logical_or_(h > 0.5)
            lines[1] = h[0]
            return h + mean

    return lambda n: step(batch(n, 4, 4)), watching(model, mean, square, most, any_above, lines)


@program
def data_of_results(compile: Any) -> Any:
    """Writes into `.data` are not watched: backward takes the new numbers."""
    model = nn.Linear(3, 2)

    @compile
    def step(x: Any, writes: bool) -> Any:
        h = model(x).exp()
        data = h.data
        if writes:
            data.mul_(2)
        model.zero_grad()
        h.sum().backward()
        return h.data * 1, data, data._version

    return lambda n: step(batch(n, 4, 3), n % 4 == 3), watching(model)


@program
def memory_that_numpy_has(compile: Any) -> Any:
    model = nn.Linear(3, 2)

    @compile
    def step(x: Any, writes: bool) -> Any:
        h = model(x).detach()
        row = h[0].numpy()
        if writes:
            row *= 2
        return h.detach() * 3, h.data.clone(), h.relu(), row.sum().item()

    return lambda n: step(batch(n, 4, 3), n % 4 == 3), watching(model)


@program
def signs_of_zero(compile: Any) -> Any:
    @compile
    def step(x: Any, factor: float) -> Any:
        return 1 / (x.abs() * factor), x * 1

    return lambda n: step(batch(n, 4, 3), [0.0, -0.0][n // 2 % 2]), watching()


@program
def caches_that_begin_empty(compile: Any) -> Any:
    """Of language models: what was before is `tensor([])` at first, which has fewer dims than what follows."""
    keys, own = nn.Linear(4, 4), nn.Linear(4, 4)
    cache = SimpleNamespace(keys=None)

    @compile
    def step(x: Any) -> Any:
        cache.keys = torch.cat([cache.keys, keys(x)], 1)
        return (own(x) @ cache.keys.mT).softmax(-1) @ cache.keys

    def decode(n: int) -> Any:
        cache.keys = torch.zeros(2, 1, 4) if n < 2 else torch.tensor([])
        with torch.no_grad():
            return [step(batch(10 * n + place, 2, 1, 4)) for place in range(12)]

    return decode, lambda: [*watching(keys, own)(), cache.keys]


@program
def gradients_of_each_row(compile: Any) -> Any:
    """Of private learning by hand: the gradient of each example is clipped by itself, with a number that Python computes."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))

    @compile
    def step(x: Any, y: Any) -> Any:
        sums, norms = [torch.zeros_like(p) for p in model.parameters()], []
        for place in range(len(x)):
            model.zero_grad()
            F.cross_entropy(model(x[place : place + 1]), y[place : place + 1]).backward()
            norm = torch.sqrt(sum((p.grad.norm() ** 2 for p in model.parameters()), torch.zeros(())))
            norms.append(norm.item())
            for total, p in zip(sums, model.parameters()):
                total += p.grad * min(1.0, 0.5 / (norms[-1] + 1e-6))
        with torch.no_grad():
            for total, p in zip(sums, model.parameters()):
                p -= 0.1 * total
        return norms

    return lambda n: step(batch(n, 3 + (n == 6), 4), batch(n, 3 + (n == 6), classes=2)), watching(model)
