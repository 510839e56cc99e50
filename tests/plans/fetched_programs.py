"""Programs whose sizes are no arguments, or whose way depends on values. Each gives (call, watched): `call(numbers, n, count)` is a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn
from tests.plans.sized_programs import WIDTH, Tagger, classes, rows, words, words_and_labels

F = nn.functional
PROGRAMS: dict[str, Callable[[Any], Any]] = {}
LEAST: dict[
    str, tuple[int, int]
] = {}  # of 100 calls, so many go along a record: (at one number of examples, at several)


def program(least: int, least_of_both: int) -> Any:
    def enter(function: Any) -> Any:
        PROGRAMS[function.__name__] = function
        LEAST[function.__name__] = least, least_of_both
        return function

    return enter


def fetching(model: Any, loss_of: Any, batch_of: Any, compile: Any) -> Any:
    """A step without arguments, which takes its batch from an iterator."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    waiting: list[Any] = []
    batches = iter(waiting.pop, None)

    @compile
    def step() -> Any:
        batch = next(batches)
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(*sizes: Any) -> Any:
        waiting.append(batch_of(*sizes))
        return step()

    return call, lambda: [model, optimizer]


def given(model: Any, loss_of: Any, batch_of: Any, compile: Any) -> Any:
    """A step whose batch is an argument."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    @compile
    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    return lambda *sizes: step(*batch_of(*sizes)), lambda: [model, optimizer]


@program(85, 70)
def a_batch_from_an_iterator(compile: Any) -> Any:
    return fetching(Tagger(nn.Linear(WIDTH, WIDTH)), classes, words_and_labels, compile)


def sources_and_targets(numbers: Any, n: int, count: int) -> Any:
    return words(numbers, n, count), words(numbers, int(numbers.integers(4, 15)), count)


def translated(model: Any, source: Any, target: Any) -> Any:
    h = model.table(source).mean(1, keepdim=True)
    return F.cross_entropy(model.out((model.table(target[:, :-1]) + h).tanh()).flatten(0, 1), target[:, 1:].flatten())


@program(70, 40)
def sources_and_targets_of_lengths_of_their_own(compile: Any) -> Any:
    return fetching(Tagger(nn.Identity()), translated, sources_and_targets, compile)


@program(60, 45)
def a_source_given_and_a_target_fetched(compile: Any) -> Any:
    model = Tagger(nn.Identity())
    targets: list[Any] = []

    def loss(model: Any, source: Any) -> Any:
        return translated(model, source, targets[-1])

    def batch(*sizes: Any) -> Any:
        source, target = sources_and_targets(*sizes)
        targets.append(target)
        return (source,)

    return given(model, loss, batch, compile)


@program(85, 60)
def rows_of_a_memory(compile: Any) -> Any:
    """A method that picks as many rows of a tensor as there are places in an index."""
    model = nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    states, rewards = torch.randn(64, WIDTH), torch.randn(64)

    class Agent:
        index: Any = None

        def learn(self) -> Any:
            optimizer.zero_grad()
            loss = (model(states[self.index]).amax(1) - rewards[self.index]).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

    agent = Agent()
    learn = compile(agent.learn)

    def call(numbers: Any, n: int, count: int) -> Any:
        agent.index = torch.from_numpy(numbers.integers(0, 64, n))
        return learn()

    return call, lambda: [model, optimizer]


@program(60, 40)
def a_decision(compile: Any) -> Any:
    def loss(model: Any, x: Any) -> Any:
        h = model(x).tanh()
        return h.pow(2).sum() if h[0, 0, 0] > 0 else (h * 2).sum()

    return given(nn.Linear(WIDTH, 4), loss, rows, compile)


@program(35, 35)
def decisions_one_after_the_other(compile: Any) -> Any:
    def loss(model: Any, x: Any) -> Any:
        h = model(x)
        for place in range(2):
            h = h.tanh() if h[0, place, 0] > 0 else h.sigmoid() * 2 - 1
        return h.pow(2).sum()

    return given(nn.Linear(WIDTH, 4), loss, rows, compile)


@program(60, 0)
def writes_in_place(compile: Any) -> Any:
    def loss(model: Any, x: Any) -> Any:
        h = model(x) * 1
        h[:, 0] = 0.5
        h += x[..., :4]
        h.relu_()
        return h.pow(2).sum()

    return given(nn.Linear(WIDTH, 4), loss, rows, compile)


@program(60, 0)
def padded_in_place(compile: Any) -> Any:
    def loss(model: Any, x: Any, lengths: Any) -> Any:
        h = model(x)
        h = h.masked_fill_(torch.arange(x.shape[1])[None, :, None] >= lengths[:, None, None], 0.0)
        return h.sum(1).tanh().sum()

    def batch(numbers: Any, n: int, count: int) -> Any:
        return *rows(numbers, n, count), torch.from_numpy(numbers.integers(1, n + 1, count))

    return given(nn.Linear(WIDTH, 4), loss, batch, compile)


@program(85, 85)
def a_memory_of_single_tensors(compile: Any) -> Any:
    """Rows that are tensors of their own, some of them picked again, written anew, or forgotten, and one of two constants."""
    model = nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    memory = [(torch.randn(WIDTH), torch.randn(())) for _ in range(16)]
    weights = [torch.ones(2), torch.tensor([0.5, 2.0])]
    picked: list[Any] = []

    @compile
    def learn() -> Any:
        states, rewards = [torch.stack(part) for part in zip(*picked[0])]
        optimizer.zero_grad()
        loss = ((model(states) * picked[1]).amax(1) - rewards).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    def call(numbers: Any, n: int, count: int) -> Any:
        memory[n % 16] = torch.full((WIDTH,), n / 40), torch.tensor(count / 4)
        memory[3][0].fill_(n / 30)
        picked[:] = [memory[place] for place in numbers.permutation(16)[:5]], weights[n % 2]
        return learn()

    return call, lambda: [model, optimizer]


@program(50, 45)
def rows_at_a_mask(compile: Any) -> Any:
    """As many rows as values say, with a gradient."""

    def loss(model: Any, x: Any) -> Any:
        h = model(x).tanh().flatten(0, 1)
        return h[h[:, 0] > 0].pow(2).sum() + h.mean()

    return given(nn.Linear(WIDTH, 4), loss, rows, compile)


@program(45, 25)
def elements_at_a_mask(compile: Any) -> Any:
    def loss(model: Any, x: Any) -> Any:
        h = model(x).tanh()
        return h[h.detach() > 0].exp().sum() + h.masked_select(x[..., :1] > 0).square().sum()

    return given(nn.Linear(WIDTH, 4), loss, rows, compile)


@program(75, 70)
def experts_for_rows_at_masks(compile: Any) -> Any:
    """Each row goes to one of two experts, which a gate chooses."""
    model = nn.ModuleDict({"gate": nn.Linear(WIDTH, 2), "first": nn.Linear(WIDTH, 4), "second": nn.Linear(WIDTH, 4)})

    def loss(model: Any, x: Any) -> Any:
        tokens = x.flatten(0, 1)
        weights = model["gate"](tokens).softmax(1)
        chosen = weights.argmax(1)
        out = tokens.new_zeros(len(tokens), 4)
        for number, name in enumerate(("first", "second")):
            mask = chosen == number
            values = model[name](tokens[mask]).tanh() * weights[mask][:, number, None]
            out = out.index_add(0, torch.where(mask)[0], values)
        return (out - tokens[:, :4]).square().mean()

    return given(model, loss, rows, compile)


# --- lists of rows, of any lengths and number -------------------------------------------------------------------------------------------


def sentences(numbers: Any, n: int, count: int) -> Any:
    """A list of rows, some of them empty."""
    lengths = numbers.integers(0, n, count)
    lengths[0] = n
    return [torch.from_numpy(numbers.standard_normal((int(length), WIDTH)).astype("float32")) for length in lengths]


def documents(numbers: Any, n: int, count: int) -> Any:
    """Rows of words, and their labels, in a dict."""
    lists = [torch.from_numpy(numbers.integers(0, 20, int(length))) for length in numbers.integers(1, n, count)]
    return ({"words": lists, "labels": torch.from_numpy(numbers.integers(0, 3, count))},)


@program(90, 90)
def rows_behind_one_another(compile: Any) -> Any:
    model = nn.Linear(WIDTH, WIDTH)

    def loss(model: Any, lists: Any) -> Any:
        h = model(torch.cat(lists))
        return (h @ h.T).tanh().mean() + h.softmax(0).square().sum()

    return given(model, loss, lambda *sizes: (sentences(*sizes),), compile)


@program(85, 85)
def rows_made_ragged(compile: Any) -> Any:
    model = Tagger(nn.Linear(WIDTH, WIDTH))

    def loss(model: Any, batch: Any) -> Any:
        h = model.middle(model.table(torch.ragged_tensor(batch["words"])))
        return F.cross_entropy(model.out(h).mean(1), batch["labels"])

    return given(model, loss, documents, compile)


@program(60, 60)
def rows_padded_and_packed(compile: Any) -> Any:
    model = Tagger(nn.GRU(WIDTH, WIDTH, batch_first=True))

    def loss(model: Any, batch: Any) -> Any:
        lengths = [len(row) for row in batch["words"]]
        padded = nn.utils.rnn.pad_sequence(batch["words"], batch_first=True, padding_value=1)
        packed = nn.utils.rnn.pack_padded_sequence(model.table(padded), lengths, True, enforce_sorted=False)
        return F.cross_entropy(model.out(model.middle(packed)[1][0]), batch["labels"])

    return given(model, loss, documents, compile)


@program(60, 30)
def rows_that_ops_read_as_well(compile: Any) -> Any:
    """From a call on that is in the middle of all, one of the rows is read by another op."""
    model = nn.Linear(WIDTH, WIDTH)
    calls = [0]

    def loss(model: Any, lists: Any) -> Any:
        calls[0] += 1
        result = model(torch.cat(lists)).square().mean()
        return result + model(lists[0]).tanh().sum() if calls[0] > 30 else result

    return given(model, loss, lambda *sizes: (sentences(*sizes),), compile)


@program(85, 85)
def rows_of_parameters(compile: Any) -> Any:
    """Not all of what is joined is data: a vector that is learnt stands before the rows."""
    model = Tagger(nn.Linear(WIDTH, WIDTH))

    def loss(model: Any, lists: Any) -> Any:
        h = torch.cat([model.table.weight[:1], torch.cat(lists)])
        return model.middle(h).tanh().sum(1).square().mean()

    return given(model, loss, lambda *sizes: (sentences(*sizes),), compile)


@program(90, 90)
def rows_that_may_be_of_one_length(compile: Any) -> Any:
    """Two rows, which often are: dense ops would do for these."""
    model = Tagger(nn.Linear(WIDTH, WIDTH))

    def loss(model: Any, batch: Any) -> Any:
        h = model.middle(model.table(torch.ragged_tensor(batch["words"])))
        return F.cross_entropy(model.out(h).mean(1) + h.sum(1).amax(1, keepdim=True), batch["labels"])

    return given(model, loss, lambda numbers, n, count: documents(numbers, 4, 2), compile)


@program(90, 90)
def bags(compile: Any) -> Any:
    """Where the bags begin and which words they have is computed with NumPy."""
    model = Tagger(nn.Linear(WIDTH, WIDTH))

    def loss(model: Any, batch: Any) -> Any:
        lengths = [len(row) for row in batch["words"]]
        starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)
        h = F.embedding_bag(torch.cat(batch["words"]), model.table.weight, starts)
        return F.cross_entropy(model.out(model.middle(h)), batch["labels"])

    return given(model, loss, documents, compile)


@program(85, 85)
def places_in_lists_and_arrays(compile: Any) -> Any:
    model = nn.Linear(WIDTH, WIDTH)

    def loss(model: Any, x: Any, numbers: Any) -> Any:
        h = model(x[0])
        picked = h[numbers.integers(0, len(h), 4).tolist()] * numbers.standard_normal(WIDTH).astype("float32")
        h = h * 1
        h[numbers.permutation(len(h))[:3].tolist()] = 0.5
        return picked.square().mean() + h[-numbers.integers(1, 4, 2), numbers.integers(0, WIDTH, 2).tolist()].sum()

    return given(model, loss, lambda numbers, n, count: (*rows(numbers, 12, 1), numbers), compile)


@program(0, 0)
def masks_in_lists_and_arrays(compile: Any) -> Any:
    """How many elements they pick is another number each time."""
    model = nn.Linear(WIDTH, WIDTH)

    def loss(model: Any, x: Any, numbers: Any) -> Any:
        h = model(x[0])
        mask = numbers.random(len(h)) > 0.3
        return h[mask].square().sum() + h[mask.tolist()].sum() + x[0][mask].sum()

    return given(model, loss, lambda numbers, n, count: (*rows(numbers, n, 1), numbers), compile)
