"""Programs that tests run twice, as they are written and compiled. Each gives (step, watched): `watched()` is all that a step may change."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

import dynograd as torch
from dynograd import nn

F = nn.functional
PROGRAMS: dict[str, Callable[[Any], tuple[Callable[[int], Any], Callable[[], Any]]]] = {}


def program(function: Any) -> Any:
    """Enters a program: a function of `compile`, which its step (or its model) goes through."""
    PROGRAMS[function.__name__] = function
    return function


def batch(step: int, *shape: int, classes: int = 0, seed: int = 0) -> Any:
    generator = numpy.random.default_rng([step, seed, *shape])
    if classes:
        return torch.from_numpy(generator.integers(0, classes, shape))
    return torch.from_numpy(generator.standard_normal(shape).astype("float32"))


def watching(*things: Any) -> Callable[[], Any]:
    def watched() -> Any:
        seen: list[Any] = []
        for thing in things:
            if isinstance(thing, nn.Module):
                seen += [*thing.state_dict().values(), *[parameter.grad for parameter in thing.parameters()]]
            elif isinstance(thing, torch.optim.Optimizer):
                seen += [value for state in thing.state_dict()["state"].values() for value in state.values()]
            else:
                seen.append(thing)
        return seen

    watched.things = things  # type: ignore[attr-defined]
    return watched


def network(*sizes: int) -> nn.Sequential:
    layers: list[Any] = []
    for inner, outer in itertools.pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@program
def classifier(compile: Any) -> Any:
    model = network(12, 16, 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 8, 12), batch(n, 8, classes=5)), watching(model, optimizer)


@program
def model_differentiated_outside(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(12, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 5))
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(n: int) -> Any:
        optimizer.zero_grad()
        out = compiled(batch(n, 8, 12))
        loss = F.cross_entropy(out, batch(n, 8, classes=5))
        loss.backward()
        optimizer.step()
        return out, loss

    return step, watching(model, optimizer)


@program
def evaluation_between(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(x: Any, y: Any, training: bool) -> Any:
        model.train(training)
        with torch.set_grad_enabled(training):
            out = model(x)
            loss = F.cross_entropy(out, y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss, out.argmax(-1)

    def run(n: int) -> Any:
        torch.manual_seed(n)
        return step(batch(n, 7, 6), batch(n, 7, classes=3), n % 3 != 2)

    return run, watching(model, optimizer)


@program
def lengths_that_change(compile: Any) -> Any:
    embedding, cell, head = nn.Embedding(11, 6), nn.LSTMCell(6, 8), nn.Linear(8, 11)
    model = nn.ModuleList([embedding, cell, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(tokens: Any) -> Any:
        h = c = torch.zeros(tokens.shape[1], 8)
        losses = []
        for now, following in itertools.pairwise(tokens):
            h, c = cell(embedding(now), (h, c))
            losses.append(F.cross_entropy(head(h), following))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 3 + n % 3, 4, classes=11)), watching(model, optimizer)


@program
def state_carried(compile: Any) -> Any:
    lstm, head = nn.LSTM(5, 7, batch_first=True), nn.Linear(7, 5)
    model = nn.ModuleList([lstm, head])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state: list[Any] = [None]

    @compile
    def step(x: Any) -> Any:
        out, (h, c) = lstm(x, state[0])
        state[0] = (h.detach(), c.detach())
        loss = F.mse_loss(head(out), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: (step(batch(n, 3, 4, 5)), state[0]), watching(model)


@program
def adversaries(compile: Any) -> Any:
    generator, critic = network(4, 8, 6), network(6, 8, 1)
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-2)
    for_critic = torch.optim.Adam(critic.parameters(), lr=1e-2)

    @compile
    def step(real: Any, noise: Any) -> Any:
        fake = generator(noise)
        wrong = F.softplus(critic(fake.detach())).mean() + F.softplus(-critic(real)).mean()
        for_critic.zero_grad()
        wrong.backward()
        for_critic.step()
        fooled = F.softplus(-critic(fake)).mean()
        for_generator.zero_grad()
        fooled.backward()
        for_generator.step()
        return wrong, fooled

    return lambda n: step(batch(n, 5, 6), batch(n, 5, 4, seed=1)), watching(
        generator, critic, for_generator, for_critic
    )


@program
def variational(compile: Any) -> Any:
    encoder, decoder = network(9, 8, 6), network(3, 8, 9)
    model = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(x: Any) -> Any:
        mean, log_variance = encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        again = F.binary_cross_entropy_with_logits(decoder(z), torch.sigmoid(x), reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        loss = again + divergence
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def run(n: int) -> Any:
        torch.manual_seed(n)
        return step(batch(n, 4, 9)), torch.rand(2)

    return run, watching(model, optimizer)


@program
def accumulated(compile: Any) -> Any:
    model = network(5, 6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    @compile
    def backward(x: Any, y: Any) -> Any:
        loss = F.mse_loss(model(x), y) / 2
        loss.backward()
        return loss

    def step(n: int) -> Any:
        optimizer.zero_grad()
        first = backward(batch(n, 4, 5), batch(n, 4, 2))
        second = backward(batch(n, 4, 5, seed=1), batch(n, 4, 2, seed=1))
        optimizer.step()
        schedule.step()
        return first, second

    return step, watching(model)


@program
def decisions_on_values(compile: Any) -> Any:
    model = network(5, 6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @compile
    def step(x: Any) -> Any:
        out = model(x)
        total = out.sum()
        loss = total.exp() if total.item() > 0 else (out * out).sum()
        if loss > 1:
            loss = loss.sqrt()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, float(total)

    return lambda n: step(batch(n, 3, 5)), watching(model)


@program
def averaged_weights(compile: Any) -> Any:
    model, average = network(5, 6, 2), network(5, 6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.mul_(0.9).add_(new, alpha=0.1)
        return loss

    return lambda n: step(batch(n, 4, 5), batch(n, 4, 2)), watching(model, average)


@program
def written_in_place(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(inplace=True), nn.Linear(6, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any) -> Any:
        h = model(x)
        h += x[:, :1]
        h[:, 0] = 0.0
        h.mul_(2.0)
        loss = h.masked_fill(h > 1, 0.5).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 4, 5)), watching(model)


@program
def hooks(compile: Any) -> Any:
    model = network(5, 6, 2)
    seen: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        h = model[0](x)
        h.register_hook(lambda g: seen.append(g.sum().item()))
        loss = model[2](model[1](h)).sum()
        model.zero_grad()
        loss.backward()
        return loss, list(seen)

    return lambda n: step(batch(n, 4, 5)), watching(model)


@program
def inner_loop(compile: Any) -> Any:
    weight = torch.nn.Parameter(batch(0, 3, 2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        inner = F.mse_loss(x @ weight, y)
        (g,) = torch.autograd.grad(inner, [weight], create_graph=True)
        loss = F.mse_loss(x @ (weight - 0.1 * g), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 4, 3), batch(n, 4, 2)), watching(weight)


@program
def mixed_precision(compile: Any) -> Any:
    model = network(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3)), watching(model)


@program
def ragged_rows(compile: Any) -> Any:
    model = network(4, 6, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(rows: Any) -> Any:
        x = torch.nested.nested_tensor(rows)
        loss = torch.stack([row.sum() for row in model(x).unbind()]).tanh().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step([batch(n, 2 + (n + k) % 3, 4, seed=k) for k in range(3)]), watching(model)


@program
def kept_by_the_caller(compile: Any) -> Any:
    model = network(4, 5, 3)
    kept: list[Any] = []

    @compile
    def forward(x: Any) -> Any:
        with torch.no_grad():
            h = model[0](x)
            return {"h": h, "out": [model[2](h.relu()), h[0], h.t()]}

    def step(n: int) -> Any:
        argument = forward(batch(n, 6, 4))
        kept.append(argument["out"][0])
        kept.append(argument["h"])
        return argument, list(kept)

    return step, watching(model)


@program
def statistics_read(compile: Any) -> Any:
    model = network(5, 6, 3)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    history: list[Any] = []

    @compile
    def step(x: Any, y: Any) -> Any:
        out = model(x)
        loss = F.nll_loss(F.log_softmax(out, -1), y)
        history.append((loss.item(), out.detach().numpy().copy(), (out.argmax(1) == y).float().mean().item()))
        optimizer.zero_grad()
        loss.backward()
        norm = sum([p.grad.norm() ** 2 for p in model.parameters()]) ** 0.5
        optimizer.step()
        return norm, list(history[-1])

    return lambda n: step(batch(n, 4, 5), batch(n, 4, classes=3)), watching(model, optimizer)
