"""Training loops of many kinds, with what changes in the midst of them. They are entered among the hostile programs."""

from __future__ import annotations

import copy
import io
import math
from collections import deque
from typing import Any

import dynograd as torch
from dynograd import nn
from dynograd.nn.utils import parametrizations, parametrize
from tests.plans.hostile_programs import hostile
from tests.plans.programs import F, batch, network, watching

__all__: list[str] = []

SIZES = [5, 5, 5, 3, 7, 5, 4, 6, 6, 1, 1, 8, 5, 2, 9, 3]


@hostile
def averages_and_their_copies(compile: Any) -> Any:
    """Weights are averaged inside the step, the average is put in their place for an evaluation, and back; the copy is made anew in between."""
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.Linear(5, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    box = {"average": copy.deepcopy(model)}

    @compile
    def step(x: Any, y: Any, decay: float) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(box["average"].parameters(), model.parameters()):
                slow.lerp_(fast, 1 - decay)
            for slow, fast in zip(box["average"].buffers(), model.buffers()):
                slow.copy_(fast)
        return loss

    @compile
    def evaluate(x: Any) -> Any:
        with torch.no_grad():
            return box["average"].eval()(x)

    def run(n: int) -> Any:
        size = max(SIZES[n], 2)
        loss = step(batch(n, size, 4), batch(n, size, 2), min(0.99, (1 + n) / (10 + n)))
        result = evaluate(batch(n, size, 4))
        box["average"].train()
        if n in (6, 11):
            box["average"] = copy.deepcopy(model)
        if n == 9:
            model.load_state_dict(box["average"].state_dict())
        return loss, result

    return run, lambda: watching(model, box["average"], optimizer)()


@hostile
def averaged_model_of_the_library(compile: Any) -> Any:
    model = network(4, 5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(model)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)

    @compile
    def step(x: Any, y: Any, counts: bool) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if counts:
            average.update_parameters(model)
            schedule.step()
        return loss, average(x)

    return lambda n: step(batch(n, SIZES[n], 4), batch(n, SIZES[n], 2), n > 4 and n % 2 == 0), watching(
        model, average, optimizer
    )


@hostile
def accumulation_with_changing_counts(compile: Any) -> Any:
    model = network(4, 5, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

    @compile
    def step(parts: Any) -> Any:
        total = torch.zeros(())
        for x, y in parts:
            loss = F.mse_loss(model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=len(parts) % 2 == 0)
        return total, norm

    def run(n: int) -> Any:
        count = [1, 2, 2, 2, 3, 2, 1, 3, 2, 0, 2, 4, 3, 1, 2, 2][n]
        return step(
            [(batch(n, SIZES[(n + k) % 16], 4, seed=k), batch(n, SIZES[(n + k) % 16], 2, seed=k)) for k in range(count)]
        )

    return run, watching(model, optimizer)


@hostile
def weights_with_norms(compile: Any) -> Any:
    """Parametrizations come, go, and are cached."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    parametrizations.weight_norm(model[0])
    parametrizations.spectral_norm(model[2])
    box = [torch.optim.SGD(model.parameters(), lr=0.1)]

    @compile
    def step(x: Any, y: Any, cached: bool) -> Any:
        box[0].zero_grad()
        if cached:
            with parametrize.cached():
                loss = F.mse_loss(model(x) + model(-x), y)
        else:
            loss = F.mse_loss(model(x) + model(-x), y)
        loss.backward()
        box[0].step()
        return loss

    def run(n: int) -> Any:
        if n == 6:
            parametrize.remove_parametrizations(model[0], "weight")
            box[0] = torch.optim.SGD(model.parameters(), lr=0.1)
        if n == 10:
            model.eval()
        if n == 12:
            model.train()
        return step(batch(n, SIZES[n], 4), batch(n, SIZES[n], 2), n // 3 % 2 == 1)

    return run, watching(model)


@hostile
def mixed_up_examples(compile: Any) -> Any:
    """Mixup, label smoothing and dropout that is annealed, of batches whose sizes change."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    @compile
    def step(x: Any, y: Any, share: float, smoothing: float) -> Any:
        order = torch.randperm(x.shape[0])
        mixed = share * x + (1 - share) * x[order]
        scores = model(mixed)
        loss = share * F.cross_entropy(scores, y, label_smoothing=smoothing)
        loss = loss + (1 - share) * F.cross_entropy(scores, y[order], label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, scores.argmax(-1) == y

    def run(n: int) -> Any:
        model[2].p = max(0.0, 0.5 - 0.1 * (n // 3))
        return step(batch(n, SIZES[n], 4), batch(n, SIZES[n], classes=3), 1 / (1 + n % 4), 0.1 * (n // 5))

    return run, watching(model, optimizer)


@hostile
def teacher_forcing_by_chance(compile: Any) -> Any:
    cell, words, head = nn.GRUCell(4, 6), nn.Embedding(5, 4), nn.Linear(6, 5)
    optimizer = torch.optim.Adam([*cell.parameters(), *words.parameters(), *head.parameters()], lr=0.02)

    @compile
    def step(text: Any, forced: float) -> Any:
        h, token, loss = torch.zeros(text.shape[0], 6), text[:, 0], 0
        for at in range(1, text.shape[1]):
            h = cell(words(token), h)
            scores = head(h)
            loss = loss + F.cross_entropy(scores, text[:, at])
            token = text[:, at] if torch.rand(()).item() < forced else scores.argmax(-1)
        optimizer.zero_grad()
        (loss / (text.shape[1] - 1)).backward()
        optimizer.step()
        return loss, token

    return lambda n: step(batch(n, 3, 2 + SIZES[n] % 4, classes=5), 1.0 - n / 16), watching(
        cell, words, head, optimizer
    )


@hostile
def beams(compile: Any) -> Any:
    """A beam search with its own lists of hypotheses, and rows that are over."""
    cell, words, head = nn.GRUCell(4, 6), nn.Embedding(7, 4), nn.Linear(6, 7)

    @compile
    def grow(tokens: Any, h: Any, scores: Any, over: Any) -> Any:
        h = cell(words(tokens), h)
        steps = head(h).log_softmax(-1).masked_fill(over[:, None], float("-inf"))
        steps[over, 0] = 0.0
        best, places = (scores[:, None] + steps).flatten().topk(min(3, steps.numel()))
        rows, tokens = places // 7, places % 7
        return tokens, h[rows], best, over[rows] | (tokens == 0), rows

    def run(n: int) -> Any:
        tokens, h, scores, over = torch.tensor([1 + n % 5]), batch(n, 1, 6), torch.zeros(1), torch.tensor([False])
        texts: list[list[int]] = [[]]
        with torch.no_grad():
            for _ in range(2 + n % 5):
                tokens, h, scores, over, rows = grow(tokens, h, scores, over)
                texts = [[*texts[row], token] for row, token in zip(rows.tolist(), tokens.tolist())]
                if over.all():
                    break
        return texts, scores, h

    return run, watching(cell, words, head)


@hostile
def rollouts_with_masks(compile: Any) -> Any:
    """Episodes side by side, some of which end earlier; returns are summed backward in time, in place."""
    policy, value = network(4, 8, 3), network(4, 8, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=0.02)

    @compile
    def learn(states: Any, actions: Any, rewards: Any, done: Any) -> Any:
        steps, count = rewards.shape
        returns = torch.zeros(steps, count)
        running = torch.zeros(count)
        for at in reversed(range(steps)):
            running = rewards[at] + 0.9 * running * (~done[at]).float()
            returns[at] = running
        values = value(states).squeeze(-1)
        advantage = returns - values.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-6)
        chances = torch.distributions.Categorical(logits=policy(states))
        alive = torch.cat([torch.ones(1, count), (1 - done.float()).cumprod(0)[:-1]])
        loss = -(chances.log_prob(actions) * advantage * alive).sum() / alive.sum()
        loss = loss + 0.5 * ((values - returns) ** 2 * alive).mean() - 0.01 * chances.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 0.1)
        optimizer.step()
        return loss, returns

    def run(n: int) -> Any:
        steps, count = 2 + n % 4, [3, 3, 2, 4][n // 2 % 4]
        return learn(
            batch(n, steps, count, 4),
            batch(n, steps, count, classes=3),
            batch(n, steps, count, seed=1),
            batch(n, steps, count, seed=2) > 0.8,
        )

    return run, watching(policy, value, optimizer)


@hostile
def replay_buffers_written_in_place(compile: Any) -> Any:
    q, target = network(4, 8, 3), network(4, 8, 3)
    optimizer = torch.optim.RMSprop(q.parameters(), lr=0.01)
    memory = {
        "state": torch.zeros(10, 4),
        "next": torch.zeros(10, 4),
        "action": torch.zeros(10, dtype=torch.int64),
        "reward": torch.zeros(10),
    }
    counts = {"at": 0, "size": 0}

    @compile
    def remember_and_learn(state: Any, after: Any, action: int, reward: float, places: Any) -> Any:
        at = counts["at"]
        memory["state"][at] = state
        memory["next"][at].copy_(after)
        memory["action"][at] = action
        memory["reward"][at] = reward
        counts["at"], counts["size"] = (at + 1) % 10, min(counts["size"] + 1, 10)
        places = places[places < counts["size"]]
        if not len(places):
            return None
        kept = {name: values[places] for name, values in memory.items()}
        with torch.no_grad():
            goal = kept["reward"] + 0.9 * target(kept["next"]).max(-1).values
        loss = F.smooth_l1_loss(q(kept["state"]).gather(1, kept["action"][:, None])[:, 0], goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def run(n: int) -> Any:
        if n % 6 == 5:
            target.load_state_dict(q.state_dict())
        return remember_and_learn(batch(n, 4), batch(n, 4, seed=1), n % 3, 0.1 * n, batch(n, 5, classes=10))

    return run, lambda: [*watching(q, target, optimizer)(), *memory.values(), dict(counts)]


@hostile
def queues_of_keys(compile: Any) -> Any:
    """Momentum contrast: a queue of keys is a buffer that is written at a pointer that is a tensor."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key = network(4, 6, 3), network(4, 6, 3)
            self.key.load_state_dict(self.query.state_dict())
            self.key.requires_grad_(False)
            self.register_buffer("queue", F.normalize(batch(0, 12, 3), dim=1))
            self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

        def forward(self, x: Any, other: Any) -> Any:
            q = F.normalize(self.query(x), dim=1)
            with torch.no_grad():
                for slow, fast in zip(self.key.parameters(), self.query.parameters()):
                    slow.data = slow.data * 0.9 + fast.data * 0.1
                k = F.normalize(self.key(other), dim=1)
            scores = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().detach().t()], 1) / 0.2
            at, count = int(self.pointer), k.shape[0]
            first = min(count, 12 - at)
            self.queue[at : at + first] = k[:first]
            self.queue[: count - first] = k[first:]
            self.pointer[0] = (at + count) % 12
            return F.cross_entropy(scores, torch.zeros(count, dtype=torch.long))

    model = Model()
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.1)

    def run(n: int) -> Any:
        count = [4, 4, 4, 3, 4, 4, 2, 4][n % 8]
        loss = compiled(batch(n, count, 4), batch(n, count, 4, seed=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return run, watching(model)


@hostile
def adversaries_with_a_penalty(compile: Any) -> Any:
    generator, critic = network(3, 6, 4), network(4, 6, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.0, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.0, 0.9))

    @compile
    def step(real: Any, rounds: int) -> Any:
        losses = []
        for _ in range(rounds):
            with torch.no_grad():
                fake = generator(torch.randn(real.shape[0], 3))
            share = torch.rand(real.shape[0], 1)
            between = (share * real + (1 - share) * fake).requires_grad_()
            (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
            loss = critic(fake).mean() - critic(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
            losses.append(loss.detach())
        critic.requires_grad_(False)
        loss = -critic(generator(torch.randn(real.shape[0], 3))).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        critic.requires_grad_(True)
        return losses, loss

    return lambda n: step(batch(n, max(2, SIZES[n]), 4), 1 + n // 4 % 3), watching(
        generator, critic, of_generator, of_critic
    )


@hostile
def learning_to_learn_with_changing_steps(compile: Any) -> Any:
    model = network(3, 5, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rates = nn.Parameter(torch.full((4,), 0.1))

    @compile
    def step(tasks: Any, steps: int, first_order: bool) -> Any:
        optimizer.zero_grad()
        rates.grad = None
        losses = []
        for x, y in tasks:
            fast = dict(model.named_parameters())
            for rate in rates[:steps]:
                loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
                slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=not first_order)
                fast = {name: value - rate * slope for (name, value), slope in zip(fast.items(), slopes)}
            losses.append(F.mse_loss(torch.func.functional_call(model, fast, (x,)), y))
        total = torch.stack(losses).mean()
        total.backward()
        optimizer.step()
        with torch.no_grad():
            rates.sub_(rates.grad, alpha=0.01).clamp_(min=1e-3)
        return total

    def run(n: int) -> Any:
        tasks = [(batch(n, SIZES[n], 3, seed=k), batch(n, SIZES[n], 1, seed=k)) for k in range(2)]
        return step(tasks, 1 + n // 3 % 3, n % 8 > 5)

    return run, watching(model, optimizer, rates)


class _FixedPoint(torch.autograd.Function):
    """`z = tanh(z @ w + x)`, and its gradient by another fixed point."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        z = torch.zeros_like(x)
        count = 0
        while count < 50:
            after = torch.tanh(z @ w + x)
            if (after - z).abs().max() < 1e-4:
                break
            z, count = after, count + 1
        ctx.save_for_backward(z, w)
        ctx.count = count
        return z

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        z, w = ctx.saved_tensors
        slope = 1 - z * z
        u = g
        for _ in range(ctx.count + 1):
            u = g + (u * slope) @ w.t()
        return u * slope, z.t() @ (u * slope)


@hostile
def implicit_layers(compile: Any) -> Any:
    w, head = nn.Parameter(0.3 * batch(0, 4, 4)), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([w, *head.parameters()], lr=0.02)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(head(_FixedPoint.apply(x, w)), y)
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, SIZES[n], 4), batch(n, SIZES[n], 2)), watching(w, head, optimizer)


@hostile
def fixed_points_until_convergence(compile: Any) -> Any:
    """A loop until it converges without a history, one more step with one, and a hook on it for the gradient."""
    w, head = nn.Parameter(0.3 * batch(0, 4, 4)), nn.Linear(4, 2)

    @compile
    def step(x: Any, y: Any) -> Any:
        with torch.no_grad():
            z, count = torch.zeros_like(x), 0
            while count < 30:
                after = torch.tanh(z @ w + x)
                error = float((after - z).norm())
                z, count = after, count + 1
                if error < 1e-2:
                    break
        z = torch.tanh(z @ w + x)
        w.grad = None
        head.zero_grad()
        loss = F.mse_loss(head(z), y)
        loss.backward()
        with torch.no_grad():
            w.sub_(0.05 * w.grad)
        return loss, count

    return lambda n: step(batch(n, SIZES[n], 4), batch(n, SIZES[n], 2)), watching(w, head)


@hostile
def differential_equations(compile: Any) -> Any:
    """Steps of Runge and Kutta whose length follows the error, differentiated through."""
    field = network(3, 8, 2)
    optimizer = torch.optim.Adam(field.parameters(), lr=0.02)

    def slope(t: Any, z: Any) -> Any:
        return field(torch.cat([z, torch.full_like(z[:, :1], t)], 1))

    @compile
    def step(z: Any, goal: Any, end: float) -> Any:
        t, h, steps = 0.0, 0.5, 0
        while t < end - 1e-6:
            h = min(h, end - t)
            k1 = slope(t, z)
            k2 = slope(t + h / 2, z + h / 2 * k1)
            k3 = slope(t + h, z - h * k1 + 2 * h * k2)
            error = (h / 6 * (k1 - 2 * k2 + k3)).abs().max().item()
            steps += 1
            if error < 0.02 or h < 0.05:
                z, t = z + h / 6 * (k1 + 4 * k2 + k3), t + h
                h *= 1.5
            else:
                h *= 0.5
        loss = F.mse_loss(z, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, steps

    return lambda n: step(batch(n, 3 + n // 5, 2), batch(n, 3 + n // 5, 2, seed=1), 1.0 + n % 3), watching(
        field, optimizer
    )


@hostile
def alignments_of_texts(compile: Any) -> Any:
    """CTC, of lengths that change."""
    model = nn.GRU(3, 5, batch_first=True)
    head = nn.Linear(5, 4)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)

    @compile
    def step(x: Any, targets: Any, lengths: Any, of_targets: Any) -> Any:
        scores = head(model(x)[0]).log_softmax(-1).transpose(0, 1)
        loss = F.ctc_loss(scores, targets, lengths, of_targets, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def run(n: int) -> Any:
        time, most = 4 + SIZES[n], 1 + n % 3
        lengths = torch.tensor([time, max(2, time - n % 3), max(1, time - 2)])
        return step(batch(n, 3, time, 3), 1 + batch(n, 3, most, classes=3), lengths, torch.tensor([most, 1, most]))

    return run, watching(model, head, optimizer)


@hostile
def chains_of_labels(compile: Any) -> Any:
    """A CRF by hand: the forward recursion in log space, with masks, and the best path."""
    emission, transition = nn.Linear(4, 3), nn.Parameter(0.1 * batch(0, 3, 3))
    optimizer = torch.optim.Adam([*emission.parameters(), transition], lr=0.05)

    @compile
    def step(x: Any, labels: Any, mask: Any) -> Any:
        scores = emission(x)
        alpha, total = scores[:, 0], scores[:, 0].gather(1, labels[:, :1])[:, 0]
        best, back = scores[:, 0].detach(), []
        for at in range(1, x.shape[1]):
            here = mask[:, at]
            after = torch.logsumexp(alpha[:, :, None] + transition, 1) + scores[:, at]
            alpha = torch.where(here[:, None], after, alpha)
            gain = transition[labels[:, at - 1], labels[:, at]] + scores[:, at].gather(1, labels[:, at : at + 1])[:, 0]
            total = total + gain * here
            ways = (best[:, :, None] + transition.detach()).max(1)
            best = ways.values + scores[:, at].detach()
            back.append(ways.indices)
        path = [best.argmax(1)]
        for indices in reversed(back):
            path.append(indices.gather(1, path[-1][:, None])[:, 0])
        loss = (torch.logsumexp(alpha, 1) - total).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, torch.stack(path[::-1], 1)

    def run(n: int) -> Any:
        time = 1 + SIZES[n] % 6
        lengths = torch.tensor([time, max(1, time - 1 - n % 2)])
        return step(batch(n, 2, time, 4), batch(n, 2, time, classes=3), torch.arange(time) < lengths[:, None])

    return run, watching(emission, transition, optimizer)


@hostile
def graphs_with_changing_edges(compile: Any) -> Any:
    first, second, attention = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(12, 1)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters(), *attention.parameters()], lr=0.05)

    @compile
    def step(x: Any, edges: Any, labels: Any) -> Any:
        source, goal = edges
        h = first(x).relu()
        weights = F.leaky_relu(attention(torch.cat([h[source], h[goal]], 1)), 0.2).squeeze(1)
        weights = (weights - weights.max()).exp() if weights.numel() else weights
        sums = torch.zeros(len(x)).index_add(0, goal, weights)
        messages = torch.zeros_like(h).index_add_(0, goal, h[source] * (weights / sums[goal].clamp(min=1e-6))[:, None])
        degree = torch.zeros(len(x)).scatter_add(0, goal, torch.ones(goal.shape))
        loss = F.cross_entropy(second(h + messages / degree.clamp(min=1)[:, None]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, degree

    def run(n: int) -> Any:
        nodes, count = 3 + n // 4, [6, 6, 8, 5, 7, 0, 6, 9, 1, 6, 10, 7, 8, 6, 5, 4][n]
        return step(batch(n, nodes, 4), batch(n, 2, count, classes=nodes), batch(n, nodes, classes=3))

    return run, watching(first, second, attention, optimizer)


@hostile
def residuals_of_an_equation(compile: Any) -> Any:
    """A physics-informed network: u'' + u = 0 with second derivatives, points that are drawn anew, and a boundary."""
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    @compile
    def step(count: int, weight: float) -> Any:
        t = torch.rand(count, 1, requires_grad=True)
        u = model(t)
        (slope,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
        (bend,) = torch.autograd.grad(slope, t, torch.ones_like(slope), create_graph=True)
        inside = (bend + u).square().mean()
        start = torch.zeros(1, 1, requires_grad=True)
        at = model(start)
        (speed,) = torch.autograd.grad(at.sum(), start, create_graph=True)
        loss = inside + weight * ((at - 1).square() + speed.square()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, inside

    return lambda n: step(SIZES[n] + 2, 1.0 + n // 4), watching(model, optimizer)


@hostile
def flows(compile: Any) -> Any:
    """Couplings with masks, a log-determinant that is summed, and the inverse."""

    class Coupling(nn.Module):
        def __init__(self, flips: bool) -> None:
            super().__init__()
            self.net, self.flips = network(2, 6, 4), flips
            self.scale = nn.Parameter(torch.zeros(2))

        def forward(self, x: Any, inverse: bool = False) -> Any:
            a, b = x.chunk(2, -1)
            if self.flips:
                a, b = b, a
            s, t = self.net(a).chunk(2, -1)
            s = torch.tanh(s) * self.scale.exp()
            b = (b - t) * (-s).exp() if inverse else b * s.exp() + t
            return torch.cat((b, a) if self.flips else (a, b), -1), s.sum(-1) * (-1 if inverse else 1)

    layers = nn.ModuleList([Coupling(n % 2 == 1) for n in range(3)])
    optimizer = torch.optim.Adamax(layers.parameters(), lr=0.02)

    @compile
    def step(x: Any) -> Any:
        z, total = x, x.new_zeros(x.shape[0])
        for layer in layers:
            z, part = layer(z)
            total += part
        loss = (0.5 * z.square().sum(-1) + 0.5 * 4 * math.log(2 * math.pi) - total).mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for layer in reversed(layers):
                z, _ = layer(z, inverse=True)
        return loss, z

    return lambda n: step(batch(n, SIZES[n], 4)), watching(layers, optimizer)


@hostile
def codebooks_read_as_views(compile: Any) -> Any:
    """Distances to codes are products with a view of them, whose history nobody uses; then the codes are written."""
    encoder, decoder = network(4, 6, 3), network(3, 6, 4)
    codes, sums = batch(0, 5, 3), batch(1, 5, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)

    @compile
    def step(x: Any, decay: float) -> Any:
        z = encoder(x)
        nearest = (codes.square().sum(1) - 2 * z @ codes.t()).argmin(1)
        quantized = codes[nearest]
        with torch.no_grad():
            sums.mul_(decay).add_(F.one_hot(nearest, 5).type(z.dtype).t() @ z, alpha=1 - decay)
            codes.copy_(sums)
        loss = F.mse_loss(decoder(z + (quantized - z).detach()), x) + 0.25 * F.mse_loss(z, quantized.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, nearest

    return lambda n: step(batch(n, 6, 4), 0.9 if n < 8 else 0.8), watching(encoder, decoder, optimizer, codes, sums)


@hostile
def gathered_gradients(compile: Any) -> Any:
    """Gradients of four calls are added up, clipped and stepped with; the last turn is shorter."""
    model = network(4, 6, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    @compile
    def step(x: Any, y: Any, is_last: bool) -> Any:
        loss = F.mse_loss(model(x), y) / 4
        loss.backward()
        norm = None
        if is_last:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return loss, norm

    return lambda n: step(batch(n, 3, 4), batch(n, 3, 2), n % 4 == 3 or n == 13), watching(model, optimizer)


@hostile
def gathered_gradients_that_overflow(compile: Any) -> Any:
    """A scaler unscales the gradients of two calls, which are infinite at times."""
    model = network(4, 6, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)

    @compile
    def step(x: Any, y: Any, is_last: bool, factor: float) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(model(x).float(), y) / 2
        scaler.scale(loss * factor).backward()
        if is_last:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return loss, scaler.get_scale()

    def run(n: int) -> Any:
        return step(batch(n, 3, 4), batch(n, 3, 2), n % 2 == 1, float("inf") if n in (9, 13) else 1.0)

    return run, watching(model, optimizer)


@hostile
def actor_in_every_second_call(compile: Any) -> Any:
    """A critic learns in each call; behind its step the actor does in every second one, while the critic is held fixed."""
    actor, critic = network(4, 6, 2), network(6, 6, 1)
    of_actor = torch.optim.Adam(actor.parameters(), lr=0.02)
    of_critic = torch.optim.Adam(critic.parameters(), lr=0.02)

    @compile
    def step(x: Any, y: Any, with_actor: bool) -> Any:
        loss = F.mse_loss(critic(torch.cat([x, actor(x).detach()], 1)), y)
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        if with_actor:
            critic.requires_grad_(False)
            of_actor.zero_grad()
            (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
            of_actor.step()
            critic.requires_grad_(True)
        return loss

    return lambda n: step(batch(n, 3, 4), batch(n, 3, 1), n % 2 == 0), watching(actor, critic, of_actor, of_critic)


@hostile
def codebooks(compile: Any) -> Any:
    """VQ-VAE whose codes are moved by averages, and revived where nobody uses them."""
    encoder, decoder = network(4, 6, 3), network(3, 6, 4)
    codes, counts, sums = batch(0, 5, 3), torch.ones(5), batch(0, 5, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)

    @compile
    def step(x: Any) -> Any:
        z = encoder(x)
        nearest = torch.cdist(z, codes).argmin(1)
        quantized = codes[nearest]
        straight = z + (quantized - z).detach()
        loss = F.mse_loss(decoder(straight), x) + 0.25 * F.mse_loss(z, quantized.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            hits = F.one_hot(nearest, 5).type(z.dtype)
            counts.mul_(0.9).add_(hits.sum(0), alpha=0.1)
            sums.mul_(0.9).add_(hits.t() @ z, alpha=0.1)
            codes.copy_(sums / counts[:, None])
            dead = counts < 0.35
            if dead.any():
                codes[dead] = z[0]
                counts[dead] = 1.0
                sums[dead] = z[0].clone()
        return loss, nearest

    return lambda n: step(batch(n, SIZES[n], 4)), watching(encoder, decoder, codes, counts, sums, optimizer)


@hostile
def curricula_of_lengths(compile: Any) -> Any:
    """Texts get longer, the state goes over from one piece to the next, and is cut off from its history."""
    words, cell, head = nn.Embedding(6, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 6)
    model = nn.ModuleList([words, cell, head])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    box: dict[str, Any] = {"state": None}

    @compile
    def step(text: Any) -> Any:
        state = box["state"]
        if state is not None and state[0].shape[1] != text.shape[0]:
            state = None
        if state is not None:
            state = tuple([part.detach() for part in state])
        outputs, state = cell(words(text[:, :-1]), state)
        loss = F.cross_entropy(head(outputs).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        box["state"] = state
        return loss, norm, float(norm) > 0.5

    def run(n: int) -> Any:
        if n % 7 == 6:
            box["state"] = None
        return step(batch(n, 3 if n < 10 else 2, 3 + n // 2, classes=6))

    return run, lambda: [*watching(model, optimizer)(), box["state"]]


@hostile
def layers_grow_and_are_frozen(compile: Any) -> Any:
    """Blocks are added, frozen, thawed and dropped between calls; the optimizer learns of it."""
    blocks = nn.ModuleList([nn.Linear(4, 4)])
    head = nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.1, momentum=0.5)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        for block in blocks:
            x = x + block(x).tanh()
        loss = F.mse_loss(head(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def run(n: int) -> Any:
        if n in (4, 8):
            torch.manual_seed(n)
            blocks.append(nn.Linear(4, 4))
            optimizer.add_param_group({"params": list(blocks[-1].parameters()), "lr": 0.01 * n})
        if n == 6:
            blocks[0].requires_grad_(False)
        if n == 11:
            blocks[0].requires_grad_(True)
        if n == 13:
            del blocks[1]
        return step(batch(n, SIZES[n], 4), batch(n, SIZES[n], 2))

    return run, watching(blocks, head, optimizer)


@hostile
def checkpoints_in_files(compile: Any) -> Any:
    """Model and optimizer are saved, loaded back some calls later, and loaded with `assign`."""
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.Linear(5, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    saved: list[Any] = []

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def run(n: int) -> Any:
        if n == 4:
            file = io.BytesIO()
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()},
                file,
            )
            saved.append(file.getvalue())
        if n in (7, 10, 13):
            state = torch.load(io.BytesIO(saved[0]))
            model.load_state_dict(state["model"], assign=n == 13)
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
        loss = step(batch(n, 4, 4), batch(n, 4, 2))
        schedule.step()
        return loss, schedule.get_last_lr()

    return run, watching(model, optimizer)


@hostile
def precision_changes(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2))
    compiled = compile(model)

    def run(n: int) -> Any:
        kinds = [
            model.float,
            model.float,
            model.float,
            model.double,
            model.double,
            model.half,
            model.half,
            model.bfloat16,
        ]
        kinds[n % 8]()
        x = batch(n, 3, 4).to(next(model.parameters()).dtype)
        model.zero_grad()
        y = compiled(x)
        y.float().square().mean().backward()
        return y.float(), str(y.dtype)

    return run, watching(model)


@hostile
def scaled_losses(compile: Any) -> Any:
    """A gradient scaler whose steps are left out where a gradient is infinite."""
    model = network(4, 6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss, scaler.get_scale()

    def run(n: int) -> Any:
        x = batch(n, 4, 4)
        if n % 5 == 4:
            x[0, 0] = float("inf")
        return step(x, batch(n, 4, 2))

    return run, watching(model, optimizer)


@hostile
def distillation_from_a_moving_teacher(compile: Any) -> Any:
    student, teacher = network(4, 6, 3), network(4, 6, 3)
    center = torch.zeros(3)
    optimizer = torch.optim.NAdam(student.parameters(), lr=0.02)

    @compile
    def step(views: Any, temperature: float) -> Any:
        with torch.no_grad():
            goals = [F.softmax((teacher(view) - center) / temperature, -1) for view in views[:2]]
        outputs = [F.log_softmax(student(view) / 0.1, -1) for view in views]
        losses = [
            -(goal * output).sum(-1).mean()
            for i, goal in enumerate(goals)
            for j, output in enumerate(outputs)
            if i != j
        ]
        loss = sum(losses) / len(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            center.lerp_(torch.cat(goals).mean(0), 0.1)
            torch._foreach_mul_(list(teacher.parameters()), 0.9)
            torch._foreach_add_(list(teacher.parameters()), list(student.parameters()), alpha=0.1)
        return loss

    return lambda n: step([batch(n, SIZES[n], 4, seed=k) for k in range(2 + n // 4 % 3)], 0.1 + 0.01 * n), watching(
        student, teacher, center, optimizer
    )


@hostile
def walks_of_a_sampler(compile: Any) -> Any:
    """Langevin steps on an input that is a leaf, written in place, with clamping; the energy is learnt from the end of the walk."""
    energy = network(2, 8, 1)
    optimizer = torch.optim.Adam(energy.parameters(), lr=0.01)

    @compile
    def step(real: Any, start: Any, steps: int) -> Any:
        x = start.clone().requires_grad_()
        for _ in range(steps):
            (slope,) = torch.autograd.grad(energy(x).sum(), x)
            with torch.no_grad():
                x.add_(slope, alpha=-0.1).add_(torch.randn_like(x), alpha=0.05).clamp_(-2, 2)
        fake = x.detach()
        loss = energy(real).mean() - energy(fake).mean() + 0.1 * (energy(real) ** 2 + energy(fake) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, fake

    return lambda n: step(batch(n, SIZES[n], 2), batch(n, SIZES[n], 2, seed=1), 1 + n // 5), watching(energy, optimizer)


@hostile
def delays_between_calls(compile: Any) -> Any:
    """What a call gives goes into the next one, with its history, for some calls; then all of it is differentiated."""
    cell, head = nn.RNNCell(3, 4), nn.Linear(4, 1)
    step = compile(lambda x, h: cell(x, h))
    states: deque[Any] = deque(maxlen=3)

    def run(n: int) -> Any:
        cell.zero_grad()
        head.zero_grad()
        h = states[-1] if states else torch.zeros(2, 4)
        states.append(step(batch(n, 2, 3), h))
        if n % 3 == 2:
            loss = head(torch.stack(list(states)).mean(0)).square().sum()
            loss.backward()
            states.clear()
            return loss
        return states[-1]

    return run, watching(cell, head)
