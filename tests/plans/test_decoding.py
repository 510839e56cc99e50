"""A language model that writes token after token, with keys and values of all before it: compiled it gives the tokens that it gives as it is written."""

from __future__ import annotations

from typing import Any

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 40, 16, 2, 2, 256


class Layer:
    """Keys and values, one longer after each token."""

    def __init__(self) -> None:
        self.keys: Any = None
        self.values: Any = None

    def update(self, keys: Any, values: Any, positions: Any) -> tuple[Any, Any]:
        if self.keys is not None:
            keys, values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        self.keys, self.values = keys, values
        return keys, values


class Static(Layer):
    """The same in memory for the longest text."""

    def __init__(self) -> None:
        self.keys, self.values = (torch.zeros(1, HEADS, LONGEST, WIDTH // HEADS) for _ in range(2))

    def update(self, keys: Any, values: Any, positions: Any) -> tuple[Any, Any]:
        self.keys.index_copy_(2, positions, keys)
        self.values[:, :, positions] = values
        return self.keys, self.values


class Cache:
    """Of all layers, an object within an object; `context` is read in each step of a text, and another one in each text."""

    def __init__(self, kind: type[Layer]) -> None:
        self.layers = [kind() for _ in range(LAYERS)]
        self.context = Context()


class Context:
    def __init__(self) -> None:
        self.states = [torch.randn(1, 1, WIDTH)]


class Listed:
    """Of a layer, in lists that are changed in place."""

    def __init__(self, content: list[Any]) -> None:
        self.content = content

    def update(self, keys: Any, values: Any, positions: Any) -> tuple[Any, Any]:
        if self.content:
            keys, values = torch.cat([self.content[0], keys], 2), torch.cat([self.content[1], values], 2)
        self.content[:] = [keys, values]
        return keys, values


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.read, self.write = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, positions: Any, cache: Any, mask: Any) -> Any:
        parts = self.read(self.before(x)).chunk(3, -1)
        q, k, v = [part.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts]
        k, v = cache.update(k, v, positions)
        causal = mask is None and x.shape[1] > 1
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return x + self.write(y.transpose(1, 2).reshape(x.shape)).relu()


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.score = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Any, positions: Any, cache: Any, mask: Any = None) -> Any:
        x = self.words(tokens) + self.places(positions)
        if isinstance(cache, Cache):
            x = x + cache.context.states[0]
        layers = cache.layers if isinstance(cache, Cache) else [Listed(content) for content in cache]
        for block, layer in zip(self.blocks, layers):
            x = block(x, positions, layer, mask)
        return self.score(x[:, -1])


def functional(model: Writer) -> Any:
    """The step that gets keys and values, and gives those that are one longer."""

    def step(tokens: Any, positions: Any, kept: list[Any]) -> tuple[Any, list[Any]]:
        contents = [list(pair) for pair in kept or [[]] * LAYERS]
        return model(tokens, positions, contents), contents

    return step


CHOICES = {
    "likeliest": lambda scores: scores.argmax(-1, keepdim=True),
    "drawn": lambda scores: torch.multinomial(scores.softmax(-1), 1),
    "of the best": lambda scores: scores.topk(5).indices.gather(
        1, torch.multinomial(scores.topk(5).values.softmax(-1), 1)
    ),
}
ROWS = [(kind, "likeliest") for kind in ("objects", "static", "lists", "results")]
ROWS += [("objects", "drawn"), ("results", "of the best"), ("static", "drawn")]


def write(kind: str, choice: str, step: Any, count: int, seed: int, prompt: int = 4) -> list[int]:
    """The tokens of a text, which ends early with a 7 from the 150th on."""
    torch.manual_seed(seed)
    cache: Any = []
    if kind == "lists":
        cache = [[] for _ in range(LAYERS)]
    if kind in ("objects", "static"):
        cache = Cache(Static if kind == "static" else Layer)
    places = torch.arange(LONGEST)
    tokens, positions, text = torch.arange(prompt).reshape(1, prompt), places[:prompt], []
    with torch.no_grad():
        for place in range(prompt, prompt + count):
            mask = (places <= positions[:, None])[None, None] if kind == "static" else None
            if kind == "results":
                scores, cache = step(tokens, positions, cache)
            else:
                scores = step(tokens, positions, cache, mask)
            tokens, positions = CHOICES[choice](scores), places[place : place + 1]
            text.append(tokens.item())
            if place > 150 and text[-1] == 7:
                break
    return text


@pytest.mark.parametrize(("kind", "choice"), ROWS, ids=[" ".join(row) for row in ROWS])
def test_texts_are_those_of_the_program_as_it_is_written(kind: str, choice: str) -> None:
    torch.manual_seed(0)
    model = Writer().eval()
    step = functional(model) if kind == "results" else model.__call__
    compiled = Compiled(step, always=True)
    for seed in range(4):
        expected = write(kind, choice, step, 200, seed)
        assert write(kind, choice, compiled, 200, seed) == expected
    ways, calls, walked = compiled.ways, compiled.calls, compiled.walked
    memory = compiled.shared.arena.whole.nbytes
    for seed in range(4, 6):
        assert write(kind, choice, compiled, 120, seed) == write(kind, choice, step, 120, seed)
    report = str(compiled.report())
    assert compiled.walked - walked >= 0.95 * (compiled.calls - calls), report
    assert compiled.ways <= ways + 2 and ways <= 40, report
    assert compiled.shared.arena.whole.nbytes <= memory


def test_a_text_that_is_replayed() -> None:
    """Nothing but tensors go in and out: then the step's Python is left out, at each length that came before."""
    torch.manual_seed(0)
    words, read, score = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def step(tokens: Any, positions: Any, kept: list[Any]) -> tuple[Any, list[Any]]:
        x = words(tokens)
        q, k, v = read(x).chunk(3, -1)
        if kept:
            k, v = torch.cat([kept[0], k], 1), torch.cat([kept[1], v], 1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=not kept)
        return score(x[:, -1]), [k, v]

    compiled = Compiled(step, always=True, replay=True)
    for seed in range(6):
        expected = write("results", "drawn", step, 40, seed)
        assert write("results", "drawn", compiled, 40, seed) == expected
    assert compiled.replays is not None and compiled.replays.times >= 40, str(compiled.report())


def test_prompts_of_other_lengths() -> None:
    torch.manual_seed(0)
    model = Writer().eval()
    compiled = Compiled(model.__call__, always=True)
    for seed, prompt in enumerate([4, 9, 4, 6, 12, 5, 7]):
        expected = write("objects", "likeliest", model, 60, seed, prompt)
        assert write("objects", "likeliest", compiled, 60, seed, prompt) == expected
    assert compiled.walked > compiled.calls // 2, str(compiled.report())


def test_tensors_of_an_argument_that_stay_are_not_copied() -> None:
    class Table:
        def __init__(self) -> None:
            self.rows = torch.randn(1000, 8)

    table = Table()
    compiled = Compiled(lambda x, table: (x @ table.rows.T).relu().sum(1), always=True)
    for _ in range(8):
        x = torch.randn(2, 8)
        assert torch.allclose(compiled(x, table), (x @ table.rows.T).relu().sum(1))
    assert not compiled.held.places and compiled.walked == 6
    table.rows.mul_(2)
    assert torch.allclose(compiled(x, table), (x @ table.rows.T).relu().sum(1))
    table.rows = torch.randn(1000, 8)
    for _ in range(6):
        assert torch.allclose(compiled(x, table), (x @ table.rows.T).relu().sum(1))
    other = Table()
    for _ in range(6):
        for its in (other, table):
            assert torch.allclose(compiled(x, its), (x @ its.rows.T).relu().sum(1))


WRITES = {
    "add": lambda kept, h: kept.add_(h),
    "rows": lambda kept, h: kept.index_copy_(0, torch.tensor([1]), h[:1]),
    "places": lambda kept, h: kept.__setitem__(slice(0, 2), h[:2]),
    "itself": lambda kept, h: kept.copy_(h).mul_(h),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("grad", [False, True], ids=["without gradients", "with gradients"])
def test_what_is_written_into_a_tensor_from_outside_stays_what_it_was(name: str, grad: bool) -> None:
    """The plan's memory, which the write reads, is used again by what comes after it."""

    def program(kept: Any, weight: Any) -> Any:
        def step(x: Any) -> Any:
            h = (x @ weight).tanh()
            with torch.no_grad():
                WRITES[name](kept, h.detach() if grad else h)
            h = (h @ weight).relu() + kept
            return (h @ weight).tanh() * 2 + h

        return step

    twins = []
    for compile in (lambda function: function, lambda function: Compiled(function, always=True)):
        torch.manual_seed(0)
        kept, weight = torch.randn(4, 4), torch.randn(4, 4, requires_grad=grad)
        twins.append((compile(program(kept, weight)), kept))
    for _ in range(6):
        x = torch.randn(4, 4)
        results = [step(x) for step, _ in twins]
        assert torch.allclose(*results, rtol=1e-5, atol=1e-6)
        assert torch.allclose(twins[0][1], twins[1][1], rtol=1e-5, atol=1e-6)
