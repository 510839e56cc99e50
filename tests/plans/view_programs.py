"""Views that a step gives, and what its caller writes into them. They are entered among the hostile programs."""

from __future__ import annotations

from typing import Any

import dynograd as torch
from dynograd import nn
from dynograd.utils.checkpoint import checkpoint
from tests.plans.hostile_programs import hostile
from tests.plans.programs import F, batch, watching

__all__: list[str] = []


@hostile
def results_that_are_one_memory(compile: Any) -> Any:
    """`reshape`, `contiguous`, `to` and their like give a tensor itself, or a view; an op that has saved its result says so in backward."""
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any) -> Any:
        h = (x * weight).tanh()
        return h.reshape(-1), h.contiguous(), h.flatten(), h.to(torch.float32), h.squeeze(), h[None]

    def run(n: int) -> Any:
        weight.grad = None
        results = step(batch(n, 3, 4))
        with torch.no_grad():
            results[n % 6].mul_(2)
        if n % 2:
            sum([(result * result).sum() for result in results]).backward()
        return results, results[1] is results[3], weight.grad

    return run, list


@hostile
def parts_that_are_written(compile: Any) -> Any:
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any, saves: bool) -> Any:
        h = x * weight
        h = h.tanh() if saves else h * 2
        return list(h.unbind(0)), h.split(2, 1), h

    def run(n: int) -> Any:
        weight.grad = None
        rows, parts, h = step(batch(n, 3, 4), n % 5 == 4)
        rows[1].mul_(2)
        parts[0].add_(1)
        (h * h).sum().backward()
        return rows, parts, h, weight.grad

    return run, list


@hostile
def views_of_unusual_kinds(compile: Any) -> Any:
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any) -> Any:
        h = x * weight
        views = [h.diagonal(), h.unfold(1, 2, 1), h.as_strided((2, 2), (1, 4)), h.expand(2, 4, 4), h.movedim(0, 1), h.T]
        return [h, *views, h.unsqueeze(-1), h.narrow(0, 1, 2), h.select(0, 1), h.real, h.swapaxes(0, 1), h.view_as(h)]

    def run(n: int) -> Any:
        weight.grad = None
        results = step(batch(n, 4, 4))
        [results[0], results[1], results[3], results[6], results[9]][n % 5].mul_(2)
        sum([(result * result).sum() for result in results]).backward()
        return results, weight.grad, [result._base is results[0] for result in results[1:]]

    return run, list


@hostile
def views_of_parameters_and_buffers(compile: Any) -> Any:
    model = nn.Linear(4, 4)
    buffer = torch.zeros(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any) -> Any:
        buffer.add_(x)
        return model(x), model.weight[0], model.weight.t(), model.bias[:2], buffer[1]

    def run(n: int) -> Any:
        optimizer.zero_grad()
        y, row, turned, bias, kept = step(batch(n, 3, 4))
        (y.sum() + row.sum() * 2 + (turned * turned).sum() + bias.sum()).backward()
        optimizer.step()
        kept.mul_(2)
        return y, row, turned, bias, kept, row._base is model.weight, kept._base is buffer

    return run, watching(model, buffer)


@hostile
def views_that_are_kept_and_written_inside(compile: Any) -> Any:
    weight = nn.Parameter(torch.ones(4))
    kept: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        h = x * weight
        if kept:
            kept[-1].mul_(0.5)
        return h.detach(), h

    def run(n: int) -> Any:
        h, g = step(batch(n, 3, 4))
        kept.append(h[1:])
        del kept[:-2]
        return h, list(kept), g

    return run, list


@hostile
def reads_before_views(compile: Any) -> Any:
    """A result is read or lent to NumPy in the step, views of it are made later, and the caller writes into all of them."""
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any) -> Any:
        h, k = (x * weight).sin(), x * 2
        row = k[0]
        k.tolist()
        array = h.detach().numpy()
        return h, h.view(-1), array, k, row, k.view(-1), k.t()[1:]

    def run(n: int) -> Any:
        weight.grad = None
        h, whole, array, k, row, flat, turned = step(batch(n, 3, 4))
        array[0] = n
        [k, row, flat, turned][n % 4].mul_(n if n % 3 else weight[0])
        loss = (whole * whole).sum() + k.sum() + turned.sum()
        if n % 2:
            h.mul_(2)
        loss.backward()
        return h, whole, array, k, row, flat, turned, weight.grad

    return run, list


@hostile
def pieces_changed_by_layers_in_place(compile: Any) -> Any:
    model = nn.Linear(4, 4)

    @compile
    def step(x: Any) -> Any:
        left, right = model(x).chunk(2, 1)
        both = torch.stack([left, right])
        return F.relu(left, inplace=True), right, both

    def run(n: int) -> Any:
        model.zero_grad()
        left, right, both = step(batch(n, 3, 4))
        if n % 3 == 2:
            right.zero_()
        (left.sum() + (right * right).sum() + both.sum()).backward()
        return left, right, both

    return run, watching(model)


@hostile
def results_written_before_their_backward(compile: Any) -> Any:
    """What an op has saved of its own result or operand is written by the caller: only a backward through that op is an error."""
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any) -> Any:
        h = x * weight
        e, s = h.exp(), h.sin()
        return h, e, s, e[1], (weight * 2).sum()

    def run(n: int) -> Any:
        weight.grad = None
        h, e, s, row, rest = step(batch(n, 3, 4))
        with torch.no_grad():
            [h, e, s, row][n % 4].mul_(2)
        [e, s, h, rest][n // 4 % 4].sum().backward()
        return h, e, s, row, rest, weight.grad

    return run, list


class _Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 0.5, x - x * 0.5

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return (first + second) * 0.5


@hostile
def tuples_as_ops_give_them(compile: Any) -> Any:
    """What a step gives is the very tuple or list of an op, which its caller keeps over many calls."""
    weight = nn.Parameter(torch.ones(4))
    cell = nn.LSTM(4, 3)
    functions = [
        lambda x: (x * weight).split(2, 1),
        lambda x: (x * weight).unbind(),
        lambda x: (x * weight).max(1),
        lambda x: (x * weight).topk(2),
        lambda x: (x * 2).sort(1),
        lambda x: (x * 2).chunk(2),
        lambda x: torch.broadcast_tensors(x * weight, x[0] * 2),
        lambda x: cell(x * weight),
        lambda x: _Halves.apply(x * weight),
        lambda x: torch.autograd.grad((x * weight).sin().sum(), [weight]),
        lambda x: torch.func.vjp(torch.sin, x * 2)[1](x),
        lambda x: torch.std_mean(x * weight, 1),
        lambda x: torch.linalg.qr(x * 2),
        lambda x: torch.where(x * 2 > 0),
        lambda x: torch.meshgrid(x[0] * 2, x[1] * weight, indexing="ij"),
    ]
    steps = [compile(function) for function in functions]
    kept: list[list[Any]] = [[] for _ in steps]

    def run(n: int) -> Any:
        weight.grad = None
        for step, results in zip(steps, kept):
            results.append(step(batch(n, 3, 4)))
            del results[:-3]
        losses = [part.sum() for results in kept for part in _leaves(results[-1]) if part.requires_grad]
        sum(losses).backward()
        return [type(results[-1]).__name__ for results in kept], [_leaves(results) for results in kept], weight.grad

    return run, list


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value.detach().clone() if not value.requires_grad else value]


@hostile
def hooks_between_results(compile: Any) -> Any:
    """One result is computed from another: hooks, `retain_grad` and `autograd.grad` between them see all of its gradient."""
    model = nn.Linear(4, 3)

    @compile
    def step(x: Any) -> Any:
        h = model(x)
        return h, h[0], F.dropout(h, 0.3), h.sin() + 1

    def run(n: int) -> Any:
        model.zero_grad()
        h, row, dropped, s = step(batch(n, 4, 4))
        loss = (row * row).sum() + dropped.sum()
        if n % 3 == 0:
            h.retain_grad()
        if n % 3 == 1:
            s.register_hook(lambda g: g * 2)
            h.register_hook(lambda g: g * 3)
        if n % 4 == 3:
            h.mul_(2)
        inputs = [h, dropped, row] if n % 2 else [dropped, model.weight]
        slopes = torch.autograd.grad(
            loss + s.sum(), inputs, allow_unused=True, retain_graph=True, create_graph=n % 5 == 4
        )
        if n % 4 != 3:
            (loss + h.sum() + s.sum()).backward(inputs=[h, model.weight] if n % 7 == 6 else None)
        return h, row, h.grad, slopes

    return run, watching(model)


@hostile
def checkpointed_results_that_are_written(compile: Any) -> Any:
    """The caller writes into what a checkpointed function gave, before its backward: nothing has saved it."""
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any) -> Any:
        h = checkpoint(torch.tanh, x * weight, use_reentrant=False)
        return h, h * 2

    def run(n: int) -> Any:
        weight.grad = None
        h, doubled = step(batch(n, 4, 4))
        with torch.no_grad():
            h.mul_(2)
        (h.sum() + doubled.sum()).backward()
        return h, doubled, weight.grad

    return run, list
