"""Programs as in `programs.py`: larger ones, and ones of more than a model and its loss."""

from __future__ import annotations

from typing import Any

import numpy

import dynograd as torch
from dynograd import nn
from tests.plans.programs import F, batch, network, program, watching

NOISE = 1e-3
"""For Adam's `eps`: the bias of keys has gradients that are 0 but for rounding, which divided by their own size would be steps of any direction."""


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1))

    def forward(self, x: Any) -> Any:
        count, length, width = x.shape
        queries, keys, values = [
            part.view(count, length, self.heads, -1).transpose(1, 2)
            for part in self.queries(self.before(x)).chunk(3, -1)
        ]
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(count, length, width))
        return x + self.wide(self.behind(x))


class LanguageModel(nn.Module):
    def __init__(self, words: int = 17, width: int = 8) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@program
def language_model(compile: Any) -> Any:
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, eps=NOISE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 4))

    @compile
    def step(tokens: Any) -> Any:
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        return loss, norm

    return lambda n: step(batch(n, 2, 7 if n != 6 else 5, classes=17)), watching(model, optimizer)


@program
def generation(compile: Any) -> Any:
    model = LanguageModel().eval()
    forward = compile(model)

    def step(n: int) -> Any:
        tokens = batch(n, 1, 3, classes=17)
        with torch.no_grad():
            for _ in range(4):
                following = torch.multinomial(forward(tokens)[:, -1].softmax(-1), 1)
                tokens = torch.cat([tokens, following], 1)
        return tokens

    return step, watching()


@program
def policy_gradients(compile: Any) -> Any:
    policy = network(3, 8, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    place = numpy.zeros(3, "float32")

    @compile
    def act(observed: Any) -> Any:
        distribution = torch.distributions.Categorical(logits=policy(observed))
        action = distribution.sample()
        return action, distribution.log_prob(action)

    @compile
    def learn(log_probs: Any, rewards: Any) -> Any:
        expected = (rewards - rewards.mean()) / (rewards.std() + 1e-5)
        loss = -(torch.stack(log_probs) * expected).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def step(n: int) -> Any:
        torch.manual_seed(n)
        place[:] = batch(n, 3).numpy()
        log_probs, rewards, actions = [], [], []
        for _ in range(5):
            action, log_prob = act(torch.from_numpy(place.copy()))
            place[action.item()] += 0.5
            actions.append(action.item())
            log_probs.append(log_prob)
            rewards.append(float(-abs(place).sum()))
        return learn(log_probs, torch.tensor(rewards)), actions

    return step, watching(policy, optimizer)


@program
def gradient_penalty(compile: Any) -> Any:
    critic = network(4, 8, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2, betas=(0.0, 0.9))

    @compile
    def step(real: Any, fake: Any) -> Any:
        between = (real * 0.3 + fake * 0.7).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        loss = critic(fake).mean() - critic(real).mean() + 10 * (slope.norm(2, 1) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 5, 4), batch(n, 5, 4, seed=1)), watching(critic, optimizer)


@program
def quasi_newton(compile: Any) -> Any:
    model = network(3, 4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=3)
    x, y = batch(0, 6, 3), batch(1, 6, 1)

    @compile
    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return lambda n: optimizer.step(closure), watching(model)


@program
def checkpointed(compile: Any) -> Any:
    model = nn.ModuleList([nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Dropout(0.2)) for _ in range(3)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any) -> Any:
        for layer in model:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        loss = x.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 4, 5)), watching(model)


@program
def packed_sequences(compile: Any) -> Any:
    lstm, head = nn.LSTM(3, 4, bidirectional=True), nn.Linear(8, 2)
    model = nn.ModuleList([lstm, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(x: Any, lengths: Any, y: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
        loss = F.cross_entropy(head(out.sum(0)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def run(n: int) -> Any:
        lengths = torch.tensor([[5, 3, 2], [2, 5, 4], [3, 5, 5]][n % 3])
        return step(batch(n, 5, 3, 3), lengths, batch(n, 3, classes=2))

    return run, watching(model, optimizer)


@program
def normalized_weights(compile: Any) -> Any:
    normed = nn.utils.parametrizations
    model = nn.Sequential(
        normed.weight_norm(nn.Linear(4, 5)), nn.Tanh(), normed.spectral_norm(nn.Linear(5, 5)), nn.Linear(5, 2)
    )
    normed.orthogonal(model[3])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @compile
    def step(x: Any) -> Any:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 4, 4)), watching(model)


@program
def functional_transforms(compile: Any) -> Any:
    model = network(3, 4, 1)
    parameters = {name: value.detach().clone() for name, value in model.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return torch.func.functional_call(model, parameters, (x,)).pow(2).sum()

    @compile
    def step(parameters: Any, x: Any) -> Any:
        gradients = torch.func.grad(loss)(parameters, x)
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        norms = [value.flatten(1).norm(dim=1) for value in each.values()]
        return {name: value - 0.01 * gradients[name] for name, value in parameters.items()}, norms

    def run(n: int) -> Any:
        argument, norms = step(parameters, batch(n, 4, 3))
        parameters.update(argument)
        return norms, dict(parameters)

    return run, watching(model)


@program
def epochs_of_a_loader(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.utils.data.TensorDataset(batch(0, 11, 3), batch(0, 11, classes=2))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        return loss.item(), (out.argmax(1) == y).sum().item()

    def epoch(n: int) -> Any:
        model.train()
        losses = [step(x, y) for x, y in torch.utils.data.DataLoader(data, 4, shuffle=True)]
        schedule.step()
        return losses

    return epoch, watching(model, optimizer)


@program
def several_inputs(compile: Any) -> Any:
    left, right = network(3, 4), network(2, 4)
    optimizer = torch.optim.Adam([*left.parameters(), *right.parameters()], lr=1e-2)

    @compile
    def step(batches: Any, *, weights: Any, scale: float) -> Any:
        total = 0.0
        for (x, y), weight in zip(batches, weights.values()):
            total = total + weight * F.cosine_similarity(left(x), right(y)).mean()
        loss = -total * scale
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "parts": [total.item(), scale]}

    def run(n: int) -> Any:
        batches = [(batch(n, 4, 3, seed=k), batch(n, 4, 2, seed=k)) for k in range(2 + (n == 5))]
        weights = {k: torch.tensor(0.5 + k) for k in range(len(batches))}
        return step(batches, weights=weights, scale=1.0 if n < 7 else 0.5)

    return run, watching(left, right, optimizer)


@program
def compiled_in_compiled(compile: Any) -> Any:
    model = network(4, 6, 3)
    inner = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(inner(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def run(n: int) -> Any:
        loss = step(batch(n, 5, 4), batch(n, 5, classes=3))
        with torch.no_grad():
            return loss, inner(batch(n, 5, 4, seed=1))

    return run, watching(model)


@program
def recursion_over_trees(compile: Any) -> Any:
    leaf, join = nn.Embedding(7, 4), nn.Linear(8, 4)
    model = nn.ModuleList([leaf, join])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trees = [((0, 1), (2, 3)), (0, (1, (2, 3))), ((4, 5), 6)]

    def encoded(tree: Any) -> Any:
        if isinstance(tree, int):
            return leaf(torch.tensor(tree))
        return join(torch.cat([encoded(part) for part in tree])).tanh()

    @compile
    def step(tree: Any) -> Any:
        loss = encoded(tree).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(trees[n % 3]), watching(model)


@program
def soft_updates(compile: Any) -> Any:
    value, target = network(3, 6, 2), network(3, 6, 2)
    target.load_state_dict(value.state_dict())
    optimizer = torch.optim.RMSprop(value.parameters(), lr=1e-2)
    memory: list[Any] = []

    @compile
    def step(states: Any, actions: Any, rewards: Any, following: Any) -> Any:
        with torch.no_grad():
            expected = rewards + 0.9 * target(following).max(1).values
        chosen = value(states).gather(1, actions[:, None])[:, 0]
        loss = F.smooth_l1_loss(chosen, expected)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(target.parameters(), value.parameters()):
            slow.data.copy_(0.9 * slow.data + 0.1 * fast.data)
        return loss, chosen.detach()

    def run(n: int) -> Any:
        loss, chosen = step(batch(n, 6, 3), batch(n, 6, classes=2), batch(n, 6), batch(n, 6, 3, seed=1))
        memory.append(chosen)
        return loss, list(memory)

    return run, watching(value, target, optimizer)


@program
def mixtures_of_experts(compile: Any) -> Any:
    gate, experts = nn.Linear(4, 3), nn.ModuleList([network(4, 5, 4) for _ in range(3)])
    model = nn.ModuleList([gate, experts])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(x: Any) -> Any:
        weights, chosen = gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(experts):
            rows, places = torch.where(chosen == number)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weights[rows, places, None])
        loss = F.mse_loss(out, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 6, 4)), watching(model)


@program
def seq2seq(compile: Any) -> Any:
    """Labels shifted to the right in a tensor of the step's own, learned biases of places, heads joined by `contiguous`."""
    words, places = nn.Embedding(11, 8), nn.Embedding(7, 2)
    queries, out = nn.Linear(8, 24), nn.Linear(8, 11)
    parameters = [*words.parameters(), *places.parameters(), *queries.parameters(), *out.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, eps=NOISE)

    def attended(x: Any, mask: Any) -> Any:
        count, length, _ = x.shape
        parts = [part.view(count, length, 2, -1).transpose(1, 2) for part in queries(x).chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(*parts, attn_mask=mask)
        return mixed.transpose(1, 2).contiguous().view(count, length, -1)

    @compile
    def step(labels: Any) -> Any:
        shifted = labels.new_zeros(labels.shape)
        shifted[..., 1:] = labels[..., :-1].clone()
        shifted[..., 0] = 3
        shifted.masked_fill_(shifted == 5, 0)
        length = labels.shape[1]
        distance = torch.arange(length)[:, None] - torch.arange(length)[None]
        bias = places(distance.clamp(-3, 3) + 3).permute(2, 0, 1)[None]
        hidden = distance < 0
        bias = bias.masked_fill(hidden, float("-inf"))
        x = attended(words(shifted), bias)
        x = x + attended(x, None)
        loss = F.cross_entropy(out(x).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, 3, 6, classes=11)), watching(words, places, queries, out, optimizer)
