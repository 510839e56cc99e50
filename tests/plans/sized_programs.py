"""Programs whose arguments have other sizes in each step. Each gives (step, watched, batch): `batch(numbers, n, count)` are the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn

F = nn.functional
PROGRAMS: dict[str, Callable[[Any], Any]] = {}
WALKED: dict[str, bool | None] = {}  # whether sizes between recorded ones are walked; None: at times
WORDS, WIDTH = 20, 8


def program(walked: bool | None = True) -> Any:
    def enter(function: Any) -> Any:
        PROGRAMS[function.__name__] = function
        WALKED[function.__name__] = walked
        return function

    return enter


def words(numbers: Any, n: int, count: int) -> Any:
    return torch.from_numpy(numbers.integers(0, WORDS, (count, n)))


def words_and_labels(numbers: Any, n: int, count: int) -> Any:
    return words(numbers, n, count), torch.from_numpy(numbers.integers(0, 3, count))


def rows(numbers: Any, n: int, count: int) -> Any:
    return (torch.from_numpy(numbers.standard_normal((count, n, WIDTH)).astype("float32")),)


def trained(model: Any, loss_of: Any, compile: Any, kind: Any = torch.optim.AdamW, whole: bool = True) -> Any:
    optimizer = kind(model.parameters(), lr=1e-2)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return compile(step) if whole else step, lambda: [model, optimizer]


class Tagger(nn.Module):
    def __init__(self, middle: Any) -> None:
        super().__init__()
        self.table, self.middle, self.out = nn.Embedding(WORDS, WIDTH), middle, nn.Linear(WIDTH, WORDS)

    def forward(self, x: Any) -> Any:
        h = self.middle(self.table(x))
        return self.out(h[0] if isinstance(h, tuple) else h)


def next_words(model: Any, x: Any) -> Any:
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def classes(model: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(model(x).mean(1)[:, :3], y)


@program()
def words_alone(compile: Any) -> Any:
    return *trained(
        Tagger(nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))), classes, compile
    ), words_and_labels


@program()
def lstm(compile: Any) -> Any:
    return *trained(Tagger(nn.LSTM(WIDTH, WIDTH, batch_first=True)), classes, compile), words_and_labels


@program()
def gru_language_model(compile: Any) -> Any:
    return *trained(
        Tagger(nn.GRU(WIDTH, WIDTH, batch_first=True)), lambda m, x: next_words(m, x), compile
    ), lambda *sizes: (words(*sizes),)


@program()
def transformer(compile: Any) -> Any:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
    return *trained(Tagger(layer), classes, compile, torch.optim.SGD), words_and_labels


@program()
def causal_transformer_with_dropout(compile: Any) -> Any:
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.places, self.drop = nn.Linear(WIDTH, 3 * WIDTH), nn.Embedding(64, WIDTH), nn.Dropout(0.2)

        def forward(self, x: Any) -> Any:
            x = x + self.places(torch.arange(x.shape[1]))
            q, k, v = self.qkv(x).chunk(3, -1)
            return x + self.drop(F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True))

    return *trained(Tagger(Causal()), next_words, compile, torch.optim.SGD), lambda *sizes: (words(*sizes),)


@program()
def attention_by_hand_with_lengths(compile: Any) -> Any:
    w = nn.Linear(WIDTH, WIDTH)

    def loss(model: Any, x: Any, lengths: Any) -> Any:
        n = x.shape[1]
        mask = torch.arange(n)[None] < lengths[:, None]
        scores = model(x) @ x.transpose(1, 2) / WIDTH**0.5
        weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(-1)
        return ((weights @ x) * mask[..., None]).pow(2).sum() / mask.sum()

    def batch(numbers: Any, n: int, count: int) -> Any:
        return *rows(numbers, n, count), torch.from_numpy(numbers.integers(1, n + 1, count))

    return *trained(w, loss, compile), batch


@program()
def convolution_over_time(compile: Any) -> Any:
    model = nn.Sequential(nn.Conv1d(WIDTH, 6, 3, padding=1), nn.ReLU(), nn.Conv1d(6, 4, 3))

    def loss(model: Any, x: Any) -> Any:
        return model(x.transpose(1, 2)).amax(-1).pow(2).mean()

    return *trained(model, loss, compile, torch.optim.SGD), rows


@program(walked=False)
def strided_convolution(compile: Any) -> Any:
    model = nn.Sequential(nn.Conv1d(WIDTH, 6, 3, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose1d(6, 4, 2, stride=2))
    return *trained(model, lambda m, x: m(x.transpose(1, 2)).pow(2).mean(), compile), rows


@program()
def the_first_of_them(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 4)

    def loss(model: Any, x: Any) -> Any:
        h = model(x)
        return h[:, :9].pow(2).sum() + (h[:, 1:] - h[:, :-1]).abs().mean() + h[:, -3:].sum(1).tanh().sum()

    return *trained(model, loss, compile), rows


@program()
def numbers_of_the_sizes(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 4)

    def loss(model: Any, x: Any) -> Any:
        count, n, _ = x.shape
        h = model(x).reshape(count * n, 4) / n + x.new_ones(count * n, 1) * 0.5
        table = torch.arange(n).float()[:, None] * 0.1
        return (h.view(count, n, 4) * table).sum() / (count * n) + h.var() * 0.1 + float(n) * h.mean()

    return *trained(model, loss, compile), rows


@program()
def pieces_put_together(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 6)

    def loss(model: Any, x: Any) -> Any:
        first, second, third = model(x).split(2, -1)
        whole = torch.cat([first, second.flip(1), third.cumsum(1)], 1)
        stacked = torch.stack([first, second], 0).transpose(0, 1)
        return whole.softmax(1).pow(2).sum() + stacked.sigmoid().mean() + F.pad(third, (0, 0, 2, 1)).logsumexp(1).sum()

    return *trained(model, loss, compile, torch.optim.RMSprop), rows


@program()
def normalized(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(WIDTH, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 6))
    model.append(nn.Flatten(0, 1))
    model.append(nn.BatchNorm1d(6))
    return *trained(model, lambda m, x: (m(x) - 0.3).abs().mean(), compile, torch.optim.SGD), rows


@program()
def clipped(compile: Any) -> Any:
    model = Tagger(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = classes(model, x, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return loss.item(), norm

    return step, lambda: [model, optimizer], words_and_labels


@program()
def a_model_alone(compile: Any) -> Any:
    model = Tagger(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    compiled = compile(model)
    return *trained(model, lambda m, x, y: classes(compiled, x, y), compile, whole=False), words_and_labels


@program()
def a_gradient_of_the_input(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 3)

    def loss(model: Any, x: Any) -> Any:
        return model(x.requires_grad_()).tanh().pow(2).sum() + (x * x).sum()

    step, watched = trained(model, loss, compile)
    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        kept.append(x)
        loss = step(x)
        del kept[:-3]
        return loss, [element.grad for element in kept]

    return keeping, watched, rows


@program()
def without_gradients(compile: Any) -> Any:
    model = Tagger(nn.LSTM(WIDTH, WIDTH, batch_first=True)).eval()
    kept: list[Any] = []

    @compile
    def answer(x: Any, y: Any) -> Any:
        with torch.no_grad():
            return model(x).argmax(-1), model(x).mean(1)

    def keeping(x: Any, y: Any) -> Any:
        kept.append(answer(x, y))
        del kept[:-3]
        return list(kept)

    return keeping, lambda: [model], words_and_labels


@program(walked=None)
def a_choice_in_the_middle(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 4)

    def loss(model: Any, x: Any) -> Any:
        h = model(x).tanh()
        return h.sum() if h[0, 0, 0] > 0 else (h * 2).mean()

    return *trained(model, loss, compile), rows


@program()
def ragged(compile: Any) -> Any:
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def batch(numbers: Any, n: int, count: int) -> Any:
        lengths = numbers.integers(1, n + 1, count)
        return torch.ragged_tensor(
            [torch.from_numpy(numbers.integers(0, WORDS, k)) for k in lengths]
        ), torch.from_numpy(numbers.integers(0, 3, count))

    return *trained(model, lambda m, x, y: F.cross_entropy(m(x).mean(1), y), compile), batch


@program()
def kernels_of_several_kinds(compile: Any) -> Any:
    """Among them such as have no items, whose words are laid out otherwise."""
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh())
    buffer = torch.zeros(4)

    def loss(model: Any, x: Any) -> Any:
        chosen = torch.where(buffer > 0, buffer, 0.1)
        repeated = chosen.unsqueeze(0).repeat(x.shape[1], 1)
        many = model(x).cumsum(1).diagonal(dim1=0, dim2=1).sum() * chosen.prod()
        return repeated.chunk(2, 1)[1].sum(1).pow(2).sum() + many.square().mean() + (model(x)[0] * repeated).sum()

    return *trained(model, loss, compile), rows


@program()
def picked_along_a_dim(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 5)

    def loss(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        chosen = scores.gather(2, y[..., None]).squeeze(2)
        best = scores.max(2).values - scores.amin(2)
        counts = torch.zeros(x.shape[0], 5).scatter_add(1, y, chosen)
        return (chosen - 0.9 * best).pow(2).mean() + counts.square().sum() / x.shape[1] + scores.logsumexp(2).mean()

    def batch(numbers: Any, n: int, count: int) -> Any:
        return *rows(numbers, n, count), torch.from_numpy(numbers.integers(0, 5, (count, n)))

    return *trained(model, loss, compile), batch


@program()
def statistics_of_rows(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 6)

    def loss(model: Any, x: Any) -> Any:
        h = model(x)
        spread = h.std(1).sum() + h.var(2, correction=0).mean() + h.norm(dim=2).mean()
        running = h.cumsum(1).tanh().mean() + h.flip(1).cummax(1).values.mean()
        waves = (h * torch.arange(x.shape[1])[:, None]).sin().mean() + torch.cos(h).amax(1).sum()
        return spread + running + waves + F.pad(h.transpose(1, 2), (2, 1), mode="reflect").square().mean()

    return *trained(model, loss, compile, torch.optim.SGD), rows


@program()
def repeated_and_masked(compile: Any) -> Any:
    model = nn.Linear(WIDTH, 4)

    def loss(model: Any, x: Any) -> Any:
        h = model(x)
        scores = h @ h.transpose(1, 2)
        causal = scores.tril() + scores.triu(1).roll(1, 0) + torch.diag_embed(h.sum(2))
        twice = h.repeat_interleave(2, 1) * h.repeat(1, 2, 1)
        return causal.softmax(2).square().sum() + twice.mean() + scores.diagonal(dim1=1, dim2=2).sigmoid().mean()

    return *trained(model, loss, compile), rows


@program(walked=None)
def packed_in_double_precision(compile: Any) -> Any:
    model = nn.LSTM(WIDTH, 6, batch_first=True, bidirectional=True).double()

    def loss(model: Any, x: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x.double(), lengths, batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        return h.square().sum(2).mean()

    def batch(numbers: Any, n: int, count: int) -> Any:
        lengths = numbers.integers(1, n, count)
        lengths[0] = n
        return *rows(numbers, n, count), torch.from_numpy(lengths)

    return *trained(model, loss, compile, torch.optim.SGD), batch
